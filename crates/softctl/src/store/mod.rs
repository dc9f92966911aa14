//! Where namespaces keep their blocks.

mod cache;
mod file;
mod memory;
mod ranges;
mod table;

pub(crate) use cache::WriteCache;
pub(crate) use file::FileStore;
pub(crate) use memory::MemoryStore;
pub(crate) use ranges::Taken;
pub(crate) use table::{Namespaces, Published, Table};

use std::sync::Arc;

use crate::config::{NamespaceConfig, StoreConfig};
use crate::error::SoftError;
use warpbell_hw::{Lba, Nsid};

/// Why a store did not deliver or take bytes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StoreError {
    /// The file ends before bytes that it had when it was opened.
    #[error("the file ends before byte {offset}")]
    Shrunk { offset: u64 },
    /// The system refused.
    #[error(transparent)]
    System(#[from] std::io::Error),
}

/// Most bytes that one command without data (Write Zeroes, Dataset Management) puts into a volatile write cache: more
/// go through it, because the cache keeps a copy of what they replace.
const CACHED: u64 = 16 << 20;

/// Memory comes in whole blocks of the largest size, so that a namespace can be formatted to any.
const GRANULE: u64 = 4096;

/// The bytes of one namespace. Clones are the same bytes.
#[derive(Clone, Debug)]
pub(crate) enum Store {
    Memory(MemoryStore),
    File(Arc<FileStore>),
}

/// One namespace: a store, seen as blocks. Clones share the store.
#[derive(Clone, Debug)]
pub(crate) struct Namespace {
    pub(crate) nsid: u32,
    /// A block has `1 << shift` bytes.
    pub(crate) shift: u8,
    pub(crate) blocks: u64,
    /// Bytes before the zero tail.
    pub(crate) exact: u64,
    pub(crate) writable: bool,
    pub(crate) store: Store,
    /// `None`: every write is durable at once.
    pub(crate) cache: Option<Arc<WriteCache>>,
}

impl Namespace {
    /// Opens the namespace `nsid`. `shared` says that several threads will access it at a time.
    pub(crate) fn open(nsid: u32, config: &NamespaceConfig, shared: bool) -> Result<Namespace, SoftError> {
        let block = u64::from(config.block_size);
        let (exact, writable) = match &config.store {
            StoreConfig::Memory { bytes } => (*bytes, true),
            StoreConfig::File { path, writable } => (FileStore::length(path)?, *writable),
        };
        let blocks = exact.div_ceil(block).max(1);
        let store = match &config.store {
            StoreConfig::Memory { .. } => Store::Memory(MemoryStore::new(granules(exact), shared)?),
            StoreConfig::File { path, writable } => {
                Store::File(Arc::new(FileStore::open(path, *writable, exact)?))
            }
        };
        let shift = block.trailing_zeros() as u8;
        Ok(Namespace { nsid, shift, blocks, exact, writable, store, cache: None })
    }

    /// The same namespace in blocks of `1 << shift` bytes.
    pub(crate) fn reformatted(&self, shift: u8) -> Namespace {
        let blocks = self.exact.div_ceil(1 << shift).max(1);
        let cache = self.cache.as_ref().map(|_| Arc::default());
        Namespace { shift, blocks, cache, ..self.clone() }
    }

    /// The same namespace without its data: fresh memory, or the file, cleared.
    pub(crate) fn erased(&self, shared: bool) -> Result<Namespace, SoftError> {
        let Store::File(file) = &self.store else {
            let store = Store::Memory(MemoryStore::new(granules(self.exact), shared)?);
            let cache = self.cache.as_ref().map(|_| Arc::default());
            return Ok(Namespace { store, cache, ..self.clone() });
        };
        file.zero(0, self.exact).map_err(|error| self.failure(&error))?;
        self.flushed()?;
        Ok(self.clone())
    }

