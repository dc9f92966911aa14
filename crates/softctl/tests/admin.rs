//! Admin commands: identify, queues, features, logs, events, abort.

mod client;

use client::{Client, Pair, expect, memory, parsed};
use warpbell_hw::{Device, Qid};
use warpbell_nvme::command::{self, AsyncEvent, AsyncEventType, NSID_ALL};
use warpbell_nvme::feature::{FeatureCapabilities, FeatureId, FeatureSelect, NumberOfQueues};
use warpbell_nvme::identify::{
    Cns, IdentifyController, IdentifyNamespace, IdentifyNvmController, NamespaceList, NsIdType, SglSupport,
    ns_id_descriptors,
};
use warpbell_nvme::log::{CommandsSupportedAndEffects, ErrorLogEntry, FirmwareSlotLog, LogPageId, SmartLog};
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::register::{Vs, offset};
use warpbell_nvme::{AdminOpcode, NvmOpcode, Status};
use warpbell_softctl::{CompletionOrder, NamespaceConfig, OptionalCommands, Rule, SoftConfig};

#[test]
fn identify_tells_what_was_configured() {
    let namespaces = vec![NamespaceConfig::memory(1 << 20, 512), NamespaceConfig::memory(10_000, 4096)];
    let config = SoftConfig::new().namespaces(namespaces).mdts(3).serial("SN 1".into());
    for mut client in Client::both(&config) {
        let data: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
        assert_eq!((data.serial(), data.mdts, data.nn), ("SN 1", 3, 2));
        assert_eq!(data.sgls.support(), SglSupport::ANY_ALIGNMENT);
        assert!(data.subsystem_nqn().starts_with("nqn.2014-08.org.nvmexpress:uuid:"));
        let data: IdentifyNamespace = parsed(&client.admin_data(command::identify(Cns::NAMESPACE, 2)));
        assert_eq!((data.nsze, data.block_bytes()), (3, Some(4096)));
        let list: NamespaceList = parsed(&client.admin_data(command::identify(Cns::ACTIVE_NAMESPACES, 0)));
        assert_eq!(list.iter().collect::<Vec<_>>(), [1, 2]);
        let list: NamespaceList = parsed(&client.admin_data(command::identify(Cns::ACTIVE_NAMESPACES, 1)));
        assert_eq!(list.iter().collect::<Vec<_>>(), [2]);
        let data = client.admin_data(command::identify(Cns::NAMESPACE_DESCRIPTORS, 1));
        let kinds: Vec<_> = ns_id_descriptors(&data).map(|descriptor| descriptor.nidt).collect();
        assert_eq!(kinds, [NsIdType::UUID, NsIdType::CSI]);
        for cns in [Cns::CSI_NAMESPACE, Cns::INDEPENDENT_NAMESPACE, Cns::CSI_CONTROLLER, Cns::IO_COMMAND_SETS]
        {
            client.admin_data(command::identify(cns, 1));
        }
        let buffer = client.buffer.iova().0;
        let bad = |cns, nsid| command::identify(cns, nsid).with_prp(buffer, 0);
        expect(&mut client, bad(Cns::NAMESPACE, 3), Status::INVALID_NAMESPACE_OR_FORMAT);
        expect(&mut client, bad(Cns::NAMESPACE, 0), Status::INVALID_NAMESPACE_OR_FORMAT);
        expect(&mut client, bad(Cns::ACTIVE_NAMESPACES, NSID_ALL), Status::INVALID_NAMESPACE_OR_FORMAT);
        expect(&mut client, bad(Cns(0x77), 1), Status::INVALID_FIELD);
        client.assert_clean();
    }
}

