//! Asynchronous copies between global and shared memory (PTX ISA 9.0, section 9.7.9.25): each is done at some time between
//! its instruction and what waits for it, chosen by the seed.
//!
//! Bulk copies are of the asynchronous proxy: what was written to shared memory by others is theirs after a
//! `fence.proxy.async` alone (section 8.6). It counts here who ran one since, in the whole block.
//!
//! Where races are looked for, what a copy reads and writes is looked at where it begins (`watch`).

use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::block::{Block, Common};
use super::generic;
use super::lane::Lane;
use super::races::Who;
use super::space::{Place, address};
use crate::error::{Check, Finding};
use crate::program::{Access, Address, Order, Scope, Transfer};
use crate::text::Space;

/// Copies that are under way end once in so many passes.
const SLOW: u32 = 6;

/// A copy that is under way.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    /// The number of the lane that began it.
    owner: u32,
    to: u64,
    from: u64,
    pub(super) size: u64,
    to_shared: bool,
    bulk: bool,
    barrier: Option<u64>,
    /// The lane's group that it belongs to.
    group: u32,
    /// Its number among what the block has begun.
    number: u64,
    /// Who it is, where races are looked for.
    pub(super) who: Option<Who>,
}

/// An arrival at a barrier, which comes behind copies of its lane (section 9.7.13.15.17).
#[derive(Clone, Copy, Debug)]
struct LateArrival {
    owner: u32,
    barrier: u64,
    /// Behind copies with lower numbers.
    number: u64,
    /// The last of them, where races are looked for.
    last: Option<Who>,
}

/// What a block knows of its copies.
#[derive(Debug)]
pub(super) struct Copies {
    under_way: Vec<UnderWay>,
    arrivals: Vec<LateArrival>,
    /// Copies that are done, and that their lanes have not waited for: of each group and place the last. Where races are
    /// looked for.
    done: Vec<UnderWay>,
    /// Copies and arrivals that have begun.
    begun: u64,
    /// When each word of shared memory was last written by other than bulk copies, in fences; empty where there are none.
    written: Vec<u32>,
    /// Fences of the proxy, from 1.
    fences: u32,
}

impl Copies {
    /// Of a block with so many bytes of shared memory, in a module that has bulk copies or not.
    pub(super) fn new(shared: usize, bulk: bool) -> Copies {
        let written = if bulk { vec![0; shared.div_ceil(8)] } else { Vec::new() };
        Copies { under_way: Vec::new(), arrivals: Vec::new(), done: Vec::new(), begun: 0, written, fences: 1 }
    }

    fn next_number(&mut self) -> u64 {
        self.begun += 1;
        self.begun
    }

    /// Whether the copies of before it are done.
    fn may_arrive(&self, arrival: &LateArrival) -> bool {
        let waits_for =
            |one: &UnderWay| !one.bulk && one.owner == arrival.owner && one.number < arrival.number;
        !self.under_way.iter().any(waits_for)
    }

    /// A copy is done that a group counts.
    fn counts(&mut self, one: &UnderWay) {
        let Some(who) = one.who else { return };
        let same = |of: &UnderWay| {
            (of.owner, of.bulk, of.group, of.who.map(|who| who.slot))
                == (one.owner, one.bulk, one.group, Some(who.slot))
        };
        match self.done.iter_mut().find(|of| same(of)) {
            Some(known) if known.number < one.number => *known = *one,
            Some(_) => {}
            None => self.done.push(*one),
        }
    }

    /// The last copy of a lane that is no bulk copy.
    fn last_of(&self, owner: u32) -> Option<Who> {
        let of_lane = self.under_way.iter().chain(&self.done).filter(|one| one.owner == owner && !one.bulk);
        of_lane.max_by_key(|one| one.number)?.who
    }

    /// Whether a copy to these bytes of shared memory is under way.
    pub(super) fn comes_to(&self, at: u64, bytes: u64) -> bool {
        let covers = |one: &UnderWay| {
            let (_, to) = generic(one.to);
            one.to_shared && at < to + one.size && to < at + bytes
        };
        self.under_way.iter().any(covers)
    }

