// UNSAFETY: C functions that read images and write logs through the pointers that they are given.
#![expect(unsafe_code, reason = "the C interface of the CUDA driver")]
//! Modules and their functions.

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use parking_lot::Mutex;

use super::{calls, put, put_text, text};
use crate::code::{Code, Result};
use crate::context::{self, Context, object};
use crate::driver::{driver, misuse};
use crate::image::{self, Refusal};
use crate::kernel::{Function, Module};
use crate::machine;
use crate::options::{Execute, Options};

const ERROR_LOG: c_uint = 5;
const ERROR_LOG_SIZE: c_uint = 6;
const LAST_OPTION: c_uint = 34;

/// The bytes of an image, which itself says where it ends.
///
/// # Safety
/// `image` is a whole ELF file, or text that ends in zero.
unsafe fn bytes_of(image: *const c_void) -> Result<Vec<u8>> {
    let start = image.cast::<u8>();
    // SAFETY: the shortest image is text of one zero; each byte is read only if those before allow for another.
    let is = |magic: &[u8]| (0..magic.len()).all(|at| unsafe { start.wrapping_add(at).read() } == magic[at]);
    if is(&0xBA55_ED50_u32.to_le_bytes()) {
        return Err(misuse(Code::NOT_SUPPORTED, "a fat binary: this driver takes PTX and cubins"));
    }
    let len = if is(b"\x7fELF") {
        // SAFETY: an ELF file has a header of 64 bytes.
        let header = unsafe { std::slice::from_raw_parts(start, 64) };
        let number = |at: usize, len: usize| {
            header[at..at + len].iter().rev().fold(0usize, |value, byte| value << 8 | usize::from(*byte))
        };
        // Section headers and program headers come last.
        let sections = number(0x28, 8) + number(0x3a, 2) * number(0x3c, 2);
        sections.max(number(0x20, 8) + number(0x36, 2) * number(0x38, 2))
    } else {
        // SAFETY: text that ends in zero.
        unsafe { CStr::from_ptr(start.cast()) }.to_bytes().len()
    };
    // SAFETY: as long as the image says.
    Ok(unsafe { std::slice::from_raw_parts(start, len) }.to_vec())
}

/// Writes the compiler's log to where the options want it, and its length to where its size stood.
///
/// # Safety
/// Options and values as cuda.h says.
unsafe fn write_log(options: &[c_uint], values: &mut [*mut c_void], log: &str) -> Result<()> {
    if let Some(unknown) = options.iter().find(|option| **option >= LAST_OPTION) {
        return Err(misuse(Code::INVALID_VALUE, &format!("option {unknown}")));
    }
    let at = |wanted| options.iter().position(|option| *option == wanted);
    let (Some(buffer), Some(size)) = (at(ERROR_LOG), at(ERROR_LOG_SIZE)) else { return Ok(()) };
    let room = values[size].addr();
    // SAFETY: a buffer of the size that the caller gave with it.
    unsafe { put_text(values[buffer].cast(), room, log) }?;
    values[size] = std::ptr::without_provenance_mut((log.len() + 1).min(room));
    Ok(())
}

fn function(context: &Context, handle: u64) -> Result<Arc<Function>> {
    object(&context.functions, handle, "function")
}

/// Loads a module, and says what the compiler's log says.
fn load(bytes: &[u8]) -> std::result::Result<Module, Refusal> {
    let options = &driver().map_err(|code| Refusal(code, String::new()))?.options;
    let loaded =
        if bytes.starts_with(b"\x7fELF") { machine_code(bytes, options) } else { ptx(bytes, options) };
    // Users have no ptxas, and need not be told of one.
    let plain = |Refusal(code, text): Refusal| Refusal(code, text.replace("ptxas fatal: ", ""));
    if options.users { loaded.map_err(plain) } else { loaded }
}

fn machine_code(bytes: &[u8], options: &Options) -> std::result::Result<Module, Refusal> {
    let entries = image::of_cubin(bytes, options.capability, options.driver.max(0) as u32)?;
    if options.execute == Execute::Ptx {
        let why = "the PTX machine runs PTX, not machine code".to_owned();
        return Err(Refusal(Code::NO_BINARY_FOR_GPU, why));
    }
    Ok(Module { entries, ptx: None, functions: Mutex::default() })
}

/// Its text is read once: for what a driver says of it, and for the machine.
fn ptx(bytes: &[u8], options: &Options) -> std::result::Result<Module, Refusal> {
    let text = machine::text(bytes, options.mutate.as_deref())?;
    let source = machine::read(&text)?;
    let entries = image::of_ptx(&source, options.capability, options.driver.max(0) as u32)?;
    let ptx = (options.execute == Execute::Ptx).then(|| machine::module(&source)).transpose()?;
    Ok(Module { entries, ptx, functions: Mutex::default() })
}

