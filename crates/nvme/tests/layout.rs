//! Offsets of doorbells, arithmetic of data pointers, and the structures a controller fills in.

use proptest::prelude::*;
use warpbell_nvme::command::*;
use warpbell_nvme::data::*;
use warpbell_nvme::feature::*;
use warpbell_nvme::identify::*;
use warpbell_nvme::log::*;
use warpbell_nvme::register::*;
use zerocopy::IntoBytes;

#[test]
fn doorbells_by_stride() {
    for (dstrd, stride) in [(0, 4), (1, 8), (2, 16), (3, 32), (4, 64)] {
        assert_eq!(sq_tail_doorbell(0, dstrd), 0x1000);
        assert_eq!(cq_head_doorbell(0, dstrd), 0x1000 + stride);
        assert_eq!(sq_tail_doorbell(1, dstrd), 0x1000 + 2 * stride);
        assert_eq!(cq_head_doorbell(1, dstrd), 0x1000 + 3 * stride);
        assert_eq!(sq_tail_doorbell(65535, dstrd), 0x1000 + 131_070 * stride);
        assert_eq!(cq_head_doorbell(65535, dstrd), 0x1000 + 131_071 * stride);
    }
    assert_eq!(cq_head_doorbell(65535, 13), 0x1000 + 131_071 * (4 << 13));
    assert_eq!(cq_head_doorbell(65535, 14), u32::MAX);
}

#[test]
fn prp_entries_at_the_edges() {
    let page = 4096;
    assert_eq!(prp_entries(0, 0, page), 0);
    assert_eq!(prp_entries(0, 1, page), 1);
    assert_eq!(prp_entries(0, 4096, page), 1);
    assert_eq!(prp_entries(0, 4097, page), 2);
    assert_eq!(prp_entries(4, 4092, page), 1);
    assert_eq!(prp_entries(4, 4093, page), 2);
    assert_eq!(prp_entries(4092, 4, page), 1);
    assert_eq!(prp_entries(4092, 8, page), 2);
    assert_eq!(prp_entries(4092, 4096, page), 2);
    assert_eq!(prp_entries(4092, 4104, page), 3);
    assert_eq!(prp_entries(0, 2 << 20, page), 512);
    assert_eq!(prp_entries(4, 2 << 20, page), 513);
    assert_eq!(prp_entries(65535, 2, 65536), 2);
    assert_eq!(prp_entries(4095, u64::MAX, page), 1 << 52 | 1);
    assert_eq!(page_offset(0x1234_5678, page), 0x678);
}

#[test]
fn a_list_page_chains_only_for_more_than_one_entry() {
    assert!(!prp_last_slot_chains(0) && !prp_last_slot_chains(1) && prp_last_slot_chains(2));
    assert_eq!((prp_list_slots(0, 4096), prp_list_slots(4088, 4096)), (512, 1));
    for (entries, pages) in [(0, 0), (1, 1), (512, 1), (513, 2), (1023, 2), (1024, 3), (1534, 3), (1535, 4)] {
        assert_eq!(prp_list_pages(entries, 4096), pages, "{entries} entries");
    }
}

proptest! {
    #[test]
    fn prp_entries_count_the_pages_touched(
        first in 0u64..65536, len in 1u64..1 << 30, shift in 12u32..17, at in 0u64..1 << 20,
    ) {
        let page = 1u64 << shift;
        let start = at * page + page_offset(first, page);
        let touched = (start + len - 1) / page - start / page + 1;
        prop_assert_eq!(prp_entries(page_offset(first, page), len, page), touched);
    }

    #[test]
    fn list_pages_agree_with_placing_entries_one_by_one(entries in 1u64..4000, shift in 9u32..13) {
        let slots = prp_list_slots(0, 1 << shift);
        let (mut remaining, mut pages) = (entries, 0);
        while remaining > 0 {
            pages += 1;
            remaining -= remaining.min(slots - 1);
            if !prp_last_slot_chains(remaining) {
                remaining = 0;
            }
        }
        prop_assert_eq!(prp_list_pages(entries, 1 << shift), pages);
    }

    #[test]
    fn sgl_descriptors_round_trip(dptr: [u64; 2]) {
        let descriptor = SglDescriptor::from_qwords(dptr);
        prop_assert_eq!(descriptor.into_qwords(), dptr);
        prop_assert_eq!(descriptor.as_bytes(), dptr.as_bytes());
    }

    #[test]
    fn descriptor_parser_takes_any_bytes(data in proptest::collection::vec(any::<u8>(), 0..300)) {
        let used: usize = ns_id_descriptors(&data).map(|d| 4 + d.nid.len()).sum();
        prop_assert!(used <= data.len());
    }

    #[test]
    fn text_fields_take_any_bytes(field: [u8; 20]) {
        let text = ascii(&field);
        let padded = pad_ascii::<20>(text);
        prop_assert_eq!(ascii(&padded), text);
    }
}

#[test]
fn bit_bucket_and_segment() {
    assert_eq!(SglDescriptor::bit_bucket(512).into_qwords(), [0, 0x1000_0000_0000_0200]);
    assert_eq!(SglDescriptor::segment(4096, 32).into_qwords(), [4096, 0x2000_0000_0000_0020]);
    assert_eq!(SglDescriptor::segment(4096, 32).sgl_type().to_string(), "SGL Segment");
}

