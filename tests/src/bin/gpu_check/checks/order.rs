//! Whether data that others write is there when what announces it is.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use anyhow::Context;
use warpbell::{KernelMemory, OpenTarget, Running, SharedMemory};
use warpbell_kernels::abi::{CheckResult, StaleCheckArgs};
use warpbell_sim::launch_alone;
use zerocopy::IntoBytes;

use crate::run::Fixture;

/// 64-bit words of data: some pages.
const WORDS: usize = 4096;
/// Turn, answer and stop have a line of their own each.
const SEEN: usize = 128;
const STOP: usize = 256;
/// A word of each lane.
const ANSWER: usize = 512;
const LANES: usize = 32;
/// For a round to begin, or to be answered.
const PATIENCE: Duration = Duration::from_secs(60);
/// A round that takes longer is late: has the kernel ended?
const LATE: Duration = Duration::from_millis(100);

/// Where the data of the rounds lies, and who writes it there.
#[derive(Clone)]
enum Place {
    /// Host memory, by the host.
    Host(SharedMemory),
    /// Memory of the target: on a GPU by its copy engine, whose end the host waits for.
    Target(KernelMemory),
}

impl Place {
    fn address(&self) -> u64 {
        match self {
            Place::Host(memory) => memory.address(),
            Place::Target(memory) => memory.address(),
        }
    }

    fn write(&self, round: u32) -> anyhow::Result<()> {
        let words = vec![u64::from(round); WORDS];
        match self {
            Place::Host(memory) => memory.window().write(0, words.as_bytes())?,
            Place::Target(memory) => memory.write(0, words.as_bytes())?,
        }
        Ok(())
    }
}

/// Words that were not there in `rounds` rounds. `late`: the data comes after what announces it, as it may where two
/// memories are and nobody flushes: then each word must be found missing.
fn stale(target: &OpenTarget, place: &Place, rounds: u32, late: bool) -> anyhow::Result<u64> {
    let words = target.shared(4096)?;
    let results = target.memory(size_of::<CheckResult>())?;
    let at = |offset: usize| words.address() + offset as u64;
    let args = StaleCheckArgs {
        data: place.address(),
        answer: at(ANSWER),
        turn: at(0),
        seen: at(SEEN),
        stop: at(STOP),
        results: results.address(),
        timeout_ns: PATIENCE.as_nanos() as u64,
        words: WORDS as u32,
        rounds,
        ..StaleCheckArgs::new()
    };
    place.write(0)?;
    let launch = launch_alone(target, "check_stale", &args)?.grid(1).block(32);
    let running = launch.keep((words.clone(), results.clone(), place.clone())).start()?;
    let turns = (1..=rounds).try_for_each(|round| turn(&running, &words, place, round, late));
    words.window().store_u32(STOP, 1, Ordering::Release);
    running.join()?;
    turns?;
    let mut result = CheckResult::new();
    results.read(0, result.as_mut_bytes())?;
    anyhow::ensure!(
        (result.done, result.failed) == (u64::from(rounds), 0),
        "{} of {rounds} rounds were looked at",
        result.done
    );
    Ok(result.wrong)
}

fn turn(
    running: &Running,
    words: &SharedMemory,
    place: &Place,
    round: u32,
    late: bool,
) -> anyhow::Result<()> {
    if !late {
        place.write(round)?;
    }
    words.window().store_u32(0, round, Ordering::Release);
    let begin = Instant::now();
    while words.window().load_u32(SEEN, Ordering::Acquire) != round {
        anyhow::ensure!(begin.elapsed() < PATIENCE, "round {round} was not answered within {PATIENCE:?}");
        let ended = begin.elapsed() > LATE && running.is_finished()?;
        anyhow::ensure!(!ended, "round {round} was not answered, and the kernel has ended");
        std::thread::yield_now();
    }
    // What the kernel wrote before it said so.
    let answers = (0..LANES).map(|lane| words.window().load_u64(ANSWER + lane * 8, Ordering::Relaxed));
    let old = answers.filter(|answer| *answer as u32 != round).count();
    anyhow::ensure!(old == 0, "round {round}: the answers of {old} of {LANES} lanes are older than it");
    if late { place.write(round) } else { Ok(()) }
}

/// Host memory, and the target's own, each with a host that keeps the order, and with one that does not.
pub fn nothing_is_stale(fixture: &Fixture) -> anyhow::Result<String> {
    let target = fixture.target.open()?;
    let rounds = fixture.sized(400) as u32;
    let bytes = WORDS * size_of::<u64>();
    let own = if fixture.on_gpu() { "GPU memory, by its copy engine" } else { "the target's memory" };
    let places =
        [("host memory", Place::Host(target.shared(bytes)?)), (own, Place::Target(target.memory(bytes)?))];
    let mut told = Vec::new();
    for (name, place) in places {
        let found = stale(&target, &place, rounds, false).with_context(|| format!("data in {name}"))?;
        anyhow::ensure!(found == 0, "data in {name}: {found} stale words in {rounds} rounds of {WORDS}");
        let (few, all) = (rounds.min(8), u64::from(rounds.min(8)) * WORDS as u64);
        let found = stale(&target, &place, few, true).with_context(|| format!("late data in {name}"))?;
        anyhow::ensure!(found == all, "late data in {name}: {found} of {all} words were found to be stale");
        told.push(format!(
            "{name}: no stale word in {rounds} rounds of {WORDS}, each of {all} late ones seen"
        ));
    }
    Ok(told.join("; "))
}
