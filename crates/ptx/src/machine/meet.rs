//! Lanes of a warp that meet by a mask (PTX ISA 9.0, sections 9.7.9.6 and 9.7.13).

use super::block::{Block, Common};
use super::lane::{Arrival, Lane, State};
use crate::error::{Check, Finding};
use crate::program::{Fold, Meeting, Shuffle};

impl Common<'_> {
    /// Refuses a mask that leaves the lane itself out.
    pub(super) fn arrives(&self, lane: &Lane, arrival: &Arrival) -> Result<(), Box<Finding>> {
        let mask = arrival.mask;
        if mask >> lane.in_warp() & 1 == 1 {
            return Ok(());
        }
        let what = format!("mask {mask:#010x} leaves out lane {} itself", lane.in_warp());
        Err(self.found(lane, Check::Mask, what))
    }
}

impl Block<'_> {
    /// Lanes of this warp that wait for each other go on, if all of them are there.
    pub(super) fn settle(&mut self, warp: usize, at: usize) -> Result<(), Box<Finding>> {
        let range = self.warp(warp);
        let begin = range.start;
        let State::Meets(arrival) = self.lanes[at].state else { return Ok(()) };
        if arrival.mask & self.common.ready[warp] != 0 {
            return Ok(());
        }
        let met = match settle(&mut self.lanes[range], at - begin) {
            Ok(met) => met,
            Err((lane, from)) => {
                let what = format!(
                    "shfl.sync from lane {from}, which does not take part: mask {:#010x}, lanes that ended {:#010x}",
                    arrival.mask, self.common.ended[warp]
                );
                return Err(self.common.found(&self.lanes[begin + lane], Check::Mask, what));
            }
        };
        lanes(met).for_each(|lane| self.common.goes_on(&mut self.lanes[begin + lane]));
        if met != 0 && arrival.meeting == Meeting::Wait {
            let lanes = lanes(met).map(|lane| begin + lane);
            lanes.clone().for_each(|lane| self.common.meets(&mut self.lanes[lane].late));
            self.watch_meeting(&lanes.map(|lane| lane as u32).collect::<Vec<u32>>());
        }
        Ok(())
    }
}

/// Gives the lanes their results that met, if all are there that `warp`'s lane `at` waits for: those of its mask that the warp
/// has and that have not ended. Says which; none where some are missing. An error is a lane whose `shfl` takes from one that
/// does not take part, and that one.
fn settle(warp: &mut [Lane], at: usize) -> Result<u32, (usize, usize)> {
    let State::Meets(own) = warp[at].state else { return Ok(0) };
    let (mut values, mut met) = ([[0; 3]; 32], 0);
    for lane in lanes(own.mask).take_while(|lane| *lane < warp.len()) {
        match warp[lane].state {
            State::Meets(other) if other.mask == own.mask && other.meeting == own.meeting => {
                values[lane] = other.values;
                met |= 1 << lane;
            }
            State::Ended => {}
            _ => return Ok(0),
        }
    }
    for lane in lanes(met) {
        let State::Meets(arrival) = warp[lane].state else { continue };
        let (result, also) = result(&arrival, met, lane, &values)?;
        let one = &mut warp[lane];
        if let Some(to) = arrival.to {
            one.set(to, result);
        }
        if let Some(to) = arrival.also {
            one.set(to, also);
        }
    }
    Ok(met)
}

fn lanes(mask: u32) -> impl Iterator<Item = usize> + Clone {
    (0..32).filter(move |lane| mask >> lane & 1 == 1)
}

/// The lanes of `mask` of which something is true.
fn set(mask: u32, which: impl Fn(usize) -> bool) -> u64 {
    lanes(mask).filter(|lane| which(*lane)).fold(0, |set, lane| set | 1 << lane)
}

/// What a lane gets, of what the lanes of `mask` gave.
fn result(
    arrival: &Arrival,
    mask: u32,
    lane: usize,
    values: &[[u64; 3]; 32],
) -> Result<(u64, u64), (usize, usize)> {
    let first = |lane: usize| values[lane][0];
    let truths = || set(mask, |lane| first(lane) != 0);
    let same = || set(mask, |other| first(other) == first(lane));
    let all = u64::from(mask);
    Ok(match arrival.meeting {
        Meeting::Wait => (0, 0),
        Meeting::Ballot => (truths(), 0),
        Meeting::Any => (u64::from(truths() != 0), 0),
        Meeting::All => (u64::from(truths() == all), 0),
        Meeting::Uniform => (u64::from([all, 0].contains(&truths())), 0),
        Meeting::MatchAny => (same(), 0),
        Meeting::MatchAll => {
            let same = same() == all;
            (if same { all } else { 0 }, u64::from(same))
        }
        Meeting::Shuffle(how) => shuffled(how, mask, lane, values).map_err(|from| (lane, from))?,
        Meeting::Reduce(fold) => {
            (lanes(mask).map(first).reduce(|a, b| folded(fold, a, b)).unwrap_or_default(), 0)
        }
        Meeting::Elect => {
            (u64::from(mask.trailing_zeros()), u64::from(mask.trailing_zeros() as usize == lane))
        }
    })
}

/// `b` names the lane, `c` has the segments' mask above what clamps it. An error is the lane that it names, where that does
/// not take part: what it gives is not defined.
fn shuffled(how: Shuffle, mask: u32, lane: usize, values: &[[u64; 3]; 32]) -> Result<(u64, u64), usize> {
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
    match from as usize {
        _ if !inside => Ok((own, 0)),
        from if mask >> from & 1 == 0 => Err(from),
        from => Ok((values[from][0], 1)),
    }
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
