use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering;
use std::time::Instant;

use warpbell_hw::{
    DmaBuffer, DmaError, DmaSource, DoorbellKind, DoorbellPath, InterruptError, Qid, WordMemory,
};

use super::super::fake::{Model, soon};
use super::super::wire::{RegionDescription, RegionFlags, SparseArea};
use super::*;

fn open(stream: UnixStream, options: &UserOptions) -> Result<Arc<UserDevice>, UserError> {
    UserDevice::over(Connection::over(stream, Path::new("/test.sock"), options)?, options)
}

/// BAR 0 with a page of doorbells in a file of that many bytes.
fn with_page(file_bytes: u64) -> (Model, std::fs::File) {
    let mut model = Model::new();
    let file = tempfile::tempfile().unwrap();
    file.set_len(file_bytes).unwrap();
    model.file = Some(file.try_clone().unwrap().into());
    model.regions[0] = RegionDescription {
        flags: model.regions[0].flags | RegionFlags::MMAP,
        sparse: vec![SparseArea { offset: 0x1000, size: 0x1000 }],
        ..model.regions[0].clone()
    };
    (model, file)
}

#[test]
fn a_function_is_set_up_as_firmware_would_and_answers() {
    let (stream, model, server) = Model::new().serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    assert_eq!(device.info().name, "vfio-user:/test.sock");
    assert_eq!(device.pci_id(), Some(PciId { vendor: 0x1b36, device: 0x0010 }));
    assert_eq!(device.registers().read32(0), 0x0f01_07ff, "memory decode is on");
    assert_eq!(device.registers().read64(0), 0x20_0f01_07ff);
    device.registers().write64(0x28, 0x1_0000_2000);
    {
        let model = model.lock();
        assert_eq!(model.config[4..6], [6, 4], "memory, bus master, no INTx");
        assert_eq!(model.config[0x10..0x18], [4, 0, 0, 0xc0, 0, 0, 0, 0], "BAR 0 has a place");
        assert_eq!(model.writes, [(0x28, 0x1_0000_2000u64.to_le_bytes().to_vec())]);
    }
    drop(device);
    server.join().unwrap();
}

#[test]
fn doorbells_are_stores_where_the_page_can_be_mapped() {
    let (model, file) = with_page(0x2000);
    let (stream, model, server) = model.serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    assert_eq!((device.doorbells().path(), device.why_forwarded()), (DoorbellPath::Mapped, None));
    assert!(device.doorbells().window().memory().is_ordinary(), "the server's memory, and no BAR");
    device.doorbells().doorbell(Qid(1), DoorbellKind::CqHead).unwrap().ring(7);
    let mut value = [0; 4];
    std::os::unix::fs::FileExt::read_exact_at(&file, &mut value, 0x1000 + 12).unwrap();
    assert_eq!(u32::from_le_bytes(value), 7);
    assert!(device.doorbells().doorbell(Qid(512), DoorbellKind::SqTail).is_err(), "behind the page");
    assert!(model.lock().writes.is_empty());
    drop(device);
    server.join().unwrap();
}

/// Waits for what a thread does.
fn until(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = soon();
    while !done() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::yield_now();
    }
}

/// A queue that is deleted and made again under its identifier must not meet the last doorbell of the old one.
#[test]
fn what_kernels_stored_goes_before_an_admin_command_and_a_register_write() {
    let (stream, model, server) = Model::new().serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    let admin = device.doorbells().doorbell(Qid::ADMIN, DoorbellKind::SqTail).unwrap();
    device.doorbells().doorbell(Qid(63), DoorbellKind::CqHead).unwrap();
    let page = device.doorbells().window();
    for round in 1..=200u32 {
        page.store_u32(63 * 8 + 4, round, Ordering::Release);
        if round % 2 == 0 {
            admin.ring(round);
        } else {
            device.registers().write32(0x14, round);
        }
    }
    let of_host = |at: u64| at == 0x1000 || at == 0x14;
    until("all of them", || model.lock().writes.iter().filter(|(at, _)| of_host(*at)).count() == 200);
    let writes = model.lock().writes.clone();
    let value = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let mut stored = 0;
    for (at, bytes) in &writes {
        match *at {
            0x1000 => {
                assert_eq!(stored, value(bytes), "the kernel's doorbell of round {} is behind", value(bytes))
            }
            _ => stored = value(bytes),
        }
    }
    // Each holds the connection, whose end the server waits for.
    drop((admin, page, device));
    server.join().unwrap();
}

