//! This test program a second time, as another process: a server, or a client under load.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use warpbell_sim::{Case, Rig};
use warpbell_vfio::user::{ServerOptions, UserOptions};

use crate::served::{Served, open, until};

/// Tells the program what to be.
const ROLE: &str = "WARPBELL_TEST_PROCESS";

/// This program in that role.
fn command(role: &str, argument: &Path) -> Command {
    let mut command = Command::new(std::env::current_exe().expect("this program"));
    command.args(["--exact", "processes::another_process", "--nocapture"]);
    command.env(ROLE, format!("{role} {}", argument.display()));
    command.stdout(Stdio::piped()).stdin(Stdio::piped());
    command
}

/// A process that is killed when dropped, if it was not before.
pub struct Process(Child);

impl Process {
    /// Starts this program as `role`, and waits for the line that it writes once it is at work.
    pub fn start(role: &str, argument: &Path) -> (Process, String) {
        let mut child = command(role, argument).spawn().expect("starts");
        let lines = BufReader::new(child.stdout.take().expect("piped")).lines();
        let mut ready = lines
            .map_while(Result::ok)
            .filter_map(|line| line.split_once("ready: ").map(|(_, rest)| rest.to_owned()));
        let line = ready.next().expect("the process got to work");
        (Process(child), line)
    }

    /// Ends it as `kill -9` does.
    pub fn kill(mut self) {
        self.0.kill().expect("still runs");
        self.0.wait().expect("ends");
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        // Killed already, or killed now; either way it is gone.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// What the other process does until the end of its standard input. Where this runs as a test, it starts one that does
/// not know what to do.
#[test]
fn another_process() {
    match std::env::var(ROLE) {
        Ok(role) => act(&role),
        Err(_) => {
            let mut child = command("idler", Path::new("-")).stderr(Stdio::null()).spawn().expect("starts");
            assert!(!child.wait().expect("ends").success(), "nobody is an idler");
        }
    }
}

fn act(role: &str) {
    let (role, argument) = role.split_once(' ').expect("a role and a path");
    match role {
        "server" => serve(),
        "client" => load(Path::new(argument)),
        other => panic!("no role {other}"),
    }
}

fn ready(what: &str) {
    println!("ready: {what}");
    std::io::stdout().flush().expect("somebody reads");
}

/// If the parent dies, so does this.
fn until_the_parent_ends() {
    let _ = std::io::stdin().lines().count();
}

fn serve() {
    let served = Served::stalled(ServerOptions::default());
    ready(&served.socket().display().to_string());
    until_the_parent_ends();
}

/// Kernels with commands in flight all the time.
fn load(socket: &Path) {
    let ssd = Arc::new(open(socket, &UserOptions::default()).expect("opens"));
    let case = Case { entries: 256, async_depth: 4, commands: 16_000, read_range: 1024, ..Case::new("load") };
    let rig = Rig::new(&case, ssd.clone(), ssd).expect("a rig");
    std::thread::scope(|scope| {
        scope.spawn(|| warpbell_sim::threaded::run_on(&rig));
        until("an answer", || rig.record(100).expect("a record").answers == 1);
        ready("under load");
        until_the_parent_ends();
        std::process::exit(0);
    });
}

/// A server in a process of its own, and its socket.
pub fn server() -> (Process, PathBuf) {
    let (process, socket) = Process::start("server", Path::new("-"));
    (process, socket.into())
}
