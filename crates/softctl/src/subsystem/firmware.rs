//! Firmware slots. An image is any bytes that begin with its revision: 8 printable ASCII characters.

use std::collections::BTreeMap;

use warpbell_nvme::Status;
use warpbell_nvme::command::{AsyncEvent, AsyncEventType, AsyncNoticeInfo, CommitAction};
use warpbell_nvme::identify::pad_ascii;
use warpbell_nvme::log::{FirmwareSlotInfo, FirmwareSlotLog, LogPageId};

use super::{State, Subsystem};
use crate::engine::{Refused, never};

/// Slots; the first has the image that the configuration names, and is read only.
pub(crate) const SLOTS: u8 = 3;
/// Longest image, in bytes.
const MAX_IMAGE: u64 = 16 << 20;

type Revision = [u8; 8];

/// Which image runs, and which there are.
#[derive(Clone, Debug)]
pub(crate) struct Firmware {
    slots: [Option<Revision>; SLOTS as usize],
    /// The slot of the image that runs, from 1 on.
    active: u8,
    /// The slot that the next Controller Level Reset activates.
    next: Option<u8>,
}

/// An image on its way to the controller: the pieces so far, by their offset in bytes.
#[derive(Debug, Default)]
pub(crate) struct Download {
    pieces: BTreeMap<u64, Vec<u8>>,
}

impl Download {
    /// Room for `len` bytes at `offset`?
    pub(crate) fn admit(&self, offset: u64, len: u64) -> Result<(), Refused> {
        let end = offset + len;
        if end > MAX_IMAGE {
            return Err(never(Status::INVALID_FIELD));
        }
        let before = self.pieces.range(..end).next_back();
        if before.is_some_and(|(start, piece)| start + piece.len() as u64 > offset) {
            return Err(never(Status::OVERLAPPING_RANGE));
        }
        Ok(())
    }

    /// Takes a piece that [`Download::admit`] lets in.
    pub(crate) fn take(&mut self, offset: u64, piece: Vec<u8>) {
        self.pieces.insert(offset, piece);
    }

    /// The revision of the image, if all pieces make one; `None` if nothing was downloaded. The pieces are gone then.
    pub(crate) fn finish(&mut self) -> Result<Option<Revision>, Refused> {
        let pieces = std::mem::take(&mut self.pieces);
        if pieces.is_empty() {
            return Ok(None);
        }
        let mut image = Vec::new();
        for (offset, piece) in pieces {
            if offset != image.len() as u64 {
                return Err(never(Status::INVALID_FIRMWARE_IMAGE));
            }
            image.extend(piece);
        }
        let revision = image.first_chunk::<8>().copied();
        let printable = |revision: &Revision| revision.iter().all(|byte| (0x20..=0x7e).contains(byte));
        revision.filter(printable).map(Some).ok_or(never(Status::INVALID_FIRMWARE_IMAGE))
    }
}

impl Firmware {
    pub(super) fn new(revision: &str) -> Firmware {
        Firmware { slots: [Some(pad_ascii(revision)), None, None], active: 1, next: None }
    }

    /// The revision that runs.
    pub(crate) fn revision(&self) -> Revision {
        self.slots[usize::from(self.active) - 1].unwrap_or_default()
    }

    /// Whether an image waits for a Controller Level Reset.
    pub(super) fn awaits_reset(&self) -> bool {
        self.next.is_some()
    }

    pub(crate) fn log(&self) -> FirmwareSlotLog {
        let mut log = FirmwareSlotLog::zeroed();
        log.afi = FirmwareSlotInfo::new().with_active(self.active).with_next(self.next.unwrap_or(0));
        log.frs.iter_mut().zip(self.slots).for_each(|(field, slot)| *field = slot.unwrap_or_default());
        log
    }

    /// A Controller Level Reset of any controller.
    pub(crate) fn reset(&mut self) {
        self.active = self.next.take().unwrap_or(self.active);
    }

    /// The slot that a new image goes to if the host leaves the choice: an empty one, or one that nothing needs.
    fn choose(&self) -> u8 {
        let free = |slot: &u8| self.slots[usize::from(*slot) - 1].is_none();
        let spare = |slot: &u8| *slot != self.active && Some(*slot) != self.next;
        (2..=SLOTS).find(free).or_else(|| (2..=SLOTS).find(spare)).unwrap_or(SLOTS)
    }

    /// Does what Firmware Commit asks, with the image that was downloaded. True if one was activated at once.
    fn commit(&mut self, slot: u8, action: CommitAction, image: Option<Revision>) -> Result<bool, Refused> {
        let replaces = match action {
            CommitAction::REPLACE | CommitAction::REPLACE_ACTIVATE_AT_RESET => true,
            CommitAction::ACTIVATE_AT_RESET => false,
            CommitAction::ACTIVATE_NOW => image.is_some(),
            // There are no boot partitions.
            _ => return Err(never(Status::INVALID_FIELD)),
        };
        let slot = if slot == 0 && replaces { self.choose() } else { slot };
        if slot == 0 || slot > SLOTS || replaces && slot == 1 {
            return Err(never(Status::INVALID_FIRMWARE_SLOT));
        }
        let place = &mut self.slots[usize::from(slot) - 1];
        if replaces {
            *place = Some(image.ok_or(never(Status::INVALID_FIRMWARE_IMAGE))?);
        } else if place.is_none() {
            return Err(never(Status::INVALID_FIRMWARE_IMAGE));
        }
        match action {
            CommitAction::REPLACE => {}
            CommitAction::ACTIVATE_NOW => (self.active, self.next) = (slot, None),
            _ => self.next = Some(slot),
        }
        Ok(action == CommitAction::ACTIVATE_NOW)
    }
}

impl State {
    fn tell_activation(&self) {
        let event = AsyncEvent::new()
            .with_event_type(AsyncEventType::NOTICE)
            .with_info(AsyncNoticeInfo::FIRMWARE_ACTIVATION_STARTING.0)
            .with_log_page(LogPageId::FIRMWARE_SLOT.0);
        self.tell_all(event);
    }
}

impl Subsystem {
    /// Firmware Commit. An image that is activated at once is announced to every controller.
    pub(crate) fn commit_firmware(
        &self,
        slot: u8,
        action: CommitAction,
        image: Option<Revision>,
    ) -> Result<(), Refused> {
        let mut state = self.state();
        if state.firmware.commit(slot, action, image)? {
            state.tell_activation();
        }
        Ok(())
    }
}
