//! `tail`: latencies while other threads want the processors.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lab, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Completion};

/// Runs it: kernels, and host queues that poll or sleep, beside so many busy threads.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    lab.in_real_time()?;
    for size in lab.options.sizes.clone() {
        for load in lab.options.load.clone() {
            let of = |api, completion| BenchOptions { api, completion, ..lab.reads(size) };
            let ways = [
                ("kernels", of(Api::Io, Completion::Poll)),
                ("poll", of(Api::Host, Completion::Poll)),
                ("interrupt", of(Api::Host, Completion::Interrupt)),
            ];
            for (way, options) in ways {
                if lab.control.stopped() {
                    return Ok(());
                }
                let name = format!("{way} load={load} bs={size}");
                if let Some((run, interrupts)) = beside(load, || lab.with_interrupts(&name, &options))? {
                    lab.row(name, figures_of(&run).with_counted("interrupts_per_io", interrupts));
                }
            }
        }
    }
    Ok(())
}

/// Does some work while so many threads keep processors busy.
fn beside<T>(threads: u32, work: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        // However the work ends, the threads do, too.
        let _stop = Stop(&stop);
        for _ in 0..threads {
            scope.spawn(|| {
                let mut count = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    count = black_box(count.wrapping_mul(3) + 1);
                }
            });
        }
        work()
    })
}

/// Sets its flag when it goes.
struct Stop<'a>(&'a AtomicBool);

impl Drop for Stop<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}
