//! Power states (Base 2.0, 8.15): which one the controller is in, and when it is there.
//!
//! A change from one state to another takes the exit latency of the one and the entry latency of the other, in the
//! controller's time. In a non-operational state an I/O command first brings the controller back to the last
//! operational one; admin commands are executed in any. Changes by themselves (Autonomous Power State Transition) are
//! found out whenever somebody asks, from the time for which no I/O command has been in flight.

mod text;

use std::time::Duration;

use parking_lot::Mutex;
use warpbell_nvme::feature::{ApstEntry, ApstTable};
use warpbell_nvme::identify::{PowerStateDescriptor, PowerStateFlags};

pub(crate) use text::{check, parse};

/// Most power states.
pub const MAX_POWER_STATES: usize = 32;
/// Least and most power of a state, in 0.1 mW.
pub(crate) const POWERS: std::ops::RangeInclusive<u32> = 1..=6_553_500;

warpbell_base::options! {
    /// A power state of a soft controller.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PowerState {
        /// Its maximum power, in units of 0.1 mW: 1 to 65,535, and multiples of 100 up to 6,553,500.
        pub tenth_mw: u32,
        /// Whether I/O commands are executed in it.
        pub operational: bool,
        /// How long it takes to enter it.
        pub entry: Duration,
        /// How long it takes to leave it.
        pub exit: Duration,
    } no new
}

impl PowerState {
    /// An operational one that takes no time to enter or leave.
    pub fn new(tenth_mw: u32) -> PowerState {
        PowerState { tenth_mw, operational: true, entry: Duration::ZERO, exit: Duration::ZERO }
    }

    /// What Identify Controller says of it; `index` is its number, and the rank of its performance.
    pub(crate) fn descriptor(&self, index: u8) -> PowerStateDescriptor {
        let fine = self.tenth_mw <= u16::MAX.into();
        let mp = if fine { self.tenth_mw } else { self.tenth_mw / 100 } as u16;
        let microseconds = |time: Duration| u32::try_from(time.as_nanos().div_ceil(1000)).unwrap_or(u32::MAX);
        let mut descriptor = PowerStateDescriptor::default();
        descriptor.mp = mp;
        descriptor.flags = PowerStateFlags::new().with_mxps(fine).with_nops(!self.operational);
        descriptor.enlat = microseconds(self.entry);
        descriptor.exlat = microseconds(self.exit);
        (descriptor.rrt, descriptor.rrl) = (index, index);
        (descriptor.rwt, descriptor.rwl) = (index, index);
        descriptor
    }
}

/// Where a controller is among its power states.
#[derive(Debug)]
struct Place {
    state: usize,
    /// The last operational state.
    operational: usize,
    /// When the change to it is over.
    there: Duration,
    /// I/O commands in flight.
    busy: u32,
    /// Since when there have been none.
    idle_since: Duration,
    enabled: bool,
    table: ApstTable,
}

/// The power states of a controller that has several.
#[derive(Debug)]
pub(crate) struct Power {
    states: Vec<PowerState>,
    place: Mutex<Place>,
}

impl Power {
    pub(crate) fn new(states: &[PowerState]) -> Power {
        let place = Place {
            state: 0,
            operational: 0,
            there: Duration::ZERO,
            busy: 0,
            idle_since: Duration::ZERO,
            enabled: false,
            table: ApstTable::default(),
        };
        Power { states: states.to_vec(), place: Mutex::new(place) }
    }

    /// The last state.
    pub(crate) fn last(&self) -> u8 {
        (self.states.len() - 1) as u8
    }

    pub(crate) fn is_operational(&self, state: u8) -> bool {
        self.states.get(usize::from(state)).is_some_and(|state| state.operational)
    }

    /// Goes to a state that there is; returns when the controller is there.
    pub(crate) fn enter(&self, state: u8, now: Duration) -> Duration {
        let place = &mut *self.place.lock();
        self.settle(place, now);
        self.go(place, state.into(), now);
        // A state that was chosen is not left before it was idle there for a while.
        place.idle_since = place.there;
        place.there
    }

    fn go(&self, place: &mut Place, state: usize, from: Duration) {
        if state != place.state {
            let (old, new) = (&self.states[place.state], &self.states[state]);
            place.there = place.there.max(from) + old.exit + new.entry;
            place.state = state;
        }
        if self.states[state].operational {
            place.operational = state;
        }
    }

    /// An I/O command is to be executed; returns from when on it can be.
    pub(crate) fn begin(&self, now: Duration) -> Duration {
        let place = &mut *self.place.lock();
        self.settle(place, now);
        place.busy += 1;
        self.go(place, place.operational, now);
        place.there.max(now)
    }

