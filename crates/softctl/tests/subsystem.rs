//! Several controllers on one NVM subsystem.

mod client;

use std::sync::Arc;

use client::namespaces::{attachment, create, created, delete, list, wish};
use client::{Client, expect, memory, parsed};
use warpbell_hw::Device;
use warpbell_nvme::command::{self, AsyncEvent, AsyncEventType, NsAttachmentSelect};
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId};
use warpbell_nvme::identify::{Cns, ControllerList, IdentifyController, IdentifyNamespace};
use warpbell_nvme::log::{ChangedNamespaceList, LogPageId};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{SoftConfig, SoftDevice, Subsystem};

fn config() -> SoftConfig {
    memory(1 << 20, 512).capacity(4 << 20).max_namespaces(Some(4))
}

fn subsystem() -> Arc<Subsystem> {
    Subsystem::new(&config()).expect("a controller")
}

/// Two controllers on one subsystem, both stepped or both threaded.
fn pairs() -> [[Client; 2]; 2] {
    let (one, two) = (subsystem(), subsystem());
    [
        [1, 2].map(|_| Client::start(SoftDevice::stepped_on(&one, config()).expect("a controller"))),
        [1, 2].map(|_| Client::start(SoftDevice::threaded_on(&two, config()).expect("a controller"))),
    ]
}

fn enable_namespace_notices(client: &mut Client) {
    let value = AsyncEventConfig::new().with_namespace_attribute(true).into_bits();
    client.admin_ok(command::set_features(FeatureId::ASYNC_EVENT_CONFIG, value, 0));
}

fn changed(client: &mut Client, retain: bool) -> Vec<u32> {
    let log = command::get_log_page(LogPageId::CHANGED_NAMESPACE_LIST, 0, 1023, 0, retain);
    let list: ChangedNamespaceList = parsed(&client.admin_data(log));
    list.iter().collect()
}

fn controllers(client: &mut Client, sqe: Sqe) -> Vec<u16> {
    let list: ControllerList = parsed(&client.admin_data(sqe));
    list.iter().collect()
}

#[test]
fn each_controller_has_its_identifier_and_all_have_one_subsystem() {
    for mut pair in pairs() {
        let [one, two] = pair.each_mut().map(|client| {
            let data: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
            assert!(data.cmic.multi_controller());
            assert_eq!(data.cntlid, client.device.cntlid());
            data
        });
        assert_eq!((one.cntlid, two.cntlid), (1, 2));
        assert_eq!((one.subnqn, one.serial()), (two.subnqn, two.serial()));
        for client in &mut pair {
            assert_eq!(controllers(client, command::identify(Cns::CONTROLLERS, 0)), [1, 2]);
            assert_eq!(controllers(client, command::identify(Cns::ATTACHED_CONTROLLERS, 1)), [1, 2]);
            let data: IdentifyNamespace = parsed(&client.admin_data(command::identify(Cns::NAMESPACE, 1)));
            assert_eq!(data.nmic, 1, "shared");
        }
        assert_ne!(pair[0].device.info().name, pair[1].device.info().name);
    }
}

#[test]
fn what_one_controller_writes_another_reads() {
    for [mut one, mut two] in pairs() {
        let (mut to, mut from) = (one.pair(1, 8), two.pair(1, 8));
        for lba in 0..32 {
            one.fill(0, &[lba as u8 + 1; 512]);
            assert!(one.io(&mut to, command::write(1, lba, 0), 0).is_ok());
            assert!(two.io(&mut from, command::read(1, lba, 0), 0).is_ok());
            assert_eq!(two.bytes(0, 512), [lba as u8 + 1; 512]);
        }
        one.assert_clean();
        two.assert_clean();
    }
}

