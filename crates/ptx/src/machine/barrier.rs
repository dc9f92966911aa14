//! Barriers of a block (PTX ISA 9.0, section 9.7.13.1), which count warps: a warp arrives when all its lanes that have not
//! ended did, and counts 32 threads, however many it has.

use super::block::{Block, Common};
use super::execute::Pause;
use super::lane::{Lane, State};
use crate::error::{Check, Finding};
use crate::program::{Reg, ZERO};

/// What a warp's arrival counts.
const WARP: u32 = 32;

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Barrier {
    /// Threads, by whole warps.
    arrived: u32,
    /// That it waits for; zero: of all warps that have not ended.
    pub(super) wanted: u32,
}

/// A lane at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct AtBarrier {
    pub(super) number: u8,
    /// False: it goes on when its warp has arrived.
    waits: bool,
    /// All the warp comes by this instruction.
    aligned: bool,
    /// Its warp has arrived.
    pub(super) counted: bool,
}

impl Common<'_> {
    /// A lane comes to `bar.sync` or `bar.arrive`.
    pub(super) fn barrier(
        &mut self,
        lane: &mut Lane,
        (id, count): (Reg, Reg),
        waits: bool,
        aligned: bool,
    ) -> Result<Option<Pause>, Box<Finding>> {
        let (number, threads) = (lane.get(id), if count == ZERO { 0 } else { lane.get(count) as u32 });
        let most = self.run.block_threads().next_multiple_of(WARP);
        if number > 15 || threads % WARP != 0 || threads > most || (count != ZERO && threads == 0) {
            let what = format!(
                "bar.sync {number}, {threads}: barriers are 0 to 15, counts are whole warps, {WARP} to {most}"
            );
            return Err(self.found(lane, Check::BlockBarrier, what));
        }
        let barrier = &mut self.barriers[number as usize];
        // No count stands for all threads.
        let counted = |threads: u32| if threads == 0 { most } else { threads };
        if barrier.arrived > 0 && counted(barrier.wanted) != counted(threads) {
            let what = format!(
                "barrier {number} of {threads} threads, where others came to one of {}",
                barrier.wanted
            );
            return Err(self.found(lane, Check::BlockBarrier, what));
        }
        barrier.wanted = threads;
        lane.state = State::Barrier(AtBarrier { number: number as u8, waits, aligned, counted: false });
        Ok(Some(Pause::Waits))
    }
}

impl Block<'_> {
    /// A lane of this warp came to a barrier, or ended: the warp may have arrived, and others may go on.
    pub(super) fn settle_barriers(&mut self, warp: usize) -> Result<(), Box<Finding>> {
        if let Some(number) = self.arrives_at(warp)? {
            self.arrive(warp, number);
            self.open(number);
        } else if self.common.warp_ended(warp) {
            (0..16).for_each(|number| self.open(number));
        }
        Ok(())
    }

    /// The barrier that all of a warp came to, if they did.
    fn arrives_at(&self, warp: usize) -> Result<Option<u8>, Box<Finding>> {
        let mut first: Option<(AtBarrier, &Lane)> = None;
        for lane in &self.lanes[self.warp(warp)] {
            match (lane.state, first) {
                (State::Ended, _) => {}
                (State::Barrier(at), None) if !at.counted => first = Some((at, lane)),
                (State::Barrier(at), Some((of, one))) if at.number == of.number => {
                    let apart =
                        (lane.frame.function, lane.frame.next) != (one.frame.function, one.frame.next);
                    if apart && (at.aligned || of.aligned) {
                        let what = format!(
                            "lanes {} and {} of a warp are at barrier {} by two instructions, of which one is for all",
                            one.in_warp(),
                            lane.in_warp(),
                            at.number
                        );
                        return Err(self.common.found(lane, Check::BlockBarrier, what));
                    }
                }
                _ => return Ok(None),
            }
        }
        Ok(first.map(|(at, _)| at.number))
    }

    fn arrive(&mut self, warp: usize, number: u8) {
        self.common.barriers[usize::from(number)].arrived += WARP;
        let lanes = self.warp(warp);
        for lane in &mut self.lanes[lanes] {
            if matches!(lane.state, State::Barrier(_)) {
                self.common.watch_arrival(lane, number);
            }
            let State::Barrier(at) = &mut lane.state else { continue };
            at.counted = true;
            if !at.waits {
                // It may be the last that others wait for, who see what it stored.
                self.common.goes_on(lane);
                self.common.meets(&mut lane.late);
            }
        }
    }

    /// Lets go on who waits at a barrier that all have come to.
    fn open(&mut self, number: u8) {
        let left = (0..self.common.ended.len()).filter(|warp| !self.common.warp_ended(*warp)).count() as u32;
        let barrier = &mut self.common.barriers[usize::from(number)];
        let wanted = if barrier.wanted == 0 { left * WARP } else { barrier.wanted };
        if barrier.arrived == 0 || barrier.arrived < wanted {
            return;
        }
        *barrier = Barrier::default();
        let mut opened = Vec::new();
        for lane in &mut self.lanes {
            if matches!(lane.state, State::Barrier(at) if at.number == number && at.counted) {
                self.common.goes_on(lane);
                self.common.meets(&mut lane.late);
                opened.push(lane.number);
            }
        }
        self.watch_open(number, &opened);
    }
}
