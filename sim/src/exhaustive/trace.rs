//! A schedule that broke a rule, shortened and in words.

use super::model::{Model, Move, Stop};
use super::roles::Roles;
use super::search::{NO_PROGRESS, key};

/// Schedules that are tried to find a shorter one.
const MOST_TRIES: u32 = 20_000;

/// Where all schedules begin.
struct Start<'a> {
    words: &'a [u64],
    roles: Roles,
}

impl Start<'_> {
    fn go(&self, model: &mut Model) -> Result<(), Stop> {
        model.set_roles(&self.roles);
        model.restore(self.words);
        model.begin()
    }
}

/// Where a schedule leads.
#[derive(PartialEq, Eq)]
enum End {
    /// A rule is broken.
    Broken(String),
    /// A state.
    State(u128),
    /// It cannot be followed.
    Nowhere,
}

/// The schedule without what is not needed to break `rule`, as lines.
pub(super) fn shortest(model: &mut Model, begin: &[u64], path: Vec<Move>, rule: &str) -> Vec<String> {
    // Other schedules would teach the model more, and it would stop at other places.
    let start = Start { words: begin, roles: model.roles() };
    let end = follow(model, &start, &path);
    // A rule that is not broken by a move must be one about the state that it leads to.
    let usable = matches!(&end, End::Broken(found) if found == rule) || rule == NO_PROGRESS;
    let path = if usable { shorten(model, &start, path, &end) } else { path };
    describe(model, &start, &path)
}

fn follow(model: &mut Model, start: &Start<'_>, path: &[Move]) -> End {
    let mut result = start.go(model);
    for action in path {
        match result {
            Ok(()) if model.moves().contains(action) => result = model.perform(*action),
            _ => return End::Nowhere,
        }
    }
    match result {
        Err(Stop::Broken(rule)) => End::Broken(rule),
        Err(Stop::Restart) => End::Nowhere,
        Ok(()) => {
            let mut words = Vec::new();
            model.save(&mut words);
            End::State(key(&words))
        }
    }
}

/// Leaves out pieces, ever smaller ones, as long as it comes to the same.
fn shorten(model: &mut Model, start: &Start<'_>, mut path: Vec<Move>, end: &End) -> Vec<Move> {
    let mut tries = 0;
    let mut piece = path.len() / 2;
    while piece > 0 {
        let (mut at, before) = (0, path.len());
        while at + piece <= path.len() && tries < MOST_TRIES {
            tries += 1;
            let mut shorter = path.clone();
            shorter.drain(at..at + piece);
            if follow(model, start, &shorter) == *end {
                path = shorter;
            } else {
                at += 1 + piece / 16;
            }
        }
        // A turn of a loop that polls is some moves long: few enough to try every length.
        piece = match piece {
            1 if path.len() < before => 16.min(path.len()),
            1..=16 => piece - 1,
            _ => piece / 2,
        };
    }
    path
}

/// One line for what a warp does until another acts.
fn describe(model: &mut Model, start: &Start<'_>, path: &[Move]) -> Vec<String> {
    let mut result = start.go(model);
    let mut lines: Vec<(String, String)> = Vec::new();
    for action in path {
        if result.is_err() {
            break;
        }
        let (who, what) = model.describe(*action);
        match lines.last_mut() {
            Some((last, line)) if *last == who && line.len() + what.len() < 100 => {
                *line += &format!("; {what}")
            }
            _ => lines.push((who, what)),
        }
        result = model.perform(*action);
    }
    let mut lines: Vec<String> = lines.into_iter().map(|(who, what)| format!("{who:<10} {what}")).collect();
    lines.extend(model.describe_lanes());
    lines
}
