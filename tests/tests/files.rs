// UNSAFETY: kernels of this test's own.
#![expect(unsafe_code, reason = "launches of kernels that are no part of Warpbell")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
//! Kernels read files by their offset, and through page caches.

use warpbell::{
    AttachOptions, Attachment, Buffer, FileTable, LaunchOver, LeaseSpec, Module, OpenOptions, PageCache,
    PageCacheSpec, Ssd, SsdSource,
};
use warpbell_files::{Extent, FileMap, read_file};
use warpbell_hw::Lba;
use warpbell_kernels::abi::{self, BufferRef, CacheRef, FileRef, NamespaceRef};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::TestVariant;
use zerocopy::{Immutable, IntoBytes};

/// `read_file`: each lane reads `bytes` bytes at the offset that its entry of `list` has, and stores its status there. All
/// data lies `shift` bytes behind its place. `read_whole`: the warp reads what is 32 times as much at lane 0's offset.
/// `read_pages`: the warp reads `bytes` bytes through a page cache, as words, and stores them; with `shift`, pages are read
/// ahead.
const READ: &str = "#include <warpbell/warpbell.cuh>
    #include <warpbell/array.cuh>
    #include <warpbell/file_cache.cuh>
    #include <warpbell/prefetch.cuh>
    using namespace warpbell;
    struct read_args {
        warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref data; warpbell_buffer_ref list;
        warpbell_cache_ref cache; uint64_t out; uint64_t bytes, shift;
    };
    using session_type = session<sharing::exclusive>;
    WARPBELL_KERNEL(read_file, read_args) {
        session_type ssd(this_warp(), args.ns, 0);
        const file f(args.file);
        uint64_t* const list = dma_span(args.list).data<uint64_t>() + 2u * port::lane();
        const dma_span mine = dma_span(args.data).subspan(port::lane() * args.bytes + args.shift, args.bytes);
        const optional<u64> offset = list[0] == ~0ull ? optional<u64>() : optional<u64>(list[0]);
        const status s = read_each(this_warp(), ssd, f, offset, mine);
        list[1] = s.bits;
        ssd.detach(this_warp());
    }
    WARPBELL_KERNEL(read_whole, read_args) {
        session_type ssd(this_warp(), args.ns, 0);
        uint64_t* const list = dma_span(args.list).data<uint64_t>();
        const dma_span all = dma_span(args.data).subspan(args.shift, 32u * args.bytes);
        list[2u * port::lane() + 1u] = read(this_warp(), ssd, file(args.file), list[0], all).bits;
        ssd.detach(this_warp());
    }
    template <class Pages> WARPBELL_D void copy_words(const read_args& args, Pages& pages) {
        array_view<u64, Pages> words(pages, 0, args.bytes / 8u);
        uint64_t* const list = dma_span(args.list).data<uint64_t>() + 2u * port::lane();
        u32 failed = 0;
        for (u64 first = 0; first < words.size(); first += 32u) {
            const u64 at = first + port::lane();
            u64 word = 0;
            failed |= words.try_load(this_warp(), at < words.size() ? optional<u64>(at) : optional<u64>(), word).bits;
            if (at < words.size()) {
                reinterpret_cast<u64*>(args.out)[at] = word;
            }
        }
        list[1] = failed;
    }
    WARPBELL_KERNEL(read_pages, read_args) {
        session_type ssd(this_warp(), args.ns, 0);
        file_source source(ssd, file(args.file));
        page_cache<decltype(source), page_access::read_only> pages(this_warp(), args.cache, source, dma_span(args.data));
        if (args.shift != 0) {
            experimental::prefetcher<decltype(pages), 4> ahead(this_warp(), pages);
            copy_words(args, ahead);
            ahead.detach(this_warp());
        } else {
            copy_words(args, pages);
        }
        pages.detach(this_warp());
        ssd.detach(this_warp());
    }";

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ReadArgs {
    ns: NamespaceRef,
    file: FileRef,
    data: BufferRef,
    list: BufferRef,
    cache: CacheRef,
    out: u64,
    bytes: u64,
    shift: u64,
}

