//! The log of the layers below, on stderr.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Says which messages to log, in the words of `tracing_subscriber`'s filters.
const VARIABLE: &str = "WARPBELL_LOG";

/// Starts the log: nothing by default, as errors have a line of their own.
pub fn start(verbosity: u8) {
    let level = match verbosity {
        0 => "off",
        1 => "warn",
        2 => "debug",
        _ => "trace",
    };
    let filter = EnvFilter::try_from_env(VARIABLE).unwrap_or_else(|_| EnvFilter::new(level));
    let colour =
        std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(colour).init();
}
