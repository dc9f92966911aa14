//! Modules, their functions, and launches.
// UNSAFETY: calls the CUDA driver with images and arguments that live for the time of the call.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ffi::{CString, c_int, c_void};
use std::sync::Arc;

use cudarc::driver::sys::{
    CUdevice_attribute, CUfunction, CUfunction_attribute, CUjit_option, CUlaunchAttribute,
    CUlaunchAttributeID, CUlaunchAttributeValue, CUlaunchConfig, CUmodule,
};

use super::context::Context;
use super::stream::Stream;
use crate::GpuError;
use crate::codes::NOT_FOUND;

/// Bytes that the driver's compiler may write into a log.
const LOG: usize = 16 << 10;
/// The most bytes of arguments that a kernel may have, on any GPU and driver. The driver reads as many as the kernel
/// has, and is not told how many there are.
const MOST_ARGUMENTS: usize = 32764;
/// The most arguments that a kernel may have.
const MOST_POINTERS: usize = 4096;
/// Shared memory, static and dynamic, that every block may have; more must be asked for.
const PLAIN_SHARED: u32 = 48 << 10;

/// A module in a context.
pub(crate) struct LoadedModule {
    context: Arc<Context>,
    raw: CUmodule,
    name: String,
}

// SAFETY: a module handle may be used from any thread.
unsafe impl Send for LoadedModule {}
// SAFETY: the driver synchronises its calls.
unsafe impl Sync for LoadedModule {}

/// A kernel of a module.
#[derive(Clone)]
pub(crate) struct Symbol {
    module: Arc<LoadedModule>,
    raw: CUfunction,
    name: String,
}

// SAFETY: a function handle may be used from any thread, while its module lives.
unsafe impl Send for Symbol {}
// SAFETY: the driver synchronises its calls.
unsafe impl Sync for Symbol {}

impl LoadedModule {
    /// `image` is PTX text, a cubin or a fat binary.
    pub(crate) fn load(context: &Arc<Context>, name: &str, image: &[u8]) -> Result<LoadedModule, GpuError> {
        // PTX ends in a zero; others do not mind it.
        let mut bytes = image.to_vec();
        bytes.push(0);
        let (mut errors, mut notes) = (vec![0u8; LOG], vec![0u8; LOG]);
        let mut options = [
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER,
            CUjit_option::CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER,
            CUjit_option::CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES,
        ];
        // Numbers go by value, in place of pointers.
        let size = std::ptr::without_provenance_mut::<c_void>(LOG);
        let mut values = [errors.as_mut_ptr().cast(), size, notes.as_mut_ptr().cast(), size];
        let mut raw = std::ptr::null_mut();
        let _current = context.enter()?;
        // SAFETY: image, options and buffers live until the call is back; the driver keeps none of them.
        let result = unsafe {
            context.functions().cuModuleLoadDataEx(
                &raw mut raw,
                bytes.as_ptr().cast(),
                options.len() as u32,
                options.as_mut_ptr(),
                values.as_mut_ptr(),
            )
        };
        let object = || format!("{}: module {name}", context.device().name_in_errors());
        context.outcome(result, object).map_err(|error| {
            let log = [text(&errors), text(&notes)].join("\n").trim().to_owned();
            GpuError::Image { error: Box::new(error), log }
        })?;
        Ok(LoadedModule { context: context.clone(), raw, name: name.to_owned() })
    }

    pub(crate) fn symbol(self: &Arc<Self>, name: &str) -> Result<Symbol, GpuError> {
        let object =
            || format!("{}: kernel {name} of module {}", self.context.device().name_in_errors(), self.name);
        let Ok(zero_ended) = CString::new(name) else {
            return Err(GpuError::refused(object(), "a name has no zero bytes"));
        };
        let _current = self.context.enter()?;
        let functions = self.context.functions();
        let mut raw = std::ptr::null_mut();
        // SAFETY: writes one handle; the name lives until the call is back.
        let result = unsafe { functions.cuModuleGetFunction(&raw mut raw, self.raw, zero_ended.as_ptr()) };
        if result.as_ref().is_err_and(|failure| failure.code() == Some(NOT_FOUND)) {
            return Err(GpuError::refused(object(), "the module has no kernel of that name"));
        }
        self.context.outcome(result, object)?;
        // Loaded now and not at its first launch, which would wait for all kernels that run.
        // SAFETY: the handle is the driver's.
        match unsafe { functions.cuFuncLoad(raw) } {
            Err(failure) if failure.code().is_some() => self.context.outcome(Err(failure), object)?,
            // Drivers before 12.4 load functions with their module, or when they are first asked about.
            _ => {}
        }
        Ok(Symbol { module: self.clone(), raw, name: name.to_owned() })
    }
}

fn text(buffer: &[u8]) -> String {
    let end = buffer.iter().position(|byte| *byte == 0).unwrap_or(buffer.len());
    String::from_utf8_lossy(&buffer[..end]).into_owned()
}

impl Drop for LoadedModule {
    fn drop(&mut self) {
        let unloaded = self.context.enter().and_then(|_current| {
            // SAFETY: loaded by `load`, unloaded once; launches keep the module.
            let result = unsafe { self.context.functions().cuModuleUnload(self.raw) };
            self.context.outcome(result, || format!("module {}", self.name))
        });
        if let Err(error) = unloaded {
            tracing::debug!(%error, "not unloaded");
        }
    }
}

