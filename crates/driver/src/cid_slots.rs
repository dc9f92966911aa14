//! Command identifiers: a slot in the low bits, a generation in the high ones.

use crate::mutation::{Mutation, off};

/// Marks of a slot's state, above the 16 bits of its identifier.
const FREE: u32 = 1 << 16;
const QUARANTINED: u32 = 1 << 17;

/// Identifiers for up to `capacity` outstanding commands.
///
/// A slot is handed out again only after its own command completed, or after [`CidSlots::reset`]. The
/// generation changes at each hand-out, so a completion of an earlier command is told apart as long as
/// there are bits for it. FFFFh is never issued.
#[derive(Debug)]
pub(crate) struct CidSlots {
    /// By slot: its identifier (the next one while free) and its state.
    state: Box<[u32]>,
    free: Vec<u16>,
    slot_mask: u16,
    quarantined: u32,
}

/// What a completion's identifier turned out to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Completed {
    /// The command in this slot; the slot is free again.
    Slot(u16),
    /// A command in this slot that had been given up; the slot is free again.
    Late(u16),
    /// No outstanding command has it.
    Unknown {
        /// The identifier that the slot would have matched, if there is such a slot.
        expected: Option<u16>,
    },
}

impl CidSlots {
    /// Slots for `capacity` commands, 1 to 65535.
    pub(crate) fn new(capacity: u32) -> CidSlots {
        assert!((1..=u32::from(u16::MAX)).contains(&capacity), "capacity {capacity}");
        let slot_mask = (capacity.next_power_of_two() - 1) as u16;
        let mut slots = CidSlots {
            state: vec![0; capacity as usize].into(),
            free: Vec::with_capacity(capacity as usize),
            slot_mask,
            quarantined: 0,
        };
        slots.state.iter_mut().zip(0..).for_each(|(state, slot)| *state = FREE | slot);
        slots.reset();
        slots
    }

    /// Takes a slot and gives the identifier for its next command.
    #[inline]
    pub(crate) fn take(&mut self) -> Option<u16> {
        let slot = self.free.pop()?;
        let state = &mut self.state[usize::from(slot)];
        *state &= u32::from(u16::MAX);
        Some(*state as u16)
    }

    /// The slot of an identifier, which may be beyond the capacity if the controller made it up.
    #[inline]
    pub(crate) fn slot_of(&self, cid: u16) -> u16 {
        cid & self.slot_mask
    }

    /// Frees the slot of a completed command, if it is one.
    #[inline]
    pub(crate) fn complete(&mut self, cid: u16) -> Completed {
        let slot = self.slot_of(cid);
        match self.state.get(usize::from(slot)) {
            Some(&state) if state == u32::from(cid) => {
                self.release(slot, cid);
                Completed::Slot(slot)
            }
            other => self.complete_unusual(slot, cid, other.copied()),
        }
    }

    #[cold]
    fn complete_unusual(&mut self, slot: u16, cid: u16, state: Option<u32>) -> Completed {
        if state == Some(QUARANTINED | u32::from(cid)) {
            self.release(slot, cid);
            self.quarantined -= 1;
            return Completed::Late(slot);
        }
        Completed::Unknown { expected: state.map(|state| state as u16) }
    }

    #[inline]
    fn release(&mut self, slot: u16, cid: u16) {
        self.state[usize::from(slot)] = FREE | u32::from(self.next_generation(cid));
        self.free.push(slot);
    }

    #[inline]
    fn next_generation(&self, cid: u16) -> u16 {
        let step = u32::from(self.slot_mask) + 1;
        let next = u32::from(cid).wrapping_add(step) as u16;
        // Only the slot of all ones can reach FFFFh; its generation starts over.
        if next == u16::MAX { self.slot_mask & cid } else { next }
    }

    /// Gives a command up: its slot stays taken until its own completion comes. False if no command
    /// with this identifier is outstanding.
    pub(crate) fn quarantine(&mut self, cid: u16) -> bool {
        let slot = usize::from(self.slot_of(cid));
        match self.state.get_mut(slot) {
            Some(state) if *state == u32::from(cid) => {
                if off(Mutation::ReuseAtTimeout) {
                    *state |= FREE;
                    self.free.push(slot as u16);
                    return true;
                }
                *state |= QUARANTINED;
                self.quarantined += 1;
                true
            }
            _ => false,
        }
    }

    /// Frees every slot, after the controller forgot its commands.
    pub(crate) fn reset(&mut self) {
        self.free.clear();
        for slot in (0..self.state.len() as u32).rev() {
            let state = self.state[slot as usize];
            let cid = state as u16;
            let next = if state & FREE != 0 { cid } else { self.next_generation(cid) };
            self.state[slot as usize] = FREE | u32::from(next);
            self.free.push(slot as u16);
        }
        self.quarantined = 0;
    }

