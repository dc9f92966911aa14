//! Namespaces, formats, sanitize operations and firmware through the driver.

use std::time::Duration;

use warpbell_driver::{Controller, NamespaceSpec};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_nvme::command::{CommitAction, SanitizeAction, SanitizeCdw10, SecureErase};
use warpbell_nvme::status::Status;
use warpbell_softctl::NamespaceConfig;

use crate::fixture::*;

const PATIENCE: Duration = Duration::from_secs(60);

fn sizes(controller: &Controller) -> Vec<(u32, u64, u32)> {
    let (namespaces, refused) = controller.current_namespaces().unwrap();
    assert!(refused.is_empty(), "{refused:?}");
    namespaces.iter().map(|one| (one.nsid.0, one.blocks, one.block_size)).collect()
}

#[test]
fn namespaces_come_and_go() {
    on_both(&config().capacity(1 << 20), |device| {
        let controller = open(device);
        let spec = NamespaceSpec::new(16).format_index(1);
        let nsid = controller.create_namespace(spec).unwrap();
        assert_eq!((nsid, sizes(&controller)), (Nsid(2), vec![(1, 2048, 512)]));
        controller.attach_namespace(nsid).unwrap();
        assert_eq!(sizes(&controller), [(1, 2048, 512), (2, 16, 4096)]);
        assert_eq!(controller.reset().unwrap().changed_namespaces, [nsid]);
        controller.detach_namespace(nsid).unwrap();
        let error = controller.detach_namespace(nsid).unwrap_err();
        assert!(error.status().unwrap().same_code(Status::NAMESPACE_NOT_ATTACHED), "{error}");
        controller.delete_namespace(nsid).unwrap();
        let error = controller.create_namespace(spec.blocks(257)).unwrap_err();
        assert!(error.status().unwrap().same_code(Status::NAMESPACE_INSUFFICIENT_CAPACITY), "{error}");
        controller.delete_namespace(Nsid::ALL).unwrap();
        assert_eq!(sizes(&controller), []);
        controller.shutdown().unwrap();
    });
}

#[test]
fn a_namespace_is_formatted_and_the_subsystem_sanitized() {
    let namespaces = vec![NamespaceConfig::memory(1 << 20, 512), NamespaceConfig::memory(1 << 20, 512)];
    on_both(&config().namespaces(namespaces), |device| {
        let controller = open(device);
        for nsid in [1, 2] {
            device.poke(Nsid(nsid), Lba(8), &[7; 512]).unwrap();
        }
        controller.format(Nsid(1), 1, SecureErase::USER_DATA, PATIENCE).unwrap();
        assert_eq!(sizes(&controller), [(1, 256, 4096), (2, 2048, 512)]);
        let first = |nsid| {
            let mut block = [0xee; 512];
            device.peek(Nsid(nsid), Lba(if nsid == 1 { 1 } else { 8 }), &mut block).unwrap();
            block[0]
        };
        assert_eq!([first(1), first(2)], [0, 7]);
        let error = controller.format(Nsid(1), 2, SecureErase::NONE, PATIENCE).unwrap_err();
        assert!(error.status().unwrap().same_code(Status::INVALID_FORMAT), "{error}");
        let overwrite =
            SanitizeCdw10::new().with_sanact(SanitizeAction::OVERWRITE).with_owpass(2).with_ndas(true);
        controller.sanitize(overwrite, 0x5b5b_5b5b).unwrap();
        let end = device.clock().now() + PATIENCE;
        let status = loop {
            let status = controller.sanitize_status().unwrap();
            if status.sstat.outcome() != 2 {
                break status;
            }
            assert!(device.clock().now() < end, "{status:?}");
            device.clock().pause(Duration::from_micros(10));
        };
        assert_eq!((status.sstat.outcome(), status.sstat.passes(), status.sprog), (1, 2, u16::MAX));
        assert_eq!([first(1), first(2)], [0x5b; 2]);
        controller.shutdown().unwrap();
    });
}

#[test]
fn firmware_is_downloaded_and_runs_after_a_reset() {
    on_both(&config(), |device| {
        let controller = open(device);
        let mut image = vec![1; 10_000];
        image[..8].copy_from_slice(b"NEW 2.0 ");
        let error = controller.download_firmware(&image[..6]).unwrap_err().to_string();
        assert!(error.contains("6 bytes"), "{error}");
        controller.download_firmware(&image).unwrap();
        controller.commit_firmware(2, CommitAction::REPLACE_ACTIVATE_AT_RESET).unwrap();
        let log = controller.firmware_log().unwrap();
        assert_eq!((log.revision(2), log.afi.active(), log.afi.next()), (Some("NEW 2.0"), 1, 2));
        controller.reset().unwrap();
        assert_eq!(controller.firmware_log().unwrap().afi.active(), 2);
        controller.shutdown().unwrap();
        assert_eq!(open(device).identify().firmware(), "NEW 2.0");
    });
}
