//! What a program prints at its end.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use warpbell_workload::units;

use crate::{Check, Failure, Form, Measured, Stage};

/// How a program went.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Its name.
    pub program: &'static str,
    /// What it counts by, in the singular: `element`, `edge`, `row`.
    pub element: &'static str,
    /// How many of them it worked on.
    pub elements: u64,
    /// Bytes of data that these are.
    pub bytes: u64,
    /// Whether the results were right.
    pub check: Check,
    /// The pass over the cache.
    pub cached: Measured,
    /// The same after loading everything first.
    pub loaded: Measured,
}

pub(crate) fn print(stage: &Stage, outcome: &Outcome) -> Result<(), Failure> {
    let text = match stage.options.output {
        Form::Text => text(stage, outcome),
        Form::Json => format!("{:#}\n", document(stage, outcome)),
    };
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => Err(error.into()),
        _ => Ok(()),
    }
}

fn text(stage: &Stage, outcome: &Outcome) -> String {
    let Outcome { program, element, elements, check, cached, loaded, .. } = outcome;
    let (options, data) = (stage.options, units::bytes(stage.disk.bytes()));
    let mut text =
        format!("{program}: {elements} {element}s of {}, {data} on {}\n", stage.data.name(), device(stage));
    let _ = writeln!(text, "{}", banner(stage));
    let _ = writeln!(text, "check   {}", check.text());
    let _ = writeln!(text, "cached  {}", pass(outcome, cached));
    if let Some(cache) = &cached.cache {
        let _ = writeln!(
            text,
            "        cache of {} in pages of {}: hit rate {:.2} %, {} pages read, {} written; {:.4} commands per {element}",
            units::bytes(options.cache.0),
            options.page,
            cache.hit_rate() * 100.0,
            cache.misses,
            cache.write_backs,
            cached.commands as f64 / *elements as f64,
        );
    }
    let _ = writeln!(text, "loaded  {}", pass(outcome, loaded));
    let [load, compute, store] = [loaded.load, loaded.compute, loaded.store].map(|time| time.as_secs_f64());
    let _ = writeln!(
        text,
        "        load everything {load:.3}s, compute {compute:.3}s, store results {store:.3}s"
    );
    let _ = writeln!(
        text,
        "cached against loaded: {:.2} of the time, {:.4} of the memory",
        ratio(cached.total.as_secs_f64(), loaded.total.as_secs_f64()),
        ratio(cached.memory_bytes as f64, loaded.memory_bytes as f64),
    );
    text
}

/// `0.50 s, 2048k elements/s, 8192KiB/s (8389kB/s), memory 1024KiB`.
fn pass(outcome: &Outcome, measured: &Measured) -> String {
    let rate = |count: u64| per_second(count, measured.total);
    format!(
        "{:.3}s, {} {}s/s, {}, memory {}",
        measured.total.as_secs_f64(),
        units::iops(rate(outcome.elements)),
        outcome.element,
        units::bandwidth(rate(outcome.bytes)),
        units::bytes(measured.memory_bytes),
    )
}

fn document(stage: &Stage, outcome: &Outcome) -> Value {
    let Outcome { program, element, elements, bytes, check, cached, loaded } = outcome;
    json!({
        "schema": "warpbell.example/1",
        "warpbell": env!("CARGO_PKG_VERSION"),
        "program": program,
        "target": stage.queues.target().to_string(),
        "hardware_figures": false,
        "device": device(stage),
        "data": stage.data.name(),
        "data_bytes": stage.disk.bytes(),
        "page_bytes": stage.options.page.0,
        "cache_bytes": stage.options.cache.0,
        "warps": stage.options.warps,
        "element": element,
        "elements": elements,
        "bytes": bytes,
        "check": { "passed": check.passed(), "compared": check.compared, "wrong": check.wrong, "first": check.first },
        "cached": figures(outcome, cached),
        "loaded": figures(outcome, loaded),
        "time_ratio": ratio(cached.total.as_secs_f64(), loaded.total.as_secs_f64()),
        "memory_ratio": ratio(cached.memory_bytes as f64, loaded.memory_bytes as f64),
    })
}

fn figures(outcome: &Outcome, measured: &Measured) -> Value {
    let cache = measured.cache.map(|cache| {
        json!({
            "hit_rate": cache.hit_rate(),
            "hits": cache.hits,
            "misses": cache.misses,
            "write_backs": cache.write_backs,
        })
    });
    let ns = |time: Duration| time.as_nanos() as u64;
    json!({
        "total_ns": ns(measured.total),
        "load_ns": ns(measured.load),
        "compute_ns": ns(measured.compute),
        "store_ns": ns(measured.store),
        "elements_per_s": per_second(outcome.elements, measured.total),
        "bytes_per_s": per_second(outcome.bytes, measured.total),
        "memory_bytes": measured.memory_bytes,
        "commands": measured.commands,
        "commands_per_element": ratio(measured.commands as f64, outcome.elements as f64),
        "cache": cache,
    })
}

/// The device as it was named, or that there was none to name.
fn device(stage: &Stage) -> String {
    match &stage.options.device {
        Some(name) => name.to_string(),
        None => "an image behind the software controller".to_owned(),
    }
}

/// What the figures are of, so that nobody takes them for others.
fn banner(stage: &Stage) -> String {
    let target = stage.queues.target();
    match (target.gpu(), stage.disk.ssd.soft()) {
        (None, Some(_)) => {
            format!("target {target}: software controller and kernels on the CPU; not a hardware figure")
        }
        (None, None) => format!("target {target}: kernels on the CPU; not a figure of a GPU"),
        (Some(_), Some(_)) => {
            format!("target {target}: software controller on the CPU; not a figure of an SSD")
        }
        (Some(_), None) => format!("target {target}"),
    }
}

fn per_second(count: u64, time: Duration) -> f64 {
    ratio(count as f64, time.as_secs_f64())
}

fn ratio(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}
