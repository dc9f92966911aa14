//! `bench calibrate`: measures constants of this machine, for `plan --calib`.

mod constants;

use std::fmt::Write;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use warpbell::Ssd;
use warpbell_plan::{Calibration, Measured, show_value};
use warpbell_workload::calibrate::{Calibrator, Measurement, Quantity, Unmeasured};
use warpbell_workload::{Control, DeviceReport};

use super::sweep;
use crate::args::{CalibrateArgs, Global, Output};
use crate::exit::Ending;
use crate::open::{Access, open};
use crate::outputs::{self, Outputs};
use crate::progress::Steps;
use crate::{date, out};

/// What is measured where no device is named.
const DEFAULT_DEVICE: &str = "soft:size=256m";

/// Runs the command.
pub fn run(args: &CalibrateArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let mut device = args.device.clone();
    if device.positional.is_empty() && device.device.is_empty() {
        device.positional.push(DEFAULT_DEVICE.parse().map_err(Ending::usage)?);
    }
    if device.target.is_ptx() {
        return Err(Ending::usage("--target ptx: what the PTX machine takes is a constant of no machine"));
    }
    let mut outputs = Outputs::beside(&device, &sweep::origin(&device, [])?)?;
    args.out.iter().try_for_each(|path| outputs.claim("--out", path))?;
    let target = device.target.open()?;
    let ssd = open(&device, Access::Read)?;
    let new = args.out.as_deref().map(writable).transpose()?;
    let measured = measure(&ssd, device.target, args.rounds, &Control::with_stop(stop));
    if let (Some(path), Some(true), Err(_)) = (&args.out, new, &measured) {
        // The empty file that only showed that there may be one.
        let _ = std::fs::remove_file(path);
    }
    let mut calibration = collected(&measured?)?;
    calibration.date = Some(date::now());
    calibration.machine = Some(machine());
    calibration.target = Some(target.to_string());
    calibration.device = Some(device_words(&ssd)?);
    calibration.path = Some(ssd.data_path().to_string());
    let kept = args.out.as_deref().map_or(Ok(()), |path| keep(path, &calibration));
    warn_of_spread(&calibration);
    // What was measured is shown, whether there was room for the file or not.
    match global.output() {
        Output::Normal => out::measured(&text(&calibration))?,
        Output::Json => out::measured_json(&calibration)?,
    }
    kept
}

fn keep(path: &Path, calibration: &Calibration) -> Result<(), Ending> {
    let mut text = serde_json::to_string_pretty(calibration).map_err(Ending::failed)?;
    text.push('\n');
    outputs::write("--out", path, &text)
}

/// Whether the file at `path` had to be created. What is in it stays until there is something new.
fn writable(path: &Path) -> Result<bool, Ending> {
    let new = path.symlink_metadata().is_err();
    outputs::open("--out", path).map(|_| new)
}

fn measure(
    ssd: &Ssd,
    target: warpbell::Target,
    rounds: u32,
    control: &Control,
) -> Result<Vec<Measurement>, Ending> {
    let steps = Steps::new("calibrate", Quantity::ALL.len() as u64);
    let announce = |quantity: Quantity| steps.next(quantity.words());
    Ok(Calibrator { ssd, target, rounds, control, announce: &announce }.run()?)
}

/// The constants that were measured, and the reasons of the others.
fn collected(measurements: &[Measurement]) -> Result<Calibration, Ending> {
    let mut calibration = Calibration::new();
    for one in measurements {
        for name in constants::of(one.quantity) {
            match constant(one) {
                Ok(constant) => calibration.insert(name, &constant).map_err(Ending::failed)?,
                Err(reason) => {
                    calibration.not_measured.insert((*name).to_owned(), reason.to_string());
                }
            }
        }
        if one.quantity == Quantity::RegistrationPage {
            page(one, &mut calibration)?;
        }
    }
    for (reason, names) in constants::UNKNOWN {
        let of = names.iter().map(|name| ((*name).to_owned(), (*reason).to_owned()));
        calibration.not_measured.extend(of);
    }
    Ok(calibration)
}

