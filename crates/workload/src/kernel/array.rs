//! Kernels `bench_array_*`: words of an array over a page cache, beside plain memory.

use serde::{Deserialize, Serialize};
use warpbell::{Buffer, Error, OpenTarget, PageCache, PageCacheReport, PageCacheSpec};
use warpbell_hw::Lba;
use warpbell_kernels::abi::{self, BenchArgs, BenchArrayArgs};
use warpbell_kernels::cpu::Counters;

use super::{KernelRunner, LaunchMemory, Work};
use crate::array::Array;
use crate::control::Control;
use crate::error::RunError;
use crate::job::{CacheShape, Job, LANES, operation};
use crate::launch::{Kernel, Launched};
use crate::options::Policy;
use crate::outcome::Outcome;

/// What a page cache did, and what an access cost beside a plain one. Of the measured accesses alone: not of filling the
/// cache before them, nor of the flush behind them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ArrayReport {
    /// Pages that were there, once for each warp and access of its lanes.
    pub hits: u64,
    /// Pages that were read.
    pub misses: u64,
    /// Pages that were written to make room.
    pub write_backs: u64,
    /// Hits of all lookups.
    pub hit_rate: f64,
    /// Lookups of an access: below one where lanes share a page.
    pub lookups_per_access: f64,
    /// Commands of an access.
    pub commands_per_access: f64,
    /// What an access through the cache cost.
    pub cached: AccessCost,
    /// What one of the same number of accesses to plain memory cost, in the same run.
    pub plain: AccessCost,
}

/// What an access cost on average; what nobody counts, as on a GPU, is nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct AccessCost {
    /// How many there were.
    pub accesses: u64,
    /// The time of all of them, shared out: in virtual time, what the SSD took.
    pub ns_per_access: f64,
    /// CPU time of the kernels.
    pub cpu_ns_per_access: Option<f64>,
    /// Atomic read-modify-writes.
    pub rmw_per_access: Option<f64>,
    /// Fences.
    pub fences_per_access: Option<f64>,
    /// Loads of words that warps share, and of rings; the array's own data is not among them.
    pub loads_per_access: Option<f64>,
    /// Ballots, shuffles and barriers of a warp.
    pub collectives_per_access: Option<f64>,
}

impl AccessCost {
    fn of(accesses: u64, runtime_ns: u64, launched: &Launched) -> AccessCost {
        let each = |sum: u64| if accesses == 0 { 0.0 } else { sum as f64 / accesses as f64 };
        let counted =
            |pick: fn(&Counters) -> u64| launched.counters.as_ref().map(|counters| each(pick(counters)));
        AccessCost {
            accesses,
            ns_per_access: each(runtime_ns),
            cpu_ns_per_access: launched.cpu_time_ns.map(each),
            rmw_per_access: counted(|counters| counters.rmw),
            fences_per_access: counted(|counters| counters.fence_sys + counters.fence_gpu),
            loads_per_access: counted(|counters| counters.loads),
            collectives_per_access: counted(|counters| counters.collectives),
        }
    }
}

impl ArrayReport {
    /// What was counted between two polls, in `commands` for each page.
    fn of(
        before: &PageCacheReport,
        after: &PageCacheReport,
        commands: u32,
        cached: AccessCost,
    ) -> ArrayReport {
        let (hits, misses) = (after.hits - before.hits, after.misses - before.misses);
        let write_backs = after.write_backs - before.write_backs;
        let ratio = |part: u64, whole: u64| if whole == 0 { 0.0 } else { part as f64 / whole as f64 };
        ArrayReport {
            hits,
            misses,
            write_backs,
            hit_rate: ratio(hits, hits + misses),
            lookups_per_access: ratio(hits + misses, cached.accesses),
            commands_per_access: ratio((misses + write_backs) * u64::from(commands), cached.accesses),
            cached,
            plain: AccessCost::default(),
        }
    }
}

/// A bit for each word of the array, where somebody asks at the end which were stored.
pub(super) fn stored_words(target: &OpenTarget, job: &Job) -> Result<Option<Array<u64>>, Error> {
    let asked = job.array.is_some() && job.verify.is_some() && job.rw.writes();
    let words = job.io_slots() * job.bs_bytes / size_of::<u64>() as u64;
    asked.then(|| Array::new(target, words.div_ceil(64) as usize)).transpose()
}

/// A cache, and the memory of its pages.
struct Pages<'a> {
    shape: &'a CacheShape,
    cache: PageCache,
    memory: Buffer,
    sums: Array<u64>,
}

