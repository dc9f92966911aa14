//! Sweeps: `--axis bs=512,4k --axis iodepth=1..64*4` runs every combination.

use crate::options::BenchOptions;
use crate::size::ByteSize;

/// The most runs of one sweep.
pub const MAX_RUNS: usize = 10_000;
/// Flags that can be swept.
const FLAGS: &[&str] = &[
    "bs",
    "iodepth",
    "queues",
    "warps",
    "agents",
    "block",
    "cache",
    "policy",
    "hit-rate",
    "spread",
    "rwmixread",
    "rw",
    "sharing",
    "api",
    "protocol",
    "gather",
    "completion",
    "seed",
];

/// Why an axis was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AxisError {
    /// Not `NAME=VALUES`.
    #[error("--axis {axis}: expected NAME=VALUE,VALUE or NAME=FIRST..LAST*FACTOR or NAME=FIRST..LAST+STEP")]
    Form {
        /// What was given.
        axis: String,
    },
    /// Not a flag with values.
    #[error("--axis {name}: expected one of {}", FLAGS.join(", "))]
    Name {
        /// What was given.
        name: String,
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
        runs: usize,
    },
}

/// One flag with the values that it takes in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axis {
    name: String,
    values: Vec<String>,
}

impl std::str::FromStr for Axis {
    type Err = AxisError;

    fn from_str(text: &str) -> Result<Axis, AxisError> {
        let form = || AxisError::Form { axis: text.to_owned() };
        let (name, values) = text.split_once('=').ok_or_else(form)?;
        if !FLAGS.contains(&name) {
            return Err(AxisError::Name { name: name.to_owned() });
        }
        let values = if values.contains("..") {
            range(values).ok_or_else(form)?
        } else {
            values.split(',').map(str::to_owned).collect()
        };
        let axis = Axis { name: name.to_owned(), values };
        for value in &axis.values {
            set(&mut BenchOptions::default(), name, value)?;
        }
        Ok(axis)
    }
}

/// `FIRST..LAST*FACTOR` and `FIRST..LAST+STEP`, both ends included where they are met.
fn range(text: &str) -> Option<Vec<String>> {
    let (first, rest) = text.split_once("..")?;
    let (last, step, factor) = match (rest.split_once('*'), rest.split_once('+')) {
        (Some((last, factor)), None) => (last, 0, factor.parse().ok().filter(|&factor: &u64| factor > 1)?),
        (None, Some((last, step))) => (last, step.parse::<ByteSize>().ok().filter(|step| step.0 > 0)?.0, 1),
        _ => return None,
    };
    let (ByteSize(first), ByteSize(last)) = (first.parse().ok()?, last.parse().ok()?);
    if first == 0 && factor > 1 {
        return None;
    }
    let next = |value: &u64| value.checked_mul(factor)?.checked_add(step);
    let values = std::iter::successors(Some(first), next).take_while(|value| *value <= last);
    let values: Vec<String> = values.take(MAX_RUNS + 1).map(|value| value.to_string()).collect();
    (!values.is_empty()).then_some(values)
}

/// Sets one flag of `options` to a value as users write it.
fn set(options: &mut BenchOptions, name: &str, value: &str) -> Result<(), AxisError> {
    fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(name: &str, value: &str) -> Result<T, AxisError> {
        value.parse().map_err(|error: T::Err| AxisError::Value {
            name: name.to_owned(),
            value: value.to_owned(),
            reason: error.to_string(),
        })
    }
    match name {
        "bs" => options.bs = parsed(name, value)?,
        "iodepth" => options.iodepth = parsed(name, value)?,
        "queues" => options.queues = parsed(name, value)?,
        "warps" => options.warps = Some(parsed(name, value)?),
        "agents" => options.agents = Some(parsed(name, value)?),
        "block" => options.block = Some(parsed(name, value)?),
        "cache" => options.cache = Some(parsed(name, value)?),
        "policy" => options.policy = Some(parsed(name, value)?),
        "hit-rate" => options.hit_rate = Some(parsed(name, value)?),
        "spread" => options.spread = Some(parsed(name, value)?),
        "rwmixread" => options.rwmixread = Some(parsed(name, value)?),
        "rw" => options.rw = parsed(name, value)?,
        "sharing" => options.sharing = parsed(name, value)?,
        "api" => options.api = parsed(name, value)?,
        "protocol" => options.protocol = Some(parsed(name, value)?),
        "completion" => options.completion = parsed(name, value)?,
        "gather" => options.gather = Some(parsed(name, value)?),
        "seed" => options.seed = parsed(name, value)?,
        _ => return Err(AxisError::Name { name: name.to_owned() }),
    }
    Ok(())
}

/// Every combination of the axes' values over `base`; the last axis varies fastest. Without axes,
/// `base` alone.
pub fn sweep(base: &BenchOptions, axes: &[Axis]) -> Result<Vec<BenchOptions>, AxisError> {
    let runs = axes.iter().fold(1usize, |runs, axis| runs.saturating_mul(axis.values.len()));
    if runs > MAX_RUNS {
        return Err(AxisError::TooMany { runs });
    }
    let mut all = vec![base.clone()];
    for (index, axis) in axes.iter().enumerate() {
        if axes[..index].iter().any(|earlier| earlier.name == axis.name) {
            return Err(AxisError::Twice { name: axis.name.clone() });
        }
        let mut next = Vec::with_capacity(all.len() * axis.values.len());
        for options in &all {
            for value in &axis.values {
                let mut options = options.clone();
                set(&mut options, &axis.name, value)?;
                next.push(options);
            }
        }
        all = next;
    }
    Ok(all)
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
        assert_eq!(axis("iodepth=1..64*4").values, ["1", "4", "16", "64"]);
        assert_eq!(axis("bs=4k..16k*2").values, ["4096", "8192", "16384"]);
        assert_eq!(axis("queues=1..8+3").values, ["1", "4", "7"]);
        for text in ["iodepth=1..8", "iodepth=0..8*2", "iodepth=1..8*1", "iodepth=8..1*2", "bs=1..x*2"] {
            assert!(matches!(text.parse::<Axis>(), Err(AxisError::Form { .. })), "{text}");
        }
    }

    #[test]
    fn refusals() {
        assert!(matches!("bs".parse::<Axis>(), Err(AxisError::Form { .. })));
        assert!(matches!("size=1,2".parse::<Axis>(), Err(AxisError::Name { .. })));
        assert_eq!(
            "rw=read,trim".parse::<Axis>().unwrap_err().to_string(),
            "--axis rw=trim: 'trim': expected one of read, write, randread, randwrite, randrw"
        );
        assert!(matches!("iodepth=1,,2".parse::<Axis>(), Err(AxisError::Value { .. })));
        let base = BenchOptions::default();
        assert!(matches!(sweep(&base, &[axis("bs=512"), axis("bs=4k")]), Err(AxisError::Twice { .. })));
        let wide = axis("seed=1..200+1");
        assert!(matches!(
            sweep(&base, &[wide, axis("iodepth=1..200+1")]),
            Err(AxisError::TooMany { runs: 40_000 })
        ));
    }
}
