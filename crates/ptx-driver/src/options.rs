//! What is asked for, by `key=value`, separated by commas: by tests in `WARPBELL_FAKE_CUDA`, by users of `--target ptx` in
//! the target's name, such as `ptx:memory=1g`, and in `WARPBELL_PTX`.

use std::path::PathBuf;
use std::time::Duration;

use crate::error::{OptionError, OptionsError};

/// The variable of tests.
pub const VARIABLE: &str = "WARPBELL_FAKE_CUDA";
/// The variable of users.
pub const USERS: &str = "WARPBELL_PTX";
/// The other place for their options: behind the colon of the target's name.
pub(crate) const TARGET: &str = "target ptx";
/// Their keys.
pub(crate) const OF_USERS: [&str; 7] =
    ["capability", "multiprocessors", "memory", "bar", "weak", "races", "init"];
/// The most memory of a device: the addresses of all are 1 TiB, which are not used again.
const MOST_MEMORY: u64 = 256 << 30;

/// How exports of device memory end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DmaBuf {
    /// With a file that can be mapped.
    Mappable,
    /// With a file that cannot be mapped, as with most drivers.
    Opaque,
    /// The device says that it has none.
    Absent,
}

/// What runs kernels.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Execute {
    /// Their build for the CPU.
    Cpu,
    /// The PTX of their modules, on the PTX machine.
    Ptx,
}

/// Where accesses that nothing orders are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Races {
    Nowhere,
    /// In shared memory, as compute-sanitizer's racecheck does.
    Shared,
    Everywhere,
}

/// What becomes of registrations of BAR pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum IoMemory {
    /// Kernels reach them.
    Mapped,
    /// Only administrators may make them.
    Refused,
    /// They are made, and stores of kernels go nowhere, as where an IOMMU drops them.
    Dead,
}

/// The machine and the driver that are played.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Users have it in their process, and no tests.
    pub(crate) users: bool,
    /// `log=PATH`: where findings go; else to standard error.
    pub(crate) log: Option<PathBuf>,
    /// `devices=N`.
    pub(crate) devices: u32,
    /// `capability=9.0`.
    pub(crate) capability: u32,
    /// `multiprocessors=N`.
    pub(crate) multiprocessors: u32,
    /// `memory=BYTES` of each device.
    pub(crate) memory: u64,
    /// `driver=13000`: CUDA version, 1000 × major + 10 × minor.
    pub(crate) driver: i32,
    /// `dma-buf=mappable|opaque|absent`.
    pub(crate) dma_buf: DmaBuf,
    /// `bar=BYTES`: how much of a device's memory can be exported.
    pub(crate) bar: u64,
    /// `io-memory=yes|no|dead`: what becomes of registrations of BAR pages.
    pub(crate) io_memory: IoMemory,
    /// `alias=no`: device addresses of host memory are the host's pointers.
    pub(crate) alias: bool,
    /// `coherent=yes`: processors reach the device's memory without PCIe, as on GH200.
    pub(crate) coherent: bool,
    /// `check=no`: kernels' accesses are not compared with what is mapped for them.
    pub(crate) check: bool,
    /// `cooperative=no`: no cooperative launches.
    pub(crate) cooperative: bool,
    /// `ordering=0|100|200`: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING.
    pub(crate) ordering: i32,
    /// `flush=0..3`: CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS.
    pub(crate) flush: i32,
    /// `fail-alloc=N`: allocation N (from 1) and later ones find no memory.
    pub(crate) fail_alloc: u64,
    /// `copy-delay=MICROSECONDS`: how late each copy is.
    pub(crate) copy_delay: Duration,
    /// `kernel-delay=MILLISECONDS`: how late each kernel begins, as where others fill the device.
    pub(crate) kernel_delay: Duration,
    /// `gdrdrv=2.6`: GDRCopy's kernel module of that version, where `tests/fake-gdrdrv` is preloaded; major << 16 | minor.
    pub(crate) gdrdrv: Option<u32>,
    /// `gdrdrv-cached=yes`: what it maps is cached by CPUs, unless it is told to use the BAR.
    pub(crate) gdrdrv_cached: bool,
    /// `execute=cpu|ptx`: what runs kernels. PTX is always checked.
    pub(crate) execute: Execute,
    /// `mutate=NAME`, with `execute=ptx`: a defect that is put into modules (`mutate.rs`).
    pub(crate) mutate: Option<String>,
    /// `weak=SEED`, with `execute=ptx`: memory is as weak as PTX allows, chosen by the seed.
    pub(crate) weak: Option<u64>,
    /// `races=yes|no|shared`, with `execute=ptx`: accesses that nothing orders are found, everywhere or in shared memory; on
    /// one worker, at a fifth to 0.6 of its speed.
    pub(crate) races: Races,
    /// `init=yes`, with `execute=ptx`: reads of device memory that nothing was written to are found.
    pub(crate) init: bool,
    /// `modules=PATH`: the CPU's code of kernels that are not built in: a shared object, or a folder of them.
    pub(crate) modules: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            users: false,
            log: None,
            devices: 1,
            capability: 90,
            multiprocessors: 8,
            memory: 1 << 30,
            driver: 13000,
            dma_buf: DmaBuf::Mappable,
            bar: u64::MAX,
            io_memory: IoMemory::Mapped,
            alias: true,
            coherent: false,
            check: true,
            cooperative: true,
            ordering: 0,
            flush: 1,
            fail_alloc: u64::MAX,
            copy_delay: Duration::ZERO,
            kernel_delay: Duration::ZERO,
            gdrdrv: None,
            gdrdrv_cached: false,
            execute: Execute::Cpu,
            mutate: None,
            weak: None,
            races: Races::Nowhere,
            init: false,
            modules: None,
        }
    }
}

