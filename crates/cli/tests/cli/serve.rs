//! `serve`: what it says, what it refuses, and how it ends.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, channel};
use std::thread;
use std::time::Duration;

use serde_json::Value;
use warpbell_hw::{Device, DmaAccess, DmaSource, Window};
use warpbell_vfio::user::{UserDevice, UserOptions};

use crate::common::{await_that, noise, ok, refusal, refused, run, signal, spawn};

/// How long a server may take to say its next line.
const LIMIT: Duration = Duration::from_secs(60);

/// What a process says, line by line, as it comes.
fn lines_of(output: ChildStdout) -> Receiver<String> {
    let (send, lines) = channel();
    thread::spawn(move || {
        BufReader::new(output).lines().map_while(Result::ok).try_for_each(|line| send.send(line))
    });
    lines
}

/// A server that runs until it is told to stop, or its test fails.
struct Serving {
    child: Child,
    lines: Receiver<String>,
    socket: PathBuf,
    _folder: tempfile::TempDir,
}

impl Serving {
    fn start(arguments: &[&str]) -> Serving {
        Serving::start_as(spawn, arguments)
    }

    fn start_as(spawn: impl FnOnce(&[&str]) -> Child, arguments: &[&str]) -> Serving {
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("ssd.sock");
        let place = socket.to_str().unwrap().to_owned();
        let mut child = spawn(&[&["serve", "--socket", &place], arguments].concat());
        let lines = lines_of(child.stdout.take().unwrap());
        Serving { child, lines, socket, _folder: folder }
    }

    fn line(&mut self) -> String {
        self.lines.recv_timeout(LIMIT).expect("a line within a minute")
    }

