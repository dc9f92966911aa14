//! A table of values that warps look up by key, one by one and coalesced: fewer commands, and the same values.

use warpbell::test_hooks::TestSsd;
use warpbell::{AttachOptions, CompileOptions, DeviceName, OpenOptions, Program, Sharing, Ssd, Target};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi::{BufferRef, NamespaceRef};
use warpbell_nvme::NvmOpcode;
use warpbell_sim::launch_program;
use warpbell_sim::{Blocks, Draw};
use warpbell_tests::documented;
use warpbell_workload::Array;
use zerocopy::{Immutable, IntoBytes};

const WARPS: u64 = 4;
const ROUNDS: u64 = 16;
const LOOKUPS: u64 = WARPS * ROUNDS * 32;
/// Values of the table, a block each.
const KEYS: u64 = 2048;
const BLOCK: usize = 512;

/// As in the page's example.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct KvArgs {
    ns: NamespaceRef,
    buffer: BufferRef,
    keys: u64,
    digests: u64,
    rounds: u32,
    coalesced: u32,
}

/// Runs of keys that follow each other, of up to `longest`.
fn keys(longest: u64) -> Vec<u64> {
    let mut draw = Draw::new(5);
    let mut keys = Vec::new();
    while (keys.len() as u64) < LOOKUPS {
        let (first, run) = (draw.below(KEYS - longest), 1 + draw.below(longest));
        keys.extend(first..first + run);
    }
    keys.truncate(LOOKUPS as usize);
    keys
}

/// Keys that do not follow the one before them in their warp's 32.
fn runs(keys: &[u64]) -> u64 {
    let breaks = |warp: &[u64]| 1 + warp.windows(2).filter(|pair| pair[0] + 1 != pair[1]).count() as u64;
    keys.chunks(32).map(breaks).sum()
}

fn value(key: u64) -> u64 {
    warpbell_base::mix64(key)
}

/// What each lane makes of its values.
fn expected(keys: &[u64]) -> Vec<u64> {
    let lane = |warp: u64, lane: u64| {
        let of = |round: u64| value(keys[((warp * ROUNDS + round) * 32 + lane) as usize]);
        (0..ROUNDS).fold(0, |digest: u64, round| (digest ^ of(round)).wrapping_mul(0x100_0000_01b3))
    };
    (0..WARPS * 32).map(|number| lane(number / 32, number % 32)).collect()
}

fn table() -> Ssd {
    let name = DeviceName::Soft("size=1m".to_owned());
    let ssd = Ssd::open(&name, &OpenOptions::default()).expect("opens");
    let mut contents = vec![0; KEYS as usize * BLOCK];
    for (block, key) in contents.chunks_exact_mut(BLOCK).zip(0..) {
        block[..8].copy_from_slice(&value(key).to_le_bytes());
    }
    ssd.store(Nsid(1), Lba(0), &contents).expect("the table is written");
    ssd
}

/// Read commands that it took, and each lane's digest.
fn look_up(program: &Program, ssd: &Ssd, sharing: Sharing, keys: &[u64], coalesced: bool) -> (u64, Vec<u64>) {
    let queues = if sharing == Sharing::Exclusive { WARPS as u32 } else { 1 };
    let options = AttachOptions::new().queues(queues).warps(WARPS as u32).sharing(sharing);
    let queues = ssd.attach(&options).expect("queues");
    let buffer = queues.buffer(WARPS as usize * 32 * BLOCK).expect("memory");
    let wanted: Array<u64> = Array::new(queues.target(), keys.len()).expect("memory");
    wanted.put(0, keys).expect("keys");
    let digests: Array<u64> = Array::new(queues.target(), WARPS as usize * 32).expect("memory");
    let args = KvArgs {
        ns: queues.namespace(),
        buffer: buffer.as_ref(),
        keys: wanted.address(),
        digests: digests.address(),
        rounds: ROUNDS as u32,
        coalesced: u32::from(coalesced),
    };
    let reads = || ssd.soft().expect("soft").statistics().commands(NvmOpcode::READ);
    let before = reads();
    let launch = launch_program(program, &queues, "kv_example", &args).expect("a launch").grid(WARPS as u32);
    launch.start().and_then(|run| run.join()).expect("a run");
    (reads() - before, digests.all().expect("digests"))
}

#[test]
fn neighbouring_keys_take_fewer_commands_and_give_the_same_digest() {
    let target = Target::Cpu.open().expect("the CPU target is built in");
    let cache = tempfile::tempdir().expect("a folder");
    let compiling = CompileOptions::default().cache(cache.path());
    let compile = |mode: &str| {
        let source = documented("kv_example").replace("sharing::shared", &format!("sharing::{mode}"));
        let program = warpbell_sim::compile(&target, "kv-example.cu", &source, &compiling);
        program.unwrap_or_else(|error| panic!("{error}"))
    };
    let programs = [(Sharing::Shared, compile("shared")), (Sharing::Exclusive, compile("exclusive"))];
    let ssd = table();
    for (what, keys) in
        [("scattered", keys(1)), ("runs of up to 16", keys(16)), ("runs of up to 64", keys(64))]
    {
        for (sharing, program) in &programs {
            let (each, by_each) = look_up(program, &ssd, *sharing, &keys, false);
            let (coalesced, by_coalesced) = look_up(program, &ssd, *sharing, &keys, true);
            println!("{what}, {sharing:?}: {LOOKUPS} lookups, {each} commands, {coalesced} coalesced");
            assert_eq!((each, coalesced), (LOOKUPS, runs(&keys)), "{what}, {sharing:?}");
            assert_eq!(by_each, expected(&keys), "{what}, {sharing:?}");
            assert_eq!(by_coalesced, by_each, "{what}, {sharing:?}");
            let documented = format!("| {what} | {each} | {coalesced} |");
            let page = include_str!("../../../docs/examples.md");
            assert!(page.contains(&documented), "docs/examples.md has no line {documented}");
        }
    }
    assert_eq!(ssd.violations(), []);
}
