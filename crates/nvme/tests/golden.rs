//! Bytes written by hand from the specification's figures.

use warpbell_nvme::command::{self, *};
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId, FeatureSelect, NumberOfQueues};
use warpbell_nvme::identify::Cns;
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::register::*;
use warpbell_nvme::{Cqe, SglDescriptor, Sqe, Status};
use zerocopy::{FromBytes, IntoBytes};

/// The entry whose dwords are zero but for the given ones.
fn sqe_bytes(dwords: &[(usize, u32)]) -> [u8; 64] {
    let mut bytes = [0; 64];
    for &(index, value) in dwords {
        bytes[index * 4..index * 4 + 4].copy_from_slice(&value.to_le_bytes());
    }
    bytes
}

#[track_caller]
fn assert_sqe(sqe: Sqe, dwords: &[(usize, u32)]) {
    assert_eq!(sqe.as_bytes(), sqe_bytes(dwords));
    assert_eq!(Sqe::read_from_bytes(&sqe_bytes(dwords)), Ok(sqe));
}

#[test]
fn read_with_prps_byte_by_byte() {
    let sqe = command::read(0x0403_0201, 0x1817_1615_1413_1211, 0x2221)
        .with_prp(0x3837_3635_3433_3230, 0x4847_4645_4443_4240)
        .with_fua(true)
        .with_cid(0xbeef);
    #[rustfmt::skip]
    let bytes = [
        0x02, 0x00, 0xef, 0xbe,  0x01, 0x02, 0x03, 0x04,
        0x00, 0x00, 0x00, 0x00,  0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00,  0x00, 0x00, 0x00, 0x00,
        0x30, 0x32, 0x33, 0x34,  0x35, 0x36, 0x37, 0x38,
        0x40, 0x42, 0x43, 0x44,  0x45, 0x46, 0x47, 0x48,
        0x11, 0x12, 0x13, 0x14,  0x15, 0x16, 0x17, 0x18,
        0x21, 0x22, 0x00, 0x40,  0x00, 0x00, 0x00, 0x00,
        0x00, 0x00, 0x00, 0x00,  0x00, 0x00, 0x00, 0x00,
    ];
    assert_eq!(sqe.as_bytes(), bytes);
    assert_eq!((sqe.opcode(), sqe.cid(), sqe.slba()), (0x02, 0xbeef, 0x1817_1615_1413_1211));
    assert_eq!((sqe.nlb_z(), sqe.blocks(), sqe.fua(), sqe.lr()), (0x2221, 0x2222, true, false));
}

#[test]
fn write_with_an_sgl_sets_psdt_and_the_descriptor_bytes() {
    let sqe = command::write(1, 0, 0).with_sgl(SglDescriptor::data_block(0x1122_3344_5566_7788, 0x1000));
    let mut want = sqe_bytes(&[(0, 0x0000_4001), (1, 1), (6, 0x5566_7788), (7, 0x1122_3344), (8, 0x1000)]);
    assert_eq!(sqe.as_bytes(), want);
    assert_eq!(sqe.sgl(), SglDescriptor::data_block(0x1122_3344_5566_7788, 0x1000));

    let last = SglDescriptor::last_segment(0x1122_3344_5566_7788, 0x1000);
    want[39] = 0x30;
    assert_eq!(command::write(1, 0, 0).with_sgl(last).as_bytes(), want);
    assert_eq!(SglDescriptor::read_from_bytes(&want[24..40]), Ok(last));
}

#[test]
fn queue_commands() {
    let base = [(6, 0xdead_b000), (7, 0x1)];
    assert_sqe(
        create_io_cq(3, 255, 0x1_dead_b000, Some(7)),
        &[(0, 0x05), base[0], base[1], (10, 0x00ff_0003), (11, 0x0007_0003)],
    );
    assert_sqe(create_io_cq(3, 255, 0, None), &[(0, 0x05), (10, 0x00ff_0003), (11, 0x0000_0001)]);
    assert_sqe(
        create_io_sq(3, 1023, 0x1_dead_b000, 4, QueuePriority::MEDIUM),
        &[(0, 0x01), base[0], base[1], (10, 0x03ff_0003), (11, 0x0004_0005)],
    );
    assert_sqe(delete_io_sq(3), &[(10, 3)]);
    assert_sqe(delete_io_cq(3), &[(0, 0x04), (10, 3)]);
    assert_sqe(abort(3, 0x1234), &[(0, 0x08), (10, 0x1234_0003)]);
    assert_sqe(async_event_request(), &[(0, 0x0c)]);
    assert_sqe(keep_alive(), &[(0, 0x18)]);
    assert_sqe(dbbuf_config(0x1000, 0x2000), &[(0, 0x7c), (6, 0x1000), (8, 0x2000)]);
}

