//! Which targets this machine can run kernels on, and why not the others.

use std::process::{Command, Stdio};

use pyo3::prelude::*;
use warpbell::{Target, error_chain};
use warpbell_kernels::toolchain::{CompileError, cxx_candidates, nvrtc_version};

/// Each target with the reason why it does not work; None where it does.
#[pyfunction]
#[pyo3(name = "_targets")]
pub(crate) fn targets(py: Python<'_>) -> Vec<(String, Option<String>)> {
    py.detach(|| {
        let reason = |found: Result<(), String>| found.err();
        vec![
            ("cpu".to_owned(), reason(cpu())),
            ("ptx".to_owned(), reason(gpu(Target::Ptx))),
            ("cuda:0".to_owned(), reason(gpu(Target::Cuda(0)))),
        ]
    })
}

fn cpu() -> Result<(), String> {
    Target::Cpu.open().map_err(|error| error_chain(&error))?;
    let runs = |compiler: &std::path::PathBuf| {
        let asked =
            Command::new(compiler).arg("--version").stdout(Stdio::null()).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    if cxx_candidates().iter().any(runs) { Ok(()) } else { Err(CompileError::NoCompiler.to_string()) }
}

fn gpu(target: Target) -> Result<(), String> {
    target.open().map_err(|error| error_chain(&error))?;
    nvrtc_version().map(drop).map_err(|error| error_chain(&error))
}
