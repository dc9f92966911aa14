//! Warps that run the same program differ in nothing but their number, so that two states which differ only in which
//! warp is which have the same future. What has a warp's number in it: places of its own in memory (completion slots,
//! quarantine masks, answers), identifiers of commands, and numbers of commands, by which entries and statuses are told
//! apart. Where a lane stands is renamed by letting the other lane read what the first has read, renamed.

use warpbell_kernels::abi;

use super::arena::Arena;
use super::device::MARK;

/// Where numbers of warps are to be found. Offsets into the arena.
#[derive(Clone, Debug)]
pub struct Names {
    /// Warps.
    pub warps: u32,
    /// Commands of each.
    pub commands: u32,
    /// Bits of a command identifier below the warp's.
    pub local_bits: u32,
    /// Offset and bytes of the submission ring.
    pub sq: (usize, usize),
    /// The completion ring.
    pub cq: (usize, usize),
    /// Completion slots, in as many parts as there are warps, as are the next.
    pub words: (usize, usize),
    /// Quarantine masks.
    pub quarantine: (usize, usize),
    /// Answers.
    pub records: (usize, usize),
}

/// New numbers for warps: warp i becomes warp `to[i]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Renaming {
    to: Vec<u8>,
    /// For each kept word of the arena its place after the renaming.
    target: Vec<usize>,
}

/// All renamings of the warps of a check.
#[derive(Clone, Debug)]
pub struct Symmetry {
    names: Names,
    base: u64,
    /// Offset of each kept word.
    kept: Vec<usize>,
    /// The first changes nothing.
    renamings: Vec<Renaming>,
}

fn part((start, bytes): (usize, usize), offset: usize) -> Option<usize> {
    offset.checked_sub(start).filter(|at| *at < bytes)
}

impl Symmetry {
    /// Of warps whose names are to be found so in `arena`.
    pub fn new(names: Names, arena: &Arena) -> Symmetry {
        let kept = arena.kept_offsets();
        let mut symmetry = Symmetry { names, base: arena.base(), kept, renamings: Vec::new() };
        let warps: Vec<u8> = (0..symmetry.names.warps as u8).collect();
        for to in permutations(&warps) {
            let moved = |offset: &usize| symmetry.offset(&to, *offset);
            let place = |offset: usize| symmetry.kept.iter().position(|kept| *kept == offset);
            let target =
                symmetry.kept.iter().map(moved).map(|to| place(to).expect("warps keep the same")).collect();
            symmetry.renamings.push(Renaming { to, target });
        }
        symmetry
    }

    pub(super) fn renamings(&self) -> &[Renaming] {
        &self.renamings
    }

    fn offset(&self, to: &[u8], offset: usize) -> usize {
        for range in [self.names.words, self.names.quarantine, self.names.records] {
            if let Some(at) = part(range, offset) {
                let of_one = range.1 / self.names.warps as usize;
                return range.0 + usize::from(to[at / of_one]) * of_one + at % of_one;
            }
        }
        offset
    }

    /// Where what lies at `address` is after a renaming.
    pub(super) fn address(&self, by: &Renaming, address: u64) -> u64 {
        self.base + self.offset(&by.to, address.wrapping_sub(self.base) as usize) as u64
    }

    pub(super) fn command(&self, by: &Renaming, number: u32) -> u32 {
        let commands = self.names.commands;
        u32::from(by.to[(number / commands) as usize]) * commands + number % commands
    }

    pub(super) fn cid(&self, by: &Renaming, cid: u32) -> u32 {
        let low = (1 << self.names.local_bits) - 1;
        u32::from(by.to[(cid >> self.names.local_bits) as usize]) << self.names.local_bits | cid & low
    }

    fn is_cid(&self, cid: u32) -> bool {
        cid >> self.names.local_bits < self.names.warps
    }

    /// A status is one more than the number of its command; others are the library's.
    fn status(&self, by: &Renaming, status: u32) -> Option<u32> {
        let number =
            status.checked_sub(1).filter(|number| *number < self.names.warps * self.names.commands)?;
        Some(self.command(by, number) + 1)
    }