#[test]
fn admin_commands() {
    assert_sqe(identify(Cns::CONTROLLER, 0), &[(0, 0x06), (10, 1)]);
    assert_sqe(identify(Cns::NAMESPACE, 5), &[(0, 0x06), (1, 5)]);
    let queues = NumberOfQueues::new().with_nsqr_z(15).with_ncqr_z(7);
    assert_sqe(
        set_features(FeatureId::NUMBER_OF_QUEUES, queues.into_bits(), 0),
        &[(0, 0x09), (10, 0x07), (11, 0x0007_000f)],
    );
    assert_sqe(
        get_features(FeatureId::VOLATILE_WRITE_CACHE, FeatureSelect::SAVED, 0),
        &[(0, 0x0a), (10, 0x206)],
    );
    assert_sqe(
        get_log_page(LogPageId::SMART, NSID_ALL, 127, 0, true),
        &[(0, 0x02), (1, u32::MAX), (10, 0x007f_8002)],
    );
    assert_sqe(
        get_log_page(LogPageId::TELEMETRY_HOST, 0, 0x0012_3456, 0x1_0000_0200, false),
        &[(0, 0x02), (10, 0x3456_0007), (11, 0x12), (12, 0x200), (13, 1)],
    );
    let format = FormatNvmCdw10::new().with_lba_format(0x21).with_ses(SecureErase::CRYPTOGRAPHIC);
    assert_sqe(format_nvm(1, format), &[(0, 0x80), (1, 1), (10, 0x2401)]);
    assert_eq!(format.lba_format(), 0x21);
    let erase = SanitizeCdw10::new().with_sanact(SanitizeAction::BLOCK_ERASE).with_ause(true);
    assert_sqe(sanitize(erase, 0), &[(0, 0x84), (10, 0x0a)]);
}

#[test]
fn nvm_commands() {
    assert_sqe(flush(NSID_ALL), &[(1, u32::MAX)]);
    assert_sqe(compare(1, 8, 7), &[(0, 0x05), (1, 1), (10, 8), (12, 7)]);
    assert_sqe(verify(1, 8, 7), &[(0, 0x0c), (1, 1), (10, 8), (12, 7)]);
    assert_sqe(write_zeroes(1, 8, 7, true), &[(0, 0x08), (1, 1), (10, 8), (12, 0x0200_0007)]);
    assert_sqe(write_uncorrectable(1, 8, 7), &[(0, 0x04), (1, 1), (10, 8), (12, 7)]);
    assert_sqe(
        dataset_management(1, 2, DsmCdw11::new().with_ad(true)),
        &[(0, 0x09), (1, 1), (10, 2), (11, 4)],
    );
    assert_sqe(copy(1, 1 << 32, 3), &[(0, 0x19), (1, 1), (11, 1), (12, 3)]);
}

#[test]
fn completion_byte_by_byte() {
    let status = Status::LBA_OUT_OF_RANGE.with_dnr(true);
    let cqe = Cqe::new(0x0102, 0x0304, 0x0506, status, true).with_dw0(0x0708_090a);
    #[rustfmt::skip]
    let bytes = [
        0x0a, 0x09, 0x08, 0x07,  0x00, 0x00, 0x00, 0x00,
        0x04, 0x03, 0x02, 0x01,  0x06, 0x05, 0x01, 0x81,
    ];
    assert_eq!(cqe.as_bytes(), bytes);
    assert_eq!(Cqe::read_from_bytes(&bytes), Ok(cqe));
    assert_eq!((cqe.lo(), cqe.hi()), (0x0708_090a, 0x8101_0506_0102_0304));
    assert_eq!(Cqe::from_qwords(cqe.lo(), cqe.hi()), cqe);
    assert!(cqe.phase() && cqe.hi() & warpbell_nvme::completion::PHASE_BIT != 0);
    assert_eq!(cqe.status(), status);
    assert_eq!(cqe.with_phase(false).hi(), 0x8100_0506_0102_0304);
}

