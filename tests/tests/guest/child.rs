//! Processes of their own, for ends that a test does not survive. A child is an ignored test of this program whose name
//! begins with `child_`: it is run by another test, never by itself.

use std::io::{BufRead, BufReader};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::thread;
use std::time::{Duration, Instant};

/// Longer than any child takes to say something.
const LIMIT: Duration = Duration::from_secs(60);

/// A running child.
pub struct Process {
    child: Child,
    lines: Receiver<String>,
}

impl Process {
    /// Runs the child `name` (`scene::child_something`).
    pub fn start(name: &str) -> Process {
        Process::with(name, |command| command)
    }

    /// The same with one more environment variable.
    pub fn start_with(name: &str, variable: &str, value: &str) -> Process {
        Process::with(name, |command| command.env(variable, value))
    }

    /// The same as a user other than root.
    pub fn start_as(name: &str, uid: u32) -> Process {
        Process::with(name, |command| command.uid(uid).gid(uid))
    }

    fn with(name: &str, prepare: impl Fn(&mut Command) -> &mut Command) -> Process {
        let program = std::env::current_exe().expect("this program");
        let mut command = Command::new(program);
        command
            .args([name, "--exact", "--ignored", "--nocapture"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let mut child = prepare(&mut command).spawn().expect("starts");
        let stdout = child.stdout.take().expect("piped");
        Process { child, lines: lines_of(stdout) }
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What follows `mark` in the next line that has it.
    pub fn await_line(&self, mark: &str) -> String {
        loop {
            let line = self.lines.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("no '{mark}': {error}"));
            println!("child: {line}");
            if let Some((_, rest)) = line.split_once(mark) {
                return rest.trim().to_owned();
            }
        }
    }

    /// `kill -9`, and waits for its end.
    pub fn kill(mut self) {
        self.child.kill().expect("killed");
        let status = self.child.wait().expect("waited for");
        assert!(!status.success(), "it was killed: {status}");
    }

    /// Waits for its end, which must be a good one.
    pub fn join(mut self) {
        let begin = Instant::now();
        let status = loop {
            match self.child.try_wait().expect("waited for") {
                Some(status) => break status,
                None => assert!(begin.elapsed() < LIMIT, "it does not end"),
            }
            thread::sleep(Duration::from_millis(5));
        };
        assert!(status.success(), "{status}");
    }
}

fn lines_of(stdout: ChildStdout) -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