    /// Commands outstanding, given up ones included.
    pub(crate) fn outstanding(&self) -> u32 {
        (self.state.len() - self.free.len()) as u32
    }

    /// Commands given up whose completion has not come.
    pub(crate) fn quarantined(&self) -> u32 {
        self.quarantined
    }

    /// The identifier of the live command in `slot`, if there is one that was not given up.
    pub(crate) fn live(&self, slot: u16) -> Option<u16> {
        let state = *self.state.get(usize::from(slot))?;
        (state & (FREE | QUARANTINED) == 0).then_some(state as u16)
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{HashMap, HashSet};

    use proptest::prelude::*;

    use super::*;

    #[test]
    fn every_capacity_issues_each_slot_once_and_never_ffffh() {
        for capacity in [1, 2, 3, 127, 255, 256, 1023, 32768, 65535] {
            let mut slots = CidSlots::new(capacity);
            for _ in 0..3 {
                let taken: HashSet<u16> = std::iter::from_fn(|| slots.take()).collect();
                assert_eq!(taken.len(), capacity as usize);
                assert!(!taken.contains(&u16::MAX));
                assert!(taken.iter().all(|cid| matches!(slots.complete(*cid), Completed::Slot(_))));
            }
        }
    }

    #[test]
    fn generations_of_one_slot_do_not_repeat_soon() {
        let mut slots = CidSlots::new(1);
        let mut seen = HashSet::new();
        for _ in 0..u16::MAX {
            let cid = slots.take().unwrap();
            assert!(seen.insert(cid), "{cid:#x}");
            assert_ne!(cid, u16::MAX);
            slots.complete(cid);
        }
        assert!(seen.contains(&slots.take().unwrap()), "all generations but FFFFh were used");
    }

    #[derive(Clone, Debug)]
    enum Action {
        Take,
        /// Completes an outstanding command, by index.
        Complete(usize),
        /// Gives one up.
        Quarantine(usize),
        /// Completes whatever identifier.
        Forge(u16),
        Reset,
    }

    fn action() -> impl Strategy<Value = Action> {
        prop_oneof![
            8 => Just(Action::Take),
            6 => any::<usize>().prop_map(Action::Complete),
            2 => any::<usize>().prop_map(Action::Quarantine),
            3 => any::<u16>().prop_map(Action::Forge),
            1 => Just(Action::Reset),
        ]
    }

    /// What the slots must agree with: outstanding identifiers, and whether they were given up.
    type Model = HashMap<u16, bool>;

    fn nth(model: &Model, index: usize) -> Option<u16> {
        let mut cids: Vec<u16> = model.keys().copied().collect();
        cids.sort_unstable();
        (!cids.is_empty()).then(|| cids[index % cids.len()])
    }

    fn complete(slots: &mut CidSlots, model: &mut Model, cid: u16) {
        let slot = slots.slot_of(cid);
        match model.remove(&cid) {
            Some(false) => assert_eq!(slots.complete(cid), Completed::Slot(slot)),
            Some(true) => assert_eq!(slots.complete(cid), Completed::Late(slot)),
            None => assert!(matches!(slots.complete(cid), Completed::Unknown { .. })),
        }
    }

    fn apply(slots: &mut CidSlots, model: &mut Model, capacity: usize, action: Action) {
        match action {
            Action::Take => match slots.take() {
                Some(cid) => {
                    let slot = slots.slot_of(cid);
                    assert!(usize::from(slot) < capacity && cid != u16::MAX);
                    assert!(model.keys().all(|other| slots.slot_of(*other) != slot), "slot {slot} twice");
                    model.insert(cid, false);
                }
                None => assert_eq!(model.len(), capacity),
            },
            Action::Complete(index) => {
                if let Some(cid) = nth(model, index) {
                    complete(slots, model, cid);
                }
            }
            Action::Quarantine(index) => {
                if let Some(cid) = nth(model, index) {
                    assert_eq!(slots.quarantine(cid), model.insert(cid, true) == Some(false));
                }
            }
            Action::Forge(cid) => complete(slots, model, cid),
            Action::Reset => {
                slots.reset();
                model.clear();
            }
        }
    }

    proptest! {
        #[test]
        fn slots_agree_with_a_model(
            capacity in prop_oneof![1u32..=9, Just(255), Just(65535)],
            actions in prop::collection::vec(action(), 1..300),
        ) {
            let mut slots = CidSlots::new(capacity);
            let mut model = Model::new();
            for action in actions {
                apply(&mut slots, &mut model, capacity as usize, action);
                prop_assert_eq!(slots.outstanding() as usize, model.len());
                prop_assert_eq!(slots.quarantined() as usize, model.values().filter(|late| **late).count());
            }
        }
    }
}
