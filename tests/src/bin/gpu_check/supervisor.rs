//! Has checks run by a worker process, and kills that where a check takes longer than its limit.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use anyhow::Context;

use crate::options::{Options, Thing, seconds};
use crate::report::{CheckResult, FigureResult, Outcome};
use crate::worker::{MARK, Message, TargetInfo};

/// The longest that a worker may take to open the target.
const START: Duration = Duration::from_secs(60);
/// And to end, once it was asked to, or killed: what hangs in a driver may never end.
const END: Duration = Duration::from_secs(10);

/// The worker found no target, has said so, and ended with this exit code.
#[derive(Debug, thiserror::Error)]
#[error("no target; exit code {0}")]
pub struct NoTarget(pub u8);

pub struct Supervisor<'a> {
    options: &'a Options,
    deadline: Instant,
    target: TargetInfo,
    worker: Option<Worker>,
    /// Why no worker can be had any more.
    stuck: Option<String>,
}

impl<'a> Supervisor<'a> {
    /// Starts the first worker, which finds out whether the target is here at all.
    pub fn start(options: &'a Options) -> anyhow::Result<Supervisor<'a>> {
        options.check()?;
        let deadline = Instant::now() + seconds(options.within);
        let (worker, target) = Worker::start(options, deadline)?;
        Ok(Supervisor { options, deadline, target, worker: Some(worker), stuck: None })
    }

    pub fn target(&self) -> &TargetInfo {
        &self.target
    }

    /// How `thing` went. Never takes longer than its limit, and the time that a process may take to start and to end.
    pub fn run(&mut self, thing: &Thing) -> Message {
        let begin = Instant::now();
        let outcome = match self.attempt(thing) {
            Ok(message) => return message,
            Err(outcome) => outcome,
        };
        let (name, seconds_s) = (thing.name().to_owned(), begin.elapsed().as_secs_f64());
        match thing {
            Thing::Check(_) => Message::Check(CheckResult { name, outcome, seconds_s }),
            Thing::Figure(_) => Message::Figure(FigureResult { name, outcome, seconds_s, rows: Vec::new() }),
        }
    }

    fn attempt(&mut self, thing: &Thing) -> Result<Message, Outcome> {
        if let Some(why) = &self.stuck {
            return Err(Outcome::Skipped(why.clone()));
        }
        if left(self.deadline) < Duration::from_secs(1) {
            return Err(Outcome::Skipped(format!("no time left of the {} s for all", self.options.within)));
        }
        let mut worker = self.take_worker()?;
        let limit = self.options.limit_of(thing).min(left(self.deadline));
        let message = worker.run(thing.name(), limit)?;
        // What failed may have taken the context with it: what follows gets a new process.
        if message.failed() {
            let _ = worker.end(); // it has failed already
        } else {
            self.worker = Some(worker);
        }
        Ok(message)
    }

    fn take_worker(&mut self) -> Result<Worker, Outcome> {
        if let Some(worker) = self.worker.take() {
            return Ok(worker);
        }
        Worker::start(self.options, self.deadline).map(|(worker, _)| worker).map_err(|error| {
            self.stuck = Some(format!("no new process could be had: {error:#}"));
            Outcome::Failed(format!("no new process for it: {error:#}"))
        })
    }

    /// Ends the worker. What went wrong with that, as a check that failed.
    pub fn end(&mut self) -> Option<Message> {
        let begin = Instant::now();
        let outcome = Outcome::Failed(self.worker.take()?.end()?);
        let name = "end of the process".to_owned();
        Some(Message::Check(CheckResult { name, outcome, seconds_s: begin.elapsed().as_secs_f64() }))
    }
}

/// The process that runs checks.
struct Worker {
    child: Child,
    /// None once it is to end.
    names: Option<ChildStdin>,
    messages: Receiver<Message>,
}

impl Worker {
    fn start(options: &Options, deadline: Instant) -> anyhow::Result<(Worker, TargetInfo)> {
        let limit = START.min(left(deadline));
        let mut child = command(options)?.spawn().context("cannot start the process that runs checks")?;
        let names = child.stdin.take();
        let output = child.stdout.take().context("it has no standard output")?;
        let (sender, messages) = mpsc::channel();
        std::thread::spawn(move || listen(output, &sender));
        let mut worker = Worker { child, names, messages };
        match worker.messages.recv_timeout(limit) {
            Ok(Message::Ready(info)) => Ok((worker, info)),
            Ok(other) => anyhow::bail!("the process that runs checks begins with {other:?}"),
            Err(RecvTimeoutError::Timeout) => {
                let rest = worker.kill();
                anyhow::bail!("{} was not open within {} s{rest}", options.target, limit.as_secs())
            }
            Err(RecvTimeoutError::Disconnected) => {
                let status = worker.wait().context("the process that runs checks does not end")?;
                Err(NoTarget(status.code().and_then(|code| code.try_into().ok()).unwrap_or(1)).into())
            }
        }
    }

    /// The result of what has this name; if there is none within `limit`, the process is no more.
    fn run(&mut self, name: &str, limit: Duration) -> Result<Message, Outcome> {
        // A process that is gone already is noticed at once below.
        let _ = self.names.as_mut().map(|names| writeln!(names, "{name}"));
        match self.messages.recv_timeout(limit) {
            Ok(message) => Ok(message),
            Err(RecvTimeoutError::Timeout) => {
                let rest = self.kill();
                let limit = limit.as_secs_f64();
                Err(Outcome::Failed(format!("did not end within {limit:.0} s: its process was killed{rest}")))
            }
            Err(RecvTimeoutError::Disconnected) => {
                let how = self.wait().map_or("and does not end".to_owned(), |status| status.to_string());
                Err(Outcome::Failed(format!("its process ended before it did: {how}")))
            }
        }
    }

    /// Lets it end by itself, so that it releases what it has; else kills it. How it ended, where that was not well.
    fn end(mut self) -> Option<String> {
        self.names = None;
        let ended = self.wait();
        // What it said last is printed, too: a sanitizer sums up.
        while self.messages.recv_timeout(END).is_ok() {}
        match ended {
            Some(status) if status.success() => None,
            Some(status) => Some(format!("the process that ran checks ended by itself: {status}")),
            None => Some(format!("the process that ran checks did not end, and was killed{}", self.kill())),
        }
    }

    /// Kills it, and gives what there is to add where that does not help.
    fn kill(&mut self) -> &'static str {
        let killed = self.child.kill().is_ok() && self.wait().is_some();
        if killed { "" } else { ", but the kernel keeps it: what follows may fail for it" }
    }

    /// How it ended, if it does.
    fn wait(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + END;
        while !left(deadline).is_zero() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Some(status);
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        None
    }
}

fn left(deadline: Instant) -> Duration {
    deadline.saturating_duration_since(Instant::now())
}

/// This program as a worker, with the same options.
fn command(options: &Options) -> anyhow::Result<Command> {
    let mut words: Vec<OsString> = options.under.split_whitespace().map(OsString::from).collect();
    words.push(std::env::current_exe().context("this program does not know where it is")?.into());
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).args(std::env::args_os().skip(1)).arg("--worker");
    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    Ok(command)
}

/// Hands results on, and prints what else is said.
fn listen(output: ChildStdout, messages: &Sender<Message>) {
    for line in BufReader::new(output).lines().map_while(Result::ok) {
        match line.strip_prefix(MARK).and_then(|text| serde_json::from_str(text).ok()) {
            Some(message) => drop(messages.send(message)),
            None => println!("{line}"),
        }
    }
}