    /// 32 bits that lie at `offset` before a renaming.
    fn half(&self, by: &Renaming, offset: usize, value: u32) -> u32 {
        let names = &self.names;
        if let Some(at) = part(names.sq, offset) {
            return match at / 4 % 16 {
                0 if self.is_cid(value >> 16) => self.cid(by, value >> 16) << 16 | value & 0xffff,
                3 | 7 | 11 | 15 if value & 0xffff_0000 == MARK => MARK | self.command(by, value & 0xffff),
                _ => value,
            };
        }
        let cqe = |status: u32| status << 17 | value & 0x1_0000 | self.cid(by, value & 0xffff);
        let word = |status: u32| status | value & 0xffff_0000;
        let renamed = if part(names.cq, offset).is_some_and(|at| at % 16 == 12) {
            self.status(by, value >> 17).map(cqe)
        } else if part(names.words, offset).is_some() {
            self.status(by, value & 0xffff).map(word)
        } else if part(names.records, offset).is_some_and(|at| at % 8 == 4) {
            self.status(by, value)
        } else {
            None
        };
        renamed.unwrap_or(value)
    }

    /// The value of an access of `bytes` bytes at `address`, as it is after a renaming.
    pub(super) fn value(&self, by: &Renaming, address: u64, bytes: u32, value: u64) -> u64 {
        let offset = address.wrapping_sub(self.base) as usize;
        let low = self.half(by, offset, value as u32);
        let high =
            if bytes > 4 { self.half(by, offset + 4, (value >> 32) as u32) } else { (value >> 32) as u32 };
        u64::from(high) << 32 | u64::from(low)
    }

    /// What memory holds after a renaming, of which `kept` is all that changes.
    pub(super) fn arena(&self, by: &Renaming, kept: &[u64], to: &mut Vec<u64>) {
        let at = to.len();
        to.resize(at + self.kept.len(), 0);
        for ((offset, word), target) in self.kept.iter().zip(kept).zip(&by.target) {
            to[at + target] = self.value(by, self.base + *offset as u64, 8, *word);
        }
    }

    /// Whether after a renaming of lanes of these kinds the kinds are in order.
    pub(super) fn sorts<T: PartialOrd>(&self, by: &Renaming, kinds: &[T]) -> bool {
        let ordered = |one: usize, other: usize| by.to[one] > by.to[other] || kinds[one] <= kinds[other];
        (0..kinds.len()).all(|one| (0..kinds.len()).all(|other| one == other || ordered(one, other)))
    }

    /// The lane that `lane` becomes.
    pub(super) fn lane(&self, by: &Renaming, lane: usize) -> usize {
        by.to.get(lane).map_or(lane, |to| usize::from(*to))
    }

    /// Words of `outcome` under each renaming, where `outcome` reads words of memory by their offset.
    pub fn outcomes(
        &self,
        arena: &Arena,
        outcome: impl Fn(&dyn Fn(usize) -> u64) -> Vec<u64>,
    ) -> Vec<Vec<u64>> {
        let mut kept = Vec::new();
        arena.save(&mut kept);
        let renamed = |by: &Renaming| {
            let mut words = Vec::new();
            self.arena(by, &kept, &mut words);
            let word = |offset: usize| {
                let place = self.kept.iter().position(|kept| *kept == offset);
                place.map_or_else(|| arena.word(offset), |place| words[place])
            };
            outcome(&word)
        };
        self.renamings.iter().map(renamed).collect()
    }
}

/// Whether a completion slot's status bits are those of a command that is answered.
const _: () = assert!(abi::SLOT_PENDING == 1 << 15, "a pending word has no status that is a command's");

fn permutations(of: &[u8]) -> Vec<Vec<u8>> {
    if of.is_empty() {
        return vec![Vec::new()];
    }
    let mut all = Vec::new();
    for (at, first) in of.iter().enumerate() {
        let rest: Vec<u8> =
            of.iter().enumerate().filter(|(other, _)| *other != at).map(|(_, one)| *one).collect();
        all.extend(permutations(&rest).into_iter().map(|rest| [&[*first][..], &rest].concat()));
    }
    all
}
