//! Running kernels.

use std::num::NonZero;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warpbell::{LANES, Launch, Program, Running};
use warpbell_base::Time;
use warpbell_kernels::abi::BLOCK_THREADS_MAX;
use warpbell_kernels::cpu::Threads;

use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::over::Over;
use crate::program::PROGRAMS;
use crate::scope::User;

pub(crate) static RUNS: Table<Run> = Table::new(Kind::Run);

/// How often a running kernel is polled: seldom, but a short one is not kept waiting.
const FIRST_PAUSE: Duration = Duration::from_micros(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(2);

/// CUDA's limit of a launch in blocks.
const GRID_LIMIT: u32 = i32::MAX as u32;
/// Threads of the CPU target: each is one of the system's.
const CPU_THREADS_LIMIT: u32 = 1024;

/// A kernel that was started.
pub(crate) struct Run {
    kernel: String,
    state: Mutex<State>,
    /// Keep the queues open.
    _users: Vec<User>,
}

enum State {
    Running(Box<Running>),
    Ended(Answer<()>),
}

/// Grid, block and the rest; zeros are defaults.
pub(crate) struct Shape {
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) cpu_threads: u32,
    pub(crate) cooperative: bool,
}

impl Shape {
    /// Blocks, and threads of each.
    fn check(&self) -> Answer<(u32, u32)> {
        let limited = |name: &str, value: u32, limit: u32| {
            if value <= limit {
                return Ok(value);
            }
            Err(Failure::invalid(format!("{name} {value}: must be at most {limit}")))
        };
        limited("cpu_threads", self.cpu_threads, CPU_THREADS_LIMIT)?;
        let block = limited("block", self.block, BLOCK_THREADS_MAX)?;
        Ok((limited("grid", self.grid, GRID_LIMIT)?.max(1), if block == 0 { LANES } else { block }))
    }
}

impl Run {
    /// Starts the launch that `prepare` makes.
    pub(crate) fn launch(
        (program, kernel, over): (u64, &str, &Over),
        shape: &Shape,
        prepare: impl FnOnce(&Program) -> Result<Launch, warpbell::Error>,
    ) -> Answer<u64> {
        let program = PROGRAMS.get(program)?;
        if program.target() != over.target() {
            let (one, other) = (program.target(), over.target());
            let text = format!("the program was compiled for {one}, and the queues are attached for {other}");
            return Err(Failure::invalid(text));
        }
        let (grid, block) = shape.check()?;
        let users = over.enter_run()?;
        let launch = prepare(&program)?.mailbox(&over.first().mailbox)?;
        let launch = launch.grid(grid).block(block).shared_bytes(shape.shared_bytes);
        let launch = launch.cooperative(shape.cooperative);
        let workers = match shape.cpu_threads {
            0 => thread::available_parallelism().map_or(1, NonZero::get),
            threads => threads as usize,
        };
        let running = launch.threads(Threads::new().workers(workers)).start()?;
        let state = Mutex::new(State::Running(Box::new(running)));
        Ok(RUNS.add(Run { kernel: kernel.to_owned(), state, _users: users }))
    }

    /// Waits for the end until `timeout`; `None`: as long as it takes.
    pub(crate) fn wait(&self, timeout: Option<Duration>) -> Answer<()> {
        let begin = Instant::now();
        let mut pause = FIRST_PAUSE;
        loop {
            if let Some(answer) = self.poll() {
                return answer;
            }
            let left = timeout.map(|timeout| timeout.saturating_sub(begin.elapsed()));
            if left == Some(Duration::ZERO) {
                let text =
                    format!("kernel {} still runs after {}", self.kernel, Time(timeout.unwrap_or_default()));
                return Err(Failure::new(Code::Timeout, text));
            }
            thread::sleep(left.map_or(pause, |left| pause.min(left)));
            pause = LONGEST_PAUSE.min(pause * 2);
        }
    }

    /// How it ended, if it has.
    fn poll(&self) -> Option<Answer<()>> {
        let mut state = self.state.lock();
        if let State::Running(running) = &*state {
            // An error is the one that joining reports.
            if running.is_finished().is_ok_and(|finished| !finished) {
                return None;
            }
            let unknown = Failure::new(Code::Internal, "the end of a kernel was not recorded");
            if let State::Running(running) = std::mem::replace(&mut *state, State::Ended(Err(unknown))) {
                *state = State::Ended(running.join().map(drop).map_err(Failure::from));
            }
        }
        match &*state {
            State::Running(_) => None,
            State::Ended(answer) => Some(answer.clone()),
        }
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let ended = |run: &Run| match run.poll() {
            Some(_) => Ok(()),
            None => {
                let text = format!("kernel {} still runs: wait for it first (warpbell_run_wait)", run.kernel);
                Err(Failure::new(Code::Busy, text))
            }
        };
        RUNS.close(handle, ended).map(drop)
    }
}
