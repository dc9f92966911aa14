//! Where races are looked for: what of each access `races` has to know.

use parking_lot::Mutex;

use super::block::{Block, Common};
use super::copies::ACCESS;
use super::lane::Lane;
use super::races::{Key, Races, What, Who};
use super::space::Place;
use crate::error::{Check, Finding};
use crate::program::{Access, Scope};

/// Barriers of a block have keys that no word has.
const BARRIERS: u64 = u64::MAX - 16;

impl Common<'_> {
    fn block_key(&self) -> u64 {
        (self.run.grid_number + 1) << 32 | u64::from(self.block)
    }

    fn who(&self, lane: &Lane) -> Who {
        Who {
            slot: self.first_slot + lane.number,
            block: self.block_key(),
            thread: lane.number,
            place: self.place_of(lane),
            copy: 0,
        }
    }

    fn key(&self, access: &Access, place: Place) -> Option<(Key, u8)> {
        match place {
            Place::Real(real) => Some(((0, real.span().word()), real.span().mask())),
            Place::Shared(at) => Some(((self.block_key(), at & !7), 0xff >> (8 - access.bytes) << (at & 7))),
            Place::Local(_) | Place::Param(_) => None,
        }
    }

    /// The word of an access, and what it does there.
    fn what(&self, access: &Access, place: Place, writes: bool) -> Option<(Key, What)> {
        let (key, mask) = self.key(access, place)?;
        // A place of this space was found in this region.
        let device = matches!(place, Place::Real(_)) && self.regions[0].registers;
        Some((key, What { mask, writes, order: access.order, scope: access.scope, device }))
    }

    /// An access that is about to be.
    pub(super) fn watch(
        &self,
        lane: &Lane,
        access: &Access,
        place: Place,
        writes: bool,
    ) -> Result<(), Box<Finding>> {
        match self.run.races {
            Some(races) => self.watch_by(races, (lane, self.who(lane)), access, place, writes),
            None => Ok(()),
        }
    }

    fn watch_by(
        &self,
        races: &Mutex<Races>,
        (lane, who): (&Lane, Who),
        access: &Access,
        place: Place,
        writes: bool,
    ) -> Result<(), Box<Finding>> {
        if self.run.shared_alone && !matches!(place, Place::Shared(_)) {
            return Ok(());
        }
        let Some((key, what)) = self.what(access, place, writes) else { return Ok(()) };
        let Some(other) = races.lock().access(key, who, what) else { return Ok(()) };
        let (what, check) = match what.device {
            true => ("a device's register", Check::Doorbell),
            false => ("memory", Check::Race),
        };
        let by = match other.block >> 32 == self.run.grid_number + 1 {
            true => self.instruction(other.place),
            false => format!("line {} of another grid's PTX", other.place.line),
        };
        let what = format!(
            "{what} at {:#x} is accessed by thread {} of block {}, too, by {by}, and nothing orders the two",
            key.1,
            other.thread,
            other.block & 0xffff_ffff,
        );
        Err(self.found(lane, check, what))
    }

    /// An instruction of this module, with its lines.
    fn instruction(&self, place: crate::text::Place) -> String {
        let (module, (file, line)) = (self.run.module, place.source);
        let source = module.files.get(&file).map_or_else(String::new, |path| format!(", from {path}:{line}"));
        format!("`{}` of line {}{source}", module.line(place.line), place.line)
    }

    /// A copy of the lane begins, with this number: who it is among all threads. Copies that the lane's groups count have one
    /// place for each lane; of others, which are few, each has the next.
    pub(super) fn watch_fork(&self, lane: &Lane, (bulk, number): (bool, u64), told: bool) -> Option<Who> {
        let (races, own) = (self.run.races?, self.who(lane));
        let threads = self.run.block_threads();
        let place = if bulk { (number % u64::from(threads)) as u32 } else { lane.number };
        let slot = self.first_slot + threads + place;
        Some(Who { slot, copy: races.lock().fork(slot, own.slot, told), ..own })
    }

    /// What a copy reads or writes, sooner or later.
    pub(super) fn watch_copy(
        &self,
        lane: &Lane,
        copy: Option<Who>,
        place: Place,
        writes: bool,
    ) -> Result<(), Box<Finding>> {
        match (self.run.races, copy) {
            (Some(races), Some(who)) => self.watch_by(races, (lane, who), &ACCESS, place, writes),
            _ => Ok(()),
        }
    }

    /// The lane waited for a copy of its own.
    pub(super) fn watch_waited(&self, lane: &Lane, copy: Who) {
        if let Some(races) = self.run.races {
            races.lock().waited(self.first_slot + lane.number, copy);
        }
    }

    /// The barrier at this place knows that a copy is done.
    pub(super) fn watch_complete(&self, place: Place, copy: Option<Who>) {
        if let (Some(races), Some(who), Some((key, _))) = (self.run.races, copy, self.key(&ACCESS, place)) {
            races.lock().complete(key, who);
        }
    }

    /// What a store is about to release.
    pub(super) fn watch_release(&self, lane: &Lane, access: &Access, place: Place) {
        if let (Some(races), Some((key, what))) = (self.run.races, self.what(access, place, true)) {
            races.lock().release(key, self.who(lane), &what);
        }
    }

    /// What a load acquired by this value.
    pub(super) fn watch_acquire(&self, lane: &Lane, access: &Access, place: Place, value: u64) {
        if let (Some(races), Some((key, what))) = (self.run.races, self.what(access, place, false)) {
            races.lock().acquire(key, self.who(lane), &what, value);
        }
    }

    /// What was stored.
    pub(super) fn watch_value(&self, access: &Access, place: Place, value: u64) {
        if let (Some(races), Some((key, mask))) = (self.run.races, self.key(access, place)) {
            races.lock().stored(key, mask, value);
        }
    }

    pub(super) fn watch_fence(&self, lane: &Lane, scope: Scope, consistent: bool) {
        if let Some(races) = self.run.races {
            races.lock().fence(self.who(lane), scope, consistent);
        }
    }

    /// A thread came to a barrier of the block.
    pub(super) fn watch_arrival(&self, lane: &Lane, number: u8) {
        if let Some(races) = self.run.races {
            races.lock().arrive((self.block_key(), BARRIERS + u64::from(number)), self.who(lane));
        }
    }
}

impl Block<'_> {
    /// A barrier opened for these threads of the block.
    pub(super) fn watch_open(&self, number: u8, lanes: &[u32]) {
        if let Some(races) = self.common.run.races {
            races.lock().open((self.common.block_key(), BARRIERS + u64::from(number)), &self.slots(lanes));
        }
    }

    /// These threads of the block met.
    pub(super) fn watch_meeting(&self, lanes: &[u32]) {
        if let Some(races) = self.common.run.races {
            races.lock().meet(&self.slots(lanes));
        }
    }

    /// The block ended.
    pub(super) fn watch_end(&self) {
        if let Some(races) = self.common.run.races {
            races.lock().leave(self.common.first_slot, self.common.run.slots(), self.common.block_key());
        }
    }

    fn slots(&self, lanes: &[u32]) -> Vec<u32> {
        lanes.iter().map(|lane| self.common.first_slot + lane).collect()
    }
}
