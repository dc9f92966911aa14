//! The page's example of reading ahead, by warps on threads that share a cache.

use warpbell::test_hooks::TestSsd;
use warpbell::{
    AttachOptions, CompileOptions, DeviceName, OpenOptions, PageCache, PageCacheSpec, Sharing, Ssd, Target,
};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi::{BufferRef, CacheRef, NamespaceRef};
use warpbell_sim::Blocks;
use warpbell_sim::launch_program;
use warpbell_tests::documented_of_caches;
use warpbell_workload::Array;
use zerocopy::{Immutable, IntoBytes};

const WARPS: u64 = 4;
const PAGES_EACH: u64 = 64;
const WORDS: u64 = 1024;

/// As in the page's example.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct AheadArgs {
    ns: NamespaceRef,
    buffer: BufferRef,
    cache: CacheRef,
    pages_each: u64,
    sums: u64,
}

fn word(index: u64) -> u32 {
    warpbell_base::mix64(index) as u32
}

#[test]
fn the_example_of_prefetching() {
    let target = Target::Cpu.open().expect("the CPU target is built in");
    let cache = tempfile::tempdir().expect("a folder");
    let source = documented_of_caches("sum_ahead");
    let compiling = CompileOptions::default().cache(cache.path());
    let program = warpbell_sim::compile(&target, "sum-ahead.cu", &source, &compiling);
    let program = program.unwrap_or_else(|error| panic!("{error}"));
    let ssd = Ssd::open(&DeviceName::Soft("size=1m".to_owned()), &OpenOptions::default()).expect("opens");
    let contents: Vec<u8> =
        (0..WARPS * PAGES_EACH * WORDS).flat_map(|index| word(index).to_le_bytes()).collect();
    ssd.store(Nsid(1), Lba(0), &contents).expect("the array is written");
    let options = AttachOptions::new().warps(WARPS as u32).sharing(Sharing::Shared);
    let queues = ssd.attach(&options).expect("queues");
    // Room for a sixth of the pages.
    let spec = PageCacheSpec::new().lines(40);
    let pages = PageCache::new(queues.target(), (2048, 512), &spec).expect("a cache");
    let buffer = queues.buffer(pages.buffer_bytes()).expect("memory");
    let sums: Array<u64> = Array::new(queues.target(), WARPS as usize * 32).expect("memory");
    let args = AheadArgs {
        ns: queues.namespace(),
        buffer: buffer.as_ref(),
        cache: pages.as_ref(),
        pages_each: PAGES_EACH,
        sums: sums.address(),
    };
    let launch = launch_program(&program, &queues, "sum_ahead", &args).expect("a launch").grid(WARPS as u32);
    launch.keep(pages.memory()).start().and_then(|run| run.join()).expect("a run");
    let of_lane = |number: u64| {
        let (warp, lane) = (number / 32, number % 32);
        let first = warp * PAGES_EACH * WORDS;
        (first..first + PAGES_EACH * WORDS)
            .filter(|index| index % 32 == lane)
            .map(|i| u64::from(word(i)))
            .sum()
    };
    let expected: Vec<u64> = (0..WARPS * 32).map(of_lane).collect();
    assert_eq!(sums.all().expect("sums"), expected);
    let report = pages.report().expect("a report");
    println!("{report:?}");
    assert_eq!(report.error, None);
    assert!(report.prefetched != 0, "{report:?}");
    assert_eq!(report.prefetched, report.prefetched_used + report.prefetched_in_vain, "{report:?}");
    assert_eq!(ssd.violations(), []);
}
