//! Sweeps: `--axis bs=512,4k --axis iodepth=1..64*4` runs every combination.

mod flags;

use std::collections::BTreeSet;

pub use flags::{NOT_SWEPT, swept};
pub(crate) use flags::{cpu_list, on_off, ring_places};

use crate::options::BenchOptions;
use crate::size::ByteSize;

/// The most runs of one sweep.
pub const MAX_RUNS: usize = 10_000;
/// Why an axis was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// Not `NAME=VALUES`.
    #[error(
        "--axis {axis}: expected NAME=VALUE,VALUE or NAME=FIRST..LAST*FACTOR or NAME=FIRST..LAST+STEP or NAME=FACTOR*FLAG"
    )]
    Form {
        /// What was given.
        axis: String,
    },
    /// A value between commas that is not there.
    #[error("--axis {axis}: a value is missing beside a comma")]
    Missing {
        /// What was given.
        axis: String,
    },
    /// A range that goes nowhere.
    #[error("--axis {axis}: {reason}")]
    Range {
        /// What was given.
        axis: String,
        /// Why not.
        reason: &'static str,
    },
    /// A range whose end lies before its beginning.
    #[error("--axis {axis}: no value: it begins at {first}, which is above its end, {last}")]
    Empty {
        /// What was given.
        axis: String,
        /// Its beginning.
        first: u64,
        /// Its end.
        last: u64,
    },
    /// Not a flag with values.
    #[error("--axis {name}: expected one of {}", swept().collect::<Vec<_>>().join(", "))]
    Name {
        /// What was given.
        name: String,
    },
    /// A flag that cannot be swept.
    #[error("--axis {name}: it cannot be swept: {reason}")]
    NotSwept {
        /// The flag.
        name: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// A value that the flag does not take.
    #[error("--axis {name}={value}: {reason}")]
    Value {
        /// The flag.
        name: String,
        /// The value.
        value: String,
        /// What the flag says.
        reason: String,
    },
    /// The same flag twice.
    #[error("--axis {name}: given twice")]
    Twice {
        /// The flag.
        name: String,
    },
    /// Too many combinations.
    #[error("--axis: {runs} combinations, the limit is {MAX_RUNS}")]
    TooMany {
        /// Combinations.
        runs: u128,
    },
    /// A value that follows another flag, which cannot be followed.
    #[error("--axis {name}={factor}*{of}: {reason}")]
    Tie {
        /// The flag.
        name: String,
        /// What it is multiplied by.
        factor: u64,
        /// The flag that it follows.
        of: String,
        /// Why not.
        reason: &'static str,
    },
}

/// One flag with the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    name: String,
    values: Values,
}

/// What a flag takes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Values {
    /// One after the other.
    Listed(Vec<String>),
    /// From a beginning to an end, by a step and a factor of which one does nothing.
    Range { first: u64, last: u64, step: u64, factor: u64 },
    /// So many times what another flag has.
    Tied { factor: u64, of: String },
}

impl std::str::FromStr for Axis {
    type Err = AxisError;

    fn from_str(text: &str) -> Result<Axis, AxisError> {
        let form = || AxisError::Form { axis: text.to_owned() };
        let (name, values) = text.split_once('=').ok_or_else(form)?;
        // Of two names of a flag, the newer.
        let name = named(name)?.name;
        let values = if values.contains("..") && name != flags::FAULT {
            let stuck = |reason| AxisError::Range { axis: text.to_owned(), reason };
            range(values).ok_or_else(form)?.map_err(stuck)?
        } else if let Some((factor, of)) = tie(values) {
            Values::Tied { factor, of }
        } else if values.split(',').any(str::is_empty) {
            return Err(AxisError::Missing { axis: text.to_owned() });
        } else {
            Values::Listed(values.split(',').map(str::to_owned).collect())
        };
        let axis = Axis { name: name.to_owned(), values };
        axis.check(text)?;
        Ok(axis)
    }
}

impl Axis {
    /// The flag.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many values it takes.
    fn count(&self) -> u128 {
        match &self.values {
            Values::Listed(values) => values.len() as u128,
            Values::Range { first, last, step, .. } if *step > 0 => u128::from((last - first) / step) + 1,
            Values::Range { .. } => self.all().len() as u128,
            Values::Tied { .. } => 1,
        }
    }

    /// The values as they are written; of a range by steps no more than a sweep may have.
    fn all(&self) -> Vec<String> {
        match &self.values {
            Values::Listed(values) => values.clone(),
            Values::Range { first, last, step, factor } => {
                let next = |value: &u64| value.checked_mul(*factor)?.checked_add(*step);
                let values = std::iter::successors(Some(*first), next).take_while(|value| value <= last);
                values.take(MAX_RUNS + 1).map(|value| value.to_string()).collect()
            }
            Values::Tied { .. } => Vec::new(),
        }
    }

