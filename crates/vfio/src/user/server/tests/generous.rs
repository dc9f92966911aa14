//! A client that sends more than it has to: padding, file descriptors, flags.

use std::os::fd::OwnedFd;
use std::sync::atomic::Ordering;

use zerocopy::IntoBytes;

use super::fake::VECTORS;
use super::{CONNECT, PAGE, bench, eventfd, invalid, memfd, taken};
use crate::user::wire::*;

/// SPDK's client pads DEVICE_GET_REGION_INFO to 4 KiB, and sends the file of a mapping once more to unmap it.
#[test]
fn requests_may_be_longer_than_their_structures() {
    let bench = bench();
    let mut client = bench.stranger();
    let version = Version { major: 0, minor: 1, capabilities: Capabilities::default() };
    let padded = |bytes: &[u8]| [bytes, &[0; 4000]].concat();
    client.ask(Command::Version, &padded(&version.encode())).unwrap();
    let info = client
        .ask(Command::DeviceGetInfo, &padded(DeviceInfo { argsz: 4016, ..DeviceInfo::default() }.as_bytes()));
    assert_eq!(fixed::<DeviceInfo>("reply", &info.unwrap()).unwrap().regions, 9);
    let region = RegionInfo { argsz: 4064, ..RegionInfo::default() };
    let (reply, fds) =
        client.ask_with(Command::DeviceGetRegionInfo, &padded(region.as_bytes()), &[]).unwrap();
    assert_eq!((RegionDescription::decode(&reply).unwrap().sparse.len(), fds.len()), (1, 1));
    let irqs = IrqInfo { argsz: 4016, index: 2, ..IrqInfo::default() };
    let reply = client.ask(Command::DeviceGetIrqInfo, &padded(irqs.as_bytes())).unwrap();
    assert_eq!(fixed::<IrqInfo>("reply", &reply).unwrap().count, u32::from(VECTORS));
    let fds = RegionIoFds { argsz: 4016, ..RegionIoFds::default() };
    assert!(client.ask(Command::DeviceGetRegionIoFds, &padded(fds.as_bytes())).is_ok());
    let (file, event) = (memfd(4), eventfd());
    let set = IrqSet { argsz: 4020, flags: CONNECT, index: 2, start: 1, count: 1 };
    client.ask_with(Command::DeviceSetIrqs, &padded(set.as_bytes()), &[&event]).unwrap();
    bench.fake.interrupt(1);
    assert_eq!(taken(&event), 1);
    let trigger = IrqSet { flags: IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_TRIGGER, ..set };
    client.ask(Command::DeviceSetIrqs, &padded(trigger.as_bytes())).unwrap();
    assert_eq!(taken(&event), 1);
    let read = RegionAccess { offset: 0, region: 7, count: 4 };
    let reply = client.ask(Command::RegionRead, &padded(read.as_bytes())).unwrap();
    assert_eq!(reply[16..], [0x34, 0x12, 0x78, 0x56]);
    let write = MultiWrite { offset: 0x1008, region: 0, count: 4, data: [7; 8] };
    let several = [MultiWriteCount { count: 1 }.as_bytes(), write.as_bytes()].concat();
    let reply = client.ask(Command::RegionWriteMulti, &padded(&several)).unwrap();
    assert_eq!(fixed::<MultiWriteCount>("reply", &reply).unwrap().count, 1);
    let map = DmaMap { argsz: 4032, flags: DmaFlags::READ, offset: 0, address: 0, size: 4 * PAGE };
    let unmap = DmaUnmap { argsz: 4024, flags: 0, address: 0, size: 4 * PAGE };
    for _ in 0..2 {
        client.ask_with(Command::DmaMap, &padded(map.as_bytes()), &[&file, &file]).unwrap();
        assert_eq!(bench.fake.maps.lock().len(), 1);
        let reply = client.ask_with(Command::DmaUnmap, &padded(unmap.as_bytes()), &[&file]).unwrap();
        assert_eq!((reply.0, bench.fake.maps.lock().len()), (unmap.as_bytes().to_vec(), 0));
    }
    client.ask_with(Command::DeviceReset, &padded(&[]), &[&file]).unwrap();
    assert_eq!(bench.fake.resets.load(Ordering::Relaxed), 1);
}

#[test]
fn structures_that_say_they_are_too_short_are_refused() {
    let bench = bench();
    let (mut client, file) = (bench.client(), memfd(1));
    let map = DmaMap { argsz: 31, flags: DmaFlags::READ, offset: 0, address: 0, size: PAGE };
    assert_eq!(client.ask_with(Command::DmaMap, map.as_bytes(), &[&file]).unwrap_err(), invalid());
    let unmap = DmaUnmap { argsz: 23, flags: 2, address: 0, size: 0 };
    assert_eq!(client.ask(Command::DmaUnmap, unmap.as_bytes()), Err(invalid()));
    let flags = IrqSetFlags::DATA_NONE | IrqSetFlags::ACTION_TRIGGER;
    let set = IrqSet { argsz: 19, flags, index: 2, start: 0, count: 0 };
    assert_eq!(client.ask(Command::DeviceSetIrqs, set.as_bytes()), Err(invalid()));
    let info = DeviceInfo { argsz: 15, ..DeviceInfo::default() };
    assert_eq!(client.ask(Command::DeviceGetInfo, info.as_bytes()), Err(invalid()));
}

#[test]
fn mappings_say_what_may_be_done_with_them() {
    let bench = bench();
    let (mut client, file) = (bench.client(), memfd(1));
    let mut ask = |flags: DmaFlags, address, size, file: Option<&OwnedFd>| {
        let map = DmaMap { argsz: 32, flags, offset: 0, address, size };
        let files: Vec<_> = file.into_iter().collect();
        client.ask_with(Command::DmaMap, map.as_bytes(), &files).map(|_| bench.fake.maps.lock().len())
    };
    let (both, unknown) = (DmaFlags::READ | DmaFlags::WRITE, DmaFlags::from_bits_retain(1 << 4));
    assert_eq!(ask(both | DmaFlags::MMAP, 0, PAGE, Some(&file)), Ok(1));
    assert_eq!(ask(both | DmaFlags::FILE_IO, PAGE, PAGE, Some(&file)), Ok(2));
    assert_eq!(
        ask(DmaFlags::empty(), 2 * PAGE, PAGE, Some(&file)),
        Ok(2),
        "the controller may do nothing there"
    );
    assert_eq!(ask(both, 3 * PAGE + 5, 7, None), Ok(2), "nor here, so that its edges do not matter");
    for flags in [both | unknown, both | DmaFlags::MMAP, both | DmaFlags::FILE_IO] {
        let file = if flags.contains(unknown) { Some(&file) } else { None };
        assert_eq!(ask(flags, 1 << 20, PAGE, file), Err(invalid()), "{flags:?}");
    }
    client.unmap(0, 1 << 20, 0).unwrap();
    assert_eq!(bench.fake.maps.lock().len(), 0);
}

#[test]
fn no_bytes_can_be_read_and_written_anywhere_in_a_region() {
    let bench = bench();
    let mut client = bench.client();
    for (region, at) in [(0, 0x15), (4, 0), (7, 4096)] {
        assert_eq!(client.read(region, at, 0), Ok(Vec::new()));
        client.write(region, at, &[]).unwrap();
    }
    assert_eq!(client.read(7, 4097, 0), Err(invalid()));
    assert!(bench.fake.registers.lock().is_empty());
}
