//! BAR0: registers, doorbells, and what may be mapped of it.

use std::ops::Range;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use warpbell_hw::{
    BASE_PAGE, Doorbell, DoorbellError, DoorbellKind, DoorbellPath, DoorbellSink, Doorbells, ProxySlot, Qid,
    Registers, Window,
};
use warpbell_nvme::register::{Cap, offset};

use crate::info::Region;
use crate::sys::Mapping;
use crate::{Bdf, VfioError};

/// Doorbells begin here, on a page of their own.
const DOORBELLS: u64 = offset::DOORBELLS as u64;

/// The mapped part of BAR0.
pub(crate) struct Bar0 {
    mapping: Arc<Mapping>,
    registers: Window,
    doorbells: Window,
    stride: u8,
    /// Forwards doorbells of kernels that cannot store to the page.
    proxy: Arc<ProxySlot>,
}

impl Bar0 {
    /// Maps registers and doorbells. `spare` is what may be mapped and is not MSI-X's.
    pub(crate) fn map(
        bdf: Bdf,
        device: BorrowedFd<'_>,
        region: &Region,
        spare: &[Range<u64>],
    ) -> Result<Bar0, VfioError> {
        let refused = |reason| VfioError::Bar { bdf, bar: 0, reason };
        let end = usable_end(spare).ok_or_else(|| {
            refused(format!(
                "can be mapped in {spare:x?} only; registers and the first doorbells ({:#x} bytes from 0 on) are needed in \
                 one piece, apart from the MSI-X table",
                DOORBELLS + BASE_PAGE as u64
            ))
        })?;
        let registers = map(bdf, 0, device, region, 0..DOORBELLS)?;
        let cap = registers.register::<u64>(offset::CAP as usize).read();
        if cap == u64::MAX {
            return Err(VfioError::Gone { bdf });
        }
        let stride = Cap::from_bits(cap).dstrd();
        let end = end.min(DOORBELLS + doorbell_bytes(u16::MAX, stride).next_multiple_of(BASE_PAGE as u64));
        let mapping = Arc::new(map(bdf, 0, device, region, 0..end)?);
        let part = |part: Range<u64>| {
            let window = Window::whole(mapping.clone());
            let window = window.slice(part.start as usize, (part.end - part.start) as usize);
            window.map_err(|error| refused(error.to_string()))
        };
        let (registers, doorbells) = (part(0..BASE_PAGE as u64)?, part(DOORBELLS..end)?);
        let bar = Bar0 { mapping, registers, doorbells, stride, proxy: Arc::default() };
        tracing::debug!(%bdf, end, stride, last_queue = bar.last_queue(), "BAR0 mapped");
        Ok(bar)
    }

    /// The first page.
    pub(crate) fn register_page(&self) -> &Window {
        &self.registers
    }

    /// Where the proxy of the doorbells is, or will be.
    pub(crate) fn proxy(&self) -> &ProxySlot {
        &self.proxy
    }

    /// The highest queue identifier whose doorbells are mapped.
    pub(crate) fn last_queue(&self) -> u16 {
        let pairs = self.doorbells.len() as u64 / doorbell_bytes(0, self.stride);
        pairs.saturating_sub(1).min(u16::MAX.into()) as u16
    }
}

/// Bytes of the doorbells of queues 0 to `last`.
fn doorbell_bytes(last: u16, stride: u8) -> u64 {
    (u64::from(last) + 1) * 2 * (4 << stride)
}

/// Where the part that begins with the registers ends, if it reaches into the doorbells.
fn usable_end(spare: &[Range<u64>]) -> Option<u64> {
    let end = spare.iter().find(|area| area.start == 0).map_or(0, |area| area.end);
    let end = end / BASE_PAGE as u64 * BASE_PAGE as u64;
    (end > DOORBELLS).then_some(end)
}

/// Maps a part of a BAR.
pub(crate) fn map(
    bdf: Bdf,
    bar: u8,
    device: BorrowedFd<'_>,
    region: &Region,
    part: Range<u64>,
) -> Result<Mapping, VfioError> {
    let mapped = Mapping::new(device, region.offset + part.start, (part.end - part.start) as usize);
    mapped.map_err(|error| VfioError::Bar { bdf, bar, reason: format!("bytes {part:#x?}: {error}") })
}

/// Reads a word of every page of a BAR's window, so that its pages are in the page table: vfio-pci fills them in only
/// when they are touched, and again after each reset, while a GPU's driver walks the page table and never faults.
pub fn fault_in(window: &Window) {
    for page in (0..window.len().saturating_sub(3)).step_by(BASE_PAGE) {
        window.load_u32(page, std::sync::atomic::Ordering::Relaxed);
    }
}

impl Registers for Bar0 {
    fn read32(&self, offset: u32) -> u32 {
        self.mapping.register::<u32>(offset as usize).read()
    }
    fn read64(&self, offset: u32) -> u64 {
        self.mapping.register::<u64>(offset as usize).read()
    }
    fn write32(&self, offset: u32, value: u32) {
        // A doorbell that a kernel stored before a reset must not come after it.
        self.proxy.forward();
        self.mapping.register(offset as usize).write(value);
    }
    fn write64(&self, offset: u32, value: u64) {
        self.proxy.forward();
        self.mapping.register(offset as usize).write(value);
    }
}

