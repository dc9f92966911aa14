//! Each rule of the checker, broken on purpose.

mod client;

use client::{Client, Pair, memory};
use warpbell_hw::{Device, DmaBuffer, DoorbellKind, Qid};
use warpbell_nvme::command;
use warpbell_nvme::data::SglDescriptor;
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::{Sqe, Status};
use warpbell_softctl::{CompletionOrder, Rule, SoftConfig, SoftDevice};

fn start() -> (Client, Pair) {
    let config = memory(1 << 20, 512).poison_fetched(true);
    let mut client = Client::stepped(config);
    let pair = client.pair(1, 8);
    (client, pair)
}

#[test]
fn doorbell_values() {
    let (client, pair) = start();
    pair.sq_doorbell.ring(8);
    pair.sq_doorbell.ring(0x10001);
    pair.cq_doorbell.ring(9);
    pair.cq_doorbell.ring(3);
    assert_eq!(
        client.broken(),
        [Rule::DoorbellRange, Rule::DoorbellRange, Rule::DoorbellRange, Rule::CqHeadBeyondTail]
    );
}

#[test]
fn doorbell_values_again_and_beyond() {
    let (mut client, mut pair) = start();
    for cid in 0..7 {
        pair.push(&command::flush(1).with_cid(cid));
    }
    pair.ring();
    pair.ring();
    pair.sq_doorbell.ring(1);
    assert_eq!(client.broken(), [Rule::DoorbellRepeated, Rule::DoorbellOverrun]);
    for _ in 0..7 {
        assert!(pair.wait(&client.device).status().is_ok());
    }
    pair.cq_doorbell.ring(7);
    assert_eq!(client.broken()[2..], [Rule::DoorbellRepeated]);
    assert!(client.io(&mut pair, command::flush(1), 0).is_ok(), "the queue still works");
}

#[test]
fn doorbells_of_queues_that_do_not_exist() {
    let (mut client, pair) = start();
    let ghost = |kind| client.device.doorbells().doorbell(Qid(5), kind).unwrap();
    ghost(DoorbellKind::SqTail).ring(1);
    ghost(DoorbellKind::CqHead).ring(1);
    client.device.doorbells().sink().unwrap().ring(2, 1);
    client.device.doorbells().sink().unwrap().ring(1 << 20, 1);
    client.admin_ok(queue_command::delete_io_sq(1));
    pair.sq_doorbell.ring(1);
    assert_eq!(client.broken(), [Rule::DoorbellRegister; 5]);
}

#[test]
fn doorbells_of_queues_that_do_not_exist_are_found_in_memory_too() {
    let mut client = Client::threaded(memory(1 << 20, 512));
    client.device.doorbells().doorbell(Qid(5), DoorbellKind::CqHead).unwrap().ring(3);
    assert_eq!(client.broken(), [Rule::DoorbellRegister]);
    client.device.doorbells().doorbell(Qid(1), DoorbellKind::SqTail).unwrap().ring(2);
    let _pair = client.pair(1, 8);
    assert_eq!(client.broken(), [Rule::DoorbellRegister; 2], "found when the queue is created");
}

#[test]
fn doorbells_before_the_controller_is_ready() {
    let device = SoftDevice::stepped(SoftConfig::default()).unwrap();
    let admin = Pair::new(&device, 0, 16);
    admin.sq_doorbell.ring(1);
    assert_eq!(device.violations()[0].rule, Rule::NotReady);
}

#[test]
fn bad_values_in_memory_are_seen_once() {
    let mut client = Client::threaded(memory(1 << 20, 512));
    let mut pair = client.pair(1, 8);
    pair.sq_doorbell.ring(12);
    while client.broken().is_empty() {
        std::thread::yield_now();
    }
    std::thread::sleep(std::time::Duration::from_millis(5));
    assert_eq!(client.broken(), [Rule::DoorbellRange]);
    assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
}

