//! The controller memory buffer: rings of submission queues in memory of the controller.

use std::sync::Arc;

use warpbell_hw::{Iova, Pool, PoolFull, PoolPart, Window};
use warpbell_nvme::register::CmbMsc;

use crate::DriverError;
use crate::core::Core;
use crate::data::PAGE;

/// The buffer, and where the controller knows it.
#[derive(Debug)]
pub(crate) struct ControllerMemory {
    pool: Arc<Pool>,
    base: u64,
}

/// A part of the buffer, released when dropped.
#[derive(Debug)]
pub(crate) struct ControllerRing {
    part: PoolPart,
    base: u64,
}

impl ControllerRing {
    pub(crate) fn window(&self) -> &Window {
        self.part.window()
    }

    pub(crate) fn iova(&self) -> Iova {
        Iova(self.base + self.part.offset() as u64)
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
        let part = memory.pool.take(len).map_err(|PoolFull { need, used, size }| {
            DriverError::ControllerMemory { device: self.name(), need, used, size }
        })?;
        Ok(ControllerRing { part, base: memory.base })
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
        Ok(ControllerMemory { pool: Pool::new(window), base })
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