#[test]
fn namespaces_are_attached_controller_by_controller() {
    for [mut one, mut two] in pairs() {
        let mut queues = two.pair(1, 8);
        enable_namespace_notices(&mut two);
        let mut shared = wish(8, 0);
        shared.nmic = 1;
        let sqe = create(&one, &shared);
        assert_eq!(one.admin_ok(sqe).dw0, 2);
        assert_eq!(changed(&mut two, true), [0u32; 0], "nobody has it attached");
        two.admin.push(&command::async_event_request().with_cid(0x77));
        two.admin.ring();
        let sqe = attachment(&one, 2, NsAttachmentSelect::ATTACH, &[1, 2]);
        one.admin_ok(sqe);
        let entry = two.admin.wait(&two.device);
        let event = AsyncEvent::from_bits(entry.dw0);
        assert_eq!((entry.cid, event.event_type(), event.info()), (0x77, AsyncEventType::NOTICE, 0));
        assert_eq!(event.log_page(), LogPageId::CHANGED_NAMESPACE_LIST.0);
        assert_eq!(changed(&mut two, true), [2]);
        assert_eq!(changed(&mut two, false), [2]);
        assert_eq!(changed(&mut two, false), [0u32; 0], "read without RAE, the list begins anew");
        assert_eq!(changed(&mut one, false), [0u32; 0], "the client that did it knows");
        assert!(two.io(&mut queues, command::write(2, 0, 0), 0).is_ok());
        // One controller gives it up, the other keeps it.
        let sqe = attachment(&two, 2, NsAttachmentSelect::DETACH, &[1]);
        two.admin_ok(sqe);
        assert_eq!(list(&mut one, Cns::ACTIVE_NAMESPACES, 0), [1]);
        assert_eq!(changed(&mut one, false), [2]);
        assert!(two.io(&mut queues, command::read(2, 0, 0), 0).is_ok());
        one.admin_ok(delete(2));
        assert!(two.io(&mut queues, command::read(2, 0, 0), 0).same_code(Status::INVALID_FIELD));
        assert_eq!(changed(&mut two, false), [2]);
        one.assert_clean();
        two.assert_clean();
    }
}

#[test]
fn a_private_namespace_has_one_controller() {
    let [[mut one, mut two], _] = pairs();
    let nsid = created(&mut one, 8, 0);
    let sqe = attachment(&one, nsid, NsAttachmentSelect::ATTACH, &[1, 2]);
    expect(&mut one, sqe, Status::NAMESPACE_IS_PRIVATE);
    let sqe = attachment(&one, nsid, NsAttachmentSelect::ATTACH, &[2]);
    one.admin_ok(sqe);
    let sqe = attachment(&one, nsid, NsAttachmentSelect::ATTACH, &[1]);
    expect(&mut one, sqe, Status::NAMESPACE_IS_PRIVATE);
    assert_eq!(list(&mut two, Cns::ACTIVE_NAMESPACES, 0), [1, 2]);
    assert_eq!(list(&mut one, Cns::ACTIVE_NAMESPACES, 0), [1]);
    let data: IdentifyNamespace = parsed(&two.admin_data(command::identify(Cns::NAMESPACE, nsid)));
    assert_eq!(data.nmic, 0);
}

#[test]
fn an_event_that_is_not_enabled_is_not_reported_and_the_list_is_kept() {
    let [[mut one, mut two], _] = pairs();
    two.admin.push(&command::async_event_request().with_cid(0x77));
    two.admin.ring();
    one.admin_ok(delete(1));
    two.settle();
    assert!(two.admin.poll().is_none());
    assert_eq!(changed(&mut two, false), [1]);
}

#[test]
fn stepped_controllers_share_one_clock() {
    let subsystem = subsystem();
    let [one, two] = [1, 2].map(|_| SoftDevice::stepped_on(&subsystem, config()).unwrap());
    one.advance(std::time::Duration::from_millis(3));
    assert_eq!(two.clock().now(), one.clock().now());
    let client = Client::start(one);
    assert_eq!(two.clock().now(), client.device.clock().now());
    let error = SoftDevice::threaded_on(&subsystem, config()).unwrap_err().to_string();
    assert_eq!(error, "subsystem WARPBELL0001: its controllers are all threaded or all stepped");
}

#[test]
fn a_controller_that_is_dropped_leaves_the_subsystem() {
    for [mut one, two] in pairs() {
        drop(two);
        assert_eq!(controllers(&mut one, command::identify(Cns::CONTROLLERS, 0)), [1]);
        assert_eq!(controllers(&mut one, command::identify(Cns::ATTACHED_CONTROLLERS, 1)), [1]);
        let sqe = attachment(&one, 1, NsAttachmentSelect::ATTACH, &[2]);
        expect(&mut one, sqe, Status::INVALID_CONTROLLER_LIST);
    }
}

#[test]
fn commands_of_two_threaded_controllers_change_namespaces_at_the_same_time() {
    let [_, pair] = pairs();
    let threads = pair.map(|mut client| {
        std::thread::spawn(move || {
            let own = client.device.cntlid();
            for _ in 0..50 {
                let nsid = created(&mut client, 8, 0);
                let sqe = attachment(&client, nsid, NsAttachmentSelect::ATTACH, &[own]);
                client.admin_ok(sqe);
                client.admin_ok(delete(nsid));
            }
            client.assert_clean();
        })
    });
    threads.into_iter().for_each(|thread| thread.join().unwrap());
}