#[test]
fn without_a_page_host_threads_send_messages_and_a_thread_forwards_what_kernels_store() {
    let (stream, model, server) = Model::new().serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    assert_eq!(device.doorbells().path(), DoorbellPath::Forwarded);
    assert_eq!(device.why_forwarded(), Some("region 0 cannot be mapped"));
    let doorbell = device.doorbells().doorbell(Qid(2), DoorbellKind::SqTail).unwrap();
    doorbell.ring(3);
    until("a message", || model.lock().writes == [(0x1010, 3u32.to_le_bytes().to_vec())]);

    let page = device.doorbells().window();
    assert_eq!(doorbell.as_ptr(), page.as_ptr().wrapping_add(0x10).cast());
    for count in 1..4 {
        // The same value each time: a queue that was created again begins anew.
        page.store_u32(0x10, 5, Ordering::Release);
        until("a forwarded store", || model.lock().writes.len() == 1 + count);
    }
    assert!(model.lock().writes[1..].iter().all(|write| *write == (0x1010, 5u32.to_le_bytes().to_vec())));
    drop((doorbell, device));
    server.join().unwrap();
}

#[test]
fn a_server_that_was_late_for_once_gets_what_kernels_store_later() {
    let (stream, model, server) = Model::new().serve();
    let options = UserOptions { timeout: Duration::from_secs(1), ..UserOptions::default() };
    let device = open(stream, &options).unwrap();
    let doorbell = device.doorbells().doorbell(Qid(1), DoorbellKind::SqTail).unwrap();
    let page = device.doorbells().window();
    let stalled = model.lock();
    // As many as may wait for replies, one that meets its deadline, and one after that.
    for value in 0..258 {
        page.store_u32(8, value, Ordering::Release);
        until("a look at the page", || page.load_u32(8, Ordering::Acquire) == u32::MAX);
    }
    drop(stalled);
    until("the last doorbell", || {
        model.lock().writes.last() == Some(&(0x1008, 257u32.to_le_bytes().to_vec()))
    });
    drop((doorbell, device));
    server.join().unwrap();
}

#[test]
fn sizes_and_places_that_cannot_be_do_no_harm() {
    let with = |change: fn(&mut Model)| {
        let mut model = with_page(0x4000).0;
        change(&mut model);
        let (stream, _, server) = model.serve();
        let device = open(stream, &UserOptions::default());
        let told = match &device {
            Ok(device) => device.why_forwarded().unwrap_or_default().to_owned(),
            Err(error) => error.to_string(),
        };
        let doorbells = device.as_ref().map_or(0, |device| device.doorbells().window().len());
        drop(device);
        server.join().unwrap();
        (told, doorbells)
    };
    let (told, _) = with(|model| model.regions[2].size = u64::MAX);
    assert!(told.contains("the size of the region is 0xffffffffffffffff; at most 2^52 bytes"), "{told}");
    let (told, _) = with(|model| {
        model.regions[0].offset = 0x7ff;
        model.regions[0].sparse[0] = SparseArea { offset: 0x801, size: 0x2000 };
    });
    assert_eq!(told, "the area of region 0 at 0x801 does not begin at a page");
    // The widest stride: doorbells of all queues would take 16 GiB.
    let (told, doorbells) = with(|model| {
        (model.regions[0].flags, model.regions[0].size) = (RegionFlags::READ | RegionFlags::WRITE, 1 << 40);
        model.registers.insert(4, 0x2f);
    });
    assert_eq!((told.as_str(), doorbells), ("region 0 cannot be mapped", 16 << 20));
}

#[test]
fn messages_can_be_asked_for_and_short_files_are_not_mapped() {
    let forwarded = |bytes, message_doorbells| {
        let (stream, _, server) = with_page(bytes).0.serve();
        let device = open(stream, &UserOptions { message_doorbells, ..UserOptions::default() }).unwrap();
        let reason = device.why_forwarded().unwrap_or_default().to_owned();
        drop(device);
        server.join().unwrap();
        reason
    };
    assert_eq!(forwarded(0x2000, true), "messages were asked for");
    assert_eq!(forwarded(0x1fff, false), "the file of region 0 has 8191 bytes, not 4096 from 0x1000 on");
}

