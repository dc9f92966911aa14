//! Kernels on a target.

use std::sync::Arc;

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
    /// A launch of `kernel` of `module`, whose doorbell writes reach this attachment's device, and whose clock is that
    /// device's if it sees each of them. Grid, block and schedule are the caller's to set. Buffers and the attachment
    /// must outlive the launch's workers.
    pub fn launch<T: Plain>(&self, module: &Module, kernel: &str, args: &T) -> Result<Launch, Error> {
        Ok(Launch::new(module, kernel, args)?.hooks(device_hooks(self.shared_device())))
    }
}

/// Hooks for a device that wants to see each doorbell write, and whose time may be virtual; none where the page is
/// memory.
fn device_hooks(device: &Arc<dyn Device>) -> Hooks {
    let doorbells = device.doorbells();
    let page = doorbells.window();
    match doorbells.sink() {
        Some(sink) => {
            let clock = device.clone();
            let now = move || u64::try_from(clock.clock().now().as_nanos()).unwrap_or(u64::MAX);
            Hooks::new().doorbell_sink(page.as_ptr() as u64, page.len(), sink).clock(now)
        }
        None => Hooks::new(),
    }
}
