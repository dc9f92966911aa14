//! Data there and back, compared: over what is here in any case (the processors and the software controller), over a GPU
//! where there is one, and over an SSD where its owner names it and the bytes of it that may be overwritten. With both,
//! each way between the two is tested by itself.

mod ways;

use std::fmt::{self, Display, Formatter};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde::Serialize;
use serde_json::{Value, json};
use warpbell::{DeviceName, Gpu, OpenOptions, OpenTarget, Ssd, Target};
use warpbell_platform::{Finding, Layer, Machine, Status};
use warpbell_workload::{
    Access, BenchOptions, ByteSize, Control, Limits, PathReport, Run, Verify, bench, resolve,
};

use crate::args::CheckArgs;
use crate::exit::{Ending, FAILED, INTERRUPTED, MISSING};
use crate::open::open_scratch;
use crate::permission;
use warpbell_hw::Nsid;

const SOFT: &str = "soft:size=4m";
const BLOCKS_OF: u64 = 4096;
const BYTES: u64 = 4 << 20;
const NSID: Nsid = Nsid(1);

/// What a test came to.
enum Outcome {
    /// All data is right; how it went.
    Right(Box<Moved>),
    /// It went, and something is wrong.
    Wrong(String),
    /// No data was compared: why, and how a command has to end that was to do just this.
    NotTested(Ending),
}

/// Data that was moved.
#[derive(Serialize)]
struct Moved {
    /// Where kernels ran.
    target: String,
    device: String,
    /// Read back and compared.
    blocks: u64,
    data_path: PathReport,
}

impl Display for Moved {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let Moved { target, device, blocks, data_path } = self;
        let PathReport { data, rings, doorbells, doorbells_refused, ordering, route, .. } = data_path;
        match target.as_str() {
            "cpu" => write!(f, "kernels on the processors")?,
            gpu => write!(f, "{gpu}: kernels on the GPU")?,
        }
        let moved = BYTES >> 20;
        write!(f, " wrote {device}, {moved} MiB, and {blocks} blocks were read back: 0 wrong")?;
        write!(f, "; data: {data}; rings: {rings}; doorbells: {doorbells}")?;
        doorbells_refused.as_ref().map_or(Ok(()), |refused| write!(f, " ({refused})"))?;
        write!(f, "; order: {ordering}")?;
        route.as_ref().map_or(Ok(()), |route| write!(f, "; {route}"))
    }
}

/// One test, as it is reported.
struct Test {
    subject: &'static str,
    /// Who was named to be tested: then it is no success where it did not run.
    asked: Option<String>,
    outcome: Outcome,
    means: String,
    fix: Option<String>,
}

/// All tests.
pub struct Tests(Vec<Test>);

impl Tests {
    /// A line each.
    pub fn findings(&self) -> Vec<Finding> {
        self.0.iter().map(Test::finding).collect()
    }

    /// For programs: each test, with the way that its data took.
    pub fn json(&self) -> Vec<Value> {
        self.0.iter().map(Test::json).collect()
    }

    /// Whether nothing that ran was wrong, and what was asked for by name ran, and what else there is to run on.
    pub fn ok(&self) -> bool {
        self.wrong().is_none() && self.0.iter().all(|test| test.unmet().is_none())
    }

    fn wrong(&self) -> Option<&str> {
        self.0.iter().find_map(|test| match &test.outcome {
            Outcome::Wrong(why) => Some(why.as_str()),
            _ => None,
        })
    }

    /// How the command ends for them, if they have a say.
    pub fn ending(self) -> Result<(), Ending> {
        match self.wrong() {
            Some(why) => Err(Ending::new(FAILED, format!("self-test: {why}"))),
            None => self.0.iter().find_map(Test::unmet).map_or(Ok(()), Err),
        }
    }
}

impl Test {
    fn finding(&self) -> Finding {
        let (status, found, means) = match &self.outcome {
            Outcome::Right(moved) => (Status::Ok, moved.to_string(), self.means.as_str()),
            Outcome::Wrong(why) => (Status::Missing, why.clone(), "data does not arrive as it was sent"),
            Outcome::NotTested(why) => (Status::NotTested, why.message().to_owned(), ""),
        };
        let line = Finding::new(Layer::Path, status, self.subject, found, means);
        match (&self.fix, status) {
            (Some(fix), Status::NotTested) => line.fix(fix.clone()),
            _ => line,
        }
    }

    fn json(&self) -> Value {
        let (status, moved, reason) = match &self.outcome {
            Outcome::Right(moved) => (Status::Ok, Some(moved), None),
            Outcome::Wrong(why) => (Status::Missing, None, Some(why.as_str())),
            Outcome::NotTested(why) => (Status::NotTested, None, Some(why.message())),
        };
        json!({ "subject": self.subject, "status": status, "moved": moved, "reason": reason })
    }

