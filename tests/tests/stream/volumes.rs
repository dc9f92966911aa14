//! Tiles of several SSDs.

use warpbell::{AttachOptions, Sharing, Tile, Volume, VolumeLayout, VolumeSpec};
use warpbell_kernels::abi;
use warpbell_sim::several::Several;
use warpbell_softctl::{FaultPlan, NamespaceConfig, SoftConfig};
use zerocopy::{Immutable, IntoBytes};

use crate::faults::{BROKEN_BITS, broken};
use crate::fixture::*;
use warpbell_hw::{Lba, Nsid};
use warpbell_sim::{TestLaunch, on_cpu};

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    volume: abi::VolumeRef,
    ring: abi::VolumeBufferRef,
    schedule: abi::ScheduleRef,
    notes: u64,
}

const THREADS: usize = 64;
const CHUNK: u64 = 4;

/// Two SSDs in chunks of four blocks, whose words are the block's number in the volume.
fn striped(faults: FaultPlan) -> Several {
    let namespaces = vec![NamespaceConfig::memory(256 * u64::from(BLOCK), BLOCK)];
    let options = AttachOptions::new().queues(1).warps(2).sharing(Sharing::Shared).recovery(false);
    let config = |faults| SoftConfig::new().namespaces(namespaces.clone()).faults(faults);
    let each = [faults, FaultPlan::default()].map(|faults| (config(faults), options.clone()));
    let several = Several::new(each.to_vec()).expect("SSDs");
    for block in 0..400u64 {
        let (chunk, at) = (block / CHUNK, block % CHUNK);
        let words: Vec<u8> = (0..u64::from(BLOCK) / 8).flat_map(|_| block.to_le_bytes()).collect();
        let soft = &several.softs[(chunk % 2) as usize];
        soft.poke(Nsid(1), Lba(chunk / 2 * CHUNK + at), &words).expect("a block");
    }
    several
}

/// Blocks of a tile.
fn blocks(tile: &Tile) -> impl Iterator<Item = u64> {
    let Tile { first_block, blocks, rows, row_stride, .. } = *tile;
    (0..u64::from(rows)).flat_map(move |row| {
        (0..u64::from(blocks)).map(move |block| first_block.get() + row * row_stride + block)
    })
}

/// The sum of all words, and what each thread was told.
fn run(several: &Several, tiles: &[Tile]) -> (u64, Vec<u64>) {
    let spec = VolumeSpec::new().layout(VolumeLayout::Stripe).chunk_bytes(CHUNK * u64::from(BLOCK));
    let volume = Volume::new(&several.queues.iter().collect::<Vec<_>>(), &spec).expect("a volume");
    let schedule = schedule(tiles, 2, 1);
    let ring = volume.buffer(schedule.ring_bytes()).expect("a ring");
    let target = several.queues[0].target();
    let (list, notes) =
        (schedule.list(target).expect("a list"), target.memory(THREADS * 16).expect("memory"));
    let (volume_ref, address) = (volume.as_ref().expect("a volume"), notes.address());
    let args = Args { volume: volume_ref, ring: ring.as_ref(), schedule: list.as_ref(), notes: address };
    let module = warpbell::Module::from(MODULE.clone());
    let launch = volume.launch_bytes(&module, "stream_volume_test", args.as_bytes()).expect("a launch");
    let launch = launch.block(THREADS as u32).shared_bytes(schedule.shared_bytes(2));
    several.run(on_cpu(&launch).expect("the CPU target"), 3, |_| ()).expect("a run");
    let mut found = vec![[0u64; 2]; THREADS];
    notes.read(0, found.as_mut_slice().as_mut_bytes()).expect("notes");
    assert_eq!(several.violations(), Vec::<String>::new());
    (found.iter().map(|note| note[0]).sum(), found.iter().map(|note| note[1]).collect())
}

/// Tiles of one row that cross chunks, and one of several rows.
fn tiles() -> Vec<Tile> {
    let rows = Tile { number: 9, first_block: Lba(300), blocks: 3, rows: 4, row_stride: 11 };
    let mut tiles: Vec<Tile> = (0..6).map(|at| Tile::linear(at, Lba(7 + at * 20), 12)).collect();
    tiles.insert(3, rows);
    tiles.extend([tiles[0], tiles[3]]);
    tiles
}

#[test]
fn tiles_of_a_volume_lie_on_several_ssds() {
    let (sum, told) = run(&striped(FaultPlan::default()), &tiles());
    let expected: u64 = tiles().iter().flat_map(blocks).map(|block| block * u64::from(BLOCK) / 8).sum();
    assert_eq!((sum, told), (expected, vec![0; THREADS]));
}

#[test]
fn a_member_that_fails_fails_its_tile_alone() {
    // The first SSD's block 24 is block 48 of the volume: tile 2.
    let (sum, told) = run(&striped(broken(24)), &tiles());
    let good = tiles().into_iter().filter(|tile| tile.number != 2);
    let expected: u64 = good
        .flat_map(|tile| blocks(&tile).collect::<Vec<_>>())
        .map(|block| block * u64::from(BLOCK) / 8)
        .sum();
    assert_eq!((sum, told), (expected, vec![u64::from(BROKEN_BITS); THREADS]));
}
