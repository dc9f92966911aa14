//! What the program under test did wrong, line by line.
//!
//! - `violation:` against a rule of the documentation, or reliance on what it does not promise.
//! - `hazard:` allowed, but on a GPU it may wait for kernels that run, for as long as they do.
//! - `leak:` still there when the process ends.
//! - `kernel:` how a kernel failed.
//! - `connections:` what CUDA_DEVICE_MAX_CONNECTIONS was at cuInit.
//!
//! The last line is `end: N violations, N hazards, N leaks; calls: NAME=COUNT ...`, and where kernels ran
//! `; executed: KERNEL=INSTRUCTIONS ...`, of all lanes and launches. A log without it is of a process that was killed.

use std::cell::Cell;
use std::collections::BTreeMap;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use parking_lot::Mutex;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    Violation,
    Hazard,
    Leak,
    Kernel,
}

impl Kind {
    fn word(self) -> &'static str {
        match self {
            Kind::Violation => "violation",
            Kind::Hazard => "hazard",
            Kind::Leak => "leak",
            Kind::Kernel => "kernel",
        }
    }
}

#[derive(Default)]
struct State {
    /// None: standard error.
    file: Option<File>,
    found: BTreeMap<Kind, u64>,
    calls: BTreeMap<&'static str, u64>,
    executed: BTreeMap<String, u64>,
    /// Only mistakes of this project are told: users have the driver, and no test reads a log.
    mistakes_alone: bool,
}

static STATE: Mutex<State> = Mutex::new(State {
    file: None,
    found: BTreeMap::new(),
    calls: BTreeMap::new(),
    executed: BTreeMap::new(),
    mistakes_alone: false,
});

thread_local! {
    /// The call that this thread is in.
    static CALL: Cell<&'static str> = const { Cell::new("") };
}

/// Lines go to `path` from now on, after what it has.
pub(crate) fn to_file(path: &Path) -> std::io::Result<()> {
    STATE.lock().file = Some(OpenOptions::new().create(true).append(true).open(path)?);
    Ok(())
}

/// From now on only violations are told.
pub(crate) fn mistakes_alone() {
    STATE.lock().mistakes_alone = true;
}

/// This thread is in `call` now.
pub(crate) fn enter(call: &'static str) {
    CALL.set(call);
    *STATE.lock().calls.entry(call).or_default() += 1;
}

/// Lanes have executed so many instructions of a kernel.
pub(crate) fn executed(kernel: &str, instructions: u64) {
    *STATE.lock().executed.entry(kernel.to_owned()).or_default() += instructions;
}

/// This thread is in no call any more.
pub(crate) fn leave() {
    CALL.set("");
}

/// Notes something, with the call that this thread is in.
pub(crate) fn note(kind: Kind, text: &str) {
    let call = CALL.get();
    let mut state = STATE.lock();
    *state.found.entry(kind).or_default() += 1;
    if state.mistakes_alone && kind != Kind::Violation {
        return;
    }
    let (word, separator) = (kind.word(), if call.is_empty() { "" } else { ": " });
    write(&mut state, &format!("{word}: {call}{separator}{text}"));
}

/// Writes what the environment says of work queues, where it says something.
pub(crate) fn connections() {
    if let Ok(value) = std::env::var("CUDA_DEVICE_MAX_CONNECTIONS") {
        let mut state = STATE.lock();
        if !state.mistakes_alone {
            write(&mut state, &format!("connections: {value}"));
        }
    }
}

/// The last line.
pub(crate) fn end() {
    let mut state = STATE.lock();
    if state.mistakes_alone {
        return;
    }
    let found = |kind| state.found.get(&kind).copied().unwrap_or(0);
    let calls: String = state.calls.iter().map(|(name, count)| format!(" {name}={count}")).collect();
    let executed: String = state.executed.iter().map(|(name, count)| format!(" {name}={count}")).collect();
    let executed = if executed.is_empty() { executed } else { format!("; executed:{executed}") };
    let line = format!(
        "end: {} violations, {} hazards, {} leaks; calls:{calls}{executed}",
        found(Kind::Violation),
        found(Kind::Hazard),
        found(Kind::Leak)
    );
    write(&mut state, &line);
}

/// One write a line, so that lines of several processes stay whole. A log that cannot be written must not go unnoticed.
fn write(state: &mut State, line: &str) {
    let line = format!("{line}\n");
    let written = match &mut state.file {
        Some(file) => file.write_all(line.as_bytes()),
        // Users may have closed it.
        None if state.mistakes_alone => {
            std::io::stderr().write_all(format!("ptx: {line}").as_bytes()).or(Ok(()))
        }
        None => std::io::stderr().write_all(format!("fake-cuda: {line}").as_bytes()),
    };
    written.expect("the fake driver's log can be written");
}
