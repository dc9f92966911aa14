// UNSAFETY: drives a worker of the executor through its C interface.
#![expect(unsafe_code, reason = "foreign functions of compiled C++")]
//! Launches whose lanes are stepped by hand: for checks that try every schedule.

use super::ffi::{RawStop, RawWaiting};
use super::launch::Launch;
use super::worker::Worker;
use crate::Error;

/// What a lane does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// It loads.
    Load {
        /// From where.
        address: u64,
        /// How much.
        bytes: u32,
    },
    /// It reads, modifies and writes at once. No store to these bytes may wait in its buffer, and none that is fenced.
    Rmw {
        /// Where.
        address: u64,
        /// How much.
        bytes: u32,
    },
    /// A fence that waits for its buffer to be empty.
    Fence,
    /// Nothing: it has returned. Stores may be left in its buffer.
    Done,
    /// It did what CUDA leaves undefined; [`Explorer::fault`] tells what.
    Fault,
}

impl Next {
    fn of(stop: &RawStop) -> Next {
        let RawStop { kind, bytes, address, .. } = *stop;
        match kind {
            1 => Next::Load { address, bytes },
            2 => Next::Rmw { address, bytes },
            3 => Next::Fence,
            4 => Next::Done,
            _ => Next::Fault,
        }
    }
}

/// A store that its lane has done and that nobody else has seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Where it goes.
    pub address: u64,
    /// Bytes of `value`.
    pub bytes: u32,
    /// Whether it is an MMIO store.
    pub doorbell: bool,
    /// Stores of an earlier epoch drain before it.
    pub epoch: u32,
    /// Whether a fence came after it: it drains before what its lane stores or swaps from now on.
    pub fenced: bool,
    /// What it writes; the first bytes of it.
    pub value: [u8; 16],
}

impl Waiting {
    /// Whether it writes any of `bytes` bytes at `address`.
    pub fn overlaps(&self, address: u64, bytes: u32) -> bool {
        self.address < address + u64::from(bytes) && address < self.address + u64::from(self.bytes)
    }

    /// Whether it has to drain before `later`, a younger store of the same buffer.
    pub fn drains_before(&self, later: &Waiting) -> bool {
        self.epoch < later.epoch || self.overlaps(later.address, later.bytes)
    }

    /// The value of a store of at most 8 bytes.
    pub fn number(&self) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&self.value[..8]);
        u64::from_le_bytes(bytes)
    }
}

/// A worker whose blocks are single lanes, each run from one access to the next by the caller, with stores that
/// wait until the caller drains them. A lane can be put back to where it was saved.
pub struct Explorer {
    worker: Worker,
    next: Vec<(Next, u32)>,
}

impl Explorer {
    /// A worker for all blocks of `launch`, each of which becomes one lane. Every lane runs to its first access.
    pub fn new(launch: &Launch) -> Result<Explorer, Error> {
        let blocks = launch.grid;
        let launch = launch.clone().block(1).exploring();
        let mut explorer =
            Explorer { worker: Worker::new(&launch, 0, 1)?, next: vec![(Next::Done, 0); blocks as usize] };
        for lane in 0..blocks as usize {
            explorer.advance(lane);
        }
        Ok(explorer)
    }

    /// Lanes, each of which is an actor of its own.
    pub fn lanes(&self) -> usize {
        self.next.len()
    }

    /// What `lane` does next.
    pub fn next(&self, lane: usize) -> Next {
        self.next[lane].0
    }

    /// Stores of `lane` that wait in its buffer.
    pub fn stores(&self, lane: usize) -> u32 {
        self.next[lane].1
    }

    /// Lets `lane` do what it does next, and all it then does without looking at memory. Stores that [`Next`]
    /// speaks of must have been drained.
    pub fn advance(&mut self, lane: usize) -> Next {
        let mut stop = RawStop::default();
        let (raw, table) = self.worker.explore();
        // SAFETY: a living worker on its own thread, made for this; `lane` is one of its blocks, since `next` has as
        // many elements.
        unsafe { (table.advance)(raw, self.index(lane), &mut stop) };
        let next = Next::of(&stop);
        self.next[lane] = (next, stop.stores);
        next
    }

    /// Store `index` of the buffer of `lane`, oldest first.
    pub fn waiting(&self, lane: usize, index: u32) -> Waiting {
        assert!(index < self.stores(lane), "lane {lane} has no store {index}");
        let mut waiting = RawWaiting::default();
        let (raw, table) = self.worker.explore();
        // SAFETY: a living worker, and a store that is there.
        unsafe { (table.waiting)(raw, self.index(lane), index, &mut waiting) };
        let RawWaiting { address, bytes, doorbell, epoch, fenced, value } = waiting;
        Waiting { address, bytes, doorbell: doorbell != 0, epoch, fenced: fenced != 0, value }
    }

    /// Takes store `index` out of the buffer of `lane` and writes it to memory; a doorbell is the caller's to ring.
    pub fn drain(&mut self, lane: usize, index: u32) -> Waiting {
        let waiting = self.waiting(lane, index);
        let (raw, table) = self.worker.explore();
        // SAFETY: a living worker on its own thread, and a store that is there. It writes where the kernel would.
        unsafe { (table.drain)(raw, self.index(lane), index) };
        self.next[lane].1 -= 1;
        waiting
    }

    /// Appends all that is `lane`'s own: stack and registers, then the buffer. The first word counts the words before
    /// the buffer, the second the stores in it. Equal words behave alike.
    pub fn save(&self, lane: usize, to: &mut Vec<u64>) {
        let at = to.len();
        let (raw, table) = self.worker.explore();
        let mut room = 256;
        loop {
            to.resize(at + room, 0);
            let own = to[at..].as_mut_ptr();
            // SAFETY: a living worker; `own` has room for so many words.
            let words = unsafe { (table.save)(raw, self.index(lane), own, room as u64) } as usize;
            if words <= room {
                return to.truncate(at + words);
            }
            room = words;
        }
    }

    /// Words of one store of a saved buffer.
    pub const STORE_WORDS: usize = size_of::<RawWaiting>() / 8;

    /// Puts `lane` back to where it was when [`save`](Explorer::save) appended `from`.
    ///
    /// # Safety
    /// `from` is just the words that `save` of this explorer appended for this lane.
    pub unsafe fn restore(&mut self, lane: usize, from: &[u64]) {
        let mut stop = RawStop::default();
        let (raw, table) = self.worker.explore();
        // SAFETY: a living worker on its own thread, and by the contract a state of this lane.
        unsafe { (table.restore)(raw, self.index(lane), from.as_ptr(), &mut stop) };
        self.next[lane] = (Next::of(&stop), stop.stores);
    }

    /// What a lane did wrong.
    pub fn fault(&self) -> String {
        self.worker.error()
    }

    fn index(&self, lane: usize) -> u32 {
        assert!(lane < self.next.len(), "there are {} lanes, not {}", self.next.len(), lane + 1);
        lane as u32
    }
}
