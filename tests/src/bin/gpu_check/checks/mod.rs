//! What must hold.

mod attach;
mod kernels;
mod layers;
mod order;
mod port;
mod queues;
mod resident;
mod traces;
mod trouble;
mod workloads;

pub use kernels::images;

use crate::run::Check;

/// The check that compiles every kernel where this program has no machine code of it.
pub const COMPILES: &str = "every kernel loads";

/// Every check, cheap ones first: a machine that fails those need not be asked more.
pub fn all() -> Vec<Check> {
    vec![
        Check { name: COMPILES, body: kernels::all_load },
        Check { name: "memory of the target", body: kernels::memory },
        Check { name: "order of data and completions", body: order::nothing_is_stale },
        Check { name: "locks, turns and sums of warps", body: port::accesses_are_in_order },
        Check { name: "hazard slots of lost queues", body: attach::each_sees_the_other },
        Check { name: "queues: host data, SGL", body: queues::plain },
        Check { name: "queues: PRP lists", body: queues::by_prp },
        Check { name: "queues: shadow doorbells", body: queues::shadowed },
        Check { name: "queues: wide identifiers", body: queues::wide },
        Check { name: "queues: data in GPU memory", body: queues::device_data },
        Check { name: "bench and verify: host data", body: workloads::host_data },
        Check { name: "bench and verify: data in GPU memory", body: workloads::device_data },
        Check { name: "calls: reads and writes", body: layers::each },
        Check { name: "calls: several of a lane", body: layers::outstanding },
        Check { name: "calls: compare, zeroes, deallocate, FUA", body: layers::commands },
        Check { name: "calls: tokens", body: layers::tokens },
        Check { name: "calls: coalesced", body: layers::coalesced },
        Check { name: "calls: requests of any size", body: layers::requests },
        Check { name: "calls: in an order", body: layers::ordered },
        Check { name: "calls: batches", body: layers::batches },
        Check { name: "calls: mail in shared memory", body: layers::mail },
        Check { name: "calls: tiles in shared memory", body: layers::stream },
        Check { name: "agents", body: layers::agents },
        Check { name: "blocks of threads", body: layers::block_bench },
        Check { name: "arrays over a page cache", body: layers::arrays },
        Check { name: "protocols of the laboratory", body: layers::protocols },
        Check { name: "volume: stripe", body: layers::striped },
        Check { name: "volume: replicate", body: layers::replicated },
        Check { name: "volume: concatenate", body: layers::concatenated },
        Check { name: "digest", body: workloads::digests },
        Check { name: "trace and replay", body: traces::recorded_and_replayed },
        Check { name: "statuses of failed reads", body: trouble::failed_reads },
        Check { name: "deadlines of a dead controller", body: trouble::dead_controller },
        Check { name: "reset under a running kernel", body: trouble::reset },
        Check { name: "recovery under a running kernel", body: trouble::recovery },
        Check { name: "stop flag and watchdog", body: trouble::watchdog },
        Check { name: "resident controller", body: resident::every_command_once },
        Check { name: "resident controller: stop flag", body: resident::stops },
    ]
}
