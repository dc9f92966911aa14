//! The example of `docs/cache.md`.

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::several::Several;
use warpbell_softctl::{NamespaceConfig, SoftConfig};
use zerocopy::{Immutable, IntoBytes};

use crate::fixture::*;
use crate::orders::{REUSED, reused};
use warpbell_hw::{Lba, Nsid};
use warpbell_sim::{TestLaunch, TestVariant, on_cpu};

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    ns: abi::NamespaceRef,
    ring: abi::BufferRef,
    schedule: abi::ScheduleRef,
    sums: u64,
}

const WARPS: u32 = 3;

fn example() -> &'static str {
    let page = include_str!("../../../docs/cache.md");
    let mut blocks = page.split("```").filter_map(|block| block.strip_prefix("cpp\n"));
    blocks.find(|code| code.contains("WARPBELL_KERNEL(sum_tiles,")).expect("the page's example of tiles")
}

#[test]
fn the_example_of_the_page_sums_what_the_ssd_has() {
    let module = Variant::text("sum_tiles", example()).quick().loaded().expect("compiles");
    let setting = Setting { warps: WARPS, ..Setting::new(Sharing::Exclusive, 5, reused(3, 1)) };
    let namespaces = vec![NamespaceConfig::memory(BLOCKS * u64::from(BLOCK), BLOCK)];
    let config = SoftConfig::new().namespaces(namespaces);
    let several = Several::new(vec![(config, setting.options())]).expect("an SSD");
    for lba in 0..BLOCKS {
        let words: Vec<u8> = (0..u64::from(BLOCK) / 8).flat_map(|_| (lba + 1).to_le_bytes()).collect();
        several.softs[0].poke(Nsid(1), Lba(lba), &words).expect("a block");
    }
    let queues = &several.queues[0];
    let ring = queues.buffer(setting.schedule.ring_bytes()).expect("a ring");
    let list = setting.schedule.list(queues.target()).expect("a list");
    let sums = queues.target().memory(32 * WARPS as usize * 8).expect("memory");
    let (schedule, address) = (list.as_ref(), sums.address());
    let args = Args { ns: queues.namespace(), ring: ring.as_ref(), schedule, sums: address };
    let launch = queues.launch_bytes(&module.into(), "sum_tiles", args.as_bytes()).expect("a launch");
    let launch = launch.block(32 * WARPS).shared_bytes(setting.schedule.shared_bytes(2));
    several.run(on_cpu(&launch).expect("the CPU target"), 3, |_| ()).expect("a run");
    let mut found = vec![0u64; 32 * WARPS as usize];
    sums.read(0, found.as_mut_bytes()).expect("sums");
    let of_tile =
        |tile: u64| (0..u64::from(TILE)).map(|block| tile * u64::from(TILE) + block + 1).sum::<u64>();
    let expected: u64 = REUSED.iter().map(|tile| of_tile(*tile) * u64::from(BLOCK) / 8).sum();
    assert_eq!(found.iter().sum::<u64>(), expected);
}
