//! Sanitize operations.

mod client;

use std::time::Duration;

use client::{Client, expect, memory, parsed};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_nvme::command::{
    self, AsyncEvent, AsyncEventType, AsyncIoCommandSetInfo, FormatNvmCdw10, SanitizeAction, SanitizeCdw10,
};
use warpbell_nvme::identify::{Cns, IdentifyController};
use warpbell_nvme::log::{LogPageId, SanitizeStatusLog};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{NamespaceConfig, SoftConfig, SoftDevice, Subsystem};

const NEVER: u8 = 0;
const COMPLETED: u8 = 1;
const IN_PROGRESS: u8 = 2;
const FAILED: u8 = 3;

fn action(action: SanitizeAction) -> SanitizeCdw10 {
    SanitizeCdw10::new().with_sanact(action)
}

fn erase() -> Sqe {
    command::sanitize(action(SanitizeAction::BLOCK_ERASE), 0)
}

fn status(client: &mut Client) -> SanitizeStatusLog {
    let log = command::get_log_page(LogPageId::SANITIZE_STATUS, 0, 127, 0, false);
    parsed(&client.admin_data(log))
}

fn outcome(client: &mut Client) -> u8 {
    status(client).sstat.outcome()
}

/// Waits for the end of the operation.
fn finish(client: &mut Client) -> SanitizeStatusLog {
    let deadline = client.device.clock().now() + Duration::from_secs(10);
    loop {
        let log = status(client);
        if log.sstat.outcome() != IN_PROGRESS {
            return log;
        }
        assert!(client.device.clock().now() < deadline, "{log:?}");
        client.device.clock().pause(Duration::from_micros(10));
    }
}

fn written(client: &mut Client) {
    client.fill(8192, &[0x5a; 4096]);
    let mut pair = client.pair(1, 8);
    for lba in [0, 8, 2040] {
        assert!(client.io(&mut pair, command::write(1, lba, 7), 8192).is_ok());
    }
    client.admin_ok(warpbell_nvme::queue_command::delete_io_sq(1));
    client.admin_ok(warpbell_nvme::queue_command::delete_io_cq(1));
}

fn contents(client: &Client, lba: u64) -> [u8; 512] {
    let mut block = [0xee; 512];
    client.device.peek(Nsid(1), Lba(lba), &mut block).expect("a block that exists");
    block
}

#[test]
fn an_erase_takes_a_while_refuses_io_meanwhile_and_reports_its_end() {
    for kind in [SanitizeAction::BLOCK_ERASE, SanitizeAction::CRYPTO_ERASE] {
        for mut client in Client::both(&memory(1 << 20, 512)) {
            let data: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
            assert!(data.sanicap.bes() && data.sanicap.ces() && data.sanicap.ows());
            assert_eq!(outcome(&mut client), NEVER);
            assert!(status(&mut client).sstat.gde(), "nobody has written anything");
            written(&mut client);
            assert!(!status(&mut client).sstat.gde());
            let mut pair = client.pair(2, 8);
            client.admin_ok(command::sanitize(action(kind), 0));
            // A threaded controller may be through by now.
            let log = status(&mut client);
            if log.sstat.outcome() == IN_PROGRESS {
                assert!(log.sprog < u16::MAX);
                let got = client.io(&mut pair, command::read(1, 0, 0), 0);
                assert!(got.is_ok() || got == Status::SANITIZE_IN_PROGRESS, "{got}");
            }
            let log = finish(&mut client);
            let event = client.admin.run(&client.device, &command::async_event_request().with_cid(0x77));
            assert_eq!(event.cid, 0x77);
            let event = AsyncEvent::from_bits(event.dw0);
            assert_eq!(event.event_type(), AsyncEventType::IO_COMMAND_SET);
            assert_eq!(event.info(), AsyncIoCommandSetInfo::SANITIZE_COMPLETED.0);
            assert_eq!(event.log_page(), LogPageId::SANITIZE_STATUS.0);
            assert_eq!((log.sprog, log.sstat.outcome(), log.sstat.gde()), (u16::MAX, COMPLETED, true));
            assert_eq!(log.scdw10, action(kind).into_bits());
            assert_eq!([0, 8, 2047].map(|lba| contents(&client, lba)), [[0; 512]; 3]);
            assert!(client.io(&mut pair, command::write(1, 0, 0), 8192).is_ok());
            assert!(!status(&mut client).sstat.gde());
            client.assert_clean();
        }
    }
}