/// Arguments in words, as they are aligned; and as long as any kernel's, so that the driver never reads outside.
fn argument_words(args: &[u8]) -> Vec<u128> {
    let mut words = vec![0; MOST_ARGUMENTS.div_ceil(16)];
    for (word, chunk) in words.iter_mut().zip(args.chunks(16)) {
        let mut bytes = [0; 16];
        bytes[..chunk.len()].copy_from_slice(chunk);
        *word = u128::from_ne_bytes(bytes);
    }
    words
}

/// How many threads, and how they are started.
pub(crate) struct Shape {
    pub(crate) grid: u32,
    pub(crate) block: u32,
    pub(crate) shared_bytes: u32,
    pub(crate) cooperative: bool,
}

impl Symbol {
    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.module.context
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    fn object(&self) -> String {
        format!("{}: kernel {}", self.context().device().name_in_errors(), self.name)
    }

    pub(crate) fn attribute(&self, attribute: CUfunction_attribute) -> Result<i32, GpuError> {
        let context = self.context();
        let _current = context.enter()?;
        let mut value: c_int = 0;
        // SAFETY: writes one integer; the function is the module's.
        let result = unsafe { context.functions().cuFuncGetAttribute(&raw mut value, attribute, self.raw) };
        context.outcome(result, || format!("{}: {attribute:?}", self.object()))?;
        Ok(value)
    }

    /// Size in bytes of the first argument; `None` if it has none, or the driver (before 12.4) cannot say. The others are
    /// not asked for: a call for one more than there are fails, which is an error to compute-sanitizer.
    pub(crate) fn argument_size(&self) -> Option<usize> {
        let context = self.context();
        let _current = context.enter().ok()?;
        let (mut offset, mut size) = (0, 0);
        // SAFETY: writes two integers.
        let result =
            unsafe { context.functions().cuFuncGetParamInfo(self.raw, 0, &raw mut offset, &raw mut size) };
        result.ok().map(|()| size)
    }

    pub(crate) fn blocks_per_multiprocessor(&self, threads: u32, shared: u32) -> Result<u32, GpuError> {
        self.allow_shared(shared)?;
        let context = self.context();
        let _current = context.enter()?;
        let mut blocks: c_int = 0;
        // SAFETY: writes one integer.
        let result = unsafe {
            context.functions().cuOccupancyMaxActiveBlocksPerMultiprocessor(
                &raw mut blocks,
                self.raw,
                threads as c_int,
                shared as usize,
            )
        };
        context.outcome(result, || format!("{}: occupancy with {threads} threads", self.object()))?;
        Ok(blocks.max(0) as u32)
    }

    /// Puts a launch on a stream. The driver copies the arguments before it comes back.
    ///
    /// # Safety
    /// The kernel touches only memory that is valid until it has ended.
    pub(crate) unsafe fn launch(
        &self,
        stream: &mut Stream,
        shape: &Shape,
        args: &[u8],
    ) -> Result<(), GpuError> {
        if args.len() > MOST_ARGUMENTS {
            let reason = format!("{} bytes of arguments: at most {MOST_ARGUMENTS}", args.len());
            return Err(GpuError::refused(self.object(), reason));
        }
        self.allow_shared(shape.shared_bytes)?;
        let mut words = argument_words(args);
        // As many as any kernel has arguments: the driver reads one for each, and is not told how many there are.
        let mut pointers = vec![words.as_mut_ptr().cast::<c_void>(); MOST_POINTERS];
        let mut attributes = [CUlaunchAttribute {
            id: CUlaunchAttributeID::CU_LAUNCH_ATTRIBUTE_COOPERATIVE,
            pad: [0; 4],
            value: CUlaunchAttributeValue { cooperative: 1 },
        }];
        stream.use_now();
        let config = CUlaunchConfig {
            gridDimX: shape.grid,
            gridDimY: 1,
            gridDimZ: 1,
            blockDimX: shape.block,
            blockDimY: 1,
            blockDimZ: 1,
            sharedMemBytes: shape.shared_bytes,
            hStream: stream.handle(),
            attrs: attributes.as_mut_ptr(),
            numAttrs: u32::from(shape.cooperative),
        };
        let context = self.context();
        let _current = context.enter()?;
        // SAFETY: configuration and arguments live until the call is back; the rest is the contract of this function.
        let result = unsafe {
            context.functions().cuLaunchKernelEx(
                &raw const config,
                self.raw,
                pointers.as_mut_ptr(),
                std::ptr::null_mut(),
            )
        };
        context.outcome(result, || {
            format!("{}: launch of {} blocks of {} threads", self.object(), shape.grid, shape.block)
        })
    }

    /// Asks for all the dynamic shared memory that a block can have, where it needs more than every block has: without it
    /// the launch fails, and none fits at once. Always all, so that launches by several threads do not undo each other's.
    fn allow_shared(&self, bytes: u32) -> Result<(), GpuError> {
        use CUfunction_attribute as Attribute;
        if bytes == 0 {
            return Ok(());
        }
        let fixed = self.attribute(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?.max(0) as u32;
        if fixed.saturating_add(bytes) <= PLAIN_SHARED {
            return Ok(());
        }
        let context = self.context();
        let optin = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN;
        let most = (context.device().attribute(optin)?.max(0) as u32).saturating_sub(fixed);
        if bytes > most {
            let reason = format!("{bytes} bytes of dynamic shared memory for a block: at most {most}");
            return Err(GpuError::refused(self.object(), reason));
        }
        let _current = context.enter()?;
        let attribute = Attribute::CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
        // SAFETY: takes no pointers.
        let result = unsafe { context.functions().cuFuncSetAttribute(self.raw, attribute, most as c_int) };
        context.outcome(result, || format!("{}: {most} bytes of shared memory", self.object()))
    }
}
