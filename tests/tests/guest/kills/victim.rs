//! The bench that is killed.

use std::fmt;
use std::io::{BufRead, BufReader};
use std::process::{Child, ChildStderr, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use warpbell::Bdf;
use warpbell_sim::Draw;

use super::one_of;

/// Longer than anything takes on a machine with other things to do.
const LIMIT: Duration = Duration::from_secs(60);
/// How long a bench measures.
const RUNTIME: Duration = Duration::from_millis(200);
/// Of the time after the queues are there: this much counts as the kernels' start.
const START: Duration = Duration::from_millis(10);

/// What a bench does at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// The program starts, opens VFIO, and gets hold of the function.
    Open,
    /// The controller is enabled and asked who it is.
    Enable,
    /// Memory is mapped, queues are created.
    Attach,
    /// Kernels start.
    Start,
    /// I/O.
    Steady,
    /// Queues are deleted, the controller is shut down, the function is let go of.
    Shutdown,
}

impl Phase {
    pub const ALL: [Phase; 6] =
        [Phase::Open, Phase::Enable, Phase::Attach, Phase::Start, Phase::Steady, Phase::Shutdown];
}

/// Reads from a victim's log where it is.
#[derive(Clone, Debug)]
struct Progress {
    queues: u64,
    created: u64,
    phase: Phase,
    since: Instant,
}

impl Progress {
    fn new(queues: u64) -> Progress {
        Progress { queues, created: 0, phase: Phase::Open, since: Instant::now() }
    }

    fn read(&mut self, line: &str) {
        let next = match self.phase {
            Phase::Open if line.contains("controller transition") => Phase::Enable,
            Phase::Enable if line.contains("controller opened") => Phase::Attach,
            Phase::Attach if line.contains("Create I/O Submission Queue") => {
                self.created += 1;
                if self.created < self.queues { Phase::Attach } else { Phase::Start }
            }
            Phase::Start if line.contains("Delete I/O Submission Queue") => Phase::Shutdown,
            phase => phase,
        };
        if next != self.phase {
            (self.phase, self.since) = (next, Instant::now());
        }
    }

    /// Where it was at a time. The log does not tell the start of kernels from what follows.
    fn at(&self, time: Instant) -> Phase {
        let later = self.phase == Phase::Start && time.saturating_duration_since(self.since) > START;
        if later { Phase::Steady } else { self.phase }
    }
}

/// How a victim ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Killed, in this phase.
    Killed(Phase),
    /// By itself, before the kill.
    Finished,
}

/// How long the phases of a bench last that is left alone.
#[derive(Clone, Debug)]
pub struct Timing(Vec<(Phase, Duration)>);

impl Timing {
    pub fn of(victim: &Victim) -> anyhow::Result<Timing> {
        let mut running = Running::start(victim)?;
        let (mut lengths, mut last) = (Vec::new(), running.progress.clone());
        while running.read_line()? {
            if running.progress.phase != last.phase {
                lengths.push((last.phase, running.progress.since - last.since));
                last = running.progress.clone();
            }
        }
        lengths.push((last.phase, last.since.elapsed()));
        ensure!(running.child.wait()?.success() && lengths.len() == 5, "{lengths:?}: {:?}", running.log);
        Ok(Timing(lengths))
    }

    /// From the phase's mark on. Kernels start and go on after the same mark.
    pub fn length(&self, phase: Phase) -> Duration {
        let wanted = if phase == Phase::Steady { Phase::Start } else { phase };
        let length = self.0.iter().find(|(phase, _)| *phase == wanted).map_or(RUNTIME, |(_, length)| *length);
        if phase == Phase::Start { START } else { length }
    }
}

/// A bench to be killed.
#[derive(Clone, Debug)]
pub struct Victim {
    arguments: Vec<String>,
    queues: u64,
}

impl fmt::Display for Victim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "warpbell {}", self.arguments.join(" "))
    }
}

impl Victim {
    pub fn plain(bdf: Bdf) -> Victim {
        Victim::with(bdf, 1, "")
    }

    /// Any API, queues and pattern, over one of `ways` to the IOMMU.
    pub fn draw(bdf: Bdf, ways: &[&str], draw: &mut Draw) -> Victim {
        let queues = 1 + draw.below(4);
        let who = one_of(
            draw,
            &[
                "--api io",
                "--api io --sharing shared --warps 4",
                "--api raw",
                "--api raw --sharing shared --warps 4",
                "--api host",
                "--api host --completion interrupt",
            ],
        );
        let (way, rw) = (one_of(draw, ways), one_of(draw, &["randread", "read", "randwrite", "randrw"]));
        let (bs, depth) = (one_of(draw, &["512", "4k", "64k"]), one_of(draw, &["1", "16", "64"]));
        let (dbbuf, verify) = (one_of(draw, &["on", "off"]), one_of(draw, &["", "", "--verify crc32c"]));
        let rest =
            format!("{who} --iommu {way} --rw {rw} --bs {bs} --iodepth {depth} --dbbuf {dbbuf} {verify}");
        Victim::with(bdf, queues, &rest)
    }

    fn with(bdf: Bdf, queues: u64, rest: &str) -> Victim {
        let runtime = RUNTIME.as_millis();
        let line = format!(
            "bench {bdf} --allow-write={bdf} --size 1m --queues {queues} --runtime {runtime}ms {rest}"
        );
        Victim { arguments: line.split_whitespace().map(str::to_owned).collect(), queues }
    }

    /// Runs it, and kills it so long after the beginning of a phase: how it ended, and its log.
    pub fn run(&self, (phase, delay): (Phase, Duration)) -> anyhow::Result<(End, Vec<String>)> {
        let mark = if phase == Phase::Steady { Phase::Start } else { phase };
        let mut running = Running::start(self)?;
        while running.progress.phase < mark && running.read_line()? {}
        thread::sleep(delay.saturating_sub(running.progress.since.elapsed()));
        let killed = Instant::now();
        running.child.kill().context("kill")?;
        let status = running.child.wait().context("wait")?;
        // What it said before it was killed is still to be read.
        while running.read_line()? {}
        if status.success() {
            return Ok((End::Finished, running.log));
        }
        ensure!(
            status.code().is_none(),
            "it failed before it was killed: {status}\n{}",
            running.log.join("\n")
        );
        Ok((End::Killed(running.progress.at(killed)), running.log))
    }
}

struct Running {
    child: Child,
    lines: Receiver<String>,
    progress: Progress,
    log: Vec<String>,
}

impl Running {
    fn start(victim: &Victim) -> anyhow::Result<Running> {
        let progress = Progress::new(victim.queues);
        let mut command = Command::new("/bin/warpbell");
        command.args(&victim.arguments).env("WARPBELL_LOG", "off,warpbell_vfio=debug,warpbell_driver=debug");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().context("warpbell")?;
        let lines = lines_of(child.stderr.take().context("piped")?);
        Ok(Running { child, lines, progress, log: Vec::new() })
    }

    /// Reads a line of the log; whether there was one.
    fn read_line(&mut self) -> anyhow::Result<bool> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => {
                self.progress.read(&line);
                self.log.push(line);
                Ok(true)
            }
            Err(mpsc::RecvTimeoutError::Disconnected) => Ok(false),
            Err(mpsc::RecvTimeoutError::Timeout) => {
                bail!("it said nothing for {LIMIT:?}, and did not end:\n{}", self.log.join("\n"))
            }
        }
    }
}

fn lines_of(stderr: ChildStderr) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = BufReader::new(stderr).lines().map_while(Result::ok);
        lines.take_while(|line| sender.send(line.clone()).is_ok()).for_each(drop);
    });
    receiver
}
