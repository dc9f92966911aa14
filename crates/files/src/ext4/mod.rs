//! ext4, ext3 and ext2 without a mount. Nothing is written, and no journal is replayed.

mod blocks;
mod directory;
mod group;
mod inode;
mod superblock;

use std::cell::{Cell, RefCell};
use std::collections::{HashMap, VecDeque};
use std::rc::Rc;

use crate::file_system::no_folder;
use crate::{Entry, EntryKind, Error, FileMap, FileSystem, OpenOptions, Source, WritableFile, read_file};
use inode::Inode;
use superblock::Superblock;

/// The inode of the topmost folder.
const ROOT: u32 = 2;
/// Symbolic links on the way to a file at most, as in Linux.
const LINKS_MAX: usize = 40;
/// Bytes of a symbolic link's target at most, as in Linux.
const TARGET_MAX: u64 = 4096;
/// Bytes of blocks that are kept.
const KEPT_BYTES: u64 = 4 << 20;

/// An ext4 file system, or an older one of its family.
pub struct Ext4<'a> {
    source: &'a dyn Source,
    superblock: Superblock,
    kept: RefCell<HashMap<u64, Rc<[u8]>>>,
    /// Blocks that were asked for, kept or not.
    asked: Cell<u64>,
}

impl<'a> Ext4<'a> {
    /// Whether `source` has one.
    pub fn is_on(source: &dyn Source) -> Result<bool, Error> {
        Superblock::is_on(source)
    }

    /// The error of a source that lost its superblock and has a backup of it. For sources where nothing else is known: the
    /// backup may be of an older file system.
    pub(crate) fn lost(source: &dyn Source) -> Result<Option<Error>, Error> {
        Superblock::lost(source)
    }

