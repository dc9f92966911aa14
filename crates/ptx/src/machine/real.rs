// UNSAFETY: kernels name the host's memory by addresses, as on a GPU with unified addressing.
#![expect(unsafe_code, reason = "accesses of memory that a kernel names by address")]
//! The host's memory: each access is one atomic access of its size, never a reference to it.
//!
//! Rust's model has no racing atomics of different sizes, and a kernel may race so: it may write a word and read its half
//! (PTX ISA 9.0, section 8.2.2). What then holds is the processor's: each access is one instruction of it, at an aligned
//! address inside one word of 8 bytes, which x86-64 and AArch64 keep whole. The compiler cannot make more of it than that,
//! for addresses come from the kernel, at run time.

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use warpbell_base::SplitMix64;

use super::bytes::is_aligned;
use crate::program::Word;

/// Memory that a kernel may touch, from `begin` to `end`. That it stays until the run ends is its giver's promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Region {
    pub(super) begin: u64,
    pub(super) end: u64,
    /// Registers of a device: only `st.mmio` may write them.
    pub(super) registers: bool,
    /// Where it is known what words hold that nothing was written to: by `unwritten` of this.
    fresh: Option<u64>,
}

impl Region {
    /// Memory from `begin` to before `end`; `registers` are a device's, which only `st.mmio` may write.
    ///
    /// # Safety
    ///
    /// The bytes are mapped, for reading and writing, until the end of the run that gets this region, and nobody has a Rust
    /// reference to them.
    pub unsafe fn new(begin: u64, end: u64, registers: bool) -> Region {
        Region { begin, end, registers, fresh: None }
    }

    /// The same of memory whose words of 8 bytes hold [`Region::unwritten`] of this seed until something is written there,
    /// by whoever it is: a load that finds it is a [`crate::Finding`]. A word that was written in part may count as written.
    pub fn fresh(self, seed: u64) -> Region {
        Region { fresh: Some(seed), ..self }
    }

    /// What a word holds that nothing was written to, by its address: a number of chance.
    pub fn unwritten(seed: u64, word: u64) -> u64 {
        SplitMix64::from_state(seed ^ word).next_u64()
    }

    /// Whether a load of this place saw what it holds as long as nothing was written to its word, and nothing was.
    pub(super) fn is_fresh(&self, at: Real, seen: u64) -> bool {
        let word = at.span().word();
        let Some(unwritten) = self.fresh.map(|seed| Region::unwritten(seed, word)) else { return false };
        let whole = Real::new(self, word, 8);
        at.span().part_of(unwritten) == seen
            && whole.is_some_and(|word| word.load(Ordering::Relaxed) == unwritten)
    }

    /// Whether its loads need a look at what they saw.
    pub(super) fn is_watched(&self) -> bool {
        self.fresh.is_some()
    }

    pub(super) fn of_module(memory: std::ops::Range<u64>) -> Region {
        // SAFETY: the module owns these atomics, and the launch holds the module.
        unsafe { Region::new(memory.start, memory.end, false) }
    }

    pub(super) fn has(&self, address: u64, bytes: u64) -> bool {
        address >= self.begin && address.checked_add(bytes).is_some_and(|end| end <= self.end)
    }
}

/// An address that some region has, aligned for its size.
#[derive(Clone, Copy, Debug)]
pub(super) struct Real(Span);

/// At most 8 bytes at a multiple of them: inside one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Span {
    address: u64,
    bytes: u8,
}

impl Span {
    /// A word of 8 bytes.
    pub(super) fn of_word(word: u64) -> Span {
        Span { address: word, bytes: 8 }
    }

    pub(super) fn address(self) -> u64 {
        self.address
    }

    /// Which of its word's bytes it has, from the lowest bit.
    pub(super) fn mask(self) -> u8 {
        (0xff >> (8 - self.bytes)) << (self.address & 7)
    }

    /// The address of the word that it lies in.
    pub(super) fn word(self) -> u64 {
        self.address & !7
    }

    pub(super) fn overlaps(self, other: Span) -> bool {
        let end = |of: Span| of.address + u64::from(of.bytes);
        self.address < end(other) && other.address < end(self)
    }

    /// Its value, of that of its word.
    pub(super) fn part_of(self, word: u64) -> u64 {
        (word >> ((self.address & 7) * 8)) & self.all()
    }

    /// Its value after `stored` was stored in `to`.
    pub(super) fn patched(self, value: u64, to: Span, stored: u64) -> u64 {
        if self.word() != to.word() {
            return value;
        }
        let at = |of: Span| (of.address & 7) * 8;
        let (mask, stored) = (to.all() << at(to), (stored & to.all()) << at(to));
        let word = (value << at(self)) & !mask | stored;
        self.part_of(word)
    }

    fn all(self) -> u64 {
        u64::MAX >> (64 - u32::from(self.bytes) * 8)
    }
}

macro_rules! sized {
    ($self:ident, $atomic:ident => $result:expr) => {
        match $self.0.bytes {
            1 => {
                // SAFETY: `Real::new` found it in a region, and aligned; nobody has a reference to it. Racing accesses of
                // other sizes: see the head of this file.
                let $atomic = unsafe { AtomicU8::from_ptr($self.0.address as *mut u8) };
                $result
            }
            2 => {
                // SAFETY: as above.
                let $atomic = unsafe { AtomicU16::from_ptr($self.0.address as *mut u16) };
                $result
            }
            4 => {
                // SAFETY: as above.
                let $atomic = unsafe { AtomicU32::from_ptr($self.0.address as *mut u32) };
                $result
            }
            _ => {
                // SAFETY: as above.
                let $atomic = unsafe { AtomicU64::from_ptr($self.0.address as *mut u64) };
                $result
            }
        }
    };
}

impl Real {
    /// `bytes` (1, 2, 4 or 8) at an address of the region; nothing where it does not have them all, aligned.
    pub(super) fn new(region: &Region, address: u64, bytes: u8) -> Option<Real> {
        let fits = matches!(bytes, 1 | 2 | 4 | 8) && is_aligned(address, bytes.into());
        (fits && region.has(address, u64::from(bytes))).then_some(Real(Span { address, bytes }))
    }

    pub(super) fn span(self) -> Span {
        self.0
    }

    pub(super) fn load(self, order: Ordering) -> u64 {
        sized!(self, atomic => atomic.load(order).held())
    }

    pub(super) fn store(self, value: u64, order: Ordering) {
        sized!(self, atomic => atomic.store(value as _, order));
    }

    /// Writes what `change` makes of the value that is there, at once; returns that value.
    pub(super) fn update(self, change: impl Fn(u64) -> u64) -> u64 {
        let order = Ordering::SeqCst;
        sized!(self, atomic => {
            let changed = atomic.fetch_update(order, order, |old| Some(change(old.held()) as _));
            changed.unwrap_or_else(|old| old).held()
        })
    }
}
