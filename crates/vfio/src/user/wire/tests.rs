//! Bytes as other implementations write them (little-endian machines).

use proptest::prelude::*;
use zerocopy::IntoBytes;

use super::*;

#[test]
fn a_request_and_its_replies() {
    let request = Header::request(0x1234, Command::RegionRead, 16);
    assert_eq!(request.as_bytes(), [0x34, 0x12, 9, 0, 32, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert!(request.is_request() && request.wants_reply() && !request.is_reply());
    assert_eq!(request.without_reply().as_bytes()[8], 0x10);
    assert!(!request.without_reply().wants_reply());
    let reply = request.reply(20);
    assert_eq!(reply.as_bytes(), [0x34, 0x12, 9, 0, 36, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!((reply.is_reply(), reply.refused()), (true, None));
    let refusal = request.refusal(22);
    assert_eq!(refusal.as_bytes(), [0x34, 0x12, 9, 0, 16, 0, 0, 0, 0x21, 0, 0, 0, 22, 0, 0, 0]);
    assert_eq!((refusal.is_reply(), refusal.refused()), (true, Some(22)));
}

#[test]
fn commands_have_their_numbers() {
    let numbers: Vec<u16> = Command::ALL.iter().map(|command| *command as u16).collect();
    assert_eq!(numbers, [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15]);
    assert_eq!(Command::from_number(15), Some(Command::RegionWriteMulti));
    assert_eq!((Command::from_number(0), Command::from_number(14)), (None, None));
    assert_eq!(Command::DeviceSetIrqs.to_string(), "DEVICE_SET_IRQS");
}

#[test]
fn a_dma_map() {
    let flags = DmaFlags::READ | DmaFlags::WRITE;
    let map = DmaMap { argsz: 32, flags, offset: 0x1000, address: 0x1_0000_0000, size: 0x20_0000 };
    let bytes = [
        32, 0, 0, 0, 3, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0x20, 0, 0, 0, 0, 0,
    ];
    assert_eq!(map.as_bytes(), bytes);
    assert_eq!(fixed::<DmaMap>("DMA_MAP", &bytes), Ok(map));
    assert_eq!(
        fixed::<DmaMap>("DMA_MAP", &bytes[..31]).unwrap_err().to_string(),
        "DMA_MAP has 31 bytes; it needs 32"
    );
    assert_eq!(fixed::<DmaMap>("DMA_MAP", &[&bytes[..], &[0; 9]].concat()), Ok(map), "padding");
}

#[test]
fn interrupts_and_registers() {
    let flags = IrqSetFlags::DATA_EVENTFD | IrqSetFlags::ACTION_TRIGGER;
    let set = IrqSet { argsz: 20, flags, index: irq::MSIX, start: 1, count: 1 };
    assert_eq!(set.as_bytes(), [20, 0, 0, 0, 0x24, 0, 0, 0, 2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    let access = RegionAccess { offset: 0x14, region: 0, count: 4 };
    assert_eq!(access.as_bytes(), [0x14, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0]);
    let config = RegionAccess { offset: 4, region: region_index::CONFIG, count: 2 };
    assert_eq!(config.as_bytes(), [4, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 2, 0, 0, 0]);
    let transfer = DmaTransfer { address: 0x3000, count: 512 };
    assert_eq!(transfer.as_bytes(), [0, 0x30, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0]);
    let write = MultiWrite { offset: 0x1008, region: 0, count: 4, data: [7, 0, 0, 0, 0, 0, 0, 0] };
    assert_eq!(write.as_bytes(), [8, 0x10, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn versions_carry_capabilities_as_json() {
    let capabilities =
        Capabilities { max_msg_fds: Some(8), max_data_xfer_size: Some(1 << 20), ..Capabilities::default() };
    let version = Version { major: 0, minor: 1, capabilities };
    let text = b"{\"capabilities\":{\"max_msg_fds\":8,\"max_data_xfer_size\":1048576}}\0";
    assert_eq!(version.encode(), [&[0, 0, 1, 0], &text[..]].concat());
    assert_eq!(Version::decode(&version.encode()), Ok(version));
    assert_eq!(Version::decode(&[&version.encode()[..], &[0; 100]].concat()), Ok(version), "padded");
    let other = b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":2,\"migration\":{\"pgsize\":4096},\
        \"twin_socket\":{\"supported\":true,\"fd_index\":0},\"write_multiple\":true}}";
    let decoded = Version::decode(other).unwrap().capabilities;
    assert_eq!((decoded.message_fds(), decoded.data_bytes()), (2, 1 << 20));
    assert_eq!(decoded.twin_socket, Some(TwinSocket { supported: true, fd_index: Some(0) }));
    assert_eq!(decoded.write_multiple, Some(true));
}

#[test]
fn versions_without_data_mean_the_defaults() {
    for payload in [&[0, 0, 1, 0][..], &[0, 0, 1, 0, 0], b"\0\0\x01\0{}\0"] {
        let version = Version::decode(payload).unwrap();
        let capabilities = version.capabilities;
        assert_eq!((version.major, version.minor, capabilities.message_fds()), (0, 1, 1));
        assert_eq!((capabilities.dma_maps(), capabilities.page_size()), (65535, 4096));
    }
    assert!(Version::decode(&[0, 0, 1]).is_err());
    let error =
        Version::decode(b"\0\0\0\0{\"capabilities\":{\"max_msg_fds\":-1}}\0").unwrap_err().to_string();
    assert!(error.contains("max_msg_fds\":-1") && error.contains("invalid value"), "{error}");
}

fn doorbell_region() -> RegionDescription {
    RegionDescription {
        flags: RegionFlags::READ | RegionFlags::WRITE | RegionFlags::MMAP | RegionFlags::CAPS,
        index: 0,
        size: 0x4000,
        offset: 0,
        sparse: vec![SparseArea { offset: 0x1000, size: 0x1000 }],
    }
}

#[test]
fn a_region_with_a_mappable_page() {
    let region = doorbell_region();
    let bytes = [
        &[64, 0, 0, 0, 0xf, 0, 0, 0, 0, 0, 0, 0, 32, 0, 0, 0][..],
        &[0, 0x40, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[1, 0, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0x10, 0, 0, 0, 0, 0, 0, 0, 0x10, 0, 0, 0, 0, 0, 0],
    ]
    .concat();
    assert_eq!(region.encode(64), bytes);
    assert_eq!(RegionDescription::decode(&bytes), Ok(region));
}

#[test]
fn a_client_with_too_little_room_learns_how_much_it_needs() {
    let bytes = doorbell_region().encode(32);
    assert_eq!(bytes.len(), 32);
    assert_eq!((bytes[0], bytes[4], bytes[12]), (64, 0x7, 0));
}

#[test]
fn capability_chains_that_go_round_or_end_early_are_refused() {
    let mut bytes = doorbell_region().encode(64);
    bytes[36] = 32;
    let error = RegionDescription::decode(&bytes).unwrap_err().to_string();
    assert_eq!(error, "the offset of a region capability is 0x20; capabilities must not overlap or go round");
    bytes[36] = 0;
    bytes[40] = 2;
    assert!(RegionDescription::decode(&bytes).unwrap_err().to_string().contains("16 bytes; it needs 32"));
    bytes[12] = 200;
    assert!(RegionDescription::decode(&bytes).is_err());
}

proptest! {
    #[test]
    fn arbitrary_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        let _ = Version::decode(&bytes);
        let mut region = bytes.clone();
        if let Some(flags) = region.get_mut(4) {
            *flags |= 8;
        }
        if let Ok(region) = RegionDescription::decode(&region) {
            prop_assert!(region.sparse.len() <= bytes.len() / 16);
        }
    }
}
