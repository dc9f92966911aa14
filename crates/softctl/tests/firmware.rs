//! Firmware Image Download and Firmware Commit.

mod client;

use client::{Client, expect, parsed};
use warpbell_hw::{Device, ResetKind};
use warpbell_nvme::command::{
    self, AsyncEvent, AsyncEventType, AsyncNoticeInfo, CommitAction, FirmwareCommitCdw10, SanitizeAction,
    SanitizeCdw10,
};
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId};
use warpbell_nvme::identify::{Cns, IdentifyController};
use warpbell_nvme::log::{FirmwareSlotLog, LogPageId};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{SoftConfig, SoftDevice, Subsystem};

fn config() -> SoftConfig {
    SoftConfig::new().firmware("FW-ONE".into())
}

/// Downloads a piece of an image that begins with a revision.
fn download(client: &Client, image: &[u8], at: u32) -> Sqe {
    client.fill(0, image);
    command::firmware_image_download(image.len() as u32 / 4 - 1, at / 4).with_prp(client.buffer.iova().0, 0)
}

fn downloaded(client: &mut Client, revision: &[u8; 8]) {
    let mut image = vec![0x90; 4096];
    image[..8].copy_from_slice(revision);
    let sqe = download(client, &image, 0);
    client.admin_ok(sqe);
    let sqe = download(client, &[1; 512], 4096);
    client.admin_ok(sqe);
}

fn commit(slot: u8, action: CommitAction) -> Sqe {
    command::firmware_commit(FirmwareCommitCdw10::new().with_fs(slot).with_ca(action))
}

fn slots(client: &mut Client) -> FirmwareSlotLog {
    parsed(&client.admin_data(command::get_log_page(LogPageId::FIRMWARE_SLOT, 0, 127, 0, false)))
}

fn controller(client: &mut Client) -> IdentifyController {
    parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)))
}

fn restarted(client: Client) -> Client {
    let device = client.device.clone();
    device.reset().reset(ResetKind::Function).expect("a function reset");
    Client::start(device)
}

#[test]
fn an_image_is_activated_by_a_reset() {
    for client in Client::both(&config()) {
        let mut client = client;
        let data = controller(&mut client);
        assert!(data.oacs.firmware() && data.frmw.slot1_read_only() && data.frmw.activation_without_reset());
        assert_eq!((data.frmw.slots(), data.fwug, data.firmware()), (3, 1, "FW-ONE"));
        downloaded(&mut client, b"FW-TWO  ");
        client.admin_ok(commit(0, CommitAction::REPLACE));
        let log = slots(&mut client);
        assert_eq!(
            (log.revision(1), log.revision(2), log.revision(3)),
            (Some("FW-ONE"), Some("FW-TWO"), None)
        );
        assert_eq!((log.afi.active(), log.afi.next()), (1, 0));
        client = restarted(client);
        assert_eq!(controller(&mut client).firmware(), "FW-ONE", "replaced, not activated");
        client.admin_ok(commit(2, CommitAction::ACTIVATE_AT_RESET));
        assert_eq!((slots(&mut client).afi.active(), slots(&mut client).afi.next()), (1, 2));
        assert_eq!(controller(&mut client).firmware(), "FW-ONE");
        let sanitize = SanitizeCdw10::new().with_sanact(SanitizeAction::BLOCK_ERASE);
        expect(&mut client, command::sanitize(sanitize, 0), Status::FIRMWARE_NEEDS_CONTROLLER_RESET);
        client = restarted(client);
        assert_eq!(controller(&mut client).firmware(), "FW-TWO");
        assert_eq!((slots(&mut client).afi.active(), slots(&mut client).afi.next()), (2, 0));
        // The next goes where nothing is needed.
        downloaded(&mut client, b"FW-THREE");
        client.admin_ok(commit(0, CommitAction::REPLACE_ACTIVATE_AT_RESET));
        assert_eq!(slots(&mut client).afi.next(), 3);
        client = restarted(client);
        assert_eq!(controller(&mut client).firmware(), "FW-THREE");
        client.assert_clean();
    }
}

