//! The order in which `bench` runs the points of a sweep, how often, and which of them an interrupted result has already.

use std::collections::BTreeSet;
use std::fmt::Debug;
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use warpbell::DeviceName;
use warpbell_base::SplitMix64;
use warpbell_softctl::SoftConfig;
use warpbell_workload::{
    BENCH_SCHEMA, BenchReport, DeviceReport, EXPERIMENT_SCHEMA, ExperimentReport, GROUP_SCHEMA, InputFile,
    Job, Machine, Origin, PathReport, Run, name_points,
};

use crate::args::{BenchArgs, DeviceArgs};
use crate::date;
use crate::exit::Ending;
use crate::outputs;

/// One run that is to be: its point, and which of the repeats of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Index of the point.
    pub point: usize,
    /// From 0 on, where each point runs several times.
    pub repeat: Option<u32>,
}

/// The runs of a sweep in their order. Each round has every point once; with several rounds each is shuffled by the seed,
/// so that a drift of the machine favours no point.
pub fn turns(points: usize, repeat: u32, seed: u64) -> Vec<Turn> {
    let round = |round: u32| {
        let mut order: Vec<usize> = (0..points).collect();
        if repeat > 1 {
            SplitMix64::new(seed, u64::from(round)).shuffle(&mut order);
        }
        order.into_iter().map(move |point| Turn { point, repeat: (repeat > 1).then_some(round) })
    };
    (0..repeat).flat_map(round).collect()
}

impl Turn {
    /// The job of this turn: each repeat draws other addresses.
    pub fn job(self, job: &Job) -> Job {
        Job { seed: job.seed.wrapping_add(self.repeat.unwrap_or(0).into()), ..job.clone() }
    }

    /// What a run of this turn says of its place in the sweep.
    pub fn place(self, run: &mut Run, point: &str, order: usize) {
        (run.point, run.repeat) = (point.to_owned(), self.repeat);
        run.order = Some(order as u32);
    }
}

/// Runs come as they ran; results have them point by point.
pub fn in_order(mut runs: Vec<(usize, Run)>) -> Vec<Run> {
    runs.sort_by_key(|(point, run)| (*point, run.repeat));
    runs.into_iter().map(|(_, run)| run).collect()
}

/// How and where this command measures these devices. Its points have these plans of faults, beside those of the device.
pub fn origin<'a>(
    device: &DeviceArgs,
    faults: impl IntoIterator<Item = &'a PathBuf>,
) -> Result<Origin, Ending> {
    let named = device.devices().flat_map(|name| match name {
        DeviceName::Soft(text) => SoftConfig::plans(text),
        _ => Vec::new(),
    });
    let files: BTreeSet<PathBuf> =
        named.chain(device.fault.clone()).chain(faults.into_iter().cloned()).collect();
    let input = |path: PathBuf| {
        InputFile::read(path.clone())
            .map_err(|error| Ending::file(format_args!("plan or profile {}", path.display()), &error))
    };
    Ok(Origin {
        command: std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect(),
        commit: option_env!("WARPBELL_COMMIT").map(str::to_owned),
        began: date::now(),
        machine: Machine::this(),
        inputs: files.into_iter().map(input).collect::<Result<_, _>>()?,
    })
}

/// The file of `--csv`, and its name.
pub type Rows = (PathBuf, File);

/// The same: opened before anything runs.
pub fn rows(path: Option<&PathBuf>) -> Result<Option<Rows>, Ending> {
    path.map(|path| Ok((path.clone(), outputs::open("--csv", path)?))).transpose()
}

/// Writes them.
pub fn write_rows(to: Option<Rows>, rows: impl FnOnce() -> String) -> Result<(), Ending> {
    let Some((path, mut file)) = to else { return Ok(()) };
    let written = outputs::empty(&file).and_then(|()| file.write_all(rows().as_bytes()));
    written.map_err(|error| outputs::failed("--csv", &path, &error))
}

/// What a file has.
pub enum Kind {
    /// The results of `bench`: one, or one for each SSD.
    Bench(Vec<BenchReport>),
    /// Of an experiment.
    Experiment(Box<ExperimentReport>),
}