#[test]
fn identifiers_in_flight() {
    for order in [CompletionOrder::Immediate, CompletionOrder::Shuffled { window: 4 }] {
        for mut client in Client::both(&memory(1 << 20, 512).order(order)) {
            let mut pair = client.pair(1, 8);
            let iova = client.buffer.iova().0;
            pair.push(&command::read(1, 0, 0).with_prp(iova, 0).with_cid(7));
            pair.push(&command::read(1, 1, 0).with_prp(iova, 0).with_cid(7));
            pair.ring();
            let statuses = [pair.wait(&client.device).status(), pair.wait(&client.device).status()];
            let conflicts = statuses.iter().filter(|status| status.same_code(Status::CID_CONFLICT)).count();
            // Stepped and immediate, the first is complete before the second is fetched.
            let expected = usize::from(conflicts > 0);
            assert_eq!(client.broken(), vec![Rule::CidInFlight; expected]);
            assert!(client.io(&mut pair, command::read(1, 0, 0).with_cid(7), 0).is_ok());
        }
    }
    let order = CompletionOrder::Shuffled { window: 64 };
    let mut found = 0;
    for seed in 0..20 {
        let mut client = Client::stepped(memory(1 << 20, 512).order(order).seed(seed));
        let mut pair = client.pair(1, 8);
        pair.push(&command::flush(1).with_cid(7));
        pair.push(&command::flush(1).with_cid(7));
        pair.ring();
        client.settle();
        found += client.broken().len();
    }
    assert!(found > 0, "some seed fetches the second while the first is held");
}

fn refused(client: &mut Client, pair: &mut Pair, sqe: Sqe, status: Status, rule: Rule) {
    let before = client.broken().len();
    let cid = client.cid();
    let got = pair.run(&client.device, &sqe.with_cid(cid)).status();
    assert!(got.same_code(status), "{got}, expected {status}");
    assert_eq!(client.broken()[before..], [rule]);
}

#[test]
fn data_pointers() {
    let (mut client, mut pair) = start();
    let base = client.buffer.iova().0;
    let read = command::read(1, 0, 0);
    let long = command::read(1, 0, 8);
    let cases = [
        (read.with_prp(base + 1, 0), Status::INVALID_PRP_OFFSET, Rule::PrpMisaligned),
        (long.with_prp(base, base + 4100), Status::INVALID_PRP_OFFSET, Rule::PrpOffset),
        (read.with_prp(base, base), Status::SUCCESS, Rule::PrpUnneeded),
        (read.with_prp(base + (1 << 20), 0), Status::DATA_TRANSFER_ERROR, Rule::ForeignAddress),
        (
            read.with_sgl(SglDescriptor::data_block(base, 100)),
            Status::INVALID_SGL_DATA_LENGTH,
            Rule::SglLength,
        ),
        (
            read.with_sgl(SglDescriptor::segment(base, 8)),
            Status::INVALID_SGL_SEGMENT_DESCRIPTOR,
            Rule::SglDescriptor,
        ),
    ];
    for (sqe, status, rule) in cases {
        refused(&mut client, &mut pair, sqe, status, rule);
    }
    let mut both = read.with_prp(base, 0);
    both.cdw0.set_psdt(command::Psdt(3));
    refused(&mut client, &mut pair, both, Status::INVALID_FIELD, Rule::DataPointer);
    let admin = command::identify(warpbell_nvme::identify::Cns::CONTROLLER, 0);
    let status = client.admin(admin.with_sgl(SglDescriptor::data_block(base, 4096))).status();
    assert!(status.same_code(Status::INVALID_FIELD));
    assert_eq!(client.broken().last(), Some(&Rule::DataPointer));
}

#[test]
fn sgls_where_there_are_none() {
    let mut client = Client::stepped(memory(1 << 20, 512).sgl(false));
    let mut pair = client.pair(1, 8);
    let sqe = command::read(1, 0, 0).with_sgl(SglDescriptor::data_block(client.buffer.iova().0, 512));
    refused(&mut client, &mut pair, sqe, Status::INVALID_FIELD, Rule::DataPointer);
}

#[test]
fn memory_that_is_not_mapped_for_the_direction() {
    let (mut client, mut pair) = start();
    let window = client::private(4096);
    let read_only = DmaBuffer::map(client.device.dma(), window, warpbell_hw::DmaAccess::READ).unwrap();
    let iova = read_only.iova().0;
    let sqe = command::read(1, 0, 0).with_prp(iova, 0);
    refused(&mut client, &mut pair, sqe, Status::DATA_TRANSFER_ERROR, Rule::ForeignAddress);
    let sqe = command::write(1, 0, 0).with_prp(iova, 0).with_cid(900);
    assert!(pair.run(&client.device, &sqe).status().is_ok());
    drop(read_only);
    let sqe = command::write(1, 0, 0).with_prp(iova, 0);
    refused(&mut client, &mut pair, sqe, Status::DATA_TRANSFER_ERROR, Rule::ForeignAddress);
}