calls! {
    fn cuModuleLoadDataEx(
        to: *mut u64,
        image: *const c_void,
        count: c_uint,
        options: *const c_uint,
        values: *mut *mut c_void,
    ) {
        let context = driver()?.current()?;
        if image.is_null() || count > 0 && (options.is_null() || values.is_null()) {
            return Err(misuse(Code::INVALID_VALUE, "no image, or no options"));
        }
        // SAFETY: an image as cuda.h wants it.
        let bytes = unsafe { bytes_of(image) }?;
        let (options, values) = match count {
            0 => (&[][..], &mut [][..]),
            // SAFETY: as many options as the caller says, each with its value.
            _ => unsafe { slices(options, values, count as usize) },
        };
        context.note_waiting("code is loaded");
        match load(&bytes) {
            Ok(module) => {
                let handle = context::handle();
                context.modules.lock().insert(handle, Arc::new(module));
                // SAFETY: the caller's options.
                unsafe { write_log(options, values, "") }?;
                // SAFETY: the caller's pointer, to a handle.
                unsafe { put(to, handle) }
            }
            Err(Refusal(code, text)) => {
                // SAFETY: the caller's options.
                unsafe { write_log(options, values, &text) }?;
                Err(code)
            }
        }
    }

    fn cuModuleUnload(module: u64) {
        let context = driver()?.current()?;
        let found = object(&context.modules, module, "module")?;
        context.drain();
        context.modules.lock().remove(&module);
        let mut functions = context.functions.lock();
        found.functions.lock().values().for_each(|handle| {
            functions.remove(handle);
        });
        Ok(())
    }

    fn cuModuleGetFunction(to: *mut u64, module: u64, name: *const c_char) {
        let context = driver()?.current()?;
        let module = object(&context.modules, module, "module")?;
        // SAFETY: the caller's text.
        let name = unsafe { text(name) }?;
        let (entry, image) = module.entries.get(&name).cloned().ok_or(Code::NOT_FOUND)?;
        let mut known = module.functions.lock();
        let handle = *known.entry(name).or_insert_with(|| {
            let handle = context::handle();
            context.functions.lock().insert(handle, Arc::new(Function::new(entry, image, module.ptx.clone())));
            handle
        });
        // SAFETY: the caller's pointer, to a handle.
        unsafe { put(to, handle) }
    }

    fn cuFuncLoad(handle: u64) {
        let context = driver()?.current()?;
        let function = function(&context, handle)?;
        if !function.loaded.swap(true, Ordering::Relaxed) {
            context.note_waiting("code is loaded");
        }
        Ok(())
    }

    fn cuFuncGetAttribute(value: *mut c_int, attribute: c_uint, handle: u64) {
        let driver = driver()?;
        let context = driver.current()?;
        let function = function(&context, handle)?;
        let number = match attribute {
            0 => function.entry.most_threads,
            1 => function.entry.shared_bytes,
            3 => function.entry.local_bytes,
            4 => function.registers(),
            5 => function.image.arch,
            6 if function.image.ptx.is_some() => driver.options.capability,
            6 => function.image.arch,
            8 => function.dynamic(),
            2 | 7 | 9..=15 => 0,
            _ => return Err(misuse(Code::INVALID_VALUE, &format!("attribute {attribute}"))),
        };
        // SAFETY: the caller's pointer.
        unsafe { put(value, number as c_int) }
    }

    fn cuFuncSetAttribute(handle: u64, attribute: c_uint, value: c_int) {
        const MAX_DYNAMIC_SHARED: c_uint = 8;
        let context = driver()?.current()?;
        let function = function(&context, handle)?;
        match u32::try_from(value) {
            Ok(bytes) if attribute == MAX_DYNAMIC_SHARED => function.allow(bytes),
            _ => Err(misuse(Code::INVALID_VALUE, &format!("attribute {attribute}: {value}"))),
        }
    }

    fn cuFuncGetParamInfo(handle: u64, index: usize, offset: *mut usize, size: *mut usize) {
        let context = driver()?.current()?;
        let function = function(&context, handle)?;
        // That there are no more is how callers learn it.
        let parameter = function.entry.parameters.get(index).ok_or(Code::INVALID_VALUE)?;
        // SAFETY: the caller's pointer.
        unsafe { put(offset, parameter.offset) }?;
        if size.is_null() {
            return Ok(());
        }
        // SAFETY: the caller's pointer.
        unsafe { put(size, parameter.size) }
    }

    fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
        to: *mut c_int,
        handle: u64,
        block: c_int,
        shared: usize,
    ) {
        let driver = driver()?;
        let context = driver.current()?;
        let function = function(&context, handle)?;
        let (Ok(block @ 1..), Ok(shared)) = (u32::try_from(block), u32::try_from(shared)) else {
            return Err(misuse(Code::INVALID_VALUE, &format!("{block} threads")));
        };
        let blocks = function.occupancy(block, shared, driver.options.capability);
        // SAFETY: the caller's pointer.
        unsafe { put(to, blocks as c_int) }
    }
}

/// # Safety
/// Both point at `count` elements, which nobody else uses.
unsafe fn slices<'a>(
    options: *const c_uint,
    values: *mut *mut c_void,
    count: usize,
) -> (&'a [c_uint], &'a mut [*mut c_void]) {
    // SAFETY: the caller's promise.
    let options = unsafe { std::slice::from_raw_parts(options, count) };
    // SAFETY: as above.
    (options, unsafe { std::slice::from_raw_parts_mut(values, count) })
}
