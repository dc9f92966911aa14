//! A controller as a transport serves it: memory at addresses of the client's choice, page by page if it likes, that
//! goes and comes back; eventfds of the client's; a client that is gone.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod client;

use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use client::{Client, Pair, csts, memory};
use rustix::event::EventfdFlags;
use warpbell_hw::{Device, DmaAccess, DmaError, DmaLimits, DmaSource, DmaSpace, Endpoint, Iova, Window};
use warpbell_nvme::command;
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::register::{Csts, offset};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{Rule, SoftDevice};

const PAGE: u64 = 4096;

/// An address space in which each page is a mapping of its own, as behind the IOMMU of a virtual machine.
struct Pages {
    device: Arc<SoftDevice>,
    next: AtomicU64,
}

impl Pages {
    fn new(device: &Arc<SoftDevice>) -> Arc<Pages> {
        Arc::new(Pages { device: device.clone(), next: AtomicU64::new(1 << 30) })
    }

    fn put(&self, at: u64, window: &Window) {
        for index in 0..window.len() as u64 / PAGE {
            let page = window.slice((index * PAGE) as usize, PAGE as usize).unwrap();
            let (fd, offset) = page.memory().file().unwrap();
            let source = DmaSource::File { fd, offset: offset + page.offset_in_memory() as u64, len: PAGE };
            self.device.map_at(Iova(at + index * PAGE), source, DmaAccess::READ_WRITE).unwrap();
        }
    }

    fn take(&self, at: u64, len: u64) {
        (0..len / PAGE).for_each(|index| self.device.unmap_at(Iova(at + index * PAGE), PAGE).unwrap());
    }
}

impl DmaSpace for Pages {
    fn map(&self, source: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
        let DmaSource::Memory(window) = source else { panic!("memory only") };
        let at = self.next.fetch_add(window.len() as u64 + PAGE, Ordering::Relaxed);
        self.put(at, window);
        Ok(Iova(at))
    }

    fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        for index in 0..len / PAGE {
            // A client that is gone has nothing mapped any more.
            let _ = self.device.unmap_at(Iova(iova.0 + index * PAGE), PAGE);
        }
        Ok(())
    }

    fn limits(&self) -> DmaLimits {
        DmaLimits { ranges: vec![0..=u64::MAX], page_size: PAGE, mappings: 65535 }
    }
}

fn start() -> (Client, Pair, Arc<Pages>) {
    let device = SoftDevice::threaded(memory(1 << 20, 512)).unwrap();
    let pages = Pages::new(&device);
    let mut client = Client::start_in(device.clone(), pages.clone());
    let pair = Pair::mapped_by(&device, pages.clone(), 1, 256);
    client.create(&pair);
    (client, pair, pages)
}

fn pattern(len: usize, salt: u8) -> Vec<u8> {
    (0..len).map(|index| (index as u8) ^ (index >> 8) as u8 ^ salt).collect()
}

#[test]
fn rings_lists_and_data_cross_mappings_that_are_neighbours() {
    let (mut client, mut pair, _pages) = start();
    let base = client.buffer.iova().0;
    // The list begins in one page and goes on in the next; the data of the SGL lies across three.
    let data = pattern(16384, 3);
    client.fill(65536, &data);
    let list: Vec<u8> = (1..4u64).flat_map(|page| (base + 65536 + page * PAGE).to_le_bytes()).collect();
    client.fill(512, &list);
    for round in 0..300u64 {
        let write = command::write(1, round % 8, 31).with_prp(base + 65536, base + 512);
        let cid = client.cid();
        let status = pair.run(&client.device, &write.with_cid(cid)).status();
        assert!(status.is_ok(), "round {round}: {status}, {:?}", client.device.violations());
    }
    let sgl = SglDescriptor::data_block(base + 200_000, 8192);
    let cid = client.cid();
    let read = command::read(1, 299 % 8, 15).with_sgl(sgl).with_cid(cid);
    assert!(pair.run(&client.device, &read).status().is_ok());
    assert_eq!(client.bytes(200_000, 8192), data[..8192]);
    client.assert_clean();
}

