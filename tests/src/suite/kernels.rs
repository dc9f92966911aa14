//! Kernel `queue_test` on a real queue: each command answered once, by its own answer, with its own data.

use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use warpbell::{Sharing, Ssd, Target};

use warpbell_sim::threaded::run_on;
use warpbell_sim::{Case, Mode, Rig, lines};

/// Runs every case that the SSD's limits leave on the CPU target. Returns how many commands.
pub fn kernels(ssd: &Arc<Ssd>, nsid: u32) -> u64 {
    kernels_on(Target::Cpu, ssd, nsid, (None, None))
}

/// The same on any target; of the cases only those of these numbers, which are counted round, and with this timeout.
pub fn kernels_on(
    target: Target,
    ssd: &Arc<Ssd>,
    nsid: u32,
    (only, timeout): (Option<Range<u64>>, Option<Duration>),
) -> u64 {
    let on = |case: Case| Case { target, timeout: timeout.unwrap_or(case.timeout), ..case };
    let mut cases: Vec<_> = cases(ssd, nsid).into_iter().map(on).collect();
    if let Some(numbers) = only {
        let case = |number: u64| {
            let case = &cases[(number % cases.len() as u64) as usize];
            Case { name: format!("case {number}: {}", case.name), ..case.clone() }
        };
        cases = numbers.map(case).collect();
    }
    for case in &cases {
        let rig = Rig::new(case, ssd.clone(), ssd.clone())
            .unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        let outcome = run_on(&rig).unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        let checked = rig.check_success().unwrap_or_else(|error| panic!("{}: {error:#}", case.name));
        let findings: Vec<_> = outcome.findings.into_iter().chain(checked).collect();
        assert!(
            findings.is_empty(),
            "{} fails on {}:\n{}\n{case:?}",
            case.name,
            ssd.name(),
            lines(&findings)
        );
    }
    let commands = cases.iter().map(Case::total).sum();
    println!("{}: {commands} commands of kernels in {} cases, {}", ssd.name(), cases.len(), ssd.data_path());
    commands
}

fn cases(ssd: &Ssd, nsid: u32) -> Vec<Case> {
    let block_size = ssd.namespace(Some(warpbell_hw::Nsid(nsid))).expect("the namespace").block_size;
    let base = |name: &str| Case { nsid, block_size, commands: 8, ..Case::new(name) };
    let mut cases = Vec::new();
    for sharing in [Sharing::Exclusive, Sharing::Shared] {
        let warps = if sharing == Sharing::Shared { 3 } else { 1 };
        let of = |name: &str| Case { sharing, warps, ..base(&format!("{name}, {sharing:?}")) };
        cases.push(Case { entries: 2, ..of("ring of 2, reads") });
        cases.push(Case { mode: Mode::WriteRead, async_depth: 2, ..of("ring of 4, writes read back") });
        // The indices wrap on the way: 32 bits of them, and the rings often.
        let wrapping = Case { start: u64::from(u32::MAX) - 40, entries: 16, batch: 5, ..of("wrapping") };
        cases.push(Case { async_depth: 3, mode: Mode::WriteRead, ..wrapping });
        cases.push(Case { entries: 64, async_depth: 4, mode: Mode::Write, ..of("ring of 64, writes") });
        cases.push(Case { entries: 1024, async_depth: 2, ..of("ring of 1024, reads") });
        cases.push(Case { entries: 64, mode: Mode::Flush, ..of("flushes") });
    }
    let several = Case { entries: 16, async_depth: 2, mode: Mode::WriteRead, ..base("several queues") };
    // One is left for those who fill and check the blocks.
    let queues = (u32::from(ssd.granted_queues()) - 1).clamp(1, 4);
    cases.push(Case { queues, warps: queues, ..several.clone() });
    cases.push(Case { queues, warps: queues + 2, sharing: Sharing::Shared, ..several });
    cases.retain(|case| case.entries <= ssd.controller().max_entries());
    cases
}