#[test]
fn older_versions_are_claimed_with_and_without_limits() {
    let version = Vs::from_parts(1, 4, 0);
    let of = |optional: OptionalCommands| SoftConfig::new().version(version).optional(optional.dmrsl(7));
    for mut client in Client::both(&of(OptionalCommands::new())) {
        assert_eq!(client.device.registers().read32(offset::VS), version.into_bits());
        let data: IdentifyController = parsed(&client.admin_data(command::identify(Cns::CONTROLLER, 0)));
        assert_eq!(data.ver, version);
        let data: IdentifyNvmController =
            parsed(&client.admin_data(command::identify(Cns::CSI_CONTROLLER, 0)));
        assert_eq!(data.dmrsl, 7);
        client.assert_clean();
    }
    for mut client in Client::both(&of(OptionalCommands::new().no_limits(true))) {
        let buffer = client.buffer.iova().0;
        let asked = command::identify(Cns::CSI_CONTROLLER, 0).with_prp(buffer, 0);
        expect(&mut client, asked, Status::INVALID_FIELD);
        client.assert_clean();
    }
}

#[test]
fn a_file_tells_its_exact_length() {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().set_len(4097).unwrap();
    let namespaces = vec![NamespaceConfig::file(file.path(), 512, false), NamespaceConfig::memory(4097, 512)];
    let mut client = Client::stepped(SoftConfig::new().namespaces(namespaces));
    let data = client.admin_data(command::identify(Cns::NAMESPACE, 1));
    assert_eq!(&data[3712..3720], b"WBLENGTH");
    assert_eq!(data[3720..3728], 4097u64.to_le_bytes());
    let data: IdentifyNamespace = parsed(&data);
    assert_eq!((data.nsze, data.nsattr), (9, 1));
    let data = client.admin_data(command::identify(Cns::NAMESPACE, 2));
    assert_eq!(data[3712..3728], [0; 16]);
}

#[test]
fn number_of_queues_is_negotiated_once() {
    for (grant, asked, got) in [(None, 7, 7), (None, 1000, 64), (Some(7), 64, 7), (Some(100), 4, 100)] {
        let config = memory(1 << 20, 512).grant(grant);
        let mut client = Client::stepped(config);
        let answer = client.number_of_queues(asked);
        assert_eq!((answer.submission_queues(), answer.completion_queues()), (got, got));
        let current = command::get_features(FeatureId::NUMBER_OF_QUEUES, FeatureSelect::CURRENT, 0);
        assert_eq!(client.admin_ok(current).dw0, answer.into_bits());
        let pair = client.pair(got as u16, 4);
        let more = queue_command::create_io_cq(got as u16 + 1, 3, pair.cq_memory.iova().0, None);
        expect(&mut client, more, Status::INVALID_QUEUE_IDENTIFIER);
        let set =
            |value: NumberOfQueues| command::set_features(FeatureId::NUMBER_OF_QUEUES, value.into_bits(), 0);
        expect(&mut client, set(NumberOfQueues::new()), Status::COMMAND_SEQUENCE_ERROR);
        let illegal = NumberOfQueues::new().with_nsqr_z(u16::MAX);
        expect(&mut client, set(illegal), Status::INVALID_FIELD);
        client.assert_clean();
    }
}

