//! Changes a catalogue: data first, then the generation that names it.

use std::mem;

use super::bare::refuse_other;
use super::layout::{AREA_BYTES, AREAS_AT, HEAD_BYTES, HEADER_BYTES, Header};
use super::record::{self, File, ORIGIN_MAX, Run};
use super::space::Space;
use super::{Catalogue, record::encode};
use crate::{Error, OpenOptions, Store};

/// Bytes that one write has at most. Small files that lie side by side are written together.
const GATHER: usize = 1 << 20;

warpbell_base::options! {
    /// How a catalogue is made.
    #[derive(Clone, Copy, Debug, Default)]
    pub struct FormatOptions {
        /// Overwrite what else is on the SSD.
        pub force: bool,
        /// The unit of space, for files that must begin at stripes; `None`: 4096 bytes, or the block size if it is larger.
        pub unit: Option<u64>,
        /// Bytes of each of the two areas; `None`: a sixty-fourth of the SSD, 64 MiB at most.
        pub area_bytes: Option<u64>,
    }
}

/// A catalogue that is changed. What was not committed was never there.
pub struct Writer<'a> {
    store: &'a dyn Store,
    catalogue: Catalogue,
    space: Space,
    /// Space of files that the last durable generation still names.
    freed: Vec<Run>,
    gather: Gather,
    /// Bytes of the records.
    records: usize,
    changed: bool,
}

/// Bytes that wait to be written together.
#[derive(Debug, Default)]
struct Gather {
    at: u64,
    bytes: Vec<u8>,
}