/// The size of the pages that registration was measured with.
fn page(one: &Measurement, calibration: &mut Calibration) -> Result<(), Ending> {
    let (name, bytes) = constants::PAGE;
    match constant(one) {
        Ok(constant) => {
            let how = Some("the pages that reg.page_us is of".to_owned());
            let (value, unit) = (bytes.into(), "B".to_owned());
            let (median, p10, p90, r2) = (None, None, None, None);
            let page = Measured { value, unit, how, median, p10, p90, r2, ..constant };
            calibration.insert(name, &page).map_err(Ending::failed)
        }
        Err(reason) => {
            calibration.not_measured.insert(name.to_owned(), reason.to_string());
            Ok(())
        }
    }
}

fn constant(one: &Measurement) -> Result<Measured, &Unmeasured> {
    let samples = one.samples.as_ref()?;
    let median = samples.median();
    Ok(Measured {
        value: median.into(),
        unit: one.quantity.unit().to_owned(),
        how: Some(one.how.to_owned()),
        samples: Some(samples.count()),
        median: Some(median),
        p10: Some(samples.quantile(0.1)),
        p90: Some(samples.quantile(0.9)),
        r2: one.r2,
    })
}

/// The machine in words, without anything that only one of its kind has.
fn machine() -> String {
    let system = rustix::system::uname();
    let word = |text: &std::ffi::CStr| text.to_string_lossy().into_owned();
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").ok().and_then(|text| {
        let line = text.lines().find(|line| line.starts_with("model name"))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    });
    let cpu = cpu.unwrap_or_else(|| "unknown".to_owned());
    let (name, release) = (word(system.sysname()), word(system.release()));
    format!("{name} {release} {}, {processors} processors: {cpu}", word(system.machine()))
}

fn device_words(ssd: &Ssd) -> Result<String, Ending> {
    let report = DeviceReport::of(ssd, ssd.namespace(None)?.nsid)?;
    Ok(match ssd.soft() {
        Some(_) => format!("{} (a software controller, no SSD)", report.name),
        None => format!("{} ({}, {})", report.name, report.model.trim(), report.kind),
    })
}

/// For people: constants by how they were measured, then what was not, by the reason.
fn text(calibration: &Calibration) -> String {
    let mut text = format!("{}\n", calibration.source());
    let mut ways: Vec<(String, String)> = Vec::new();
    for (name, _, measured) in calibration.constants() {
        let Some(measured) = measured else { continue };
        let line = line(name, &measured);
        let how = measured.how.unwrap_or_default();
        match ways.iter_mut().find(|(other, _)| *other == how) {
            Some((_, lines)) => *lines += &line,
            None => ways.push((how, line)),
        }
    }
    for (how, lines) in ways {
        let _ = write!(text, "{how}\n{lines}");
    }
    let mut reasons: Vec<&String> = calibration.not_measured.values().collect();
    reasons.sort_unstable();
    reasons.dedup();
    for reason in reasons {
        let of = calibration.not_measured.iter().filter(|(_, other)| *other == reason);
        let names: Vec<&str> = of.map(|(name, _)| name.as_str()).collect();
        let _ = writeln!(text, "not measured: {}: {reason}", names.join(", "));
    }
    text
}

fn line(name: &str, measured: &Measured) -> String {
    let shown = |label: &str, number: Option<f64>| {
        number.map(|number| format!("{label} {}", show_value(&number.into())))
    };
    let parts = [shown("p10", measured.p10), shown("p90", measured.p90), shown("R2", measured.r2)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let value = format!("{} {}", show_value(&measured.value), measured.unit);
    let line = format!("  {name:<27} {value:>16}  {}", parts.join(", "));
    format!("{}\n", line.trim_end())
}

/// A machine that does something else at the same time has no constants.
fn warn_of_spread(calibration: &Calibration) {
    let wide = |(name, _, measured): (&str, &serde_json::Value, Option<Measured>)| {
        let measured = measured?;
        let (low, high) = (measured.p10?, measured.p90?);
        (high > 2.0 * low).then(|| name.to_owned())
    };
    let names: Vec<String> = calibration.constants().filter_map(wide).collect();
    if !names.is_empty() {
        eprintln!(
            "warning: more than a factor of two between samples of {}: measure while the machine does nothing else, \
             or with more --rounds",
            names.join(", ")
        );
    }
}