#[test]
fn memory_is_mapped_by_its_file_and_unmapped() {
    let (stream, model, server) = Model::new().serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    let buffer = DmaBuffer::host(device.dma(), 8192).unwrap();
    {
        let mapped = model.lock().mappings[0];
        assert_eq!((mapped.address, mapped.size, mapped.offset), (buffer.iova().0, 8192, 0));
        assert_eq!(mapped.flags.bits(), 3);
    }
    let part = buffer.window().slice(4096, 4096).unwrap();
    let at = device.dma().map(DmaSource::Memory(&part), warpbell_hw::DmaAccess::READ).unwrap();
    let mapped = model.lock().mappings[1];
    assert_eq!((mapped.address, mapped.offset, mapped.flags.bits()), (at.0, 4096, 1));
    assert!(matches!(device.dma().unmap(at, 8192), Err(DmaError::NotMapped { .. })));
    device.dma().unmap(at, 4096).unwrap();

    let file = tempfile::tempfile().unwrap();
    file.set_len(8192).unwrap();
    let odd = DmaSource::File { fd: file.as_fd(), offset: 1, len: 4096 };
    let access = warpbell_hw::DmaAccess::READ_WRITE;
    assert!(matches!(device.dma().map(odd, access), Err(DmaError::Alignment { .. })));
    let bar = Window::whole(WordMemory::new(buffer.window().memory().clone()));
    let text = device.dma().map(DmaSource::Memory(&bar), access).unwrap_err().to_string();
    assert!(text.contains("without a file"), "{text}");

    drop(buffer);
    assert!(model.lock().mappings.is_empty());
    model.lock().refuse.insert(Command::DmaMap, 17);
    let text = DmaBuffer::host(device.dma(), 4096).unwrap_err().to_string();
    assert!(text.starts_with("DMA map of 4096 bytes: vfio-user:/test.sock: DMA_MAP of 4096 bytes"), "{text}");
    drop(device);
    server.join().unwrap();
}

#[test]
fn interrupts_are_connected_unmasked_and_enabled() {
    let (stream, model, server) = Model::new().serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    assert_eq!(device.interrupts().count(), 8);
    let event = device.interrupts().subscribe(3).unwrap();
    {
        let model = model.lock();
        assert_eq!(model.writes, [(0x2000 + 3 * 16 + 12, vec![0; 4])], "unmasked in the table");
        assert_eq!(model.config[0x43] & 0xc0, 0x80, "MSI-X is on");
        rustix::io::write(&model.events[&3], &5u64.to_ne_bytes()).unwrap();
    }
    let mut count = [0; 8];
    rustix::io::read(&event, &mut count).unwrap();
    assert_eq!(u64::from_ne_bytes(count), 5);
    let error = device.interrupts().subscribe(8).unwrap_err();
    assert!(matches!(error, InterruptError::NoSuchVector { vector: 8, count: 8 }));
    drop(device);
    server.join().unwrap();
}

/// As SPDK's target has it: the message decides, and the table can be neither read nor written.
#[test]
fn interrupts_need_no_table_that_takes_writes() {
    let mut model = Model::new();
    model.no_access_from = Some(0x2000);
    let (stream, model, server) = model.serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    let event = device.interrupts().subscribe(3).unwrap();
    assert_eq!(model.lock().config[0x43] & 0xc0, 0x80, "MSI-X is on all the same");
    rustix::io::write(&model.lock().events[&3], &1u64.to_ne_bytes()).unwrap();
    rustix::io::read(&event, &mut [0; 8]).unwrap();
    Device::reset(&*device).reset(ResetKind::Function).unwrap();
    model.lock().refuse.insert(Command::DeviceSetIrqs, 22);
    let text = device.interrupts().subscribe(4).unwrap_err().to_string();
    let wanted =
        "vfio-user:/test.sock: DEVICE_SET_IRQS of interrupts of type 2 from 4 on was refused: Invalid";
    assert!(text.contains(wanted), "{text}");
    drop(device);
    server.join().unwrap();
}