    fn event(&mut self) -> Value {
        let line = self.line();
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn device(&self) -> String {
        format!("vfio-user:{}", self.socket.display())
    }

    fn signal(&self, name: &str) {
        signal(&self.child, name);
    }

    /// The exit code, and what it said at last.
    fn end(&mut self) -> (Option<i32>, String) {
        let code = self.child.wait().unwrap().code();
        assert!(!self.socket.exists(), "the socket stays");
        (code, self.lines.iter().map(|line| line + "\n").collect())
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        // It has ended already where all went well.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn clients_come_one_after_the_other_and_find_what_the_others_wrote() {
    let mut server = Serving::start(&["--clients", "3", "soft:size=4m,size=8m,block=4096,serial=WB7"]);
    let listening = server.line();
    assert!(listening.starts_with("listening on /"), "{listening}");
    let what = "ssd.sock: WB7, 4096KiB in 512B blocks; 8192KiB in 4096B blocks; doorbells mapped";
    assert!(listening.ends_with(what), "{listening}");
    let identity = ok(&["identify", &server.device()]);
    assert!(identity.contains("WB7") && identity.contains("NVME Identify Namespace 2"), "{identity}");
    assert_eq!(server.line(), "client 1 has come");
    let gone = server.line();
    assert!(gone.starts_with("client 1 is gone (it left): ") && gone.ends_with("0 violations"), "{gone}");
    let data = noise(5, 8 * 4096);
    let device = server.device();
    let permit = format!("--allow-write={}", server.socket.display());
    let write = ["write", &device, "--nsid", "2", "--lba", "3", &permit];
    let output = crate::common::feed(&write, &data);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(run(&["read", &device, "--nsid", "2", "--lba", "3", "--count", "8"]).stdout, data);
    let (code, rest) = server.end();
    assert_eq!(code, Some(0), "{rest}");
    assert!(rest.contains("32KiB written") && rest.ends_with("served 3 clients, 0 violations\n"), "{rest}");
}

#[test]
fn events_are_json_documents_one_a_line() {
    let mut server = Serving::start(&["--size", "1m", "--doorbells", "message", "-o", "json"]);
    let listening = server.event();
    assert_eq!(
        (&listening["schema"], &listening["event"]),
        (&"warpbell.serve/1".into(), &"listening".into())
    );
    assert_eq!(listening["namespaces"][0]["size_bytes"], 1 << 20);
    assert_eq!(listening["doorbells"], "message");
    ok(&["identify", &server.device()]);
    assert_eq!(server.event()["event"], "come");
    let gone = server.event();
    assert_eq!((&gone["event"], &gone["ended"]), (&"gone".into(), &"it left".into()));
    assert!(gone["admin_commands"].as_u64().unwrap() > 2, "{gone}");
    assert!(gone["message_doorbells"].as_u64() >= gone["admin_commands"].as_u64(), "{gone}");
    server.signal("-TERM");
    let (code, rest) = server.end();
    let end: Value = serde_json::from_str(&rest).unwrap();
    assert_eq!(
        (code, &end["event"], &end["clients"], &end["violations"]),
        (Some(0), &"end".into(), &1.into(), &0.into())
    );
}

/// A client that has rung a doorbell of a queue that does not exist.
fn misbehave(socket: &Path) -> Arc<UserDevice> {
    let device = UserDevice::connect(socket, &UserOptions::default()).unwrap();
    device.doorbells().window().store_u32(8 * 5, 3, Ordering::Release);
    device
}

#[test]
fn violations_are_told_as_they_come_and_strict_makes_them_a_failure() {
    for (arguments, code) in [(&["soft:size=1m", "--strict"][..], 1), (&["soft:size=1m"], 0)] {
        let mut server = Serving::start(arguments);
        server.line();
        // It stays until it is told of: the page is looked at a few times a second.
        let client = misbehave(&server.socket);
        assert_eq!(server.line(), "client 1 has come");
        let violation = server.line();
        client.reset().reset(warpbell_hw::ResetKind::Function).unwrap();
        drop(client);
        assert!(
            violation.starts_with("violation: DoorbellRegister: submission queue 5 does not exist"),
            "{violation}"
        );
        server.signal("-INT");
        let (ended, rest) = server.end();
        assert_eq!(ended, Some(code), "{rest}");
        assert!(rest.ends_with("served 1 client, 1 violation\n"), "{rest}");
    }
}

#[test]
fn an_interrupt_ends_it_whoever_is_connected_and_a_killed_ones_socket_is_taken_over() {
    let mut server = Serving::start(&["--size", "1m"]);
    server.line();
    let place = server.socket.to_str().unwrap().to_owned();
    let (code, line) = refused(&["serve", "--size", "1m", "--socket", &place]);
    assert_eq!(code, 1);
    assert!(line.contains(&place) && line.contains("another server listens there"), "{line}");
    server.child.kill().unwrap();
    server.child.wait().unwrap();
    assert!(server.socket.exists(), "killed, it left its socket behind");
    let mut next = spawn(&["serve", "--size", "1m", "--socket", &place]);
    let lines = BufReader::new(next.stdout.take().unwrap());
    assert!(lines.lines().next().unwrap().unwrap().starts_with("listening"));
    let client = UserDevice::connect(&server.socket, &UserOptions::default()).unwrap();
    signal(&next, "-INT");
    assert_eq!(next.wait().unwrap().code(), Some(0));
    await_that(|| !server.socket.exists());
    drop(client);
}

#[test]
fn what_cannot_or_must_not_be_served_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (socket, image) = (at("socket"), at("disk.img"));
    std::fs::write(&image, [7; 8192]).unwrap();
    std::fs::write(at("file"), "precious").unwrap();
    let writable = format!("soft:file={image},writable=on");
    let (file, elsewhere) = (at("file"), at("no/such/folder"));
    let wrong = format!("--allow-write={file}");
    for (arguments, code, says) in [
        (&["serve", "--socket", &socket][..], 2, &["no device", "--size 1g"][..]),
        (&["serve", "--size", "1m"], 2, &["--socket"]),
        (&["serve", "--socket", &socket, "--size", "0"], 2, &["size"]),
        (&["serve", "--socket", &socket, "0000:41:00.0"], 2, &["0000:41:00.0", "only soft:"]),
        (&["serve", "--socket", &socket, "soft:size=1m,time=virtual"], 2, &["time=virtual"]),
        (&["serve", "--socket", &socket, "--size", "1m", "--clients", "0"], 2, &["--clients"]),
        (&["serve", "--socket", &file, "--size", "1m"], 2, &[&file, "no socket"]),
        (&["serve", "--socket", &elsewhere, "--size", "1m"], 2, &[&elsewhere]),
        (&["serve", "--socket", &socket, &writable], 3, &[&image, "--allow-write="]),
        (&["serve", "--socket", &socket, &writable, &wrong], 3, &[&image, "--allow-write="]),
    ] {
        let (got, line) = refusal(arguments, &run(arguments));
        assert_eq!(got, code, "{arguments:?}: {line}");
        assert!(says.iter().all(|text| line.contains(text)), "{arguments:?}: {line}");
    }
    assert_eq!(std::fs::read(at("file")).unwrap(), b"precious");
}

#[test]
fn files_are_read_only_unless_their_path_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    std::fs::write(&image, noise(3, 8192)).unwrap();
    let device = format!("soft:file={}", image.display());
    let permit = format!("--allow-write={}", image.display());
    for (arguments, says) in
        [(&[device.as_str()][..], "blocks, read only; doorbells"), (&[&device, &permit], "blocks; doorbells")]
    {
        let mut server = Serving::start(arguments);
        let line = server.line();
        assert!(line.contains(says), "{line}");
        assert_eq!(run(&["read", &server.device(), "--lba", "3"]).stdout, noise(3, 8192)[1536..2048]);
        server.signal("-INT");
        assert_eq!(server.end().0, Some(0));
    }
}