#[test]
fn queue_creation_has_every_error_of_the_specification() {
    for mut client in Client::both(&memory(1 << 20, 512).max_entries(64)) {
        let pair = Pair::new(&client.device, 1, 64);
        let (cq, sq) = (pair.cq_memory.iova().0, pair.sq_memory.iova().0);
        let create_cq = |qid, size_z| queue_command::create_io_cq(qid, size_z, cq, None);
        let create_sq =
            |qid, size_z, cqid| queue_command::create_io_sq(qid, size_z, sq, cqid, QueuePriority::URGENT);
        for qid in [0, 65, u16::MAX] {
            expect(&mut client, create_cq(qid, 3), Status::INVALID_QUEUE_IDENTIFIER);
        }
        for size_z in [0, 64, u16::MAX] {
            expect(&mut client, create_cq(1, size_z), Status::INVALID_QUEUE_SIZE);
        }
        let vectors = warpbell_hw::Interrupts::count(client.device.interrupts());
        let bad_vector = queue_command::create_io_cq(1, 3, cq, Some(vectors));
        expect(&mut client, bad_vector, Status::INVALID_INTERRUPT_VECTOR);
        let mut scattered = create_cq(1, 3);
        scattered.cdw11 &= !1;
        expect(&mut client, scattered, Status::INVALID_FIELD);
        expect(&mut client, create_sq(1, 3, 1), Status::INVALID_CQ);
        expect(&mut client, create_sq(1, 3, 0), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, create_sq(1, 3, 65), Status::INVALID_QUEUE_IDENTIFIER);
        client.admin_ok(create_cq(1, 3));
        expect(&mut client, create_cq(1, 3), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, create_sq(0, 3, 1), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, create_sq(65, 3, 1), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, create_sq(1, 0, 1), Status::INVALID_QUEUE_SIZE);
        expect(&mut client, create_sq(1, 64, 1), Status::INVALID_QUEUE_SIZE);
        client.admin_ok(create_sq(2, 3, 1));
        expect(&mut client, create_sq(2, 3, 1), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, queue_command::delete_io_cq(1), Status::INVALID_QUEUE_DELETION);
        expect(&mut client, queue_command::delete_io_cq(2), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, queue_command::delete_io_cq(0), Status::INVALID_QUEUE_IDENTIFIER);
        expect(&mut client, queue_command::delete_io_sq(1), Status::INVALID_QUEUE_IDENTIFIER);
        client.admin_ok(queue_command::delete_io_sq(2));
        client.admin_ok(queue_command::delete_io_cq(1));
        client.assert_clean();
        let misaligned = queue_command::create_io_cq(1, 3, cq + 64, None);
        expect(&mut client, misaligned, Status::INVALID_PRP_OFFSET);
        let foreign = queue_command::create_io_cq(1, 3, 0x1000, None);
        expect(&mut client, foreign, Status::DATA_TRANSFER_ERROR);
        assert_eq!(client.broken(), [Rule::PrpOffset, Rule::ForeignAddress]);
    }
}

#[test]
fn queues_need_entry_sizes_in_cc() {
    let device = warpbell_softctl::SoftDevice::stepped(SoftConfig::default()).unwrap();
    let admin = Pair::new(&device, 0, 16);
    client::set_admin_queue(&device, &admin);
    let cc = warpbell_nvme::register::Cc::new().with_en(true);
    device.registers().write32(warpbell_nvme::register::offset::CC, cc.into_bits());
    client::wait_csts(&device, |csts| csts.rdy());
    let pair = Pair::new(&device, 1, 4);
    let mut admin = admin;
    let sqe = queue_command::create_io_cq(1, 3, pair.cq_memory.iova().0, None).with_cid(1);
    assert!(admin.run(&device, &sqe).status().same_code(Status::INVALID_QUEUE_SIZE));
}

#[test]
fn deleting_a_queue_aborts_what_it_held() {
    for shuffled in [false, true] {
        let order =
            if shuffled { CompletionOrder::Shuffled { window: 64 } } else { CompletionOrder::Immediate };
        let mut client = Client::stepped(memory(1 << 20, 512).order(order));
        let mut pair = client.pair(1, 16);
        for cid in 0..10 {
            pair.push(&command::flush(1).with_cid(cid));
        }
        pair.ring();
        client.admin_ok(queue_command::delete_io_sq(1));
        let mut seen = Vec::new();
        while let Some(entry) = pair.poll() {
            let status = entry.status();
            assert!(status.is_ok() || status == Status::ABORTED_SQ_DELETION, "{status}");
            seen.push(entry.cid);
        }
        client.settle();
        assert!(pair.poll().is_none(), "nothing comes after the deletion completed");
        seen.sort_unstable();
        seen.dedup();
        assert!(seen.len() <= 10);
        client.admin_ok(queue_command::delete_io_cq(1));
        client.assert_clean();
    }
}