    fn check(&self, text: &str) -> Result<(), AxisError> {
        match &self.values {
            Values::Range { first, last, .. } if first > last => {
                Err(AxisError::Empty { axis: text.to_owned(), first: *first, last: *last })
            }
            Values::Tied { factor, of } => {
                number_of(&BenchOptions { warps: Some(1), ..BenchOptions::default() }, of)
                    .map(|_| ())
                    .ok_or_else(|| {
                        self.untied(*factor, of, "only --bs, --iodepth, --queues and --warps can be followed")
                    })
            }
            _ => self.check_values(),
        }
    }

    /// Each value is one of the flag, and no two are the same: their runs would be one point.
    fn check_values(&self) -> Result<(), AxisError> {
        let (mut options, mut seen) = (BenchOptions::default(), BTreeSet::new());
        self.all().into_iter().try_for_each(|value| {
            set(&mut options, &self.name, &value)?;
            let shown = shown(&options, &self.name);
            let reason = format!("{shown} is given twice");
            let name = self.name.clone();
            seen.insert(shown).then_some(()).ok_or(AxisError::Value { name, value, reason })
        })
    }

    fn untied(&self, factor: u64, of: &str, reason: &'static str) -> AxisError {
        AxisError::Tie { name: self.name.clone(), factor, of: of.to_owned(), reason }
    }

    /// Sets what follows another flag, which has its value by now.
    fn follow(&self, options: &mut BenchOptions, axes: &[Axis]) -> Result<(), AxisError> {
        let Values::Tied { factor, of } = &self.values else { return Ok(()) };
        let untied = |reason| Err(self.untied(*factor, of, reason));
        if axes.iter().any(|axis| axis.name == *of && matches!(axis.values, Values::Tied { .. })) {
            return untied("what it follows must not itself follow a flag");
        }
        let Some(value) = number_of(options, of) else {
            return untied("what it follows must be given, as a flag or by an --axis");
        };
        let Some(value) = value.checked_mul(*factor) else { return untied("the product is above 64 bits") };
        set(options, &self.name, &value.to_string())
    }
}

/// `FACTOR*FLAG`, or the other way round.
fn tie(text: &str) -> Option<(u64, String)> {
    let (one, other) = text.split_once('*')?;
    let parts = |factor: &str, flag: &str| {
        let factor = factor.parse::<ByteSize>().ok().filter(|factor| factor.0 > 0)?;
        // Anything that begins like a flag is meant as one.
        flag.starts_with(|letter: char| letter.is_ascii_lowercase()).then(|| (factor.0, flag.to_owned()))
    };
    parts(one, other).or_else(|| parts(other, one))
}

/// What a flag that others can follow has; nothing where it was left open, or is none of these.
fn number_of(options: &BenchOptions, name: &str) -> Option<u64> {
    match name {
        "bs" => Some(options.bs.0),
        "iodepth" => Some(options.iodepth.into()),
        "queues" => Some(options.queues.into()),
        "warps" => options.warps.map(u64::from),
        _ => None,
    }
}

/// `FIRST..LAST*FACTOR` and `FIRST..LAST+STEP`, both ends included where they are met; or why it never meets its end.
fn range(text: &str) -> Option<Result<Values, &'static str>> {
    let (first, rest) = text.split_once("..")?;
    let (last, step, factor) = match (rest.split_once('*'), rest.split_once('+')) {
        (Some((last, factor)), None) => (last, 0, factor.parse::<u64>().ok()?),
        (None, Some((last, step))) => (last, step.parse::<ByteSize>().ok()?.0, 1),
        _ => return None,
    };
    let (ByteSize(first), ByteSize(last)) = (first.parse().ok()?, last.parse().ok()?);
    Some(match (first, step, factor) {
        (_, 0, 0 | 1) => {
            Err("FIRST..LAST*FACTOR needs a FACTOR of 2 or more, FIRST..LAST+STEP a STEP of 1 or more")
        }
        (0, 0, _) => Err("FIRST..LAST*FACTOR needs a FIRST of 1 or more: 0 stays 0"),
        _ => Ok(Values::Range { first, last, step, factor }),
    })
}

/// The flag with this name; or why it cannot be swept.
fn named(name: &str) -> Result<&'static flags::Flag, AxisError> {
    if let Some(flag) = flags::named(name) {
        return Ok(flag);
    }
    match NOT_SWEPT.iter().find(|(flag, _)| *flag == name) {
        Some((name, reason)) => Err(AxisError::NotSwept { name, reason }),
        None => Err(AxisError::Name { name: name.to_owned() }),
    }
}

/// Sets one flag of `options` to a value as users write it.
fn set(options: &mut BenchOptions, name: &str, value: &str) -> Result<(), AxisError> {
    let wrong = |error: flags::ValueError| {
        let reason = error.to_string();
        AxisError::Value { name: name.to_owned(), value: value.to_owned(), reason }
    };
    named(name)?.set(options, value).map_err(wrong)
}

