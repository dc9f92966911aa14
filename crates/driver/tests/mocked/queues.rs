//! I/O queue pairs: grants, sizes, identifiers, teardown.

use std::sync::atomic::Ordering;

use warpbell_driver::{Controller, ControllerOptions, DriverError, Notification, QueueSpec, RingMemory};
use warpbell_hw::{DmaBuffer, Iova, Qid, Window};
use warpbell_nvme::command::QueuePriority;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::mock::{Event, Mock, Reply};
use crate::{chain, open};

fn options(queues: u16, min_queues: u16) -> ControllerOptions {
    ControllerOptions::new().queues(queues).min_queues(min_queues)
}

#[test]
fn a_grant_may_be_lower_or_higher_than_asked() {
    for (granted, asked, usable) in [(7, 64, 7), (64, 4, 4), (1, 1, 1), (65535, 2, 2)] {
        let mock = Mock::new(|b| b.grant = granted);
        let controller = Controller::open(mock, options(asked, 1)).unwrap();
        assert_eq!(controller.granted_queues(), usable);
        let pairs: Vec<_> =
            (0..usable).map(|_| controller.create_queue_pair(QueueSpec::new(2)).unwrap()).collect();
        assert_eq!(pairs.last().unwrap().qid(), Qid(usable));
        let text = chain(&controller.create_queue_pair(QueueSpec::new(2)).unwrap_err());
        let expected = format!("mock: no free queue: {usable} in use and 0 lost of {usable} granted");
        assert_eq!(text, expected);
    }
}

#[test]
fn too_few_queues_name_all_numbers() {
    let mock = Mock::new(|b| b.grant = 7);
    let text = chain(&Controller::open(mock, options(64, 8)).unwrap_err());
    assert_eq!(text, "mock: 64 I/O queue pairs asked for, 7 granted, at least 8 needed");
    for asked in [0, u16::MAX] {
        let text = chain(&Controller::open(Mock::new(|_| {}), options(asked, 1)).unwrap_err());
        assert_eq!(text, format!("mock: {asked} I/O queue pairs: must be from 1 to 65534"));
    }
}

#[test]
fn sizes_are_powers_of_two_within_the_limit() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    for entries in [2, 4, 1024, 65536] {
        let pair = controller.create_queue_pair(QueueSpec::new(entries)).unwrap();
        assert_eq!(pair.entries(), entries);
        controller.delete_queue_pair(pair).unwrap();
    }
    for entries in [0, 1, 3, 65535, 131072] {
        let text = chain(&controller.create_queue_pair(QueueSpec::new(entries)).unwrap_err());
        let expected = format!("mock: queue of {entries} entries: must be a power of two from 2 to 65536");
        assert_eq!(text, expected);
    }
    let mock = Mock::new(|b| b.cap.set_mqes_z(1023));
    let text = chain(&open(&mock).unwrap().create_queue_pair(QueueSpec::new(2048)).unwrap_err());
    assert!(text.ends_with("from 2 to 1024"), "{text}");
}

#[test]
fn teardown_is_submission_completion_memory() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    let before = mock.events().len();
    controller.delete_queue_pair(pair).unwrap();
    let events = mock.events()[before..].to_vec();
    let (sq, cq) = (AdminOpcode::DELETE_IO_SQ.0, AdminOpcode::DELETE_IO_CQ.0);
    assert_eq!(events[0], Event::Admin { opcode: sq, cdw10: 1 });
    assert_eq!(events[1], Event::Admin { opcode: cq, cdw10: 1 });
    assert!(matches!(events[2..], [Event::Unmap(_), Event::Unmap(_)]), "{events:?}");
    assert_eq!(mock.dma.violations(), [0; 0]);
}

/// Rings in one mapping: what the controller may still write to is not handed out again before it is reset.
#[test]
fn rings_that_share_a_mapping_keep_their_places_as_long_as_their_queues_may_live() {
    let mock = Mock::new(|_| {});
    mock.dma.coalesces.store(true, Ordering::Relaxed);
    let controller = open(&mock).unwrap();
    let create = || controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    let pair = create();
    let place = pair.sq_iova();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::DELETE_IO_SQ => Reply::Status(Status::INTERNAL_ERROR),
            _ => Reply::Normal,
        });
    });
    controller.delete_queue_pair(pair).unwrap_err();
    let others: Vec<_> = (0..3).map(|_| create()).collect();
    assert!(others.iter().all(|other| other.sq_iova() != place), "it may still be fetched from");
    drop(others);
    controller.reset().unwrap();
    assert_eq!(create().sq_iova(), place, "the controller has forgotten its queues");
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (1, vec![]));
}

#[test]
fn memory_and_identifier_stay_when_deletion_fails() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::DELETE_IO_SQ => Reply::Status(Status::INTERNAL_ERROR),
            _ => Reply::Normal,
        });
    });
    let text = chain(&controller.delete_queue_pair(pair).unwrap_err());
    let expected = "mock: cannot delete the submission queue of queue 1; its memory is kept until the controller is reset";
    assert!(text.starts_with(expected), "{text}");
    assert_eq!(mock.dma.mapped(), mapped + 2);
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Normal));
    assert_eq!(controller.create_queue_pair(QueueSpec::new(2)).unwrap().qid(), Qid(2), "lost, not free");
    controller.reset().unwrap();
    assert_eq!(mock.dma.mapped(), mapped);
    assert_eq!(controller.create_queue_pair(QueueSpec::new(2)).unwrap().qid(), Qid(1));
    assert_eq!(mock.dma.violations(), [0; 0]);
}

