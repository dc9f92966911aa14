//! What the target can do at best: for other figures to be judged by.

use std::mem::offset_of;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpbell::{KernelMemory, Launch, OpenTarget, SharedMemory};
use warpbell_hw::Window;
use warpbell_kernels::abi::{self, GaugeArgs, GaugeResult, Mailbox};
use zerocopy::IntoBytes;

use crate::report::Row;
use crate::run::Fixture;
use warpbell_sim::launch_alone;

/// Word and answer each have a line of their own.
const ANSWER: usize = 128;
/// The longest that a partner is waited for.
const PATIENCE: Duration = Duration::from_secs(60);

/// Memory of the kernel `gauge`.
pub struct Gauge {
    target: OpenTarget,
    own: KernelMemory,
    host: SharedMemory,
    mailbox: SharedMemory,
    results: KernelMemory,
}

/// Where word and answer lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Where {
    Target,
    Host,
}

const WARPS_MAX: u32 = 1024;

impl Gauge {
    pub fn new(fixture: &Fixture) -> anyhow::Result<Gauge> {
        let target = fixture.target.open()?;
        let mailbox = target.shared(size_of::<Mailbox>())?;
        mailbox.window().write(0, Mailbox::new().as_bytes())?;
        let results = target.memory(WARPS_MAX as usize * size_of::<GaugeResult>())?;
        Ok(Gauge { own: target.memory(4096)?, host: target.shared(4096)?, mailbox, results, target })
    }

    /// One warp for each block, with the words in the target's memory.
    pub fn launch(&self, mode: u32, rounds: u64, warps: u32) -> anyhow::Result<Launch> {
        self.launch_in(Where::Target, mode, rounds, warps)
    }

    fn launch_in(&self, place: Where, mode: u32, rounds: u64, warps: u32) -> anyhow::Result<Launch> {
        let word = match place {
            Where::Target => self.own.address(),
            Where::Host => self.host.address(),
        };
        let args = GaugeArgs {
            word,
            answer: word + ANSWER as u64,
            results: self.results.address(),
            mailbox: self.mailbox.address(),
            rounds,
            mode,
            ..GaugeArgs::new()
        };
        let launch = launch_alone(&self.target, "gauge", &args)?.grid(warps).block(32).cooperative(true);
        let kept = (self.own.clone(), self.host.clone(), self.results.clone());
        Ok(launch.mailbox(&self.mailbox)?.keep(kept))
    }

    fn results(&self, warps: u32) -> anyhow::Result<Vec<GaugeResult>> {
        let one = |warp: u32| {
            let mut result = GaugeResult::new();
            self.results.read(warp as usize * size_of::<GaugeResult>(), result.as_mut_bytes())?;
            Ok(result)
        };
        (0..warps).map(one).collect()
    }

    /// Nanoseconds of one round, on average over the warps, and lost exchanges for each.
    fn measure(&self, mode: u32, rounds: u64, warps: u32) -> anyhow::Result<(f64, f64)> {
        self.launch(mode, rounds, warps)?.start()?.join()?;
        let results = self.results(warps)?;
        let start = results.iter().map(|result| result.start_ns).min().unwrap_or(0);
        let end = results.iter().map(|result| result.end_ns).max().unwrap_or(0);
        let retries: u64 = results.iter().map(|result| result.retries).sum();
        let all = (rounds * u64::from(warps)) as f64;
        Ok((end.saturating_sub(start) as f64 / rounds as f64, retries as f64 / all))
    }
}

/// Loads, clocks and pauses of one lane.
pub fn alone(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let gauge = Gauge::new(fixture)?;
    let rounds = fixture.sized(200_000);
    [
        ("a pause", abi::GAUGE_PAUSE),
        ("a look at the clock", abi::GAUGE_CLOCK),
        ("a load of one word", abi::GAUGE_LOAD),
    ]
    .into_iter()
    .map(|(what, mode)| Ok(Row::new(what, gauge.measure(mode, rounds, 1)?.0, "ns")))
    .collect()
}

/// Compare-and-swap of one word by more and more warps, as a submission reserves.
pub fn contention(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let gauge = Gauge::new(fixture)?;
    // All at the same time: a multiprocessor of any GPU has room for 16 blocks.
    let most = gauge.target.gpu().map_or(4, |gpu| (16 * gpu.info().multiprocessors).min(128));
    let counts = [1, 2, 4, 8, 16, 32, 64, 128].into_iter().filter(|warps| *warps <= most);
    counts
        .map(|warps| {
            let rounds = fixture.sized(20_000);
            let (ns, retries) = gauge.measure(abi::GAUGE_CAS, rounds, warps)?;
            let rate = f64::from(warps) * 1e3 / ns;
            Ok(Row::new(format!("{warps} warps"), rate, "M/s")
                .note(format!("{retries:.2} lost exchanges each")))
        })
        .collect()
}

/// A word there and an answer back: between two blocks in the target's memory, and with a CPU thread in host memory.
pub fn round_trips(fixture: &Fixture) -> anyhow::Result<Vec<Row>> {
    let rounds = fixture.sized(20_000);
    let gauge = Gauge::new(fixture)?;
    gauge.launch(abi::GAUGE_BOTH, rounds, 2)?.start()?.join()?;
    let within = round_ns(&gauge.results(2)?[0]);
    let gauge = Gauge::new(fixture)?;
    let running = gauge.launch_in(Where::Host, abi::GAUGE_PING, rounds, 1)?.start()?;
    let answered = answer(gauge.host.window(), rounds);
    if answered.is_err() {
        running.stop();
    }
    running.join()?;
    answered?;
    let across = round_ns(&gauge.results(1)?[0]);
    Ok(vec![
        Row::new("two blocks, words in the target's memory", within, "ns"),
        Row::new("a block and a CPU thread, words in host memory", across, "ns"),
    ])
}

fn round_ns(result: &GaugeResult) -> f64 {
    result.end_ns.saturating_sub(result.start_ns) as f64 / result.rounds.max(1) as f64
}

/// The CPU's part of the exchange.
fn answer(words: &Window, rounds: u64) -> anyhow::Result<()> {
    for round in 1..=rounds as u32 {
        let begin = Instant::now();
        let mut looks = 0u32;
        while words.load_u32(0, Ordering::Acquire) != round {
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(256) {
                std::thread::yield_now();
                anyhow::ensure!(begin.elapsed() < PATIENCE, "round {round} does not come");
            }
        }
        words.store_u32(ANSWER, round, Ordering::Release);
    }
    Ok(())
}

/// The offset that a stop flag has to have: a kernel looks there.
const _: () = assert!(offset_of!(Mailbox, stop) == 8);
