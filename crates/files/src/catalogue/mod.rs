//! The catalogue: files on a bare SSD, by a format of our own.
//!
//! The header is written once. Two areas hold generations of the catalogue: each has all records, and a checksum. A commit
//! writes the data of files and the records of the next generation, over the older one, and makes them durable. Then it
//! writes the logical block with that generation's head, which an SSD writes whole or not at all. So one generation is whole
//! at any time, the data that it names is too, and a newer one that is not whole is damaged. docs/files.md has the bytes.

mod bare;
mod layout;
mod record;
mod space;
mod writer;

use layout::{Area, Header, Raw};
use record::Files;
#[cfg(feature = "s3")]
pub(crate) use record::ORIGIN_MAX;
pub(crate) use record::check_name;
pub(crate) use record::conflict;
pub use record::{File, Run};
pub use writer::{FormatOptions, Incoming, Writer};

use crate::file_system::no_folder;
use crate::{
    Entry, EntryKind, Error, Extent, FileMap, FileSystem, NamespaceId, OpenOptions, Source, WritableFile,
};

/// The files of a catalogue, as the newest whole generation has them.
#[derive(Clone, Debug)]
pub struct Catalogue {
    header: Header,
    generation: u64,
    /// The area that it was read from.
    area: usize,
    files: Files,
    /// Where it was read.
    namespace: Option<NamespaceId>,
}

impl Catalogue {
    /// Whether a source begins as a catalogue does.
    pub fn is_on(source: &dyn Source) -> Result<bool, Error> {
        Header::is_on(source)
    }

    /// Reads the newest generation.
    ///
    /// # Errors
    /// The newest generation is damaged: `options.allow_dirty` takes the one before, which lacks what the last commit
    /// brought, and may name space that was written since. Or something else was put on the SSD.
    pub fn open(source: &dyn Source, options: &OpenOptions) -> Result<Catalogue, Error> {
        let header = Header::read(source)?;
        header.refuse_others(source)?;
        let areas = [header.read_generation(source, 0), header.read_generation(source, 1)];
        let (area, Raw { generation, count, records }) = newest(areas, options.allow_dirty)?;
        let files = record::decode(&header, count, &records)?;
        Ok(Catalogue { header, generation, area, files, namespace: source.namespace() })
    }

    /// The UUID that formatting gave it.
    pub fn uuid(&self) -> String {
        let id = self.header.uuid;
        let part = |from: u32, digits: u32| (id >> from) & ((1 << (4 * digits)) - 1);
        let (a, b, c, d, e) = (part(96, 8), part(80, 4), part(64, 4), part(48, 4), part(0, 12));
        format!("{a:08x}-{b:04x}-{c:04x}-{d:04x}-{e:012x}")
    }

    /// The generation's number. Each commit adds one.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The unit of space in bytes: files begin at a multiple of it.
    pub fn unit(&self) -> u64 {
        self.header.unit
    }

    /// A file by its name.
    pub fn get(&self, name: &str) -> Option<&File> {
        self.files.get(name)
    }

    /// All files, by name.
    pub fn files(&self) -> impl ExactSizeIterator<Item = (&str, &File)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file))
    }

    /// The file `path`, or all files of the folder `path`; `/` is the folder of all.
    ///
    /// # Errors
    /// There is neither.
    pub fn below(&self, path: &str) -> Result<Vec<(&str, &File)>, Error> {
        let name = path.trim_matches('/');
        if let Some((name, file)) = self.files.get_key_value(name) {
            return if path.ends_with('/') { Err(no_folder(path)) } else { Ok(vec![(name, file)]) };
        }
        let found: Vec<_> = record::inside(&self.files, name).collect();
        match found.is_empty() && !name.is_empty() {
            true => Err(self.absent(path)),
            false => Ok(found),
        }
    }

    /// Why a file cannot have this name beside those that are there.
    ///
    /// # Errors
    /// The name is none, or is a folder of one of the files, or has one of them as its folder.
    pub fn check_name(&self, name: &str) -> Result<(), Error> {
        let refused = |limit: String| Error::Argument { object: "name", value: name.to_owned(), limit };
        check_name(name).map_err(|error| refused(error.to_string()))?;
        match conflict(&self.files, name) {
            Some(other) => Err(refused(both(other))),
            None => Ok(()),
        }
    }

    fn absent(&self, path: &str) -> Error {
        Error::absent(path, format!("the catalogue's {} files have none of this name", self.files.len()))
    }
}

