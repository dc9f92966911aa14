//! A controller that remembers what a transport did to it.

use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use parking_lot::Mutex;
use warpbell_hw::{
    BASE_PAGE, Clock, Device, DeviceInfo, DeviceKind, DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace,
    DoorbellPath, DoorbellSink, Doorbells, Endpoint, HostMemory, InterruptError, Interrupts, Iova,
    MonotonicClock, PciIdentity, Registers, Reset, ResetError, ResetKind, Window,
};

pub const VECTORS: u16 = 5;

pub struct Fake {
    pub registers: Mutex<BTreeMap<u32, u32>>,
    pub doorbells: Window,
    pub memory: Option<Window>,
    pub maps: Mutex<BTreeMap<u64, (u64, DmaAccess)>>,
    pub events: Mutex<BTreeMap<u16, OwnedFd>>,
    pub resets: AtomicU32,
    pub gone: AtomicU32,
    clock: MonotonicClock,
}

impl Fake {
    pub fn new(memory: usize) -> Arc<Fake> {
        let page = HostMemory::with_page(3 * BASE_PAGE, BASE_PAGE).unwrap();
        Arc::new(Fake {
            registers: Mutex::default(),
            doorbells: Window::whole(page).slice(BASE_PAGE, 2 * BASE_PAGE).unwrap(),
            memory: (memory > 0).then(|| Window::host(memory).unwrap()),
            maps: Mutex::default(),
            events: Mutex::default(),
            resets: AtomicU32::new(0),
            gone: AtomicU32::new(0),
            clock: MonotonicClock::new(),
        })
    }

    /// An interrupt of a vector, if anybody listens.
    pub fn interrupt(&self, vector: u16) {
        if let Some(event) = self.events.lock().get(&vector) {
            rustix::io::write(event.as_fd(), &1u64.to_ne_bytes()).unwrap();
        }
    }
}

impl Device for Fake {
    fn info(&self) -> DeviceInfo {
        DeviceInfo { name: "fake".to_owned(), kind: DeviceKind::Software }
    }
    fn registers(&self) -> &dyn Registers {
        self
    }
    fn doorbells(&self) -> &dyn Doorbells {
        self
    }
    fn dma(&self) -> Arc<dyn DmaSpace> {
        Arc::new(Nothing)
    }
    fn interrupts(&self) -> &dyn Interrupts {
        self
    }
    fn reset(&self) -> &dyn Reset {
        self
    }
    fn clock(&self) -> &dyn Clock {
        &self.clock
    }
    fn controller_memory(&self) -> Option<Window> {
        self.memory.clone()
    }
}

/// A server maps at addresses of the client's choice only.
struct Nothing;

impl DmaSpace for Nothing {
    fn map(&self, _: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
        panic!("not for a server");
    }
    fn unmap(&self, _: Iova, _: u64) -> Result<(), DmaError> {
        panic!("not for a server");
    }
    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: 1 }
    }
}

impl Registers for Fake {
    fn read32(&self, offset: u32) -> u32 {
        self.registers.lock().get(&offset).copied().unwrap_or(0)
    }
    fn read64(&self, offset: u32) -> u64 {
        u64::from(self.read32(offset)) | u64::from(self.read32(offset + 4)) << 32
    }
    fn write32(&self, offset: u32, value: u32) {
        self.registers.lock().insert(offset, value);
    }
    fn write64(&self, offset: u32, value: u64) {
        self.write32(offset, value as u32);
        self.write32(offset + 4, (value >> 32) as u32);
    }
}

impl Doorbells for Fake {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }
    fn stride(&self) -> u8 {
        0
    }
    fn window(&self) -> Window {
        self.doorbells.clone()
    }
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        None
    }
}

impl Interrupts for Fake {
    fn count(&self) -> u16 {
        VECTORS
    }
    fn subscribe(&self, vector: u16) -> Result<OwnedFd, InterruptError> {
        Err(InterruptError::NoSuchVector { vector, count: 0 })
    }
}

impl Reset for Fake {
    fn reset(&self, _: ResetKind) -> Result<(), ResetError> {
        self.resets.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Endpoint for Fake {
    fn pci_identity(&self) -> PciIdentity {
        PciIdentity { vendor: 0x1234, device: 0x5678, revision: 1 }
    }
    fn map_at(&self, iova: Iova, source: DmaSource<'_>, access: DmaAccess) -> Result<(), DmaError> {
        let DmaSource::File { len, offset, .. } = source else { panic!("a file") };
        if offset == 0x5000 {
            return Err(DmaError::Unsupported { reason: "a file that cannot be mapped".to_owned() });
        }
        self.maps.lock().insert(iova.0, (len, access));
        Ok(())
    }
    fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        match self.maps.lock().remove(&iova.0) {
            Some((there, _)) if there == len => Ok(()),
            _ => Err(DmaError::NotMapped { iova, len }),
        }
    }
    fn connect_interrupt(&self, vector: u16, event: Option<OwnedFd>) -> Result<(), InterruptError> {
        if vector >= VECTORS {
            return Err(InterruptError::NoSuchVector { vector, count: VECTORS });
        }
        match event {
            Some(event) => self.events.lock().insert(vector, event),
            None => self.events.lock().remove(&vector),
        };
        Ok(())
    }
    fn client_gone(&self) {
        self.maps.lock().clear();
        self.events.lock().clear();
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}