#[test]
fn nothing_that_touches_data_is_done_while_it_is_in_progress() {
    let mut client = Client::stepped(memory(64 << 20, 512));
    let mut pair = client.pair(1, 8);
    client.admin_ok(erase());
    assert_eq!(outcome(&mut client), IN_PROGRESS);
    for sqe in [command::read(1, 0, 0), command::write(1, 0, 0), command::flush(1), command::read(9, 0, 0)] {
        let got = client.io(&mut pair, sqe, 8192);
        assert_eq!(got, Status::SANITIZE_IN_PROGRESS, "opcode {:#x}, to be tried again", sqe.opcode());
    }
    for sqe in [
        erase(),
        command::format_nvm(1, FormatNvmCdw10::new()),
        command::ns_management(1, command::NsManagementSelect::DELETE),
        command::firmware_image_download(0, 0),
    ] {
        assert_eq!(client.admin(sqe).status(), Status::SANITIZE_IN_PROGRESS, "{:#x}", sqe.opcode());
    }
    assert_eq!(outcome(&mut client), IN_PROGRESS);
    let mut last = 0;
    while status(&mut client).sstat.outcome() == IN_PROGRESS {
        let progress = status(&mut client).sprog;
        assert!(progress >= last, "{progress} after {last}");
        last = progress;
        client.device.clock().pause(Duration::ZERO);
    }
    assert!(client.io(&mut pair, command::read(1, 0, 0), 0).is_ok());
    client.assert_clean();
}

#[test]
fn an_overwrite_leaves_its_pattern_if_nothing_may_be_deallocated() {
    let overwrite = action(SanitizeAction::OVERWRITE);
    let pattern = 0x1234_5678u32;
    for (command, passes, left) in [
        (overwrite.with_owpass(1), 1, 0),
        (overwrite.with_owpass(1).with_ndas(true), 1, pattern),
        (overwrite.with_owpass(2).with_ndas(true), 2, pattern),
        (overwrite.with_owpass(2).with_ndas(true).with_oipbp(true), 2, !pattern),
        (overwrite.with_owpass(3).with_ndas(true).with_oipbp(true), 3, pattern),
        (overwrite.with_ndas(true).with_oipbp(true), 16, !pattern),
    ] {
        for mut client in Client::both(&memory(1 << 20, 512)) {
            written(&mut client);
            client.admin_ok(command::sanitize(command, pattern));
            let log = finish(&mut client);
            assert_eq!((log.sstat.outcome(), log.sstat.passes()), (COMPLETED, passes), "{command:?}");
            let expected = left.to_le_bytes().repeat(128);
            for lba in [0, 9, 2047] {
                assert_eq!(contents(&client, lba).to_vec(), expected, "{command:?}, block {lba}");
            }
            client.assert_clean();
        }
    }
}

#[test]
fn files_are_overwritten_to_their_end_and_no_further() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [3; 10_001]).unwrap();
    let namespaces = vec![NamespaceConfig::file(file.path(), 512, true)];
    let mut client = Client::stepped(SoftConfig::new().namespaces(namespaces));
    assert!(!status(&mut client).sstat.gde(), "the file may hold user data");
    let overwrite = action(SanitizeAction::OVERWRITE).with_owpass(1).with_ndas(true);
    client.admin_ok(command::sanitize(overwrite, 0xaaaa_aaaa));
    assert_eq!(finish(&mut client).sstat.outcome(), COMPLETED);
    assert_eq!(std::fs::read(file.path()).unwrap(), [0xaa; 10_001]);
    client.admin_ok(erase());
    assert_eq!(finish(&mut client).sstat.outcome(), COMPLETED);
    assert_eq!(std::fs::read(file.path()).unwrap(), [0; 10_001]);
    client.assert_clean();
}

