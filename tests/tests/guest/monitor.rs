//! QEMU's monitor, which the guest reaches over its third serial port.

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// The longest that QEMU takes for anything here.
const LIMIT: Duration = Duration::from_secs(60);
/// How long to wait for the first answer before asking again.
const ATTEMPT: Duration = Duration::from_secs(5);

/// A conversation in QMP.
pub struct Monitor {
    port: File,
    unread: Vec<u8>,
}

impl Monitor {
    /// Starts talking. The port returns from a read after a tenth of a second without a byte (`stty min 0 time 1`).
    pub fn open() -> Monitor {
        let port =
            OpenOptions::new().read(true).write(true).open("/dev/ttyS2").expect("the third serial port");
        let mut monitor = Monitor { port, unread: Vec::new() };
        let begin = Instant::now();
        while begin.elapsed() < LIMIT {
            // What the port echoed of the greeting before it was set up may be half a message, which QEMU would take this
            // for the rest of. A byte that no message may have ends it.
            monitor.port.write_all(b"\xff\n").expect("the monitor listens");
            // Refused if someone has said so before.
            monitor.send("qmp_capabilities", &json!({}));
            if monitor.read_until(Instant::now() + ATTEMPT, |message| message.get("id").is_some()).is_some() {
                return monitor;
            }
        }
        panic!("no word of an answer from QEMU within {LIMIT:?}");
    }

    /// Executes a command, which must succeed.
    pub fn execute(&mut self, command: &str, arguments: &Value) {
        self.send(command, arguments);
        let answer = self.wait_for(command, |message| message["id"] == command);
        assert!(answer.get("return").is_some(), "{command} {arguments}: {answer}");
    }

    /// Waits for an event about the device `id`.
    pub fn await_event(&mut self, event: &str, id: &str) {
        self.wait_for(event, |message| message["event"] == event && message["data"]["device"] == id);
    }

    fn send(&mut self, command: &str, arguments: &Value) {
        let message = json!({ "execute": command, "arguments": arguments, "id": command });
        writeln!(self.port, "{message}").expect("the monitor listens");
    }

    fn wait_for(&mut self, what: &str, wanted: impl Fn(&Value) -> bool) -> Value {
        let found = self.read_until(Instant::now() + LIMIT, wanted);
        found.unwrap_or_else(|| panic!("no word of {what} from QEMU within {LIMIT:?}"))
    }

    /// Reads messages until one is wanted.
    fn read_until(&mut self, until: Instant, wanted: impl Fn(&Value) -> bool) -> Option<Value> {
        while Instant::now() < until {
            let mut bytes = [0; 512];
            let count = self.port.read(&mut bytes).expect("the monitor answers");
            self.unread.extend_from_slice(&bytes[..count]);
            while let Some(end) = self.unread.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.unread.drain(..=end).collect();
                // The greeting was sent before the port was set up, and is mangled.
                match serde_json::from_slice(&line) {
                    Ok(message) if wanted(&message) => return Some(message),
                    _ => {}
                }
            }
        }
        None
    }
}