    /// How the command has to end for it: what a machine does not have is no failure, unless it was asked for.
    fn unmet(&self) -> Option<Ending> {
        match &self.outcome {
            Outcome::NotTested(why) if self.asked.is_some() || why.code() != MISSING => {
                let what = self.asked.as_deref().unwrap_or(self.subject);
                Some(Ending::new(why.code(), format!("self-test: {what} was not tested: {}", why.message())))
            }
            _ => None,
        }
    }
}

/// Runs them. What must not be written to is refused before the first begins.
pub fn run(
    args: &CheckArgs,
    device: Option<&DeviceName>,
    machine: &Machine,
    stop: Arc<AtomicBool>,
) -> Result<Tests, Ending> {
    let scratch = device.map(|name| Scratch::new(name, args)).transpose()?;
    let control = Control::with_stop(stop);
    let gpu = args.target()?.open().map_err(|error| error.to_string());
    let mut tests = vec![software(&control), gpu_memory(&gpu, &control)];
    match scratch {
        None => tests.push(no_ssd(machine)),
        Some((scratch, ssd)) => {
            let opened = ssd.is_ok();
            tests.push(scratch.alone(ssd, &control));
            tests.extend(ways::ALL.iter().map(|way| scratch.both(way, opened, &gpu, &control)));
        }
    }
    match control.stopped() {
        true => Err(Ending::new(INTERRUPTED, "self-test: interrupted")),
        false => Ok(Tests(tests)),
    }
}

/// What this machine does not have.
fn absent(why: impl std::fmt::Display) -> Outcome {
    Outcome::NotTested(Ending::new(MISSING, why))
}

/// What can be had without anybody's SSD and without a GPU.
fn software(control: &Control) -> Test {
    let outcome = over(soft(OpenOptions::new()), Target::Cpu, Load::new(0), control);
    let means = "kernels on the processors and the software controller work here".to_owned();
    Test { subject: "data through a way", asked: None, outcome, means, fix: None }
}

/// Kernels of the GPU, with data in its memory, and the software controller.
fn gpu_memory(gpu: &Result<OpenTarget, String>, control: &Control) -> Test {
    let outcome = with_gpu(gpu, |target, gpu| {
        over(soft(ways::DATA_IN_GPU_MEMORY.options(gpu)), target, Load::new(0), control)
    });
    let means = ways::DATA_IN_GPU_MEMORY.means(&soft_name());
    Test { subject: "data through a GPU", asked: None, outcome, means, fix: None }
}

fn no_ssd(machine: &Machine) -> Test {
    let command = |bdf| {
        format!(
            "sudo warpbell check --self-test --device {bdf} --offset BYTES --allow-write={bdf}  # overwrites 4 MiB"
        )
    };
    let (why, fix) = match machine.ssds.first() {
        None => ("there is no SSD here", None),
        Some(ssd) => ("it would overwrite 4 MiB, and no SSD was named", Some(command(ssd.bdf))),
    };
    Test { subject: "data through an SSD", asked: None, outcome: absent(why), means: String::new(), fix }
}

/// A part of an SSD that may be overwritten.
struct Scratch<'a> {
    name: &'a DeviceName,
    allow_write: &'a [String],
    /// Its first byte.
    offset: u64,
}

impl<'a> Scratch<'a> {
    /// The part that the command line names, and the SSD or why it cannot be opened. What does not fit is refused.
    fn new(name: &'a DeviceName, args: &'a CheckArgs) -> Result<(Scratch<'a>, Result<Ssd, Ending>), Ending> {
        permission::before(name, &args.allow_write, NSID)?;
        let offset = args.offset.map_or(0, |offset| offset.0);
        let scratch = Scratch { name, allow_write: &args.allow_write, offset };
        let ssd = scratch.open(OpenOptions::new());
        match &ssd {
            Ok(ssd) => scratch.check(ssd)?,
            Err(ending) if ending.code() == INTERRUPTED => return ssd.map(|ssd| (scratch, Ok(ssd))),
            Err(_) => {}
        }
        Ok((scratch, ssd))
    }

    fn open(&self, options: OpenOptions) -> Result<Ssd, Ending> {
        open_scratch(self.name, NSID, self.allow_write, options)
    }

    fn check(&self, ssd: &Ssd) -> Result<(), Ending> {
        let (name, offset, limits) = (self.name, self.offset, Limits::of(ssd, NSID)?);
        let block = u64::from(limits.block_size);
        let bytes = limits.exact_bytes.unwrap_or(limits.blocks * block) / block * block;
        let fits = format!("{NSID} of {name} has {bytes} bytes, and {BYTES} are overwritten");
        match bytes.checked_sub(BYTES) {
            None => Err(Ending::usage(format!("--device {name}: {fits}"))),
            Some(last) if offset > last => {
                Err(Ending::usage(format!("--offset {offset}: must be at most {last} bytes: {fits}")))
            }
            Some(_) if !offset.is_multiple_of(block) => Err(Ending::usage(format!(
                "--offset {offset}: must be a multiple of the block size, {block}"
            ))),
            Some(_) => Ok(()),
        }
    }

