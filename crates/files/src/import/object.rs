//! Objects of S3 and what speaks its protocol.

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use md5::{Digest, Md5};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};

use super::{Failure, Item, Message, Out, Place};
use crate::Error;
use crate::catalogue::ORIGIN_MAX;

/// Bytes of a request at most: a larger object comes in several at once.
const PART: u64 = 8 << 20;
/// Requests at once.
const AT_ONCE: usize = 8;
/// How often a part is tried again after nothing has come.
const TRIES: u32 = 5;
/// The wait before the second try. It doubles.
const FIRST_WAIT: Duration = Duration::from_millis(50);

/// An object, as the listing had it.
#[derive(Debug)]
pub struct Object {
    bucket: Arc<Bucket>,
    meta: ObjectMeta,
}

#[derive(Debug)]
struct Bucket {
    name: String,
    store: AmazonS3,
}

impl Object {
    fn url(&self) -> String {
        format!("s3://{}/{}", self.bucket.name, self.meta.location)
    }
}

/// What `bucket/prefix` names: one object, or all whose keys begin with `prefix/`.
pub fn find(rest: &str) -> Result<Vec<Item>, Error> {
    let (name, prefix) = rest.split_once('/').unwrap_or((rest, ""));
    let url = format!("s3://{rest}");
    if name.is_empty() {
        return Err(Error::Argument {
            object: "source",
            value: url,
            limit: "expected s3://bucket/prefix".into(),
        });
    }
    let prefix = Path::parse(prefix.trim_end_matches('/')).map_err(|error| failed(&url, &error.into()))?;
    let bucket = bucket(name).map_err(|error| failed(&url, &error))?;
    let listed = runtime()?.block_on(async {
        if prefix.parts_count() > 0 && !rest.ends_with('/') {
            match bucket.store.head(&prefix).await {
                Ok(meta) => return Ok(vec![meta]),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        bucket.store.list(Some(&prefix)).try_collect().await
    });
    let listed: Vec<ObjectMeta> = listed.map_err(|error| failed(&url, &error))?;
    let markers = markers(&listed, &prefix, rest.ends_with('/'));
    let objects = listed.into_iter().filter(|meta| !markers.contains(&meta.location));
    let items: Vec<_> = objects.map(|meta| item(&bucket, &prefix, meta)).collect();
    match items.iter().find(|item| item.origin.len() > ORIGIN_MAX) {
        Some(item) => {
            let limit = format!("{} has more than {ORIGIN_MAX} bytes in ETag and time", item.name);
            Err(Error::Argument { object: "origin", value: item.origin.clone(), limit })
        }
        None => Ok(items),
    }
}

/// What consoles make of folders: objects without bytes, with others below them. They are not files.
fn markers(listed: &[ObjectMeta], prefix: &Path, is_folder: bool) -> HashSet<Path> {
    let mut folders = HashSet::new();
    if is_folder {
        folders.insert(prefix.as_ref().to_owned());
    }
    for meta in listed {
        let mut key = meta.location.as_ref();
        while let Some((above, _)) = key.rsplit_once('/') {
            folders.insert(above.to_owned());
            key = above;
        }
    }
    let empty = listed.iter().filter(|meta| meta.size == 0 && folders.contains(meta.location.as_ref()));
    empty.map(|meta| meta.location.clone()).collect()
}

fn bucket(name: &str) -> Result<Arc<Bucket>, StoreError> {
    // Another part of the process may have chosen already.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let retry =
        RetryConfig { max_retries: 2, retry_timeout: Duration::from_secs(60), ..RetryConfig::default() };
    let store = AmazonS3Builder::from_env().with_bucket_name(name).with_retry(retry).build()?;
    Ok(Arc::new(Bucket { name: name.to_owned(), store }))
}

fn runtime() -> Result<tokio::runtime::Runtime, Error> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    built.map_err(|error| Error::refused("object storage", format!("no event loop: {error}")))
}

fn item(bucket: &Arc<Bucket>, prefix: &Path, meta: ObjectMeta) -> Item {
    let key = &meta.location;
    let name = match key.as_ref().strip_prefix(prefix.as_ref()) {
        Some("") | None => key.filename().unwrap_or(key.as_ref()),
        Some(name) => name.trim_start_matches('/'),
    };
    let origin = format!("{} {}", meta.e_tag.as_deref().unwrap_or("-"), meta.last_modified.to_rfc3339());
    let (name, size) = (name.to_owned(), meta.size);
    Item { name, size, origin, place: Place::Object(Object { bucket: bucket.clone(), meta }) }
}

/// A part of an object.
#[derive(Clone)]
struct Part<'a> {
    index: usize,
    object: &'a Object,
    range: Range<u64>,
    last: bool,
}

