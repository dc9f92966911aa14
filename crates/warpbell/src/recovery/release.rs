//! The system asks for a PCI function back, as when it is unplugged or unbound.

use std::os::fd::OwnedFd;
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use warpbell_driver::ResetMethod;
use warpbell_vfio::PciDevice;

use super::round::{Looking, Phase};
use super::table::QueueTable;
use super::{OnRelease, Recovery, SsdEventKind};

/// Whether somebody asks.
pub(super) struct Release {
    pci: Option<Arc<PciDevice>>,
    /// Readable once somebody does.
    asked: Option<OwnedFd>,
    told: bool,
}

impl Release {
    pub(super) fn new(pci: Option<Arc<PciDevice>>) -> Release {
        Release { pci, asked: None, told: false }
    }

    /// True once.
    fn take(&mut self) -> bool {
        let Some(pci) = self.pci.as_ref().filter(|_| !self.told) else { return false };
        if self.asked.is_none() {
            match pci.release_requests() {
                Ok(asked) => self.asked = Some(asked),
                Err(error) => {
                    tracing::warn!(bdf = %pci.bdf(), %error, "the system cannot ask for the function back");
                    self.told = true;
                    return false;
                }
            }
        }
        let Some(asked) = &self.asked else { return false };
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        self.told = poll(&mut [PollFd::new(asked, PollFlags::IN)], Some(&now)).is_ok_and(|ready| ready == 1);
        self.told
    }
}

impl Recovery {
    /// Whether the function was asked for, and everything on it was stopped.
    pub(super) fn is_released(&self, looking: &mut Looking, tables: &[Arc<QueueTable>]) -> bool {
        if !looking.release.take() {
            return false;
        }
        self.tell(SsdEventKind::ReleaseRequested);
        if self.policy.on_release == OnRelease::Tell {
            return false;
        }
        looking.phase = Phase::Lost;
        self.kill_all(tables);
        let mut kept = false;
        for pair in tables.iter().flat_map(|table| table.living_pairs()) {
            let deleted = self.controller.retire_queue_pair_within(&pair, self.policy.delete);
            if let Err(error) = deleted {
                tracing::warn!(%error, "a queue pair is not deleted before the function is let go");
                kept = true;
            }
        }
        // What cannot be deleted goes with a reset; and a controller that is not there any more is known to be disabled
        // or gone then, so that nobody keeps memory for it.
        if kept && let Err(error) = self.controller.reset_within(ResetMethod::Controller, self.policy.reset) {
            tracing::warn!(%error, "the controller is not reset before the function is let go");
        }
        self.tell(SsdEventKind::Released);
        true
    }
}