#[test]
fn replies_may_be_longer_than_their_structures() {
    for padding in [1, 4096, 100_000] {
        let (mut model, _file) = with_page(0x2000);
        model.padding = padding;
        let (stream, model, server) = model.serve();
        let device = open(stream, &UserOptions::default()).unwrap();
        assert_eq!(
            device.doorbells().path(),
            DoorbellPath::Mapped,
            "{padding}: {:?}",
            device.why_forwarded()
        );
        assert_eq!((device.interrupts().count(), device.registers().read32(4)), (8, 0x20));
        device.interrupts().subscribe(0).unwrap();
        drop(DmaBuffer::host(device.dma(), 8192).unwrap());
        assert!(model.lock().mappings.is_empty());
        Device::reset(&*device).reset(ResetKind::Function).unwrap();
        drop(device);
        server.join().unwrap();
    }
}

#[test]
fn a_servers_limit_of_dma_regions_is_named() {
    let mut model = Model::new();
    model.most_mappings = Some(3);
    let (stream, _model, server) = model.serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    let held: Vec<_> = (0..3).map(|_| DmaBuffer::host(device.dma(), 4096).unwrap()).collect();
    let text = DmaBuffer::host(device.dma(), 4096).unwrap_err().to_string();
    let wanted = "DMA map of 4096 bytes: vfio-user:/test.sock: DMA_MAP of 4096 bytes at iova";
    assert!(text.starts_with(wanted) && text.contains("Invalid argument"), "{text}");
    assert!(text.ends_with("the server holds 3 DMA regions of this client, and may take no more"), "{text}");
    drop(held);
    drop(device);
    server.join().unwrap();
}

#[test]
fn after_a_reset_the_function_is_set_up_again() {
    let (stream, model, server) = Model::new().serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    device.interrupts().subscribe(0).unwrap();
    model.lock().events.clear();
    Device::reset(&*device).reset(ResetKind::Function).unwrap();
    assert_eq!(device.registers().read32(4), 0x20, "decoding again");
    assert_eq!(model.lock().resets, 1);
    assert!(model.lock().events.contains_key(&0), "connected again");
    drop(device);
    server.join().unwrap();
}

#[test]
fn a_server_without_resets_says_so() {
    let mut model = Model::new();
    model.flags = DeviceFlags::PCI;
    let (stream, model, server) = model.serve();
    let device = open(stream, &UserOptions::default()).unwrap();
    let text = Device::reset(&*device).reset(ResetKind::Function).unwrap_err().to_string();
    assert!(text.contains("no DEVICE_RESET"), "{text}");
    assert_eq!(model.lock().resets, 0);
    drop(device);
    server.join().unwrap();
}

#[test]
fn servers_of_other_things_are_refused() {
    let refused = |change: fn(&mut Model)| {
        let mut model = Model::new();
        change(&mut model);
        let (stream, _, server) = model.serve();
        let text = open(stream, &UserOptions::default()).err().unwrap().to_string();
        server.join().unwrap();
        text
    };
    let text = refused(|model| model.flags = DeviceFlags::RESET);
    assert!(text.contains("the device's flags is 0x1; it must be those of a PCI function"), "{text}");
    let text = refused(|model| model.regions[0].size = 0x1000);
    assert!(text.contains("BAR 0 is 4096 bytes; it must be longer"), "{text}");
    let text = refused(|model| model.registers.clear());
    assert!(text.contains("CAP is 0x0; it must be that of an NVMe controller"), "{text}");
    let text = refused(|model| {
        model.refuse.insert(Command::DeviceGetInfo, 95);
    });
    assert!(text.contains("DEVICE_GET_INFO of the device was refused"), "{text}");
}

#[test]
fn registers_of_a_server_that_died_read_as_all_ones() {
    let (ours, theirs) = UnixStream::pair().unwrap();
    let (stream, model, server) = Model::new().serve();
    drop((ours, theirs));
    let closer = stream.try_clone().unwrap();
    let device = open(stream, &UserOptions::default()).unwrap();
    let buffer = DmaBuffer::host(device.dma(), 4096).unwrap();
    // As if it were killed: both directions end at once.
    closer.shutdown(std::net::Shutdown::Both).unwrap();
    server.join().unwrap();
    assert_eq!(device.registers().read32(0x1c), u32::MAX);
    assert_eq!(device.registers().read64(0), u64::MAX);
    device.registers().write32(0x14, 0);
    assert!(device.ended().is_some());
    assert!(DmaBuffer::host(device.dma(), 4096).is_err());
    device.dma().unmap(buffer.iova(), 4096).unwrap();
    assert_eq!(model.lock().resets, 0);
    std::mem::forget(buffer);
}