#[test]
fn data_past_the_last_mapping_is_foreign() {
    let (mut client, mut pair, _pages) = start();
    let end = client.buffer.iova().0 + client.buffer.len() as u64;
    let read = command::read(1, 0, 15).with_sgl(SglDescriptor::data_block(end - 4096, 8192));
    let cid = client.cid();
    let status = pair.run(&client.device, &read.with_cid(cid)).status();
    assert!(status.same_code(Status::DATA_TRANSFER_ERROR), "{status}");
    assert_eq!(client.broken(), [Rule::ForeignAddress]);
}

#[test]
fn queues_go_on_when_their_memory_is_back() {
    let (mut client, mut pair, pages) = start();
    client.fill(0, &pattern(512, 1));
    assert!(client.io(&mut pair, command::write(1, 0, 0), 0).is_ok());
    for memory in [&pair.sq_memory, &pair.cq_memory, &client.admin.sq_memory, &client.admin.cq_memory] {
        pages.take(memory.iova().0, memory.len() as u64);
        pages.put(memory.iova().0, memory.window());
    }
    assert!(client.io(&mut pair, command::read(1, 0, 0), 4096).is_ok());
    assert_eq!(client.bytes(4096, 512), pattern(512, 1));
    client.admin_ok(command::get_features(FeatureId::NUMBER_OF_QUEUES, FeatureSelect::CURRENT, 0));
    client.assert_clean();
}

#[test]
fn a_queue_rung_without_its_memory_waits_for_it_and_the_client_is_told() {
    let (mut client, mut pair, pages) = start();
    let (at, len) = (pair.cq_memory.iova().0, pair.cq_memory.len() as u64);
    pages.take(at, len);
    let cid = client.cid();
    pair.push(&command::flush(1).with_cid(cid));
    pair.ring();
    while client.device.violations().is_empty() {
        std::thread::yield_now();
    }
    assert!(pair.poll().is_none());
    pages.put(at, pair.cq_memory.window());
    assert!(pair.wait(&client.device).status().is_ok());
    let violations = client.device.violations();
    assert_eq!(violations.len(), 1, "{violations:#?}");
    assert_eq!(violations[0].rule, Rule::QueueMemoryUnmapped);
    assert!(violations[0].detail.contains("completion queue 1 lies at"), "{violations:#?}");
    assert!(violations[0].detail.contains("submission queue 1 was rung"), "{violations:#?}");
}

#[test]
fn doorbell_pages_come_back_too() {
    let mut config = memory(1 << 20, 512);
    config.doorbell_buffer = warpbell_softctl::DoorbellBufferMode::On;
    config.queue_pairs = 8;
    let device = SoftDevice::threaded(config).unwrap();
    let pages = Pages::new(&device);
    let mut client = Client::start_in(device.clone(), pages.clone());
    let shadows = warpbell_hw::DmaBuffer::host(pages.clone(), 8192).unwrap();
    client.admin_ok(Sqe::new(0x7c, 0).with_prp(shadows.iova().0, shadows.iova().0 + PAGE));
    let mut pair = Pair::mapped_by(&device, pages.clone(), 1, 16);
    client.create(&pair);
    let shadow = |offset: usize| warpbell_hw::Shadow {
        entry: shadows.window().slice(offset, 4).unwrap(),
        event: shadows.window().slice(PAGE as usize + offset, 4).unwrap(),
    };
    pair.sq_doorbell = pair.sq_doorbell.clone().with_shadow(shadow(8));
    pair.cq_doorbell = pair.cq_doorbell.clone().with_shadow(shadow(12));
    for round in 0..40 {
        assert!(client.io(&mut pair, command::flush(1), 0).is_ok(), "round {round}");
        if round % 10 == 5 {
            pages.take(shadows.iova().0, 2 * PAGE);
            pages.put(shadows.iova().0, shadows.window());
        }
    }
    client.assert_clean();
}

