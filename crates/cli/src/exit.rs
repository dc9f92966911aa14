//! How the command ends: one line, and an exit code that scripts can tell apart.

use warpbell_workload::permission::PermissionError;

/// Why the command ended without success.
#[derive(Debug)]
pub struct Ending {
    code: u8,
    message: Option<String>,
}

/// It ran, but something went wrong.
pub const FAILED: u8 = 1;
/// The command line asks for what cannot be.
pub const USAGE: u8 = 2;
/// Refused, because it might destroy something.
pub const REFUSED: u8 = 3;
/// Something that the command needs is missing here.
pub const MISSING: u8 = 4;
/// Interrupted by a signal.
pub const INTERRUPTED: u8 = 130;

impl Ending {
    /// Ends with `code` and one line on stderr.
    pub fn new(code: u8, message: impl std::fmt::Display) -> Ending {
        Ending { code, message: Some(message.to_string()) }
    }

    /// Ends with `code`; what there is to say has been printed.
    pub fn silent(code: u8) -> Ending {
        Ending { code, message: None }
    }

    /// Ends as a wrong command line.
    pub fn usage(message: impl std::fmt::Display) -> Ending {
        Ending::new(USAGE, message)
    }

    /// Ends as a failure of what was tried.
    pub fn failed(message: impl std::fmt::Display) -> Ending {
        Ending::new(FAILED, message)
    }

    /// The exit code.
    pub fn code(&self) -> u8 {
        self.code
    }

    /// The line, if there is one.
    pub fn message(&self) -> &str {
        self.message.as_deref().unwrap_or_default()
    }

    /// Ends for a file that the command line names: one that is not there, or is no file, is a wrong command line, whatever
    /// flag names it.
    pub fn file(what: impl std::fmt::Display, error: &std::io::Error) -> Ending {
        use std::io::ErrorKind::{InvalidInput, IsADirectory, NotADirectory, NotFound};
        let wrong = [NotFound, IsADirectory, NotADirectory, InvalidInput].contains(&error.kind());
        let code = if wrong { USAGE } else { FAILED };
        Ending::new(code, format!("{what}: {error}"))
    }

    /// With what else is to be said.
    pub fn and(self, more: &str) -> Ending {
        let message = self.message.map(|message| format!("{message}; {more}"));
        Ending { message, ..self }
    }

    /// Prints the line, if any, and gives the code.
    pub fn report(self) -> u8 {
        if let Some(message) = self.message {
            let line = one_line(&message);
            // Nothing is left to do where even stderr is closed.
            let _ = std::io::Write::write_all(&mut std::io::stderr(), format!("error: {line}\n").as_bytes());
        }
        self.code
    }
}

/// The end of the output's reader is no failure of ours: `warpbell list | head` ends quietly.
impl From<std::io::Error> for Ending {
    fn from(error: std::io::Error) -> Ending {
        match error.kind() {
            std::io::ErrorKind::BrokenPipe => Ending::silent(0),
            _ => Ending::failed(format!("standard output: {error}")),
        }
    }
}

impl From<PermissionError> for Ending {
    fn from(error: PermissionError) -> Ending {
        match error {
            PermissionError::Name(error) => error.into(),
            refused @ PermissionError::Refused { .. } => Ending::new(REFUSED, refused),
        }
    }
}

impl From<clap::Error> for Ending {
    fn from(error: clap::Error) -> Ending {
        Ending::usage(usage_line(&error))
    }
}

/// Clap's message on one line: the value's own complaint where there is one, else its first paragraph
/// and its tips.
fn usage_line(error: &clap::Error) -> String {
    use clap::error::{ContextKind, ContextValue};
    use std::error::Error;
    if let (Some(source), Some(ContextValue::String(argument))) =
        (error.source(), error.get(ContextKind::InvalidArg))
    {
        let name = argument.split_whitespace().next().unwrap_or(argument);
        let reason = match source.downcast_ref::<std::num::ParseIntError>() {
            Some(_) => WHOLE.to_owned(),
            None => source.to_string(),
        };
        let value = match error.get(ContextKind::InvalidValue) {
            Some(ContextValue::String(value)) => value.as_str(),
            _ => "",
        };
        if let Some(limit) = out_of_range(&reason) {
            return format!("{name} {value}: {limit}");
        }
        // What is no flag says itself what it is.
        if reason.starts_with(name) || name.starts_with(['[', '<']) {
            return reason;
        }
        let named = reason.contains(&format!("'{value}'"));
        return if named { format!("{name}: {reason}") } else { format!("{name} '{value}': {reason}") };
    }
    if let Some(hint) = hint(error) {
        return hint;
    }
    in_one_line(error)
}

