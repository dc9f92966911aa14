//! A manifest beside its SSD: whether it is the SSD, and whether it is still as it was.

use sha2::{Digest, Sha256};

use super::bytes::Windows;
use super::stamp::{Superblock, UNCLEAN};
use super::{Captured, CapturedFile, Change, Checksum, Kind, Manifest};
use crate::{Error, Ext4, FileMap, OpenOptions, Partition, Piece, Source, append_zeroes};

/// Changes that a refusal names.
const NAMED: usize = 6;
/// Bytes of a file that are read at a time.
const CHUNK: usize = 1 << 20;

/// Which namespace of which SSD a source is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The SSD's serial number.
    pub serial: String,
    /// The namespace.
    pub nsid: u32,
}

/// A checksum of bytes in order.
#[derive(Clone, Debug)]
pub enum Sum {
    /// None.
    None,
    /// CRC-32C.
    Crc32c(u32),
    /// SHA-256.
    Sha256(Box<Sha256>),
}

impl Sum {
    /// The checksum of no bytes.
    pub fn new(checksum: Checksum) -> Sum {
        match checksum {
            Checksum::None => Sum::None,
            Checksum::Crc32c => Sum::Crc32c(0),
            Checksum::Sha256 => Sum::Sha256(Box::default()),
        }
    }

    /// Adds the next bytes.
    pub fn add(&mut self, bytes: &[u8]) {
        match self {
            Sum::None => {}
            Sum::Crc32c(sum) => *sum = crc32c::crc32c_append(*sum, bytes),
            Sum::Sha256(sum) => sum.update(bytes),
        }
    }

    /// Adds so many zeroes: a hole. CRC-32C takes no time for them.
    pub fn add_zeroes(&mut self, count: u64) {
        match self {
            Sum::None => {}
            Sum::Crc32c(sum) => *sum = append_zeroes(*sum, count),
            Sum::Sha256(sum) => {
                let zeroes = [0; 4096];
                for start in (0..count).step_by(zeroes.len()) {
                    sum.update(&zeroes[..(count - start).min(zeroes.len() as u64) as usize]);
                }
            }
        }
    }

    /// In hexadecimal.
    pub fn finish(self) -> Option<String> {
        match self {
            Sum::None => None,
            Sum::Crc32c(sum) => Some(format!("{sum:08x}")),
            Sum::Sha256(sum) => Some(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect()),
        }
    }
}

/// What finds the extents of an ext4 itself; none where it has features that only Linux knows.
fn reader<'a>(space: &'a dyn Source) -> Result<Option<Ext4<'a>>, Error> {
    match Ext4::open(space, &OpenOptions { allow_dirty: true }) {
        Err(Error::Refused { .. }) => Ok(None),
        opened => opened.map(Some),
    }
}

/// The first byte of a file that lies elsewhere now. Its inode says nothing where `e4defrag` has moved it.
fn moved(file: &CapturedFile, is: &FileMap) -> Result<Option<Change>, Error> {
    let was = Manifest::map(file)?;
    let (mut before, mut after) = (was.pieces(0, file.size)?, is.pieces(0, file.size)?);
    let mut offset = 0;
    loop {
        let (was, is) = (before.next(), after.next());
        if was != is {
            let place = |piece: Option<Piece>| match piece {
                Some(Piece::Data { at, bytes }) => format!("{bytes} bytes at byte {at}"),
                Some(Piece::Hole { bytes }) => format!("a hole of {bytes} bytes"),
                None => "the end".to_owned(),
            };
            return Ok(Change::between(
                format!("{}: from offset {offset} on", file.path),
                &place(was),
                &place(is),
            ));
        }
        let Some(piece) = was else { return Ok(None) };
        offset += piece.bytes();
    }
}

impl Manifest {
    /// The files, if the source is what was captured, and nothing has changed.
    ///
    /// # Errors
    /// Another SSD, another file system, and a stale manifest: with what differs.
    pub fn open(&self, source: &dyn Source, identity: Option<&Identity>) -> Result<Captured, Error> {
        let changes = self.changes(source, identity)?;
        if changes.is_empty() {
            return Captured::new(self, source.namespace());
        }
        let mut words: Vec<String> = changes.iter().take(NAMED).map(Change::to_string).collect();
        if changes.len() > NAMED {
            words.push(format!("and {} more", changes.len() - NAMED));
        }
        let reason = format!("stale (manifest → SSD): {}; capture it anew", words.join("; "));
        Err(Error::refused("manifest", reason))
    }

