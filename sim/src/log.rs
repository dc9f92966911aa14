//! The log of the layers below, as `RUST_LOG` asks for it, among what a test prints.

use std::sync::Once;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Starts the log, once in a process; without `RUST_LOG` there is none.
pub fn start() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Ok(filter) = EnvFilter::try_from_default_env() else { return };
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::CLOSE);
        // Refused where there is a log already.
        let _ = log.with_test_writer().with_ansi(false).try_init();
    });
}
