//! Namespaces that come and go at run time.

mod client;

use std::time::Duration;

use client::namespaces::{attach, attachment, create, created, delete, list, wish};
use client::{Client, Pair, expect, memory, parsed};
use warpbell_hw::{Lba, Nsid};
use warpbell_nvme::command::{self, NSID_ALL, NsAttachmentSelect, NsManagementSelect};
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::identify::{
    Cns, ControllerList, Flbas, IdentifyController, IdentifyNamespace, ns_id_descriptors,
};
use warpbell_nvme::log::{CommandsSupportedAndEffects, ErrorLogEntry, LogPageId};
use warpbell_nvme::{AdminOpcode, Status};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, NamespaceConfig, Rule, Selector, SoftConfig};

const MIB: u64 = 1 << 20;

fn spacious() -> SoftConfig {
    memory(MIB, 512).capacity(4 * MIB).max_namespaces(Some(4))
}

#[test]
fn a_namespace_is_created_attached_used_detached_and_deleted() {
    for mut client in Client::both(&spacious()) {
        let before: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
        assert!(before.oacs.ns_management());
        assert_eq!((before.nn, before.tnvmcap.get(), before.unvmcap.get()), (4, 5 << 20, 4 << 20));
        let mut pair = client.pair(1, 8);
        let nsid = created(&mut client, 256, 1);
        assert_eq!(nsid, 2);
        let after: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
        assert_eq!((after.tnvmcap.get(), after.unvmcap.get()), (5 << 20, 3 << 20));
        // Allocated, but inactive.
        assert_eq!(list(&mut client, Cns::ACTIVE_NAMESPACES, 0), [1]);
        assert_eq!(list(&mut client, Cns::ALLOCATED_NAMESPACES, 0), [1, 2]);
        assert_eq!(list(&mut client, Cns::ALLOCATED_NAMESPACES, 1), [2]);
        let inactive = client.io(&mut pair, command::write(2, 0, 0), 4096);
        assert!(inactive.same_code(Status::INVALID_FIELD) && inactive.dnr(), "{inactive}");
        attach(&mut client, 2);
        assert_eq!(list(&mut client, Cns::ACTIVE_NAMESPACES, 0), [1, 2]);
        let data: IdentifyNamespace = parsed(&client.admin_data(command::identify(Cns::NAMESPACE, 2)));
        assert_eq!((data.nsze, data.block_bytes(), data.nvmcap.get()), (256, Some(4096), 1 << 20));
        client.fill(4096, &[7; 4096]);
        assert!(client.io(&mut pair, command::write(2, 255, 0), 4096).is_ok());
        client.fill(4096, &[0; 4096]);
        assert!(client.io(&mut pair, command::read(2, 255, 0), 4096).is_ok());
        assert_eq!(client.bytes(4096, 4096), [7; 4096]);
        let detach = attachment(&client, 2, NsAttachmentSelect::DETACH, &[1]);
        client.admin_ok(detach);
        assert!(client.io(&mut pair, command::read(2, 255, 0), 4096).same_code(Status::INVALID_FIELD));
        client.admin_ok(delete(2));
        assert_eq!(list(&mut client, Cns::ALLOCATED_NAMESPACES, 0), [1]);
        // Its successor is empty.
        assert_eq!(created(&mut client, 256, 1), 2);
        attach(&mut client, 2);
        assert!(client.io(&mut pair, command::read(2, 255, 0), 4096).is_ok());
        assert_eq!(client.bytes(4096, 4096), [0; 4096]);
        client.assert_clean();
    }
}

