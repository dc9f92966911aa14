//! Several stepped controllers under one kernel: one deterministic program in one virtual time.

use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, bail};
use warpbell::{AttachOptions, Attachment, DeviceName, OpenOptions, Ssd};
use warpbell_hw::Device;
use warpbell_kernels::cpu::{Counters, Hooks, Launch, State};
use warpbell_softctl::{SoftConfig, SoftDevice};

use crate::case::Draw;
use warpbell::test_hooks::TestSsd;

/// Rounds in which nobody acts before time leaps.
const QUIET_ROUNDS: u32 = 96;
/// What one round takes.
const ROUND: Duration = Duration::from_nanos(100);
/// How far time leaps while everybody waits.
const LEAP: Duration = Duration::from_micros(100);
/// Rounds after which a run is given up.
const MOST_ROUNDS: u64 = 1_000_000;

/// Whether a kernel does more than poll. A store that leaves its buffer is a sign of it, but for those of pollers: each
/// takes the lock of a queue by an exchange, and releases it by a store.
#[derive(Default)]
struct Activity {
    before: Counters,
    /// Stores that are still expected of pollers.
    owed: u64,
}

impl Activity {
    /// Since the last call.
    fn is_new(&mut self, now: Counters, locks: u64) -> bool {
        let before = std::mem::replace(&mut self.before, now);
        let exchanges = |counters: &Counters| counters.rmw - counters.rmw_failed;
        // An exchange counts before it fails.
        let owed = (self.owed + exchanges(&now)).saturating_sub(exchanges(&before));
        let arrived = now.drained - before.drained;
        self.owed = owed.saturating_sub(arrived).min(locks);
        arrived > owed || (before.sqes, before.cqes) != (now.sqes, now.cqes)
    }
}

/// Open SSDs, with queues for kernels.
pub struct Several {
    /// Their controllers.
    pub softs: Vec<Arc<SoftDevice>>,
    /// Their queues.
    pub queues: Vec<Attachment>,
    /// Themselves.
    pub ssds: Vec<Ssd>,
}

impl Several {
    /// One SSD for each pair of a controller and of what to attach.
    pub fn new(each: Vec<(SoftConfig, AttachOptions)>) -> anyhow::Result<Several> {
        crate::log::start();
        let (mut softs, mut queues, mut ssds) = (Vec::new(), Vec::new(), Vec::new());
        for (number, (config, options)) in each.into_iter().enumerate() {
            let config = config.serial(format!("S{number}"));
            let soft = SoftDevice::stepped(config).context("soft controller")?;
            let name = DeviceName::Soft("size=1m".to_owned());
            let open = OpenOptions::new().queues(Some(options.queues as u16));
            let ssd = Ssd::over_soft(name, soft.clone(), &open).context("open")?;
            queues.push(ssd.attach(&options).context("attach")?);
            softs.push(soft);
            ssds.push(ssd);
        }
        Ok(Several { softs, queues, ssds })
    }

    /// Their doorbells and their clock, for launches that want more hooks.
    pub fn hooks(&self) -> anyhow::Result<Hooks> {
        let mut hooks = Hooks::new();
        for soft in &self.softs {
            let doorbells = soft.doorbells();
            let page = doorbells.window();
            let sink = doorbells.sink().context("a stepped controller has a doorbell sink")?;
            let clock = soft.clone();
            let now = move || clock.clock().now().as_nanos() as u64;
            hooks = hooks.doorbell_sink(page.as_ptr() as u64, page.len(), sink).clock(now);
        }
        Ok(hooks)
    }

    /// Runs a kernel to its end under the schedule that the seed draws, with stores that are held back. `host` is called
    /// before each round with its number.
    pub fn run(&self, launch: Launch, seed: u64, mut host: impl FnMut(u64)) -> anyhow::Result<Counters> {
        let mut worker = launch.seed(seed).store_buffer(8).worker()?;
        let mut draw = Draw::new(seed);
        let (mut quiet, mut activity) = (0, Activity::default());
        let locks = self.queues.iter().map(|queues| queues.pairs().len() as u64).sum();
        for round in 0..MOST_ROUNDS {
            host(round);
            let turns = if quiet > QUIET_ROUNDS { 256 } else { 1 + draw.below(6) as u32 };
            let idle = match worker.step(turns) {
                State::Running => false,
                State::Idle => true,
                State::Done => return Ok(worker.counters()),
                State::Deadlock(lanes) => bail!("seed {seed}: deadlock: {lanes}"),
                State::Fault(fault) => bail!("seed {seed}: {fault}"),
            };
            let mut acted = false;
            for soft in &self.softs {
                let steps = draw.below(5).max(u64::from(idle));
                acted |= (0..steps).fold(false, |acted, _| acted | soft.step());
            }
            acted |= activity.is_new(worker.counters(), locks);
            quiet = if acted { 0 } else { quiet + u32::from(idle) };
            let by = if idle && quiet > QUIET_ROUNDS { LEAP } else { ROUND };
            self.softs.iter().for_each(|soft| soft.advance(by));
        }
        bail!("seed {seed}: not done after {MOST_ROUNDS} rounds")
    }

    /// The host gives all queues up, if it is time.
    pub fn lose(&self, now: bool) {
        for queues in self.queues.iter().filter(|_| now) {
            (0..queues.pairs().len()).for_each(|index| queues.declare_lost(index));
        }
    }

    /// What the controllers found wrong with the client.
    pub fn violations(&self) -> Vec<String> {
        let of = |soft: &Arc<SoftDevice>| soft.violations().into_iter().map(|found| format!("{found:?}"));
        self.softs.iter().flat_map(of).collect()
    }
}
