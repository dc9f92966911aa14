//! The log of the layers below, on stderr, for programs that have no log of Rust's.

use std::sync::Once;

use tracing_subscriber::fmt::format::FmtSpan;
use warpbell::log::filter_of_environment;

/// Starts the log if the environment asks for one, once in a process. A log that somebody else started stays.
pub(crate) fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Some(filter) = filter_of_environment() else { return };
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::CLOSE);
        // Refused where there is a log already.
        let _ = log.with_writer(std::io::stderr).with_ansi(false).try_init();
    });
}
