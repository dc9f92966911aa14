//! The server against a client that says what it is told, and a controller that remembers.

mod fake;
mod generous;
mod peer;

use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixListener;
use std::sync::atomic::Ordering;

use proptest::prelude::*;
use rustix::event::EventfdFlags;
use rustix::io::Errno;
use zerocopy::IntoBytes;

use super::*;
use crate::user::wire::*;
use fake::{Fake, VECTORS};
use peer::Bench;

const PAGE: u64 = 4096;
const CONNECT: IrqSetFlags = IrqSetFlags::DATA_EVENTFD.union(IrqSetFlags::ACTION_TRIGGER);

fn errno(error: Errno) -> u32 {
    error.raw_os_error().unsigned_abs()
}

fn invalid() -> u32 {
    errno(Errno::INVAL)
}

fn eventfd() -> OwnedFd {
    rustix::event::eventfd(0, EventfdFlags::NONBLOCK).unwrap()
}

fn taken(event: &OwnedFd) -> u64 {
    let mut bytes = [0; 8];
    rustix::io::read(event, &mut bytes).map_or(0, |_| u64::from_ne_bytes(bytes))
}

fn memfd(pages: u64) -> OwnedFd {
    let file = tempfile::tempfile().unwrap();
    file.set_len(pages * PAGE).unwrap();
    file.into()
}

fn bench() -> Bench {
    Bench::new(Fake::new(0), DoorbellMode::Mapped)
}

#[test]
fn versions_are_agreed_on_before_anything_else() {
    let bench = bench();
    let mut old = bench.stranger();
    let proposed =
        b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":8,\"pgsizes\":4096,\"write_multiple\":true}}\0";
    let reply = Version::decode(&old.ask(Command::Version, proposed).unwrap()).unwrap();
    assert_eq!((reply.major, reply.minor), (0, 0), "not above what was proposed");
    let capabilities = reply.capabilities;
    assert_eq!((capabilities.max_msg_fds, capabilities.max_data_xfer_size), (Some(16), Some(1 << 20)));
    assert_eq!((capabilities.pgsizes, capabilities.max_dma_maps), (Some(4096), None));
    assert_eq!((capabilities.write_multiple, capabilities.twin_socket), (Some(true), None));
    assert_eq!(old.ask(Command::Version, proposed), Err(invalid()), "once");
    drop(old);
    let mut rude = bench.stranger();
    assert_eq!(rude.ask(Command::DeviceReset, &[]), Err(invalid()));
    let mut strange = bench.stranger();
    assert_eq!(strange.ask(Command::Version, &[1, 0, 0, 0]), Err(invalid()));
    let _next = bench.client();
    assert_eq!(bench.fake.resets.load(Ordering::Relaxed), 0);
    let events = bench.stop();
    assert_eq!(events, ["1 came", "1 gone: it left", "2 came", "2 gone: the server stops"]);
}

#[test]
fn the_device_has_the_regions_and_interrupts_of_a_pci_function() {
    let bench = Bench::new(Fake::new(3 * 4096), DoorbellMode::Mapped);
    let mut client = bench.client();
    let ask = DeviceInfo { argsz: 16, ..DeviceInfo::default() };
    let info = client.ask_for(Command::DeviceGetInfo, &ask).unwrap();
    assert_eq!((info.flags, info.regions, info.irqs), (DeviceFlags::RESET | DeviceFlags::PCI, 9, 5));
    let sizes: Vec<u64> = (0..9).map(|index| client.region(index).0.size).collect();
    assert_eq!(sizes, [0x4000, 0, 0x4000, 0, 0x2000, 0, 0, 4096, 0]);
    let counts = (0..5).map(|index| IrqInfo { argsz: 16, index, ..IrqInfo::default() });
    let counts: Vec<u32> =
        counts.map(|ask| client.ask_for(Command::DeviceGetIrqInfo, &ask).unwrap().count).collect();
    assert_eq!(counts, [0, 0, u32::from(VECTORS), 1, 1]);
    for (command, index) in [(Command::DeviceGetRegionInfo, 9), (Command::DeviceGetIrqInfo, 5)] {
        let room = [4096u32, 0, index, 0, 0, 0, 0, 0];
        let len = if command == Command::DeviceGetIrqInfo { 16 } else { 32 };
        assert_eq!(client.ask(command, &room.as_bytes()[..len]), Err(invalid()), "{command} {index}");
    }
    let ask = RegionIoFds { argsz: 16, index: 0, ..RegionIoFds::default() };
    assert_eq!(client.ask_for(Command::DeviceGetRegionIoFds, &ask).unwrap().count, 0);
}

