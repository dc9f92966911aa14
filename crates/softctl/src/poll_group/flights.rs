//! The set of commands in flight: which may go on now, which wait for their time, which for others.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::time::Duration;

use warpbell_nvme::{Sqe, Status};

use crate::copying::Job;
use crate::fault::Chosen;
use crate::nvm::Deferred;
use crate::queue::TornEntry;

/// A fetched command.
pub(super) struct Flight {
    /// Index of its queue in the poll group.
    pub(super) sq: usize,
    pub(super) sqe: Sqe,
    /// Bits 31:16 of a 32-bit identifier, else 0.
    pub(super) upper: u16,
    /// Its place among its queue's commands, where completions keep their order.
    pub(super) serial: u64,
    pub(super) stage: Stage,
    pub(super) fault: Option<Chosen>,
    /// Its data, if a fault moves that after the completion.
    pub(super) payload: Option<Deferred>,
    /// Later commands of its queue that complete before it does.
    pub(super) behind: u32,
    /// What a fault adds to the time that its media take.
    pub(super) extra: Duration,
    /// It counts as in flight among those that keep the controller awake.
    pub(super) wakes: bool,
    /// Bytes that are to be sent to the client once the media are done.
    pub(super) unsent: u64,
    /// Changes whenever its time to go on does.
    ticket: u64,
}

/// How far a command has come.
pub(super) enum Stage {
    /// It is to be executed and completed.
    Fetched,
    /// It never completes, and is out of every command's reach.
    Dropped,
    /// It never completes by itself; an Abort finds it.
    Hung,
    /// Its completion is to be posted once more.
    Again(Status),
    /// The other part of its completion is to become visible.
    Torn(TornEntry),
    /// It has completed; its data is to be moved.
    Payload(Deferred),
    /// Engines copy its data.
    Copying(Box<Job>),
}

impl Flight {
    pub(super) fn new(sq: usize, sqe: Sqe) -> Flight {
        let extra = Duration::ZERO;
        Flight {
            sq,
            sqe,
            upper: 0,
            serial: 0,
            stage: Stage::Fetched,
            fault: None,
            payload: None,
            behind: 0,
            extra,
            wakes: false,
            unsent: 0,
            ticket: 0,
        }
    }

    /// What goes on after a command has completed.
    pub(super) fn follower(&self) -> Flight {
        Flight { upper: self.upper, ..Flight::new(self.sq, self.sqe) }
    }

    /// Its identifier, bits 15:0 and 31:16.
    pub(super) fn identifier(&self) -> (u16, u16) {
        (self.sqe.cid(), self.upper)
    }

    /// Whether the client waits for its completion.
    pub(super) fn outstanding(&self) -> bool {
        match &self.stage {
            Stage::Fetched | Stage::Dropped | Stage::Hung => true,
            Stage::Copying(job) => !job.late,
            Stage::Again(_) | Stage::Torn(_) | Stage::Payload(_) => false,
        }
    }
}

/// All flights of a poll group. Each has a slot; the lists hold slots.
#[derive(Default)]
pub(super) struct Flights {
    slots: Vec<Option<Flight>>,
    free: Vec<usize>,
    /// May go on now.
    ready: VecDeque<usize>,
    /// By time; an entry whose ticket is not its flight's is void.
    waiting: BinaryHeap<Reverse<(Duration, u64, usize)>>,
    /// Behind other commands.
    behind: Vec<usize>,
    /// At [`Stage::Copying`], oldest first.
    copying: Vec<usize>,
    /// How many of them are at [`Stage::Torn`], and at [`Stage::Again`]: mostly none, and then nobody searches.
    torn: usize,
    repeats: usize,
    tickets: u64,
}

