//! The GPU-resident controller: every command once, no rule broken.

use warpbell_workload::resident::{self, ResidentSpec, Wait};
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