#[test]
fn identify_tells_inactive_unallocated_and_invalid_apart() {
    let mut client = Client::stepped(spacious());
    created(&mut client, 8, 0);
    let buffer = client.buffer.iova().0;
    let ask = |cns, nsid| command::identify(cns, nsid);
    // Inactive: zeros from CNS 00h, the namespace from CNS 11h, and nothing to work with.
    assert_eq!(client.admin_data(ask(Cns::NAMESPACE, 2)), [0; 4096]);
    let data: IdentifyNamespace = parsed(&client.admin_data(ask(Cns::ALLOCATED_NAMESPACE, 2)));
    assert_eq!(data.nsze, 8);
    assert_eq!(client.admin_data(ask(Cns::ALLOCATED_NAMESPACE, 3)), [0; 4096]);
    assert_eq!(client.admin_data(ask(Cns::CSI_NAMESPACE, 2)), [0; 4096]);
    expect(&mut client, ask(Cns::NAMESPACE_DESCRIPTORS, 2).with_prp(buffer, 0), Status::INVALID_FIELD);
    for cns in [Cns::NAMESPACE, Cns::ALLOCATED_NAMESPACE, Cns::ATTACHED_CONTROLLERS] {
        for nsid in [0, 5] {
            expect(&mut client, ask(cns, nsid).with_prp(buffer, 0), Status::INVALID_NAMESPACE_OR_FORMAT);
        }
    }
    // The broadcast value asks for what all namespaces have in common.
    let common: IdentifyNamespace = parsed(&client.admin_data(ask(Cns::NAMESPACE, NSID_ALL)));
    assert_eq!((common.nsze, common.lba_formats()), (0, 2));
    assert_eq!(common.lbaf[..2].iter().map(|f| f.block_bytes()).collect::<Vec<_>>(), [Some(512), Some(4096)]);
    let controllers = |client: &mut Client, cns, nsid, first: u16| {
        let mut sqe = ask(cns, nsid);
        sqe.cdw10 |= u32::from(first) << 16;
        let list: ControllerList = parsed(&client.admin_data(sqe));
        list.iter().collect::<Vec<_>>()
    };
    assert_eq!(controllers(&mut client, Cns::ATTACHED_CONTROLLERS, 1, 0), [1]);
    assert_eq!(controllers(&mut client, Cns::ATTACHED_CONTROLLERS, 2, 0), [0u16; 0]);
    assert_eq!(controllers(&mut client, Cns::ATTACHED_CONTROLLERS, 1, 2), [0u16; 0]);
    assert_eq!(controllers(&mut client, Cns::CONTROLLERS, 0, 1), [1]);
    assert_eq!(controllers(&mut client, Cns::CONTROLLERS, 0, 2), [0u16; 0]);
    client.assert_clean();
}

#[test]
fn creation_has_every_error_of_the_specification() {
    let mut client = Client::stepped(spacious());
    let mut refused = |change: fn(&mut IdentifyNamespace), status: Status| {
        let mut data = wish(8, 0);
        change(&mut data);
        let sqe = create(&client, &data);
        expect(&mut client, sqe, status);
    };
    refused(|data| data.flbas = Flbas::new().with_index_lower(2), Status::INVALID_FORMAT);
    refused(|data| data.flbas = Flbas::new().with_extended(true), Status::INVALID_FORMAT);
    refused(|data| data.dps = 1, Status::INVALID_FORMAT);
    refused(|data| (data.nsze, data.ncap) = (0, 0), Status::INVALID_FIELD);
    refused(|data| data.nmic = 2, Status::INVALID_FIELD);
    refused(|data| data.nvmsetid = 1, Status::INVALID_FIELD);
    refused(|data| data.anagrpid = 1, Status::INVALID_ANA_GROUP_IDENTIFIER);
    refused(|data| data.ncap = 4, Status::THIN_PROVISIONING_NOT_SUPPORTED);
    refused(|data| (data.nsze, data.ncap) = (8193, 8193), Status::NAMESPACE_INSUFFICIENT_CAPACITY);
    refused(|data| (data.nsze, data.ncap) = (u64::MAX, u64::MAX), Status::NAMESPACE_INSUFFICIENT_CAPACITY);
    client.assert_clean();
    // The error log says how much it would have taken.
    let log = command::get_log_page(LogPageId::ERROR_INFORMATION, NSID_ALL, 31, 0, true);
    let data = client.admin_data(log);
    let needed: ErrorLogEntry = parsed(&data[64..]);
    assert_eq!(needed.command_specific, 8193 * 512 + 3584, "in whole granules of 4096 bytes");
    let mut foreign_set = create(&client, &wish(8, 0));
    foreign_set.cdw11 = 2 << 24;
    expect(&mut client, foreign_set, Status::IO_COMMAND_SET_NOT_SUPPORTED);
    expect(&mut client, command::ns_management(0, NsManagementSelect(2)), Status::INVALID_FIELD);
    for nsid in 2..=4 {
        assert_eq!(created(&mut client, 8, 0), nsid);
    }
    let fifth = create(&client, &wish(8, 0));
    expect(&mut client, fifth, Status::NAMESPACE_IDENTIFIER_UNAVAILABLE);
    client.assert_clean();
    let mut strange = wish(8, 0);
    strange.nuse = 1;
    client.admin_ok(delete(4));
    let sqe = create(&client, &strange);
    client.admin_ok(sqe);
    assert_eq!(client.broken(), [Rule::ReservedField]);
}

