//! `tail`: latencies while other threads want the processors.

use std::hint::black_box;
use std::sync::atomic::{AtomicBool, Ordering};

use super::{Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Completion};

/// Who reads, and how completions are noticed.
const READERS: [(&str, Api, Completion); 3] = [
    ("kernels", Api::Io, Completion::Poll),
    ("poll", Api::Host, Completion::Poll),
    ("interrupt", Api::Host, Completion::Interrupt),
];

/// Its ways: kernels, and host queues that poll or sleep, beside so many busy threads.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        for load in lab.options.load.clone() {
            for (way, api, completion) in READERS {
                let name = format!("{way} load={load} bs={size}");
                ways.push(Box::new(move |lab| {
                    let options = BenchOptions { api, completion, ..lab.reads(size) };
                    measure(lab, &name, load, &options)
                }));
            }
        }
    }
    ways
}

fn measure(lab: &mut Lab<'_>, name: &str, load: u32, options: &BenchOptions) -> Result<(), RunError> {
    if let Some((run, interrupts)) = beside(load, || lab.with_interrupts(name, options))? {
        let figures = figures_of(&run).with_counted("interrupts_per_io", interrupts);
        let model = lab.in_virtual_time().then(|| lab.read_latency(options.bs, options.iodepth)).flatten();
        lab.row(name, figures.merged(model.unwrap_or_default()));
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