#[test]
fn a_dropped_pair_is_deleted_before_its_memory_goes() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    drop(controller.create_queue_pair(QueueSpec::new(64)).unwrap());
    assert_eq!(mock.dma.mapped(), mapped + 2, "still known to the controller");
    let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    assert_eq!(pair.qid(), Qid(1), "the dropped pair was deleted on this occasion");
    assert_eq!(mock.dma.mapped(), mapped + 2);
    drop(controller);
    assert_eq!(mock.dma.mapped(), 2, "disabled: only the pair that still lives has memory");
    drop(pair);
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (0, vec![]));
}

#[test]
fn a_retired_pair_keeps_memory_and_identifier_until_dropped() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    let mapped = mock.dma.mapped();
    controller.retire_queue_pair(&pair).unwrap();
    assert!(pair.is_retired());
    assert_eq!(mock.dma.mapped(), mapped);
    let other = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    assert_eq!(other.qid(), Qid(2));
    drop(pair);
    assert_eq!(mock.dma.mapped(), mapped);
}

#[test]
fn half_a_pair_is_undone() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::CREATE_IO_SQ => Reply::Status(Status::INVALID_QUEUE_SIZE),
            _ => Reply::Normal,
        });
    });
    let error = controller.create_queue_pair(QueueSpec::new(64)).unwrap_err();
    let text = chain(&error);
    assert!(
        text.starts_with("mock: cannot create the submission queue of queue 1 with 64 entries: "),
        "{text}"
    );
    assert_eq!(error.status().map(|status| status.code()), Some(Status::INVALID_QUEUE_SIZE.code()));
    assert_eq!(*mock.admin_opcodes().last().unwrap(), AdminOpcode::DELETE_IO_CQ.0);
    assert_eq!(mock.dma.mapped(), mapped);
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Normal));
    assert_eq!(
        controller.create_queue_pair(QueueSpec::new(64)).unwrap().qid(),
        Qid(1),
        "no identifier leaks"
    );
}

#[test]
fn a_creation_without_answer_keeps_its_memory() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::CREATE_IO_CQ => Reply::Swallow,
            _ => Reply::Normal,
        });
    });
    let text = chain(&controller.create_queue_pair(QueueSpec::new(64)).unwrap_err());
    assert!(text.contains("did not complete within 10s"), "{text}");
    assert_eq!(mock.dma.mapped(), mapped + 2, "the queue may come into being at any time");
    drop(controller);
    assert_eq!(mock.dma.mapped(), 0);
}

#[test]
fn vectors_and_priorities_are_checked() {
    let mock = Mock::new(|b| b.vectors = 4);
    let controller = open(&mock).unwrap();
    let spec = QueueSpec::new(8).notification(Notification::Vector(4));
    let text = chain(&controller.create_queue_pair(spec).unwrap_err());
    assert_eq!(text, "mock: interrupt vector 4: the function has 4");
    let spec = QueueSpec::new(8).priority(QueuePriority::LOW);
    let text = chain(&controller.create_queue_pair(spec).unwrap_err());
    assert!(text.starts_with("mock: queue priority Low: needs weighted round robin"), "{text}");
    controller.create_queue_pair(QueueSpec::new(8).notification(Notification::Vector(3))).unwrap();
}

#[test]
fn rings_may_lie_in_memory_of_the_caller() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let buffer = DmaBuffer::host(mock.dma.clone(), 64 * 64).unwrap();
    buffer.window().fill(0, 64 * 64, 0xff).unwrap();
    let (sq, memory) = (buffer.iova(), buffer.window().clone());
    let spec = QueueSpec::new(64).sq_memory(RingMemory::Buffer(buffer));
    let pair = controller.create_queue_pair(spec).unwrap();
    assert!(memory.to_vec(0, 64 * 64).unwrap().iter().all(|byte| *byte == 0), "rings begin zeroed");
    controller.delete_queue_pair(pair).unwrap();
    assert!(mock.events().contains(&Event::Unmap(sq.0)));

    let fixed = RingMemory::Fixed { window: Window::host(4096).unwrap(), iova: Iova(0x800) };
    let text = chain(&controller.create_queue_pair(QueueSpec::new(64).sq_memory(fixed)).unwrap_err());
    let expected =
        "mock: submission ring memory of 4096 bytes at iova 0x800: needs 4096 bytes aligned to 4096";
    assert_eq!(text, expected);
    let small = RingMemory::Fixed { window: Window::host(4096).unwrap(), iova: Iova(0) };
    let spec = QueueSpec::new(512).cq_memory(small);
    assert!(matches!(
        controller.create_queue_pair(spec).unwrap_err(),
        DriverError::RingMemory { need: 8192, len: 4096, .. }
    ));
}

#[test]
fn a_pair_of_another_controller_is_refused() {
    let (one, two) = (Mock::new(|_| {}), Mock::new(|_| {}));
    let (one, two) = (open(&one).unwrap(), open(&two).unwrap());
    let pair = one.create_queue_pair(QueueSpec::new(8)).unwrap();
    two.create_queue_pair(QueueSpec::new(8)).unwrap();
    let text = chain(&two.retire_queue_pair(&pair).unwrap_err());
    assert_eq!(text, "mock: queue 1 belongs to mock");
}
