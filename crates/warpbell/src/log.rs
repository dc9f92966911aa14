//! What programs log of the layers below, as their users ask for it.

use std::sync::Once;

use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::FmtSpan;

/// Say which messages to log, in the words of `tracing_subscriber`'s filters; the first that is set counts.
const VARIABLES: [&str; 2] = ["WARPBELL_LOG", "RUST_LOG"];

/// What the environment variables `WARPBELL_LOG` and `RUST_LOG` ask for: the first that is set and not empty counts. A
/// filter that is none is not passed over in silence: a line on stderr says so, and nothing is asked for.
pub fn filter_of_environment() -> Option<EnvFilter> {
    let set = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
    let (name, value) = VARIABLES.into_iter().find_map(|name| Some((name, set(name)?)))?;
    let filter = EnvFilter::try_new(&value);
    filter
        .inspect_err(|error| {
            eprintln!("warning: {name}={value}: {error}; expected info, warpbell_driver=debug or the like")
        })
        .ok()
}

/// Starts a log on stderr if the environment asks for one, once in a process: for programs in other languages, which have
/// no log of Rust's. A log that somebody else started stays.
pub fn start_if_asked() {
    static STARTED: Once = Once::new();
    STARTED.call_once(|| {
        let Some(filter) = filter_of_environment() else { return };
        let log = tracing_subscriber::fmt().with_env_filter(filter).with_span_events(FmtSpan::CLOSE);
        // Refused where there is a log already.
        let _ = log.with_writer(std::io::stderr).with_ansi(false).try_init();
    });
}
