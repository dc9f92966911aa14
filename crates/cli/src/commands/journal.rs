//! `bench --journal FILE`: each run of a sweep is in the file as soon as it has ended, so that none is lost to whatever ends
//! the command. The same command with the same file goes on.

use std::fs::{File, TryLockError};
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warpbell_workload::{BenchReport, Run};

use super::sweep::{Kept, Now};
use crate::args::BenchArgs;
use crate::exit::Ending;

/// Name and version of the form: a line for the sweep, then one for each turn.
const JOURNAL_SCHEMA: &str = "warpbell.journal/2";

/// The first line.
#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
    /// Of each SSD the report, as yet without runs.
    devices: Vec<BenchReport>,
}

/// Every other line: a turn that has ended, with the run of each SSD.
#[derive(Serialize, Deserialize)]
struct Ended {
    runs: Vec<Run>,
}

/// The file, open to be added to, and locked against other commands.
pub struct Journal {
    path: PathBuf,
    file: File,
}

impl Journal {
    /// What the journal has of this sweep, and the journal itself; neither where none is asked for. `empty` are the
    /// reports without runs.
    pub fn open(
        args: &BenchArgs,
        now: &Now<'_>,
        empty: &[BenchReport],
    ) -> Result<Option<(Kept, Journal)>, Ending> {
        let Some(path) = &args.results.journal else { return Ok(None) };
        let failed = |error: std::io::Error| Ending::file(format!("--journal {}", path.display()), &error);
        let refuse = |why: String| Ending::usage(format!("--journal {}: {why}", path.display()));
        if args.trace.trace.is_some() || args.trace.replay.is_some() {
            return Err(refuse(
                "it does not keep the events of a trace; without --trace and --replay".into(),
            ));
        }
        // Each line goes to the end, wherever that is by then.
        let file = File::options().read(true).append(true).create(true).open(path).map_err(failed)?;
        match file.try_lock() {
            Err(TryLockError::WouldBlock) => return Err(refuse("another command writes to it".into())),
            Err(TryLockError::Error(error)) => return Err(failed(error)),
            Ok(()) => {}
        }
        if !file.metadata().map_err(failed)?.is_file() {
            return Err(refuse("no regular file: nothing is kept there".into()));
        }
        let mut journal = Journal { path: path.clone(), file };
        let text = std::fs::read_to_string(path).map_err(failed)?;
        if text.is_empty() {
            let head = Head { schema: JOURNAL_SCHEMA.to_owned(), devices: empty.to_vec() };
            journal.add(&head)?;
            return Ok(Some((Kept::default(), journal)));
        }
        let (reports, whole) = read(path, &text).map_err(refuse)?;
        let kept = Kept::of(reports, now).map_err(refuse)?;
        // What a killed command wrote of its last line goes.
        journal.file.set_len(whole as u64).map_err(failed)?;
        eprintln!("--journal {}: {} runs are kept", path.display(), kept.count());
        Ok(Some((kept, journal)))
    }

    /// A turn that has ended: the run of each SSD.
    pub fn keep(&mut self, runs: Vec<Run>) -> Result<(), Ending> {
        self.add(&Ended { runs })
    }

    fn add(&mut self, line: &impl Serialize) -> Result<(), Ending> {
        let failed = |why: String| Ending::failed(format!("--journal {}: {why}", self.path.display()));
        let mut text = serde_json::to_string(line).map_err(|error| failed(error.to_string()))?;
        text.push('\n');
        // One write: a command that is killed leaves whole lines, but for the last one.
        self.file.write_all(text.as_bytes()).map_err(|error| failed(error.to_string()))
    }
}

/// The reports with the runs that were kept, and how many bytes of the text are whole lines.
fn read(path: &Path, text: &str) -> Result<(Vec<BenchReport>, usize), String> {
    let whole = text.rfind('\n').map_or(0, |end| end + 1);
    let mut lines = (1..).zip(text[..whole].lines());
    let head = lines.next().and_then(|(_, line)| serde_json::from_str::<Head>(line).ok());
    let Some(Head { mut devices, .. }) = head.filter(|head| head.schema == JOURNAL_SCHEMA) else {
        return Err(format!(
            "it is no journal, {JOURNAL_SCHEMA}; name another file, or remove {}",
            path.display()
        ));
    };
    for (number, line) in lines {
        let ended: Ended = serde_json::from_str(line).map_err(|error| format!("line {number}: {error}"))?;
        let (runs, all) = (ended.runs.len(), devices.len());
        if runs != all {
            return Err(format!("line {number}: runs of {runs} SSDs, the sweep has {all}"));
        }
        devices.iter_mut().zip(ended.runs).for_each(|(report, run)| report.runs.push(run));
    }
    Ok((devices, whole))
}