#[test]
fn capabilities() {
    // 1024 entries, contiguous, WRR, 7.5 s, stride 4, subsystem reset, NVM and CSI, pages 4 KiB to 64 KiB, CMB.
    let cap = Cap::from_bits(0x0240_0830_0f03_03ff);
    assert_eq!((cap.mqes_z(), cap.max_queue_entries(), cap.cqr(), cap.ams()), (0x3ff, 1024, true, 1));
    assert_eq!((cap.to(), cap.timeout_ms(), cap.dstrd(), cap.doorbell_stride()), (15, 7500, 0, 4));
    assert_eq!((cap.nssrs(), cap.css(), cap.mpsmin(), cap.mpsmax()), (true, 0x41, 0, 4));
    assert_eq!(
        (cap.min_page_size(), cap.max_page_size(), cap.cmbs(), cap.pmrs()),
        (4096, 65536, true, false)
    );
    assert!(cap.supports_wrr() && cap.supports_nvm() && cap.supports_csi() && !cap.admin_only());
}

#[test]
fn configuration_and_status() {
    let cc = Cc::new().with_css(CommandSet::CSI).with_iosqes(6).with_iocqes(4).with_en(true);
    assert_eq!(cc.into_bits(), 0x0046_0061);
    let cc = cc.with_ams(ArbitrationMechanism::WEIGHTED_ROUND_ROBIN).with_shn(Shn::NORMAL).with_mps(4);
    assert_eq!(cc.into_bits(), 0x0046_4a61);
    assert_eq!(cc.page_size(), 65536);
    let csts = Csts::from_bits(0x09);
    assert_eq!((csts.rdy(), csts.cfs(), csts.shst(), csts.gone()), (true, false, Shst::COMPLETE, false));
    assert!(Csts::from_bits(u32::MAX).gone());
    assert_eq!(Aqa::new().with_asqs_z(31).with_acqs_z(63).into_bits(), 0x003f_001f);
    assert_eq!(Vs::from_bits(0x0002_0000).to_string(), "2.0.0");
    assert_eq!(Vs::from_parts(1, 4, 0).into_bits(), 0x0001_0400);
    assert!(Vs::from_parts(1, 4, 0).at_least(1, 3) && !Vs::from_parts(1, 4, 0).at_least(2, 0));
    assert_eq!(NSSR_MAGIC.to_be_bytes(), *b"NVMe");
    assert_eq!((NSSD_NORMAL.to_be_bytes(), NSSD_ABRUPT.to_be_bytes()), (*b"Nrml", *b"Abpt"));
}

#[test]
fn controller_memory_buffer() {
    // 64 KiB units: 16 MiB at 1 MiB of BAR 2.
    let size = CmbSz::from_bits(0x0010_0119);
    let location = CmbLoc::from_bits(0x0001_0002);
    assert_eq!((size.sqs(), size.cqs(), size.rds(), size.wds()), (true, false, true, true));
    assert_eq!((size.bytes(), location.bir()), (Some(16 << 20), 2));
    assert_eq!(size.offset_bytes(location), Some(1 << 20));
    assert_eq!(CmbSz::from_bits(u32::MAX).bytes(), None);
    assert_eq!(CmbSz::from_bits(0xffff_f600).bytes(), Some(0xf_ffff << 36));
    let control = CmbMsc::new().with_cre(true).with_cmse(true).with_cba(0x12345);
    assert_eq!((control.into_bits(), control.base_address()), (0x1234_5003, 0x1234_5000));
}

#[test]
fn asynchronous_events() {
    let event = AsyncEvent::from_bits(0x0002_0101);
    assert_eq!(event.event_type(), AsyncEventType::SMART_HEALTH);
    assert_eq!(event.to_string(), "SMART / health status: Temperature threshold (log page 02h)");
    let event = AsyncEvent::from_bits(0x0001_0100);
    assert_eq!(event.info_name(), AsyncErrorInfo::INVALID_DOORBELL_VALUE.name());
    assert_eq!(AsyncEvent::from_bits(0x0000_4203).to_string(), "Immediate: 42h (log page 00h)");
    assert_eq!(AsyncEventConfig::new().with_namespace_attribute(true).with_smart(0x3f).into_bits(), 0x13f);
}
