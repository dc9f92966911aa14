//! Every state that a [`Model`] can reach, each visited once.
//!
//! A depth-first search by Tarjan: states that lead back to each other, as those of a warp that polls do, form a
//! component. A component that nothing leads out of, and that is not an end in which everybody has finished, is a
//! wait that nobody will ever end. States are told apart by 128 bits of hash; nothing else of them is kept.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::hash::{BuildHasherDefault, Hasher};
use std::time::{Duration, Instant};

use super::model::{Model, Move, Stop};
use super::trace::shortest;

/// How far a search may go.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// States.
    pub states: usize,
    /// Time.
    pub time: Duration,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match &self.verdict {
            Verdict::Exhausted => "exhausted",
            Verdict::NotExhausted => "NOT exhausted",
            Verdict::Broken { .. } => "broken",
        };
        let Report { states, moves, ends, depth, time, .. } = self;
        write!(f, "{states} states, {moves} moves, {ends} ends, depth {depth}, {time:.1?}: {verdict}")
    }
}

/// How a search ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Every reachable state was seen, and is right.
    Exhausted,
    /// The budget was used up: this shows nothing about what was not seen.
    NotExhausted,
    /// A schedule that breaks a rule.
    Broken {
        /// The rule.
        rule: String,
        /// What happened, step by step.
        trace: Vec<String>,
    },
}

/// What a search did.
#[derive(Clone, Debug)]
pub struct Report {
    /// How it ended.
    pub verdict: Verdict,
    /// Different states.
    pub states: usize,
    /// Moves tried, in the last attempt.
    pub moves: u64,
    /// States in which everybody has finished.
    pub ends: usize,
    /// The longest schedule.
    pub depth: usize,
    /// Attempts that were started again, with better knowledge of who writes where.
    pub restarts: u32,
    /// What it took, all attempts together.
    pub time: Duration,
}

/// Hash keys are hashes already.
#[derive(Default)]
struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }
    fn write(&mut self, _: &[u8]) {
        unreachable!("keys are u128")
    }
    fn write_u128(&mut self, key: u128) {
        self.0 = key as u64;
    }
}

type Visited = HashMap<u128, u32, BuildHasherDefault<Ready>>;

/// What is said of a wait that nobody will ever end.
pub(super) const NO_PROGRESS: &str = "no progress: whatever happens from here on, the waiting never ends";

/// Schedules that are followed before the search, and moves of each.
const WALKS: u32 = 100;
const WALK_MOVES: u32 = 2000;

/// In `Visited`: the component of this state is complete.
const CLOSED: u32 = u32::MAX;

/// 128 bits by which a state is known.
pub(super) fn key(words: &[u64]) -> u128 {
    const K: [u64; 4] =
        [0x9e37_79b9_7f4a_7c15, 0xd6e8_feb8_6659_fd93, 0xa076_1d64_78bd_642f, 0xe703_7ed1_a0b4_28db];
    let fold = |x: u64, y: u64| {
        let product = u128::from(x) * u128::from(y);
        product as u64 ^ (product >> 64) as u64
    };
    let (mut a, mut b) = (K[0] ^ words.len() as u64, K[1]);
    for pair in words.chunks(2) {
        let (x, y) = (pair[0], pair.get(1).copied().unwrap_or(0));
        a = fold(x ^ K[2] ^ a, y ^ K[0]);
        b = fold(x ^ K[1], y ^ K[3] ^ b);
    }
    u128::from(fold(a ^ K[0], b ^ K[1])) << 64 | u128::from(fold(a ^ K[3], b.rotate_left(32) ^ K[2]))
}

struct Frame {
    words: Vec<u64>,
    key: u128,
    by: Option<Move>,
    moves: Vec<Move>,
    next: usize,
    index: u32,
    low: u32,
    /// Something leads out of this component.
    leaves: bool,
}

/// A search of one model. `judge` looks at each state in which everybody has finished.
pub struct Search<'a> {
    model: &'a mut Model,
    judge: &'a mut dyn FnMut(&Model) -> Result<(), String>,
    budget: Budget,
    start: Instant,
    visited: Visited,
    frames: Vec<Frame>,
    open: Vec<u128>,
    count: u32,
    /// The state in which the model was marked or restored last.
    at: u32,
    spare: Vec<Vec<u64>>,
    report: Report,
}

impl<'a> Search<'a> {
    /// Tries everything that `model` can do, from where it stands.
    pub fn run(
        model: &'a mut Model,
        budget: Budget,
        judge: &'a mut dyn FnMut(&Model) -> Result<(), String>,
    ) -> Report {
        let report = Report {
            verdict: Verdict::NotExhausted,
            states: 0,
            moves: 0,
            ends: 0,
            depth: 0,
            restarts: 0,
            time: Duration::ZERO,
        };
        let mut search = Search {
            model,
            judge,
            budget,
            start: Instant::now(),
            visited: Visited::default(),
            frames: Vec::new(),
            open: Vec::new(),
            count: 0,
            at: CLOSED,
            spare: Vec::new(),
            report,
        };
        let mut begin = Vec::new();
        search.model.save(&mut begin);
        search.learn(&begin);
        let verdict = loop {
            search.model.restore(&begin);
            match search.attempt() {
                Ok(verdict) => break verdict,
                Err(Stop::Broken(rule)) => {
                    let path = search.path();
                    let trace = shortest(search.model, &begin, path, &rule);
                    break Verdict::Broken { rule, trace };
                }
                Err(Stop::Restart) => search.forget(),
            }
        };
        Report { verdict, states: search.visited.len(), time: search.start.elapsed(), ..search.report }
    }

