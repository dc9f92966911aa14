//! `batching`: how many commands share a doorbell, how many warps a queue, and who names commands.

use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Protocol, Sharing};
use crate::result::Run;
use crate::size::ByteSize;

/// Commands that begin together, by the lanes of a warp.
const GATHERED: [u32; 6] = [1, 2, 4, 8, 16, 32];
/// Warps of the ablations of queues and of identifiers.
const WARPS: u32 = 4;
/// Queues that these warps share.
const QUEUES: [u16; 3] = [1, 2, 4];
/// Identifiers of a lane, where a warp has more commands in flight than lanes.
const TAGS: [u32; 3] = [1, 2, 4];
const LANES: u32 = 32;
/// Commands in flight of each warp.
pub(super) const DEPTH: u32 = LANES;
/// Who draws an identifier from a pool of all adds to its counter, and takes the lock of the identifier.
const RMW_OF_A_DRAW: f64 = 2.0;

/// Its ways, in real time or in virtual time.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let sizes = lab.options.sizes.clone();
    sizes.into_iter().flat_map(|size| [gathering(size), queues(size), tags(size)]).flatten().collect()
}

/// Commands that share a doorbell: one warp on a queue of its own.
fn gathering(size: ByteSize) -> Vec<Way> {
    let way = |lanes: u32| -> Way {
        Box::new(move |lab| {
            let options = BenchOptions { api: Api::Raw, gather: Some(lanes), ..lab.reads(size) };
            measure(lab, &format!("gather={lanes} bs={size}"), &options, &owned(lanes))
        })
    };
    GATHERED.map(way).into()
}

/// What the model says of warps that own their queues, and ring once for so many commands.
fn owned(lanes: u32) -> Figures {
    let doorbells = 1.0 / f64::from(lanes);
    Figures::default().with("expected_sq_doorbells_per_io", doorbells).with("expected_rmw_per_io", 0.0)
}

/// Warps with full batches, on a queue each or on some together.
fn queues(size: ByteSize) -> Vec<Way> {
    let own: Way = Box::new(move |lab| {
        let options = BenchOptions { gather: Some(LANES), ..warps(lab, size, WARPS as u16) };
        measure(lab, &format!("exclusive queues={WARPS} warps={WARPS} bs={size}"), &options, &owned(LANES))
    });
    let shared = |queues: u16| -> Way {
        Box::new(move |lab| {
            let sharing = Sharing::Shared;
            let options = BenchOptions { gather: Some(LANES), sharing, ..warps(lab, size, queues) };
            let model = owned(LANES).without("expected_rmw_per_io");
            measure(lab, &format!("shared queues={queues} warps={WARPS} bs={size}"), &options, &model)
        })
    };
    std::iter::once(own).chain(QUEUES.map(shared)).collect()
}

/// The warps of an ablation on so many queues, each warp with all its lanes in flight.
fn warps(lab: &Lab<'_>, size: ByteSize, queues: u16) -> BenchOptions {
    let iodepth = WARPS * LANES / u32::from(queues);
    BenchOptions { api: Api::Raw, queues, warps: Some(WARPS), iodepth, ..lab.reads(size) }
}

/// Identifiers: how many a lane has of its own, and what it costs to draw them from a pool of all instead. The latter is the
/// laboratory's protocol `marks` beside `marks-own`, which differ in nothing else.
fn tags(size: ByteSize) -> Vec<Way> {
    let of_lane = |tags: u32| -> Way {
        Box::new(move |lab| {
            let (iodepth, gather) = (tags * LANES, Some(LANES));
            let options = BenchOptions { api: Api::Raw, gather, iodepth, ..lab.reads(size) };
            measure(lab, &format!("tags={tags} of each lane bs={size}"), &options, &owned(LANES))
        })
    };
    let mut ways: Vec<Way> = TAGS.map(of_lane).into();
    for (pool, protocol) in [("own", Protocol::MarksOwn), ("drawn", Protocol::Marks)] {
        ways.push(Box::new(move |lab| {
            let (sharing, protocol) = (Sharing::Shared, Some(protocol));
            let options = BenchOptions { sharing, protocol, ..warps(lab, size, 1) };
            let name = |pool: &str| format!("tags {pool} bs={size}");
            measure(lab, &name(pool), &options, &Figures::default())?;
            let (drawn, own) = (protocol == Some(Protocol::Marks), name("own"));
            lab.model(name(pool), move |known| {
                let rmw = known.get(&own, "rmw_per_io").filter(|_| drawn)?;
                Some(Figures::default().with("expected_rmw_per_io", rmw + RMW_OF_A_DRAW))
            });
            Ok(())
        }));
    }
    ways
}

fn measure(lab: &mut Lab<'_>, name: &str, options: &BenchOptions, model: &Figures) -> Result<(), RunError> {
    if let Some(run) = lab.point(name, options)? {
        lab.row(name, work(figures_of(&run), &run).merged(model.clone()));
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
