//! A controller of a few lines that does all a controller may do: it fetches in order, completes in any order, at any
//! moment. What its client does wrong it reports.

use super::arena::Arena;
use super::symmetry::{Renaming, Symmetry};

/// What the library leaves in the dwords of an entry, `exhaustive.cu`.
pub(super) const MARK: u32 = 0x5742_0000;
/// What a fetched entry is overwritten with, so that nobody takes it for a new one.
pub(super) const POISON: u64 = 0xeeee_eeee_eeee_eeee;

/// Where the rings and registers are, as offsets into the arena.
#[derive(Clone, Copy, Debug)]
pub struct Rings {
    /// Submission entries.
    pub sq: usize,
    /// Completion entries.
    pub cq: usize,
    /// The tail doorbell.
    pub sq_doorbell: usize,
    /// The head doorbell.
    pub cq_doorbell: usize,
    /// Entries of either ring.
    pub entries: u64,
    /// Commands of all warps.
    pub commands: u32,
}

/// A command between fetch and completion.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Flight {
    number: u16,
    cid: u16,
}

/// The controller. Counts are absolute, as those of the queue's state.
#[derive(Clone, Debug)]
pub struct Device {
    rings: Rings,
    tail: u64,
    fetched: u64,
    posted: u64,
    head: u64,
    /// Commands fetched so far, a bit each.
    seen: u64,
    flights: Vec<Flight>,
}

impl Device {
    /// With empty rings at position `start`.
    pub fn new(rings: Rings, start: u64) -> Device {
        assert!(rings.commands <= 64, "{} commands: at most 64", rings.commands);
        Device {
            rings,
            tail: start,
            fetched: start,
            posted: start,
            head: start,
            seen: 0,
            flights: Vec::new(),
        }
    }

    fn mask(&self) -> u64 {
        self.rings.entries - 1
    }

    /// A doorbell at `offset` is written.
    pub fn ring(&mut self, offset: usize, value: u64) -> Result<(), String> {
        match offset {
            at if at == self.rings.sq_doorbell => self.ring_tail(value),
            at if at == self.rings.cq_doorbell => self.ring_head(value),
            _ => Err(format!("doorbell write of {value} to offset {offset}, which is none")),
        }
    }

    fn ring_tail(&mut self, value: u64) -> Result<(), String> {
        let step = value.wrapping_sub(self.tail) & self.mask();
        if value > self.mask() || step == 0 {
            return Err(format!("SQ tail doorbell: {value} written, with the tail at count {}", self.tail));
        }
        let (free, outstanding) = (self.mask() - (self.tail - self.fetched), self.tail + step - self.head);
        if step > free || outstanding > self.mask() {
            return Err(format!(
                "SQ tail doorbell: {value} written, with the tail at count {}: a tail that goes back, or {step} new \
                 entries where {free} are free, and {outstanding} commands outstanding of {}",
                self.tail,
                self.mask()
            ));
        }
        self.tail += step;
        Ok(())
    }

    fn ring_head(&mut self, value: u64) -> Result<(), String> {
        let step = value.wrapping_sub(self.head) & self.mask();
        if value > self.mask() || step == 0 || self.head + step > self.posted {
            return Err(format!(
                "CQ head doorbell: {value} written, with the head at count {} and {} posted",
                self.head, self.posted
            ));
        }
        self.head += step;
        Ok(())
    }

    /// A store of the client reaches memory at `offset`.
    pub fn stored(&self, offset: usize) -> Result<(), String> {
        let ring = self.rings.sq..self.rings.sq + self.rings.entries as usize * 64;
        if !ring.contains(&offset) {
            return Ok(());
        }
        let slot = ((offset - ring.start) / 64) as u64;
        if slot.wrapping_sub(self.fetched) & self.mask() < self.tail - self.fetched {
            return Err(format!(
                "a store reaches the submission entry in slot {slot} between doorbell and fetch"
            ));
        }
        Ok(())
    }

    /// Where the next fetch reads, if there is one.
    pub fn next_fetch(&self) -> Option<usize> {
        (self.fetched < self.tail).then(|| self.rings.sq + (self.fetched & self.mask()) as usize * 64)
    }

