//! `batching`: how many commands share a doorbell, and how many warps a queue.

use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Sharing};
use crate::result::Run;

/// Commands that begin together, by the lanes of a warp.
const GATHERED: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Warps of the ablation of queues.
const WARPS: u32 = 4;
const LANES: u32 = 32;
/// Commands in flight of each warp.
pub(super) const DEPTH: u32 = LANES;

/// Its ways, in real time or in virtual time.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        for lanes in GATHERED {
            ways.push(Box::new(move |lab| {
                let options = BenchOptions { api: Api::Raw, gather: Some(lanes), ..lab.reads(size) };
                measure(lab, &format!("gather={lanes} bs={size}"), &options, Some(1.0 / f64::from(lanes)))
            }));
        }
        let exact = Some(1.0 / f64::from(LANES));
        let own = move |lab: &Lab<'_>| BenchOptions {
            api: Api::Raw,
            queues: WARPS as u16,
            warps: Some(WARPS),
            iodepth: LANES,
            gather: Some(LANES),
            ..lab.reads(size)
        };
        ways.push(Box::new(move |lab| {
            let options = own(lab);
            measure(lab, &format!("exclusive warps={WARPS} bs={size}"), &options, exact)
        }));
        ways.push(Box::new(move |lab| {
            let (queues, sharing) = (1, Sharing::Shared);
            let options = BenchOptions { queues, iodepth: WARPS * LANES, sharing, ..own(lab) };
            measure(lab, &format!("shared warps={WARPS} bs={size}"), &options, exact)
        }));
    }
    ways
}

fn measure(
    lab: &mut Lab<'_>,
    name: &str,
    options: &BenchOptions,
    model: Option<f64>,
) -> Result<(), RunError> {
    if let Some(run) = lab.point(name, options)? {
        let figures = work(figures_of(&run), &run).with_counted("expected_sq_doorbells_per_io", model);
        lab.row(name, figures);
    }
    Ok(())
}

/// Work of kernels for each I/O, where it is counted.
fn work(figures: Figures, run: &Run) -> Figures {
    figures
        .with_counted("sq_doorbells_per_io", run.per_io.sq_doorbells_per_io)
        .with_counted("cq_doorbells_per_io", run.per_io.cq_doorbells_per_io)
        .with_counted("rmw_per_io", run.per_io.rmw_per_io)
        .with_counted("fences_per_io", run.per_io.fences_per_io)
        .with_counted("polls_per_io", run.per_io.polls_per_io)
}