impl Doorbells for Bar0 {
    fn path(&self) -> DoorbellPath {
        DoorbellPath::Mapped
    }
    fn stride(&self) -> u8 {
        self.stride
    }
    fn window(&self) -> Window {
        self.doorbells.clone()
    }
    fn sink(&self) -> Option<Arc<dyn DoorbellSink>> {
        None
    }
    fn doorbell(&self, qid: Qid, kind: DoorbellKind) -> Result<Doorbell, DoorbellError> {
        let (offset, page) = (self.offset(qid, kind), &self.doorbells);
        let doorbell = match offset {
            0 => self.proxy.admin_doorbell(page),
            _ => Doorbell::new(page, offset),
        };
        doorbell.ok_or(DoorbellError::Outside { qid, offset, len: page.len() })
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use warpbell_hw::{DoorbellKind, Qid};

    use super::*;

    /// A file in place of a device: CAP with a stride of 8 bytes, and BAR0 of four pages.
    fn bar(spare: &[Range<u64>]) -> Result<Bar0, VfioError> {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x4000).unwrap();
        rustix::io::pwrite(&file, &Cap::new().with_dstrd(1).into_bits().to_le_bytes(), 0).unwrap();
        let region = Region { flags: 7, size: 0x4000, offset: 0, mappable: Vec::new() };
        Bar0::map("0000:01:00.0".parse().unwrap(), file.as_fd(), &region, spare)
    }

    #[test]
    fn doorbells_end_where_the_msix_table_begins() {
        let bar = bar(&[0..0x2000, 0x3000..0x4000]).unwrap();
        assert_eq!((bar.stride(), bar.window().len(), bar.last_queue()), (1, 0x1000, 255));
        assert!(bar.doorbell(Qid(255), DoorbellKind::CqHead).is_ok());
        let refused = bar.doorbell(Qid(256), DoorbellKind::SqTail).err().unwrap().to_string();
        assert!(refused.contains("only 0x1000 bytes are mapped"), "{refused}");
        fault_in(&bar.window());
    }

    #[test]
    fn registers_are_single_accesses_of_the_mapping() {
        let bar = bar(&[0..0x4000]).unwrap();
        bar.write64(0x28, 0x1122_3344_5566_7788);
        bar.write32(0x14, 7);
        assert_eq!(
            (bar.read32(0x2c), bar.read64(0x28), bar.read32(0x14)),
            (0x1122_3344, 0x1122_3344_5566_7788, 7)
        );
        let page = bar.register_page();
        assert_eq!((page.len(), page.load_u32(0x14, std::sync::atomic::Ordering::Relaxed)), (0x1000, 7));
        bar.doorbell(Qid(1), DoorbellKind::SqTail).unwrap().ring(5);
        assert_eq!(bar.read32(0x1000 + 16), 5);
    }

    #[test]
    fn what_kernels_stored_goes_before_a_register_write_and_an_admin_command() {
        let bar = bar(&[0..0x4000]).unwrap();
        let proxy = bar.proxy().get(&bar).unwrap();
        proxy.doorbell(Qid(1), DoorbellKind::SqTail).unwrap();
        let admin = bar.doorbell(Qid(0), DoorbellKind::SqTail).unwrap();
        let store = |tail| proxy.window().store_u32(16, tail, std::sync::atomic::Ordering::Release);
        for tail in 1..100 {
            store(tail);
            bar.write32(0x14, 0);
            assert_eq!(bar.read32(0x1010), tail);
            store(tail + 1000);
            admin.ring(tail);
            assert_eq!((bar.read32(0x1010), bar.read32(0x1000)), (tail + 1000, tail));
        }
    }

    #[test]
    fn a_function_that_is_gone_is_not_taken_for_one_with_wide_doorbells() {
        let file = tempfile::tempfile().unwrap();
        rustix::io::pwrite(&file, &[0xff; 0x4000], 0).unwrap();
        let region = Region { flags: 7, size: 0x4000, offset: 0, mappable: Vec::new() };
        let bar = Bar0::map("0000:01:00.0".parse().unwrap(), file.as_fd(), &region, &[0..0x4000]);
        assert!(matches!(bar, Err(VfioError::Gone { .. })));
    }

    #[test]
    fn doorbells_are_mapped_as_far_as_there_are_queues() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(0x20_0000).unwrap();
        let region = Region { flags: 7, size: 0x20_0000, offset: 0, mappable: Vec::new() };
        let bar = Bar0::map("0000:01:00.0".parse().unwrap(), file.as_fd(), &region, &[0..0x20_0000]).unwrap();
        assert_eq!((bar.window().len(), bar.last_queue()), (0x8_0000, 65535));
    }

    #[test]
    fn a_bar_without_room_for_doorbells_is_refused() {
        for spare in [vec![], vec![0..0x1000], vec![0x1000..0x4000]] {
            let text = bar(&spare).err().unwrap().to_string();
            assert!(text.contains("BAR 0: can be mapped in"), "{text}");
        }
    }
}