/// The first paragraph and the tips, and where the options are listed for one that is not there.
fn in_one_line(error: &clap::Error) -> String {
    let text = error.render().to_string();
    let mut paragraphs = text.split("\n\n");
    let mut line = one_line(paragraphs.next().unwrap_or_default().trim_start_matches("error: "));
    let tips = paragraphs.flat_map(str::lines).filter_map(|line| line.trim().strip_prefix("tip: "));
    // What begins with a hyphen is meant as an option.
    for tip in tips.filter(|tip| !tip.contains("use '-- ")) {
        line = format!("{line}; {tip}");
    }
    if error.kind() == clap::error::ErrorKind::UnknownArgument
        && let Some(command) = command_of(&text)
    {
        line = format!("{line}; {command} --help lists the options");
    }
    line
}

/// The command in clap's line of usage, without what it takes.
fn command_of(text: &str) -> Option<String> {
    let usage = text.lines().find_map(|line| line.strip_prefix("Usage: "))?;
    let words =
        usage.split(' ').take_while(|word| word.starts_with(|letter: char| letter.is_ascii_lowercase()));
    Some(words.collect::<Vec<_>>().join(" "))
}

const WHOLE: &str = "expected a whole number";

/// The limit that a number misses, of clap's `VALUE is not in FIRST..=LAST`.
fn out_of_range(reason: &str) -> Option<String> {
    let (value, range) = reason.split_once(" is not in ")?;
    let (first, last) = range.split_once("..=")?;
    let (value, first): (i128, i128) = (value.parse().ok()?, first.parse().ok()?);
    Some(match value < first {
        // Nobody means it as a limit that a count is at least 0.
        true if first == 0 => WHOLE.to_owned(),
        true => format!("must be at least {first}"),
        false => format!("must be at most {last}"),
    })
}

/// What is here in the place of a flag of fio's.
const OF_FIO: [(&str, &str); 12] = [
    ("--numjobs", "a queue for each job is --queues N; threads for them, with --api host, --threads N"),
    ("--filename", "the device is DEVICE, as soft:file=PATH"),
    ("--blocksize", "it is --bs SIZE"),
    ("--rwmixwrite", "it is --rwmixread PERCENT, what is left of a hundred"),
    ("--ioengine", "who submits is --api NAME"),
    ("--direct", "all I/O is direct"),
    ("--time_based", "--runtime TIME alone does it"),
    ("--group_reporting", "all queues are reported together"),
    ("--name", "a run has no name"),
    ("--ramp_time", "it is --ramp TIME"),
    ("--iodepth_batch", "it is --gather N"),
    ("--randseed", "it is --seed N"),
];

/// A word about a flag that fio has, and `warpbell` calls otherwise.
fn hint(error: &clap::Error) -> Option<String> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return None };
    let (flag, instead) = OF_FIO.iter().find(|(flag, _)| argument == flag)?;
    (error.kind() == ErrorKind::UnknownArgument).then(|| format!("{flag} is fio's: {instead}"))
}

/// An error with its causes, and what helps where this process has too many files open.
pub fn explained(error: &dyn std::error::Error) -> String {
    let mut text = warpbell::error_chain(error);
    if text.contains("(os error 24)") {
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile).current;
        let limit = limit.map_or("any number of".to_owned(), |limit| limit.to_string());
        text = format!("{text}; this process may have {limit} files open: raise it with ulimit -n");
    }
    text
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::args::Cli;

    fn line(arguments: &[&str]) -> String {
        let all = std::iter::once("warpbell").chain(arguments.iter().copied());
        usage_line(&Cli::try_parse_from(all).unwrap_err())
    }

    #[test]
    fn wrong_flags_take_one_line() {
        for (arguments, start) in [
            (&["bench", "--bs", "4x"][..], "--bs: size '4x': expected a whole number"),
            (&["bench", "--rw", "trim"], "--rw: 'trim': expected one of read, write,"),
            (&["bench", "--iodpth", "3"], "unexpected argument '--iodpth' found; a similar argument"),
            (&["bench", "--iodepth", "x"], "--iodepth 'x': expected a whole number"),
            (&["bench", "--iodepth", "-1"], "--iodepth -1: expected a whole number"),
            (&["bench", "--queues", "65536"], "--queues 65536: must be at most 65535"),
            (&["bench", "--repeat", "0"], "--repeat 0: must be at least 1"),
            (&["bench", "--runtime", "3d"], "--runtime: duration '3d': expected"),
            (&["bench", "--axis", "bs"], "--axis bs: expected NAME="),
            (&["report"], "the following required arguments were not provided: <FILE>"),
            (&["bench", "--numjobs", "4"], "--numjobs is fio's: a queue for each job is --queues N"),
            (&["bench", "--numjobs=4"], "--numjobs is fio's: a queue for each job is --queues N"),
            (
                &["read", "soft:size=1m", "--size", "4k"],
                "unexpected argument '--size' found; warpbell read --help lists the options",
            ),
            (&["frobnicate"], "unrecognized subcommand 'frobnicate'"),
        ] {
            let line = line(arguments);
            assert!(line.starts_with(start), "{line}");
            assert!(!line.contains('\n'));
        }
    }

    #[test]
    fn a_closed_pipe_is_quiet() {
        let ending = Ending::from(std::io::Error::from(std::io::ErrorKind::BrokenPipe));
        assert_eq!((ending.code, ending.message), (0, None));
    }
}
