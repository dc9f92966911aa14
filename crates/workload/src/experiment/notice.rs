//! `notice`: how the host learns of completions.

use warpbell_nvme::feature::{FeatureId, FeatureSelect, InterruptCoalescing};

use super::{Lab, figures_of};
use crate::error::RunError;
use crate::options::{Api, BenchOptions, Completion};

/// Completions that the controller gathers for an interrupt.
const GATHERED: u8 = 8;
/// How long it may, in units of 100 us.
const TIME: u8 = 1;

/// Runs it: host queues, polled, with an interrupt for each completion, and with gathered ones.
pub(super) fn run(lab: &mut Lab<'_>) -> Result<(), RunError> {
    lab.in_real_time()?;
    for size in lab.options.sizes.clone() {
        measure(lab, &format!("poll bs={size}"), lab.reads(size), Completion::Poll)?;
        measure(lab, &format!("interrupt bs={size}"), lab.reads(size), Completion::Interrupt)?;
        let name = format!("interrupt gather={GATHERED} bs={size}");
        match gather(lab) {
            Ok(before) => {
                let measured = measure(lab, &name, lab.reads(size), Completion::Interrupt);
                restore(lab, before)?;
                measured?;
            }
            Err(error) => lab.skip(&name, error.to_string()),
        }
    }
    Ok(())
}

fn measure(
    lab: &mut Lab<'_>,
    name: &str,
    options: BenchOptions,
    completion: Completion,
) -> Result<(), RunError> {
    if lab.control.stopped() {
        return Ok(());
    }
    let options = BenchOptions { api: Api::Host, completion, ..options };
    if let Some((run, interrupts)) = lab.with_interrupts(name, &options)? {
        lab.row(name, figures_of(&run).with_counted("interrupts_per_io", interrupts));
    }
    Ok(())
}

/// Lets the controller gather completions: what it did before.
fn gather(lab: &Lab<'_>) -> Result<u32, RunError> {
    let controller = lab.ssd.controller();
    let before = controller.get_feature(FeatureId::INTERRUPT_COALESCING, FeatureSelect::CURRENT, None)?;
    let wanted = InterruptCoalescing::new().with_thr_z(GATHERED - 1).with_time(TIME);
    controller.set_feature(FeatureId::INTERRUPT_COALESCING, wanted.into_bits(), None)?;
    Ok(before)
}

fn restore(lab: &Lab<'_>, before: u32) -> Result<(), RunError> {
    lab.ssd.controller().set_feature(FeatureId::INTERRUPT_COALESCING, before, None)?;
    Ok(())
}