    pub(super) fn fence(&mut self) {
        self.fences += 1;
    }

    /// A word of shared memory was written by other than a bulk copy.
    pub(super) fn wrote(&mut self, place: Place) {
        if let Place::Shared(at) = place
            && let Some(written) = self.written.get_mut(at as usize / 8)
        {
            *written = self.fences;
        }
    }

    /// A word between these that was written since the last fence.
    fn unfenced(&self, from: u64, to: u64) -> Option<u64> {
        let words = from / 8..to.div_ceil(8);
        words.map(|word| word * 8).find(|at| self.written.get(*at as usize / 8) == Some(&self.fences))
    }
}

impl Common<'_> {
    /// A copy begins.
    pub(super) fn copy(&mut self, lane: &mut Lane, copy: &Transfer) -> Result<(), Box<Finding>> {
        let (to, from) = (address(lane, copy.to), address(lane, copy.from));
        let (number, told) = (self.copies.next_number(), copy.barrier.is_some());
        let one = UnderWay {
            owner: lane.number,
            to,
            from,
            size: lane.get(copy.size) & 0xffff_ffff,
            to_shared: copy.to_shared,
            bulk: copy.bulk,
            barrier: copy.barrier.map(|barrier| address(lane, barrier)),
            group: lane.groups[usize::from(copy.bulk)],
            number,
            who: self.watch_fork(lane, (copy.bulk, number), told),
        };
        self.copyable(lane, &one)?;
        self.fenced(lane, &one)?;
        for at in (0..one.size).step_by(4) {
            let source = self.place(lane, &access(!one.to_shared), from + at, false)?;
            self.watch_copy(lane, one.who, source, false)?;
            let target = self.place(lane, &access(one.to_shared), to + at, true)?;
            self.watch_copy(lane, one.who, target, true)?;
        }
        self.copies.under_way.push(one);
        Ok(())
    }

    /// Bulk copies have multiples of 16 bytes at multiples of 16 (section 9.7.9.25.4.1), others 4, 8 or 16 at multiples of
    /// them.
    fn copyable(&self, lane: &Lane, one: &UnderWay) -> Result<(), Box<Finding>> {
        let UnderWay { to, from, size, bulk, .. } = *one;
        let unit = if bulk { 16 } else { size };
        let fits = if bulk { size.is_multiple_of(16) } else { matches!(size, 4 | 8 | 16) };
        if fits && to.is_multiple_of(unit) && from.is_multiple_of(unit) {
            return Ok(());
        }
        let units = if bulk { "multiples of 16" } else { "4, 8 or 16, and addresses are multiples of them" };
        let what = format!("a copy of {size} bytes from {from:#x} to {to:#x}: they are {units}");
        Err(self.found(lane, Check::Alignment, what))
    }

    /// What a bulk copy works with in shared memory was fenced since others wrote it.
    fn fenced(&self, lane: &Lane, one: &UnderWay) -> Result<(), Box<Finding>> {
        if !one.bulk {
            return Ok(());
        }
        let shared = if one.to_shared { one.to } else { one.from };
        let ranges = [Some((shared, one.size)), one.barrier.map(|barrier| (barrier, 8))];
        let unfenced = ranges.into_iter().flatten().find_map(|(begin, bytes)| {
            let (_, begin) = generic(begin);
            self.copies.unfenced(begin, begin + bytes)
        });
        let Some(at) = unfenced else { return Ok(()) };
        let what = format!(
            "a bulk copy works with {at:#x} of shared memory, which was written otherwise, with no fence.proxy.async since"
        );
        Err(self.found(lane, Check::Proxy, what))
    }

    /// An arrival that comes once the lane's copies of before are done.
    pub(super) fn arrive_behind_copies(
        &mut self,
        lane: &mut Lane,
        at: Address,
        counted: bool,
    ) -> Result<(), Box<Finding>> {
        let barrier = address(lane, at);
        if counted {
            self.awaits_one_more(lane, barrier)?;
        }
        let (number, last) = (self.copies.next_number(), self.copies.last_of(lane.number));
        self.copies.arrivals.push(LateArrival { owner: lane.number, barrier, number, last });
        Ok(())
    }

    /// What the lane began belongs to a group from now on.
    pub(super) fn commit(&mut self, lane: &mut Lane, bulk: bool) {
        lane.groups[usize::from(bulk)] += 1;
    }

    /// The lane's copies are done, but for those of its last groups.
    pub(super) fn wait_for_copies(
        &mut self,
        lane: &mut Lane,
        bulk: bool,
        but: Option<u64>,
    ) -> Result<(), Box<Finding>> {
        let (owner, begun) = (lane.number, u64::from(lane.groups[usize::from(bulk)]));
        let done = |one: &UnderWay| {
            let group = u64::from(one.group);
            one.owner == owner
                && one.bulk == bulk
                && but.is_none_or(|but| group < begun && group + but < begun)
        };
        let (ended, left) = self.copies.under_way.iter().copied().partition(done);
        self.copies.under_way = left;
        let ended: Vec<UnderWay> = ended;
        ended.iter().try_for_each(|one| self.copied(lane, one))?;
        let (waited, left) = self.copies.done.iter().copied().partition(done);
        self.copies.done = left;
        let waited: Vec<UnderWay> = waited;
        waited.iter().filter_map(|one| one.who).for_each(|who| self.watch_waited(lane, who));
        Ok(())
    }

    /// A copy is done.
    fn copied(&mut self, lane: &mut Lane, one: &UnderWay) -> Result<(), Box<Finding>> {
        for at in (0..one.size).step_by(4) {
            let source = self.place(lane, &access(!one.to_shared), one.from + at, false)?;
            let value = self.load(lane, &ACCESS, source);
            let target = self.place(lane, &access(one.to_shared), one.to + at, true)?;
            self.store(lane, &ACCESS, target, value);
            self.watch_value(&ACCESS, target, value);
        }
        match one.barrier {
            Some(barrier) => self.completes(lane, barrier, one),
            None => {
                self.copies.counts(one);
                Ok(())
            }
        }
    }
}

