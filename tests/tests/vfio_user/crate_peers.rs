//! The crate `vfio_user`, which others wrote, at the other end: its server for our client, its client for our server.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vfio_bindings::bindings::vfio::{vfio_region_info, vfio_region_sparse_mmap_area};
use vfio_user::{
    Client, DmaMapFlags, DmaUnmapFlags, IrqInfo, Server, ServerBackend, ServerRegion, SparseArea,
};
use warpbell_hw::{Device, DmaAccess, DmaSource, DoorbellPath, Endpoint, Iova, Window};
use warpbell_nvme::command;
use warpbell_nvme::identify::Cns;
use warpbell_softctl::{SoftConfig, SoftDevice};
use warpbell_tests::suite;
use warpbell_vfio::user::{ServerOptions, UserOptions};
use zerocopy::IntoBytes;

use crate::served::{Served, open, until};

const ACCESS: u32 = 3;
const MMAP: u32 = 4;

/// A soft controller behind the crate's server.
struct Backend {
    soft: Arc<SoftDevice>,
    config: Vec<u8>,
    /// Lengths of mappings.
    mapped: HashMap<u64, u64>,
}

impl ServerBackend for Backend {
    fn region_read(&mut self, region: u32, offset: u64, data: &mut [u8]) -> io::Result<()> {
        let registers = self.soft.registers();
        match (region, data.len()) {
            (0, 4) => data.copy_from_slice(&registers.read32(offset as u32).to_le_bytes()),
            (0, 8) => data.copy_from_slice(&registers.read64(offset as u32).to_le_bytes()),
            (7, len) => data.copy_from_slice(&self.config[offset as usize..offset as usize + len]),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(())
    }

    fn region_write(&mut self, region: u32, offset: u64, data: &[u8]) -> io::Result<()> {
        let word = |data: &[u8]| data.try_into().map(u32::from_le_bytes).expect("four bytes");
        match (region, data.len()) {
            (0, 4) if offset >= 0x1000 => {
                let page = self.soft.doorbells().window();
                page.store_u32((offset - 0x1000) as usize, word(data), Ordering::Release);
            }
            (0, 4) => self.soft.registers().write32(offset as u32, word(data)),
            (0, 8) => {
                let value = data.try_into().map(u64::from_le_bytes).expect("eight bytes");
                self.soft.registers().write64(offset as u32, value);
            }
            (7, len) => self.config[offset as usize..offset as usize + len].copy_from_slice(data),
            _ => return Err(io::ErrorKind::InvalidInput.into()),
        }
        Ok(())
    }

    fn dma_map(
        &mut self,
        _: DmaMapFlags,
        offset: u64,
        address: u64,
        size: u64,
        file: Option<File>,
    ) -> io::Result<()> {
        let file = file.expect("our client sends files");
        let source = DmaSource::File { fd: file.as_fd(), offset, len: size };
        self.soft.map_at(Iova(address), source, DmaAccess::READ_WRITE).map_err(io::Error::other)?;
        self.mapped.insert(address, size);
        Ok(())
    }

    fn dma_unmap(&mut self, _: DmaUnmapFlags, address: u64, size: u64) -> io::Result<()> {
        assert_eq!(self.mapped.remove(&address), Some(size));
        self.soft.unmap_at(Iova(address), size).map_err(io::Error::other)
    }

    fn reset(&mut self) -> io::Result<()> {
        Device::reset(&*self.soft).reset(warpbell_hw::ResetKind::Function).map_err(io::Error::other)
    }

    fn set_irqs(&mut self, index: u32, _: u32, start: u32, _: u32, files: Vec<File>) -> io::Result<()> {
        assert_eq!(index, 2, "MSI-X");
        let event = files.into_iter().next().map(Into::into);
        self.soft.connect_interrupt(start as u16, event).map_err(io::Error::other)
    }
}

/// Nine regions, of which the first and configuration space are there.
fn regions(page: Option<&Window>) -> Vec<ServerRegion> {
    let region = |index: u32| {
        let size = [0x1_0000, 0, 0, 0, 0, 0, 0, 256, 0][index as usize];
        let mapped = page.filter(|_| index == 0);
        let flags = if size > 0 { ACCESS } else { 0 } | if mapped.is_some() { MMAP } else { 0 };
        let argsz = size_of::<vfio_region_info>() as u32;
        let info = vfio_region_info { argsz, flags, index, cap_offset: 0, size, offset: 0 };
        let area =
            mapped.map(|page| vfio_region_sparse_mmap_area { offset: 0x1000, size: page.len() as u64 });
        let file = mapped.map(|page| page.memory().file().expect("a file").0.as_raw_fd());
        let sparse_areas = area.into_iter().map(|area| SparseArea { area }).collect();
        ServerRegion { region_info: info, sparse_areas, mmap_fd: file }
    };
    (0..9).map(region).collect()
}

fn our_client_works(mapped: bool) {
    let soft = SoftDevice::threaded(SoftConfig::parse("size=16m").unwrap()).unwrap();
    let directory = tempfile::tempdir().unwrap();
    let socket = directory.path().join("sock");
    let irqs = (0..5).map(|index| IrqInfo { index, flags: 1, count: if index == 2 { 65 } else { 0 } });
    let page = soft.doorbells().window();
    assert_eq!(page.offset_in_memory(), 0x1000, "where the mapping of the region has it");
    let server = Server::new(&socket, true, irqs.collect(), regions(Some(&page).filter(|_| mapped))).unwrap();
    let mut backend = Backend { soft: soft.clone(), config: vec![0; 256], mapped: HashMap::new() };
    backend.config[..4].copy_from_slice(&[0x42, 0x57, 1, 0]);
    std::thread::scope(|scope| {
        let serving = scope.spawn(move || server.run(&mut backend));
        let ssd = Arc::new(open(&socket, &UserOptions::default()).unwrap());
        let path = if mapped { DoorbellPath::Mapped } else { DoorbellPath::Forwarded };
        assert_eq!(ssd.data_path().doorbells, path);
        suite::works(&ssd);
        suite::kernels(&ssd, 1);
        drop(ssd);
        // The crate's server returns when its client is gone.
        let _ = serving.join().unwrap();
    });
    assert_eq!(soft.violations(), []);
}

#[test]
fn our_client_works_with_the_crates_server_and_its_page() {
    our_client_works(true);
}

#[test]
fn our_client_works_with_the_crates_server_by_messages() {
    our_client_works(false);
}

/// Registers through the crate's client.
struct Registers(Client);

impl Registers {
    fn read32(&mut self, offset: u64) -> u32 {
        let mut bytes = [0; 4];
        self.0.region_read(0, offset, &mut bytes).unwrap();
        u32::from_le_bytes(bytes)
    }