#[test]
fn reserved_fields_and_opcodes() {
    let (mut client, mut pair) = start();
    let base = client.buffer.iova().0;
    let mut dword2 = command::read(1, 0, 0).with_prp(base, 0);
    dword2.cdw2 = 1;
    refused(&mut client, &mut pair, dword2, Status::SUCCESS, Rule::ReservedField);
    let mut dword12 = command::read(1, 0, 0).with_prp(base, 0);
    dword12.cdw12 |= 1 << 16;
    refused(&mut client, &mut pair, dword12, Status::SUCCESS, Rule::ReservedField);
    let mut dword0 = command::flush(1);
    dword0.cdw0 = command::Cdw0::from_bits(dword0.cdw0.into_bits() | 1 << 10);
    refused(&mut client, &mut pair, dword0, Status::SUCCESS, Rule::ReservedField);
    let opcode = Sqe::new(0x7f, 1);
    refused(&mut client, &mut pair, opcode, Status::INVALID_OPCODE, Rule::UnsupportedOpcode);
    let status = client.admin(Sqe::new(0x81, 1)).status();
    assert!(status.same_code(Status::INVALID_OPCODE));
    assert_eq!(client.broken().last(), Some(&Rule::UnsupportedOpcode));
    let other = Pair::new(&client.device, 2, 8);
    client.admin_ok(queue_command::create_io_cq(2, 7, other.cq_memory.iova().0, None));
    let base = other.sq_memory.iova().0;
    client.admin_ok(queue_command::create_io_sq(2, 7, base, 2, QueuePriority::MEDIUM));
    assert_eq!(client.broken().last(), Some(&Rule::ReservedField), "priorities need weighted round robin");
}

#[test]
fn queue_memory_unmapped_too_early() {
    let (mut client, pair) = start();
    drop(pair);
    assert_eq!(client.broken(), [Rule::QueueMemoryUnmapped; 2]);
    client.admin_ok(queue_command::delete_io_sq(1));
    client.admin_ok(queue_command::delete_io_cq(1));
    let pair = client.pair(1, 8);
    client.admin_ok(queue_command::delete_io_sq(1));
    client.admin_ok(queue_command::delete_io_cq(1));
    drop(pair);
    assert_eq!(client.broken().len(), 2, "in the right order there is nothing to say");
}

#[test]
fn entries_that_were_not_written() {
    let (client, mut pair) = start();
    for cid in 0..7 {
        pair.push(&command::flush(1).with_cid(cid));
    }
    pair.ring();
    for _ in 0..7 {
        pair.wait(&client.device);
    }
    // The eighth slot was never used, the next holds what was fetched before.
    pair.push(&command::flush(1).with_cid(9));
    pair.tail += 1;
    pair.ring();
    pair.wait(&client.device);
    let stale = pair.wait(&client.device);
    assert!(!stale.status().is_ok());
    assert_eq!(client.broken()[0], Rule::StaleEntry);
}

#[test]
fn the_same_violations_are_named_in_threaded_mode() {
    let mut client = Client::threaded(memory(1 << 20, 512));
    let mut pair = client.pair(1, 8);
    let base = client.buffer.iova().0;
    let cases = [
        (command::read(1, 0, 0).with_prp(base + 2, 0), Status::INVALID_PRP_OFFSET, Rule::PrpMisaligned),
        (command::read(1, 0, 0).with_prp(1 << 40, 0), Status::DATA_TRANSFER_ERROR, Rule::ForeignAddress),
        (command::read(1, 0, 0).with_prp(base, 4096), Status::SUCCESS, Rule::PrpUnneeded),
        (Sqe::new(0x7f, 1), Status::INVALID_OPCODE, Rule::UnsupportedOpcode),
    ];
    for (sqe, status, rule) in cases {
        refused(&mut client, &mut pair, sqe, status, rule);
    }
    drop(pair);
    assert_eq!(client.broken()[4..], [Rule::QueueMemoryUnmapped; 2]);
}
