//! The GPU-resident controller: every command once, no rule broken, and an end when it is asked to.

use std::time::{Duration, Instant};

use warpbell_kernels::abi::ResidentArgs;
use warpbell_sim::launch_alone;
use warpbell_workload::resident::{self, Geometry, ResidentMemory, ResidentSpec, Wait};
use warpbell_workload::{Access, Api, BenchOptions, ByteSize, Control, Sharing};

use crate::run::Fixture;

pub fn every_command_once(fixture: &Fixture) -> anyhow::Result<String> {
    let mut commands = 0;
    for (sharing, wait, warps, queues, batch) in [
        (Sharing::Exclusive, Wait::None, 2, 2, 32),
        (Sharing::Exclusive, Wait::Each, 2, 2, 32),
        (Sharing::Shared, Wait::None, 4, 2, 7),
        (Sharing::Shared, Wait::Each, 4, 1, 32),
        (Sharing::Shared, Wait::Thread, 2, 1, 1),
    ] {
        let options = BenchOptions {
            rw: Access::RandRead,
            bs: ByteSize(512),
            iodepth: 64,
            queues,
            warps: Some(warps),
            sharing,
            api: Api::Io,
            io_limit: Some(ByteSize(512 * fixture.sized(40_000))),
            threads: Some(1),
            ..BenchOptions::default()
        };
        let spec = ResidentSpec { batch, wait, follow: true, ..ResidentSpec::default() };
        let what = format!("{sharing} {wait} {warps} warps, {queues} queues, batches of {batch}");
        let job = resident::resolve(&spec, &options)?;
        let run = resident::bench(fixture.target, &spec, &job, &Control::new())?;
        anyhow::ensure!(run.clean(), "{what}: {:?} {:?}", run.violation_examples, run.failures);
        anyhow::ensure!(run.total.ios >= fixture.sized(40_000), "{what}: only {} commands", run.total.ios);
        commands += run.total.ios;
    }
    Ok(format!("{commands} commands, each followed from its entry to its answer"))
}

/// A controller without its clients, which waits for them for ever, ends when its watchdog sets the stop flag.
pub fn stops(fixture: &Fixture) -> anyhow::Result<String> {
    const LIMIT: Duration = Duration::from_millis(100);
    let options = BenchOptions {
        rw: Access::RandRead,
        bs: ByteSize(512),
        iodepth: 8,
        warps: Some(1),
        io_limit: Some(ByteSize(512 * 1000)),
        threads: Some(1),
        timeout: Duration::from_secs(1),
        ..BenchOptions::default()
    };
    let spec = ResidentSpec::default();
    let job = resident::resolve(&spec, &options)?;
    let geometry = Geometry::new(fixture.target, &spec, &job)?;
    let target = fixture.target.open()?;
    let memory = ResidentMemory::new(&target, &spec, &job, &geometry, 0)?;
    let args = ResidentArgs { io_limit: 1000, ..memory.start()? };
    let launch = launch_alone(&target, "resident", &args)?.cooperative(true);
    let launch =
        launch.grid(geometry.controller_blocks).block(geometry.threads()).mailbox(memory.mailbox())?;
    let begin = Instant::now();
    launch.keep(memory).limit(LIMIT).start()?.join()?;
    let took = begin.elapsed();
    anyhow::ensure!(took >= LIMIT, "ended after {took:?}, though a client had not left");
    Ok(format!("a controller left alone stopped after {took:.1?}, asked after {LIMIT:?}"))
}