impl Flights {
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.free.len() == self.slots.len()
    }

    /// How many there are, those that go nowhere among them.
    #[inline]
    pub(super) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// How many may go on now.
    #[inline]
    pub(super) fn ready(&self) -> usize {
        self.ready.len()
    }

    /// How many entries are still torn.
    #[inline]
    pub(super) fn torn(&self) -> usize {
        self.torn
    }

    /// How many completions wait for room to be repeated.
    #[inline]
    pub(super) fn repeats(&self) -> usize {
        self.repeats
    }

    fn insert(&mut self, flight: Flight) -> usize {
        self.torn += usize::from(matches!(flight.stage, Stage::Torn(_)));
        self.repeats += usize::from(matches!(flight.stage, Stage::Again(_)));
        match self.free.pop() {
            Some(slot) => {
                self.slots[slot] = Some(flight);
                slot
            }
            None => {
                self.slots.push(Some(flight));
                self.slots.len() - 1
            }
        }
    }

    /// Adds a flight that may go on now.
    pub(super) fn push(&mut self, flight: Flight) {
        let slot = self.insert(flight);
        self.ready.push_back(slot);
    }

    /// Adds a flight that may go on at `due`.
    pub(super) fn push_at(&mut self, mut flight: Flight, due: Duration) {
        self.tickets += 1;
        flight.ticket = self.tickets;
        let slot = self.insert(flight);
        self.waiting.push(Reverse((due, self.tickets, slot)));
    }

    /// Adds a flight that lets others pass.
    pub(super) fn push_behind(&mut self, flight: Flight) {
        let slot = self.insert(flight);
        self.behind.push(slot);
    }

    /// Adds a flight that goes nowhere.
    pub(super) fn push_lost(&mut self, flight: Flight) {
        self.insert(flight);
    }

    /// Adds a flight whose data is being copied, and says in which slot it is.
    pub(super) fn push_copying(&mut self, flight: Flight) -> usize {
        let slot = self.insert(flight);
        self.copying.push(slot);
        slot
    }

    /// How many flights' data is being copied.
    #[inline]
    pub(super) fn copying(&self) -> usize {
        self.copying.len()
    }

    /// Their slots, oldest first.
    pub(super) fn copying_slots(&self) -> Vec<usize> {
        self.copying.clone()
    }

    /// The flight in a slot.
    pub(super) fn at(&mut self, slot: usize) -> Option<&mut Flight> {
        self.slots.get_mut(slot)?.as_mut()
    }

    /// Takes the flight out of its slot, whose data has been copied.
    pub(super) fn take_copying(&mut self, slot: usize) -> Flight {
        self.copying.retain(|other| *other != slot);
        self.take(slot)
    }

    /// When the next waiting flight may go on.
    pub(super) fn next_due(&mut self) -> Option<Duration> {
        while let Some(Reverse((due, ticket, slot))) = self.waiting.peek().copied() {
            if self.is_current(slot, ticket) {
                return Some(due);
            }
            self.waiting.pop();
        }
        None
    }

    fn is_current(&self, slot: usize, ticket: u64) -> bool {
        self.slots[slot].as_ref().is_some_and(|flight| flight.ticket == ticket)
    }

    /// Makes those ready whose time has come, the earliest first. `more` says of each, and of when its time came,
    /// until when it waits for something else.
    pub(super) fn ripen(
        &mut self,
        now: Duration,
        mut more: impl FnMut(&mut Flight, Duration) -> Option<Duration>,
    ) {
        while self.next_due().is_some_and(|due| due <= now)
            && let Some(Reverse((due, _, slot))) = self.waiting.pop()
        {
            let Some(flight) = &mut self.slots[slot] else { continue };
            match more(flight, due) {
                Some(later) => {
                    self.tickets += 1;
                    flight.ticket = self.tickets;
                    self.waiting.push(Reverse((later, self.tickets, slot)));
                }
                None => {
                    flight.ticket = 0;
                    self.ready.push_back(slot);
                }
            }
        }
    }

    /// A command of queue `sq` has completed: those behind it are one nearer to theirs.
    pub(super) fn passed(&mut self, sq: usize) {
        let Flights { slots, ready, behind, .. } = self;
        behind.retain(|slot| {
            let Some(flight) = slots[*slot].as_mut().filter(|flight| flight.sq == sq) else { return true };
            flight.behind = flight.behind.saturating_sub(1);
            if flight.behind == 0 {
                ready.push_back(*slot);
            }
            flight.behind > 0
        });
    }

    /// If nothing else is left to do, those behind others need not wait for them.
    pub(super) fn release_behind(&mut self) {
        if self.ready.is_empty() && self.copying.is_empty() && self.next_due().is_none() {
            self.ready.extend(self.behind.drain(..));
        }
    }

    /// Makes everything ready that will ever complete.
    pub(super) fn hurry(&mut self) {
        self.ripen(Duration::MAX, |_, _| None);
        self.ready.extend(self.behind.drain(..));
    }

    /// Takes the flight out that is `choice` in the list of the ready ones.
    pub(super) fn take_ready(&mut self, choice: usize) -> Flight {
        let slot = self.ready.swap_remove_back(choice).expect("the choice is one of the ready ones");
        self.take(slot)
    }

    /// Takes the ready flight out that has been so for longest.
    pub(super) fn take_first(&mut self) -> Flight {
        let slot = self.ready.pop_front().expect("a flight is ready");
        self.take(slot)
    }

    fn take(&mut self, slot: usize) -> Flight {
        self.free.push(slot);
        let flight = self.slots[slot].take().expect("a slot in a list holds a flight");
        self.torn -= usize::from(matches!(flight.stage, Stage::Torn(_)));
        self.repeats -= usize::from(matches!(flight.stage, Stage::Again(_)));
        flight
    }

    /// Takes the first flight out that is as wanted.
    pub(super) fn find(&mut self, wanted: impl Fn(&Flight) -> bool) -> Option<Flight> {
        let slot = self.slots.iter().position(|flight| flight.as_ref().is_some_and(&wanted))?;
        self.ready.retain(|other| *other != slot);
        self.behind.retain(|other| *other != slot);
        self.copying.retain(|other| *other != slot);
        Some(self.take(slot))
    }

    /// The queue with index `from` has index `to` now.
    pub(super) fn renumber(&mut self, from: usize, to: usize) {
        self.slots.iter_mut().flatten().filter(|flight| flight.sq == from).for_each(|flight| flight.sq = to);
    }

    pub(super) fn clear(&mut self) {
        *self = Flights::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flight(sq: usize, nsid: u32) -> Flight {
        Flight::new(sq, Sqe { nsid, ..Sqe::default() })
    }

    fn names(flights: &mut Flights) -> Vec<u32> {
        (0..flights.ready()).map(|_| flights.take_first().sqe.nsid).collect()
    }

    #[test]
    fn times_come_in_order() {
        let mut flights = Flights::default();
        let us = Duration::from_micros;
        for (name, due) in [(1, 30), (2, 10), (3, 20), (4, 10)] {
            flights.push_at(flight(0, name), us(due));
        }
        assert_eq!(flights.next_due(), Some(us(10)));
        flights.ripen(us(9), |_, _| None);
        assert_eq!(flights.ready(), 0);
        flights.ripen(us(20), |_, _| None);
        assert_eq!(names(&mut flights), [2, 4, 3]);
        assert_eq!(flights.next_due(), Some(us(30)));
        assert!(flights.find(|flight| flight.sqe.nsid == 1).is_some());
        assert_eq!(flights.next_due(), None, "it was taken out");
        assert!(flights.is_empty());
    }

    #[test]
    fn a_slot_that_is_used_again_has_its_own_time() {
        let mut flights = Flights::default();
        let us = Duration::from_micros;
        flights.push_at(flight(0, 1), us(10));
        flights.find(|_| true).unwrap();
        flights.push_at(flight(0, 2), us(20));
        flights.ripen(us(15), |_, _| None);
        assert_eq!(flights.ready(), 0, "the time was the other flight's");
        flights.ripen(us(20), |_, _| None);
        assert_eq!(names(&mut flights), [2]);
    }

    #[test]
    fn completions_to_be_repeated_are_counted() {
        let mut flights = Flights::default();
        flights.push_lost(Flight { stage: Stage::Again(Status::SUCCESS), ..flight(0, 1) });
        flights.push(flight(0, 2));
        assert_eq!((flights.repeats(), flights.torn()), (1, 0));
        assert_eq!(names(&mut flights), [2]);
        assert_eq!(flights.repeats(), 1);
        assert!(flights.find(|flight| matches!(flight.stage, Stage::Again(_))).is_some());
        assert_eq!(flights.repeats(), 0);
    }

    #[test]
    fn those_behind_count_completions_of_their_own_queue() {
        let mut flights = Flights::default();
        flights.push_behind(Flight { behind: 2, ..flight(0, 1) });
        flights.passed(1);
        flights.passed(0);
        assert_eq!(flights.ready(), 0);
        flights.passed(0);
        assert_eq!(names(&mut flights), [1]);
        flights.push_behind(Flight { behind: 2, ..flight(0, 2) });
        flights.push_at(flight(0, 3), Duration::from_micros(1));
        flights.release_behind();
        assert_eq!(flights.ready(), 0, "another is still to come");
        flights.ripen(Duration::MAX, |_, _| None);
        assert_eq!(names(&mut flights), [3]);
        flights.release_behind();
        assert_eq!(names(&mut flights), [2]);
    }
}