    /// Reads what the file system says of itself.
    ///
    /// # Errors
    /// Features that are not understood and file systems that were not unmounted are refused by name.
    pub fn open(source: &'a dyn Source, options: &OpenOptions) -> Result<Ext4<'a>, Error> {
        let superblock = Superblock::read(source, options)?;
        Ok(Ext4 { source, superblock, kept: RefCell::default(), asked: Cell::new(0) })
    }

    /// Where the bytes of an inode lie.
    pub(crate) fn map_of(&self, inode: u64) -> Result<FileMap, Error> {
        let number = u32::try_from(inode);
        let number =
            number.map_err(|_| Error::damaged(format!("ext4 inode {inode}"), "its number is above 2^32"))?;
        self.map(&self.inode(number)?)
    }

    /// Blocks of metadata that were asked for since it was opened, whether they were read or kept: the work that it cost.
    #[doc(hidden)]
    pub fn blocks_asked(&self) -> u64 {
        self.asked.get()
    }

    /// A block of metadata.
    fn block(&self, number: u64) -> Result<Rc<[u8]>, Error> {
        self.asked.set(self.asked.get() + 1);
        let Superblock { block, blocks, .. } = self.superblock;
        if number >= blocks {
            return Err(Error::damaged(format!("ext4 block {number}"), format!("there are {blocks} blocks")));
        }
        if let Some(known) = self.kept.borrow().get(&number) {
            return Ok(known.clone());
        }
        let mut bytes = vec![0; block as usize];
        self.source.read_at(number * block, &mut bytes)?;
        let bytes: Rc<[u8]> = bytes.into();
        let mut kept = self.kept.borrow_mut();
        if kept.len() as u64 * block >= KEPT_BYTES {
            kept.clear();
        }
        kept.insert(number, bytes.clone());
        Ok(bytes)
    }

    /// The inode that a path leads to. Symbolic links in it are followed.
    fn find(&self, path: &str) -> Result<Inode, Error> {
        let absent = |reason: String| Error::absent(path, reason);
        if !path.starts_with('/') {
            return Err(absent("a path begins with /".to_owned()));
        }
        let mut rest: VecDeque<Vec<u8>> = parts(path.as_bytes()).collect();
        let mut way = vec![self.inode(ROOT)?];
        let mut links = 0;
        while let Some(part) = rest.pop_front() {
            let Some(inode) = self.step(path, &mut way, &part)? else { continue };
            if inode.kind() != EntryKind::Symlink {
                way.push(inode);
                continue;
            }
            links += 1;
            if links > LINKS_MAX {
                return Err(absent(format!("more than {LINKS_MAX} symbolic links on the way")));
            }
            let target = self.target(&inode)?;
            if target.starts_with(b"/") {
                way.truncate(1);
            }
            parts(&target).collect::<Vec<_>>().into_iter().rev().for_each(|part| rest.push_front(part));
        }
        match way.pop() {
            Some(inode) if inode.kind() != EntryKind::Directory && path.ends_with('/') => {
                Err(no_folder(path))
            }
            found => found.ok_or_else(|| absent("it leads nowhere".to_owned())),
        }
    }

    /// What `part` names in the folder at the end of `way`; `None`: the way itself says it.
    fn step(&self, path: &str, way: &mut Vec<Inode>, part: &[u8]) -> Result<Option<Inode>, Error> {
        let absent = |reason: String| Error::absent(path, reason);
        let Some(folder) = way.last() else { return Ok(None) };
        if folder.kind() != EntryKind::Directory {
            return Err(absent(format!("what stands before {} is no folder", shown(part))));
        }
        match part {
            b"." => return Ok(None),
            b".." => {
                way.truncate((way.len() - 1).max(1));
                return Ok(None);
            }
            _ => {}
        }
        let same = |entry: directory::Name<'_>| Ok((entry.name == part).then_some(entry.inode));
        let number = self.names(folder, same)?;
        let number = number.ok_or_else(|| absent(format!("there is no {}", shown(part))))?;
        Ok(Some(self.inode(number)?))
    }

    /// Where a symbolic link leads.
    fn target(&self, inode: &Inode) -> Result<Vec<u8>, Error> {
        inode.refuse()?;
        if inode.size == 0 || inode.size > TARGET_MAX {
            let reason = format!("a symbolic link of {} bytes: expected 1 to {TARGET_MAX}", inode.size);
            return Err(Error::damaged(inode.name(), reason));
        }
        if inode.is_fast_link() {
            return Ok(inode.root[..inode.size as usize].to_vec());
        }
        let mut target = vec![0; inode.size as usize];
        read_file(self.source, &self.map(inode)?, 0, &mut target)?;
        Ok(target)
    }

    fn entry(&self, name: &[u8], number: u32) -> Result<Entry, Error> {
        let inode = self.inode(number)?;
        let kind = inode.kind();
        let size = if kind == EntryKind::File { inode.size } else { 0 };
        let name = String::from_utf8_lossy(name).into_owned();
        Ok(Entry { name, kind, size })
    }
}

/// The names in a path.
fn parts(path: &[u8]) -> impl Iterator<Item = Vec<u8>> {
    path.split(|byte| *byte == b'/').filter(|part| !part.is_empty()).map(<[u8]>::to_vec)
}

fn shown(part: &[u8]) -> String {
    format!("{:?}", String::from_utf8_lossy(part))
}

impl FileSystem for Ext4<'_> {
    fn kind(&self) -> &'static str {
        "ext4"
    }

    fn entries(&self, path: &str) -> Result<Vec<Entry>, Error> {
        let inode = self.find(path)?;
        if inode.kind() != EntryKind::Directory {
            let name = path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path);
            return Ok(vec![self.entry(name.as_bytes(), inode.number)?]);
        }
        let mut entries = Vec::new();
        self.names(&inode, |found| {
            if ![&b"."[..], b".."].contains(&found.name) {
                entries.push(self.entry(found.name, found.inode)?);
            }
            Ok(None::<()>)
        })?;
        Ok(entries)
    }

    fn file(&self, path: &str) -> Result<FileMap, Error> {
        let inode = self.find(path)?;
        match inode.kind() {
            EntryKind::File => Ok(self.map(&inode)?.within(self.source.namespace())),
            EntryKind::Directory => Err(Error::absent(path, "it is a folder")),
            _ => Err(Error::absent(path, "it is a device, a socket or a pipe")),
        }
    }

    fn writable(&self, path: &str) -> Result<WritableFile, Error> {
        if let Some(reason) = self.superblock.only_read {
            return Err(Error::refused("writing to ext4", reason));
        }
        let inode = self.find(path)?;
        if inode.kind() != EntryKind::File {
            return self.file(path).and(Err(Error::absent(path, "it is no file")));
        }
        inode.refuse_writes().map_err(|error| Error::refused(path, error))?;
        let (map, unwritten) = self.blocks(&inode)?;
        self.refuse_reserved(&map, &inode.name())?;
        Ok(WritableFile::new(map.within(self.source.namespace()), unwritten))
    }
}