#[test]
fn controller_text_and_limits() {
    let mut id = IdentifyController::zeroed();
    id.mn = pad_ascii("Warpbell Soft Controller");
    id.sn = *b"   S123\0garbage\0\0\0\0\0";
    id.subnqn[..8].copy_from_slice(b"nqn.test");
    assert_eq!((id.model(), id.serial(), id.firmware()), ("Warpbell Soft Controller", "S123", ""));
    assert_eq!(id.subsystem_nqn(), "nqn.test");
    assert_eq!(id.max_transfer_bytes(4096), None);
    id.mdts = 5;
    assert_eq!(id.max_transfer_bytes(4096), Some(128 << 10));
    id.mdts = 255;
    assert_eq!(id.max_transfer_bytes(4096), None);
    (id.acl_z, id.aerl_z, id.crdt2) = (3, 7, 12);
    assert_eq!((id.abort_limit(), id.async_event_limit()), (4, 8));
    assert_eq!((id.retry_delay_ms(0), id.retry_delay_ms(2)), (0, 1200));
    id.oacs = Oacs::new().with_dbbuf(true).with_firmware(true).with_format_nvm(true);
    assert_eq!(id.as_bytes()[256..258], [0x06, 0x01]);
}

#[test]
fn namespace_format_and_size() {
    let mut ns = IdentifyNamespace::zeroed();
    assert_eq!((ns.block_bytes(), ns.size_bytes()), (None, None));
    ns.nlbaf_z = 1;
    ns.flbas = Flbas::from_bits(0x01);
    ns.lbaf[1] = LbaFormat::from_bits(0x020c_0008);
    ns.nsze = 1 << 20;
    assert_eq!((ns.block_bytes(), ns.size_bytes()), (Some(4096), Some(1 << 32)));
    assert_eq!((ns.current_format().ms(), ns.current_format().rp()), (8, 2));
    // The upper index bits count only with more than 16 formats.
    ns.flbas = Flbas::from_bits(0x21);
    assert_eq!(ns.block_bytes(), Some(4096));
    ns.nlbaf_z = 63;
    ns.lbaf[17] = LbaFormat::new().with_lbads(9);
    assert_eq!(ns.block_bytes(), Some(512));
}

#[test]
fn lists_end_where_they_say() {
    let mut list = NamespaceList::zeroed();
    list.nsids[..4].copy_from_slice(&[1, 2, 0, 9]);
    assert!(list.iter().eq([1, 2]) && !list.is_full());
    let mut changed = ChangedNamespaceList::zeroed();
    changed.nsids[0] = u32::MAX;
    assert!(changed.overflowed() && changed.iter().next().is_none());
    let mut controllers = ControllerList::zeroed();
    controllers.num = u16::MAX;
    assert_eq!(controllers.iter().count(), 2047);
}

#[test]
fn namespace_descriptors() {
    let mut data = vec![0x02, 16, 0, 0];
    data.extend([7; 16]);
    data.extend([0x04, 1, 0, 0, 2, 0, 0, 0, 0, 9, 9]);
    let found: Vec<_> = ns_id_descriptors(&data).map(|d| (d.nidt, d.nid.len())).collect();
    assert_eq!(found, [(NsIdType::NGUID, 16), (NsIdType::CSI, 1)]);
    assert_eq!(NsIdType::UUID.identifier_len(), Some(16));
}

#[test]
fn smart_counters_and_firmware_slots() {
    let mut smart = SmartLog::zeroed();
    smart.composite_temperature = 0x0133.into();
    smart.media_errors = (1 << 100).into();
    assert_eq!(smart.as_bytes()[1..3], [0x33, 0x01]);
    assert_eq!(smart.as_bytes()[160 + 12], 0x10);
    assert_eq!(smart.media_errors.get(), 1 << 100);
    let mut slots = FirmwareSlotLog::zeroed();
    slots.frs[1] = pad_ascii("1.0");
    assert_eq!((slots.revision(0), slots.revision(1), slots.revision(2)), (None, None, Some("1.0")));
    assert_eq!((slots.revision(7), slots.revision(8)), (None, None));
}

#[test]
fn zero_based_fields_have_real_counts() {
    let queues = NumberOfQueues::from_bits(0x0003_0007);
    assert_eq!((queues.submission_queues(), queues.completion_queues()), (8, 4));
    assert_eq!(QueueIdSize::from_bits(0x03ff_0001).entries(), 1024);
    assert_eq!(Aqa::from_bits(0x003f_001f).sq_entries(), 32);
    assert_eq!(InterruptCoalescing::new().with_thr_z(7).threshold(), 8);
    assert_eq!(DsmCdw10::new().with_nr_z(255).ranges() as usize, DSM_MAX_RANGES);
    assert_eq!(Arbitration::from_bits(0xff03_0107).burst(), None);
    assert_eq!(Arbitration::from_bits(0xff03_0103).burst(), Some(8));
    assert_eq!(Arbitration::from_bits(0xff03_0103).weights(), [2, 4, 256]);
    let (low, high) = (GetLogPageCdw10::from_bits(0xffff_0002), GetLogPageCdw11::from_bits(0xffff));
    assert_eq!(log_page_bytes(low, high), 1 << 34);
    let (low, high) = (GetLogPageCdw12::from_bits(4), GetLogPageCdw13::from_bits(1));
    assert_eq!(log_page_offset(low, high), 0x1_0000_0004);
}
