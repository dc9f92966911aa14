//! What the device library's accesses promise, where only they order plain data.

use std::time::Duration;

use warpbell_kernels::abi::{
    CheckResult, PORT_BITS, PORT_LINE, PORT_LOCKS, PORT_SHORT_SUM, PORT_SUM, PortCheckArgs,
};
use warpbell_sim::launch_alone;
use zerocopy::{FromZeros, IntoBytes};

use crate::run::Fixture;

const BLOCKS: u32 = 4;
const THREADS: u32 = 64;
const WARPS: u32 = BLOCKS * THREADS / 32;
/// For all of it: less than a check may take, so that it says itself what was late.
const LIMIT: Duration = Duration::from_secs(40);
/// As the kernel takes them.
const LOCKS: [&str; PORT_LOCKS as usize] = [
    "lock by compare-and-swap",
    "lock by exchange",
    "lock by acquire and release",
    "turns by acquire",
    "turns by fences",
    "lock by addition",
];

pub fn accesses_are_in_order(fixture: &Fixture) -> anyhow::Result<String> {
    let target = fixture.target.open()?;
    let rounds = fixture.sized(200) as u32;
    let memory = target.memory((PORT_BITS + rounds * BLOCKS) as usize * size_of::<u64>())?;
    let results = target.memory(WARPS as usize * size_of::<CheckResult>())?;
    let args = PortCheckArgs {
        words: memory.address(),
        results: results.address(),
        timeout_ns: LIMIT.as_nanos() as u64,
        rounds,
        ..PortCheckArgs::new()
    };
    let launch = launch_alone(&target, "check_port", &args)?.grid(BLOCKS).block(THREADS).cooperative(true);
    launch.keep((memory.clone(), results.clone())).start()?.join()?;

    let mut found = vec![CheckResult::new_zeroed(); WARPS as usize];
    results.read(0, found.as_mut_bytes())?;
    let lock = |found: &CheckResult| LOCKS.get(found.step as usize).copied().unwrap_or("no lock");
    // What was wrong before who waited for it in vain.
    for (warp, found) in found.iter().enumerate() {
        let wrong = found.wrong;
        anyhow::ensure!(wrong == 0, "warp {warp}, {}: {wrong} of its looks saw old words", lock(found));
    }
    for (warp, found) in found.iter().enumerate() {
        anyhow::ensure!(found.failed == 0, "warp {warp}, {}: waited longer than {LIMIT:?}", lock(found));
        anyhow::ensure!(found.done == u64::from(rounds), "warp {warp}: {} of {rounds} rounds", found.done);
    }
    let mut words = vec![0_u64; (PORT_BITS + rounds * BLOCKS) as usize];
    memory.read(0, words.as_mut_bytes())?;
    let of = |index: u32| words[index as usize];
    let turns = u64::from(WARPS * rounds);
    for (number, name) in (0..).zip(LOCKS) {
        let counts = [1, 2].map(|word| of(number * PORT_LINE + word));
        anyhow::ensure!(counts == [turns; 2], "{name}: {counts:?} holders counted, {turns} were there");
    }
    let adds = turns * 32;
    anyhow::ensure!(of(PORT_SUM) == adds, "{} of {adds} were added to 64 bits", of(PORT_SUM));
    anyhow::ensure!(of(PORT_SHORT_SUM) == adds, "{} of {adds} were added to 32 bits", of(PORT_SHORT_SUM));
    let missing: u32 = words[PORT_BITS as usize..].iter().map(|bits| bits.count_zeros()).sum();
    anyhow::ensure!(missing == 0, "{missing} of {} bits were not set", THREADS * BLOCKS * rounds);
    Ok(format!("{} of {turns} holders each, {adds} added, no word old, none lost", LOCKS.len()))
}