const BLOCK: u64 = 512;
const SIZE: u64 = 4 << 20;
const NONE: u64 = u64::MAX;
const MISALIGNED: u64 = (abi::STATUS_LIBRARY | abi::STATUS_MISALIGNED) as u64;
const OUT_OF_RANGE: u64 = (abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_RANGE) as u64;
const OUT_OF_LEASE: u64 = (abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_LEASE) as u64;

fn source() -> Variant {
    Variant::text("files.cu", READ).quick()
}

/// An SSD on which no two blocks are alike, and queues for kernels.
struct Disk {
    ssd: Ssd,
    queues: Attachment,
    module: Module,
}

/// Which bytes of a file each lane reads, and how far behind its place the data goes.
#[derive(Clone, Copy)]
struct Reads {
    bytes: u64,
    shift: u64,
    offsets: [u64; 32],
}

impl Reads {
    fn new(bytes: u64, offsets: &[u64]) -> Reads {
        let mut all = [NONE; 32];
        all[..offsets.len()].copy_from_slice(offsets);
        Reads { bytes, shift: 0, offsets: all }
    }
}

impl Disk {
    fn new() -> Disk {
        Disk::without(None)
    }

    /// Kernels without a rule.
    fn without(rule: Option<&str>) -> Disk {
        let ssd = Ssd::open(&format!("soft:size={SIZE}").parse().unwrap(), &OpenOptions::default()).unwrap();
        let words: Vec<u64> =
            (0..SIZE / 8).map(|word| (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
        ssd.write(None, Lba(0), words.as_bytes()).unwrap();
        let queues = ssd.attach(&AttachOptions::new().commands_per_lane(Some(2))).unwrap();
        let module = rule.into_iter().fold(source(), Variant::mutate).loaded().unwrap();
        Disk { ssd, queues, module: module.into() }
    }

    /// What the host reads of a file; what is behind its end is zeroes.
    fn expected(&self, map: &FileMap, offset: u64, bytes: u64) -> Vec<u8> {
        let mut all = vec![0; bytes as usize];
        let within = bytes.min(map.size() - offset) as usize;
        read_file(&SsdSource::new(&self.ssd, None).unwrap(), map, offset, &mut all[..within]).unwrap();
        all
    }

    /// The buffer that lanes read into: 0xa5 where nothing was stored.
    fn data(&self, bytes: u64) -> Buffer {
        let data = self.queues.buffer(bytes as usize).unwrap();
        data.write(0, &vec![0xa5; bytes as usize]).unwrap();
        data
    }

    /// Runs a kernel, and returns the statuses of its lanes.
    fn run(
        &self,
        kernel: &str,
        map: &FileMap,
        reads: &Reads,
        change: impl FnOnce(&mut ReadArgs),
    ) -> [u64; 32] {
        let list = self.queues.buffer(32 * 16).unwrap();
        let entries: Vec<[u64; 2]> = reads.offsets.iter().map(|offset| [*offset, NONE]).collect();
        list.write(0, entries.as_bytes()).unwrap();
        let table = FileTable::new(&self.queues, map).unwrap();
        let mut args = ReadArgs {
            ns: self.queues.namespace(),
            file: table.reference(&self.queues).unwrap(),
            data: BufferRef::new(),
            list: list.as_ref(),
            cache: CacheRef::new(),
            out: 0,
            bytes: reads.bytes,
            shift: reads.shift,
        };
        change(&mut args);
        // SAFETY: the kernel touches the attachment's queues and buffers, and the table, which the launch keeps; what
        // `change` names is alive until it has ended.
        let launch = unsafe { self.queues.launch_unchecked(&self.module, kernel, &args) }.unwrap();
        launch.keep(table.memory()).start().unwrap().join().unwrap();
        let mut after = [[0u64; 2]; 32];
        list.read(0, after.as_mut_bytes()).unwrap();
        after.map(|[_, status]| status)
    }

    /// What 32 lanes read: their bytes and statuses.
    fn read(&self, map: &FileMap, reads: &Reads) -> (Vec<u8>, [u64; 32]) {
        let data = self.data(32 * reads.bytes + reads.shift);
        let statuses = self.run("read_file", map, reads, |args| args.data = data.as_ref());
        let mut found = vec![0; 32 * reads.bytes as usize];
        data.read(reads.shift as usize, &mut found).unwrap();
        (found, statuses)
    }

    /// The lanes of which the data is not the file's.
    fn wrong(&self, map: &FileMap, reads: &Reads) -> Vec<usize> {
        let (found, statuses) = self.read(map, reads);
        let lanes = found.chunks(reads.bytes as usize).zip(reads.offsets).enumerate();
        lanes
            .filter(|(lane, (found, offset))| {
                *offset != NONE
                    && (statuses[*lane] != 0 || **found != self.expected(map, *offset, reads.bytes))
            })
            .map(|(lane, _)| lane)
            .collect()
    }

    /// The bytes of a file as a page cache of eight lines has them.
    fn through_pages(&self, map: &FileMap, ahead: bool) -> (Vec<u8>, u64) {
        let bytes = map.size().next_multiple_of(8);
        let spec = PageCacheSpec::new().page_bytes(4096).lines(8);
        let table = FileTable::new(&self.queues, map).unwrap();
        let cache = PageCache::of_file(self.queues.target(), &table, &spec).unwrap();
        assert_eq!(cache.pages(), map.size().div_ceil(4096));
        let data = self.data(cache.buffer_bytes() as u64);
        let out = self.queues.target().memory(bytes as usize).unwrap();
        let reads = Reads { shift: ahead.into(), ..Reads::new(bytes, &[]) };
        let statuses = self.run("read_pages", map, &reads, |args| {
            (args.data, args.cache, args.out) = (data.as_ref(), cache.as_ref(), out.address());
        });
        assert_eq!(statuses, [0; 32]);
        let report = cache.report().unwrap();
        assert_eq!((report.error, report.misses + report.prefetched_used), (None, cache.pages()));
        let mut found = vec![0; bytes as usize];
        out.read(0, &mut found).unwrap();
        (found, report.prefetched_used)
    }
}

/// A file of many small extents in an order that has nothing to do with where they lie, with holes, and a tail.
fn scattered(extents: u64) -> FileMap {
    let place = |index: u64| (index * 2 * 1543 % (SIZE / BLOCK)) & !1;
    let list = (0..extents).filter(|index| index % 7 != 3).map(|index| Extent {
        offset: index * 2 * BLOCK,
        at: place(index) * BLOCK,
        bytes: 2 * BLOCK,
    });
    FileMap::new(extents * 2 * BLOCK - 100, list.collect()).unwrap()
}

/// Nine extents of two blocks that begin with the file, and one far behind them: one bucket of the table names nearly all.
fn skewed() -> FileMap {
    let extent = |(index, offset): (u64, u64)| Extent {
        offset: offset * BLOCK,
        at: (90 - 9 * index) * BLOCK,
        bytes: 2 * BLOCK,
    };
    let offsets = (0..9).map(|index| 2 * index).chain([1000]);
    FileMap::new(1002 * BLOCK, (0..).zip(offsets).map(extent).collect()).unwrap()
}

/// A block, a hole of three, and a block with a tail.
fn holed() -> FileMap {
    let extents =
        [(0, 8), (4, 20)].map(|(offset, at)| Extent { offset: offset * BLOCK, at: at * BLOCK, bytes: BLOCK });
    FileMap::new(5 * BLOCK - 7, extents.to_vec()).unwrap()
}

#[test]
fn reads_by_offset_are_what_the_host_reads() {
    let disk = Disk::new();
    // One without an extent, one with a single one, and a table of 10,000.
    let single = vec![Extent { offset: 512, at: 8 * BLOCK, bytes: 20 * BLOCK }];
    let maps = [
        FileMap::new(9000, Vec::new()).unwrap(),
        FileMap::new(9000, single).unwrap(),
        scattered(1000),
        scattered(11_667),
        skewed(),
    ];
    assert_eq!(maps.each_ref().map(|map| map.extents().len()), [0, 1, 857, 10_000, 10]);
    for (map, bytes) in maps.iter().flat_map(|map| [BLOCK, 5 * BLOCK, 16 * BLOCK].map(|bytes| (map, bytes))) {
        let last = map.size().div_ceil(BLOCK) - bytes / BLOCK;
        // The first, the last with the tail, the next ones, and any between.
        let offsets = std::array::from_fn::<_, 32, _>(|lane| match lane {
            0 => 0,
            1 => last * BLOCK,
            lane if lane % 2 == 0 => (lane as u64 / 2).min(last) * BLOCK,
            lane => (lane as u64 * 7919 + bytes) % (last + 1) * BLOCK,
        });
        let wrong = disk.wrong(map, &Reads::new(bytes, &offsets));
        assert!(wrong.is_empty(), "{} extents, {bytes} bytes: lanes {wrong:?}", map.extents().len());
    }
}

#[test]
fn a_warp_reads_a_file_together() {
    let (disk, map) = (Disk::new(), scattered(1000));
    // Less than a block for each lane, and more; with the tail.
    for (bytes, offset) in [(BLOCK, 7 * BLOCK), (60 * BLOCK, (1998 - 32 * 60) * BLOCK)] {
        let data = disk.data(32 * bytes);
        let reads = Reads::new(bytes, &[offset]);
        let statuses = disk.run("read_whole", &map, &reads, |args| args.data = data.as_ref());
        let mut found = vec![0; 32 * bytes as usize];
        data.read(0, &mut found).unwrap();
        assert_eq!(statuses, [0; 32]);
        assert!(found == disk.expected(&map, offset, 32 * bytes), "{bytes} bytes for each lane");
    }
    let data = disk.data(32 * BLOCK);
    let behind = Reads::new(BLOCK, &[1990 * BLOCK]);
    let statuses = disk.run("read_whole", &map, &behind, |args| args.data = data.as_ref());
    assert_eq!(statuses, [OUT_OF_RANGE; 32]);
}

#[test]
fn what_a_file_does_not_have_is_refused_and_its_neighbours_read() {
    let disk = Disk::new();
    let map = FileMap::new(3 * BLOCK, vec![Extent { offset: 0, at: 8 * BLOCK, bytes: 3 * BLOCK }]).unwrap();
    let (found, statuses) = disk.read(&map, &Reads::new(2 * BLOCK, &[0, BLOCK, 2 * BLOCK, 100, 1 << 60]));
    assert_eq!(statuses[..6], [0, 0, OUT_OF_RANGE, MISALIGNED, OUT_OF_RANGE, 0]);
    assert!(
        found[2 * BLOCK as usize..4 * BLOCK as usize] == disk.expected(&map, BLOCK, 2 * BLOCK),
        "lane 1 has blocks 1 and 2 of the file"
    );
    assert!(found[4 * BLOCK as usize..].iter().all(|byte| *byte == 0xa5), "others have nothing");
}

#[test]
fn data_begins_at_a_dword_over_holes_as_over_blocks() {
    let (disk, map) = (Disk::new(), holed());
    let reads = Reads { shift: 4, ..Reads::new(2 * BLOCK, &[0, BLOCK, 2 * BLOCK, 3 * BLOCK]) };
    assert!(disk.wrong(&map, &reads).is_empty());
    let (found, _) = disk.read(&map, &reads);
    assert!(found[8 * BLOCK as usize..].iter().all(|byte| *byte == 0xa5), "others have nothing");
    // Lane 1 reads a hole alone.
    let (found, statuses) = disk.read(&map, &Reads { shift: 2, ..reads });
    assert_eq!(statuses[..5], [[MISALIGNED; 4].as_slice(), &[0]].concat()[..]);
    assert!(found.iter().all(|byte| *byte == 0xa5), "nothing was stored");
}

/// Lanes that read a hole, into data that the kernel's lease has and into other data; statuses, and whether what is not
/// leased was touched.
fn over_a_lease(disk: &Disk) -> ([u64; 3], bool) {
    let (leased, other) = (disk.data(32 * BLOCK), disk.data(32 * BLOCK));
    // Block 8 of the namespace, where the file's first block lies, is not leased; block 20, where the last is, is.
    let spec = LeaseSpec::new().lbas(Some(Lba(16)..Lba(64))).buffer(Some(&leased));
    let lease = disk.queues.lease(&spec).unwrap();
    let status = |offset: u64, data: &Buffer| {
        let reads = Reads::new(BLOCK, &[offset]);
        disk.run("read_file", &holed(), &reads, |args| {
            (args.ns, args.data) = (lease.namespace(), data.as_ref());
        })[0]
    };
    let statuses = [status(2 * BLOCK, &leased), status(2 * BLOCK, &other), status(0, &leased)];
    assert_eq!(status(4 * BLOCK, &leased), 0, "a leased block");
    let mut found = vec![0; 32 * BLOCK as usize];
    other.read(0, &mut found).unwrap();
    (statuses, found.iter().any(|byte| *byte != 0xa5))
}

#[test]
fn a_hole_is_zeroed_in_leased_memory_alone() {
    assert_eq!(over_a_lease(&Disk::new()), ([0, OUT_OF_LEASE, OUT_OF_LEASE], false));
}

#[test]
fn pages_of_a_file_have_its_bytes_and_zeroes() {
    let disk = Disk::new();
    // Pages in pieces, with holes, and one that lies together.
    let large = vec![
        Extent { offset: 0, at: 65_536, bytes: 40_960 },
        Extent { offset: 53_248, at: 8192, bytes: 20_480 },
    ];
    for map in [scattered(1000), holed(), FileMap::new(73_000, large).unwrap()] {
        let expected = disk.expected(&map, 0, map.size().next_multiple_of(8));
        for ahead in [false, true] {
            let (found, read_ahead) = disk.through_pages(&map, ahead);
            assert!(found == expected, "{} bytes, read ahead: {ahead}", map.size());
            // What lies in one piece, of the third file, is read ahead.
            assert_eq!(read_ahead > 0, ahead && map.size() == 73_000, "{read_ahead} of {}", map.size());
        }
    }
}

#[test]
fn a_flipped_byte_is_seen_through_pages() {
    let (disk, map) = (Disk::new(), scattered(100));
    let before = disk.expected(&map, 0, map.size().next_multiple_of(8));
    let extent = map.extents()[40];
    let mut block = vec![0; BLOCK as usize];
    disk.ssd.read(None, Lba(extent.at / BLOCK), &mut block).unwrap();
    block[100] ^= 1;
    disk.ssd.write(None, Lba(extent.at / BLOCK), &block).unwrap();
    let (found, _) = disk.through_pages(&map, false);
    let differ: Vec<_> = (0..before.len()).filter(|at| before[*at] != found[*at]).collect();
    assert_eq!(differ, [extent.offset as usize + 100]);
}

type Check = fn(&Disk) -> bool;

/// Switch, and what must fail without the rule.
const RULES: [(&str, Check); 7] = [
    ("FILE_SEAM_CROSSED", |disk| disk.wrong(&scattered(100), &Reads::new(3 * BLOCK, &[0])).is_empty()),
    ("FILE_BUCKET_SHORT", |disk| disk.wrong(&skewed(), &Reads::new(BLOCK, &[17 * BLOCK])).is_empty()),
    ("FILE_BLOCK_BEFORE", |disk| disk.wrong(&scattered(100), &Reads::new(BLOCK, &[1024])).is_empty()),
    ("FILE_HOLE_KEPT", |disk| disk.wrong(&holed(), &Reads::new(BLOCK, &[2 * BLOCK])).is_empty()),
    ("FILE_TAIL_KEPT", |disk| disk.wrong(&holed(), &Reads::new(BLOCK, &[4 * BLOCK])).is_empty()),
    ("FILE_END_UNCHECKED", |disk| disk.read(&holed(), &Reads::new(BLOCK, &[9 * BLOCK])).1[0] != 0),
    ("FILE_HOLE_UNCHECKED", |disk| !over_a_lease(disk).1),
];

#[test]
fn each_rule_of_files_is_missed_when_it_is_off() {
    let built = Disk::new();
    for (rule, holds) in RULES {
        assert!(holds(&built), "{rule}, as built");
        assert!(!holds(&Disk::without(Some(rule))), "{rule} is not noticed");
    }
}