/// Every combination of the axes' values over `base`; the last axis varies fastest. Without axes,
/// `base` alone.
pub fn sweep(base: &BenchOptions, axes: &[Axis]) -> Result<Vec<BenchOptions>, AxisError> {
    let runs = axes.iter().fold(1u128, |runs, axis| runs.saturating_mul(axis.count()));
    if runs > MAX_RUNS as u128 {
        return Err(AxisError::TooMany { runs });
    }
    let mut all = vec![base.clone()];
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|earlier| earlier.name == axis.name) {
            return Err(AxisError::Twice { name: axis.name.clone() });
        }
        if matches!(axis.values, Values::Tied { .. }) {
            continue;
        }
        let values = axis.all();
        let mut next = Vec::with_capacity(all.len() * values.len());
        for options in &all {
            for value in &values {
                let mut options = options.clone();
                set(&mut options, &axis.name, value)?;
                next.push(options);
            }
        }
        all = next;
    }
    for options in &mut all {
        axes.iter().try_for_each(|axis| axis.follow(options, axes))?;
    }
    Ok(all)
}

/// What `options` differ in from `base`, as a user would write it: `bs=512 iodepth=64`.
pub fn point_name(axes: &[Axis], options: &BenchOptions) -> String {
    let value = |axis: &Axis| format!("{}={}", axis.name, shown(options, &axis.name));
    axes.iter().map(value).collect::<Vec<_>>().join(" ")
}