/// The results in a file, of whatever kind.
pub fn read_any(flag: &str, path: &Path) -> Result<Kind, Ending> {
    let wrong = |why: &dyn std::fmt::Display| Ending::usage(format!("{flag}{}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| match error.kind() {
        std::io::ErrorKind::InvalidData => wrong(&"no result of `warpbell bench -o json`: it is no text"),
        _ => Ending::file(format!("{flag}{}", path.display()), &error),
    })?;
    if text.trim().is_empty() {
        return Err(wrong(&"the file is empty; where it is the output of this command, too, name another"));
    }
    #[derive(Deserialize)]
    struct Named {
        schema: String,
    }
    #[derive(Deserialize)]
    struct Group {
        devices: Vec<BenchReport>,
    }
    let Named { schema } = serde_json::from_str(&text)
        .map_err(|error| wrong(&format!("no result of `warpbell bench -o json`: {error}")))?;
    let found = match schema.as_str() {
        BENCH_SCHEMA => serde_json::from_str(&text).map(|report| Kind::Bench(vec![report])),
        GROUP_SCHEMA => serde_json::from_str(&text).map(|Group { devices }| Kind::Bench(devices)),
        EXPERIMENT_SCHEMA => serde_json::from_str(&text).map(Kind::Experiment),
        other => {
            let known = format!("{BENCH_SCHEMA}, {GROUP_SCHEMA} or {EXPERIMENT_SCHEMA}");
            return Err(wrong(&format!("its schema is {other}; expected {known}")));
        }
    };
    let mut found = found.map_err(|error| wrong(&error))?;
    if let Kind::Bench(reports) = &mut found {
        reports.iter_mut().for_each(|report| name_points(&mut report.runs));
    }
    Ok(found)
}

/// What an interrupted command of the same kind has measured: its runs, by SSD.
#[derive(Debug, Default)]
pub struct Kept {
    runs: Vec<Vec<Run>>,
    /// How and where these were measured, the oldest first.
    pub origins: Vec<Origin>,
}

/// What is measured now.
pub struct Now<'a> {
    /// By which command.
    pub origin: &'a Origin,
    /// Where kernels run.
    pub target: &'a str,
    /// The SSDs, and the way to them.
    pub devices: &'a [(DeviceReport, PathReport)],
}

impl Kept {
    /// The whole runs in the file of `--resume`, if these are of the same command and program on the same machine and
    /// SSDs, the same way.
    pub fn read(args: &BenchArgs, now: &Now<'_>) -> Result<Kept, Ending> {
        let Some(path) = &args.results.resume else { return Ok(Kept::default()) };
        let refuse = |why: String| Ending::usage(format!("--resume {}: {why}", path.display()));
        if args.trace.trace.is_some() || args.trace.replay.is_some() {
            return Err(refuse(
                "a result does not keep the events of a trace; without --trace and --replay".into(),
            ));
        }
        let Kind::Bench(reports) = read_any("--resume ", path)? else {
            return Err(refuse("it is of an experiment, of which nothing is resumed".into()));
        };
        Kept::of(reports, now).map_err(refuse)
    }

    /// The whole runs of these reports; or why what is measured now would not be one result with them.
    pub fn of(reports: Vec<BenchReport>, now: &Now<'_>) -> Result<Kept, String> {
        let devices = now.devices;
        if reports.len() != devices.len() {
            return Err(format!("it is of {} SSDs, and {} were named", reports.len(), devices.len()));
        }
        for (report, device) in reports.iter().zip(devices) {
            if let Some(why) = difference(report, now, device) {
                return Err(why);
            }
        }
        let first = reports.first();
        let origins = first.into_iter().flat_map(|report| report.resumed_from.iter().chain(&report.origin));
        let origins = origins.cloned().collect();
        let whole = |report: BenchReport| report.runs.into_iter().filter(|run| !run.partial).collect();
        Ok(Kept { runs: reports.into_iter().map(whole).collect(), origins })
    }

    /// Runs of each SSD.
    pub fn count(&self) -> usize {
        self.runs.first().map_or(0, Vec::len)
    }

    /// How many of these turns are there, where the file was read that this command goes on from: told before the others run.
    pub fn tell(&self, args: &BenchArgs, turns: &[Turn], name: impl Fn(Turn) -> String) {
        let (resume, journal) = (&args.results.resume, &args.results.journal);
        let named = resume.as_ref().map(|path| ("--resume", path));
        let journal = journal.as_ref().filter(|_| self.count() > 0).map(|path| ("--journal", path));
        let Some((flag, path)) = named.or(journal) else { return };
        let kept = turns.iter().filter(|turn| self.take(**turn, &name(**turn)).is_some()).count();
        let (all, left) = (turns.len(), turns.len() - kept);
        eprintln!("{flag} {}: keeps {kept} of {all} runs, {left} are left", path.display());
    }

