//! `kill -9` at random points of `warpbell bench`: the next start works, and nothing is left of the one that was killed.
//!
//! `WARPBELL_KILLS` says how many, `WARPBELL_KILL_SEED` the seed; both are printed.

mod aftermath;
mod victim;

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::Context;
use warpbell_sim::Draw;

use self::aftermath::Aftermath;
use self::victim::{End, Phase, Timing, Victim};
use crate::fixture;

fn one_of<T: Copy>(draw: &mut Draw, all: &[T]) -> T {
    all[draw.below(all.len() as u64) as usize]
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// What a hunt found, by phase.
#[derive(Default)]
struct Tally {
    kills: BTreeMap<Phase, u64>,
    ended: u64,
}

impl Tally {
    fn killed(&self) -> u64 {
        self.kills.values().sum()
    }

    /// A phase that no kill has hit.
    fn missed(&self) -> Option<Phase> {
        Phase::ALL.into_iter().find(|phase| !self.kills.contains_key(phase))
    }

    fn print(&self, seed: u64, took: Duration, ways: &[&str]) {
        let phases: Vec<String> =
            self.kills.iter().map(|(phase, count)| format!("{phase:?} {count}")).collect();
        let (killed, ended) = (self.killed(), self.ended);
        println!(
            "seed {seed}, {}: {killed} kills in {:.0} s ({}); {ended} were faster than their kill",
            ways.join(" and "),
            took.as_secs_f64(),
            phases.join(", ")
        );
    }
}

/// After how many kills `identify` is run besides a bench: each start costs two resets of the function.
const IDENTIFY: u64 = 4;

/// One bench that is killed, or was faster; then what is left, and whether the next start works.
fn round(victim: &Victim, point: (Phase, Duration), after: &Aftermath, killed: u64) -> anyhow::Result<End> {
    let (end, log) = victim.run(point)?;
    let told = || format!("its log:\n{}", log.join("\n"));
    after.nothing_is_left().with_context(told)?;
    after.next_start_works(killed.is_multiple_of(IDENTIFY)).with_context(told)?;
    Ok(end)
}

/// From so many kills on each phase is to be hit. Which one a kill hits depends on what else the machine does, so those
/// that were missed are aimed at again, by at most as many kills once more.
const EVERY_PHASE: u64 = 100;

/// Kills `count` benches over `ways` to the IOMMU.
fn hunt(count: u64, ways: &[&str]) {
    let (seed, count, begin) =
        (variable("WARPBELL_KILL_SEED", 1), variable("WARPBELL_KILLS", count), Instant::now());
    let bdf = fixture::bind(0);
    let timing = Timing::of(&Victim::plain(bdf)).unwrap_or_else(|error| panic!("{error:#}"));
    println!("seed {seed}, {count} kills to come; a bench that is left alone: {timing:?}");
    let after = Aftermath::from_now(bdf);
    let (mut draw, mut tally) = (Draw::new(seed), Tally::default());
    while tally.killed() < count
        || count >= EVERY_PHASE && tally.killed() < 2 * count && tally.missed().is_some()
    {
        let victim = Victim::draw(bdf, ways, &mut draw);
        let drawn = one_of(&mut draw, &Phase::ALL);
        let phase = tally.missed().filter(|_| tally.killed() >= count).unwrap_or(drawn);
        let delay = draw.below(timing.length(phase).as_nanos() as u64 + 1);
        let point = (phase, Duration::from_nanos(delay));
        let end = round(&victim, point, &after, tally.killed());
        match end.unwrap_or_else(|error| {
            panic!("seed {seed}, kill {} at {point:?} of {victim}: {error:#}", tally.killed())
        }) {
            End::Killed(phase) => *tally.kills.entry(phase).or_default() += 1,
            End::Finished => tally.ended += 1,
        }
        assert!(tally.ended <= 10 + count, "benches are faster than the kills: {timing:?}");
    }
    after.memory_is_there().unwrap_or_else(|error| panic!("seed {seed}: {error:#}"));
    tally.print(seed, begin.elapsed(), ways);
    let missed = tally.missed();
    assert!(count < EVERY_PHASE || missed.is_none(), "no kill hit {missed:?}");
}

#[test]
fn a_bench_that_is_killed_leaves_nothing_behind() {
    if fixture::is("kills") {
        hunt(100, &["type1"]);
    }
}

#[test]
fn whichever_way_it_took_to_the_iommu() {
    if fixture::is("kills_own") {
        hunt(40, &["type1", "iommufd"]);
    }
}
