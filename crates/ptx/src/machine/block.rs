//! A block: its lanes, what they share, and whose turn it is.

use rand::{Rng as _, RngExt as _};
use rand_xoshiro::Xoshiro256PlusPlus;

use super::barrier::Barrier;
use super::bytes::Room;
use super::copies::Copies;
use super::execute::Pause;
use super::lane::{Lane, State};
use super::launch::Run;
use super::real::Region;
use super::weak;
use crate::error::{Check, Finding, Line};

/// Instructions of a turn, at most, as a power of two. With longer ones lanes of a warp, which on a GPU go together, come to
/// where they meet further apart, and groups that form there are smaller.
const TURN: u32 = 6;
/// Groups of lanes that a deadlock tells of, at most.
const TOLD: usize = 6;
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
    /// Lanes that are ready, by warp: their states, which lie far from each other.
    pub(super) ready: Vec<u32>,
    pub(super) regions: [Region; REGIONS],
    /// What the block keeps of memory, where that is weak.
    pub(super) weak: weak::Block,
    pub(super) instructions: u64,
    /// Memory is as strong as the host's, and neither races nor loads by `.nc` are looked at.
    pub(super) is_plain: bool,
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
            ready: (0..threads.div_ceil(32)).map(|warp| lanes_there(threads, warp)).collect(),
            regions: [Region::of_module(run.module.memory()); REGIONS],
            weak: run.weak.map(weak::Gpu::block).unwrap_or_default(),
            instructions: 0,
            is_plain: run.weak.is_none() && run.races.is_none() && run.constant.is_none(),
            first_slot: run.races.map_or(0, |races| races.lock().enter(run.slots())),
        };
        Block { lanes: (0..threads).map(lane).collect(), common }
    }

    /// A turn for each lane that is ready, beginning with a random one.
    pub(super) fn pass(&mut self, random: &mut Xoshiro256PlusPlus) -> Result<Pass, Box<Finding>> {
        let count = self.lanes.len();
        let (first, mut ran) = (random.random_range(0..count), false);
        for at in (first..count).chain(0..first) {
            if self.common.run.weak.is_some() {
                self.common.weak_time(&mut self.lanes[at]);
            }
            if self.common.ready[at / 32] >> (at % 32) & 1 == 0 {
                continue;
            }
            ran = true;
            let turn = turn(random);
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
        let warp = at / 32;
        self.common.ready[warp] &= !(1 << (at % 32));
        match self.lanes[at].state {
            State::Meets(_) => self.settle(warp, at)?,
            State::Barrier(_) => self.settle_barriers(warp)?,
            State::Ended => {
                self.common.ended[warp] |= 1 << (at % 32);
                // Others may have waited for it alone.
                for other in self.warp(warp) {
                    self.settle(warp, other)?;
                }
                self.settle_barriers(warp)?;
            }
            State::Ready => {}
        }
        Ok(())
    }

    /// The lanes of a warp.
    pub(super) fn warp(&self, warp: usize) -> std::ops::Range<usize> {
        warp * 32..(warp * 32 + 32).min(self.lanes.len())
    }

    /// Each warp's lanes by what they wait for, in words: those that stand at one instruction for the same are told once.
    fn deadlock(&self) -> Box<Finding> {
        let mut told: Vec<(usize, String, u32)> = Vec::new();
        for (at, lane) in self.lanes.iter().enumerate() {
            let (warp, own, waits) = (at / 32, 1 << (at % 32), self.waits_for(lane));
            match told.iter_mut().find(|(of, what, _)| *of == warp && *what == waits) {
                Some((_, _, lanes)) => *lanes |= own,
                None => told.push((warp, waits, own)),
            }
        }
        let count = told.len();
        let first = told.into_iter().take(TOLD);
        let mut told: Vec<String> =
            first.map(|(warp, waits, mask)| format!("warp {warp}, {}: {waits}", lanes_of(mask))).collect();
        if count > TOLD {
            told.push(format!("and {} groups of lanes more", count - TOLD));
        }
        let what = format!("no lane of the block can go on: {}", told.join("; "));
        let waiting = self.lanes.iter().find(|lane| !matches!(lane.state, State::Ended));
        self.common.found(waiting.unwrap_or(&self.lanes[0]), Check::Deadlock, what)
    }

    /// What a lane waits for, and where.
    fn waits_for(&self, lane: &Lane) -> String {
        let (module, place) = (self.common.run.module, self.common.place_of(lane));
        let (file, line) = place.source;
        let source = module.files.get(&file).map(|path| (path.clone(), line));
        let said = Line { text: module.line(place.line).to_owned(), source };
        let stands = |until: String| format!("waiting at line {}, {said}, {until}", place.line);
        match lane.state {
            State::Meets(arrival) => stands(format!("for {} to come there", lanes_of(arrival.mask))),
            State::Barrier(at) => {
                let wanted = self.common.barriers[usize::from(at.number)].wanted;
                stands(match (at.counted, wanted) {
                    (false, _) => format!("for the rest of their warp to come to barrier {}", at.number),
                    (true, 0) => format!("for all other warps to come to barrier {}", at.number),
                    (true, _) => format!("for {wanted} threads to come to barrier {}", at.number),
                })
            }
            State::Ready => "not waiting".to_owned(),
            State::Ended => "ended".to_owned(),
        }
    }
}

/// Instructions of a turn: any number up to a power of two, each of which is as likely. One draw is enough for both.
fn turn(random: &mut Xoshiro256PlusPlus) -> u32 {
    let drawn = random.next_u64();
    let most = 1 << (drawn as u32 % (TURN + 1));
    1 + ((drawn >> 32) as u32 & (most - 1))
}

/// The lanes that a warp of a block has.
fn lanes_there(threads: u32, warp: u32) -> u32 {
    u32::MAX >> (32 - (threads - warp * 32).min(32))
}

/// `lanes 0 to 3 and 7` of a mask.
fn lanes_of(mask: u32) -> String {
    let has = |lane: u32| lane < 32 && mask >> lane & 1 == 1;
    let begins = (0..32).filter(|lane| has(*lane) && !lane.checked_sub(1).is_some_and(has));
    let ranges = begins.map(|first| match (first..32).take_while(|lane| has(*lane)).last() {
        Some(last) if last > first => format!("{first} to {last}"),
        _ => first.to_string(),
    });
    let ranges: Vec<String> = ranges.collect();
    let word = if mask.count_ones() == 1 { "lane" } else { "lanes" };
    match ranges.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{word} {} and {last}", rest.join(", ")),
        _ => format!("{word} {}", ranges.concat()),
    }
}

impl Common<'_> {
    /// Whether all lanes of a warp have ended.
    pub(super) fn warp_ended(&self, warp: usize) -> bool {
        self.ended[warp] == lanes_there(self.run.block_threads(), warp as u32)
    }

    /// A lane that waited goes on.
    pub(super) fn goes_on(&mut self, lane: &mut Lane) {
        lane.state = State::Ready;
        self.ready[lane.number as usize / 32] |= 1 << lane.in_warp();
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