#[test]
fn doorbells_and_controller_memory_can_be_mapped() {
    let bench = Bench::new(Fake::new(3 * 4096), DoorbellMode::Mapped);
    let mut client = bench.client();
    let (region, mut fds) = client.region(0);
    assert!(region.flags.contains(RegionFlags::MMAP | RegionFlags::CAPS));
    assert_eq!(region.sparse, [SparseArea { offset: 0x1000, size: 0x2000 }]);
    let file = std::fs::File::from(fds.pop().unwrap());
    file.write_all_at(&[17, 0, 0, 0], region.offset + 0x1008).unwrap();
    assert_eq!(bench.fake.doorbells.load_u32(8, Ordering::Acquire), 17);
    let (region, mut fds) = client.region(2);
    assert_eq!(region.sparse, [SparseArea { offset: 0, size: 0x3000 }]);
    std::fs::File::from(fds.pop().unwrap()).write_all_at(b"hello", region.offset + 0x2000).unwrap();
    assert_eq!(client.read(2, 0x2000, 5).unwrap(), b"hello");
    client.write(2, 0x2ffe, &[1, 2, 3, 4]).unwrap();
    assert_eq!(client.read(2, 0x2ffe, 4).unwrap(), [1, 2, 0, 0], "behind the end there is nothing");
    let (region, fds) = client.region(4);
    assert_eq!((region.flags, fds.len()), (RegionFlags::READ | RegionFlags::WRITE, 0));
}

#[test]
fn without_a_page_to_map_doorbells_come_by_message() {
    let bench = Bench::new(Fake::new(0), DoorbellMode::Message);
    let mut client = bench.client();
    let (region, fds) = client.region(0);
    assert_eq!((region.flags, region.size, fds.len()), (RegionFlags::READ | RegionFlags::WRITE, 0x4000, 0));
    client.write(0, 0x100c, &[9, 0, 0, 0]).unwrap();
    assert_eq!(bench.fake.doorbells.load_u32(12, Ordering::Acquire), 9);
    client.write(0, 0x3ffc, &[1, 0, 0, 0]).unwrap();
    assert_eq!(client.read(0, 0x100c, 4).unwrap(), [9, 0, 0, 0]);
}

#[test]
fn registers_are_accessed_as_wide_as_the_client_asks() {
    let bench = bench();
    let mut client = bench.client();
    client.write(0, 0x14, &0x0046_0001u32.to_le_bytes()).unwrap();
    client.write(0, 0x28, &0x1_2345_6000u64.to_le_bytes()).unwrap();
    let registers = bench.fake.registers.lock().clone();
    assert_eq!(
        registers.into_iter().collect::<Vec<_>>(),
        [(0x14, 0x0046_0001), (0x28, 0x2345_6000), (0x2c, 1)]
    );
    assert_eq!(client.read(0, 0x28, 8).unwrap(), 0x1_2345_6000u64.to_le_bytes());
    assert_eq!(client.read(0, 0x16, 1).unwrap(), [0x46], "part of a register");
    assert_eq!(client.read(0, 0x10, 0x20).unwrap()[4..8], 0x0046_0001u32.to_le_bytes());
    assert_eq!(client.read(0, 0x13, 4), Err(invalid()));
    for (at, data) in [(0x14, &[1][..]), (0x16, &[1, 2]), (0x12, &[1, 2, 3, 4]), (0x14, &[1; 5])] {
        assert_eq!(client.write(0, at, data), Err(invalid()), "{at:#x} {data:?}");
    }
    for (region, at, count) in
        [(0, 0x4000, 4), (0, u64::MAX, 4), (1, 0, 4), (7, 4094, 4), (9, 0, 4), (9, 0, 0)]
    {
        assert_eq!(client.read(region, at, count), Err(invalid()), "{region} {at:#x} {count}");
    }
}

#[test]
fn a_function_level_reset_and_device_reset_reach_the_controller() {
    let bench = bench();
    let mut client = bench.client();
    assert_eq!(client.read(7, 0, 4).unwrap(), [0x34, 0x12, 0x78, 0x56]);
    client.write(7, 4, &[6, 0]).unwrap();
    client.write(4, 0, &[0xff; 16]).unwrap();
    assert_eq!(client.read(4, 0, 16).unwrap()[12..], [1, 0, 0, 0], "reserved bits of the table stay zero");
    client.write(4, 12, &[0]).unwrap();
    assert_eq!(client.ask(Command::DeviceReset, &[]), Ok(Vec::new()));
    assert_eq!((client.read(7, 4, 2).unwrap(), client.read(4, 12, 1).unwrap()), (vec![0, 0], vec![1]));
    client.write(7, 0x68, &0x8000u16.to_le_bytes()).unwrap();
    assert_eq!(bench.fake.resets.load(Ordering::Relaxed), 2);
}