#[test]
fn immediate_activation_is_announced_to_all_controllers() {
    let subsystem = Subsystem::new(&config()).unwrap();
    let mut pair = [1, 2].map(|_| Client::start(SoftDevice::stepped_on(&subsystem, config()).unwrap()));
    for client in &mut pair {
        let notices = AsyncEventConfig::new().with_firmware_activation(true).into_bits();
        client.admin_ok(command::set_features(FeatureId::ASYNC_EVENT_CONFIG, notices, 0));
        assert!(controller(client).oaes.firmware_activation());
    }
    let [one, two] = &mut pair;
    downloaded(one, b"FW-NOW  ");
    one.admin_ok(commit(2, CommitAction::ACTIVATE_NOW));
    for client in [one, two] {
        let entry = client.admin.run(&client.device, &command::async_event_request().with_cid(0x77));
        let event = AsyncEvent::from_bits(entry.dw0);
        let kind = (event.event_type(), event.info(), event.log_page());
        let starting = AsyncNoticeInfo::FIRMWARE_ACTIVATION_STARTING.0;
        assert_eq!(kind, (AsyncEventType::NOTICE, starting, LogPageId::FIRMWARE_SLOT.0));
        assert_eq!(controller(client).firmware(), "FW-NOW");
        assert_eq!(slots(client).afi.active(), 2);
    }
    // The image of another slot, without a new one.
    let [one, two] = &mut pair;
    one.admin_ok(commit(1, CommitAction::ACTIVATE_NOW));
    assert_eq!(controller(two).firmware(), "FW-ONE");
}

#[test]
fn pieces_must_make_an_image() {
    let mut client = Client::stepped(config());
    let revision = *b"FW-X    ";
    let page = [revision.as_slice(); 512].concat();
    // Pieces that overlap, are not aligned, or are too many.
    let sqe = download(&client, &page, 4096);
    client.admin_ok(sqe);
    for (len, at, status) in [
        (4096, 4096, Status::OVERLAPPING_RANGE),
        (4100, 0, Status::OVERLAPPING_RANGE),
        (8192, 0, Status::OVERLAPPING_RANGE),
        (64, 512, Status::INVALID_FIELD),
        (4096, 16 << 20, Status::INVALID_FIELD),
    ] {
        let sqe = download(&client, &vec![1; len], at);
        expect(&mut client, sqe, status);
    }
    // The beginning is missing; the pieces are gone then.
    expect(&mut client, commit(2, CommitAction::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    expect(&mut client, commit(2, CommitAction::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    for image in [&[0; 64][..], &[b'a'; 4]] {
        let sqe = download(&client, image, 0);
        client.admin_ok(sqe);
        expect(&mut client, commit(2, CommitAction::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    }
    // A reset forgets what was downloaded.
    downloaded(&mut client, b"FW-GONE ");
    client = restarted(client);
    expect(&mut client, commit(2, CommitAction::REPLACE), Status::INVALID_FIRMWARE_IMAGE);
    downloaded(&mut client, b"FW-HERE ");
    client.admin_ok(commit(2, CommitAction::REPLACE));
    assert_eq!(slots(&mut client).revision(2), Some("FW-HERE"));
    client.assert_clean();
}

#[test]
fn a_commit_names_a_slot_and_an_action_that_there_are() {
    let mut client = Client::stepped(config());
    for (slot, action, status) in [
        (1, CommitAction::REPLACE, Status::INVALID_FIRMWARE_SLOT),
        (4, CommitAction::REPLACE, Status::INVALID_FIRMWARE_SLOT),
        (1, CommitAction::ACTIVATE_NOW, Status::INVALID_FIRMWARE_SLOT),
        (2, CommitAction::REPLACE_BOOT_PARTITION, Status::INVALID_FIELD),
        (2, CommitAction::ACTIVATE_BOOT_PARTITION, Status::INVALID_FIELD),
        (2, CommitAction(4), Status::INVALID_FIELD),
    ] {
        downloaded(&mut client, b"FW-X    ");
        expect(&mut client, commit(slot, action), status);
    }
    expect(&mut client, commit(0, CommitAction::ACTIVATE_AT_RESET), Status::INVALID_FIRMWARE_SLOT);
    expect(&mut client, commit(3, CommitAction::ACTIVATE_AT_RESET), Status::INVALID_FIRMWARE_IMAGE);
    assert_eq!(controller(&mut client).firmware(), "FW-ONE");
    client.assert_clean();
}
