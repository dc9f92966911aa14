//! Kernels on a target.

use warpbell_hw::Device;
use warpbell_kernels::abi::Plain;
use warpbell_kernels::cpu::{Hooks, Launch, Module};

use crate::{Attachment, Error, Target};

impl Target {
    /// The built-in kernels on this target, or what is missing to run them there.
    pub fn module(self) -> Result<Module, Error> {
        match self {
            Target::Cpu => Ok(Module::builtin()?),
            Target::Cuda(_) => Err(Error::Missing {
                what: format!("target {self}"),
                remedy: "this version runs kernels on the CPU only (--target cpu)".to_owned(),
            }),
        }
    }
}

impl Attachment {
    /// A launch of `kernel` of `module`, whose doorbell writes reach this attachment's device. Grid, block
    /// and schedule are the caller's to set. Buffers and the attachment must outlive the launch's workers.
    pub fn launch<T: Plain>(&self, module: &Module, kernel: &str, args: &T) -> Result<Launch, Error> {
        Ok(Launch::new(module, kernel, args)?.hooks(doorbell_hooks(self.device())))
    }
}

/// Hooks that hand doorbell writes to a device that wants to see each of them; none where the page is memory.
fn doorbell_hooks(device: &dyn Device) -> Hooks {
    let doorbells = device.doorbells();
    let page = doorbells.window();
    match doorbells.sink() {
        Some(sink) => Hooks::new().doorbell_sink(page.as_ptr() as u64, page.len(), sink),
        None => Hooks::new(),
    }
}
