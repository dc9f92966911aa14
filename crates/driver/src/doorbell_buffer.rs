//! Doorbell Buffer Config (NVMe Base 2.0, 5.8): doorbells in memory that the controller polls, so that most of them
//! cost no register write. Only controllers in software offer it.

use warpbell_hw::{DmaBuffer, Doorbell, DoorbellKind, Qid, Shadow};
use warpbell_nvme::command;
use warpbell_nvme::identify::IdentifyController;

use crate::core::Core;
use crate::data::{Data, PAGE};
use crate::{DriverError, NotOffered, Offer, QueueGrant};

/// Whether I/O queues' doorbells go through memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DoorbellBuffer {
    /// Never.
    Off,
    /// Where the controller offers it (OACS bit 8) and its queues fit the pages.
    #[default]
    Auto,
    /// Always: opening fails where it cannot be had.
    On,
}

/// The two pages that the controller knows.
#[derive(Debug)]
pub(crate) struct DoorbellPages {
    shadows: DmaBuffer,
    events: DmaBuffer,
    stride: u8,
}

impl DoorbellPages {
    fn offset(&self, qid: Qid, kind: DoorbellKind) -> usize {
        let index = 2 * usize::from(qid.0) + usize::from(kind == DoorbellKind::CqHead);
        index * (4 << self.stride)
    }

    /// The doorbell with its shadow, both entries zeroed as for a new queue.
    pub(crate) fn shadowed(&self, doorbell: Doorbell, qid: Qid, kind: DoorbellKind) -> Doorbell {
        let at = self.offset(qid, kind);
        let entries = (self.shadows.window().slice(at, 4), self.events.window().slice(at, 4));
        let (Ok(entry), Ok(event)) = entries else { return doorbell };
        for word in [&entry, &event] {
            word.store_u32(0, 0, std::sync::atomic::Ordering::Relaxed);
        }
        doorbell.with_shadow(Shadow { entry, event })
    }

    fn clear(&self) {
        for buffer in [&self.shadows, &self.events] {
            let zeroed = buffer.window().fill(0, buffer.len(), 0);
            debug_assert!(zeroed.is_ok(), "the whole window is in the window");
        }
    }
}

/// Bytes that the entries of `queues` I/O queue pairs and the admin queues take in each page.
pub(crate) fn bytes_needed(queues: u32, stride: u8) -> u64 {
    (8 << stride) * (u64::from(queues) + 1)
}

/// Tells the controller of the pages, as the options ask. Must come after the number of queues is known, and again
/// after each reset, which drops them.
pub(crate) fn configure(
    core: &Core,
    identify: &IdentifyController,
    grant: QueueGrant,
) -> Result<(), DriverError> {
    let mut slot = core.doorbell_pages.lock();
    // Pages of before a reset are the driver's alone again; without a new command nobody polls them.
    let old = slot.take();
    if !wanted(core, identify, grant)? {
        return Ok(());
    }
    let pages = match old {
        Some(old) => old,
        None => DoorbellPages {
            shadows: core.dma_buffer("the shadow doorbells", PAGE)?,
            events: core.dma_buffer("the doorbell event indices", PAGE)?,
            stride: stride_of(core),
        },
    };
    pages.clear();
    let (shadows, events) = (pages.shadows.iova().0, pages.events.iova().0);
    match core.execute(command::dbbuf_config(shadows, events), Data::None) {
        Ok(_) => *slot = Some(pages),
        Err(error) => {
            // Without a status nobody knows whether the command was executed, or will be: the pages stay until the
            // controller is disabled.
            if error.status().is_none() {
                *slot = Some(pages);
            }
            return Err(error);
        }
    }
    Ok(())
}

/// The distance of entries is that of the registers, which was settled when the device was opened: CAP.DSTRD as read now
/// may be that of a controller that is about to go.
fn stride_of(core: &Core) -> u8 {
    core.regs.device().doorbells().stride()
}

/// Whether doorbells shall go through memory: as the options ask, and as far as controller and page allow.
fn wanted(core: &Core, identify: &IdentifyController, grant: QueueGrant) -> Result<bool, DriverError> {
    let wish = core.options.doorbell_buffer;
    if wish == DoorbellBuffer::Off {
        return Ok(false);
    }
    if !identify.oacs.dbbuf() {
        let (device, asked) = (core.name(), Offer::DoorbellBuffer);
        return match wish {
            DoorbellBuffer::On => Err(NotOffered { device, asked }.into()),
            _ => Ok(false),
        };
    }
    let (queues, stride) = (grant.submission.max(grant.completion), stride_of(core));
    let need = bytes_needed(queues, stride);
    if need <= PAGE as u64 {
        return Ok(true);
    }
    // The admin queues' doorbells come first; at the widest strides there is no room behind them.
    let most = (PAGE as u64 / (8 << stride)).saturating_sub(1);
    let refused = DriverError::DoorbellBuffer { device: core.name(), queues, stride, need, page: PAGE, most };
    if wish == DoorbellBuffer::On {
        return Err(refused);
    }
    tracing::warn!(%refused, "doorbells go to registers");
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_holds_so_many_queues_by_stride() {
        for (stride, most) in [(0, 511), (1, 255), (2, 127), (3, 63), (4, 31)] {
            assert!(bytes_needed(most, stride) <= PAGE as u64);
            assert!(bytes_needed(most + 1, stride) > PAGE as u64, "stride {stride}");
        }
    }
}
