//! `notice`: how the host learns of completions.

use warpbell_nvme::feature::{FeatureId, FeatureSelect, InterruptCoalescing};

use super::{Lab, Way, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Completion};
use crate::size::ByteSize;

/// Completions that the controller gathers for an interrupt.
const GATHERED: u8 = 8;
/// How long it may, in units of 100 us.
const TIME: u8 = 1;

/// Its ways: host queues, polled, with an interrupt for each completion, and with gathered ones.
pub(super) fn ways(lab: &Lab<'_>) -> Result<Vec<Way>, RunError> {
    lab.in_real_time()?;
    let mut ways: Vec<Way> = Vec::new();
    for size in lab.options.sizes.clone() {
        ways.push(Box::new(move |lab| measure(lab, &format!("poll bs={size}"), size, Completion::Poll)));
        let each = InterruptCoalescing::new();
        ways.push(Box::new(move |lab| by_interrupt(lab, &format!("interrupt bs={size}"), size, each)));
        let name = format!("interrupt gather={GATHERED} bs={size}");
        let some = InterruptCoalescing::new().with_thr_z(GATHERED - 1).with_time(TIME);
        ways.push(Box::new(move |lab| by_interrupt(lab, &name, size, some)));
    }
    Ok(ways)
}

/// Measures with the controller gathering completions so, whatever it did before, and restores that.
fn by_interrupt(
    lab: &mut Lab<'_>,
    name: &str,
    size: ByteSize,
    wanted: InterruptCoalescing,
) -> Result<(), RunError> {
    match gather(lab, wanted) {
        Ok(before) => {
            let measured = measure(lab, name, size, Completion::Interrupt);
            restore(lab, before)?;
            measured
        }
        Err(error) => {
            lab.skip(name, error.to_string());
            Ok(())
        }
    }
}

fn measure(lab: &mut Lab<'_>, name: &str, size: ByteSize, completion: Completion) -> Result<(), RunError> {
    let options = BenchOptions { api: Api::Host, completion, ..lab.reads(size) };
    if let Some((run, interrupts)) = lab.with_interrupts(name, &options)? {
        lab.row(name, figures_of(&run).with_counted("interrupts_per_io", interrupts));
    }
    Ok(())
}

/// Lets the controller gather completions so, or none: what it did before.
fn gather(lab: &Lab<'_>, wanted: InterruptCoalescing) -> Result<u32, RunError> {
    let controller = lab.ssd.controller();
    let before = controller.get_feature(FeatureId::INTERRUPT_COALESCING, FeatureSelect::CURRENT, None)?;
    controller.set_feature(FeatureId::INTERRUPT_COALESCING, wanted.into_bits(), None)?;
    Ok(before)
}

fn restore(lab: &Lab<'_>, before: u32) -> Result<(), RunError> {
    lab.ssd.controller().set_feature(FeatureId::INTERRUPT_COALESCING, before, None)?;
    Ok(())
}