    /// An I/O command has ended.
    pub(crate) fn end(&self, now: Duration) {
        let place = &mut *self.place.lock();
        place.busy = place.busy.saturating_sub(1);
        if place.busy == 0 {
            place.idle_since = now;
        }
    }

    /// The state at `now`.
    pub(crate) fn state(&self, now: Duration) -> u8 {
        let place = &mut *self.place.lock();
        self.settle(place, now);
        place.state as u8
    }

    /// Changes that happened by themselves until `now`.
    fn settle(&self, place: &mut Place, now: Duration) {
        if !place.enabled || place.busy > 0 {
            return;
        }
        loop {
            let entry = place.table.0[place.state];
            let due = place.idle_since.max(place.there) + Duration::from_millis(entry.itpt().into());
            let next = usize::from(entry.itps());
            if entry.itpt() == 0 || next == place.state || due > now {
                return;
            }
            self.go(place, next, due);
        }
    }

    /// Autonomous Power State Transition, as it is set.
    pub(crate) fn autonomy(&self) -> (bool, ApstTable) {
        let place = self.place.lock();
        (place.enabled, place.table)
    }

    /// Whether an entry leads nowhere, or to a non-operational state that there is.
    pub(crate) fn allows(&self, entry: ApstEntry) -> bool {
        entry.itpt() == 0 || entry.itps() <= self.last() && !self.is_operational(entry.itps())
    }

    pub(crate) fn set_autonomy(&self, enabled: bool, table: ApstTable, now: Duration) {
        let place = &mut *self.place.lock();
        self.settle(place, now);
        (place.enabled, place.table) = (enabled, table);
        place.idle_since = place.idle_since.max(now);
    }

    /// After a reset there are no commands, and no changes by themselves; the state is `state`.
    pub(crate) fn reset(&self, state: u8, now: Duration) {
        let place = &mut *self.place.lock();
        (place.busy, place.idle_since) = (0, now);
        (place.enabled, place.table) = (false, ApstTable::default());
        self.go(place, state.into(), now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn state(tenth_mw: u32, operational: bool, entry: u32, exit: u32) -> PowerState {
        PowerState { tenth_mw, operational, entry: MS * entry, exit: MS * exit }
    }

    fn power() -> Power {
        let (hot, warm) = (state(80_000, true, 0, 0), state(40_000, true, 1, 2));
        Power::new(&[hot, warm, state(500, false, 5, 10), state(49, false, 20, 50)])
    }

    #[test]
    fn a_change_takes_the_exit_of_one_and_the_entry_of_the_other() {
        let power = power();
        assert_eq!(power.enter(1, MS * 100), MS * 101);
        assert_eq!(power.enter(2, MS * 200), MS * 207);
        assert_eq!(power.enter(3, MS * 201), MS * (207 + 30), "it must have arrived before");
        assert_eq!(power.begin(MS * 300), MS * (300 + 50 + 1), "back to the last operational state");
        assert_eq!(power.state(MS * 300), 1);
        assert_eq!(power.begin(MS * 310), MS * 351, "it is on its way");
        assert_eq!(power.begin(MS * 400), MS * 400);
    }

    #[test]
    fn it_changes_by_itself_after_idle_time_only() {
        let power = power();
        let mut table = ApstTable::default();
        table.0[0] = ApstEntry::new().with_itps(2).with_itpt(100);
        table.0[2] = ApstEntry::new().with_itps(3).with_itpt(1000);
        power.set_autonomy(true, table, Duration::ZERO);
        power.begin(MS * 10);
        assert_eq!(power.state(MS * 5000), 0, "a command is in flight");
        power.end(MS * 5000);
        assert_eq!((power.state(MS * 5099), power.state(MS * 5100)), (0, 2));
        // It is there at 5105, and idle there for a second.
        assert_eq!((power.state(MS * 6104), power.state(MS * 6105)), (2, 3));
        assert_eq!(power.begin(MS * 7000), MS * 7050);
        power.reset(0, MS * 8000);
        assert_eq!(power.state(MS * 99_000), 0, "a reset ends it");
    }

    #[test]
    fn descriptors_say_power_and_latencies() {
        let states = power().states;
        let descriptors: Vec<_> = states.iter().zip(0..).map(|(one, index)| one.descriptor(index)).collect();
        let powers: Vec<_> = descriptors.iter().map(PowerStateDescriptor::max_power_tenth_mw).collect();
        assert_eq!(powers, [80_000, 40_000, 500, 49]);
        assert_eq!((descriptors[3].entry_latency(), descriptors[3].exit_latency()), (MS * 20, MS * 50));
        assert_eq!(
            descriptors.iter().map(|one| one.is_operational()).collect::<Vec<_>>(),
            [true, true, false, false]
        );
    }
}