#[test]
fn features_have_current_default_and_saved_values() {
    let mut client = Client::stepped(SoftConfig::default());
    let id = FeatureId::TEMPERATURE_THRESHOLD;
    let get = |select| command::get_features(id, select, 0);
    client.admin_ok(command::set_features(id, 300, 0));
    assert_eq!(client.admin_ok(get(FeatureSelect::CURRENT)).dw0, 300);
    assert_eq!(client.admin_ok(get(FeatureSelect::DEFAULT)).dw0, 343);
    assert_eq!(client.admin_ok(get(FeatureSelect::SAVED)).dw0, 343);
    let mut save = command::set_features(id, 310, 0);
    save.cdw10 |= 1 << 31;
    client.admin_ok(save);
    assert_eq!(client.admin_ok(get(FeatureSelect::SAVED)).dw0, 310);
    let capabilities = client.admin_ok(get(FeatureSelect::SUPPORTED_CAPABILITIES)).dw0;
    let capabilities = FeatureCapabilities::from_bits(capabilities);
    assert!(capabilities.changeable() && capabilities.saveable() && !capabilities.namespace_specific());
    expect(&mut client, command::set_features(id, 1, 1), Status::FEATURE_NOT_NAMESPACE_SPECIFIC);
    expect(&mut client, command::set_features(FeatureId(0x55), 1, 0), Status::INVALID_FIELD);
    expect(
        &mut client,
        command::get_features(FeatureId(0x55), FeatureSelect::CURRENT, 0),
        Status::INVALID_FIELD,
    );
    expect(&mut client, command::get_features(id, FeatureSelect(7), 0), Status::INVALID_FIELD);
    expect(&mut client, command::set_features(FeatureId::VOLATILE_WRITE_CACHE, 2, 0), Status::INVALID_FIELD);
    client.admin_ok(command::set_features(FeatureId::VOLATILE_WRITE_CACHE, 0, 0));
    let get = command::get_features(FeatureId::VOLATILE_WRITE_CACHE, FeatureSelect::CURRENT, 0);
    assert_eq!(client.admin_ok(get).dw0, 0, "the cache can be switched off");
    client.admin_ok(command::set_features(FeatureId::ERROR_RECOVERY, 5, NSID_ALL));
    let get = command::get_features(FeatureId::ERROR_RECOVERY, FeatureSelect::CURRENT, 1);
    assert_eq!(client.admin_ok(get).dw0, 5);
    expect(
        &mut client,
        command::get_features(FeatureId::ERROR_RECOVERY, FeatureSelect::CURRENT, 9),
        Status::INVALID_NAMESPACE_OR_FORMAT,
    );
    client.assert_clean();
}

#[test]
fn logs_count_what_happened() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        let mut pair = client.pair(1, 8);
        for _ in 0..3 {
            assert!(client.io(&mut pair, command::read(1, 0, 7), 8192).is_ok());
        }
        assert!(client.io(&mut pair, command::write(1, 0, 0), 8192).is_ok());
        assert!(!client.io(&mut pair, command::read(1, 1 << 40, 0), 8192).is_ok());
        let log = |page, bytes: u32| command::get_log_page(page, NSID_ALL, bytes / 4 - 1, 0, true);
        let smart: SmartLog = parsed(&client.admin_data(log(LogPageId::SMART, 512)));
        assert_eq!((smart.host_reads.get(), smart.host_writes.get()), (4, 1));
        assert_eq!((smart.data_units_read.get(), smart.error_log_entries.get()), (1, 1));
        let errors: ErrorLogEntry = parsed(&client.admin_data(log(LogPageId::ERROR_INFORMATION, 64)));
        assert_eq!((errors.error_count, errors.sqid, errors.lba), (1, 1, 1 << 40));
        assert!(errors.status.status().same_code(Status::LBA_OUT_OF_RANGE));
        let firmware: FirmwareSlotLog = parsed(&client.admin_data(log(LogPageId::FIRMWARE_SLOT, 512)));
        assert_eq!(firmware.revision(1), Some(env!("CARGO_PKG_VERSION")));
        let effects: CommandsSupportedAndEffects =
            parsed(&client.admin_data(log(LogPageId::COMMAND_EFFECTS, 4096)));
        assert!(effects.iocs[usize::from(NvmOpcode::WRITE.0)].lbcc());
        assert!(!effects.acs[usize::from(AdminOpcode::DEVICE_SELF_TEST.0)].csupp());
        let pages = client.admin_data(log(LogPageId::SUPPORTED_LOG_PAGES, 1024));
        assert_eq!((pages[0], pages[4], pages[0x70 * 4]), (1, 1, 0));
        let tail = command::get_log_page(LogPageId::FIRMWARE_SLOT, 0, 3, 8, true);
        assert!(client.admin_data(tail).starts_with(env!("CARGO_PKG_VERSION").as_bytes()));
        let buffer = client.buffer.iova().0;
        let past = command::get_log_page(LogPageId::FIRMWARE_SLOT, 0, 3, 1024, true).with_prp(buffer, 0);
        expect(&mut client, past, Status::INVALID_FIELD);
        expect(&mut client, log(LogPageId(0xc5), 512).with_prp(buffer, 0), Status::INVALID_LOG_PAGE);
        client.assert_clean();
    }
}