    /// Kernels of the processors, with data in host memory, and the SSD. Whoever names one wants it tested.
    fn alone(&self, ssd: Result<Ssd, Ending>, control: &Control) -> Test {
        let outcome = over(ssd, Target::Cpu, Load::new(self.offset), control);
        let (subject, means) = ("data through an SSD", ways::ALONE.of(self.name));
        Test { subject, asked: Some(self.name.to_string()), outcome, means, fix: None }
    }

    /// Kernels of the GPU and the SSD, by one way. What this way lacks is no failure: the next one may have it.
    fn both(
        &self,
        way: &ways::Way,
        opened: bool,
        gpu: &Result<OpenTarget, String>,
        control: &Control,
    ) -> Test {
        let untested = || Err("it takes a GPU, which was not tested either".to_owned());
        let gpu = &gpu.as_ref().map_or_else(|_| untested(), |open| Ok(open.clone()));
        let outcome = with_gpu(gpu, |target, gpu| {
            if !opened {
                return absent(format!("{} cannot be opened", self.name));
            }
            if let Some(why) = way.pointless(self.name) {
                return absent(why);
            }
            let load = Load { times: way.times, ..Load::new(self.offset) };
            over(self.open(way.options(gpu)), target, load, control)
        });
        let outcome = match outcome {
            // Refused when it was set up; what failed later keeps its code.
            Outcome::NotTested(why) if ![FAILED, INTERRUPTED].contains(&why.code()) => absent(why.message()),
            outcome => outcome,
        };
        Test { subject: way.subject, asked: None, outcome, means: way.means(self.name), fix: None }
    }
}

fn with_gpu(gpu: &Result<OpenTarget, String>, test: impl Fn(Target, &Arc<Gpu>) -> Outcome) -> Outcome {
    match gpu.as_ref().map(|open| (open, open.gpu())) {
        Err(why) => absent(why),
        Ok((open, None)) => absent(format!("{open} is no GPU; the first one is --target cuda:0")),
        Ok((open, Some(gpu))) => test(open.target(), gpu),
    }
}

fn soft(options: OpenOptions) -> Result<Ssd, Ending> {
    open_scratch(&soft_name(), NSID, &[], options)
}

fn soft_name() -> DeviceName {
    SOFT.parse().expect("the name is well-formed")
}

/// How much is moved, and where.
struct Load {
    offset: u64,
    /// How often each byte is read or written.
    times: u64,
}

impl Load {
    fn new(offset: u64) -> Load {
        Load { offset, times: 1 }
    }
}

/// Writes `BYTES` from an offset on, reads and writes them in any order, reads all of them again, and says how it went.
fn over(ssd: Result<Ssd, Ending>, target: Target, load: Load, control: &Control) -> Outcome {
    let ssd = match ssd {
        Ok(ssd) => ssd,
        Err(ending) => return Outcome::NotTested(ending),
    };
    let options = BenchOptions {
        rw: Access::RandRw,
        bs: ByteSize(BLOCKS_OF),
        offset: ByteSize(load.offset),
        size: Some(ByteSize(BYTES)),
        io_limit: Some(ByteSize(BYTES * load.times)),
        verify: Some(Verify::Crc32c),
        ..BenchOptions::default()
    };
    let job = match resolve(&ssd, &options) {
        Ok(job) => job,
        Err(error) => return Outcome::NotTested(error.into()),
    };
    match bench(&ssd, target, &job, control) {
        Ok(run) if control.stopped() || run.verify.is_none() => {
            Outcome::NotTested(Ending::new(INTERRUPTED, "it was interrupted"))
        }
        Ok(run) => match (compared(&run), target.open()) {
            (Err(wrong), _) => Outcome::Wrong(wrong),
            (Ok(_), Err(error)) => Outcome::NotTested(error.into()),
            (Ok(blocks), Ok(open)) => {
                let (target, device) = (open.to_string(), ssd.name().to_string());
                Outcome::Right(Box::new(Moved { target, device, blocks, data_path: PathReport::of(&ssd) }))
            }
        },
        Err(error) => Outcome::NotTested(Ending::new(
            error.exit_code(),
            format!("it ended before data was compared: {error}"),
        )),
    }
}

/// How many blocks were compared, or what is wrong.
fn compared(run: &Run) -> Result<u64, String> {
    let verify = run.verify.as_ref().ok_or("nothing was compared")?;
    if let Some(wrong) = verify.examples.first() {
        return Err(format!(
            "{} blocks with wrong data; first: LBA {}: expected crc32c {}, actual {}",
            verify.mismatches, wrong.lba, wrong.expected, wrong.actual
        ));
    }
    if !run.failures.is_empty() || verify.blocks == 0 {
        return Err(format!("{} I/Os failed, {} blocks were compared", run.failures.len(), verify.blocks));
    }
    Ok(verify.blocks)
}
