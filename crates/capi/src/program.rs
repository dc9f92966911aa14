// UNSAFETY: hands its caller's promise on.
#![expect(unsafe_code, reason = "a shared object of kernels is native code")]
//! Kernels of the user's own, compiled at run time or before.

use std::path::Path;

use warpbell::{CompileOptions, Program, Target};

use crate::error::{Answer, Failure};
use crate::handle::{Kind, Table};

pub(crate) static PROGRAMS: Table<Program> = Table::new(Kind::Program);

/// Compiles a source for a target.
///
/// # Safety
/// As for [`Program::compile`].
pub(crate) unsafe fn compile(
    target: Target,
    name: &str,
    source: &str,
    options: &CompileOptions,
) -> Answer<u64> {
    let target = target.open()?;
    // SAFETY: the contract of this function.
    let program = unsafe { Program::compile(&target, name, source, options) };
    Ok(PROGRAMS.add(program?))
}

/// The same for the source in a file.
///
/// # Safety
/// As for [`Program::compile`].
pub(crate) unsafe fn compile_file(target: Target, path: &str, options: &CompileOptions) -> Answer<u64> {
    let text = std::fs::read_to_string(Path::new(path))
        .map_err(|error| Failure::invalid(format!("kernel source {path}: {error}")))?;
    // SAFETY: the contract of this function.
    unsafe { compile(target, path, &text, options) }
}

/// Kernels that were compiled before.
///
/// # Safety
/// As for [`Program::load`].
pub(crate) unsafe fn load(target: Target, path: &str) -> Answer<u64> {
    let target = target.open()?;
    // SAFETY: the contract of this function.
    let program = unsafe { Program::load(&target, Path::new(path)) };
    Ok(PROGRAMS.add(program?))
}

/// Closes a program; its runs go on.
pub(crate) fn close(handle: u64) -> Answer<()> {
    PROGRAMS.close(handle, |_| Ok(())).map(drop)
}