#[test]
fn events_complete_requests_and_are_masked_until_their_log_is_read() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    for cid in 100..108 {
        client.admin.push(&command::async_event_request().with_cid(cid));
    }
    client.admin.ring();
    client.settle();
    assert!(client.admin.poll().is_none());
    expect(&mut client, command::async_event_request(), Status::AER_LIMIT_EXCEEDED);
    assert_eq!(client.broken(), [Rule::CommandLimit]);
    let ghost = client.device.doorbells().doorbell(Qid(9), warpbell_hw::DoorbellKind::SqTail).unwrap();
    ghost.ring(1);
    ghost.ring(2);
    let entry = client.admin.wait(&client.device);
    assert_eq!(entry.cid, 100);
    let event = AsyncEvent::from_bits(entry.dw0);
    assert_eq!((event.event_type(), event.info()), (AsyncEventType::ERROR, 0));
    ghost.ring(3);
    client.settle();
    assert!(client.admin.poll().is_none(), "masked until the log is read");
    let log = command::get_log_page(LogPageId::ERROR_INFORMATION, NSID_ALL, 15, 0, false);
    client.admin_data(log);
    assert_eq!(client.admin.wait(&client.device).cid, 101);
    // An Abort takes a waiting request back, which completes first.
    let request = client.admin.run(&client.device, &queue_command::abort(0, 105).with_cid(200));
    assert_eq!((request.cid, request.status()), (105, Status::ABORT_REQUESTED));
    let abort = client.admin.wait(&client.device);
    assert_eq!((abort.cid, abort.dw0), (200, 0));
}

#[test]
fn abort_takes_back_what_is_held() {
    let order = CompletionOrder::Shuffled { window: 64 };
    let mut client = Client::stepped(memory(1 << 20, 512).order(order).seed(3));
    let mut pair = client.pair(1, 64);
    for cid in 0..60 {
        pair.push(&command::flush(1).with_cid(cid));
    }
    pair.ring();
    let mut aborted = 0;
    let mut seen = Vec::new();
    for cid in 0..20 {
        let not_aborted = client.admin_ok(queue_command::abort(1, cid)).dw0 & 1;
        aborted += 1 - not_aborted;
    }
    let mut statuses = 0;
    while seen.len() < 60 {
        let entry = pair.wait(&client.device);
        statuses += u32::from(entry.status() == Status::ABORT_REQUESTED);
        seen.push(entry.cid);
    }
    seen.sort_unstable();
    assert_eq!(seen, (0..60).collect::<Vec<u16>>());
    assert_eq!(aborted, statuses);
    assert!(aborted > 0, "with 60 commands held, some abort must come in time");
    assert_eq!(client.admin_ok(queue_command::abort(1, 5)).dw0 & 1, 1, "it is complete");
    assert_eq!(client.admin_ok(queue_command::abort(7, 5)).dw0 & 1, 1, "no such queue");
    client.assert_clean();
}

#[test]
fn keep_alive_is_tolerated_and_time_passes() {
    let mut client = Client::stepped(SoftConfig::default());
    let before = client.device.clock().now();
    client.admin_ok(queue_command::keep_alive());
    assert!(client.device.clock().now() > before);
    client.assert_clean();
}
