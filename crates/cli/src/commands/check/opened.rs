//! What an SSD says itself, once it is opened: what its files in sysfs do not tell.

use warpbell::{DeviceName, Ssd, Target};
use warpbell_driver::Controller;
use warpbell_platform::{Finding, Layer, Status};

use super::ways;
use crate::exit::Ending;
use crate::open::open_to_read;
use crate::units;

/// With fewer queue pairs than this, many warps share one.
const FEW_QUEUES: u16 = 8;
/// With less than this, a request of common sizes (128 KiB) takes more than one command.
const SMALL_TRANSFER: u64 = 128 << 10;

/// What came of a look.
pub struct Look {
    /// What SSD and GPU said, or why the SSD could not be asked; and the ways.
    pub findings: Vec<Finding>,
    /// How the command has to end where it could not be asked.
    pub unmet: Option<Ending>,
}

/// Opens the SSD that was named, and the GPU if there is one, asks both, and tries the ways between them. Nothing is
/// written there.
pub fn look(name: Option<&DeviceName>, target: Target) -> Look {
    let Some(name) = name else { return Look { findings: ways::tried(target, None), unmet: None } };
    match open_to_read(name) {
        Ok(ssd) => {
            let mut findings = said(&ssd);
            findings.extend(ways::tried(target, Some(&ssd)));
            Look { findings, unmet: None }
        }
        Err(ending) => {
            let (subject, why) = (format!("SSD {name}"), ending.message());
            let mut findings = vec![Finding::new(Layer::Devices, Status::NotLookedAt, subject, why, "")];
            findings.extend(ways::tried(target, None));
            Look { findings, unmet: Some(ending) }
        }
    }
}

fn said(ssd: &Ssd) -> Vec<Finding> {
    let controller = ssd.controller();
    let (queues, transfers) = (queues(ssd, controller), transfers(ssd, controller));
    vec![queues, transfers, doorbells(ssd, controller), memory(ssd, controller), commands(ssd)]
}

fn finding(ssd: &Ssd, what: &str, status: Status, found: String, means: &str) -> Finding {
    Finding::new(Layer::Devices, status, format!("{} {what}", ssd.name()), found, means)
}

fn queues(ssd: &Ssd, controller: &Controller) -> Finding {
    let pairs = ssd.granted_queues();
    let found =
        format!("{pairs} I/O queue pairs of up to {} entries", controller.capabilities().max_queue_entries());
    match pairs < FEW_QUEUES {
        true => finding(ssd, "queues", Status::Warn, found, "few: warps share them, or wait for one another"),
        false => finding(
            ssd,
            "queues",
            Status::Ok,
            found,
            "so many warps can have a queue of their own; more share",
        ),
    }
}

fn transfers(ssd: &Ssd, controller: &Controller) -> Finding {
    let descriptors = if controller.supports_sgl() { "SGLs and PRP lists" } else { "PRP lists" };
    let most = ssd.max_transfer_bytes();
    let found = match most {
        Some(bytes) => format!("up to {} a command (MDTS), by {descriptors}", units::bytes(bytes)),
        None => format!("of any size (no MDTS), by {descriptors}"),
    };
    match most.is_some_and(|bytes| bytes < SMALL_TRANSFER) {
        true => finding(
            ssd,
            "transfers",
            Status::Warn,
            found,
            "small: larger requests are split into more commands",
        ),
        false => finding(ssd, "transfers", Status::Ok, found, "larger requests are split"),
    }
}

fn doorbells(ssd: &Ssd, controller: &Controller) -> Finding {
    let (found, means) = match (controller.identify().oacs.dbbuf(), controller.uses_doorbell_buffer()) {
        (true, true) => ("shadow doorbells (Doorbell Buffer Config), in use", "kernels ring in memory"),
        (true, false) => ("registers; shadow doorbells are offered", "kernels ring by the ways below"),
        (false, _) => {
            ("registers; no shadow doorbells", "kernels ring by the ways below, or a thread rings for them")
        }
    };
    finding(ssd, "doorbells", Status::Ok, found.to_owned(), means)
}

fn memory(ssd: &Ssd, controller: &Controller) -> Finding {
    let (found, means) = match controller.capabilities().cmbs() {
        true => {
            ("a controller memory buffer is offered", "submission queues can lie there: bench --rings cmb")
        }
        false => ("no controller memory buffer", "queues lie in memory of the host"),
    };
    finding(ssd, "memory", Status::Ok, found.to_owned(), means)
}

fn commands(ssd: &Ssd) -> Finding {
    let (identify, oncs) = (ssd.identify(), ssd.identify().oncs);
    let words = [
        ("Compare", oncs.compare()),
        ("Write Zeroes", oncs.write_zeroes()),
        ("Dataset Management (deallocate)", oncs.dataset_management()),
    ];
    let (has, lacks): (Vec<_>, Vec<_>) = words.into_iter().partition(|(_, offered)| *offered);
    let list = |words: Vec<(&'static str, bool)>| match words.is_empty() {
        true => "none".to_owned(),
        false => words.iter().map(|(word, _)| *word).collect::<Vec<_>>().join(", "),
    };
    let cache = if identify.vwc.present() { "a volatile write cache" } else { "no volatile write cache" };
    let means = match identify.vwc.present() {
        true => "what is written lasts after a flush, or with FUA",
        false => "what is written lasts when the write is answered",
    };
    let found = format!("optional commands: {}; not offered: {}; {cache}", list(has), list(lacks));
    finding(ssd, "commands", Status::Ok, found, means)
}
