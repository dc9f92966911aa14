//! What a program prints at its end.

use std::fmt::Write as _;
use std::io::Write as _;
use std::time::Duration;

use serde_json::{Value, json};

use warpbell_workload::units;

use crate::{Check, Failure, Form, Measured, Options, Stage};

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
        Form::Normal => text(stage, outcome),
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
    let _ = writeln!(text, "        {}", means(options, outcome));
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

/// What the cached pass had, and how it used it.
fn means(options: &Options, outcome: &Outcome) -> String {
    let memory = units::bytes(options.cache_bytes());
    let had = match &outcome.cached.cache {
        None => format!("memory of {memory},"),
        Some(cache) => format!(
            "cache of {memory} in pages of {}: hit rate {:.2} %, {} pages read, {} written;",
            options.page,
            cache.hit_rate() * 100.0,
            cache.misses,
            cache.write_backs,
        ),
    };
    let commands = ratio(outcome.cached.commands as f64, outcome.elements as f64);
    format!("{had} {commands:.4} commands per {}", outcome.element)
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
        "hardware_figures": is_hardware(&stage.queues.target().to_string(), stage.disk.ssd.soft().is_some()),
        "device": device(stage),
        "data": stage.data.name(),
        "data_bytes": stage.disk.bytes(),
        "page_bytes": stage.options.page.0,
        "cache_bytes": stage.options.cache_bytes(),
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
    let soft = stage.disk.ssd.soft().is_some();
    match (target.gpu(), soft) {
        (None, true) => {
            format!("target {target}: software controller and kernels on the CPU; not a hardware figure")
        }
        (None, false) => format!("target {target}: kernels on the CPU; not a figure of a GPU"),
        (Some(gpu), true) if gpu.info().is_ptx => {
            format!(
                "target {target}: software controller and PTX on the CPU; not a figure of an SSD or a GPU"
            )
        }
        (Some(gpu), false) if gpu.info().is_ptx => {
            format!("target {target}: PTX on the CPU; not a figure of a GPU")
        }
        (Some(_), true) => {
            format!("target {target}: software controller on the CPU; not a figure of an SSD")
        }
        (Some(_), false) => format!("target {target}"),
    }
}

/// Whether the figures are those of a GPU and an SSD, and not of the CPU, a software controller, or a fake driver for the
/// CUDA driver, which says in its name that it has no GPU.
fn is_hardware(target: &str, soft: bool) -> bool {
    target.starts_with("cuda:") && !target.contains("no GPU") && !soft
}

fn per_second(count: u64, time: Duration) -> f64 {
    ratio(count as f64, time.as_secs_f64())
}

fn ratio(one: f64, other: f64) -> f64 {
    if other > 0.0 { one / other } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::CacheFigures;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: Options,
    }

    fn outcome(elements: u64, cache: Option<CacheFigures>) -> Outcome {
        let zero = Duration::ZERO;
        let cached = Measured {
            load: zero,
            compute: zero,
            store: zero,
            total: zero,
            cache,
            commands: 50,
            memory_bytes: 70_000,
        };
        let (program, element, check, loaded) = ("top_k", "row", Check::default(), cached.clone());
        Outcome { program, element, elements, bytes: 4000, check, cached, loaded }
    }

    #[test]
    fn only_a_cache_that_was_used_has_a_hit_rate() {
        let options = Line::parse_from(["program", "--cache", "66k"]).options;
        let figures = |hits, misses| CacheFigures { hits, misses, write_backs: 2 };
        assert_eq!((figures(0, 0).is_used(), figures(0, 1).is_used()), (false, true));
        assert_eq!(
            means(&options, &outcome(100, Some(figures(3, 1)))),
            "cache of 64KiB in pages of 4k: hit rate 75.00 %, 1 pages read, 2 written; 0.5000 commands per row"
        );
        let without = outcome(100, None);
        assert_eq!(means(&options, &without), "memory of 64KiB, 0.5000 commands per row");
        assert_eq!(figures_of(&without)["cache"], Value::Null);
        assert_eq!(means(&options, &outcome(0, None)), "memory of 64KiB, 0.0000 commands per row");
    }

    fn figures_of(outcome: &Outcome) -> Value {
        super::figures(outcome, &outcome.cached)
    }

    #[test]
    fn hardware_is_a_gpu_and_an_ssd() {
        let gpu = "cuda:0 (NVIDIA H100)";
        let cases =
            [(gpu, false), (gpu, true), ("cuda:0 (fake CUDA driver (no GPU))", false), ("cpu", false)];
        assert_eq!(cases.map(|(target, soft)| is_hardware(target, soft)), [true, false, false, false]);
    }
}