impl<'a> Writer<'a> {
    /// Makes an empty catalogue.
    ///
    /// # Errors
    /// The SSD holds something else, unless that is to be overwritten; or the options do not fit it.
    pub fn format(store: &'a dyn Store, options: &FormatOptions) -> Result<Writer<'a>, Error> {
        let header = new_header(store, options)?;
        if !options.force {
            refuse_other(store, &header)?;
        }
        // An older header goes first, with the signatures of whatever else was there; then older generations.
        let zeroes = vec![0; AREAS_AT as usize];
        let least = least_write(store);
        write_all(store, 0, &zeroes)?;
        write_all(store, (header.total - AREAS_AT) / least * least, &zeroes)?;
        store.flush()?;
        write_all(store, header.area(0), &header.encode_generation(1, 0, &[]))?;
        write_all(store, header.area(1), &[0; HEADER_BYTES])?;
        store.flush()?;
        write_all(store, 0, &header.encode())?;
        store.flush()?;
        Writer::open(store)
    }

    /// Opens the catalogue of a store.
    pub fn open(store: &'a dyn Store) -> Result<Writer<'a>, Error> {
        // What is read may not be durable yet: space that it frees must not be written before.
        store.flush()?;
        let catalogue = Catalogue::open(store, &OpenOptions::default())?;
        let used = catalogue.files.values().flat_map(|file| file.runs.iter().copied());
        let space = Space::new(catalogue.header.data(), used);
        let records = catalogue.files().map(|(name, file)| record::length(name, file)).sum();
        Ok(Writer {
            store,
            catalogue,
            space,
            freed: Vec::new(),
            gather: Gather::default(),
            records,
            changed: false,
        })
    }

    /// The catalogue as it will be after a commit.
    pub fn catalogue(&self) -> &Catalogue {
        &self.catalogue
    }

    /// Bytes that are free: those of files removed since the last commit are not yet.
    pub fn free_bytes(&self) -> u64 {
        self.space.total()
    }

    /// Begins a file of `size` bytes. It replaces one of the same name when it is finished.
    ///
    /// # Errors
    /// The name is none, or contradicts another; or there is no space.
    pub fn start<'w>(&'w mut self, name: &str, size: u64) -> Result<Incoming<'w, 'a>, Error> {
        self.catalogue.check_name(name)?;
        let taken =
            size.checked_next_multiple_of(self.catalogue.header.unit).and_then(|it| self.space.take(it));
        let Some(runs) = taken else {
            let free = self.space.total();
            let limit =
                format!("{name} has {size} bytes, and {free} are free; remove files, or use a larger SSD");
            return Err(Error::Argument { object: "space for a file:", value: size.to_string(), limit });
        };
        let file = File { size, crc: 0, origin: String::new(), runs };
        Ok(Incoming { writer: self, name: name.to_owned(), file, written: 0, run: 0, within: 0 })
    }

    /// Removes a file.
    pub fn remove(&mut self, name: &str) -> Result<(), Error> {
        let Some((name, file)) = self.catalogue.files.remove_entry(name) else {
            return Err(self.catalogue.absent(name));
        };
        self.forget(&name, file);
        Ok(())
    }

    fn forget(&mut self, name: &str, file: File) {
        self.records -= record::length(name, &file);
        self.freed.extend(file.runs);
        self.changed = true;
    }

    /// Makes all changes durable: data and the records that name it, over those of the older generation; then the head.
    pub fn commit(&mut self) -> Result<(), Error> {
        if !self.changed {
            return Ok(());
        }
        self.gather.write(self.store)?;
        let Catalogue { header, generation, area, files, .. } = &self.catalogue;
        let (next, other) = (generation + 1, 1 - area);
        let mut bytes = header.encode_generation(next, files.len() as u64, &encode(files));
        let (at, block) = (header.area(other), self.store.block_size() as usize);
        bytes.resize(bytes.len().next_multiple_of(block), 0);
        let (head, records) = bytes.split_at(block);
        write_all(self.store, at + block as u64, records)?;
        self.store.flush()?;
        self.store.write_at(at, head)?;
        self.store.flush()?;
        (self.catalogue.generation, self.catalogue.area) = (next, other);
        for run in mem::take(&mut self.freed) {
            self.space.give(run);
        }
        self.changed = false;
        Ok(())
    }

    /// Whether there is room for a file's record.
    fn check_room(&self, name: &str, file: &File) -> Result<(), Error> {
        let (files, room) = (&self.catalogue.files, self.catalogue.header.area_bytes as usize - HEAD_BYTES);
        let old = files.get(name).map_or(0, |old| record::length(name, old));
        let after = self.records - old + record::length(name, file);
        if after <= room {
            return Ok(());
        }
        let value = format!("{after} bytes for {} files", files.len() + usize::from(old == 0));
        let limit =
            format!("there is room for {room}; format the SSD with a larger area (--catalogue-bytes)");
        Err(Error::Argument { object: "catalogue", value, limit })
    }

    /// Takes up `file`, in the place of an older one.
    fn insert(&mut self, name: String, file: File) {
        self.records += record::length(&name, &file);
        if let Some(old) = self.catalogue.files.insert(name.clone(), file) {
            self.forget(&name, old);
        }
        self.changed = true;
    }
}

/// A file that comes in. Dropped before it is finished, it was never there.
pub struct Incoming<'w, 'a> {
    writer: &'w mut Writer<'a>,
    name: String,
    file: File,
    written: u64,
    /// The run that is filled, and how far.
    run: usize,
    within: u64,
}

impl Incoming<'_, '_> {
    /// The next bytes.
    pub fn write(&mut self, mut from: &[u8]) -> Result<(), Error> {
        if from.len() as u64 > self.file.size - self.written {
            let value = format!("{} and {} bytes", self.written, from.len());
            let limit = format!("{} has {} bytes", self.name, self.file.size);
            return Err(Error::Argument { object: "bytes of a file:", value, limit });
        }
        self.file.crc = crc32c::crc32c_append(self.file.crc, from);
        self.written += from.len() as u64;
        while !from.is_empty() {
            let run = self.file.runs[self.run];
            let now = (run.bytes - self.within).min(from.len() as u64);
            let (bytes, rest) = from.split_at(now as usize);
            self.writer.gather.add(self.writer.store, run.at + self.within, bytes)?;
            self.within += now;
            if self.within == run.bytes {
                (self.run, self.within) = (self.run + 1, 0);
            }
            from = rest;
        }
        Ok(())
    }

