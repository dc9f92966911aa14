//! The controller memory buffer: rings of submission queues in memory of the controller.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use warpbell_hw::{Iova, Window};
use warpbell_nvme::register::CmbMsc;

use crate::DriverError;
use crate::core::Core;
use crate::data::PAGE;

/// The buffer, which parts of it are in use, and where the controller knows it.
#[derive(Debug)]
pub(crate) struct ControllerMemory {
    window: Window,
    base: u64,
    /// Lengths by offset.
    used: Mutex<BTreeMap<usize, usize>>,
}

/// A part of the buffer, given back when dropped.
#[derive(Debug)]
pub(crate) struct ControllerRing {
    window: Window,
    offset: usize,
    memory: Arc<ControllerMemory>,
}

impl ControllerRing {
    pub(crate) fn window(&self) -> &Window {
        &self.window
    }

    pub(crate) fn iova(&self) -> Iova {
        Iova(self.memory.base + self.offset as u64)
    }
}

impl Drop for ControllerRing {
    fn drop(&mut self) {
        self.memory.used.lock().remove(&self.offset);
    }
}

impl ControllerMemory {
    /// The first gap of at least `len` bytes, in whole pages.
    fn take(self: &Arc<Self>, len: usize) -> Option<ControllerRing> {
        let len = len.next_multiple_of(PAGE);
        let mut used = self.used.lock();
        let mut offset = 0;
        for (start, taken) in used.iter() {
            if start - offset >= len {
                break;
            }
            offset = start + taken;
        }
        let window = self.window.slice(offset, len).ok()?;
        used.insert(offset, len);
        Some(ControllerRing { window, offset, memory: self.clone() })
    }
}

impl Core {
    /// `len` bytes of the controller memory buffer for a submission ring.
    pub(crate) fn controller_ring(&self, len: usize) -> Result<ControllerRing, DriverError> {
        let mut slot = self.controller_memory.lock();
        let memory = match &*slot {
            Some(memory) => memory.clone(),
            None => slot.insert(Arc::new(self.find_controller_memory()?)).clone(),
        };
        drop(slot);
        memory.take(len).ok_or_else(|| DriverError::ControllerMemory {
            device: self.name(),
            need: len,
            used: memory.used.lock().values().sum(),
            size: memory.window.len(),
        })
    }

    /// After a reset the controller may have forgotten where its memory is.
    pub(crate) fn renew_controller_memory(&self) -> Result<(), DriverError> {
        match &*self.controller_memory.lock() {
            Some(memory) => self.place_controller_memory(memory.base),
            None => Ok(()),
        }
    }

    fn find_controller_memory(&self) -> Result<ControllerMemory, DriverError> {
        let unsupported = |what, need| DriverError::Unsupported { device: self.name(), what, value: 0, need };
        if !self.cap.cmbs() {
            return Err(unsupported("the support for a controller memory buffer (CAP.CMBS)", "1"));
        }
        let Some(window) = self.regs.device().controller_memory() else {
            return Err(unsupported(
                "the mapping of the controller memory buffer",
                "one that this process sees",
            ));
        };
        self.regs.set_cmbmsc(CmbMsc::new().with_cre(true));
        if !self.regs.cmbmsc()?.cre() {
            return Err(unsupported("CMBMSC.CRE after it was set", "1"));
        }
        let size = self.regs.cmbsz()?;
        if !size.sqs() {
            return Err(unsupported(
                "the support for submission queues in controller memory (CMBSZ.SQS)",
                "1",
            ));
        }
        let len = size.bytes().unwrap_or(0).min(window.len() as u64) as usize;
        let window =
            window.slice(0, len).map_err(|error| self.dma_error("controller memory", error.into()))?;
        // Behind everything that can be mapped, so that no address means two things: it never leaves the device.
        let limits = self.regs.device().dma().limits();
        let last = limits.ranges.iter().map(|range| *range.end()).max().unwrap_or(0);
        let base = last.checked_add(1).and_then(|base| base.checked_next_multiple_of(PAGE as u64));
        let base = base.filter(|base| base.checked_add(len as u64).is_some());
        let Some(base) = base else {
            return Err(unsupported("the addresses behind the DMA space, for controller memory", "its size"));
        };
        self.place_controller_memory(base)?;
        Ok(ControllerMemory { window, base, used: Mutex::default() })
    }

    /// Tells the controller at which address it finds its own memory, and checks that it agrees.
    fn place_controller_memory(&self, base: u64) -> Result<(), DriverError> {
        let control = CmbMsc::new().with_cre(true).with_cmse(true).with_cba(base >> 12);
        self.regs.set_cmbmsc(control);
        let found = self.regs.cmbmsc()?;
        if found != control || self.regs.cmbsts()?.cbai() {
            let (what, value) = ("CMBMSC after the buffer was placed", found.into_bits());
            let need = "the address written, and CMBSTS.CBAI clear";
            return Err(DriverError::Unsupported { device: self.name(), what, value, need });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rings_take_whole_pages_and_give_them_back() {
        let window = Window::host(4 * PAGE).unwrap();
        let memory = Arc::new(ControllerMemory { window, base: 1 << 48, used: Mutex::default() });
        let first = memory.take(100).unwrap();
        let second = memory.take(PAGE + 1).unwrap();
        assert_eq!((first.iova(), second.iova()), (Iova(1 << 48), Iova((1 << 48) + PAGE as u64)));
        assert!(memory.take(2 * PAGE).is_none());
        drop(first);
        assert_eq!(memory.take(1).unwrap().offset, 0);
        assert_eq!(memory.take(PAGE).unwrap().offset, 0);
        drop(second);
        assert!(memory.take(4 * PAGE).is_some());
    }
}