    /// What differs between the manifest and the source.
    ///
    /// # Errors
    /// A source that has no file system that is known, or fails.
    pub fn changes(&self, source: &dyn Source, identity: Option<&Identity>) -> Result<Vec<Change>, Error> {
        let other = self.other_device(source, identity);
        if !other.is_empty() {
            return Ok(other);
        }
        let source: &dyn Source = &Windows::new(source);
        let superblock = Superblock::read(source, self.place().0)?;
        let (was, is) = (&self.file_system, superblock.id());
        let other: Vec<Change> = [
            Change::between("file system", &was.kind, &is.kind),
            Change::between("UUID", &was.uuid, &is.uuid),
            Change::between("block size", &was.block_size, &is.block_size),
        ]
        .into_iter()
        .flatten()
        .collect();
        if !other.is_empty() {
            return Ok(other);
        }
        let mut changes = superblock.changes(source, &self.stamp)?;
        if changes.iter().any(|change| change.is == UNCLEAN) {
            return Ok(changes); // Inodes may be old: the new ones are in the journal.
        }
        // In the order of inodes, which lie beside each other.
        let mut files: Vec<&CapturedFile> = self.files.iter().collect();
        files.sort_by_key(|file| file.inode);
        let space = Partition::new(source, self.place().0, self.place().1 - self.place().0)?;
        let reader = match self.file_system.kind {
            Kind::Ext4 => reader(&space)?,
            Kind::Xfs => None, // Its log has what moves extents, too.
        };
        for file in files {
            let of_inode = superblock.inode(source, file.inode)?.changes(file);
            if let (Some(reader), true) = (&reader, of_inode.is_empty()) {
                changes.extend(moved(file, &reader.map_of(file.inode)?.moved(space.start())?)?);
            }
            changes.extend(of_inode);
        }
        Ok(changes)
    }

    fn other_device(&self, source: &dyn Source, identity: Option<&Identity>) -> Vec<Change> {
        let mut changes = vec![
            Change::between("bytes of the namespace", &self.device.bytes, &source.bytes()),
            Change::between("logical block size", &self.device.block_size, &source.block_size()),
        ];
        if let Some(identity) = identity {
            let serial = self.device.serial.as_ref();
            changes.push(serial.and_then(|was| Change::between("serial number", was, &identity.serial)));
            changes.push(self.device.nsid.and_then(|was| Change::between("namespace", &was, &identity.nsid)));
        }
        changes.into_iter().flatten().collect()
    }

    /// The checksum of a file as it is on the source; `each` hears of the bytes that were read, and whether to go on is its
    /// answer.
    ///
    /// # Errors
    /// What the source says, and an end before the file's.
    pub fn sum(
        &self,
        source: &dyn Source,
        file: &CapturedFile,
        each: &mut dyn FnMut(u64) -> bool,
    ) -> Result<Option<String>, Error> {
        let (map, mut sum) = (Manifest::map(file)?, Sum::new(self.checksum));
        let mut chunk = vec![0; CHUNK];
        // CRC-32C takes no time for a hole, SHA-256 as much as for data.
        let hole_step = if self.checksum == Checksum::Crc32c { u64::MAX } else { CHUNK as u64 };
        let pieces = map.pieces(0, file.size)?.filter(|_| self.checksum != Checksum::None);
        for piece in pieces {
            let mut done = 0;
            while done < piece.bytes() {
                let left = piece.bytes() - done;
                let now = match piece {
                    Piece::Data { at, .. } => {
                        let now = left.min(CHUNK as u64);
                        source.read_at(at + done, &mut chunk[..now as usize])?;
                        sum.add(&chunk[..now as usize]);
                        now
                    }
                    Piece::Hole { .. } => {
                        let now = left.min(hole_step);
                        sum.add_zeroes(now);
                        now
                    }
                };
                done += now;
                if !each(now) {
                    return Err(Error::refused(file.path.clone(), "interrupted before all of it was read"));
                }
            }
        }
        Ok(sum.finish())
    }
}
