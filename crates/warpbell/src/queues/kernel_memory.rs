//! Memory that kernels of a target reach: the target's own, and the host's.

use std::ops::Range;
use std::sync::atomic::Ordering;

use warpbell_gpu::{DeviceMemory, Registered};
use warpbell_hw::Window;

use crate::{Error, OpenTarget};

/// Zeroed memory of a target: its own, so that kernels are quick there. The host copies to and from it. A clone is the
/// same memory, which lives until the last one is dropped.
#[derive(Clone, Debug)]
pub struct KernelMemory(Place);

#[derive(Clone, Debug)]
enum Place {
    /// On the CPU target kernels and host have the same memory.
    Host(Window),
    Device(DeviceMemory),
}

impl KernelMemory {
    /// Where kernels find its first byte. Valid while this memory, or a clone, lives.
    pub fn address(&self) -> u64 {
        match &self.0 {
            Place::Host(window) => window.as_ptr() as u64,
            Place::Device(memory) => memory.address(),
        }
    }

    /// Length in bytes.
    pub fn len(&self) -> usize {
        match &self.0 {
            Place::Host(window) => window.len(),
            Place::Device(memory) => memory.len(),
        }
    }

    /// Whether it has no bytes (it never has none).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies bytes out of it.
    pub fn read(&self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        match &self.0 {
            Place::Host(window) => Ok(window.read(offset, into)?),
            Place::Device(memory) => Ok(memory.read(offset, into)?),
        }
    }

    /// Copies bytes out of it that kernels may be writing: aligned words of 8 bytes whole.
    pub(crate) fn load(&self, offset: usize, into: &mut [u8]) -> Result<(), Error> {
        match &self.0 {
            Place::Host(window) => Ok(window.load(offset, into)?),
            Place::Device(memory) => Ok(memory.read(offset, into)?),
        }
    }

    /// A 32-bit word of it that kernels may be writing, at a multiple of 4 bytes.
    pub(crate) fn load_u32(&self, offset: usize) -> Result<u32, Error> {
        match &self.0 {
            Place::Host(window) => Ok(window.load_u32(offset, Ordering::Relaxed)),
            Place::Device(memory) => {
                let mut bytes = [0; size_of::<u32>()];
                memory.read(offset, &mut bytes)?;
                Ok(u32::from_ne_bytes(bytes))
            }
        }
    }

    /// Copies bytes into it.
    pub fn write(&self, offset: usize, from: &[u8]) -> Result<(), Error> {
        match &self.0 {
            Place::Host(window) => Ok(window.write(offset, from)?),
            Place::Device(memory) => Ok(memory.write(offset, from)?),
        }
    }

    /// Sets `len` bytes to `value`.
    pub fn fill(&self, offset: usize, len: usize, value: u8) -> Result<(), Error> {
        match &self.0 {
            Place::Host(window) => Ok(window.fill(offset, len, value)?),
            Place::Device(memory) => Ok(memory.fill(offset, len, value)?),
        }
    }
}

/// Host memory that kernels of a target reach too: mailboxes, rings, doorbells. A clone is the same memory, which kernels
/// reach until the last one is dropped.
#[derive(Clone, Debug)]
pub struct SharedMemory {
    window: Window,
    address: u64,
    /// Kernels of a GPU reach it as long as this lives.
    _registered: Option<Registered>,
}

impl SharedMemory {
    /// What is registered already.
    pub(crate) fn registered(registered: Registered) -> SharedMemory {
        let (window, address) = (registered.window().clone(), registered.address());
        SharedMemory { window, address, _registered: Some(registered) }
    }

    /// Where kernels find its first byte. Valid while this memory, or a clone, lives.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Its addresses for kernels.
    pub(crate) fn range(&self) -> Range<u64> {
        self.address..self.address + self.window.len() as u64
    }

    /// The memory, for the host.
    pub fn window(&self) -> &Window {
        &self.window
    }
}

impl OpenTarget {
    /// Zeroed memory of the target, at least `len` bytes, and at least one.
    pub fn memory(&self, len: usize) -> Result<KernelMemory, Error> {
        let len = len.max(1);
        Ok(KernelMemory(match self.gpu() {
            None => Place::Host(Window::host(len)?),
            Some(gpu) => Place::Device(gpu.allocate(len)?),
        }))
    }

    /// Zeroed host memory that kernels reach, at least `len` bytes, and at least one.
    pub fn shared(&self, len: usize) -> Result<SharedMemory, Error> {
        self.share(Window::host(len.max(1))?)
    }

    /// Makes host memory, or pages of a BAR, reachable for kernels.
    pub fn share(&self, window: Window) -> Result<SharedMemory, Error> {
        let registered = match self.gpu() {
            None => None,
            Some(gpu) if window.memory().is_ordinary() => Some(gpu.register(&window)?),
            Some(gpu) => Some(gpu.register_io(&window)?),
        };
        let address = registered.as_ref().map_or(window.as_ptr() as u64, Registered::address);
        Ok(SharedMemory { window, address, _registered: registered })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use crate::Target;

    #[test]
    fn memory_of_the_cpu_is_the_hosts() {
        let target = Target::Cpu.open().unwrap();
        let memory = target.memory(0).unwrap();
        assert!(!memory.is_empty());
        memory.write(8, &[1, 2, 3]).unwrap();
        memory.fill(9, 1, 7).unwrap();
        let mut bytes = [9; 4];
        memory.clone().read(7, &mut bytes).unwrap();
        assert_eq!(bytes, [0, 1, 7, 3]);
        assert!(memory.read(memory.len(), &mut bytes).is_err());
    }

    #[test]
    fn shared_memory_has_an_address_for_kernels() {
        let shared = Target::Cpu.open().unwrap().shared(16).unwrap();
        shared.window().store_u32(4, 5, Ordering::Relaxed);
        assert_eq!(shared.clone().window().load_u32(4, Ordering::Relaxed), 5);
        assert_eq!(shared.address(), shared.window().as_ptr() as u64);
    }
}
