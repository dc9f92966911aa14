//! `notice`: how the host learns of completions.

use warpbell_driver::Coalescing;

use super::{Figures, Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Completion};
use crate::size::ByteSize;

/// Its ways: host queues, polled, with an interrupt for each completion, and with gathered ones.
pub(super) fn ways(lab: &Lab<'_>) -> Vec<Way> {
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        ways.push(Box::new(move |lab| measure(lab, &format!("poll bs={size}"), size, None)));
        ways.push(by_interrupt(format!("interrupt bs={size}"), size, Coalescing::OFF));
        for wanted in lab.options.coalescing.clone() {
            ways.push(by_interrupt(format!("interrupt coalescing={wanted} bs={size}"), size, wanted));
        }
    }
    ways
}

/// Measures with the controller gathering completions so, whatever it did before. One that has no such feature is skipped.
fn by_interrupt(name: String, size: ByteSize, wanted: Coalescing) -> Way {
    Box::new(move |lab| match lab.ssd.controller().interrupt_coalescing() {
        Ok(_) => measure(lab, &name, size, Some(wanted)),
        Err(error) => {
            lab.skip(&name, error.to_string());
            Ok(())
        }
    })
}

/// Measures a queue that is polled, or one that waits for interrupts.
fn measure(
    lab: &mut Lab<'_>,
    name: &str,
    size: ByteSize,
    coalescing: Option<Coalescing>,
) -> Result<(), RunError> {
    let completion = if coalescing.is_some() { Completion::Interrupt } else { Completion::Poll };
    let options = BenchOptions { api: Api::Host, completion, coalescing, ..lab.reads(size) };
    if let Some((run, interrupts)) = lab.with_interrupts(name, &options)? {
        let figures = figures_of(&run).with_counted("interrupts_per_io", interrupts);
        lab.row(name, figures.merged(expected(lab, size, coalescing)));
    }
    Ok(())
}

/// What is to come in virtual time, where nothing is late and each completion has a time of its own. Where fewer are in
/// flight than share an interrupt, all of them wait for its time.
fn expected(lab: &Lab<'_>, size: ByteSize, coalescing: Option<Coalescing>) -> Figures {
    if !lab.in_virtual_time() {
        return Figures::default();
    }
    let shared = |wanted: Coalescing| f64::from(wanted.threshold().min(lab.iodepth));
    let interrupts = coalescing.map_or(0.0, |wanted| 1.0 / shared(wanted));
    let late = coalescing
        .filter(|wanted| wanted.threshold() > lab.iodepth)
        .map_or(0.0, |wanted| wanted.time().as_nanos() as f64);
    let latencies = lab.reads_expected(size, lab.iodepth);
    let latencies = latencies.iter().filter(|(key, _)| key.ends_with("_ns"));
    latencies
        .fold(Figures::default().with("expected_interrupts_per_io", interrupts), |figures, (key, value)| {
            figures.with(key.to_owned(), value + late)
        })
}
