// UNSAFETY: reads a launch's configuration and arguments through the pointers that it is given.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! Launches.

use std::ffi::{c_uint, c_void};
use std::sync::atomic::Ordering;

use super::calls;
use crate::code::{Code, Result};
use crate::context::object;
use crate::driver::{driver, misuse};
use crate::kernel::{self, Function, Shape};
use crate::log::{self, Kind};

/// `CUlaunchConfig`.
#[repr(C)]
#[derive(Debug)]
pub struct Config {
    grid: [c_uint; 3],
    block: [c_uint; 3],
    shared: c_uint,
    stream: u64,
    attributes: *const Attribute,
    count: c_uint,
}

/// `CUlaunchAttribute`: a number, and a union of 64 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Attribute {
    id: c_uint,
    pad: c_uint,
    value: [u64; 8],
}

const IGNORE: c_uint = 0;
const COOPERATIVE: c_uint = 2;

/// Whether the launch is cooperative.
///
/// # Safety
/// The configuration is as cuda.h says.
unsafe fn cooperative(config: &Config) -> Result<bool> {
    if config.count == 0 {
        return Ok(false);
    }
    if config.attributes.is_null() {
        return Err(misuse(Code::INVALID_VALUE, "attributes are missing"));
    }
    // SAFETY: as many as the configuration says.
    let attributes = unsafe { std::slice::from_raw_parts(config.attributes, config.count as usize) };
    let mut found = false;
    for Attribute { id, value, .. } in attributes {
        match *id {
            IGNORE => {}
            // An int at the start of the union.
            COOPERATIVE => found = value[0] as u32 != 0,
            other => return Err(misuse(Code::NOT_SUPPORTED, &format!("launch attribute {other}"))),
        }
    }
    Ok(found)
}

/// The bytes of all arguments, each at its place.
///
/// # Safety
/// `pointers` has one for each parameter, to as many bytes as that has.
unsafe fn arguments(function: &Function, pointers: *const *const c_void) -> Result<Vec<u8>> {
    let parameters = &function.entry.parameters;
    let len = parameters.last().map_or(0, |last| last.offset + last.size);
    let mut bytes = vec![0; len];
    if pointers.is_null() && !parameters.is_empty() {
        return Err(misuse(Code::INVALID_VALUE, "the kernel has parameters, and there are no arguments"));
    }
    for (index, parameter) in parameters.iter().enumerate() {
        // SAFETY: one for each parameter.
        let slot = unsafe { pointers.add(index) };
        // SAFETY: as above.
        let from = unsafe { slot.read() }.cast::<u8>();
        if from.is_null() {
            return Err(misuse(Code::INVALID_VALUE, &format!("argument {index} is missing")));
        }
        // SAFETY: as many bytes as the parameter has.
        let argument = unsafe { std::slice::from_raw_parts(from, parameter.size) };
        bytes[parameter.offset..parameter.offset + parameter.size].copy_from_slice(argument);
    }
    Ok(bytes)
}

fn shape(config: &Config) -> Result<Shape> {
    if config.grid[1..] != [1, 1] || config.block[1..] != [1, 1] {
        let text =
            format!("{:?} blocks of {:?}: the CPU executor has one dimension", config.grid, config.block);
        return Err(misuse(Code::INVALID_VALUE, &text));
    }
    Ok(Shape { grid: config.grid[0], block: config.block[0], shared: config.shared })
}

calls! {
    fn cuLaunchKernelEx(
        config: *const Config,
        handle: u64,
        pointers: *const *const c_void,
        extra: *const c_void,
    ) {
        let driver = driver()?;
        let context = driver.current()?;
        if config.is_null() || !extra.is_null() {
            return Err(misuse(Code::INVALID_VALUE, "no configuration, or arguments by `extra`"));
        }
        // SAFETY: the caller's configuration.
        let config = unsafe { &*config };
        let function = object(&context.functions, handle, "function")?;
        let stream = context.stream(config.stream)?;
        let shape = shape(config)?;
        function.check(&shape)?;
        let options = &driver.options;
        let resident = function.occupancy(shape.block, shape.shared, options.capability) * options.multiprocessors;
        if resident == 0 {
            return Err(Code::LAUNCH_OUT_OF_RESOURCES);
        }
        // SAFETY: the caller's configuration.
        if unsafe { cooperative(config) }? {
            if !options.cooperative {
                return Err(misuse(Code::NOT_SUPPORTED, "the device says that it has no cooperative launches"));
            }
            if shape.grid > resident {
                return Err(Code::COOPERATIVE_LAUNCH_TOO_LARGE);
            }
        }
        // SAFETY: the caller's arguments.
        let args = unsafe { arguments(&function, pointers) }?;
        let prepared = kernel::prepare(&function, &shape, &args, resident, (options, &context.gpu))?;
        if !function.loaded.swap(true, Ordering::Relaxed) && context.kernels() > 0 {
            log::note(Kind::Hazard, "the kernel's code is loaded by its first launch, while another runs");
        }
        let mappings = driver.memory.mappings();
        let delay = options.kernel_delay;
        stream.push(&context, true, Box::new(move || {
            std::thread::sleep(delay);
            prepared.run(mappings)
        }));
        Ok(())
    }
}
