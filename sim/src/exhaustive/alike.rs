//! Whether warps are as alike as a [`Symmetry`](super::Symmetry) says: a schedule in which warps have changed places
//! must lead to the state in which they have.

use super::model::{Model, Move, Stop};
use crate::case::Draw;

/// Moves of a schedule.
const MOVES: u64 = 400;
/// Moves after it, of states whose stacks differ.
const MOVES_MORE: u64 = 100;

/// Follows `walks` schedules at random, and each of them again with every renaming of the warps. Returns how many
/// states were compared, or what differs.
pub(super) fn check(model: &mut Model, walks: u64) -> Result<usize, String> {
    let mut begin = Vec::new();
    model.save(&mut begin);
    let mut compared = 0;
    for seed in 0..walks {
        // Again for as long as it teaches the model something about who writes where.
        let mut known = model.roles();
        let (moves, renamed) = loop {
            let walked = walk(model, &begin, seed);
            match walked {
                Ok(walked) if known == model.roles() => break walked,
                Err(Stop::Broken(rule)) => return Err(rule),
                _ => known = model.roles(),
            }
        };
        for (by, expected) in renamed.iter().enumerate() {
            let found = repeat(model, &begin, &moves, by)?;
            go_on_alike(model, found, expected.clone(), seed)
                .map_err(|why| format!("schedule {seed}, renaming {by}: {why}"))?;
            compared += 1;
        }
    }
    Ok(compared)
}

/// Whether two states are the same, and stay so on one schedule. What lies on their stacks may differ in what is left
/// there of earlier calls.
fn go_on_alike(model: &mut Model, mut one: Vec<u64>, mut other: Vec<u64>, seed: u64) -> Result<(), String> {
    let mut draw = Draw::new(!seed);
    for step in 0..MOVES_MORE {
        if model.without_places(&one) != model.without_places(&other) {
            return Err(format!("after {step} moves: {one:x?}, not {other:x?}"));
        }
        if one == other {
            return Ok(());
        }
        model.restore(&one);
        let moves = model.moves();
        let Some(action) = moves.get(draw.below(moves.len().max(1) as u64) as usize) else { return Ok(()) };
        for state in [&mut one, &mut other] {
            model.restore(state);
            if !model.moves().contains(action) || model.perform(*action).is_err() {
                return Err(format!("{action:?} cannot happen after {step} moves"));
            }
            state.clear();
            model.save(state);
        }
    }
    Ok(())
}

/// A move, with the number of the command that it completes.
type Numbered = (Move, Option<u32>);

fn walk(model: &mut Model, begin: &[u64], seed: u64) -> Result<(Vec<Numbered>, Vec<Vec<u64>>), Stop> {
    let mut draw = Draw::new(seed);
    let mut walked = Vec::new();
    model.restore(begin);
    model.begin()?;
    for _ in 0..draw.below(MOVES) {
        let moves = model.moves();
        let Some(action) = moves.get(draw.below(moves.len().max(1) as u64) as usize) else { break };
        walked.push((*action, model.completes(*action)));
        model.perform(*action)?;
    }
    Ok((walked, model.renamed_states()))
}

fn repeat(model: &mut Model, begin: &[u64], moves: &[Numbered], by: usize) -> Result<Vec<u64>, String> {
    model.restore(begin);
    let mut result = model.begin();
    for (action, number) in moves {
        let renamed = model.renamed_move(by, *action, *number);
        if result.is_err() || !model.moves().contains(&renamed) {
            return Err(format!(
                "renaming {by}: {renamed:?} in place of {action:?} cannot happen ({result:?})"
            ));
        }
        result = model.perform(renamed);
    }
    let mut words = Vec::new();
    model.save(&mut words);
    Ok(words)
}
