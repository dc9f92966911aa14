//! Lanes of a warp that meet by a mask (PTX ISA 9.0, sections 9.7.9.6 and 9.7.13).

use super::block::Common;
use super::lane::{Arrival, Lane, State};
use crate::error::{Check, Finding};
use crate::program::{Fold, Meeting, Shuffle};

impl Common<'_> {
    /// Refuses a mask that nobody may use.
    pub(super) fn arrives(&self, lane: &Lane, arrival: &Arrival) -> Result<(), Box<Finding>> {
        let first = lane.number - lane.in_warp();
        let there = u32::MAX >> (32 - (self.run.block_threads() - first).min(32));
        let ended = self.ended[(lane.number / 32) as usize];
        let (mask, own) = (arrival.mask, 1 << lane.in_warp());
        let what = match mask {
            _ if mask & own == 0 => format!("mask {mask:#010x} leaves out lane {} itself", lane.in_warp()),
            _ if mask & !there != 0 => {
                format!("mask {mask:#010x} names lanes that the warp has not: {there:#010x}")
            }
            _ if mask & ended != 0 => format!("mask {mask:#010x} names lanes that have ended: {ended:#010x}"),
            _ => return Ok(()),
        };
        Err(self.found(lane, Check::Mask, what))
    }
}

/// Lets the lanes go on that met, if all are there that `warp`'s lane `at` waits for. Says whether they were.
pub(super) fn settle(warp: &mut [Lane], at: usize) -> bool {
    let State::Meets(own) = warp[at].state else { return false };
    let mut values = [[0; 3]; 32];
    for lane in lanes(own.mask) {
        match warp[lane].state {
            State::Meets(other) if other.mask == own.mask && other.meeting == own.meeting => {
                values[lane] = other.values;
            }
            _ => return false,
        }
    }
    for lane in lanes(own.mask) {
        let State::Meets(arrival) = warp[lane].state else { continue };
        let (result, also) = result(&arrival, lane, &values);
        let one = &mut warp[lane];
        one.state = State::Ready;
        if let Some(to) = arrival.to {
            one.set(to, result);
        }
        if let Some(to) = arrival.also {
            one.set(to, also);
        }
    }
    true
}

fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

/// What a lane gets, of what all gave.
fn result(arrival: &Arrival, lane: usize, values: &[[u64; 3]; 32]) -> (u64, u64) {
    let mask = arrival.mask;
    let first = |lane: usize| values[lane][0];
    let set = |which: &dyn Fn(usize) -> bool| {
        lanes(mask).filter(|lane| which(*lane)).fold(0_u64, |set, lane| set | 1 << lane)
    };
    let truths = set(&|lane| first(lane) != 0);
    let all = u64::from(mask);
    match arrival.meeting {
        Meeting::Wait => (0, 0),
        Meeting::Ballot => (truths, 0),
        Meeting::Any => (u64::from(truths != 0), 0),
        Meeting::All => (u64::from(truths == all), 0),
        Meeting::Uniform => (u64::from(truths == all || truths == 0), 0),
        Meeting::MatchAny => (set(&|other| first(other) == first(lane)), 0),
        Meeting::MatchAll => {
            let same = set(&|other| first(other) == first(lane)) == all;
            (if same { all } else { 0 }, u64::from(same))
        }
        Meeting::Shuffle(how) => shuffled(how, mask, lane, values),
        Meeting::Reduce(fold) => {
            (lanes(mask).map(first).reduce(|a, b| folded(fold, a, b)).unwrap_or_default(), 0)
        }
        Meeting::Elect => {
            (u64::from(mask.trailing_zeros()), u64::from(mask.trailing_zeros() as usize == lane))
        }
    }
}

/// `b` names the lane, `c` has the segments' mask above what clamps it. A lane that does not take part gives nothing that
/// is defined: the own value.
fn shuffled(how: Shuffle, mask: u32, lane: usize, values: &[[u64; 3]; 32]) -> (u64, u64) {
    let [own, b, c] = values[lane];
    let (b, lane) = ((b & 31) as i32, lane as i32);
    let (clamp, segments) = ((c & 31) as i32, (c >> 8 & 31) as i32);
    let most = (lane & segments) | (clamp & !segments);
    let least = lane & segments;
    let (from, inside) = match how {
        Shuffle::Up => (lane - b, lane - b >= most),
        Shuffle::Down => (lane + b, lane + b <= most),
        Shuffle::Butterfly => (lane ^ b, lane ^ b <= most),
        Shuffle::Index => {
            let from = least | (b & !segments);
            (from, from <= most)
        }
    };
    if !inside {
        return (own, 0);
    }
    let taken = if mask >> from & 1 == 1 { values[from as usize][0] } else { own };
    (taken, 1)
}

fn folded(fold: Fold, a: u64, b: u64) -> u64 {
    let (x, y) = (a as u32, b as u32);
    let (s, t) = (x as i32, y as i32);
    u64::from(match fold {
        Fold::Add => x.wrapping_add(y),
        Fold::And => x & y,
        Fold::Or => x | y,
        Fold::Xor => x ^ y,
        Fold::Least { signed: true } => s.min(t) as u32,
        Fold::Least { signed: false } => x.min(y),
        Fold::Greatest { signed: true } => s.max(t) as u32,
        Fold::Greatest { signed: false } => x.max(y),
    })
}
