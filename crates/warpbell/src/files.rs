//! An SSD as what file systems lie on, and files as kernels read them.

use warpbell_files::{Error as FileError, FileMap, NamespaceId, Source, Store};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi;
use zerocopy::IntoBytes;

use crate::{Attachment, Error, KernelMemory, Ssd, Target};

/// A namespace, read and written by the host's own queue ([`Ssd::read`], [`Ssd::write`]).
#[derive(Clone, Copy)]
pub struct SsdSource<'a> {
    ssd: &'a Ssd,
    nsid: Nsid,
    block: u32,
    bytes: u64,
}

impl<'a> SsdSource<'a> {
    /// A namespace of `ssd`; `None`: the first usable one.
    pub fn new(ssd: &'a Ssd, nsid: Option<Nsid>) -> Result<SsdSource<'a>, Error> {
        let namespace = ssd.namespace(nsid)?;
        let (nsid, block) = (namespace.nsid, namespace.block_size);
        Ok(SsdSource { ssd, nsid, block, bytes: namespace.blocks * u64::from(block) })
    }

    /// What tells the namespace from all others.
    pub fn id(&self) -> NamespaceId {
        self.ssd.namespace_id(self.nsid)
    }

    /// The SSD.
    pub fn ssd(&self) -> &'a Ssd {
        self.ssd
    }

    fn failed(action: &'static str, offset: u64, bytes: usize) -> impl FnOnce(Error) -> FileError {
        move |source| FileError::Io { action, offset, bytes: bytes as u64, source: source.into() }
    }

    fn read_blocks(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let (lba, bytes) = (Lba(offset / u64::from(self.block)), into.len());
        self.ssd.read(Some(self.nsid), lba, into).map_err(Self::failed("reading", offset, bytes))
    }
}

impl Source for SsdSource<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_size(&self) -> u32 {
        self.block
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let block = u64::from(self.block);
        let (mut next, mut rest) = (offset, into);
        while !rest.is_empty() {
            let skipped = (next % block) as usize;
            let whole = rest.len() / block as usize * block as usize;
            if skipped == 0 && whole > 0 {
                let (now, later) = rest.split_at_mut(whole);
                self.read_blocks(next, now)?;
                (next, rest) = (next + whole as u64, later);
                continue;
            }
            // A head or tail that is not a whole block.
            let wanted = (skipped + rest.len()).min(block as usize) - skipped;
            let mut bounce = vec![0; block as usize];
            self.read_blocks(next - skipped as u64, &mut bounce)?;
            let (now, later) = rest.split_at_mut(wanted);
            now.copy_from_slice(&bounce[skipped..skipped + wanted]);
            (next, rest) = (next + wanted as u64, later);
        }
        Ok(())
    }

    fn namespace(&self) -> Option<NamespaceId> {
        Some(self.id())
    }
}

impl Store for SsdSource<'_> {
    fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), FileError> {
        let block = u64::from(self.block);
        if !offset.is_multiple_of(block) {
            let limit = format!("must be a multiple of the block size, {block} bytes");
            return Err(FileError::Argument { object: "offset", value: offset.to_string(), limit });
        }
        self.ssd.write(Some(self.nsid), Lba(offset / block), from).map_err(Self::failed(
            "writing",
            offset,
            from.len(),
        ))
    }

    fn flush(&self) -> Result<(), FileError> {
        self.ssd.flush(Some(self.nsid)).map_err(Self::failed("writing", 0, 0))
    }
}

/// Where a file lies, for kernels (`file.cuh`): its extents as blocks of a namespace, in memory that kernels read.
pub struct FileTable {
    memory: KernelMemory,
    reference: abi::FileRef,
    namespace: NamespaceId,
    target: Target,
}

impl FileTable {
    /// The table of a file on the namespace that `queues` are attached for.
    ///
    /// # Errors
    /// A file that is known to lie in another namespace; extents that are not whole blocks of the namespace, or lie behind its end, or more than 2^32 of them.
    pub fn new(queues: &Attachment, map: &FileMap) -> Result<FileTable, Error> {
        map.check(queues.namespace_id())?;
        let namespace = queues.namespace();
        let (shift, last) = (namespace.block_shift, namespace.blocks.saturating_sub(1));
        let block = 1u64 << shift;
        let (mut firsts, mut extents) = (Vec::new(), Vec::new());
        for extent in map.extents() {
            let argument = |limit: String| Error::Argument {
                object: "extent of a file",
                value: format!("{} bytes at byte {}, of offset {}", extent.bytes, extent.at, extent.offset),
                limit,
            };
            if [extent.offset, extent.at, extent.bytes].iter().any(|value| !value.is_multiple_of(block)) {
                return Err(argument(format!("must be whole blocks of the namespace, {block} bytes each")));
            }
            let (first, lba, blocks) = (extent.offset >> shift, extent.at >> shift, extent.bytes >> shift);
            if lba + blocks > namespace.blocks {
                return Err(argument(format!("the namespace has blocks 0 to {last}")));
            }
            firsts.push(first);
            extents.push(abi::FileExtent { lba, blocks });
        }
        let count = u32::try_from(extents.len()).map_err(|_| Error::Argument {
            object: "extents of a file",
            value: extents.len().to_string(),
            limit: format!("at most {}", u32::MAX),
        })?;
        let extents_at = size_of_val(&firsts[..]);
        let memory = queues.target().memory(extents_at + size_of_val(&extents[..]))?;
        memory.write(0, firsts.as_bytes())?;
        memory.write(extents_at, extents.as_bytes())?;
        let reference = abi::FileRef {
            firsts: memory.address(),
            extents: memory.address() + extents_at as u64,
            bytes: map.size(),
            count,
            block_shift: shift,
            ..abi::FileRef::new()
        };
        let (namespace, target) = (queues.namespace_id().clone(), queues.target().target());
        Ok(FileTable { memory, reference, namespace, target })
    }