/// What is wrong with a name beside `other`.
pub(crate) fn both(other: &str) -> String {
    format!("{other} is there, and a name is a file or a folder, not both")
}

/// The newest generation, and its area. A commit writes its head last, so a head that is newer than a whole generation has
/// all records, or they are damaged; an older one may be half overwritten.
fn newest(areas: [Area; 2], allow_dirty: bool) -> Result<(usize, Raw), Error> {
    let damaged = |reason: String| Error::damaged("catalogue", reason);
    match areas {
        [Area::Whole(one), Area::Whole(other)] if one.generation == other.generation => {
            Err(damaged(format!("both areas have generation {}", one.generation)))
        }
        [Area::Whole(one), Area::Whole(other)] if one.generation < other.generation => Ok((1, other)),
        [Area::Whole(one), Area::Whole(_) | Area::Empty] => Ok((0, one)),
        [Area::Empty, Area::Whole(other)] => Ok((1, other)),
        [Area::Whole(whole), Area::Broken { generation, reason }] => {
            despite((0, whole), 1, generation, &reason, allow_dirty)
        }
        [Area::Broken { generation, reason }, Area::Whole(whole)] => {
            despite((1, whole), 0, generation, &reason, allow_dirty)
        }
        [one, other] => {
            let [one, other] = [one, other].map(|area| match area {
                Area::Broken { reason, .. } => reason,
                _ => "there is none".to_owned(),
            });
            let reason = format!("neither generation can be read: in area 0 {one}; in area 1 {other}");
            Err(damaged(reason))
        }
    }
}

/// The whole generation, though the other area is broken: if that had an older one, or on request.
fn despite(
    whole: (usize, Raw),
    area: usize,
    generation: Option<u64>,
    reason: &str,
    allow_dirty: bool,
) -> Result<(usize, Raw), Error> {
    if allow_dirty || generation.is_some_and(|broken| broken < whole.1.generation) {
        return Ok(whole);
    }
    let before = whole.1.generation;
    let reason =
        format!("in area {area} {reason}; generation {before} is whole, and --allow-dirty reads that");
    Err(Error::damaged("catalogue", reason))
}

impl File {
    /// Where its bytes lie.
    pub fn map(&self) -> Result<FileMap, Error> {
        let mut offset = 0;
        let mut extents = Vec::with_capacity(self.runs.len());
        for run in &self.runs {
            extents.push(Extent { offset, at: run.at, bytes: run.bytes });
            offset += run.bytes;
        }
        FileMap::new(self.size, extents)
    }
}

impl FileSystem for Catalogue {
    fn kind(&self) -> &'static str {
        "catalogue"
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let folder = path.trim_matches('/');
        let file = |name: &str, size| Entry { name: name.to_owned(), kind: EntryKind::File, size };
        if let Some(found) = self.files.get(folder) {
            if path.ends_with('/') {
                return Err(no_folder(path));
            }
            let (_, last) = folder.rsplit_once('/').unwrap_or(("", folder));
            return Ok(vec![file(last, found.size)]);
        }
        let skipped = if folder.is_empty() { 0 } else { folder.len() + 1 };
        let mut entries: Vec<Entry> = Vec::new();
        for (name, found) in self.below(path)? {
            match name[skipped..].split_once('/') {
                None => entries.push(file(&name[skipped..], found.size)),
                // Files of one folder follow each other.
                Some((folder, _)) if entries.last().is_some_and(|last| last.name == folder) => {}
                Some((folder, _)) => {
                    entries.push(Entry { name: folder.to_owned(), kind: EntryKind::Directory, size: 0 });
                }
            }
        }
        Ok(entries)
    }

    fn file(&self, path: &str) -> Result<FileMap, Error> {
        match self.files.get(path.trim_start_matches('/')) {
            Some(file) => Ok(file.map()?.within(self.namespace.clone())),
            None => self.below(path).and(Err(Error::absent(path, "it is a folder, not a file"))),
        }
    }

    fn writable(&self, path: &str) -> Result<WritableFile, Error> {
        let reason = "a file of a catalogue has a CRC-32C of its contents; import it anew, which replaces it";
        self.file(path).and_then(|_| Err(Error::refused(path, reason)))
    }
}
