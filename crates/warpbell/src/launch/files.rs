// UNSAFETY: a kernel of this test's own.
#![expect(unsafe_code, reason = "launches of kernels that are no part of Warpbell")]
//! Kernels read files by their offset.

use warpbell_files::{Extent, FileMap, read_file};
use warpbell_kernels::abi::{self, BufferRef, FileRef, NamespaceRef};
use zerocopy::{Immutable, IntoBytes};

use crate::{AttachOptions, CompileOptions, FileTable, Lba, OpenOptions, Program, Ssd, SsdSource, Target};

/// Each lane reads `bytes` bytes at the offset that its entry of `list` has, and stores its status there. All data lies
/// `shift` bytes behind its place.
const READ: &str = "#include <warpbell/warpbell.cuh>
    using namespace warpbell;
    struct read_args {
        warpbell_namespace_ref ns; warpbell_file_ref file; warpbell_buffer_ref data; warpbell_buffer_ref list;
        uint64_t bytes, shift;
    };
    WARPBELL_KERNEL(read_file, read_args) {
        session<sharing::exclusive> ssd(this_warp(), args.ns, 0);
        const file f(args.file);
        uint64_t* const list = dma_span(args.list).data<uint64_t>() + 2u * port::lane();
        const dma_span mine = dma_span(args.data).subspan(port::lane() * args.bytes + args.shift, args.bytes);
        const optional<u64> offset = list[0] == ~0ull ? optional<u64>() : optional<u64>(list[0]);
        const status s = read_each(this_warp(), ssd, f, offset, mine);
        list[1] = s.bits;
        ssd.detach(this_warp());
    }";

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ReadArgs {
    ns: NamespaceRef,
    file: FileRef,
    data: BufferRef,
    list: BufferRef,
    bytes: u64,
    shift: u64,
}

const BLOCK: u64 = 512;
const SIZE: u64 = 4 << 20;
const NONE: u64 = u64::MAX;

/// An SSD on which no two blocks are alike.
fn ssd() -> Ssd {
    let ssd = Ssd::open(&format!("soft:size={SIZE}").parse().unwrap(), &OpenOptions::default()).unwrap();
    let words: Vec<u64> = (0..SIZE / 8).map(|word| (word + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15)).collect();
    ssd.write(None, Lba(0), words.as_bytes()).unwrap();
    ssd
}

/// What 32 lanes read: their bytes and statuses.
fn read(ssd: &Ssd, map: &FileMap, bytes: u64, offsets: &[u64; 32]) -> (Vec<u8>, [u64; 32]) {
    read_behind(ssd, map, (bytes, 0), offsets)
}

