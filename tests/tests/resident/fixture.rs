//! One launch at a time, under the test's own schedule.

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use warpbell::Target;
use warpbell_kernels::abi::ResidentArgs;
use warpbell_kernels::cpu::{Counters, Launch, Module, run_stepped};
use warpbell_sim::cpu_launch;
use warpbell_workload::resident::{Geometry, ResidentMemory, ResidentSpec, resolve};
use warpbell_workload::{BenchOptions, ByteSize};

/// No run takes longer, on any machine.
const LIMIT: Duration = Duration::from_secs(60);

/// What is run.
pub struct Fixture {
    pub geometry: Geometry,
    pub memory: ResidentMemory,
}

/// Options with short commands and one thread.
pub fn options() -> BenchOptions {
    BenchOptions { bs: ByteSize(512), threads: Some(1), ..BenchOptions::default() }
}

/// The options behind `resident:`, with everything followed up.
pub fn spec(text: &str) -> ResidentSpec {
    format!("{text},check=all").parse().unwrap()
}

impl Fixture {
    pub fn new(spec: &ResidentSpec, options: &BenchOptions, start: u64) -> Fixture {
        let job = resolve(spec, options).unwrap();
        let geometry = Geometry::new(Target::Cpu, spec, &job).unwrap();
        let target = Target::Cpu.open().unwrap();
        let memory = ResidentMemory::new(&target, spec, &job, &geometry, start).unwrap();
        Fixture { geometry, memory }
    }

    /// The arguments for `commands` commands.
    pub fn args(&self, commands: u64) -> ResidentArgs {
        ResidentArgs { io_limit: commands, ..self.memory.start().unwrap() }
    }

    pub fn launch(&self, module: &Module, args: &ResidentArgs) -> Launch {
        let launch = cpu_launch(module, "resident", args).unwrap();
        launch.grid(self.geometry.blocks()).block(self.geometry.threads())
    }

    /// Runs a launch on this thread to its end, and gives what it cost, or why it did not end.
    pub fn run(&self, launch: &Launch) -> Result<Counters, String> {
        let begin = Instant::now();
        let each = |_: &_| {
            if begin.elapsed() < LIMIT { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        };
        run_stepped(launch, 256, each).map_err(|error| error.to_string())
    }

    /// What is wrong after `commands` commands; nothing is right.
    pub fn findings(&self, commands: u64) -> Vec<String> {
        let mut findings: Vec<String> = Vec::new();
        let mut check = |name: &str, found: u64, right: u64| {
            if found != right {
                findings.push(format!("{name}: {found}, not {right}"));
            }
        };
        let results = self.memory.results().all().unwrap();
        let queues = self.memory.queues().all().unwrap();
        let submitted = self.memory.digests().all().unwrap().into_iter().fold(0, u64::wrapping_add);
        let fetched = queues.iter().fold(0, |sum: u64, queue| sum.wrapping_add(queue.digest));
        check("answers", results.iter().map(|warp| warp.reads).sum(), commands);
        check("errors", results.iter().map(|warp| warp.errors).sum(), 0);
        check("answers of others", results.iter().map(|warp| warp.mismatches).sum(), 0);
        check("commands fetched", queues.iter().map(|queue| queue.commands).sum(), commands);
        check("digest", fetched, submitted);
        for (index, queue) in queues.iter().enumerate() {
            let counters = self.memory.clients().counters(index).unwrap();
            check("spurious completions", counters.spurious, 0);
            check("wrong SQ heads", counters.sqhd_mismatch, 0);
            check("completions not posted", u64::from(queue.accepted.wrapping_sub(queue.posted)), 0);
        }
        findings.extend(queues.iter().filter_map(warpbell_workload::resident::rules::first));
        findings
    }
}