    /// Follows some schedules at random, so that who writes where is known before it costs a whole attempt.
    fn learn(&mut self, begin: &[u64]) {
        let mut random = 0x9e37_79b9_7f4a_7c15_u64;
        for _ in 0..WALKS {
            self.model.restore(begin);
            let mut result = self.model.begin();
            for _ in 0..WALK_MOVES {
                let moves = self.model.moves();
                if moves.is_empty() || matches!(result, Err(Stop::Broken(_))) {
                    break;
                }
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                result = self.model.perform(moves[(random >> 33) as usize % moves.len()]);
            }
        }
    }

    fn forget(&mut self) {
        self.visited.clear();
        self.frames.clear();
        self.open.clear();
        self.count = 0;
        self.at = CLOSED;
        self.report =
            Report { moves: 0, ends: 0, depth: 0, restarts: self.report.restarts + 1, ..self.report.clone() };
    }

    /// Goes through everything once.
    fn attempt(&mut self) -> Result<Verdict, Stop> {
        self.model.begin()?;
        self.arrive(None)?;
        while let Some(frame) = self.frames.last_mut() {
            let Some(&action) = frame.moves.get(frame.next) else {
                self.leave()?;
                continue;
            };
            frame.next += 1;
            // Where it was marked or restored last in this very state, only what moved since has to be put back.
            if self.at == frame.index {
                self.model.restore_moved(&frame.words);
            } else {
                self.model.restore(&frame.words);
            }
            self.at = frame.index;
            self.report.moves += 1;
            self.model.perform(action)?;
            self.arrive(Some(action))?;
            let spent = self.report.moves.is_multiple_of(4096) && self.start.elapsed() > self.budget.time;
            if spent || self.visited.len() >= self.budget.states {
                return Ok(Verdict::NotExhausted);
            }
        }
        Ok(Verdict::Exhausted)
    }

    /// The model has come to a state: a new one is to be gone through next.
    fn arrive(&mut self, by: Option<Move>) -> Result<(), Stop> {
        let mut words = self.spare.pop().unwrap_or_default();
        words.clear();
        self.model.save(&mut words);
        let key = self.model.key_of(&words);
        match self.visited.entry(key) {
            Entry::Occupied(known) => {
                self.spare.push(words);
                if let Some(frame) = self.frames.last_mut() {
                    match *known.get() {
                        CLOSED => frame.leaves = true,
                        index => frame.low = frame.low.min(index),
                    }
                }
                return Ok(());
            }
            Entry::Vacant(new) => new.insert(self.count),
        };
        self.model.mark();
        self.at = self.count;
        let moves = self.model.moves();
        let frame =
            Frame { words, key, by, moves, next: 0, index: self.count, low: self.count, leaves: false };
        if frame.moves.is_empty() {
            let judged = self.judge_end();
            self.frames.push(frame);
            judged?;
        } else {
            self.frames.push(frame);
        }
        self.open.push(key);
        self.count += 1;
        self.report.depth = self.report.depth.max(self.frames.len());
        Ok(())
    }

    fn judge_end(&mut self) -> Result<(), Stop> {
        if !self.model.finished() {
            return Err(Stop::Broken(NO_PROGRESS.into()));
        }
        self.report.ends += 1;
        (self.judge)(self.model).map_err(Stop::Broken)
    }

    /// Everything that starts at the last state has been tried.
    fn leave(&mut self) -> Result<(), Stop> {
        let Some(frame) = self.frames.last() else { return Ok(()) };
        let complete = frame.low == frame.index;
        if complete && !frame.leaves && !frame.moves.is_empty() {
            return Err(Stop::Broken(NO_PROGRESS.into()));
        }
        let Some(frame) = self.frames.pop() else { return Ok(()) };
        if complete {
            while let Some(key) = self.open.pop() {
                self.visited.insert(key, CLOSED);
                if key == frame.key {
                    break;
                }
            }
        }
        if let Some(parent) = self.frames.last_mut() {
            parent.leaves |= complete || frame.leaves;
            if !complete {
                parent.low = parent.low.min(frame.low);
            }
        }
        self.spare.push(frame.words);
        Ok(())
    }

    /// The schedule that led to what was found.
    fn path(&self) -> Vec<Move> {
        let mut path: Vec<Move> = self.frames.iter().filter_map(|frame| frame.by).collect();
        // The last move was the one that broke a rule, if it did not come as far as a state of its own.
        path.extend(
            self.frames.last().and_then(|frame| frame.moves.get(frame.next.checked_sub(1)?).copied()),
        );
        path
    }
}