/// The same into data that begins `shift` bytes behind a page.
fn read_behind(
    ssd: &Ssd,
    map: &FileMap,
    (bytes, shift): (u64, u64),
    offsets: &[u64; 32],
) -> (Vec<u8>, [u64; 32]) {
    let queues = ssd.attach(&AttachOptions::default()).unwrap();
    let options = CompileOptions::default();
    let program = Program::compile(&Target::Cpu.open().unwrap(), "files.cu", READ, &options).unwrap();
    let data = queues.buffer((32 * bytes + shift) as usize).unwrap();
    let list = queues.buffer(32 * 16).unwrap();
    data.write(0, &vec![0xa5; (32 * bytes + shift) as usize]).unwrap();
    let entries: Vec<[u64; 2]> = offsets.iter().map(|offset| [*offset, NONE]).collect();
    list.write(0, entries.as_bytes()).unwrap();
    let table = FileTable::new(&queues, map).unwrap();
    let args = ReadArgs {
        ns: queues.namespace(),
        file: table.as_ref(),
        data: data.as_ref(),
        list: list.as_ref(),
        bytes,
        shift,
    };
    // SAFETY: the kernel touches the attachment's queues and buffers, and the table, which the launch keeps.
    let launch = unsafe { program.launch(&queues, "read_file", &args) }.unwrap().keep(table.memory());
    launch.start().unwrap().join().unwrap();
    let (mut found, mut after) = (vec![0; 32 * bytes as usize], [[0u64; 2]; 32]);
    data.read(shift as usize, &mut found).unwrap();
    list.read(0, after.as_mut_bytes()).unwrap();
    (found, after.map(|[_, status]| status))
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

#[test]
fn reads_by_offset_are_what_the_host_reads() {
    let (ssd, map) = (ssd(), scattered(1000));
    let source = SsdSource::new(&ssd, None).unwrap();
    let blocks = map.size().div_ceil(BLOCK);
    for (round, bytes) in [(0, BLOCK), (1, 5 * BLOCK), (2, 16 * BLOCK)] {
        let last = blocks - bytes / BLOCK;
        // The first, the last with the tail, and any between.
        let offsets = std::array::from_fn(|lane| match lane {
            0 => 0,
            1 => last * BLOCK,
            lane => (lane as u64 * 7919 + round) % (last + 1) * BLOCK,
        });
        let (found, statuses) = read(&ssd, &map, bytes, &offsets);
        assert_eq!(statuses, [0; 32]);
        for (found, offset) in found.chunks(bytes as usize).zip(offsets) {
            let within = bytes.min(map.size() - offset) as usize;
            let mut expected = vec![0; bytes as usize];
            read_file(&source, &map, offset, &mut expected[..within]).unwrap();
            assert!(found == expected, "{bytes} bytes at {offset}");
        }
    }
}

#[test]
fn what_a_file_does_not_have_is_refused_and_its_neighbours_read() {
    let ssd = ssd();
    let map = FileMap::new(3 * BLOCK, vec![Extent { offset: 0, at: 8 * BLOCK, bytes: 3 * BLOCK }]).unwrap();
    let mut offsets = [NONE; 32];
    offsets[..5].copy_from_slice(&[0, BLOCK, 2 * BLOCK, 100, 1 << 60]);
    let (found, statuses) = read(&ssd, &map, 2 * BLOCK, &offsets);
    let code = |code: u32| u64::from(abi::STATUS_LIBRARY | code);
    let (range, aligned) = (code(abi::STATUS_OUT_OF_RANGE), code(abi::STATUS_MISALIGNED));
    assert_eq!(statuses[..6], [0, 0, range, aligned, range, 0]);
    let mut expected = vec![0; 2 * BLOCK as usize];
    ssd.read(None, Lba(9), &mut expected).unwrap();
    assert!(
        found[2 * BLOCK as usize..4 * BLOCK as usize] == expected,
        "lane 1 has blocks 1 and 2 of the file"
    );
    assert!(found[4 * BLOCK as usize..].iter().all(|byte| *byte == 0xa5), "others have nothing");
}

#[test]
fn data_begins_at_a_dword_over_holes_as_over_blocks() {
    let ssd = ssd();
    // A block, a hole of three, and a block with a tail.
    let extents =
        [(0, 8), (4, 20)].map(|(offset, at)| Extent { offset: offset * BLOCK, at: at * BLOCK, bytes: BLOCK });
    let map = FileMap::new(5 * BLOCK - 7, extents.to_vec()).unwrap();
    let source = SsdSource::new(&ssd, None).unwrap();
    let mut offsets = [NONE; 32];
    offsets[..4].copy_from_slice(&[0, BLOCK, 2 * BLOCK, 3 * BLOCK]);
    let (found, statuses) = read_behind(&ssd, &map, (2 * BLOCK, 4), &offsets);
    assert_eq!(statuses, [0; 32]);
    for (found, offset) in found.chunks(2 * BLOCK as usize).zip(&offsets[..4]) {
        let within = (2 * BLOCK).min(map.size() - offset) as usize;
        let mut expected = vec![0; 2 * BLOCK as usize];
        read_file(&source, &map, *offset, &mut expected[..within]).unwrap();
        assert!(found == expected, "at {offset}");
    }
    assert!(found[8 * BLOCK as usize..].iter().all(|byte| *byte == 0xa5), "others have nothing");
    // Lane 1 reads a hole alone.
    let (found, statuses) = read_behind(&ssd, &map, (2 * BLOCK, 2), &offsets);
    assert_eq!(
        statuses[..5],
        [[u64::from(abi::STATUS_LIBRARY | abi::STATUS_MISALIGNED); 4].as_slice(), &[0]].concat()[..]
    );
    assert!(found.iter().all(|byte| *byte == 0xa5), "nothing was stored");
}
