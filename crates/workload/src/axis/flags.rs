//! Which flags of `bench` can be swept, how each is set and shown, and why the others are none.

use std::error::Error;
use std::fmt::Display;
use std::num::{IntErrorKind, ParseIntError};
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use warpbell::{Place, RingPlaces};
use warpbell_base::Time;

use crate::cpus::CpuRange;
use crate::opening::data_place;
use crate::options::BenchOptions;
use crate::size::parse_duration;

/// Why a value is none of a flag's, in words about the value.
#[derive(Debug, thiserror::Error)]
pub(super) enum ValueError {
    #[error("it is larger than the flag takes")]
    TooLarge,
    #[error("expected a whole number")]
    NotANumber,
    #[error("'{value}': expected on or off")]
    Switch { value: String },
    #[error("points are named by it: expected a path without blanks")]
    Blanks,
    /// What the value's type says.
    #[error("{0}")]
    Refused(Box<dyn Error>),
}

impl ValueError {
    fn of(error: impl Error + 'static) -> ValueError {
        match (&error as &dyn Error).downcast_ref::<ParseIntError>().map(ParseIntError::kind) {
            None => ValueError::Refused(error.into()),
            Some(IntErrorKind::PosOverflow) => ValueError::TooLarge,
            Some(_) => ValueError::NotANumber,
        }
    }
}

/// A flag that can be swept.
pub(super) struct Flag {
    pub(super) name: &'static str,
    set: fn(&mut BenchOptions, &str) -> Result<(), ValueError>,
    shown: fn(&BenchOptions) -> String,
}

/// A flag that sets this field, by how its value is read and shown.
macro_rules! flag {
    ($name:literal, $($field:ident).+, $read:expr, $show:expr) => {
        Flag {
            name: $name,
            set: |options, value| {
                options.$($field).+ = $read(value)?;
                Ok(())
            },
            shown: |options| $show(&options.$($field).+),
        }
    };
}

/// Every flag that can be swept.
const FLAGS: &[Flag] = &[
    flag!("rw", rw, read, show),
    flag!("rwmixread", rwmixread, read_open, show_open),
    flag!("random-distribution", random_distribution, read, show),
    flag!("bs", bs, read, show),
    flag!("iodepth", iodepth, read, show),
    flag!("queues", queues, read, show),
    flag!("warps", warps, read_open, show_open),
    flag!("agents", agents, read_open, show_open),
    flag!("block", block, read_open, show_open),
    flag!("cache", cache, read_open, show_open),
    flag!("policy", policy, read_open, show_open),
    flag!("hit-rate", hit_rate, read_open, show_open),
    flag!("spread", spread, read_open, show_open),
    flag!("sharing", sharing, read, show),
    flag!("api", api, read, show),
    flag!("protocol", protocol, read_open, show_open),
    flag!("gather", gather, read_open, show_open),
    flag!("completion", completion, read, show),
    flag!("coalescing", coalescing, read_open, show_open),
    flag!("verify", verify, read_open, show_open),
    flag!("size", size, read_open, show_open),
    flag!("offset", offset, read, show),
    flag!("io-limit", io_limit, read_open, show_open),
    flag!("runtime", runtime, read_open_time, show_open_time),
    flag!("ramp", ramp, read_time, show_time),
    flag!("timeout", timeout, read_time, show_time),
    flag!("retries", retries, read, show),
    flag!("recover", recover, read_switch, show_switch),
    flag!("threads", threads, read_open, show_open),
    flag!("cpus", cpus, read_cpus, show_cpus),
    flag!("seed", seed, read, show),
    flag!("dbbuf", opening.dbbuf, read, show),
    flag!("doorbells", opening.doorbells, read, show),
    flag!("iommu", opening.iommu, read, show),
    flag!("rings", opening.rings, read_rings, ring_places),
    flag!("data", opening.data, read_place, show),
    flag!("wide-cids", opening.wide_cids, read_switch, show_switch),
    flag!("fault", opening.fault, read_plan, show_plan),
];

/// The flag whose value is a path: two dots in it are no range.
pub(super) const FAULT: &str = "fault";

const ONE_REPLAY: &str = "a replay has the commands, queues and depth of one recording, and takes no axis";
const ONE_TRACE: &str = "a trace is of one run";
const KEPT: &str = "it says what is kept of a result, and changes nothing of what is measured";
const PERMITS: &str = "it permits, and changes nothing of what is measured";
const ONE_RANGE: &str = "a result is of one range of blocks, whose namespace and size it states once";