#[test]
fn a_failure_keeps_the_subsystem_closed_until_it_is_answered() {
    for unrestricted in [false, true] {
        let mut client = Client::stepped(memory(1 << 20, 512));
        let mut pair = client.pair(1, 8);
        client.device.fail_next_sanitize();
        let command = action(SanitizeAction::BLOCK_ERASE).with_ause(unrestricted);
        client.admin_ok(command::sanitize(command, 0));
        let log = finish(&mut client);
        assert_eq!((log.sstat.outcome(), log.sstat.gde()), (FAILED, false));
        assert_eq!(client.io(&mut pair, command::read(1, 0, 0), 0), Status::SANITIZE_FAILED);
        let format = command::format_nvm(1, FormatNvmCdw10::new());
        assert_eq!(client.admin(format).status(), Status::SANITIZE_FAILED);
        let exit = command::sanitize(action(SanitizeAction::EXIT_FAILURE_MODE), 0);
        if unrestricted {
            client.admin_ok(exit);
            assert_eq!(outcome(&mut client), FAILED, "it is still how the last one ended");
        } else {
            expect(&mut client, exit, Status::SANITIZE_FAILED);
            expect(&mut client, command::sanitize(command.with_ause(true), 0), Status::SANITIZE_FAILED);
            client.admin_ok(erase());
            assert_eq!(finish(&mut client).sstat.outcome(), COMPLETED);
        }
        assert!(client.io(&mut pair, command::read(1, 0, 0), 0).is_ok());
        client.assert_clean();
    }
}

#[test]
fn what_cannot_be_sanitized_is_refused() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(512).unwrap();
    let namespaces = vec![NamespaceConfig::memory(4096, 512), NamespaceConfig::file(file.path(), 512, false)];
    let mut client = Client::stepped(SoftConfig::new().namespaces(namespaces));
    expect(&mut client, erase(), Status::NAMESPACE_WRITE_PROTECTED);
    for reserved in [0, 5, 6, 7] {
        let sqe = command::sanitize(action(SanitizeAction(reserved)), 0);
        expect(&mut client, sqe, Status::INVALID_FIELD);
    }
    client.admin_ok(command::sanitize(action(SanitizeAction::EXIT_FAILURE_MODE), 0));
    assert_eq!(outcome(&mut client), NEVER);
    client.assert_clean();
}

#[test]
fn an_operation_goes_on_through_resets_and_on_all_controllers() {
    let config = memory(16 << 20, 512);
    let subsystem = Subsystem::new(&config).unwrap();
    let [mut one, mut two] =
        [1, 2].map(|_| Client::start(SoftDevice::stepped_on(&subsystem, config.clone()).unwrap()));
    let mut pair = two.pair(1, 8);
    one.admin_ok(erase());
    assert_eq!(two.io(&mut pair, command::read(1, 0, 0), 0), Status::SANITIZE_IN_PROGRESS);
    let device = one.device.clone();
    device.reset().reset(warpbell_hw::ResetKind::Function).unwrap();
    assert_eq!(outcome(&mut two), IN_PROGRESS);
    two.admin.push(&command::async_event_request().with_cid(0x77));
    two.admin.ring();
    assert_eq!(two.admin.wait(&two.device).cid, 0x77, "the end is reported by every controller");
    assert_eq!(finish(&mut two).sstat.outcome(), COMPLETED);
    assert!(two.io(&mut pair, command::read(1, 0, 0), 0).is_ok());
    let mut one = Client::start(device);
    assert_eq!(outcome(&mut one), COMPLETED);
}

#[test]
fn a_loss_of_power_brings_no_user_data_back() {
    let fields = action(SanitizeAction::OVERWRITE).with_owpass(1).with_ndas(true);
    let mut client = Client::stepped(memory(1 << 20, 512).volatile_cache(true));
    client.device.poke(Nsid(1), Lba(0), &[7; 512]).expect("poke");
    let mut pair = client.pair(1, 8);
    client.fill(8192, &[8; 512]);
    assert!(client.io(&mut pair, command::write(1, 0, 0), 8192).is_ok(), "7 would come back");
    client.admin_ok(command::sanitize(fields, 0x5b5b_5b5b));
    for _ in 0..4 {
        client.device.advance(Duration::from_micros(25));
        client.device.step();
    }
    assert_eq!(contents(&client, 0), [0x5b; 512], "overwritten, and not yet through");
    client.device.power_loss(0.0);
    assert_eq!(contents(&client, 0), [0x5b; 512]);
    let mut client = Client::start(client.device.clone());
    assert_eq!(finish(&mut client).sstat.outcome(), COMPLETED);
    client.device.power_loss(0.0);
    assert!([0, 1, 2047].map(|lba| contents(&client, lba)) == [[0x5b; 512]; 3]);
}
