//! One worker in a loop of the caller's.

use std::ops::ControlFlow;

use super::ffi::Counters;
use super::launch::Launch;
use super::worker::State;
use crate::Error;

/// Runs the whole launch on this thread, `turns` warp turns at a time, with `each` in between: there a
/// simulation steps its controller and its clock. `each` may break off.
///
/// With few turns controller and kernel interleave finely. Deterministic, if `each` and the hooks are.
pub fn run_stepped(
    launch: &Launch,
    turns: u32,
    mut each: impl FnMut(&State) -> ControlFlow<()>,
) -> Result<Counters, Error> {
    let mut worker = launch.worker()?;
    loop {
        worker.step(turns);
        if worker.finished()? {
            return Ok(worker.counters());
        }
        if each(worker.state()).is_break() {
            return Err(Error::Stopped { kernel: launch.kernel().to_owned() });
        }
    }
}