/// The flags of `bench` that cannot be swept, and why.
pub const NOT_SWEPT: &[(&str, &str)] = &[
    (
        "device",
        "a result is of the SSDs that it begins with; several are named together, or measured by a command each",
    ),
    (
        "target",
        "a result is of one target; measure each by a command of its own, and compare both with `warpbell report`",
    ),
    ("allow-write", PERMITS),
    ("allow-dirty", PERMITS),
    ("nsid", ONE_RANGE),
    ("partition", ONE_RANGE),
    ("manifest", ONE_RANGE),
    ("no-recover", "it is recover=on,off"),
    ("axis", "an axis has none"),
    ("repeat", "each point is measured as often as any other"),
    ("interval", "it says how often I/Os are counted, and changes nothing of what is measured"),
    ("csv", KEPT),
    ("resume", KEPT),
    ("journal", KEPT),
    ("output", KEPT),
    ("verbose", KEPT),
    ("trace", ONE_TRACE),
    ("trace-format", ONE_TRACE),
    ("trace-events", ONE_TRACE),
    ("replay", ONE_REPLAY),
    ("replay-timing", ONE_REPLAY),
    ("replay-format", ONE_REPLAY),
    ("replay-only", ONE_REPLAY),
    ("replay-warps", ONE_REPLAY),
    ("replay-depth", ONE_REPLAY),
];

/// The names of the flags that can be swept.
pub fn swept() -> impl Iterator<Item = &'static str> {
    FLAGS.iter().map(|flag| flag.name)
}

/// The flag with this name, if it can be swept.
pub(super) fn named(name: &str) -> Option<&'static Flag> {
    // As the command takes its name of before.
    let name = if name == "deadline" { "timeout" } else { name };
    FLAGS.iter().find(|flag| flag.name == name)
}

impl Flag {
    /// Sets it to a value as users write it; or why that is none.
    pub(super) fn set(&self, options: &mut BenchOptions, value: &str) -> Result<(), ValueError> {
        (self.set)(options, value)
    }

    /// Its value.
    pub(super) fn shown(&self, options: &BenchOptions) -> String {
        (self.shown)(options)
    }
}

/// The value of a flag that is not given.
const OPEN: &str = "default";

fn read<T: FromStr<Err: Error + 'static>>(value: &str) -> Result<T, ValueError> {
    value.parse().map_err(ValueError::of)
}

fn show<T: Display>(value: &T) -> String {
    value.to_string()
}

fn read_open<T: FromStr<Err: Error + 'static>>(value: &str) -> Result<Option<T>, ValueError> {
    if value == OPEN { Ok(None) } else { read(value).map(Some) }
}

fn show_open<T: Display>(value: &Option<T>) -> String {
    value.as_ref().map_or_else(|| OPEN.to_owned(), T::to_string)
}

fn read_time(value: &str) -> Result<Duration, ValueError> {
    parse_duration(value).map_err(ValueError::of)
}

fn read_open_time(value: &str) -> Result<Option<Duration>, ValueError> {
    if value == OPEN { Ok(None) } else { read_time(value).map(Some) }
}

fn show_open_time(value: &Option<Duration>) -> String {
    value.as_ref().map_or_else(|| OPEN.to_owned(), show_time)
}

fn show_time(value: &Duration) -> String {
    Time(*value).to_string()
}

fn read_switch(value: &str) -> Result<bool, ValueError> {
    match value {
        "on" => Ok(true),
        "off" => Ok(false),
        _ => Err(ValueError::Switch { value: value.to_owned() }),
    }
}

fn show_switch(value: &bool) -> String {
    on_off(*value).to_owned()
}

/// The word of a switch.
pub(crate) fn on_off(value: bool) -> &'static str {
    if value { "on" } else { "off" }
}

fn read_place(value: &str) -> Result<Place, ValueError> {
    data_place(value).map_err(ValueError::of)
}

/// An axis has commas between values, so that `+` is between the parts of one.
fn read_rings(value: &str) -> Result<RingPlaces, ValueError> {
    read(&value.replace('+', ","))
}

/// Where rings lie, as an axis has it.
pub(crate) fn ring_places(value: &RingPlaces) -> String {
    value.to_string().replace(',', "+")
}

fn read_cpus(value: &str) -> Result<Vec<usize>, ValueError> {
    if value == OPEN {
        return Ok(Vec::new());
    }
    let ranges = value.split('+').map(read::<CpuRange>).collect::<Result<Vec<_>, _>>()?;
    Ok(ranges.into_iter().flat_map(CpuRange::all).collect())
}

fn show_cpus(value: &[usize]) -> String {
    if value.is_empty() { OPEN.to_owned() } else { cpu_list(value) }
}

/// Processors, as an axis has them.
pub(crate) fn cpu_list(value: &[usize]) -> String {
    value.iter().map(usize::to_string).collect::<Vec<_>>().join("+")
}

fn read_plan(value: &str) -> Result<Option<PathBuf>, ValueError> {
    if value.contains(char::is_whitespace) {
        return Err(ValueError::Blanks);
    }
    Ok((value != OPEN).then(|| value.into()))
}

fn show_plan(value: &Option<PathBuf>) -> String {
    value.as_ref().map_or_else(|| OPEN.to_owned(), |path| path.display().to_string())
}