    /// What is there of this turn, of each SSD.
    pub fn take(&self, turn: Turn, point: &str) -> Option<Vec<Run>> {
        let same = |run: &&Run| run.point == point && run.repeat == turn.repeat;
        let found = self.runs.iter().map(|runs| runs.iter().find(same).cloned());
        found.collect::<Option<Vec<_>>>().filter(|runs| !runs.is_empty())
    }
}

/// Why what is measured now on this SSD would not be one result with `report`.
fn difference(
    report: &BenchReport,
    now: &Now<'_>,
    (device, path): &(DeviceReport, PathReport),
) -> Option<String> {
    let Some(theirs) = &report.origin else {
        return Some("it does not say by which command it was made".to_owned());
    };
    let (was, is) = (asked(&theirs.command), asked(&now.origin.command));
    if was != is {
        return Some(format!("it was made by `{}`, and this is `{}`", was.join(" "), is.join(" ")));
    }
    fn unlike<T: PartialEq + Debug>(what: &str, was: &T, is: &T) -> Option<String> {
        (was != is).then(|| format!("its {what} was {was:?}, and is {is:?} now"))
    }
    let shown = |inputs: &[InputFile]| {
        let each: Vec<String> = inputs.iter().map(InputFile::to_string).collect();
        if each.is_empty() { "nothing".to_owned() } else { each.join(", ") }
    };
    if theirs.inputs != now.origin.inputs {
        let (was, is) = (shown(&theirs.inputs), shown(&now.origin.inputs));
        return Some(format!("it was made with the content of {was}, and this has {is}"));
    }
    let version = env!("CARGO_PKG_VERSION");
    unlike("version of warpbell", &report.warpbell.as_str(), &version)
        .or_else(|| unlike("commit", &theirs.commit, &now.origin.commit))
        .or_else(|| unlike("machine", &theirs.machine, &now.origin.machine))
        .or_else(|| unlike("target", &report.target.as_str(), &now.target))
        .or_else(|| unlike("SSD", &report.device, device))
        .or_else(|| unlike("path of data and commands", &before_runs(&report.data_path), &before_runs(path)))
}

/// What is known of a path before kernels have run: how they ring doorbells follows from the command and the target.
fn before_runs(path: &PathReport) -> PathReport {
    PathReport { doorbells: String::new(), doorbells_refused: None, ..path.clone() }
}

/// The words of a command that say what is measured, and not what is made of it.
fn asked(command: &[String]) -> Vec<&str> {
    let valued: BTreeSet<&str> = ["--resume", "--journal", "--csv", "-o", "--output"].into();
    let (mut words, mut skip) = (Vec::new(), true);
    for word in command.iter().map(String::as_str) {
        let (flag, attached) = word.split_once('=').map_or((word, false), |(flag, _)| (flag, true));
        let short = word.strip_prefix("-o").is_some_and(|form| !form.is_empty());
        let drop = std::mem::take(&mut skip) || short || word.starts_with("-v") || word == "--verbose";
        skip = !drop && !attached && valued.contains(flag);
        if !drop && !valued.contains(flag) {
            words.push(word);
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounds_have_every_point_once_in_another_order() {
        let turns = |points, repeat| self::turns(points, repeat, 1);
        assert!(turns(5, 1).iter().map(|turn| turn.point).eq(0..5), "as the axes have them");
        assert_eq!(turns(2, 1)[0].repeat, None);
        let all = turns(20, 3);
        let rounds: Vec<Vec<usize>> =
            all.chunks(20).map(|round| round.iter().map(|turn| turn.point).collect()).collect();
        assert!(rounds[0] != rounds[1] && rounds[1] != rounds[2], "{rounds:?}");
        for (number, round) in rounds.iter().enumerate() {
            assert_eq!(round.iter().collect::<BTreeSet<_>>().len(), 20);
            assert!(all[number * 20..][..20].iter().all(|turn| turn.repeat == Some(number as u32)));
        }
        assert_eq!(all, turns(20, 3), "the same from the same seed");
    }

    #[test]
    fn what_becomes_of_a_result_is_not_what_is_measured() {
        let words = |line: &str| line.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let first = words("warpbell bench soft:size=1m -o json --csv a.csv --bs=512");
        let second = words(
            "./warpbell -ojson bench soft:size=1m --resume a.json --csv=b.csv --journal=j --bs=512 -vv",
        );
        assert_eq!(asked(&first), ["bench", "soft:size=1m", "--bs=512"]);
        assert_eq!(asked(&first), asked(&second));
    }
}