impl KernelRunner<'_> {
    /// Reads and writes words through a cache, flushes it, and does as much in plain memory. The cache is filled before
    /// where a share of lookups is to be found; else it is empty.
    pub(super) fn words(&self, shape: &CacheShape, control: &Control) -> Result<Outcome, RunError> {
        let (job, pages) = (self.job, self.pages(shape)?);
        let kernel = match shape.policy {
            Policy::Clock => "bench_array_clock",
            Policy::Fifo => "bench_array_fifo",
            Policy::Lru => "bench_array_lru",
        };
        if shape.draws() == Some(true) {
            let lines = shape.pages.min(shape.lines.into());
            let fill = Work { runtime: None, ios: Some(lines), read_percent: 100, random: false };
            let each = CacheShape { pages: lines, spread: LANES, ..shape.clone() };
            let filled = self.array_launch(kernel, &fill, (&pages, &each), control)?.0;
            filled.failures.first().map_or(Ok(()), |failure| Err(RunError::failed(failure)))?;
        }
        let before = pages.cache.report()?;
        let work = Work { random: shape.draws().unwrap_or(job.rw.random()), ..Work::of(job) };
        let (mut outcome, launched) = self.array_launch(kernel, &work, (&pages, shape), control)?;
        let after = pages.cache.report()?;
        if job.rw.writes() {
            let flushed = self.array_launch("bench_array_flush", &work, (&pages, shape), control)?.0;
            outcome.errors += flushed.errors;
            outcome.failures.extend(flushed.failures);
        }
        let accesses = outcome.reads + outcome.writes + outcome.errors;
        let cached = AccessCost::of(accesses, outcome.runtime_ns, &launched);
        let mut report = ArrayReport::of(&before, &after, job.commands_per_io, cached);
        report.plain = self.plain_words(&work, accesses, &pages, control)?;
        (outcome.costs, outcome.cpu_time_ns) = (launched.costs, launched.cpu_time_ns);
        outcome.verify.blocks = outcome.reads; // a word of each
        outcome.array = Some(report);
        Ok(outcome)
    }

    /// Reads every page again, through another cache: what the first one did not write is not found.
    pub(super) fn check_words(&self, shape: &CacheShape, control: &Control) -> Result<Outcome, RunError> {
        let (job, pages) = (self.job, self.pages(shape)?);
        let each = CacheShape { pages: job.io_slots(), ..shape.clone() };
        let work = Work::on_each_unit(job, 100);
        Ok(self.array_launch("bench_array_check", &work, (&pages, &each), control)?.0)
    }

    fn pages<'a>(&self, shape: &'a CacheShape) -> Result<Pages<'a>, RunError> {
        let (job, target) = (self.job, self.attachment.target());
        let spec = PageCacheSpec::new()
            .page_bytes(job.bs_bytes as u32)
            .lines(shape.lines)
            .first_block(Lba(job.first_block()))
            .timeout(job.timeout);
        let end = job.first_block() + job.io_slots() * job.io_blocks();
        let cache = PageCache::new(target, (end, job.block_size_bytes), &spec)?;
        let memory = self.attachment.buffer(cache.buffer_bytes())?;
        Ok(Pages { shape, cache, memory, sums: Array::new(target, (job.warps * LANES) as usize)? })
    }

    /// The same accesses to the memory of the pages, of which nobody needs the contents any more.
    fn plain_words(
        &self,
        work: &Work,
        accesses: u64,
        pages: &Pages<'_>,
        control: &Control,
    ) -> Result<AccessCost, RunError> {
        let lines = pages.shape.pages.min(pages.shape.lines.into());
        let shape = CacheShape { pages: lines, ..pages.shape.clone() };
        let work = Work { runtime: None, ios: Some(accesses.max(1)), ..*work };
        let (outcome, launched) = self.array_launch("bench_array_plain", &work, (pages, &shape), control)?;
        Ok(AccessCost::of(outcome.reads + outcome.writes, outcome.runtime_ns, &launched))
    }

    /// One launch of kernel `name`, over the pages that `shape` names.
    fn array_launch(
        &self,
        name: &'static str,
        work: &Work,
        (pages, shape): (&Pages<'_>, &CacheShape),
        control: &Control,
    ) -> Result<(Outcome, Launched), RunError> {
        let job = self.job;
        let warps = if name == "bench_array_flush" { 1 } else { job.warps };
        let memory = LaunchMemory::new(self.attachment.target(), warps as usize, false)?;
        let plain = name == "bench_array_plain";
        let stored = self.stored.as_ref().filter(|_| !plain);
        let args = BenchArrayArgs {
            bench: BenchArgs {
                buffer: pages.memory.as_ref(),
                units: shape.pages,
                // Contents are those of the cached pages, or of none.
                verify: u32::from(job.verify.is_some() && !plain),
                pattern: if work.random { abi::PATTERN_RANDOM } else { abi::PATTERN_SEQUENTIAL },
                ..self.args(work, &memory)
            },
            cache: pages.cache.as_ref(),
            sums: pages.sums.address(),
            stored: stored.map_or(0, Array::address),
            spread: shape.spread,
            ..BenchArrayArgs::new()
        };
        let uses = pages.sums.lend(self.uses(&memory)).with(&pages.cache.memory());
        let kernel = Kernel {
            name,
            args,
            warps,
            together: true,
            mailbox: &memory.mailbox,
            limit: self.limit(work),
            uses: match stored {
                Some(stored) => stored.lend(uses),
                None => uses,
            },
        };
        let launched = self.launcher.run(self.attachment, &kernel, control)?;
        Ok((memory.outcome(job, operation(work.read_percent))?, launched))
    }
}
