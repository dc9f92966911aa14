//! Modules and their kernels.

use std::sync::Arc;

use cudarc::driver::sys::CUfunction_attribute as Attribute;

use crate::launch::LaunchConfig;
use crate::sys::{LoadedModule, Symbol};
use crate::{Gpu, GpuError};

/// A module on a GPU. Clones are the same module.
#[derive(Clone)]
pub struct Module {
    loaded: Arc<LoadedModule>,
    gpu: Arc<Gpu>,
    name: Arc<str>,
}

/// A kernel of a module, ready to run.
#[derive(Clone)]
pub struct Function {
    symbol: Symbol,
    gpu: Arc<Gpu>,
    attributes: Attributes,
    argument_size: Option<usize>,
}

/// What the driver's compiler made of a kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of local memory of a thread: stack and spills.
    pub local_bytes: u32,
    /// Bytes of static shared memory of a block.
    pub shared_bytes: u32,
    /// The most threads in a block.
    pub max_threads: u32,
    /// Architecture of the PTX, times ten: 75 for compute_75.
    pub ptx_version: u32,
    /// Architecture of the binary, times ten: 90 for sm_90.
    pub binary_version: u32,
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Module").field(&self.name).finish()
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut text = f.debug_struct("Function");
        text.field("name", &self.name()).field("attributes", &self.attributes).finish_non_exhaustive()
    }
}

impl Module {
    pub(crate) fn load(gpu: Arc<Gpu>, name: &str, image: &[u8]) -> Result<Module, GpuError> {
        if !is_image(image) {
            let object = format!("{}: module {name}", gpu.info().target());
            return Err(GpuError::refused(object, "neither PTX text nor a cubin nor a fat binary"));
        }
        if gpu.info().is_ptx && !is_text(image) {
            let object = format!("{}: module {name}", gpu.info().target());
            return Err(GpuError::refused(object, NO_PTX));
        }
        let loaded = Arc::new(LoadedModule::load(gpu.context(), name, image)?);
        Ok(Module { loaded, gpu, name: name.into() })
    }

    /// What errors call it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The kernel of that name (`extern "C"`).
    pub fn function(&self, name: &str) -> Result<Function, GpuError> {
        let symbol = self.loaded.symbol(name)?;
        let attributes = Attributes::of(&symbol)?;
        let argument_size = symbol.argument_size();
        Ok(Function { symbol, gpu: self.gpu.clone(), attributes, argument_size })
    }
}

const ELF: &[u8] = b"\x7fELF";
const FAT: &[u8] = &0xBA55_ED50u32.to_le_bytes();
/// Of an image for the PTX machine.
const NO_PTX: &str = "a cubin or a fat binary, and the PTX machine runs the text of PTX, not machine code: \
                      `nvcc -ptx -lineinfo` makes it of the same source, `cuobjdump -ptx` shows what a fat binary has";

/// Whether it begins as one of the images that the driver takes; others it would read beyond their end.
fn is_image(image: &[u8]) -> bool {
    !is_text(image) || image.windows(8).any(|part| part == b".version")
}

/// Whether it is neither a cubin nor a fat binary.
fn is_text(image: &[u8]) -> bool {
    !image.starts_with(ELF) && !image.starts_with(FAT)
}

impl Attributes {
    fn of(symbol: &Symbol) -> Result<Attributes, GpuError> {
        let number = |attribute| symbol.attribute(attribute).map(|value| value.max(0) as u32);
        Ok(Attributes {
            registers: number(Attribute::CU_FUNC_ATTRIBUTE_NUM_REGS)?,
            local_bytes: number(Attribute::CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES)?,
            shared_bytes: number(Attribute::CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES)?,
            max_threads: number(Attribute::CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK)?,
            ptx_version: number(Attribute::CU_FUNC_ATTRIBUTE_PTX_VERSION)?,
            binary_version: number(Attribute::CU_FUNC_ATTRIBUTE_BINARY_VERSION)?,
        })
    }
}

impl Function {
    /// Its name.
    pub fn name(&self) -> &str {
        self.symbol.name()
    }

    /// What the compiler made of it.
    pub fn attributes(&self) -> Attributes {
        self.attributes
    }

    /// Bytes of its first argument; `None` where the driver (before 12.4) cannot say, or if it has none.
    pub fn argument_size(&self) -> Option<usize> {
        self.argument_size
    }

    /// Blocks of `threads` threads with `shared` bytes of dynamic shared memory that run on one multiprocessor at a
    /// time.
    pub fn blocks_per_multiprocessor(&self, threads: u32, shared: u32) -> Result<u32, GpuError> {
        self.symbol.blocks_per_multiprocessor(threads, shared)
    }

    pub(crate) fn symbol(&self) -> &Symbol {
        &self.symbol
    }

    /// Whether it can be launched like this.
    pub(crate) fn check(&self, config: &LaunchConfig, args: &[u8]) -> Result<(), GpuError> {
        let object = || format!("{}: kernel {}", self.gpu.info().target(), self.name());
        let refuse = |reason: String| Err(GpuError::refused(object(), reason));
        if let Some(size) = self.argument_size
            && size != args.len()
        {
            return refuse(format!(
                "its argument has {size} bytes, and {} were given: host and kernel were built from different sources",
                args.len()
            ));
        }
        let most = self.attributes.max_threads;
        if config.grid == 0 || config.block == 0 || config.block > most {
            return refuse(format!(
                "{} blocks of {} threads: at least 1 of each, and at most {most} threads",
                config.grid, config.block
            ));
        }
        if !config.cooperative {
            return Ok(());
        }
        if !self.gpu.info().cooperative {
            return refuse("the GPU has no cooperative launches".to_owned());
        }
        let each = self.blocks_per_multiprocessor(config.block, config.shared_bytes)?;
        let room = each * self.gpu.info().multiprocessors;
        if config.grid > room {
            return refuse(format!(
                "{} blocks of {} threads at the same time: only {room} fit ({each} on each of {} multiprocessors)",
                config.grid,
                config.block,
                self.gpu.info().multiprocessors
            ));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_known_by_how_they_begin() {
        assert!(is_image(b"\x7fELF rest") && is_image(b"\x50\xed\x55\xba rest"));
        assert!(is_image(b"//\n// Generated by\n.version 9.0\n.target sm_75"));
        assert!(!is_image(b"") && !is_image(b"#!/bin/sh") && !is_image(b"__global__ void k() {}"));
    }
}