impl Options {
    pub(crate) fn from_environment() -> Result<Options, OptionsError> {
        let wrong = |wrong| OptionsError { place: VARIABLE, wrong };
        Options::parse(&std::env::var(VARIABLE).unwrap_or_default()).map_err(wrong)
    }

    /// Those of users, whose kernels run on the PTX machine: by the target's name, before what the variable says.
    pub(crate) fn of_users(named: &str, variable: &str) -> Result<Options, OptionsError> {
        let mut options = Options::default_of_users();
        for (place, text) in [(USERS, variable), (TARGET, named)] {
            options.add(text).map_err(|wrong| OptionsError { place, wrong })?;
        }
        Ok(options)
    }

    fn default_of_users() -> Options {
        Options { users: true, execute: Execute::Ptx, multiprocessors: 2, ..Options::default() }
    }

    /// A user's options but the compute capability, where they are not the default: results with others are others.
    pub(crate) fn told(&self) -> Vec<String> {
        let plain = Options::default_of_users();
        let number = |key: &str, value: u64, plain: u64| (value != plain).then(|| format!("{key}={value}"));
        let all = [
            number("multiprocessors", self.multiprocessors.into(), plain.multiprocessors.into()),
            number("memory", self.memory, plain.memory),
            number("bar", self.bar, plain.bar),
            self.weak.map(|seed| format!("weak={seed}")),
            match self.races {
                Races::Nowhere => None,
                Races::Shared => Some("races=shared".to_owned()),
                Races::Everywhere => Some("races=yes".to_owned()),
            },
            self.init.then(|| "init=yes".to_owned()),
        ];
        all.into_iter().flatten().collect()
    }

