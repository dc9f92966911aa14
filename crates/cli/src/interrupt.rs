//! Ctrl-C: the first asks running work to end, the second ends the process.

use std::io::{self, PipeReader, Read};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::low_level::pipe;

use crate::exit::INTERRUPTED;

/// The flag of this process.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Signals that come so soon after the first are the same request: `timeout` sends its own to the command and to the
/// command's group, and a shell may add one.
const SAME: Duration = Duration::from_millis(500);

/// Whether the first signal has come.
pub fn asked() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// A flag that SIGINT and SIGTERM set. Each signal puts a byte into a pipe: signal-hook's iterator wants a pair of
/// sockets, which a kernel without networks lacks.
pub fn flag() -> io::Result<Arc<AtomicBool>> {
    let stop = STOP.get_or_init(Arc::default).clone();
    let (signals, sender) = io::pipe()?;
    for signal in [SIGINT, SIGTERM] {
        pipe::register(signal, sender.try_clone()?)?;
    }
    let flag = stop.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || wait(signals, &flag))?;
    Ok(stop)
}

/// Waits for signals to the end of the process.
fn wait(mut signals: PipeReader, stop: &AtomicBool) {
    let (mut first, mut byte) = (None::<Instant>, [0]);
    while signals.read_exact(&mut byte).is_ok() {
        if first.get_or_insert_with(Instant::now).elapsed() >= SAME {
            signal_hook::low_level::exit(INTERRUPTED.into());
        }
        stop.store(true, Ordering::Relaxed);
    }
}
