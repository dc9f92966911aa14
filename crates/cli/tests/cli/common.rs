//! Runs the command and looks at what it says.

use std::io::Write;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Runs `warpbell` with `arguments`, standard input empty.
pub fn run(arguments: &[&str]) -> Output {
    feed(arguments, &[])
}

/// Runs `warpbell` with `arguments` and `input` on standard input.
pub fn feed(arguments: &[&str], input: &[u8]) -> Output {
    let mut child = Command::new(env!("CARGO_BIN_EXE_warpbell"))
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts");
    // The command may end before it reads its input; what it says about that is what the test looks at.
    let _ = child.stdin.take().expect("stdin is piped").write_all(input);
    child.wait_with_output().expect("the command ends")
}

/// Runs a command that must fail: its exit code, and its only line of error.
pub fn refused(arguments: &[&str]) -> (i32, String) {
    refusal(arguments, &run(arguments))
}

/// The exit code and the only line of error of a command that failed, beside what it told of its device meanwhile.
pub fn refusal(arguments: &[&str], output: &Output) -> (i32, String) {
    let error = String::from_utf8(output.stderr.clone()).expect("errors are UTF-8");
    let lines: Vec<&str> = error.lines().filter(|line| !beside(line)).collect();
    assert_eq!(lines.len(), 1, "{arguments:?} must say one line: {error}");
    let line = lines[0].strip_prefix("error: ").unwrap_or_else(|| panic!("{arguments:?}: {error}"));
    (output.status.code().expect("ended by itself"), line.to_owned())
}

/// Whether a line tells of a device, and not of the failure.
fn beside(line: &str) -> bool {
    ["event: ", "waiting for "].iter().any(|start| line.starts_with(start))
}

/// Runs a command that must succeed: its standard output.
pub fn ok(arguments: &[&str]) -> String {
    let output = run(arguments);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(0), "{arguments:?}: {error}");
    String::from_utf8(output.stdout).expect("results are UTF-8")
}

/// Runs a command that must succeed: its JSON.
pub fn json(arguments: &[&str]) -> serde_json::Value {
    serde_json::from_str(&ok(arguments)).expect("the result is JSON")
}

/// The device that serves the file at `path`.
pub fn soft_file(path: &Path) -> String {
    format!("soft:file={}", path.display())
}

/// CRC-32C by its definition, one bit at a time: polynomial 1EDC6F41h, reflected.
pub fn crc32c_bitwise(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |crc, byte| step(crc ^ u32::from(*byte)))
}

fn step(mut crc: u32) -> u32 {
    for _ in 0..8 {
        crc = if crc & 1 == 1 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
    }
    crc
}

/// CRC-32C, one byte at a time through a table made of the definition: for gigabytes.
pub fn crc32c_bytewise(chunks: impl IntoIterator<Item = Vec<u8>>) -> u32 {
    let table: Vec<u32> = (0..256).map(step).collect();
    let crc = chunks.into_iter().fold(u32::MAX, |crc, chunk| {
        chunk.iter().fold(crc, |crc, byte| (crc >> 8) ^ table[((crc ^ u32::from(*byte)) & 255) as usize])
    });
    !crc
}

/// Bytes that look random and repeat for the same `seed`.
pub fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 32) as u8
    };
    (0..len).map(|_| next()).collect()
}

/// Runs `warpbell`, and says what processor time that took: whoever else uses the machine does not count. What it prints
/// has to fit into a pipe.
pub fn run_timed(arguments: &[&str]) -> (Output, Duration) {
    use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
    let child = spawn(arguments);
    let pid = Pid::from_child(&child);
    // It has ended, and is not forgotten yet.
    waitid(WaitId::Pid(pid), WaitIdOptions::EXITED | WaitIdOptions::NOWAIT).expect("our child");
    let told = std::fs::read_to_string(format!("/proc/{}/stat", child.id()))
        .expect("a process that was not waited for");
    // Fields 14 and 15 of proc(5), counted behind the name: ticks of a hundredth of a second.
    let (_, fields) = told.rsplit_once(") ").expect("a name in brackets");
    let ticks: u64 =
        fields.split(' ').skip(11).take(2).map(|field| field.parse::<u64>().expect("a number")).sum();
    (child.wait_with_output().expect("it ended"), Duration::from_millis(ticks * 10))
}

/// Starts the command, to be waited for.
pub fn spawn(arguments: &[&str]) -> Child {
    Command::new(env!("CARGO_BIN_EXE_warpbell"))
        .args(arguments)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the command starts")
}

/// Sends a signal, such as `-INT`.
pub fn signal(child: &Child, name: &str) {
    let sent = Command::new("kill").args([name, &child.id().to_string()]).status().expect("kill starts");
    assert!(sent.success(), "kill {name}");
}

/// Looks until something is so, however slow the machine is.
pub fn await_that(mut holds: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !holds() {
        assert!(begin.elapsed() < Duration::from_secs(60), "still not so after a minute");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Whether a process has the file open.
pub fn has_open(child: &Child, path: &Path) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{}/fd", child.id())) else { return false };
    open.flatten().any(|entry| std::fs::read_link(entry.path()).is_ok_and(|link| link == path))
}

/// CPU time that a process has taken so far.
pub fn cpu_seconds(child: &Child) -> f64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap_or_default();
    // Behind the name, which may hold anything, user and system time are the 12th and 13th, in hundredths.
    let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
    rest.split_whitespace().skip(11).take(2).map(|ticks| ticks.parse::<f64>().unwrap_or(0.0) / 100.0).sum()
}