#[test]
fn attachment_has_every_error_of_the_specification() {
    use NsAttachmentSelect as Select;
    let mut client = Client::stepped(spacious());
    created(&mut client, 8, 0);
    for (nsid, select, cntlids, status) in [
        (2, Select::ATTACH, &[][..], Status::INVALID_CONTROLLER_LIST),
        (2, Select::ATTACH, &[2], Status::INVALID_CONTROLLER_LIST),
        (2, Select::ATTACH, &[2, 1], Status::INVALID_CONTROLLER_LIST),
        (2, Select::ATTACH, &[1, 1], Status::INVALID_CONTROLLER_LIST),
        (1, Select::ATTACH, &[1], Status::NAMESPACE_ALREADY_ATTACHED),
        (2, Select::DETACH, &[1], Status::NAMESPACE_NOT_ATTACHED),
        (3, Select::ATTACH, &[1], Status::INVALID_FIELD),
        (5, Select::ATTACH, &[1], Status::INVALID_NAMESPACE_OR_FORMAT),
        (0, Select::ATTACH, &[1], Status::INVALID_NAMESPACE_OR_FORMAT),
        (NSID_ALL, Select::DETACH, &[1], Status::INVALID_FIELD),
        (2, Select(2), &[1], Status::INVALID_FIELD),
    ] {
        let sqe = attachment(&client, nsid, select, cntlids);
        expect(&mut client, sqe, status);
    }
    expect(&mut client, delete(3), Status::INVALID_FIELD);
    expect(&mut client, delete(5), Status::INVALID_NAMESPACE_OR_FORMAT);
    expect(&mut client, delete(0), Status::INVALID_NAMESPACE_OR_FORMAT);
    client.assert_clean();
}

#[test]
fn all_namespaces_can_be_deleted_at_once_and_a_file_stays() {
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), [9; 4096]).unwrap();
    let mut config = spacious();
    config.namespaces.push(NamespaceConfig::file(file.path(), 512, true));
    let mut client = Client::stepped(config);
    let mut pair = client.pair(1, 8);
    client.admin_ok(delete(NSID_ALL));
    assert_eq!(list(&mut client, Cns::ALLOCATED_NAMESPACES, 0), [0u32; 0]);
    assert!(client.io(&mut pair, command::read(1, 0, 0), 0).same_code(Status::INVALID_FIELD));
    assert!(client.io(&mut pair, command::flush(NSID_ALL), 0).is_ok(), "of nothing");
    let data: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
    assert_eq!((data.tnvmcap.get(), data.unvmcap.get()), (5 << 20, 5 << 20), "memory came back");
    assert_eq!(std::fs::read(file.path()).unwrap(), [9; 4096]);
    assert_eq!(created(&mut client, 10240, 0), 1);
    client.assert_clean();
}

