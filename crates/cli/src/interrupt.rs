//! Ctrl-C: the first asks running work to end, the second ends the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use crate::exit::INTERRUPTED;

/// The flag of this process.
static STOP: OnceLock<Arc<AtomicBool>> = OnceLock::new();

/// Whether the first signal has come.
pub fn asked() -> bool {
    STOP.get().is_some_and(|stop| stop.load(Ordering::Relaxed))
}

/// A flag that SIGINT and SIGTERM set.
pub fn flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = STOP.get_or_init(Arc::default).clone();
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the shutdown looks at the flag before this signal sets it.
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