#[test]
fn mappings_come_and_go_whole() {
    let bench = bench();
    let (mut client, file) = (bench.client(), memfd(64));
    client.map(0x10000, 4 * PAGE, 0, Some(&file)).unwrap();
    assert_eq!(client.map(0x13000, PAGE, 0, Some(&file)), Err(errno(Errno::EXIST)));
    assert_eq!(client.map(0xf000, 2 * PAGE, 0, None), Err(errno(Errno::EXIST)));
    client.map(0x14000, PAGE, 8 * PAGE, Some(&file)).unwrap();
    client.map(0x15000, PAGE, 0, None).unwrap();
    let reachable: Vec<u64> = bench.fake.maps.lock().keys().copied().collect();
    assert_eq!(reachable, [0x10000, 0x14000], "the third came without a file");
    for (address, size, offset) in [(0x1001, PAGE, 0), (0x20000, 100, 0), (0x20000, 0, 0), (0x20000, PAGE, 7)]
    {
        assert_eq!(client.map(address, size, offset, Some(&file)), Err(invalid()));
    }
    assert_eq!(client.map(u64::MAX - 4095, 2 * PAGE, 0, Some(&file)), Err(invalid()));
    assert_eq!(client.map(0x30000, PAGE, 5 * PAGE, Some(&file)), Err(invalid()), "the controller refuses");
    assert_eq!(client.unmap(0x10000, PAGE, 0), Err(invalid()), "a part");
    assert_eq!(client.unmap(0x11000, 4 * PAGE, 0), Err(invalid()), "a part and another");
    client.unmap(0x30000, PAGE, 0).unwrap();
    assert_eq!(client.unmap(0x30000, 0, 0), Err(invalid()));
    client.unmap(0x14000, 2 * PAGE, 0).unwrap();
    assert_eq!(bench.fake.maps.lock().len(), 1);
    client.map(0x14000, PAGE, 0, Some(&file)).unwrap();
    client.unmap(0, 0, 2).unwrap();
    assert_eq!(bench.fake.maps.lock().len(), 0);
    client.unmap(0, 0, 2).unwrap();
    assert_eq!(client.unmap(0, PAGE, 2), Err(invalid()));
}

#[test]
fn a_client_whose_main_memory_cannot_be_reached_is_told_of_once() {
    let bench = bench();
    let mut client = bench.client();
    client.map(0, 1 << 20, 0, None).unwrap();
    client.map(1 << 20, 1 << 30, 0, None).unwrap();
    client.map(1 << 32, 1 << 30, 0, None).unwrap();
    drop(client);
    bench.wait_gone(1);
    assert_eq!(bench.stop()[1], "1 mapped 0x40000000 at 0x100000 without a file");
}

#[test]
fn interrupts_go_where_the_client_says_and_wait_while_masked() {
    let bench = bench();
    let mut client = bench.client();
    let (one, two) = (eventfd(), eventfd());
    client.irqs(CONNECT, (2, 1, 2), &[], &[&one, &two]).unwrap();
    bench.fake.interrupt(1);
    bench.fake.interrupt(2);
    assert_eq!((taken(&one), taken(&two)), (1, 1));
    let mask = IrqSetFlags::DATA_BOOL | IrqSetFlags::ACTION_MASK;
    client.irqs(mask, (2, 0, 3), &[0, 1, 0], &[]).unwrap();
    assert_eq!(client.read(4, 0x1000, 8).unwrap(), [0; 8]);
    bench.fake.interrupt(1);
    bench.fake.interrupt(1);
    assert_eq!((taken(&one), client.read(4, 0x1000, 8).unwrap()[0]), (0, 0b10));
    client.irqs(IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_UNMASK, (2, 0, 5), &[], &[]).unwrap();
    assert_eq!((taken(&one), client.read(4, 0x1000, 8).unwrap()[0]), (1, 0), "what waited comes as one");
    bench.fake.interrupt(1);
    assert_eq!(taken(&one), 1);
    client.irqs(IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_TRIGGER, (2, 2, 1), &[], &[]).unwrap();
    assert_eq!(taken(&two), 1, "the client's own");
    client.irqs(CONNECT, (2, 1, 1), &[], &[]).unwrap();
    bench.fake.interrupt(1);
    bench.fake.interrupt(2);
    assert_eq!((taken(&one), taken(&two)), (0, 1), "the first was disconnected");
    client.irqs(IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_TRIGGER, (2, 0, 0), &[], &[]).unwrap();
    assert!(bench.fake.events.lock().is_empty());
    for index in [3, 4] {
        client.irqs(CONNECT, (index, 0, 1), &[], &[&one]).unwrap();
        client.irqs(IrqSetFlags::DATA_BOOL | IrqSetFlags::ACTION_TRIGGER, (index, 0, 1), &[1], &[]).unwrap();
        assert_eq!(taken(&one), 1);
    }
}

