//! The synthetic controller as a device: registers, doorbells, clock, interrupts and resets, all as the input wants them.

use std::os::fd::OwnedFd;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_hw::{
    Clock, Device, DeviceInfo, DeviceKind, DmaSpace, DoorbellPath, DoorbellSink, Doorbells, InterruptError,
    Interrupts, PciId, Registers, Reset, ResetError, ResetKind, Window,
};
use warpbell_nvme::register::{Aqa, Cc, Csts, Shn, Shst, offset};

use super::controller::Controller;
use super::space::Space;

/// What a driver does between two things that it tells its caller, at most.
const MOST_WORK: u64 = 400_000;
/// Pauses after which time passes faster: a test need not live through a wait of minutes.
const PATIENCE: u64 = 1000;

/// The device.
pub(super) struct FuzzDevice {
    pub(super) controller: Mutex<Controller>,
    pub(super) space: Arc<Space>,
    doorbells: Window,
    memory: Option<Window>,
    work: Mutex<Work>,
    weak: Weak<FuzzDevice>,
}

/// Time, and what the driver does with it.
#[derive(Default)]
struct Work {
    now: Duration,
    /// Pauses, register accesses and doorbells since the call began.
    done: u64,
    /// Pauses since the last doorbell or register write.
    idle: u64,
}

thread_local! {
    /// Shared by all inputs: nothing is written there, as doorbells have a sink.
    static PAGE: Window = Window::host(64 << 10).expect("memory for doorbells");
    static BUFFER: Window = Window::host(64 << 10).expect("memory for a controller memory buffer");
}

impl FuzzDevice {
    pub(super) fn new(controller: Controller, space: Arc<Space>) -> Arc<FuzzDevice> {
        let memory = controller.has_memory.then(|| BUFFER.with(Window::clone));
        Arc::new_cyclic(|weak| FuzzDevice {
            controller: Mutex::new(controller),
            space,
            doorbells: PAGE.with(Window::clone),
            memory,
            work: Mutex::default(),
            weak: weak.clone(),
        })
    }

    /// A call of the driver begins.
    pub(super) fn begin(&self) {
        self.work.lock().done = 0;
    }

    fn worked(&self, busy: bool) {
        let mut work = self.work.lock();
        work.done += 1;
        if busy {
            work.idle = 0;
        }
        assert!(work.done < MOST_WORK, "one call does {MOST_WORK} things and does not come back");
    }
}

impl Clock for FuzzDevice {
    fn now(&self) -> Duration {
        self.work.lock().now
    }

    fn pause(&self, hint: Duration) {
        self.worked(false);
        let mut work = self.work.lock();
        work.idle += 1;
        let faster = 1 << (work.idle / PATIENCE).min(20);
        work.now += hint.max(Duration::from_micros(1)) * faster;
        let now = work.now;
        drop(work);
        self.controller.lock().act(now);
    }
}

impl DoorbellSink for FuzzDevice {
    fn ring(&self, offset: usize, value: u32) {
        self.worked(true);
        let now = self.now();
        self.controller.lock().rung(offset, value, now);
    }
}

impl Registers for FuzzDevice {
    fn read32(&self, at: u32) -> u32 {
        self.worked(false);
        let now = self.now();
        let mut controller = self.controller.lock();
        let value = match at {
            offset::CC => controller.cc.into_bits(),
            offset::CSTS => controller.csts(now),
            _ => controller.register(at),
        };
        controller.disturbed(at, value.into()) as u32
    }

    fn read64(&self, at: u32) -> u64 {
        self.worked(false);
        let mut controller = self.controller.lock();
        let value = match at {
            offset::CAP => controller.cap.into_bits(),
            _ => u64::from(controller.register(at)) | u64::from(controller.register(at + 4)) << 32,
        };
        controller.disturbed(at, value)
    }

    fn write32(&self, at: u32, value: u32) {
        self.worked(true);
        let now = self.now();
        let mut controller = self.controller.lock();
        match at {
            offset::CC => controller.set_cc(Cc::from_bits(value), now),
            offset::AQA => controller.aqa = Aqa::from_bits(value),
            offset::NSSR if controller.cap.nssrs() => controller.reset(),
            offset::CMBMSC => controller.cmbmsc[0] = value,
            at if at == offset::CMBMSC + 4 => controller.cmbmsc[1] = value,
            _ => {}
        }
    }

    fn write64(&self, at: u32, value: u64) {
        self.worked(true);
        let mut controller = self.controller.lock();
        match at {
            offset::ASQ => controller.asq = value,
            offset::ACQ => controller.acq = value,
            _ => {}
        }
    }
}

impl Doorbells for FuzzDevice {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }

    fn stride(&self) -> u8 {
        self.controller.lock().cap.dstrd()
    }

    fn window(&self) -> Window {
        self.doorbells.clone()
    }

    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        self.weak.upgrade().map(|device| device as Arc<dyn DoorbellSink>)
    }
}

impl Interrupts for FuzzDevice {
    fn count(&self) -> u16 {
        self.controller.lock().vectors
    }

    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        let flags = rustix::event::EventfdFlags::CLOEXEC | rustix::event::EventfdFlags::NONBLOCK;
        let system = |errno: rustix::io::Errno| InterruptError::System { vector, source: errno.into() };
        if self.controller.lock().choices.one_in(16) {
            return Err(system(rustix::io::Errno::MFILE));
        }
        rustix::event::eventfd(0, flags).map_err(system)
    }
}

impl Reset for FuzzDevice {
    fn reset(&self, kind: ResetKind) -> Result<(), ResetError> {
        let mut controller = self.controller.lock();
        if controller.choices.one_in(4) {
            return Err(ResetError::Unavailable { kind, reason: "the input wants it so".to_owned() });
        }
        controller.reset();
        Ok(())
    }
}

impl Device for FuzzDevice {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "fuzz".to_owned(), kind: DeviceKind::Software }
    }

    fn registers(&self) -> &dyn Registers {
        self
    }

    fn doorbells(&self) -> &dyn Doorbells {
        self
    }

    fn dma(&self) -> Arc<dyn DmaSpace> {
        self.space.clone()
    }

    fn interrupts(&self) -> &dyn Interrupts {
        self
    }

    fn reset(&self) -> &dyn Reset {
        self
    }

    fn clock(&self) -> &dyn Clock {
        self
    }

    fn pci_id(&self) -> Option<PciId> {
        self.controller.lock().pci_id
    }

    fn controller_memory(&self) -> Option<Window> {
        self.memory.clone()
    }
}

/// What CSTS says of a shutdown.
pub(super) fn shutdown_status(cc: Cc, late: bool) -> Shst {
    match cc.shn() {
        Shn::NONE => Shst::NORMAL_OPERATION,
        _ if late => Shst::OCCURRING,
        _ => Shst::COMPLETE,
    }
}

/// CSTS from its parts.
pub(super) fn status(rdy: bool, cfs: bool, shst: Shst) -> Csts {
    Csts::new().with_rdy(rdy).with_cfs(cfs).with_shst(shst)
}
