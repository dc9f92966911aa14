//! The log of the layers below, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;
use warpbell::log::filter_of_environment;

/// Starts the log: nothing by default, as errors have a line of their own.
pub fn start(verbosity: u8) {
    let level = match verbosity {
        0 => "off",
        1 => "warn",
        2 => "debug",
        _ => "trace",
    };
    let filter = filter_of_environment().unwrap_or_else(|| EnvFilter::new(level));
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    // A span's end says how long it took.
    let log = tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::CLOSE);
    log.with_writer(std::io::stderr).with_ansi(colour).init();
}
