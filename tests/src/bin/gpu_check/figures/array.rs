//! Words of an array over a page cache, beside words of plain memory.

use warpbell::OpenOptions;
use warpbell_workload::{Api, BenchOptions, ByteSize, Control, Sharing, bench, resolve};

use crate::report::Row;
use crate::run::Fixture;

/// From a cache in which no page is found to one with all of them: the time of an access, of all warps together.
pub fn hit_rates(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let open = if fixture.on_gpu() { fixture.device_data()? } else { OpenOptions::default() };
    let ssd = fixture.soft("size=64m", &open)?;
    let mut rows = Vec::new();
    for percent in [0, 50, 90, 99, 100] {
        let options = BenchOptions {
            bs: ByteSize(4096),
            iodepth: 128,
            warps: Some(if fixture.on_gpu() { 64 } else { 2 }),
            sharing: Sharing::Shared,
            api: Api::Array,
            cache: Some(ByteSize(4 << 20)),
            hit_rate: Some(percent),
            runtime: Some(fixture.runtime()),
            threads: Some(1),
            ..BenchOptions::default()
        };
        let job = resolve(&ssd, &options)?;
        let run = bench(&ssd, fixture.target, &job, &Control::new())?;
        anyhow::ensure!(run.clean(), "{percent} %: {:?} {:?}", run.violation_examples, run.failures);
        let array = run.array.ok_or_else(|| anyhow::anyhow!("{percent} %: nothing was counted"))?;
        let found = array.hit_rate * 100.0;
        let note = format!("{found:.1} % found; plain memory {:.2} ns", array.plain.ns_per_access);
        rows.push(Row::new(format!("hit rate {percent} %"), array.cached.ns_per_access, "ns").note(note));
    }
    Ok(rows)
}