    /// The file is whole: it is part of the next commit. `origin` is what its source says of itself.
    ///
    /// # Errors
    /// Bytes are missing, or the catalogue has no room.
    pub fn finish(mut self, origin: &str) -> Result<(), Error> {
        if self.written != self.file.size {
            let limit = format!("{} has {} bytes", self.name, self.file.size);
            let value = self.written.to_string();
            return Err(Error::Argument { object: "bytes of a file:", value, limit });
        }
        if origin.len() > ORIGIN_MAX {
            let limit = format!("at most {ORIGIN_MAX} bytes");
            return Err(Error::Argument { object: "origin", value: origin.to_owned(), limit });
        }
        origin.clone_into(&mut self.file.origin);
        self.writer.check_room(&self.name, &self.file)?;
        self.writer.gather.pad(least_write(self.writer.store));
        let empty = File { size: 0, crc: 0, origin: String::new(), runs: Vec::new() };
        let file = mem::replace(&mut self.file, empty);
        self.writer.insert(mem::take(&mut self.name), file);
        Ok(())
    }
}

impl Drop for Incoming<'_, '_> {
    fn drop(&mut self) {
        // What waits to be written may be of this file, and its space goes to another one.
        if !self.file.runs.is_empty() {
            let runs = &self.file.runs;
            let gather = &mut self.writer.gather;
            gather.forget(runs);
            runs.iter().for_each(|run| self.writer.space.give(*run));
        }
    }
}

impl Gather {
    fn end(&self) -> u64 {
        self.at + self.bytes.len() as u64
    }

    fn add(&mut self, store: &dyn Store, at: u64, mut from: &[u8]) -> Result<(), Error> {
        if at != self.end() {
            self.write(store)?;
            self.at = at;
        }
        while !from.is_empty() {
            let (now, rest) = from.split_at(from.len().min(GATHER - self.bytes.len()));
            self.bytes.extend_from_slice(now);
            if self.bytes.len() == GATHER {
                self.write(store)?;
            }
            from = rest;
        }
        Ok(())
    }

    /// Fills up to a whole block.
    fn pad(&mut self, least: u64) {
        self.bytes.resize(self.bytes.len().next_multiple_of(least as usize), 0);
    }

    /// Drops what is of `runs`, which is the end of it.
    fn forget(&mut self, runs: &[Run]) {
        let mine = |at: u64| runs.iter().any(|run| (run.at..run.end()).contains(&at));
        while !self.bytes.is_empty() && mine(self.end() - 1) {
            let last = runs.iter().find(|run| (run.at..run.end()).contains(&(self.end() - 1)));
            let start = last.map_or(self.at, |run| run.at.max(self.at));
            self.bytes.truncate((start - self.at) as usize);
        }
    }

    fn write(&mut self, store: &dyn Store) -> Result<(), Error> {
        if !self.bytes.is_empty() {
            store.write_at(self.at, &self.bytes)?;
            self.at = self.end();
            self.bytes.clear();
        }
        Ok(())
    }
}

/// Bytes that are written at least: whole blocks, and whole pages.
fn least_write(store: &dyn Store) -> u64 {
    u64::from(store.block_size()).max(4096)
}

fn new_header(store: &dyn Store, options: &FormatOptions) -> Result<Header, Error> {
    let (total, least) = (store.bytes(), least_write(store));
    let (low, high) = AREA_BYTES.into_inner();
    let default = (total / 64).next_multiple_of(least).clamp(low.next_multiple_of(least), high / 4);
    let header = Header {
        uuid: uuid(),
        unit: options.unit.unwrap_or(least),
        area_bytes: options.area_bytes.unwrap_or(default),
        total,
    };
    let value = format!("of {total} bytes");
    let refused = |limit| Error::Argument { object: "catalogue", value, limit };
    header.check(store.block_size().into()).map_err(|error| refused(error.to_string()))?;
    Ok(header)
}

/// A random UUID: version 4.
fn uuid() -> u128 {
    let random: u128 = rand::random();
    random & !(0xf << 76) & !(0x3 << 62) | 4 << 76 | 2 << 62
}

/// Writes `bytes` in large commands, with zeroes up to a whole block.
fn write_all(store: &dyn Store, at: u64, bytes: &[u8]) -> Result<(), Error> {
    let mut gather = Gather::default();
    gather.add(store, at, bytes)?;
    gather.pad(store.block_size().into());
    gather.write(store)
}