/// Reads objects, several parts at once, and hands them on in order.
pub fn read(objects: &[(usize, u64, &Object)], check_etag: bool, out: &Out<'_>) -> Result<(), Failure> {
    if objects.is_empty() {
        return Ok(());
    }
    runtime()?.block_on(async {
        let parts = objects.iter().flat_map(|(index, size, object)| parts(*index, *size, object));
        let mut arriving = stream::iter(parts)
            .map(|part| async move {
                let data = fetch(part.object, part.range.clone()).await;
                data.map(|data| (part, data))
            })
            .buffered(AT_ONCE);
        let mut sum = Md5::new();
        while let Some(arrived) = arriving.next().await {
            let (part, data) = arrived?;
            if check_etag {
                sum.update(&data);
                if part.last {
                    compare(part.object, part.range.end, &sum.finalize_reset())?;
                }
            }
            out.send(Message::Piece { index: part.index, data, last: part.last })?;
        }
        Ok(())
    })
}

fn parts(index: usize, size: u64, object: &Object) -> impl Iterator<Item = Part<'_>> {
    let count = size.div_ceil(PART).max(1);
    (0..count).map(move |part| {
        let start = part * PART;
        Part { index, object, range: start..(start + PART).min(size), last: part + 1 == count }
    })
}

/// Fetches a part. What has come is kept when the connection ends, and the rest is asked for.
async fn fetch(object: &Object, range: Range<u64>) -> Result<Vec<u8>, Error> {
    let wanted = (range.end - range.start) as usize;
    let mut data = Vec::with_capacity(wanted);
    let mut tries = 0;
    while data.len() < wanted {
        let before = data.len();
        let at = range.start + before as u64;
        let Err(error) = fetch_more(object, at..range.end, &mut data).await else { continue };
        let final_one = matches!(
            error,
            StoreError::NotFound { .. }
                | StoreError::Precondition { .. }
                | StoreError::PermissionDenied { .. }
                | StoreError::Unauthenticated { .. }
        );
        tries = if data.len() > before { 0 } else { tries + 1 };
        if final_one || tries >= TRIES {
            let at = range.start + data.len() as u64;
            return Err(failed(&format!("{} at byte {at}", object.url()), &error));
        }
        tokio::time::sleep(FIRST_WAIT * 2_u32.pow(tries)).await;
    }
    Ok(data)
}

async fn fetch_more(object: &Object, range: Range<u64>, data: &mut Vec<u8>) -> Result<(), StoreError> {
    let end = data.len() as u64 + (range.end - range.start);
    // Without an ETag the time tells an object from one that has taken its place.
    let etag = object.meta.e_tag.clone();
    let options = GetOptions {
        range: Some(range.into()),
        if_unmodified_since: etag.is_none().then_some(object.meta.last_modified),
        if_match: etag,
        ..Default::default()
    };
    let mut bytes = object.bucket.store.get_opts(&object.meta.location, options).await?.into_stream();
    while let Some(more) = bytes.next().await {
        let more = more?;
        if data.len() as u64 + more.len() as u64 > end {
            let source = format!("more than the {end} bytes came that were asked for").into();
            return Err(StoreError::Generic { store: "S3", source });
        }
        data.extend_from_slice(&more);
    }
    if (data.len() as u64) < end {
        let source = format!("the answer ended after {} of {end} bytes", data.len()).into();
        return Err(StoreError::Generic { store: "S3", source });
    }
    Ok(())
}

/// Compares what came with the ETag: the MD5 of objects that were written in one request.
fn compare(object: &Object, size: u64, sum: &[u8]) -> Result<(), Error> {
    let Some(etag) = object.meta.e_tag.as_deref().map(|etag| etag.trim_matches('"')) else { return Ok(()) };
    if etag.len() != 32 || !etag.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return Ok(());
    }
    let found: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
    if etag.eq_ignore_ascii_case(&found) {
        return Ok(());
    }
    let reason = format!(
        "bytes 0 to {size} have MD5 {found}, and its ETag is {etag}; if the bucket's own key encrypts it, an ETag is no MD5: \
         --no-etag-check"
    );
    Err(Error::damaged(object.url(), reason))
}

fn failed(what: &str, error: &StoreError) -> Error {
    let reason = chain(error);
    match error {
        StoreError::NotFound { .. } => Error::absent(what, reason),
        _ => Error::File { action: "reading", path: what.to_owned(), source: std::io::Error::other(reason) },
    }
}

/// An error with all its causes.
fn chain(error: &dyn std::error::Error) -> String {
    let mut reason = error.to_string();
    let mut next = error.source();
    while let Some(cause) = next {
        let cause_text = cause.to_string();
        if !reason.contains(&cause_text) {
            reason = format!("{reason}: {cause_text}");
        }
        next = cause.source();
    }
    reason
}
