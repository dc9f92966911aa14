//! Bringing files into a catalogue: one thread reads the sources, and the caller's writes the SSD.

mod local;
#[cfg(feature = "s3")]
mod object;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use crossbeam::channel::{Receiver, RecvTimeoutError, Sender, bounded};

use crate::catalogue::{Writer, both, check_name, conflict};
use crate::{Catalogue, Error};

/// Messages of the reader that wait for the writer. Each has at most [`PIECE`] bytes, or a part of an object.
const WAITING: usize = 8;
/// Bytes that are read of a file at once.
const PIECE: usize = 1 << 20;
/// Between two looks at the wish to stop, where nothing comes.
const LOOK: Duration = Duration::from_millis(100);

/// A file that is to come in.
#[derive(Debug)]
pub struct Item {
    /// Its name in the catalogue.
    pub name: String,
    /// Its bytes.
    pub size: u64,
    /// What is recorded of its source.
    origin: String,
    place: Place,
}

/// Where it comes from.
#[derive(Debug)]
enum Place {
    File(PathBuf),
    #[cfg(feature = "s3")]
    Object(object::Object),
}

warpbell_base::options! {
    /// How files come in.
    #[derive(Clone, Debug)]
    pub struct ImportOptions {
        /// A commit follows so many files, or so many bytes, whichever comes first.
        pub batch_files: u64,
        /// The bytes.
        pub batch_bytes: u64,
        /// Compare objects with their ETag, where that is an MD5 of their bytes or of their parts.
        pub check_etag: bool,
    }
}

impl Default for ImportOptions {
    fn default() -> Self {
        ImportOptions { batch_files: 1024, batch_bytes: 1 << 30, check_etag: true }
    }
}

/// What was done so far. Other threads may read it.
#[derive(Debug, Default)]
pub struct Counts {
    /// Files written.
    pub written: AtomicU64,
    /// Files that were there already.
    pub same: AtomicU64,
    /// Bytes of both.
    pub bytes: AtomicU64,
    /// Objects whose bytes were compared with nothing that their storage says of them.
    pub unchecked: AtomicU64,
    /// Commits.
    pub commits: AtomicU64,
}

/// How an import ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// All files are there.
    Done,
    /// It was asked to stop. Files that were whole are committed.
    Stopped,
}

/// Finds what `sources` name: files, folders, and `s3://bucket/prefix`. The names in the catalogue begin with `folder`.
/// `None`: `stop` was set before all was found.
///
/// # Errors
/// A source that cannot be read or has nothing in it, a name that a catalogue cannot have, or a name twice.
pub fn plan(sources: &[String], folder: &str, stop: &AtomicBool) -> Result<Option<Vec<Item>>, Error> {
    let mut all = BTreeMap::new();
    for source in sources {
        let found = match source.strip_prefix("s3://") {
            Some(rest) => objects(source, rest, stop)?,
            None => Some(local::find(source)?),
        };
        let Some(found) = found else { return Ok(None) };
        if found.is_empty() {
            return Err(Error::absent(source, "there is no file in it"));
        }
        for mut item in found {
            if !folder.is_empty() {
                item.name = format!("{folder}/{}", item.name);
            }
            let refused = |limit| Error::Argument { object: "name", value: item.name.clone(), limit };
            check_name(&item.name).map_err(|error| refused(error.to_string()))?;
            if all.contains_key(&item.name) {
                return Err(refused("two of the sources have a file of this name".to_owned()));
            }
            if let Some(other) = conflict(&all, &item.name) {
                return Err(refused(both(other)));
            }
            all.insert(item.name.clone(), item);
        }
    }
    Ok(Some(all.into_values().collect()))
}

#[cfg(feature = "s3")]
fn objects(_source: &str, rest: &str, stop: &AtomicBool) -> Result<Option<Vec<Item>>, Error> {
    object::find(rest, stop)
}

#[cfg(not(feature = "s3"))]
fn objects(source: &str, _rest: &str, _stop: &AtomicBool) -> Result<Option<Vec<Item>>, Error> {
    Err(Error::refused(source, "this build reads no object storage: it lacks the feature s3"))
}

/// What the reader says of the item of that number.
enum Message {
    /// It is there as it is.
    Same(usize),
    /// Its next bytes; after the last ones its source was as planned.
    Piece { index: usize, data: Vec<u8>, last: bool },
    /// It cannot be read.
    Failed(Error),
}

/// Whoever receives has gone: it failed, or was asked to stop.
struct Gone;

/// The way from the reader to the writer.
struct Out<'a> {
    sender: Sender<Message>,
    stop: &'a AtomicBool,
    #[cfg(feature = "s3")]
    unchecked: &'a AtomicU64,
}

impl Out<'_> {
    fn send(&self, message: Message) -> Result<(), Gone> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(Gone);
        }
        self.sender.send(message).map_err(|_| Gone)
    }
}

/// What the catalogue knows of a file: size, CRC-32C and origin.
type Known = Option<(u64, u32, String)>;

/// Brings `items` into a catalogue, and commits by batches. Files that are there with the same contents are left alone.
///
/// # Errors
/// A source or the SSD failed. Files that were whole are committed, if the SSD lets them.
pub fn import(
    writer: &mut Writer<'_>,
    items: &[Item],
    options: &ImportOptions,
    counts: &Counts,
    stop: &AtomicBool,
) -> Result<End, Error> {
    // All names before the first byte: else the import ends half way, and again each time.
    items.iter().try_for_each(|item| writer.catalogue().check_name(&item.name))?;
    let known: Vec<Known> = items.iter().map(|item| known(writer.catalogue(), &item.name)).collect();
    std::thread::scope(|scope| {
        let (sender, receiver) = bounded(WAITING);
        scope.spawn(|| {
            let out = Out {
                sender,
                stop,
                #[cfg(feature = "s3")]
                unchecked: &counts.unchecked,
            };
            if let Err(Failure::Source(error)) = read_all(items, &known, options, &out) {
                // Without a receiver nobody needs the reason.
                let _ = out.sender.send(Message::Failed(error));
            }
        });
        let mut taking = Taking { writer, items, options, counts, stop, files: 0, bytes: 0 };
        let taken = taking.all(&receiver);
        drop(receiver);
        match taken {
            Err(error @ Error::Io { action: "writing", .. }) => Err(error),
            Err(error) => taking.commit().and(Err(error)),
            Ok(end) => taking.commit().map(|()| end),
        }
    })
}