    /// Fetches an entry.
    pub fn fetch(&mut self, arena: &Arena) -> Result<(), String> {
        let at = self.next_fetch().ok_or("nothing to fetch")?;
        let mut words = [0; 8];
        arena.read(at, &mut words);
        let marks = [words[1], words[3], words[5], words[7]].map(|word| (word >> 32) as u32);
        let (slot, cid, number) = (self.fetched & self.mask(), (words[0] >> 16) as u16, marks[0] & 0xffff);
        let whole = marks.iter().all(|mark| *mark == MARK | number) && number < self.rings.commands;
        if !whole || self.seen >> number & 1 != 0 {
            return Err(format!(
                "fetch of slot {slot}: not an entry as written for this index, command identifier {cid:#06x}, \
                 marks {marks:x?}"
            ));
        }
        if self.flights.iter().any(|flight| flight.cid == cid) {
            return Err(format!("fetch of slot {slot}: command identifier {cid:#06x} is in flight already"));
        }
        arena.write(at, &[POISON; 8]);
        self.fetched += 1;
        self.seen |= 1 << number;
        self.flights.push(Flight { number: number as u16, cid });
        // In which order they were fetched makes no difference any more.
        self.flights.sort_unstable();
        Ok(())
    }

    /// Offsets and lengths of what it writes to, sooner or later.
    pub fn writes(&self) -> [(usize, u32); 2] {
        let entries = self.rings.entries as u32;
        [(self.rings.sq, entries * 64), (self.rings.cq, entries * 16)]
    }

    /// Commands that may complete now.
    pub fn flights(&self) -> usize {
        self.flights.len()
    }

    /// Number of the command in flight `index`.
    pub fn number(&self, index: usize) -> u16 {
        self.flights[index].number
    }

    /// The status that command `number` gets, unlike any other's.
    pub fn status_of(number: u32) -> u32 {
        number + 1
    }

    /// Posts the completion of the command in flight `index`.
    pub fn complete(&mut self, index: usize, arena: &Arena) -> Result<(), String> {
        if self.posted - self.head >= self.mask() {
            return Err(format!(
                "the completion queue is full: {} entries not reported",
                self.posted - self.head
            ));
        }
        let Flight { number, cid } = self.flights.remove(index);
        let phase = (self.posted / self.rings.entries + 1) & 1;
        let status = u64::from(Device::status_of(u32::from(number)));
        let high = status << 17 | phase << 16 | u64::from(cid);
        let at = self.rings.cq + (self.posted & self.mask()) as usize * 16;
        arena.write(at, &[0, high << 32 | 1 << 16 | self.fetched & self.mask()]);
        self.posted += 1;
        Ok(())
    }

    /// Whether command `number` was fetched.
    pub fn was_fetched(&self, number: u32) -> bool {
        self.seen >> number & 1 != 0
    }

    /// Appends its state.
    pub fn save(&self, to: &mut Vec<u64>) {
        to.extend([self.tail, self.fetched, self.posted, self.head, self.seen, self.flights.len() as u64]);
        to.extend(self.flights.iter().map(|flight| u64::from(flight.number) << 16 | u64::from(flight.cid)));
    }

    /// Words that [`save`](Device::save) appends.
    pub(super) fn saved_words(from: &[u64]) -> usize {
        6 + from[5] as usize
    }

    /// Appends to `to` the state `from` after a renaming of the warps.
    pub(super) fn rename(symmetry: &Symmetry, by: &Renaming, from: &[u64], to: &mut Vec<u64>) {
        let mut seen = 0;
        for number in (0..64).filter(|number| from[4] >> number & 1 != 0) {
            seen |= 1 << symmetry.command(by, number);
        }
        to.extend([from[0], from[1], from[2], from[3], seen, from[5]]);
        let first = to.len();
        let flight = |word: &u64| {
            let (number, cid) = ((word >> 16) as u32, *word as u32 & 0xffff);
            u64::from(symmetry.command(by, number)) << 16 | u64::from(symmetry.cid(by, cid))
        };
        to.extend(from[6..].iter().map(flight));
        to[first..].sort_unstable();
    }

    /// Puts back what [`save`](Device::save) appended; returns the rest.
    pub fn restore<'a>(&mut self, from: &'a [u64]) -> &'a [u64] {
        let [tail, fetched, posted, head, seen, flights, rest @ ..] = from else {
            panic!("no saved controller: {from:?}")
        };
        (self.tail, self.fetched, self.posted) = (*tail, *fetched, *posted);
        (self.head, self.seen) = (*head, *seen);
        let (flights, rest) = rest.split_at(*flights as usize);
        let flight = |word: &u64| Flight { number: (word >> 16) as u16, cid: *word as u16 };
        self.flights.clear();
        self.flights.extend(flights.iter().map(flight));
        rest
    }
}
