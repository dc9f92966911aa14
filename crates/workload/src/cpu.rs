//! Processors: time used on them, and which of them to run on.

use std::time::Duration;

use rustix::thread::{CpuSet, sched_setaffinity};
use rustix::time::{ClockId, clock_gettime};

use crate::error::RunError;

/// CPU time of this thread.
pub fn thread_time() -> Duration {
    time(ClockId::ThreadCPUTime)
}

/// CPU time of this process.
pub fn process_time() -> Duration {
    time(ClockId::ProcessCPUTime)
}

fn time(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// A duration in whole nanoseconds.
pub fn nanoseconds(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Keeps this thread on processor `cpu`.
pub fn pin(cpu: usize) -> Result<(), RunError> {
    let refused = |reason: String| RunError::Processor { cpu, reason };
    if cpu >= CpuSet::MAX_CPU {
        return Err(refused(format!("must be below {}", CpuSet::MAX_CPU)));
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set).map_err(|error| refused(std::io::Error::from(error).to_string()))
}
