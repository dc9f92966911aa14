//! `order`: what each class of ordering costs, against none.

use super::{Figures, Lab, figures_of};
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

/// Runs it, in real time or in virtual time.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    for size in lab.options.sizes.clone() {
        let mut found: Vec<(&str, f64)> = Vec::new();
        for (way, kernel, steps, like) in WAYS {
            if lab.control.stopped() {
                return Ok(());
            }
            let expected = found.iter().find(|(known, _)| Some(*known) == like).map(|(_, iops)| *iops);
            if let Some(figures) = measure(lab, way, kernel, steps, size)? {
                found.push((way, figures.get("iops").unwrap_or(0.0)));
                let figures = figures.with_counted("expected_iops", expected);
                lab.row(
                    format!("{way} bs={size}"),
                    figures.with("expected_sq_doorbells_per_io", 1.0 / f64::from(LANES)),
                );
            }
        }
    }
    Ok(())
}

fn measure(
    lab: &mut Lab<'_>,
    way: &str,
    kernel: &'static str,
    steps: u32,
    size: ByteSize,
) -> Result<Option<Figures>, RunError> {
    let options = BenchOptions { api: Api::Io, iodepth: steps * LANES, ..lab.reads(size) };
    let run = lab.by_kernel(&format!("{way} bs={size}"), &options, kernel, None)?;
    Ok(run.map(|run| figures_of(&run).with_counted("sq_doorbells_per_io", run.per_io.sq_doorbells_per_io)))
}
