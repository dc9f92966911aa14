//! Where a file lies, as kernels read it (`abi_file.h`).

use warpbell_files::{FileMap, NamespaceId};
use warpbell_kernels::abi;
use zerocopy::IntoBytes;

use crate::{Attachment, Error, KernelMemory, Target};

/// Their buckets are counted by 32 bits.
const MOST_EXTENTS: usize = 1 << 31;

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
    /// A file that is known to lie in another namespace; extents that are not whole blocks of the namespace, or lie behind
    /// its end, or more than 2^31 of them.
    pub fn new(queues: &Attachment, map: &FileMap) -> Result<FileTable, Error> {
        map.check(queues.namespace_id())?;
        let extents = extents_of(map, &queues.namespace())?;
        let buckets = Buckets::of(&extents);
        let buckets_at = size_of_val(&extents[..]);
        let memory = queues.target().memory(buckets_at + size_of_val(&buckets.names[..]))?;
        memory.write(0, extents.as_bytes())?;
        memory.write(buckets_at, buckets.names.as_bytes())?;
        let reference = abi::FileRef {
            extents: memory.address(),
            buckets: memory.address() + buckets_at as u64,
            bytes: map.size(),
            count: extents.len() as u32,
            block_shift: queues.namespace().block_shift,
            bucket_count: buckets.names.len() as u32 - 1,
            bucket_shift: buckets.shift,
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

/// The extents of a file in blocks.
fn extents_of(map: &FileMap, namespace: &abi::NamespaceRef) -> Result<Vec<abi::FileExtent>, Error> {
    let (shift, last) = (namespace.block_shift, namespace.blocks.saturating_sub(1));
    let block = 1u64 << shift;
    let mut extents = Vec::with_capacity(map.extents().len());
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
        extents.push(abi::FileExtent { first, blocks, lba, reserved: 0 });
    }
    if extents.len() > MOST_EXTENTS {
        let (value, limit) = (extents.len().to_string(), format!("at most {MOST_EXTENTS}"));
        return Err(Error::Argument { object: "extents of a file", value, limit });
    }
    Ok(extents)
}

/// Where kernels begin to search: `warpbell_file_ref` says what a bucket names.
struct Buckets {
    shift: u32,
    names: Vec<u32>,
}

impl Buckets {
    /// At most twice as many as extents, of the smallest size that does.
    fn of(extents: &[abi::FileExtent]) -> Buckets {
        let last = extents.last().map_or(0, |extent| extent.first);
        let most = (extents.len() as u64 * 2).max(1);
        let shift = (0..u64::BITS).find(|shift| last >> shift < most).expect("0 is below 1");
        let until = |block| extents.partition_point(|extent| extent.first <= block).saturating_sub(1) as u32;
        let begins = (0..=last >> shift).map(|bucket| until(bucket << shift));
        Buckets { shift, names: begins.chain([until(u64::MAX)]).collect() }
    }
}

#[cfg(test)]
mod tests {
    use warpbell_files::{Extent, Source as _};
    use warpbell_hw::Nsid;

    use super::*;
    use crate::{AttachOptions, OpenOptions, Ssd, SsdSource};

    #[test]
    fn tables_are_of_whole_blocks_that_the_namespace_has() {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::new()).unwrap();
        let queues = ssd.attach(&AttachOptions::new()).unwrap();
        let table = |extent| FileTable::new(&queues, &FileMap::new(5000, vec![extent]).unwrap());
        let of = table(Extent { offset: 512, at: 1 << 19, bytes: 4096 }).unwrap();
        let reference = of.reference(&queues).unwrap();
        assert_eq!((reference.count, reference.bytes, reference.block_shift), (1, 5000, 9));
        let mut words = [0u64; 5];
        of.memory().read(0, words.as_mut_bytes()).unwrap();
        assert_eq!(
            words,
            [1, 8, 1024, 0, 0],
            "the extent's first block, its blocks, where they lie; one bucket"
        );
        let error = |extent| table(extent).err().unwrap().to_string();
        let odd = error(Extent { offset: 0, at: 100, bytes: 512 });
        assert_eq!(
            odd,
            "extent of a file 512 bytes at byte 100, of offset 0: must be whole blocks of the namespace, 512 bytes each"
        );
        let beyond = error(Extent { offset: 0, at: (1 << 20) - 512, bytes: 1024 });
        assert!(beyond.ends_with("the namespace has blocks 0 to 2047"), "{beyond}");
    }

    /// As kernels search (`file.cuh`): what the bucket of a block names.
    fn named(buckets: &Buckets, block: u64) -> std::ops::RangeInclusive<u32> {
        let bucket = ((block >> buckets.shift) as usize).min(buckets.names.len() - 2);
        buckets.names[bucket]..=buckets.names[bucket + 1]
    }

    #[test]
    fn a_bucket_names_the_last_extent_that_begins_until_each_of_its_blocks() {
        let extents = |firsts: &[u64]| -> Vec<_> {
            let at = |&first| abi::FileExtent { first, blocks: 1, lba: 0, reserved: 0 };
            firsts.iter().map(at).collect()
        };
        let steady: Vec<_> = (0..100).map(|i| i * 8).collect();
        let skewed: Vec<_> = (0..100).chain((1..40).map(|i| 1 << i << 10)).collect();
        for firsts in [&[0][..], &[7], &[0, 1], &[u64::MAX], &[3, u64::MAX >> 1], &steady, &skewed] {
            let buckets = Buckets::of(&extents(firsts));
            assert!(buckets.names.len() <= 2 * firsts.len() + 1, "{firsts:?}");
            let around = |first: &u64| [first.saturating_sub(1), *first, first.saturating_add(1)];
            for block in firsts.iter().flat_map(around) {
                let last = firsts.iter().rposition(|first| *first <= block).unwrap_or(0) as u32;
                assert!(named(&buckets, block).contains(&last), "{block} of {firsts:?}");
            }
        }
        let buckets = Buckets::of(&extents(&steady));
        assert!((0..1000).all(|block| named(&buckets, block).count() <= 2), "as evenly as they lie");
        assert_eq!(Buckets::of(&[]).names, [0, 0], "an empty file has one, too");
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
        assert_eq!(tile(&own).unwrap(), crate::Tile::linear(0, crate::Lba(0), 1));
        assert!(tile(&second).unwrap_err().to_string().starts_with("file of namespace 1"));
    }
}
