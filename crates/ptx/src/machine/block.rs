//! A block: its lanes, what they share, and whose turn it is.

use rand::RngExt as _;
use rand_xoshiro::Xoshiro256PlusPlus;

use super::barrier::Barrier;
use super::bytes::Room;
use super::copies::Copies;
use super::execute::Pause;
use super::lane::{Lane, State};
use super::launch::Run;
use super::meet::settle;
use super::real::Region;
use super::weak;
use crate::error::{Check, Finding};
use crate::program::Meeting;

/// Instructions of a turn, at most, as a power of two.
const TURN: u32 = 6;
/// Regions that a block remembers.
const REGIONS: usize = 4;

/// What the lanes of a block have in common.
pub(super) struct Common<'a> {
    pub(super) run: &'a Run<'a>,
    pub(super) block: u32,
    pub(super) shared: Room,
    pub(super) barriers: [Barrier; 16],
    pub(super) copies: Copies,
    /// Lanes that ended, by warp.
    pub(super) ended: Vec<u32>,
    pub(super) regions: [Region; REGIONS],
    /// What the block keeps of memory, where that is weak.
    pub(super) weak: weak::Block,
    pub(super) instructions: u64,
    /// The number of its first thread among all of the GPU, where races are looked for.
    pub(super) first_slot: u32,
}

pub(super) struct Block<'a> {
    pub(super) lanes: Vec<Lane>,
    pub(super) common: Common<'a>,
}

/// What a pass over all lanes came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Pass {
    Goes,
    Ended,
}

impl<'a> Block<'a> {
    pub(super) fn new(run: &'a Run<'a>, block: u32) -> Block<'a> {
        let kernel = &run.module.functions[run.kernel as usize];
        let lane = |number| Lane::new(number, run.kernel, kernel, &run.arguments);
        let threads = run.block_threads();
        let bytes = run.module.shared_bytes as usize + run.dynamic_shared as usize;
        let common = Common {
            run,
            block,
            shared: Room::new(bytes),
            barriers: [Barrier::default(); 16],
            copies: Copies::new(bytes, run.module.copies_bulk),
            ended: vec![0; threads.div_ceil(32) as usize],
            regions: [Region::of_module(run.module.memory()); REGIONS],
            weak: weak::Block::default(),
            instructions: 0,
            first_slot: run.races.map_or(0, |races| races.lock().enter(threads)),
        };
        Block { lanes: (0..threads).map(lane).collect(), common }
    }

    /// A turn for each lane that is ready, beginning with a random one.
    pub(super) fn pass(&mut self, random: &mut Xoshiro256PlusPlus) -> Result<Pass, Box<Finding>> {
        let count = self.lanes.len();
        let (first, mut ran) = (random.random_range(0..count), false);
        for at in (first..count).chain(0..first) {
            self.common.weak_time(&mut self.lanes[at]);
            if !matches!(self.lanes[at].state, State::Ready) {
                continue;
            }
            ran = true;
            let most = 1 << random.random_range(0..=TURN);
            let turn = random.random_range(1..=most);
            if self.common.run(&mut self.lanes[at], turn)? == Pause::Waits {
                self.waits(at)?;
            }
        }
        self.copies_go_on(random, !ran)?;
        match ran {
            true => Ok(Pass::Goes),
            false if self.lanes.iter().all(|lane| matches!(lane.state, State::Ended)) => {
                self.common.weak_end(&mut self.lanes);
                Ok(Pass::Ended)
            }
            false => Err(self.deadlock()),
        }
    }

    /// A lane came to where others may be waiting for it.
    fn waits(&mut self, at: usize) -> Result<(), Box<Finding>> {
        let std::ops::Range { start: begin, end } = self.warp(at / 32);
        match self.lanes[at].state {
            State::Meets(arrival) => {
                let met = settle(&mut self.lanes[begin..end], at - begin);
                if met && arrival.meeting == Meeting::Wait {
                    let lanes = (begin..end).filter(|lane| arrival.mask >> (lane - begin) & 1 == 1);
                    lanes.clone().for_each(|lane| self.common.meets(&mut self.lanes[lane].late));
                    self.watch_meeting(&lanes.map(|lane| lane as u32).collect::<Vec<u32>>());
                }
            }
            State::Barrier(_) => self.settle_barriers(at / 32)?,
            State::Ended => {
                self.common.ended[at / 32] |= 1 << (at % 32);
                self.settle_barriers(at / 32)?;
            }
            State::Ready => {}
        }
        Ok(())
    }

    /// The lanes of a warp.
    pub(super) fn warp(&self, warp: usize) -> std::ops::Range<usize> {
        warp * 32..(warp * 32 + 32).min(self.lanes.len())
    }

    fn deadlock(&self) -> Box<Finding> {
        let waiting = self.lanes.iter().filter(|lane| !matches!(lane.state, State::Ended));
        let mut told: Vec<String> = waiting.clone().map(|lane| self.told(lane)).collect();
        told.dedup_by_key(|line| line.split_once(' ').map(|(_, place)| place.to_owned()));
        told.truncate(4);
        let what = format!("no lane of the block can go on: {}", told.join("; "));
        let first = waiting.clone().next().unwrap_or(&self.lanes[0]);
        self.common.found(first, Check::Deadlock, what)
    }

    fn told(&self, lane: &Lane) -> String {
        let line = self.common.place_of(lane).line;
        match lane.state {
            State::Meets(arrival) => {
                format!(
                    "{} waits at line {line} for lanes {:#010x} ({:?})",
                    lane.number, arrival.mask, arrival.meeting
                )
            }
            State::Barrier(at) => {
                format!("{} waits at line {line} at barrier {}", lane.number, at.number)
            }
            State::Ready | State::Ended => String::new(),
        }
    }
}

impl Common<'_> {
    /// Whether all lanes of a warp have ended.
    pub(super) fn warp_ended(&self, warp: usize) -> bool {
        let there = (self.run.block_threads() - warp as u32 * 32).min(32);
        self.ended[warp] == u32::MAX >> (32 - there)
    }

    /// Where the instruction is that a lane ran last.
    pub(super) fn place_of(&self, lane: &Lane) -> crate::text::Place {
        let function = &self.run.module.functions[lane.frame.function as usize];
        function.places[(lane.frame.next as usize).saturating_sub(1)]
    }

    pub(super) fn found(&self, lane: &Lane, check: Check, what: String) -> Box<Finding> {
        let (place, module) = (self.place_of(lane), self.run.module);
        let (file, line) = place.source;
        Box::new(Finding {
            check,
            what,
            kernel: module.functions[self.run.kernel as usize].name.clone(),
            ptx: (module.name.clone(), place.line, module.line(place.line).to_owned()),
            source: module.files.get(&file).map(|path| (path.clone(), line)),
            block: self.block,
            thread: lane.number,
        })
    }
}
