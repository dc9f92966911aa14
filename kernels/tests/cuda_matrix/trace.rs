//! Tracing costs nothing where it is off, and no order of memory where it is on.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use warpbell_kernels::costs::{Figure, Figures, Probe, compile};
use warpbell_kernels::{HEADERS, PROBES, toolchain};

use crate::skip::skip_without_nvcc;

const ON: &str = "-DWARPBELL_TRACE=1";

/// A line that does nothing but trace.
fn is_hook(line: &str) -> bool {
    line.trim_start().starts_with("trace_") && line.ends_with(");")
}

/// The device library without its hooks.
fn without_hooks() -> Vec<(&'static str, String)> {
    let strip =
        |text: &str| text.lines().filter(|line| !is_hook(line)).map(|line| format!("{line}\n")).collect();
    HEADERS.iter().map(|(name, text)| (*name, strip(text))).collect()
}

/// Machine code for sm_90 of a file of probes against these headers, as text.
fn machine_code(nvcc: &Path, headers: &[(&str, String)], probes: &str, arguments: &[&str]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let of_probes = PROBES.iter().map(|(name, text)| (*name, (*text).to_owned()));
    for (name, text) in headers.iter().cloned().chain(of_probes) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let mut command = Command::new(nvcc);
    command.current_dir(folder.path()).args(["-std=c++20", "-O3", "-cubin", "-arch=sm_90", "-I", "."]);
    command.args(arguments).args([probes, "-o", "out.cubin"]);
    let output = toolchain::run_compiler(&mut command, |_| {}).unwrap();
    assert!(output.status.success(), "{probes}: {}", String::from_utf8_lossy(&output.stderr));
    let mut command = Command::new(nvcc.with_file_name("cuobjdump"));
    let output = command.arg("-sass").arg(folder.path().join("out.cubin")).output().unwrap();
    assert!(output.status.success(), "{probes}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn every_hook_is_a_line_of_its_own() {
    let left = without_hooks().into_iter().filter(|(name, _)| name.starts_with("warpbell/impl/queue_"));
    for (name, text) in left {
        assert!(!text.contains("trace_"), "{name}: a call of the tracer shares its line with something else");
    }
    let hooks: usize =
        HEADERS.iter().map(|(_, text)| text.lines().filter(|line| is_hook(line)).count()).sum();
    assert!(hooks >= 9, "{hooks} hooks");
}

#[test]
fn a_plain_build_is_the_same_with_and_without_hooks() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("what hooks of the trace cost") };
    let headers: Vec<(&str, String)> =
        HEADERS.iter().map(|(name, text)| (*name, (*text).to_owned())).collect();
    for probes in ["queue.cu", "io.cu"] {
        let plain = machine_code(&nvcc, &headers, probes, &[]);
        assert!(plain.contains("Function : probe_"), "{probes}: no machine code was shown");
        let without = machine_code(&nvcc, &without_hooks(), probes, &[]);
        assert!(plain == without, "{probes}: a hook leaks into the plain build");
    }
    // The comparison sees a hook that is there.
    let traced = machine_code(&nvcc, &headers, "queue.cu", &[ON]);
    assert!(traced != machine_code(&nvcc, &without_hooks(), "queue.cu", &[ON]));
}

/// The figures of each probe of the queue on sm_90.
fn figures(nvcc: &Path, arguments: &[String]) -> Vec<(Probe, Figures)> {
    let (name, text) = PROBES.iter().find(|(name, _)| *name == "queue.cu").unwrap();
    let compiled = compile(nvcc, name, text, 90, arguments).unwrap();
    let of_kernel = |kernel: &str, registers: u32| {
        let function = compiled.functions.iter().find(|function| function.name == kernel).unwrap();
        let mut figures = function.count().unwrap();
        figures[Figure::Registers] = registers.into();
        (Probe::of_kernel(kernel).unwrap(), figures)
    };
    compiled.usages.iter().map(|(kernel, usage)| of_kernel(kernel, usage.registers)).collect()
}

#[test]
fn a_traced_build_has_no_more_atomics_and_no_other_fences() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("what a trace costs") };
    let (plain, traced) = (figures(&nvcc, &[]), figures(&nvcc, &[ON.to_owned()]));
    assert_eq!(plain.len(), traced.len());
    println!("sm_90: instructions and registers of whole probes, plain and traced");
    for (probe, traced) in traced {
        let (_, plain) = plain.iter().find(|(other, _)| *other == probe).unwrap();
        let pair = |figure| (plain[figure], traced[figure]);
        let (instructions, registers) = (pair(Figure::Instructions), pair(Figure::Registers));
        println!("{:<32} {instructions:?} {registers:?}", probe.name());
        for figure in [
            Figure::RmwSites,
            Figure::FenceScSysSites,
            Figure::FenceSysSites,
            Figure::FenceGpuSites,
            Figure::FenceOtherSites,
        ] {
            let (plain, traced) = pair(figure);
            assert_eq!(traced, plain, "{}: {}", probe.name(), figure.name());
        }
    }
}