    /// Whether this is `earlier` itself: the same bytes in the same blocks.
    pub(crate) fn is_still(&self, earlier: &Namespace) -> bool {
        let same = match (&self.store, &earlier.store) {
            (Store::Memory(one), Store::Memory(other)) => one.is(other),
            (Store::File(one), Store::File(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        same && self.shift == earlier.shift
    }

    /// [`Namespace::flush`] for a namespace as a whole.
    pub(crate) fn flushed(&self) -> Result<(), SoftError> {
        self.flush().map_err(|error| self.failure(&error))
    }

    fn failure(&self, error: &StoreError) -> SoftError {
        SoftError::Store { nsid: Nsid(self.nsid), lba: Lba(0), reason: error.to_string() }
    }

    /// Bytes that are stored: all but a file's zero tail.
    pub(crate) fn stored(&self) -> u64 {
        match self.store {
            Store::Memory(_) => self.blocks << self.shift,
            Store::File(_) => self.exact,
        }
    }

    /// The first thing that the system refused about its file, in words.
    pub(crate) fn file_failure(&self) -> Option<&str> {
        match &self.store {
            Store::Memory(_) => None,
            Store::File(file) => file.failure(),
        }
    }

    /// Whether nobody can have put data there before the controller started.
    pub(crate) fn is_fresh(&self) -> bool {
        matches!(self.store, Store::Memory(_))
    }

    /// Bytes of the subsystem's capacity that it takes: none if it is over a file.
    pub(crate) fn allocated(&self) -> u64 {
        match self.store {
            Store::Memory(_) => granules(self.exact),
            Store::File(_) => 0,
        }
    }

    /// The memory that it keeps its blocks in, if it does.
    pub(crate) fn memory(&self) -> Option<&MemoryStore> {
        match &self.store {
            Store::Memory(memory) => Some(memory),
            Store::File(_) => None,
        }
    }

    pub(crate) fn block_size(&self) -> u32 {
        1 << self.shift
    }

    /// Byte offset of a block.
    #[inline]
    pub(crate) fn offset(&self, lba: Lba) -> u64 {
        lba.get() << self.shift
    }

    /// Whether `count` blocks from `lba` on exist.
    #[inline]
    pub(crate) fn contains(&self, lba: Lba, count: u64) -> bool {
        lba.get() < self.blocks && count <= self.blocks - lba.get()
    }

    /// Whether a write to these blocks must be refused: nothing may be written, or the last of them is partly the
    /// file's and partly the zero tail.
    #[inline]
    pub(crate) fn protected(&self, lba: Lba, count: u64) -> bool {
        !self.writable || (self.has_tail() && lba.get() + count == self.blocks)
    }

    /// Whether the last block of a file is not wholly in the file.
    fn has_tail(&self) -> bool {
        matches!(self.store, Store::File(_)) && self.exact != self.blocks << self.shift
    }

    /// The exact length to report beside the size in blocks.
    pub(crate) fn reported_length(&self) -> Option<u64> {
        matches!(self.store, Store::File(_)).then_some(self.exact)
    }

    /// Copies bytes out.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), StoreError> {
        match &self.store {
            Store::Memory(memory) => {
                memory.read_bytes(offset, into);
                Ok(())
            }
            Store::File(file) => file.read(offset, into),
        }
    }

    /// Copies bytes in. The caller has checked `protected`.
    pub(crate) fn write(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        self.before_write(offset, from.len() as u64)?;
        self.store.write(offset, from)
    }

    /// Copies bytes in past the write cache: no loss of power takes them back.
    pub(crate) fn overwrite(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        self.store.write(offset, from)
    }

    /// Makes bytes read as zero. The caller has checked `protected`. A range that is too long for the write cache is
    /// durable at once.
    pub(crate) fn zero(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        if self.cache.is_some() && len > CACHED {
            self.store.zero(offset, len)?;
            return self.make_durable(offset, len);
        }
        self.before_write(offset, len)?;
        self.store.zero(offset, len)
    }
}

impl Store {
    fn zero(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        match self {
            Store::Memory(memory) => {
                memory.zero(offset, len);
                Ok(())
            }
            Store::File(file) => file.zero(offset, len),
        }
    }

    fn write(&self, offset: u64, from: &[u8]) -> Result<(), StoreError> {
        match self {
            Store::Memory(memory) => {
                memory.write_bytes(offset, from);
                Ok(())
            }
            Store::File(file) => file.write(offset, from),
        }
    }

    fn flush(&self) -> Result<(), StoreError> {
        match self {
            Store::Memory(_) => Ok(()),
            Store::File(file) => file.flush(),
        }
    }
}

/// `bytes` rounded up to what a namespace in memory takes.
pub(crate) fn granules(bytes: u64) -> u64 {
    bytes.max(1).next_multiple_of(GRANULE)
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    fn file_of(bytes: &[u8]) -> tempfile::NamedTempFile {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        file
    }

    fn open(file: &tempfile::NamedTempFile, block: u32, writable: bool) -> Namespace {
        Namespace::open(1, &NamespaceConfig::file(file.path(), block, writable), false).unwrap()
    }

    #[test]
    fn files_of_every_odd_length_have_a_zero_tail() {
        for len in [1usize, 511, 512, 513, 4095, 4096, 4097] {
            for block in [512u32, 4096] {
                let bytes: Vec<u8> = (0..len).map(|i| i as u8 | 1).collect();
                let namespace = open(&file_of(&bytes), block, false);
                assert_eq!(namespace.blocks, (len as u64).div_ceil(block.into()).max(1));
                assert_eq!(namespace.reported_length(), Some(len as u64));
                let mut all = vec![0xee; (namespace.blocks << namespace.shift) as usize];
                namespace.read(0, &mut all).unwrap();
                assert_eq!(&all[..len], &bytes[..]);
                assert!(all[len..].iter().all(|b| *b == 0), "length {len}, block {block}");
            }
        }
    }

    #[test]
    fn the_unaligned_tail_and_read_only_files_are_protected() {
        let file = file_of(&[7; 1300]);
        let namespace = open(&file, 512, true);
        assert!(!namespace.protected(Lba(0), 2));
        assert!(namespace.protected(Lba(2), 1) && namespace.protected(Lba(0), 3));
        assert!(open(&file, 512, false).protected(Lba(0), 1));
        let whole = file_of(&[7; 1024]);
        assert!(!open(&whole, 512, true).protected(Lba(0), 2));
        let memory = Namespace::open(1, &NamespaceConfig::memory(1000, 512), false).unwrap();
        assert!(!memory.protected(Lba(0), 2), "memory has no file to protect");
    }

    #[test]
    fn a_growing_file_keeps_its_tail_and_a_truncated_one_reports_it() {
        let mut file = file_of(&[7; 1000]);
        let namespace = open(&file, 512, false);
        file.write_all(&[9; 5000]).unwrap();
        let mut bytes = [0xee; 1024];
        namespace.read(0, &mut bytes).unwrap();
        assert!(bytes[..1000].iter().all(|b| *b == 7) && bytes[1000..].iter().all(|b| *b == 0));
        file.as_file().set_len(700).unwrap();
        namespace.read(0, &mut bytes[..512]).unwrap();
        let error = namespace.read(512, &mut bytes[512..]).unwrap_err();
        assert!(matches!(error, StoreError::Shrunk { offset: 700 }), "{error}");
        file.as_file().set_len(0).unwrap();
        assert!(namespace.read(0, &mut bytes).is_err());
    }

    #[test]
    fn sparse_files_read_as_zero_and_zeroing_makes_them_so() {
        let file = file_of(b"");
        file.as_file().set_len(1 << 30).unwrap();
        let namespace = open(&file, 4096, true);
        let mut block = [0xee; 4096];
        namespace.read((1 << 30) - 4096, &mut block).unwrap();
        assert!(block.iter().all(|b| *b == 0));
        namespace.write(8192, &[5; 4096]).unwrap();
        namespace.flush().unwrap();
        namespace.zero(8192, 4096).unwrap();
        namespace.read(8192, &mut block).unwrap();
        assert!(block.iter().all(|b| *b == 0));
        assert_eq!(file.as_file().metadata().unwrap().len(), 1 << 30);
    }

    #[test]
    fn what_cannot_be_opened_is_named() {
        let error = |path: &std::path::Path, writable| {
            Namespace::open(1, &NamespaceConfig::file(path, 512, writable), false).unwrap_err().to_string()
        };
        let missing = error("/nonexistent/disk.img".as_ref(), false);
        assert!(missing.starts_with("cannot open /nonexistent/disk.img for reading: "), "{missing}");
        let directory = tempfile::tempdir().unwrap();
        let text = error(directory.path(), false);
        assert!(text.contains("neither a regular file nor a block device"), "{text}");
        let text = error(file_of(&[]).path(), false);
        assert!(text.contains("it is empty") && text.contains("truncate -s 1g"), "{text}");
    }

    #[test]
    fn a_file_has_one_writer_and_any_number_of_readers() {
        let file = file_of(&[7; 4096]);
        let again = |writable| Namespace::open(1, &NamespaceConfig::file(file.path(), 512, writable), false);
        let first = open(&file, 512, true);
        assert!(matches!(again(true), Err(SoftError::Locked { .. })));
        again(false).unwrap();
        drop(first);
        again(true).unwrap();
    }

    #[test]
    fn memory_is_zero_at_first_and_keeps_what_is_written() {
        for shared in [false, true] {
            let namespace = Namespace::open(1, &NamespaceConfig::memory(8 << 20, 4096), shared).unwrap();
            let mut bytes = vec![0xee; 200_000];
            namespace.read(4096, &mut bytes).unwrap();
            assert!(bytes.iter().all(|b| *b == 0));
            let pattern: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
            namespace.write(60_000, &pattern).unwrap();
            namespace.read(60_000, &mut bytes).unwrap();
            assert_eq!(bytes, pattern);
            namespace.zero(61_000, 198_000).unwrap();
            namespace.read(60_000, &mut bytes).unwrap();
            assert_eq!(bytes[..1000], pattern[..1000]);
            assert!(bytes[1000..199_000].iter().all(|b| *b == 0));
            assert_eq!(bytes[199_000..], pattern[199_000..]);
            namespace.zero(0, 8 << 20).unwrap();
            namespace.read(60_000, &mut bytes).unwrap();
            assert!(bytes.iter().all(|b| *b == 0));
        }
    }

    #[test]
    fn what_is_too_long_for_the_cache_is_durable_at_once() {
        use rand::SeedableRng;
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        let mut namespace = Namespace::open(1, &NamespaceConfig::memory(2 * CACHED, 512), false).unwrap();
        namespace.cache = Some(Arc::default());
        for (len, left) in [(CACHED, 1), (2 * CACHED, 0)] {
            namespace.write(0, &[1; 512]).unwrap();
            namespace.flush().unwrap();
            namespace.write(0, &[2; 512]).unwrap();
            namespace.zero(0, len).unwrap();
            namespace.lose_power(0.0, &mut random);
            let mut block = [0xee; 512];
            namespace.read(0, &mut block).unwrap();
            assert_eq!(block, [left; 512], "{len} bytes");
        }
    }

    #[test]
    fn power_takes_back_what_was_not_flushed() {
        use rand::SeedableRng;
        let mut random = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
        let mut namespace = Namespace::open(1, &NamespaceConfig::memory(8192, 512), false).unwrap();
        namespace.cache = Some(Arc::default());
        let first = |namespace: &Namespace, lba: u64| {
            let mut block = [0; 512];
            namespace.read(lba * 512, &mut block).unwrap();
            assert!(block.iter().all(|byte| *byte == block[0]), "block {lba} is torn");
            block[0]
        };
        namespace.write(0, &[1; 1024]).unwrap();
        namespace.flush().unwrap();
        namespace.write(0, &[2; 512]).unwrap();
        namespace.write(0, &[3; 512]).unwrap();
        namespace.zero(512, 512).unwrap();
        namespace.write(1024, &[4; 1024]).unwrap();
        namespace.make_durable(1024, 512).unwrap();
        namespace.lose_power(0.0, &mut random);
        assert_eq!([0, 1, 2, 3].map(|lba| first(&namespace, lba)), [1, 1, 4, 0]);
        namespace.write(0, &[5; 8192]).unwrap();
        namespace.lose_power(0.5, &mut random);
        let kept = (0..16).filter(|lba| first(&namespace, *lba) == 5).count();
        assert!((1..16).contains(&kept), "{kept} of 16 blocks survived");
    }
}