    /// The kernel argument that names the file, for kernels that read it by `queues`: those it was made for, or others of
    /// the same namespace. Valid while this lives, or a launch that keeps [`memory`](Self::memory).
    ///
    /// # Errors
    /// Queues of another namespace, of which kernels would read blocks that are not the file's; or of another target.
    pub fn reference(&self, queues: &Attachment) -> Result<abi::FileRef, Error> {
        self.namespace.check(queues.namespace_id())?;
        if self.target != queues.target().target() {
            let limit = format!("its queues are for kernels on {}", queues.target().target());
            return Err(Error::Argument {
                object: "table of a file for",
                value: self.target.to_string(),
                limit,
            });
        }
        Ok(self.reference)
    }

    /// Bytes of the file.
    pub fn bytes(&self) -> u64 {
        self.reference.bytes
    }

    /// Bytes of a block, as a power of two.
    pub(crate) fn block_shift(&self) -> u32 {
        self.reference.block_shift
    }

    /// The table itself: for [`Launch::keep`](crate::Launch::keep).
    pub fn memory(&self) -> KernelMemory {
        self.memory.clone()
    }
}

#[cfg(test)]
mod tests {
    use warpbell_files::Extent;

    use super::*;
    use crate::{AttachOptions, OpenOptions};

    #[test]
    fn tables_are_of_whole_blocks_that_the_namespace_has() {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::new()).unwrap();
        let queues = ssd.attach(&AttachOptions::new()).unwrap();
        let table = |extent| FileTable::new(&queues, &FileMap::new(5000, vec![extent]).unwrap());
        let of = table(Extent { offset: 512, at: 1 << 19, bytes: 4096 }).unwrap();
        let reference = of.reference(&queues).unwrap();
        assert_eq!((reference.count, reference.bytes, reference.block_shift), (1, 5000, 9));
        let mut words = [0u64; 3];
        of.memory().read(0, words.as_mut_bytes()).unwrap();
        assert_eq!(words, [1, 1024, 8], "the extent's first block, then where it lies");
        let error = |extent| table(extent).err().unwrap().to_string();
        let odd = error(Extent { offset: 0, at: 100, bytes: 512 });
        assert_eq!(
            odd,
            "extent of a file 512 bytes at byte 100, of offset 0: must be whole blocks of the namespace, 512 bytes each"
        );
        let beyond = error(Extent { offset: 0, at: (1 << 20) - 512, bytes: 1024 });
        assert!(beyond.ends_with("the namespace has blocks 0 to 2047"), "{beyond}");
    }

    #[test]
    fn files_and_their_tables_stay_in_their_namespace() {
        let open = |name: &str| Ssd::open(&name.parse().unwrap(), &OpenOptions::new()).unwrap();
        let (ssd, other) = (open("soft:size=1m,size=1m"), open("soft:size=1m,size=1m"));
        let queues = |ssd: &Ssd, nsid| ssd.attach(&AttachOptions::new().nsid(Some(Nsid(nsid)))).unwrap();
        let (own, second, foreign) = (queues(&ssd, 1), queues(&ssd, 2), queues(&other, 1));
        let id = ssd.namespace_id(Nsid(1));
        assert_eq!(SsdSource::new(&ssd, None).unwrap().namespace(), Some(id.clone()));
        let map = FileMap::whole(4096).within(Some(id));
        let table = FileTable::new(&own, &map).unwrap();
        table.reference(&own).unwrap();
        for (queues, names) in
            [(&second, "with namespace 2 of soft:"), (&foreign, "with namespace 1 of soft:")]
        {
            for refused in [table.reference(queues).err(), FileTable::new(queues, &map).err()] {
                let text = refused.unwrap().to_string();
                assert!(text.starts_with("file of namespace 1 of soft:size=1m,size=1m (serial"), "{text}");
                assert!(text.contains(names), "{text}");
            }
        }
        // A file that nobody found is anywhere; its table is not.
        let table = FileTable::new(&second, &FileMap::whole(4096)).unwrap();
        assert!(table.reference(&second).is_ok() && table.reference(&own).is_err());
        let tile = |queues| crate::Tile::of_file(0, (&map, queues), (0, 512));
        assert_eq!(tile(&own).unwrap(), crate::Tile::linear(0, 0, 1));
        assert!(tile(&second).unwrap_err().to_string().starts_with("file of namespace 1"));
    }

    #[test]
    fn any_bytes_of_an_ssd_can_be_read() {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::new()).unwrap();
        let source = SsdSource::new(&ssd, None).unwrap();
        let data: Vec<u8> = (0..4096u32).map(|i| ((i * 7) >> 2) as u8).collect();
        source.write_at(1024, &data).unwrap();
        Store::flush(&source).unwrap();
        assert_eq!((source.bytes(), source.block_size()), (1 << 20, 512));
        for (offset, bytes) in [(1024, 4096), (1025, 1), (1500, 100), (1600, 2000), (2047, 1026), (1536, 600)]
        {
            let mut into = vec![0; bytes];
            source.read_at(offset, &mut into).unwrap();
            let at = offset as usize - 1024;
            assert!(into == data[at..at + bytes], "{bytes} bytes at {offset}");
        }
        let error = source.read_at((1 << 20) - 1, &mut [0; 2]).unwrap_err().to_string();
        assert!(error.contains("namespace 1 has blocks 0 to 2047"), "{error}");
        assert!(source.write_at(100, &[0; 512]).unwrap_err().to_string().starts_with("offset 100: "));
    }
}