#[test]
fn requests_about_interrupts_that_make_no_sense_are_refused() {
    let bench = bench();
    let mut client = bench.client();
    let (event, none) = (eventfd(), IrqSetFlags::DATA_NONE);
    let (trigger, bools) = (IrqSetFlags::ACTION_TRIGGER, IrqSetFlags::DATA_BOOL);
    for (flags, range, data, fds) in [
        (CONNECT, (2, 4, 2), &[][..], &[&event, &event][..]),
        (CONNECT, (2, u32::MAX, 2), &[], &[]),
        (CONNECT, (2, 0, 2), &[], &[&event]),
        (CONNECT, (0, 0, 1), &[], &[&event]),
        (CONNECT, (9, 0, 1), &[], &[&event]),
        (CONNECT | IrqSetFlags::ACTION_MASK, (2, 0, 1), &[], &[&event]),
        (IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_MASK, (2, 0, 1), &[], &[&event]),
        (none | trigger, (2, 0, 1), &[], &[&event]),
        (bools | trigger, (2, 0, 2), &[1], &[]),
        (none | IrqSetFlags::ACTION_MASK, (3, 0, 1), &[], &[]),
        (none, (2, 0, 1), &[], &[]),
        (trigger, (2, 0, 1), &[], &[]),
        (none | trigger, (2, 1, 0), &[], &[]),
    ] {
        assert_eq!(client.irqs(flags, range, data, fds), Err(invalid()), "{flags:?} {range:?} {data:?}");
    }
    assert!(bench.fake.events.lock().is_empty());
}

#[test]
fn commands_that_are_not_for_a_server_are_not_supported() {
    let bench = bench();
    let mut client = bench.client();
    for number in [0, 11, 12, 14, 16, 17, 18, 999] {
        assert_eq!(
            client.ask_number(number, &[0; 16], &[]).unwrap_err(),
            errno(Errno::OPNOTSUPP),
            "{number}"
        );
    }
    let file = memfd(1);
    client.ask_with(Command::DeviceReset, &[], &[&file]).unwrap();
    assert_eq!(client.ask(Command::RegionRead, &[0; 15]), Err(invalid()), "too short");
    let access = RegionAccess { offset: 0, region: 7, count: 8 };
    assert_eq!(client.ask(Command::RegionWrite, access.as_bytes()), Err(invalid()), "without its data");
    assert_eq!(client.read(0, 0, (1 << 20) + 1), Err(invalid()));
}

#[test]
fn what_needs_no_answer_gets_none_and_comes_first() {
    let bench = bench();
    let mut client = bench.client();
    let access = RegionAccess { offset: 0x1008, region: 0, count: 4 };
    let payload = [access.as_bytes(), &[3, 0, 0, 0]].concat();
    let header = Header::request(1, Command::RegionWrite, payload.len()).without_reply();
    client.send(header, &payload, &[]);
    client.send(Header::request(2, Command::DeviceGetInfo, 3).without_reply(), &[0; 3], &[]);
    assert_eq!(client.read(0, 0x1008, 4).unwrap(), [3, 0, 0, 0]);
}

#[test]
fn several_writes_come_in_one_message() {
    let bench = bench();
    let mut client = bench.client();
    let write = |offset, count| MultiWrite { offset, region: 0, count, data: [1, 2, 3, 4, 5, 6, 7, 8] };
    let mut ask = |writes: &[MultiWrite]| {
        let head = MultiWriteCount { count: writes.len() as u64 };
        let reply = client.ask(Command::RegionWriteMulti, &[head.as_bytes(), writes.as_bytes()].concat())?;
        Ok(fixed::<MultiWriteCount>("reply", &reply).unwrap().count)
    };
    assert_eq!(ask(&[write(0x1000, 4), write(0x28, 8)]), Ok(2));
    assert_eq!(ask(&[write(0x1004, 4), write(0x1008, 3), write(0x100c, 4)]), Ok(1), "up to the bad one");
    assert_eq!(ask(&[write(0x1008, 9)]), Err(invalid()));
    assert_eq!(client.ask(Command::RegionWriteMulti, &u64::MAX.to_ne_bytes()), Err(invalid()));
    let rung: Vec<u32> =
        (0..4).map(|index| bench.fake.doorbells.load_u32(4 * index, Ordering::Acquire)).collect();
    assert_eq!(rung, [0x0403_0201, 0x0403_0201, 0, 0]);
}

