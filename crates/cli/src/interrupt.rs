//! Ctrl-C: the first asks running work to end, the second ends the process.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use crate::exit::INTERRUPTED;

/// A flag that SIGINT and SIGTERM set.
pub fn flag() -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM] {
        // The order matters: the shutdown looks at the flag before this signal sets it.
        signal_hook::flag::register_conditional_shutdown(signal, i32::from(INTERRUPTED), stop.clone())?;
        signal_hook::flag::register(signal, stop.clone())?;
    }
    Ok(stop)
}
