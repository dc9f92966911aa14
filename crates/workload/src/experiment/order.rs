//! `order`: what each class of ordering costs, against none.

use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions};
use crate::size::ByteSize;

const LANES: u32 = 32;
/// Steps in flight, each an I/O of every lane.
const STEPS: u32 = 8;
/// I/Os in flight.
pub(super) const DEPTH: u32 = STEPS * LANES;

/// A way: its name, the kernel, the steps in flight, and whose rate the model expects.
const WAYS: [(&str, &str, u32, Option<&str>); 4] = [
    ("none steps=8", "bench_order_none", STEPS, None),
    ("none steps=1", "bench_order_none", 1, None),
    ("delivery steps=8", "bench_order_delivery", STEPS, Some("none steps=8")),
    // One step at a time is on its way, however many are posted.
    ("completion steps=8", "bench_order_completion", STEPS, Some("none steps=1")),
];

/// Its ways, in real time or in virtual time.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        for (way, kernel, steps, like) in WAYS {
            ways.push(Box::new(move |lab| measure(lab, way, (kernel, steps), like, size)));
        }
    }
    ways
}

fn measure(
    lab: &mut Lab<'_>,
    way: &str,
    (kernel, steps): (&'static str, u32),
    like: Option<&'static str>,
    size: ByteSize,
) -> Result<(), RunError> {
    let name = format!("{way} bs={size}");
    let options = BenchOptions { api: Api::Io, iodepth: steps * LANES, ..lab.reads(size) };
    let Some(run) = lab.by_kernel(&name, &options, kernel, None)? else { return Ok(()) };
    let figures = figures_of(&run).with_counted("sq_doorbells_per_io", run.per_io.sq_doorbells_per_io);
    lab.row(&name, figures.with("expected_sq_doorbells_per_io", 1.0 / f64::from(LANES)));
    if let Some(like) = like {
        let like = format!("{like} bs={size}");
        lab.model(name, move |known| {
            Some(Figures::default().with("expected_iops", known.get(&like, "iops")?))
        });
    }
    Ok(())
}