impl Block<'_> {
    /// Some of the copies that are under way are done; all of them at the end.
    pub(super) fn copies_go_on(
        &mut self,
        random: &mut Xoshiro256PlusPlus,
        end: bool,
    ) -> Result<(), Box<Finding>> {
        let mut at = 0;
        while at < self.common.copies.under_way.len() {
            if !end && random.random_range(0..SLOW) != 0 {
                at += 1;
                continue;
            }
            let one = self.common.copies.under_way.swap_remove(at);
            self.common.copied(&mut self.lanes[one.owner as usize], &one)?;
        }
        self.arrivals_go_on(random, end)
    }

    fn arrivals_go_on(&mut self, random: &mut Xoshiro256PlusPlus, end: bool) -> Result<(), Box<Finding>> {
        let mut at = 0;
        while let Some(&arrival) = self.common.copies.arrivals.get(at) {
            let comes = self.common.copies.may_arrive(&arrival) && (end || random.random_range(0..SLOW) == 0);
            if !comes {
                at += 1;
                continue;
            }
            self.common.copies.arrivals.swap_remove(at);
            let owner = &mut self.lanes[arrival.owner as usize];
            self.common.one_arrives(owner, arrival.barrier, arrival.last)?;
        }
        Ok(())
    }
}

/// Copies go word by word: sizes and addresses are multiples of one.
pub(super) const ACCESS: Access = Access {
    space: Space::Generic,
    order: Order::Weak,
    scope: Scope::Cta,
    bytes: 4,
    elements: 1,
    read_only: false,
};

/// Shared memory is named by its own addresses as well as by generic ones.
fn access(shared: bool) -> Access {
    Access { space: if shared { Space::Shared } else { Space::Global }, ..ACCESS }
}