fn known(catalogue: &Catalogue, name: &str) -> Known {
    catalogue.get(name).map(|file| (file.size, file.crc, file.origin.clone()))
}

/// Why the reader ended early.
enum Failure {
    Gone,
    Source(Error),
}

impl From<Gone> for Failure {
    fn from(_: Gone) -> Failure {
        Failure::Gone
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        Failure::Source(error)
    }
}

/// Reads all items: first those of this machine.
fn read_all(items: &[Item], known: &[Known], options: &ImportOptions, out: &Out<'_>) -> Result<(), Failure> {
    #[cfg(feature = "s3")]
    let mut objects = Vec::new();
    for (index, (item, known)) in items.iter().zip(known).enumerate() {
        match &item.place {
            Place::File(path) => local::read(path, index, item.size, known, out)?,
            #[cfg(feature = "s3")]
            Place::Object(_)
                if matches!(known, Some((size, _, origin))
                if (*size, origin) == (item.size, &item.origin)) =>
            {
                out.send(Message::Same(index))?;
            }
            #[cfg(feature = "s3")]
            Place::Object(object) => objects.push((index, item.size, object)),
        }
    }
    #[cfg(feature = "s3")]
    object::read(&objects, options.check_etag, out)?;
    #[cfg(not(feature = "s3"))]
    let _ = options.check_etag;
    Ok(())
}

/// What the reader says next; `None`: it has ended, or `stop` was set while nothing came.
fn receive(receiver: &Receiver<Message>, stop: &AtomicBool) -> Option<Message> {
    loop {
        match receiver.recv_timeout(LOOK) {
            Ok(message) => return Some(message),
            Err(RecvTimeoutError::Disconnected) => return None,
            Err(RecvTimeoutError::Timeout) if stop.load(Ordering::Relaxed) => return None,
            Err(RecvTimeoutError::Timeout) => {}
        }
    }
}

/// The writing side.
struct Taking<'t, 'a> {
    writer: &'t mut Writer<'a>,
    items: &'t [Item],
    options: &'t ImportOptions,
    counts: &'t Counts,
    stop: &'t AtomicBool,
    /// Since the last commit.
    files: u64,
    bytes: u64,
}

impl Taking<'_, '_> {
    fn all(&mut self, receiver: &Receiver<Message>) -> Result<End, Error> {
        let mut left = self.items.len();
        while left > 0 {
            match receive(receiver, self.stop) {
                Some(Message::Same(index)) => {
                    self.counts.same.fetch_add(1, Ordering::Relaxed);
                    self.counts.bytes.fetch_add(self.items[index].size, Ordering::Relaxed);
                }
                Some(Message::Piece { index, data, last }) => {
                    if self.file(index, (data, last), receiver)? == End::Stopped {
                        return Ok(End::Stopped);
                    }
                }
                Some(Message::Failed(error)) => return Err(error),
                None => return Ok(End::Stopped),
            }
            left -= 1;
            if self.stop.load(Ordering::Relaxed) && left > 0 {
                return Ok(End::Stopped);
            }
        }
        Ok(End::Done)
    }

    /// Takes one file, of which the first bytes have come.
    fn file(
        &mut self,
        index: usize,
        first: (Vec<u8>, bool),
        receiver: &Receiver<Message>,
    ) -> Result<End, Error> {
        let item = &self.items[index];
        let mut incoming = self.writer.start(&item.name, item.size)?;
        let (mut data, mut last) = first;
        loop {
            incoming.write(&data)?;
            self.counts.bytes.fetch_add(data.len() as u64, Ordering::Relaxed);
            if last {
                break;
            }
            (data, last) = match receive(receiver, self.stop) {
                Some(Message::Piece { data, last, .. }) => (data, last),
                Some(Message::Failed(error)) => return Err(error),
                // The reader sends a file's pieces one after another.
                Some(Message::Same(_)) | None => return Ok(End::Stopped),
            };
        }
        incoming.finish(&item.origin)?;
        self.counts.written.fetch_add(1, Ordering::Relaxed);
        (self.files, self.bytes) = (self.files + 1, self.bytes + item.size);
        if self.files >= self.options.batch_files || self.bytes >= self.options.batch_bytes {
            self.commit()?;
        }
        Ok(End::Done)
    }

    fn commit(&mut self) -> Result<(), Error> {
        if self.files > 0 {
            self.writer.commit()?;
            self.counts.commits.fetch_add(1, Ordering::Relaxed);
            (self.files, self.bytes) = (0, 0);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_is_heard_while_nothing_comes() {
        let (sender, receiver) = bounded(1);
        let stop = AtomicBool::new(false);
        sender.send(Message::Same(3)).unwrap();
        assert!(matches!(receive(&receiver, &stop), Some(Message::Same(3))));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(2 * LOOK);
                stop.store(true, Ordering::Relaxed);
            });
            // The sender lives and sends nothing.
            assert!(receive(&receiver, &stop).is_none());
        });
        assert!(stop.load(Ordering::Relaxed), "not before it was asked to");
    }
}
