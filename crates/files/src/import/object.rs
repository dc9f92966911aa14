//! Objects of S3 and what speaks its protocol.

mod etag;

use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::stream::{self, StreamExt, TryStreamExt};
use object_store::aws::{AmazonS3, AmazonS3Builder};
use object_store::path::Path;
use object_store::{Error as StoreError, GetOptions, ObjectMeta, ObjectStore, ObjectStoreExt, RetryConfig};

use super::{Failure, Item, LOOK, Message, Out, Place};
use crate::Error;
use crate::catalogue::ORIGIN_MAX;
use etag::{Sums, Verdict};

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

/// What `bucket/prefix` names: one object, or all whose keys begin with `prefix/`. `None`: `stop` was set.
pub fn find(rest: &str, stop: &AtomicBool) -> Result<Option<Vec<Item>>, Error> {
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
    let listing = async {
        if prefix.parts_count() > 0 && !rest.ends_with('/') {
            match bucket.store.head(&prefix).await {
                Ok(meta) => return Ok(vec![meta]),
                Err(StoreError::NotFound { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        bucket.store.list(Some(&prefix)).try_collect().await
    };
    let Some(listed) = run(until_stopped(listing, stop))? else { return Ok(None) };
    let listed: Vec<ObjectMeta> = listed.map_err(|error| failed(&url, &error))?;
    let markers = markers(&listed, &prefix, rest.ends_with('/'));
    let objects = listed.into_iter().filter(|meta| !markers.contains(&meta.location));
    let items: Vec<_> = objects.map(|meta| item(&bucket, &prefix, meta)).collect();
    match items.iter().find(|item| item.origin.len() > ORIGIN_MAX) {
        Some(item) => {
            let limit = format!("{} has more than {ORIGIN_MAX} bytes in ETag and time", item.name);
            Err(Error::Argument { object: "origin", value: item.origin.clone(), limit })
        }
        None => Ok(Some(items)),
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

/// Runs `work` on this thread. Names that are still looked up then are not waited for.
fn run<T>(work: impl Future<Output = T>) -> Result<T, Error> {
    let built = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime =
        built.map_err(|error| Error::refused("object storage", format!("no event loop: {error}")))?;
    let done = runtime.block_on(work);
    runtime.shutdown_background();
    Ok(done)
}

/// What `work` comes to; `None`: `stop` was set before.
async fn until_stopped<T>(work: impl Future<Output = T>, stop: &AtomicBool) -> Option<T> {
    let mut work = std::pin::pin!(work);
    loop {
        match tokio::time::timeout(LOOK, &mut work).await {
            Ok(done) => return Some(done),
            Err(_) if stop.load(Ordering::Relaxed) => return None,
            Err(_) => {}
        }
    }
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
    run(async {
        let parts = objects.iter().flat_map(|(index, size, object)| parts(*index, *size, object));
        let mut arriving = stream::iter(parts)
            .map(|part| async move {
                let data = fetch(part.object, part.range.clone()).await;
                data.map(|data| (part, data))
            })
            .buffered(AT_ONCE);
        let mut sums = None;
        while let Some(arrived) = until_stopped(arriving.next(), out.stop).await.ok_or(Failure::Gone)? {
            let (part, data) = arrived?;
            let etag = part.object.meta.e_tag.as_deref().filter(|_| check_etag);
            let of_object = sums.get_or_insert_with(|| Sums::new(etag, part.object.meta.size));
            of_object.update(&data);
            if part.last
                && let Some(of_object) = sums.take()
                && compare(part.object, of_object)? == Verdict::Unknown
            {
                out.unchecked.fetch_add(1, Ordering::Relaxed);
            }
            out.send(Message::Piece { index: part.index, data, last: part.last })?;
        }
        Ok(())
    })?
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

/// Compares what came with the ETag.
fn compare(object: &Object, sums: Sums) -> Result<Verdict, Error> {
    let (size, etag) = (object.meta.size, object.meta.e_tag.as_deref().unwrap_or_default());
    match sums.verdict() {
        Verdict::Wrong(found) => {
            let reason = format!(
                "bytes 0 to {size} have MD5 {found}, and its ETag is {}; if the bucket's own key encrypts it, an ETag is no \
                 MD5: --no-etag-check",
                etag.trim_matches('"')
            );
            Err(Error::damaged(object.url(), reason))
        }
        verdict => Ok(verdict),
    }
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