    /// Adds a user's options.
    fn add(&mut self, text: &str) -> Result<(), OptionError> {
        let mut given = Vec::new();
        for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
            let known = item.split_once('=').filter(|(key, _)| OF_USERS.contains(key));
            let Some((key, value)) = known else {
                return Err(OptionError::Key { item: item.to_owned() });
            };
            once(&mut given, key, item)?;
            self.set(key, value).ok_or_else(|| refused(item, limit(key)))?;
            if !(75..=121).contains(&self.capability) {
                return Err(refused(item, "must be 7.5 to 12.1"));
            }
            if self.multiprocessors == 0 || !(1..=MOST_MEMORY).contains(&self.memory) {
                return Err(refused(item, limit(key)));
            }
        }
        Ok(())
    }

    pub(crate) fn parse(text: &str) -> Result<Options, OptionError> {
        let mut options = Options::default();
        let mut given = Vec::new();
        for item in text.split(',').filter(|item| !item.is_empty()) {
            let no_value = || OptionError::NoValue { item: item.to_owned() };
            let (key, value) = item.split_once('=').ok_or_else(no_value)?;
            once(&mut given, key, item)?;
            options.set(key, value).ok_or_else(|| refused(item, "not understood"))?;
        }
        let of_ptx = options.weak.is_some()
            || options.mutate.is_some()
            || options.races != Races::Nowhere
            || options.init;
        if of_ptx && options.execute != Execute::Ptx {
            return Err(OptionError::NotOfPtx);
        }
        Ok(options)
    }

    fn set(&mut self, key: &str, value: &str) -> Option<()> {
        match key {
            "log" => self.log = Some(value.into()),
            "devices" => self.devices = value.parse().ok()?,
            "capability" => self.capability = capability(value)?,
            "multiprocessors" => self.multiprocessors = value.parse().ok()?,
            "memory" => self.memory = warpbell_base::bytes(value).ok()?,
            "driver" => self.driver = value.parse().ok()?,
            "dma-buf" => self.dma_buf = dma_buf(value)?,
            "bar" => self.bar = warpbell_base::bytes(value).ok()?,
            "io-memory" => self.io_memory = io_memory(value)?,
            "alias" => self.alias = yes(value)?,
            "coherent" => self.coherent = yes(value)?,
            "check" => self.check = yes(value)?,
            "cooperative" => self.cooperative = yes(value)?,
            "ordering" => self.ordering = value.parse().ok()?,
            "flush" => self.flush = value.parse().ok()?,
            "fail-alloc" => self.fail_alloc = value.parse().ok()?,
            "copy-delay" => self.copy_delay = Duration::from_micros(value.parse().ok()?),
            "kernel-delay" => self.kernel_delay = Duration::from_millis(value.parse().ok()?),
            "gdrdrv" => self.gdrdrv = Some(version(value)?),
            "gdrdrv-cached" => self.gdrdrv_cached = yes(value)?,
            "execute" => self.execute = execute(value)?,
            "weak" => self.weak = Some(value.parse().ok()?),
            "races" => self.races = races(value)?,
            "init" => self.init = yes(value)?,
            "mutate" => self.mutate = Some(value.to_owned()),
            "modules" => self.modules = Some(value.into()),
            _ => return None,
        }
        Some(())
    }
}

/// A key that was given before says two things.
fn once<'a>(given: &mut Vec<&'a str>, key: &'a str, item: &str) -> Result<(), OptionError> {
    if given.contains(&key) {
        return Err(OptionError::Twice { item: item.to_owned(), key: key.to_owned() });
    }
    given.push(key);
    Ok(())
}

fn refused(item: &str, limit: &'static str) -> OptionError {
    OptionError::Value { item: item.to_owned(), limit }
}

/// What the value of a user's key must be.
fn limit(key: &str) -> &'static str {
    match key {
        "capability" => "must be a compute capability such as 9.0",
        "multiprocessors" => "must be a number from 1",
        "memory" => "must be a size from 1 to 256g, such as 1g",
        "bar" => "must be a size, such as 256m",
        "races" => "must be yes, no or shared",
        "init" => "must be yes or no",
        _ => "must be the number of a seed",
    }
}

fn yes(value: &str) -> Option<bool> {
    match value {
        "yes" => Some(true),
        "no" => Some(false),
        _ => None,
    }
}

fn races(value: &str) -> Option<Races> {
    match value {
        "shared" => Some(Races::Shared),
        _ => yes(value).map(|all| if all { Races::Everywhere } else { Races::Nowhere }),
    }
}

fn execute(value: &str) -> Option<Execute> {
    match value {
        "cpu" => Some(Execute::Cpu),
        "ptx" => Some(Execute::Ptx),
        _ => None,
    }
}

