//! The mock as the driver sees it: registers, doorbells, resets, interrupts.

use std::sync::Arc;

use warpbell_hw::*;
use warpbell_nvme::register::{Aqa, Cc, offset};

use super::{Event, Mock};

impl DoorbellSink for Mock {
    fn ring(&self, offset: usize, value: u32) {
        let mut state = self.state();
        let (qid, is_cq) = ((offset / 8) as u16, !(offset / 4).is_multiple_of(2));
        if is_cq || state.gone || state.fatal {
            return;
        }
        while let Some(sqe) = state.fetch(&self.dma, qid, value) {
            state.serve(&self.dma, qid, &sqe);
        }
    }
}

impl Registers for Mock {
    fn read32(&self, at: u32) -> u32 {
        let now = self.clock.now();
        let mut state = self.accessed();
        if now < state.silent_until {
            return u32::MAX;
        }
        let csts = state.csts(now);
        if state.gone {
            return u32::MAX;
        }
        match at {
            offset::VS => state.behaviour.version.into_bits(),
            offset::CC => state.cc.into_bits(),
            offset::CSTS => csts,
            offset::CRTO => state.behaviour.crto.into_bits(),
            _ => 0,
        }
    }

    fn read64(&self, at: u32) -> u64 {
        let state = self.accessed();
        match at {
            _ if state.gone => u64::MAX,
            offset::CAP => state.behaviour.cap.into_bits(),
            _ => 0,
        }
    }

    fn write32(&self, at: u32, value: u32) {
        let now = self.clock.now();
        let mut state = self.accessed();
        match at {
            offset::CC => state.set_cc(Cc::from_bits(value), now),
            offset::AQA => state.aqa = Aqa::from_bits(value),
            offset::NSSR => state.reset_subsystem(value, now),
            _ => {}
        }
    }

    fn write64(&self, at: u32, value: u64) {
        let mut state = self.accessed();
        match at {
            offset::ASQ => state.asq = value,
            offset::ACQ => {
                state.acq = value;
                state.events.push(Event::AdminQueues);
            }
            _ => {}
        }
    }
}

impl Doorbells for Mock {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }
    fn stride(&self) -> u8 {
        self.state().behaviour.stride
    }
    fn window(&self) -> Window {
        self.page.clone()
    }
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        self.weak.upgrade().map(|mock| mock as Arc<dyn DoorbellSink>)
    }
}

impl Reset for Mock {
    fn reset(&self, kind: ResetKind) -> Result<(), ResetError> {
        if !self.state().behaviour.function_reset {
            return Err(ResetError::Unavailable { kind, reason: "the mock has none".to_owned() });
        }
        self.note(Event::FunctionReset);
        let mut state = self.state();
        state.forget();
        (state.cc, state.rdy) = (Cc::new(), false);
        Ok(())
    }
}

impl Interrupts for Mock {
    fn count(&self) -> u16 {
        self.state().behaviour.vectors
    }
    fn subscribe(&self, vector: u16) -> Result<std::os::fd::OwnedFd, InterruptError> {
        self.note(Event::Subscribe(vector));
        let refused = self.state().behaviour.no_vector;
        let flags = rustix::event::EventfdFlags::CLOEXEC;
        let event = refused.map_or_else(|| rustix::event::eventfd(0, flags), Err);
        let event = event.map_err(|errno| InterruptError::System { vector, source: errno.into() })?;
        self.state().vectors.insert(vector, event.try_clone().unwrap());
        Ok(event)
    }
}

impl Device for Mock {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "mock".to_owned(), kind: DeviceKind::Software }
    }
    fn registers(&self) -> &dyn Registers {
        self
    }
    fn doorbells(&self) -> &dyn Doorbells {
        self
    }
    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.dma.clone()
    }
    fn interrupts(&self) -> &dyn Interrupts {
        self
    }
    fn reset(&self) -> &dyn Reset {
        self
    }
    fn pci_id(&self) -> Option<PciId> {
        self.state().behaviour.pci_id
    }
    fn clock(&self) -> &dyn Clock {
        &*self.clock
    }
}