    fn write(&mut self, offset: u64, bytes: &[u8]) {
        self.0.region_write(0, offset, bytes).unwrap();
    }
}

#[test]
fn the_crates_client_identifies_our_controller() {
    let served = Served::new("size=16m,serial=CRATE", ServerOptions::default());
    let mut registers = Registers(Client::new(&served.socket()).unwrap());
    let bar = registers.0.region(0).unwrap();
    assert!(bar.sparse_areas.iter().any(|area| area.offset == 0x1000), "a page of doorbells");
    assert!(bar.file_offset.is_some());
    registers.0.region_write(7, 4, &6u16.to_le_bytes()).unwrap();
    assert_eq!(registers.0.get_irq_info(2).unwrap().count, 65);

    // Submission queue, completion queue and data, a page each.
    let memory = Window::host(3 * 4096).unwrap();
    let base = 0x10_0000u64;
    let file = memory.memory().file().unwrap().0.as_raw_fd();
    registers.0.dma_map(0, base, 3 * 4096, file).unwrap();
    let event = rustix::event::eventfd(0, rustix::event::EventfdFlags::NONBLOCK).unwrap();
    registers.0.set_irqs(2, 0x24, 0, 1, &[event.as_raw_fd()]).unwrap();
    let msix = msix_control(&mut registers.0);
    registers.0.region_write(7, msix, &0x8000u16.to_le_bytes()).unwrap();
    registers.write(0x24, &0x003f_003fu32.to_le_bytes());
    registers.write(0x28, &base.to_le_bytes());
    registers.write(0x30, &(base + 4096).to_le_bytes());
    registers.write(0x14, &0x0046_0001u32.to_le_bytes());
    until("CSTS.RDY", || registers.read32(0x1c) & 1 == 1);

    let mut identify = command::identify(Cns::CONTROLLER, 0);
    identify.set_prp(base + 8192, 0);
    memory.write(0, identify.as_bytes()).unwrap();
    registers.write(0x1000, &1u32.to_le_bytes());
    until("a completion", || memory.load_u32(4096 + 12, Ordering::Acquire) >> 16 & 1 == 1);
    assert_eq!(memory.load_u32(4096 + 12, Ordering::Relaxed) >> 17, 0, "success");
    assert!(memory.to_vec(8192 + 4, 20).unwrap().starts_with(b"CRATE "));
    until("an interrupt", || rustix::io::read(&event, &mut [0; 8]).is_ok());

    registers.write(0x14, &0u32.to_le_bytes());
    until("CSTS.RDY", || registers.read32(0x1c) & 1 == 0);
    registers.0.dma_unmap(base, 3 * 4096).unwrap();
    registers.0.reset().unwrap();
    registers.0.shutdown().unwrap();
    served.wait_for("1 gone: it left");
    assert_eq!(served.soft.violations(), []);
}

/// Where MSI-X is switched on.
fn msix_control(client: &mut Client) -> u64 {
    let mut byte = [0];
    client.region_read(7, 0x34, &mut byte).unwrap();
    loop {
        let at = u64::from(byte[0]);
        let mut head = [0; 2];
        client.region_read(7, at, &mut head).unwrap();
        if head[0] == 0x11 {
            return at + 2;
        }
        byte[0] = head[1];
        assert_ne!(byte[0], 0, "MSI-X is in the list");
    }
}