fn io_memory(value: &str) -> Option<IoMemory> {
    match value {
        "yes" => Some(IoMemory::Mapped),
        "no" => Some(IoMemory::Refused),
        "dead" => Some(IoMemory::Dead),
        _ => None,
    }
}

fn dma_buf(value: &str) -> Option<DmaBuf> {
    match value {
        "mappable" => Some(DmaBuf::Mappable),
        "opaque" => Some(DmaBuf::Opaque),
        "absent" => Some(DmaBuf::Absent),
        _ => None,
    }
}

/// As GDRCopy's module tells it.
fn version(value: &str) -> Option<u32> {
    let (major, minor) = value.split_once('.')?;
    Some(major.parse::<u32>().ok()? << 16 | minor.parse::<u32>().ok().filter(|minor| *minor < 1 << 16)?)
}

/// 90 for `9.0`.
fn capability(value: &str) -> Option<u32> {
    let (major, minor) = value.split_once('.')?;
    Some(major.parse::<u32>().ok()? * 10 + minor.parse::<u32>().ok().filter(|minor| *minor < 10)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_said_is_the_default_and_what_is_wrong_is_refused() {
        assert_eq!(Options::parse("").unwrap(), Options::default());
        let options = Options::parse("capability=7.5,alias=no,dma-buf=opaque,copy-delay=30").unwrap();
        assert_eq!((options.capability, options.alias, options.dma_buf), (75, false, DmaBuf::Opaque));
        assert_eq!(options.copy_delay, Duration::from_micros(30));
        for wrong in [
            "nonsense=1",
            "alias",
            "alias=maybe",
            "io-memory=maybe",
            "execute=gpu",
            "weak=few",
            "races=some",
            "capability=75",
            "execute=ptx,execute=cpu",
        ] {
            let last = wrong.rsplit(',').next().unwrap();
            assert!(Options::parse(wrong).unwrap_err().to_string().contains(last), "{wrong}");
        }
    }

    #[test]
    fn users_have_keys_of_their_own() {
        let options = Options::of_users("", "capability=7.5,weak=3").unwrap();
        assert_eq!((options.execute, options.capability, options.weak), (Execute::Ptx, 75, Some(3)));
        let options = Options::of_users("memory=2G,bar=64m", "memory=1g,multiprocessors=4").unwrap();
        assert_eq!((options.memory, options.bar, options.multiprocessors), (2 << 30, 64 << 20, 4));
        let told = ["multiprocessors=4", "memory=2147483648", "bar=67108864"];
        assert_eq!(options.told(), told);
        assert!(Options::of_users("", "capability=8.0").unwrap().told().is_empty());
        assert_eq!(
            Options::of_users("races=yes,init=yes", "weak=7").unwrap().told(),
            ["weak=7", "races=yes", "init=yes"]
        );
        assert_eq!(Options::of_users("races=shared", "").unwrap().told(), ["races=shared"]);
        assert_eq!(Options::of_users("weak=x", "").unwrap_err().place, TARGET);
        assert_eq!(Options::of_users("weak=7", "weak=x").unwrap_err().place, USERS);
        for (wrong, limit) in [
            ("mutate=x", "one of capability, multiprocessors, memory, bar, weak, races, init"),
            ("weak", "expected KEY=VALUE"),
            ("capability=75", "such as 9.0"),
            ("capability=7.0", "7.5 to 12.1"),
            ("multiprocessors=0", "from 1"),
            ("memory=much", "such as 1g"),
            ("memory=0", "from 1 to 256g"),
            ("memory=257g", "from 1 to 256g"),
            ("memory=1x", "such as 1g"),
            ("bar=99999999999g", "such as 256m"),
            ("weak=few", "seed"),
            ("races=maybe", "yes, no or shared"),
            ("init=1", "yes or no"),
            ("weak=1,weak=2", "weak=2: weak was given before"),
        ] {
            let error = Options::of_users("", wrong).unwrap_err();
            assert_eq!(error.place, USERS);
            assert!(error.to_string().contains(limit), "{wrong}: {error}");
        }
    }
}