/// A flag's value in `options`.
fn shown(options: &BenchOptions, name: &str) -> String {
    flags::named(name).map(|flag| flag.shown(options)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(text: &str) -> Axis {
        text.parse().unwrap()
    }

    #[test]
    fn combinations_in_order() {
        let runs = sweep(&BenchOptions::default(), &[axis("bs=512,4k"), axis("iodepth=1,32")]).unwrap();
        let points: Vec<_> = runs.iter().map(|run| (run.bs.0, run.iodepth)).collect();
        assert_eq!(points, [(512, 1), (512, 32), (4096, 1), (4096, 32)]);
        assert_eq!(sweep(&BenchOptions::default(), &[]).unwrap().len(), 1);
    }

    #[test]
    fn ranges() {
        assert_eq!(axis("iodepth=1..64*4").all(), ["1", "4", "16", "64"]);
        assert_eq!(axis("bs=4k..16k*2").all(), ["4096", "8192", "16384"]);
        assert_eq!(axis("queues=1..8+3").all(), ["1", "4", "7"]);
        assert_eq!((axis("queues=1..8+3").count(), axis("bs=4k..16k*2").count()), (3, 3));
        let empty = "iodepth=64..1*2".parse::<Axis>().unwrap_err().to_string();
        assert_eq!(empty, "--axis iodepth=64..1*2: no value: it begins at 64, which is above its end, 1");
        for text in ["iodepth=1..8", "bs=1..x*2"] {
            assert!(matches!(text.parse::<Axis>(), Err(AxisError::Form { .. })), "{text}");
        }
        for text in ["iodepth=0..8*2", "iodepth=1..8*1", "iodepth=1..8*0", "iodepth=1..8+0"] {
            assert!(matches!(text.parse::<Axis>(), Err(AxisError::Range { .. })), "{text}");
        }
    }

    #[test]
    fn refusals() {
        assert!(matches!("bs".parse::<Axis>(), Err(AxisError::Form { .. })));
        assert!(matches!("sizes=1,2".parse::<Axis>(), Err(AxisError::Name { .. })));
        let line = "nsid=1,2".parse::<Axis>().unwrap_err().to_string();
        assert!(line.starts_with("--axis nsid: it cannot be swept: a result is of one range"), "{line}");
        assert_eq!(
            "rw=read,trim".parse::<Axis>().unwrap_err().to_string(),
            "--axis rw=trim: 'trim': expected one of read, write, randread, randwrite, randrw"
        );
        for missing in ["iodepth=1,,2", "bs=4k,", "bs="] {
            assert!(matches!(missing.parse::<Axis>(), Err(AxisError::Missing { .. })), "{missing}");
        }
        for (twice, line) in [
            ("bs=4k,512,4096", "--axis bs=4096: 4k is given twice"),
            ("api=io,io", "--axis api=io: io is given twice"),
        ] {
            assert_eq!(twice.parse::<Axis>().unwrap_err().to_string(), line);
        }
        let base = BenchOptions::default();
        assert!(matches!(sweep(&base, &[axis("bs=512"), axis("bs=4k")]), Err(AxisError::Twice { .. })));
        let all = sweep(&base, &[axis("seed=1..4294967295+1")]).unwrap_err().to_string();
        assert_eq!(all, "--axis: 4294967295 combinations, the limit is 10000");
        let wide = axis("seed=1..200+1");
        assert!(matches!(
            sweep(&base, &[wide, axis("iodepth=1..200+1")]),
            Err(AxisError::TooMany { runs: 40_000 })
        ));
    }

    #[test]
    fn a_value_may_follow_another_flag() {
        let base = BenchOptions::default();
        let points = |axes: &[&str]| {
            let axes: Vec<Axis> = axes.iter().map(|text| axis(text)).collect();
            let runs = sweep(&base, &axes).map_err(|error| error.to_string())?;
            Ok::<_, String>(runs.iter().map(|run| (run.warps, run.iodepth)).collect::<Vec<_>>())
        };
        let tied = Ok(vec![(Some(1), 32), (Some(2), 64), (Some(4), 128)]);
        assert_eq!(points(&["warps=1..4*2", "iodepth=32*warps"]), tied);
        assert_eq!(points(&["iodepth=warps*32", "warps=1..4*2"]), tied, "in any order");
        assert_eq!(points(&["warps=2*queues"]), Ok(vec![(Some(2), 32)]), "a flag's own value");
        let open = points(&["iodepth=32*warps"]).unwrap_err();
        assert!(open.starts_with("--axis iodepth=32*warps: what it follows must be given"), "{open}");
        let circle = points(&["iodepth=2*warps", "warps=2*iodepth"]).unwrap_err();
        assert!(circle.contains("must not itself follow"), "{circle}");
        let word = "iodepth=2*rw".parse::<Axis>().unwrap_err().to_string();
        assert!(word.contains("only --bs, --iodepth, --queues and --warps"), "{word}");
        let slip = "iodepth=2*warp".parse::<Axis>().unwrap_err().to_string();
        assert!(slip.starts_with("--axis iodepth=2*warp: only --bs"), "{slip}");
    }

    #[test]
    fn options_of_opening_are_swept_like_others() {
        let axes = [axis("dbbuf=on,off"), axis("rings=host,sq=cmb+cq=hbm"), axis("wide-cids=off")];
        let runs = sweep(&BenchOptions::default(), &axes).unwrap();
        let names: Vec<String> = runs.iter().map(|run| point_name(&axes, run)).collect();
        assert_eq!(names[0], "dbbuf=on rings=host wide-cids=off");
        assert_eq!(names[3], "dbbuf=off rings=sq=cmb+cq=hbm wide-cids=off");
        assert_eq!(runs[3].opening.rings, "sq=cmb,cq=hbm".parse().unwrap());
        let line = |text: &str| text.parse::<Axis>().unwrap_err().to_string();
        assert!(
            line("rings=moon").starts_with("--axis rings=moon: 'moon': expected host, cmb, hbm, bar:BDF/N")
        );
        assert!(line("data=cmb").starts_with("--axis data=cmb: 'cmb': data cannot lie in the controller"));
        assert_eq!(line("dbbuf=yes"), "--axis dbbuf=yes: 'yes': expected one of auto, on, off");
        assert_eq!(line("wide-cids=1"), "--axis wide-cids=1: '1': expected on or off");
        assert_eq!(
            line("doorbells=by-hand"),
            "--axis doorbells=by-hand: 'by-hand': expected auto, mapped or forwarded"
        );
        assert!(
            line("random-distribution=zipf:11")
                .contains("theta 11 is outside of its limits: above 0, at most 10")
        );
    }

    #[test]
    fn a_flag_may_be_left_out_at_some_points() {
        let axes =
            [axis("threads=default,1"), axis("cpus=default,0-1+3"), axis("fault=default,../plan.toml")];
        let runs = sweep(&BenchOptions::default(), &axes).unwrap();
        assert_eq!((runs[0].threads, &runs[0].cpus, &runs[0].opening.fault), (None, &Vec::new(), &None));
        assert_eq!((runs[7].threads, &runs[7].cpus), (Some(1), &vec![0, 1, 3]));
        assert_eq!(point_name(&axes, &runs[7]), "threads=1 cpus=0+1+3 fault=../plan.toml");
        let times = [axis("runtime=1..4*2"), axis("timeout=500ms,2s")];
        let runs = sweep(&BenchOptions::default(), &times).unwrap();
        assert_eq!(point_name(&times, &runs[2]), "runtime=2s timeout=500ms");
        assert_eq!(axis("deadline=500ms,2s"), times[1], "its name of before");
    }

    #[test]
    fn points_are_named_by_what_varies() {
        let axes = [axis("bs=512,4k"), axis("warps=1,2")];
        let runs = sweep(&BenchOptions::default(), &axes).unwrap();
        assert_eq!(point_name(&axes, &runs[1]), "bs=512 warps=2");
    }
}