#[test]
fn mappings_do_not_overlap_and_go_as_they_came() {
    let device = SoftDevice::threaded(memory(1 << 20, 512)).unwrap();
    let window = Window::host(4 * PAGE as usize).unwrap();
    let source = DmaSource::Memory(&window);
    device.map_at(Iova(0), source, DmaAccess::READ).unwrap();
    let error = device.map_at(Iova(3 * PAGE), source, DmaAccess::READ).unwrap_err();
    assert!(matches!(error, DmaError::Overlap { other: Iova(0), other_len: 16384, .. }), "{error}");
    device.map_at(Iova(4 * PAGE), source, DmaAccess::READ).unwrap();
    assert!(matches!(device.unmap_at(Iova(0), PAGE), Err(DmaError::NotMapped { .. })));
    device.unmap_at(Iova(0), 4 * PAGE).unwrap();
    assert!(matches!(device.map_at(Iova(17), source, DmaAccess::READ), Err(DmaError::Alignment { .. })));
    assert!(matches!(
        device.map_at(Iova(0u64.wrapping_sub(PAGE)), source, DmaAccess::READ),
        Err(DmaError::NoSpace { .. })
    ));
}

#[test]
fn a_file_that_may_only_be_read_can_be_mapped_for_reading() {
    let device = SoftDevice::threaded(memory(1 << 20, 512)).unwrap();
    let path = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(path.path(), pattern(4096, 9)).unwrap();
    let file = std::fs::File::open(path.path()).unwrap();
    let source = DmaSource::File { fd: file.as_fd(), offset: 0, len: PAGE };
    let refused = device.map_at(Iova(0), source, DmaAccess::READ_WRITE).unwrap_err();
    assert!(matches!(refused, DmaError::System { .. }), "{refused}");
    device.map_at(Iova(0), source, DmaAccess::READ).unwrap();
    let mut bytes = vec![0; 4096];
    warpbell_hw::ClientMemory::read(&*device.client_memory(), Iova(0), &mut bytes).unwrap();
    assert_eq!(bytes, pattern(4096, 9));
}

#[test]
fn interrupts_go_to_the_clients_eventfd() {
    let (mut client, _pair, pages) = start();
    let event = rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap();
    client.device.connect_interrupt(2, Some(event.try_clone().unwrap())).unwrap();
    let mut pair = Pair::mapped_by(&client.device, pages, 2, 16);
    client.admin_ok(queue_command::create_io_cq(2, 15, pair.cq_memory.iova().0, Some(2)));
    client.admin_ok(queue_command::create_io_sq(2, 15, pair.sq_memory.iova().0, 2, QueuePriority::URGENT));
    assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
    let mut count = [0; 8];
    // The interrupt follows the completion.
    while rustix::io::read(&event, &mut count).is_err() {
        std::thread::yield_now();
    }
    assert_eq!(u64::from_ne_bytes(count), 1);
}

#[test]
fn a_client_that_is_gone_leaves_data_and_nothing_else() {
    let (mut client, mut pair, _pages) = start();
    let device = client.device.clone();
    client.fill(0, &pattern(512, 5));
    assert!(client.io(&mut pair, command::write(1, 7, 0), 0).is_ok());
    device.client_gone();
    assert_eq!(csts(&device), Csts::new());
    assert_eq!((device.registers().read32(offset::CC), device.registers().read64(offset::ASQ)), (0, 0));
    pair.ring();
    drop((client, pair));
    let mut next = Client::start_in(device.clone(), Pages::new(&device));
    let mut pair = next.pair(1, 16);
    assert!(next.io(&mut pair, command::read(1, 7, 0), 0).is_ok());
    assert_eq!(next.bytes(0, 512), pattern(512, 5));
}