#[test]
fn a_client_may_have_more_mappings_than_the_usual_limit_of_descriptors() {
    let limited = |arguments: &[&str]| {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -Sn 64 && exec \"$0\" \"$@\"", env!("CARGO_BIN_EXE_warpbell")]);
        shell.args(arguments).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        shell.spawn().unwrap()
    };
    let mut server = Serving::start_as(limited, &["--clients", "1", "--size", "1m"]);
    assert!(server.line().starts_with("listening"));
    let device = UserDevice::connect(&server.socket, &UserOptions::default()).unwrap();
    let memory = Window::host(200 * 4096).unwrap();
    for page in 0..200 {
        let page = memory.slice(page * 4096, 4096).unwrap();
        device.dma().map(DmaSource::Memory(&page), DmaAccess::READ_WRITE).unwrap();
    }
    drop(device);
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_client_that_is_there_before_its_server_waits_for_it_with_a_word() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("s.sock").to_str().unwrap().to_owned();
    let mut client = spawn(&["identify", &format!("vfio-user:{socket}")]);
    let words = BufReader::new(client.stderr.take().unwrap()).lines();
    let word = words.map_while(Result::ok).next().unwrap();
    assert!(word.starts_with(&format!("waiting for vfio-user:{socket}: nobody listens")), "{word}");
    let mut server = spawn(&["serve", "--clients", "1", "--size", "1m", "--socket", &socket]);
    assert_eq!(client.wait_with_output().unwrap().status.code(), Some(0));
    assert_eq!(server.wait().unwrap().code(), Some(0));
}

#[test]
fn a_second_client_waits_for_its_turn_with_a_word() {
    let mut server = Serving::start(&["--clients", "2", "--size", "1m"]);
    server.line();
    let first = UserDevice::connect(&server.socket, &UserOptions::default()).unwrap();
    let mut second = spawn(&["identify", &server.device()]);
    let words = BufReader::new(second.stderr.take().unwrap()).lines();
    let word = words.map_while(Result::ok).next().unwrap();
    let expected = format!("waiting for {}: its server serves another client", server.device());
    assert!(word.starts_with(&expected), "{word}");
    drop(first);
    let output = second.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(0));
    assert!(String::from_utf8(output.stdout).unwrap().contains("NVME Identify Controller"));
    assert_eq!(server.end().0, Some(0));
}

#[test]
fn a_file_is_written_by_one_process_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    std::fs::write(&image, noise(3, 8192)).unwrap();
    let (device, permit) =
        (format!("soft:file={}", image.display()), format!("--allow-write={}", image.display()));
    let mut server = Serving::start(&[&format!("{device},writable=on"), &permit]);
    server.line();
    let write = ["write", &device, "--lba", "0", &permit];
    let (code, line) = refusal(&write, &crate::common::feed(&write, &[0; 512]));
    assert_eq!(code, 3, "{line}");
    assert!(line.contains("disk.img: another process or controller has it open for writing"), "{line}");
    assert_eq!(run(&["read", &device, "--lba", "3"]).stdout, noise(3, 8192)[1536..2048], "readers may");
    server.signal("-INT");
    assert_eq!(server.end().0, Some(0));
    assert_eq!(crate::common::feed(&write, &[0; 512]).status.code(), Some(0), "after its end");
}

#[test]
fn servers_and_soft_ssds_have_serial_numbers_of_their_own() {
    let serial = |server: &mut Serving| server.event()["serial"].as_str().unwrap().to_owned();
    let [one, other] =
        [0, 1].map(|_| serial(&mut Serving::start(&["--size", "1m", "--clients", "1", "-o", "json"])));
    assert_ne!(one, other);
    let listed = crate::common::json(&["list", "soft:size=1m", "soft:size=1m", "-o", "json"]);
    let serials: Vec<&Value> =
        listed["devices"].as_array().unwrap().iter().map(|one| &one["serial"]).collect();
    let [.., first, second] = serials[..] else { panic!("{listed:#}") };
    assert_ne!(first, second);
}
