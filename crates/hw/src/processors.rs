//! Processors of this machine.

use rustix::thread::{CpuSet, sched_getaffinity};

/// Processors that this thread may run on, in order.
pub fn usable_processors() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}
