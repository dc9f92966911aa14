//! A lane that attaches and a host that gives the queue up: at least one of them must see the other.

use std::sync::atomic::{Ordering, fence};
use std::time::{Duration, Instant};

use anyhow::Context;
use warpbell::{Running, SharedMemory};
use warpbell_kernels::abi::{self, AttachCheckArgs, CheckResult, QueueHost, QueueRef, QueueState};
use warpbell_sim::launch_alone;
use zerocopy::IntoBytes;

use crate::run::Fixture;

/// Words of the host's page, a line of 128 bytes each: the queue's own, turns, then a word for each lane of a warp.
const PAGE: usize = 0;
const TURN: usize = 128;
const BEGUN: usize = 256;
const LOOKED: usize = 384;
const SEEN: usize = 512;
const ATTACHED: usize = 640;
const HAZARDS: usize = 768;
const QUARANTINE: usize = 896;
/// For each wait.
const PATIENCE: Duration = Duration::from_secs(60);
/// A wait that takes longer is late: has the kernel ended?
const LATE: Duration = Duration::from_millis(100);
/// How long the host lets the lane attach before it gives the queue up: at most.
const HEAD_START: Duration = Duration::from_millis(20);
/// Commands of a lane, and bits of their ids within the warp's.
const TOKEN_SHIFT: u32 = 2;

/// How many rounds came to what.
#[derive(Default)]
struct Rounds {
    /// The lane was let in, and the host has found its hazard slot taken.
    counted: u64,
    /// It found the queue lost.
    refused: u64,
    /// It was let in, and the host has found the slot free: it would let others have the memory that the lane works in.
    missed: u64,
    /// How long the host lets the lane attach now: less after it was let in, more after it was refused, so that both come
    /// to their words at about the same time.
    head_start: Duration,
}

impl Rounds {
    fn count(&mut self, attached: bool, free: bool) {
        *match (attached, free) {
            (true, true) => &mut self.missed,
            (true, false) => &mut self.counted,
            (false, _) => &mut self.refused,
        } += 1;
        self.head_start = match attached {
            true => self.head_start * 3 / 4,
            false => (self.head_start * 3 / 2 + Duration::from_nanos(200)).min(HEAD_START),
        };
    }
}

/// The host's part of all rounds.
struct Host {
    words: SharedMemory,
    running: Running,
}

impl Host {
    fn put(&self, at: usize, value: u32) {
        self.words.window().store_u32(at, value, Ordering::Release);
    }

    fn get(&self, at: usize) -> u32 {
        self.words.window().load_u32(at, Ordering::Acquire)
    }

    fn set_state(&self, state: u32) {
        self.put(PAGE + std::mem::offset_of!(QueueHost, state), state);
    }

    fn until(&self, at: usize, round: u32, what: &str) -> anyhow::Result<()> {
        let begin = Instant::now();
        while self.get(at) != round {
            anyhow::ensure!(begin.elapsed() < PATIENCE, "round {round}: the kernel did not {what}");
            let ended = begin.elapsed() > LATE && self.running.is_finished()?;
            anyhow::ensure!(!ended, "round {round}: the kernel has ended before it could {what}");
            std::thread::yield_now();
        }
        Ok(())
    }

    /// Until the lane has taken its hazard slot.
    fn until_taken(&self, round: u32) -> anyhow::Result<()> {
        let begin = Instant::now();
        while self.get(HAZARDS) == abi::HAZARD_FREE {
            anyhow::ensure!(begin.elapsed() < PATIENCE, "round {round}: the lane took no hazard slot");
            std::thread::yield_now();
        }
        Ok(())
    }

    /// The queue runs; it is given up while the lane attaches, and the hazard slot is looked at. In the `last` round the
    /// lane has all the time it needs, if it was not let in before: it may have been kept from running each time.
    fn round(&self, round: u32, last: u32, told: &mut Rounds) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.get(HAZARDS) == abi::HAZARD_FREE,
            "round {round}: the lane has left, and its hazard slot is not free"
        );
        self.set_state(abi::QUEUE_RUNNING);
        self.put(TURN, round);
        self.until(BEGUN, round, "begin")?;
        if round == last && told.counted + told.missed == 0 {
            self.until_taken(round)?;
        }
        let begin = Instant::now();
        while begin.elapsed() < told.head_start {
            std::hint::spin_loop();
        }
        self.set_state(abi::QUEUE_LOST);
        fence(Ordering::SeqCst);
        let free = self.get(HAZARDS) == abi::HAZARD_FREE;
        self.put(LOOKED, round);
        self.until(SEEN, round, "leave")?;
        told.count(self.get(ATTACHED) == round, free);
        Ok(())
    }
}

/// Rounds in which the host gives a queue up while a lane attaches to it, without the rest of recovery.
pub fn each_sees_the_other(fixture: &Fixture) -> anyhow::Result<String> {
    let target = fixture.target.open()?;
    let rounds = fixture.sized(256) as u32;
    let words = target.shared(4096)?;
    let own = target.memory(8192)?;
    let at = |offset: usize| words.address() + offset as u64;
    let host = QueueHost { quarantine: at(QUARANTINE), hazards: at(HAZARDS), ..QueueHost::new() };
    words.window().write(PAGE, host.as_bytes())?;
    // The reference, the queue's state, and the words of its commands.
    let (state, commands, result) = (1024, 4096, 6144);
    let queue = QueueRef {
        state: own.address() + state,
        words: own.address() + commands,
        host: at(PAGE),
        quarantine: at(QUARANTINE),
        local_bits: 5 + TOKEN_SHIFT,
        token_shift: TOKEN_SHIFT,
        warp_slots: 1,
        sharing: abi::SHARING_SHARED,
        ..QueueRef::new()
    };
    own.write(0, &[0; 8192])?;
    own.write(0, queue.as_bytes())?;
    anyhow::ensure!(size_of::<QueueState>() as u64 <= commands - state, "the state of a queue has no room");
    let args = AttachCheckArgs {
        queue: own.address(),
        attached: at(ATTACHED),
        turn: at(TURN),
        begun: at(BEGUN),
        looked: at(LOOKED),
        seen: at(SEEN),
        results: own.address() + result,
        timeout_ns: PATIENCE.as_nanos() as u64,
        rounds,
        ..AttachCheckArgs::new()
    };
    let launch = launch_alone(&target, "check_attach", &args)?.grid(1).block(32);
    let running = launch.keep((words.clone(), own.clone())).start()?;
    let (host, mut told) = (Host { words, running }, Rounds::default());
    let went = (1..=rounds).try_for_each(|round| host.round(round, rounds, &mut told));
    host.running.join().context("the kernel")?;
    went?;
    let mut result_of = CheckResult::new();
    own.read(result as usize, result_of.as_mut_bytes())?;
    let done = (result_of.done, result_of.failed);
    anyhow::ensure!(done == (u64::from(rounds), 0), "{} of {rounds} rounds were run", result_of.done);
    let Rounds { counted, refused, missed, .. } = told;
    anyhow::ensure!(counted > 0, "in none of {rounds} rounds a lane was let in: {refused} were refused");
    anyhow::ensure!(
        missed == 0,
        "in {missed} of {rounds} rounds a lane attached to a lost queue while the host found its hazard slot free"
    );
    Ok(format!("{rounds} rounds: {counted} times counted, {refused} refused, never let in and not counted"))
}
