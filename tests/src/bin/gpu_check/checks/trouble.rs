//! What goes wrong must be told, and end.

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use warpbell::OpenOptions;
use warpbell_kernels::abi;
use warpbell_sim::{Case, Rig, threaded};
use warpbell_softctl::FaultPlan;
use warpbell_tests::suite::{self, ResetOrder};
use warpbell_workload::{Access, Api, BenchOptions, ByteSize, Control, Sharing, Verify, bench, resolve};

use crate::run::Fixture;

fn with_faults(plan: &str) -> anyhow::Result<OpenOptions> {
    let faults = Some(FaultPlan::from_toml(plan).context("the plan of faults")?);
    Ok(OpenOptions::new().faults(faults))
}

/// A block that cannot be read: one command fails, with the controller's own status.
pub fn failed_reads(fixture: &Fixture) -> anyhow::Result<String> {
    let plan =
        "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nopcode = \"read\"\nlba = 100\n";
    let ssd = fixture.soft("size=1m", &with_faults(plan)?)?;
    suite::read_errors_on(fixture.target, &ssd, 1, 128 << 10);
    Ok("one failed read of 256, told with its LBA and status".to_owned())
}

/// Commands that are never answered end at their deadlines, and the host is told.
pub fn dead_controller(fixture: &Fixture) -> anyhow::Result<String> {
    const DEADLINE: Duration = Duration::from_millis(300);
    let ssd = Arc::new(fixture.soft("size=1m", &with_faults("[[fault]]\nkind = \"drop\"\n")?)?);
    let case = Case {
        target: fixture.target,
        entries: 64,
        commands: 1,
        timeout: DEADLINE,
        ..Case::new("dead controller")
    };
    let soft = ssd.soft().context("a soft controller")?.clone();
    let rig = Rig::new(&case, ssd.clone(), soft)?;
    let begin = Instant::now();
    let outcome = threaded::run_on(&rig)?;
    let took = begin.elapsed();
    let findings = [outcome.findings, rig.check_records(&[abi::STATUS_TIMED_OUT])?].concat();
    anyhow::ensure!(findings.is_empty(), "{}", warpbell_sim::lines(&findings));
    let expected = abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT;
    let late = rig.records()?.iter().filter(|record| record.status == expected).count();
    anyhow::ensure!(late == 32, "{late} of 32 commands timed out");
    anyhow::ensure!(took >= DEADLINE, "over after {took:?}, before the deadline of {DEADLINE:?}");
    anyhow::ensure!(rig.attachment.take_alarm(0), "the host was not told");
    Ok(format!("32 commands gave up after {took:.0?}, deadline {DEADLINE:?}"))
}

/// Kernels whose controller is reset return, and everything works afterwards. In the first run a command is not answered:
/// who is always answered soon need not look whether the queue is lost.
pub fn reset(fixture: &Fixture) -> anyhow::Result<String> {
    let unanswered = "[[fault]]\nkind = \"drop\"\nopcode = \"read\"\nafter = 1000\ncount = 1\n";
    let ssd = Arc::new(fixture.soft("size=16m", &with_faults(unanswered)?)?);
    for order in [ResetOrder::AfterKernels, ResetOrder::UnderKernels] {
        suite::reset_under_load_on(fixture.target, &ssd, order, fixture.sized(16_000) as u32);
    }
    Ok("twice: after the kernels and under their feet".to_owned())
}

/// Queues and a controller that stop answering are replaced and reset under a kernel that goes on: every I/O succeeds in
/// the end, and what was read is what was written.
pub fn recovery(fixture: &Fixture) -> anyhow::Result<String> {
    let mut told = Vec::new();
    for fault in [
        "kind = \"drop\"\nqueue = 1\ncount = 64",
        "kind = \"hang\"\ncount = 4",
        "kind = \"fatal\"\ncount = 1",
    ] {
        for (api, sharing) in [(Api::Raw, Sharing::Exclusive), (Api::Raw, Sharing::Shared)] {
            // Half of the I/Os are reads, and each of two queues has half of these: 128 of 2 MiB.
            let (bytes, after) = if fixture.quick { (2 << 20, 60) } else { (16 << 20, 500) };
            let plan = format!("[[fault]]\n{fault}\nopcode = \"read\"\nafter = {after}\n");
            let ssd = fixture.soft("size=16m", &with_faults(&plan)?)?;
            let options = BenchOptions {
                rw: Access::RandRw,
                bs: ByteSize(4096),
                queues: 2,
                sharing,
                api,
                io_limit: Some(ByteSize(bytes)),
                // All of it is filled first, and looked at in the end.
                size: Some(ByteSize(fixture.range())),
                verify: Some(Verify::Crc32c),
                timeout: Duration::from_millis(200),
                retries: 8,
                ..BenchOptions::default()
            };
            let run = bench(&ssd, fixture.target, &resolve(&ssd, &options)?, &Control::new())?;
            let wrong = run.verify.as_ref().map_or(0, |verify| verify.mismatches);
            let (seen, host) = (&run.recovery.clients, &run.recovery);
            anyhow::ensure!(
                (run.errors, wrong) == (0, 0),
                "{fault:?}: {} errors, {wrong} wrong: {host:?}",
                run.errors
            );
            anyhow::ensure!(seen.recovered > 0, "{fault:?}: nothing was hit: {host:?}");
            anyhow::ensure!(host.queues_lost == host.queues_replaced, "{fault:?}: {host:?}");
            // Late doorbells of a queue that is gone are told apart from violations.
            anyhow::ensure!(run.violations == 0, "{fault:?}: {:?}", run.violation_examples);
            told.push(format!("{} of {}", seen.recovered, run.total.ios));
        }
    }
    Ok(format!("I/Os that succeeded after a loss: {}", told.join(", ")))
}

/// A kernel that would wait for ever is asked to stop, by hand and by its watchdog.
pub fn watchdog(fixture: &Fixture) -> anyhow::Result<String> {
    let mut took = Vec::new();
    for by_watchdog in [false, true] {
        let gauge = crate::figures::gauge::Gauge::new(fixture)?;
        let launch = gauge.launch(abi::GAUGE_PONG, 1, 1)?;
        let begin = Instant::now();
        let limit = Duration::from_millis(100);
        let running = if by_watchdog { launch.limit(limit).start()? } else { launch.start()? };
        if !by_watchdog {
            anyhow::ensure!(!running.is_finished()?, "a kernel that waits for a word has ended");
            anyhow::ensure!(running.stop(), "it has no stop flag");
        }
        running.join()?;
        anyhow::ensure!(
            !by_watchdog || begin.elapsed() >= limit,
            "ended after {:?}, before its watchdog's limit",
            begin.elapsed()
        );
        anyhow::ensure!(begin.elapsed() < Duration::from_secs(60), "ended only after {:?}", begin.elapsed());
        took.push(format!("{:.0?}", begin.elapsed()));
    }
    Ok(format!("stopped by hand after {}, by the watchdog after {}", took[0], took[1]))
}
