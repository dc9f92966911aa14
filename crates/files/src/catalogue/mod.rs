//! The catalogue: files on a bare SSD, by a format of our own.
//!
//! The header is written once. Two areas hold generations of the catalogue: each has all records, and a checksum. A commit
//! writes the data of files first, makes it durable, and then writes the next generation over the older one. So one
//! generation is whole at any time, and the data that it names is too. docs/files.md has the bytes.

mod bare;
mod layout;
mod record;
mod space;
mod writer;

use layout::{Header, Raw};
use record::Files;
pub use record::{File, Run, check_name};
pub use writer::{FormatOptions, Incoming, Writer};

use crate::{Entry, EntryKind, Error, Extent, FileMap, FileSystem, Source};

/// The files of a catalogue, as the newest whole generation has them.
#[derive(Clone, Debug)]
pub struct Catalogue {
    header: Header,
    generation: u64,
    /// The area that it was read from.
    area: usize,
    files: Files,
}

impl Catalogue {
    /// Whether a source begins as a catalogue does.
    pub fn is_on(source: &dyn Source) -> Result<bool, Error> {
        Header::is_on(source)
    }

    /// Reads the newest whole generation.
    ///
    /// # Errors
    /// Neither generation is whole, or the newest contradicts itself.
    pub fn open(source: &dyn Source) -> Result<Catalogue, Error> {
        let header = Header::read(source)?;
        let both = [header.read_generation(source, 0)?, header.read_generation(source, 1)?];
        let (area, Raw { generation, count, records }) = match both {
            [Ok(one), Ok(other)] if one.generation == other.generation => {
                let reason = format!("both areas have generation {}", one.generation);
                return Err(Error::damaged("catalogue", reason));
            }
            [Ok(one), Ok(other)] if one.generation < other.generation => (1, other),
            [Ok(one), _] => (0, one),
            [_, Ok(other)] => (1, other),
            [Err(one), Err(other)] => {
                let reason = format!("neither generation can be read: in area 0 {one}; in area 1 {other}");
                return Err(Error::damaged("catalogue", reason));
            }
        };
        let files = record::decode(&header, count, &records)?;
        Ok(Catalogue { header, generation, area, files })
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
            return Ok(vec![(name, file)]);
        }
        let found: Vec<_> = record::inside(&self.files, name).collect();
        match found.is_empty() && !name.is_empty() {
            true => Err(self.absent(path)),
            false => Ok(found),
        }
    }

    fn absent(&self, path: &str) -> Error {
        Error::absent(path, format!("the catalogue's {} files have none of this name", self.files.len()))
    }
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
            Some(file) => file.map(),
            None if self.below(path).is_ok() => Err(Error::absent(path, "it is a folder, not a file")),
            None => Err(self.absent(path)),
        }
    }
}
