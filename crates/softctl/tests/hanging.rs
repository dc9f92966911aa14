//! Commands that hang until somebody aborts them, and failures that ask to be tried again later: each kind stepped and
//! threaded.

mod client;

use client::faults::{LONG, both, expect_silence, identifiers, injected, read, submit};
use client::{Client, memory};
use warpbell_hw::Device;
use warpbell_nvme::command;
use warpbell_nvme::feature::{FeatureId, FeatureSelect, HostBehavior};
use warpbell_nvme::{Status, queue_command};
use warpbell_softctl::{CompletionOrder, FaultKind, FaultPlan};
use zerocopy::IntoBytes;

#[test]
fn a_command_that_hangs_is_found_by_an_abort() {
    for mut client in both("kind='hang';lba=7") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7), read(8), read(7), read(9)]);
        let mut done = identifiers(&client, &mut pair, 2);
        done.sort_unstable();
        assert_eq!(done, [2, 4]);
        expect_silence(&client, &mut pair, LONG);
        assert_eq!(client.admin_ok(command::abort(1, 9)).dw0 & 1, 1, "there is no such command");
        assert_eq!(client.admin_ok(command::abort(1, 1)).dw0 & 1, 0, "aborted");
        let entry = pair.wait(&client.device);
        assert_eq!((entry.cid, entry.status()), (1, Status::ABORT_REQUESTED));
        assert_eq!(client.admin_ok(command::abort(1, 1)).dw0 & 1, 1, "it is gone");
        client.admin_ok(queue_command::delete_io_sq(1));
        let entry = pair.poll().unwrap();
        assert_eq!((entry.cid, entry.status()), (3, Status::ABORTED_SQ_DELETION));
        assert_eq!(injected(&client), [(FaultKind::Hang, 1, 1), (FaultKind::Hang, 1, 3)]);
        client.assert_clean();
    }
}

#[test]
fn a_command_that_hangs_holds_up_no_order() {
    let plan = FaultPlan::from_toml("[[fault]]\nkind='hang'\nlba=7").unwrap();
    let order = CompletionOrder::Submission { window: 0 };
    for mut client in Client::both(&memory(1 << 20, 512).faults(plan).order(order)) {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(8), read(7), read(9)]);
        assert_eq!(identifiers(&client, &mut pair, 2), [1, 3]);
        assert_eq!(client.admin_ok(command::abort(1, 2)).dw0 & 1, 0);
        let entry = pair.wait(&client.device);
        assert_eq!((entry.cid, entry.status()), (2, Status::ABORT_REQUESTED));
        client.assert_clean();
    }
}

#[test]
fn a_command_that_hangs_ends_with_a_reset() {
    for mut client in both("kind='hang';lba=7;count=1") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7)]);
        expect_silence(&client, &mut pair, LONG);
        client.device.reset().reset(warpbell_hw::ResetKind::Function).unwrap();
        assert!(pair.poll().is_none(), "nothing is posted");
        let mut client = Client::start(client.device.clone());
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [1], "its identifier is free");
    }
}

#[test]
fn an_admin_command_that_hangs_is_found_by_an_abort() {
    for mut client in both("kind='hang';admin='get_features';count=1") {
        let sqe = command::get_features(FeatureId::ARBITRATION, FeatureSelect::CURRENT, 0);
        client.admin.push(&sqe.with_cid(77));
        client.admin.ring();
        client.admin.push(&command::abort(0, 77).with_cid(78));
        client.admin.ring();
        let [hung, abort] = [(); 2].map(|()| client.admin.wait(&client.device));
        assert_eq!((hung.cid, hung.status()), (77, Status::ABORT_REQUESTED));
        assert_eq!((abort.cid, abort.status(), abort.dw0 & 1), (78, Status::SUCCESS, 0));
        client.admin_ok(sqe);
        client.assert_clean();
    }
}

#[test]
fn a_retry_delay_shows_to_a_host_that_heeds_it() {
    let plan = "[[fault]]\nkind='fail'\nstatus='Command Interrupted'\ncrd=2\nlba=7";
    let retry_delays = [1, 20, 300];
    let faults = FaultPlan::from_toml(plan).unwrap();
    for mut client in Client::both(&memory(1 << 20, 512).faults(faults).retry_delays(retry_delays)) {
        let identify = client.identify_controller();
        assert_eq!(identify.retry_delays(), retry_delays);
        let mut pair = client.pair(1, 16);
        assert_eq!(client.io(&mut pair, read(7), 0), Status::COMMAND_INTERRUPTED);
        let heeds = HostBehavior::new(1, 0, 0);
        client.set_data_feature(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, heeds.as_bytes(), Status::SUCCESS);
        assert_eq!(client.io(&mut pair, read(7), 0), Status::COMMAND_INTERRUPTED.with_crd(2));
        let get = command::get_features(FeatureId::HOST_BEHAVIOR_SUPPORT, FeatureSelect::CURRENT, 0);
        assert_eq!(client.admin_data(get)[..512], *heeds.as_bytes());
        let unknown = HostBehavior::new(2, 0, 0);
        let refused = Status::INVALID_FIELD.with_dnr(true);
        client.set_data_feature(FeatureId::HOST_BEHAVIOR_SUPPORT, 0, unknown.as_bytes(), refused);
        client.assert_clean();
        client.device.reset().reset(warpbell_hw::ResetKind::Function).unwrap();
        let mut client = Client::start(client.device.clone());
        let mut pair = client.pair(1, 16);
        assert_eq!(client.io(&mut pair, read(7), 0), Status::COMMAND_INTERRUPTED, "a reset forgets it");
    }
    let error = memory(1 << 20, 512).faults(FaultPlan::from_toml(plan).unwrap());
    let text = error.validate().unwrap_err().to_string();
    assert!(text.contains("crdt=(none): must be given where a fault has a retry delay"), "{text}");
}
