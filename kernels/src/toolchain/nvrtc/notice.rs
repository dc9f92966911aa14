//! Says that a compilation takes long, where a user may wonder: at a terminal, in a program that does not watch.

use std::io::{IsTerminal as _, Write as _, stderr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// What takes less is not worth a line.
const PATIENCE: Duration = Duration::from_secs(2);
/// A program says it once.
static SAID: AtomicBool = AtomicBool::new(false);

/// Dropped with the end of a compilation.
pub(super) struct Notice(#[expect(dead_code, reason = "its end is the message")] Sender<()>);

/// Says once to standard error that `what` is compiled, if that is a terminal and this notice lives for long.
pub(super) fn of(what: &str) -> Option<Notice> {
    if !stderr().is_terminal() || SAID.load(Ordering::Relaxed) {
        return None;
    }
    after(PATIENCE, what, |line| {
        // Nobody may read it any more.
        let _ = stderr().write_all(line.as_bytes());
    })
}

fn after(patience: Duration, what: &str, say: impl FnOnce(&str) + Send + 'static) -> Option<Notice> {
    let (end, ended) = channel();
    let line = format!("compiling {what} by NVRTC: ten seconds or more, once; the result is kept\n");
    let wait = move || {
        let long = ended.recv_timeout(patience) == Err(RecvTimeoutError::Timeout);
        if long && !SAID.swap(true, Ordering::Relaxed) {
            say(&line);
        }
    };
    std::thread::Builder::new().name("notice".to_owned()).spawn(wait).ok().map(|_| Notice(end))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_long_compilation_is_told_once_and_a_short_one_never() {
        let (said, lines) = channel();
        let notice = |patience, what: &str| {
            let said = said.clone();
            after(patience, what, move |line| said.send(line.to_owned()).unwrap())
        };
        drop(notice(Duration::from_secs(600), "short"));
        let first = notice(Duration::ZERO, "long");
        let line = lines.recv().unwrap();
        assert!(line.starts_with("compiling long by NVRTC: ") && line.ends_with('\n'), "{line}");
        drop(first);
        drop(notice(Duration::ZERO, "another"));
        drop(said);
        assert_eq!(lines.iter().collect::<Vec<_>>(), Vec::<String>::new());
    }
}