#[test]
fn a_namespace_identifier_is_used_again_and_its_uuid_is_not() {
    let mut client = Client::stepped(spacious());
    let mut uuids = Vec::new();
    for _ in 0..3 {
        let data = client.admin_data(command::identify(Cns::NAMESPACE_DESCRIPTORS, 1));
        let uuid = ns_id_descriptors(&data).next().map(|one| one.nid.to_vec());
        uuids.push(uuid.expect("a UUID"));
        client.admin_ok(delete(1));
        assert_eq!(created(&mut client, 8, 0), 1);
        attach(&mut client, 1);
    }
    uuids.sort();
    uuids.dedup();
    assert_eq!(uuids.len(), 3);
}

#[test]
fn commands_on_the_way_when_a_namespace_goes_are_answered() {
    let order = warpbell_softctl::CompletionOrder::Shuffled { window: 32 };
    for seed in 0..8 {
        let mut client = Client::stepped(spacious().order(order).seed(seed));
        let mut pair: Pair = client.pair(1, 64);
        for cid in 0..40 {
            let at = client.buffer.iova().0 + 8192;
            pair.push(&command::write(1, u64::from(cid), 0).with_cid(cid).with_prp(at, 0));
        }
        pair.ring();
        client.admin_ok(delete(1));
        let statuses: Vec<_> = (0..40).map(|_| pair.wait(&client.device).status()).collect();
        let allowed = |status: &Status| status.is_ok() || status.same_code(Status::INVALID_FIELD);
        assert!(statuses.iter().all(allowed), "seed {seed}: {statuses:?}");
        assert!(client.io(&mut pair, command::write(1, 0, 0), 0).same_code(Status::INVALID_FIELD));
        client.assert_clean();
    }
}

#[test]
fn the_effects_log_says_that_the_inventory_changes() {
    let mut client = Client::stepped(spacious());
    let log = command::get_log_page(LogPageId::COMMAND_EFFECTS, NSID_ALL, 1023, 0, true);
    let effects: CommandsSupportedAndEffects = parsed(&client.admin_data(log));
    for opcode in [AdminOpcode::NS_MANAGEMENT, AdminOpcode::NS_ATTACHMENT] {
        let effects = effects.acs[usize::from(opcode.0)];
        assert!(effects.csupp() && effects.nic() && effects.ncc() && effects.cse() == 2, "{opcode}");
    }
}

#[test]
fn data_that_comes_late_does_not_reach_a_namespace_that_came_later() {
    let late = Fault::new(FaultAction::LatePayload { by: Duration::from_millis(5) }, Selector::default());
    for deleted in [false, true] {
        let faults = FaultPlan::new().seed(1).faults(vec![late.clone()]);
        let mut client = Client::stepped(spacious().faults(faults));
        let mut pair = client.pair(1, 8);
        client.fill(8192, &[7; 4096]);
        assert!(client.io(&mut pair, command::write(1, 2040, 7), 8192).is_ok());
        if deleted {
            client.admin_ok(delete(1));
            assert_eq!(created(&mut client, 2048, 0), 1);
            attach(&mut client, 1);
        }
        client.device.advance(Duration::from_millis(10));
        client.settle();
        let mut block = [0xee; 512];
        client.device.peek(Nsid(1), Lba(2040), &mut block).unwrap();
        assert_eq!(block, [if deleted { 0 } else { 7 }; 512]);
        // Nor does it hurt where there is none.
        assert!(client.io(&mut pair, command::write(1, 0, 7), 8192).is_ok());
        client.admin_ok(delete(1));
        client.device.advance(Duration::from_millis(10));
        client.settle();
        client.assert_clean();
    }
}

#[test]
fn features_of_a_namespace_go_with_it() {
    let mut client = Client::stepped(spacious());
    let get = command::get_features(FeatureId::ERROR_RECOVERY, FeatureSelect::CURRENT, 1);
    let mut save = command::set_features(FeatureId::ERROR_RECOVERY, 5, 1);
    save.cdw10 |= 1 << 31;
    client.admin_ok(save);
    assert_eq!(client.admin_ok(get).dw0, 5);
    client.admin_ok(delete(1));
    expect(&mut client, get, Status::INVALID_FIELD);
    created(&mut client, 8, 0);
    attach(&mut client, 1);
    assert_eq!(client.admin_ok(get).dw0, 0);
    client.assert_clean();
}
