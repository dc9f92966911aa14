// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! Programs and their runs.

use std::ffi::{c_char, c_void};
use std::path::Path;
use std::time::Duration;

use super::pointer::{bytes, list, make, number, options, target, text};
use crate::error::{Answer, Failure, report};
use crate::over::Over;
use crate::program;
use crate::run::{RUNS, Run, Shape};
use crate::types::{CompileOptions, Handle, LaunchOptions};

/// What the options of a compilation say.
///
/// # Safety
/// As for [`options`] and [`list`].
unsafe fn compile_options(chosen: *const CompileOptions) -> Answer<warpbell::CompileOptions> {
    // SAFETY: the contract of this function.
    let chosen = unsafe { options("warpbell_compile_options", chosen) }?;
    // SAFETY: as above.
    let definitions = unsafe { list("definitions", chosen.definitions) }?;
    let start = warpbell::CompileOptions::default();
    let known = definitions.iter().fold(start, |known, definition| known.define(definition));
    if chosen.cache.is_null() {
        return Ok(known);
    }
    // SAFETY: as above.
    let cache = unsafe { text("cache", chosen.cache) }?;
    Ok(known.cache(Path::new(cache)))
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_program_compile(
    on: *const c_char,
    name: *const c_char,
    source: *const c_char,
    chosen: *const CompileOptions,
    program: *mut Handle,
) -> i32 {
    let compile = || {
        // SAFETY: the contract of this function.
        let on = unsafe { target(on) }?;
        // SAFETY: as above.
        let name = unsafe { text("name", name) }?;
        // SAFETY: as above.
        let source = unsafe { text("source", source) }?;
        // SAFETY: as above.
        let chosen = unsafe { compile_options(chosen) }?;
        // SAFETY: as above; the header says that a source is trusted.
        unsafe { program::compile(on, name, source, &chosen) }
    };
    // SAFETY: as above.
    report(|| unsafe { make("program", program, compile) })
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_program_compile_file(
    on: *const c_char,
    path: *const c_char,
    chosen: *const CompileOptions,
    program: *mut Handle,
) -> i32 {
    let compile = || {
        // SAFETY: the contract of this function.
        let on = unsafe { target(on) }?;
        // SAFETY: as above.
        let path = unsafe { text("path", path) }?;
        // SAFETY: as above.
        let chosen = unsafe { compile_options(chosen) }?;
        // SAFETY: as above; the header says that a source is trusted.
        unsafe { program::compile_file(on, path, &chosen) }
    };
    // SAFETY: as above.
    report(|| unsafe { make("program", program, compile) })
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says, and a shared object's code is trusted.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_program_load(
    on: *const c_char,
    path: *const c_char,
    program: *mut Handle,
) -> i32 {
    let load = || {
        // SAFETY: the contract of this function.
        let on = unsafe { target(on) }?;
        // SAFETY: as above.
        let path = unsafe { text("path", path) }?;
        // SAFETY: as above.
        unsafe { program::load(on, path) }
    };
    // SAFETY: as above.
    report(|| unsafe { make("program", program, load) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_program_close(program: Handle) -> i32 {
    report(|| program::close(number(program)))
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says, the kernel touches only memory that is valid until the run has ended, and
/// a stream is there as long.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_launch(
    program: Handle,
    kernel: *const c_char,
    queues: Handle,
    args: *const c_void,
    args_bytes: usize,
    chosen: *const LaunchOptions,
    run: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { launch(program, kernel, || Over::queues(number(queues)), (args, args_bytes), chosen, run) }
}

/// As the header says.
///
/// # Safety
/// As for [`warpbell_launch`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_launch(
    program: Handle,
    kernel: *const c_char,
    volume: Handle,
    args: *const c_void,
    args_bytes: usize,
    chosen: *const LaunchOptions,
    run: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { launch(program, kernel, || Over::volume(number(volume)), (args, args_bytes), chosen, run) }
}

/// The stream that a launch goes on; `None`: one of its own. Handle 0 is CUDA's default stream, which a program may have
/// meant that says no more.
fn stream_of(chosen: &LaunchOptions) -> Answer<Option<u64>> {
    let handle = number(chosen.stream);
    match (chosen.on_stream, handle) {
        (0, 0) => Ok(None),
        (0, set) => {
            let rule = "on_stream is 0: set it to 1, or the stream to NULL for one of the library's own";
            Err(Failure::invalid(format!("stream {set:#x}: {rule}")))
        }
        _ => Ok(Some(handle)),
    }
}

/// # Safety
/// As for [`warpbell_launch`].
unsafe fn launch(
    program: Handle,
    kernel: *const c_char,
    over: impl FnOnce() -> Answer<Over>,
    (args, args_bytes): (*const c_void, usize),
    chosen: *const LaunchOptions,
    run: *mut Handle,
) -> i32 {
    let start = || {
        // SAFETY: the contract of this function.
        let kernel = unsafe { text("kernel", kernel) }?;
        // SAFETY: as above.
        let args = unsafe { bytes("args", args.cast(), args_bytes) }?;
        // SAFETY: as above.
        let chosen = unsafe { options("warpbell_launch_options", chosen) }?;
        let LaunchOptions { grid, block, shared_bytes, cpu_threads, cooperative, .. } = chosen;
        let shape = Shape { grid, block, shared_bytes, cpu_threads, cooperative: cooperative != 0 };
        let (stream, over) = (stream_of(&chosen)?, over()?);
        Run::launch((number(program), kernel, &over), &shape, |program| {
            let launch = match &over {
                // SAFETY: the contract of this function: what the kernel touches lives until the run has ended.
                Over::Queues(queues) => unsafe { program.launch(&queues.attachment, kernel, args) },
                // SAFETY: as above.
                Over::Volume(volume) => unsafe { program.launch(&*volume.volume, kernel, args) },
            }?;
            // SAFETY: the contract of this function: a stream of the GPU's, which stays until the run has ended.
            Ok(stream.into_iter().fold(launch, |launch, stream| unsafe { launch.stream(stream) }))
        })
    };
    // SAFETY: as above.
    report(|| unsafe { make("run", run, start) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_run_wait(run: Handle, timeout_ns: u64) -> i32 {
    let timeout = (timeout_ns != u64::MAX).then(|| Duration::from_nanos(timeout_ns));
    report(|| RUNS.get(number(run))?.wait(timeout))
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_run_close(run: Handle) -> i32 {
    report(|| Run::close(number(run)))
}