#[test]
fn a_client_that_dies_in_a_message_makes_room_for_the_next() {
    let bench = bench();
    let (mut client, file) = (bench.client(), memfd(1));
    client.map(0, PAGE, 0, Some(&file)).unwrap();
    let header = Header::request(3, Command::RegionRead, 16);
    rustix::io::write(&client.socket, &header.as_bytes()[..9]).unwrap();
    drop(client);
    bench.wait_gone(1);
    assert!(bench.fake.maps.lock().is_empty());
    let mut next = bench.client();
    assert_eq!(next.read(7, 0, 2).unwrap(), [0x34, 0x12]);
    drop(next);
    bench.wait_gone(2);
    let events = bench.stop();
    assert_eq!(events[1], "1 gone: the peer closed the connection after 9 of 16 bytes of a message");
    assert_eq!(events[2..], ["2 came", "2 gone: it left"]);
}

#[test]
fn clients_that_say_nothing_more_keep_nobody() {
    let bench = bench();
    let silent = bench.stranger();
    let slow = bench.client();
    rustix::io::write(&slow.socket, &[1, 2, 3]).unwrap();
    bench.wait_gone(2);
    let idle = bench.client();
    let events = bench.stop();
    assert_eq!(events[1], "1 gone: deadline passed receiving a message: 3 of 16 bytes done");
    assert_eq!(events[2..], ["2 came", "2 gone: the server stops"]);
    drop((silent, slow, idle));
}

#[test]
fn a_message_that_is_too_long_or_a_reply_ends_the_connection() {
    let bench = bench();
    let client = bench.client();
    let header = Header { size: 1 << 24, ..Header::request(1, Command::RegionWrite, 0) };
    rustix::io::write(&client.socket, header.as_bytes()).unwrap();
    bench.wait_gone(1);
    let mut client = bench.client();
    client.send(Header::request(1, Command::RegionRead, 0).reply(0), &[], &[]);
    bench.wait_gone(2);
    let events = bench.stop();
    assert!(events[1].contains("REGION_WRITE says that it has 16777216 bytes"), "{events:?}");
    assert!(events[3].contains("it broke the protocol: a reply to command 9"), "{events:?}");
}

#[test]
fn the_socket_of_a_dead_server_is_replaced_and_that_of_a_live_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("socket");
    let bind = || Server::bind(&path, Fake::new(0), ServerOptions::default());
    drop(UnixListener::bind(&path).unwrap());
    assert!(path.exists(), "left behind");
    let server = bind().unwrap();
    let error = bind().unwrap_err();
    assert!(matches!(error, ServerError::InUse { .. }), "{error}");
    drop(server);
    assert!(!path.exists());
    std::fs::write(&path, "precious").unwrap();
    assert!(matches!(bind().unwrap_err(), ServerError::NotASocket { .. }));
    assert_eq!(std::fs::read(&path).unwrap(), b"precious");
    let nowhere = folder.path().join("no/such/folder");
    let error = Server::bind(&nowhere, Fake::new(0), ServerOptions::default()).unwrap_err().to_string();
    assert!(error.contains("no/such/folder"), "{error}");
}

#[test]
fn as_many_clients_as_asked_for_are_served() {
    let options = ServerOptions { clients: Some(2), ..ServerOptions::default() };
    let bench = Bench::with(Fake::new(0), options);
    drop(bench.client());
    drop(bench.client());
    bench.wait_gone(2);
    while bench.path.exists() {
        std::thread::yield_now();
    }
    assert_eq!(bench.stop().len(), 4);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    #[test]
    fn no_message_stops_the_server(
        messages in prop::collection::vec((1u16..19, prop::collection::vec(0u8..5, 0..64), 0usize..3), 1..40),
    ) {
        let bench = bench();
        let (mut client, file) = (bench.client(), memfd(4));
        for (number, payload, fds) in messages {
            let fds = vec![&file; fds];
            let _ = client.ask_number(number, &payload, &fds);
        }
        prop_assert_eq!(client.read(7, 0, 2), Ok(vec![0x34, 0x12]));
    }
}
