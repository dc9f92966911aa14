//! Controllers that disappear, fall, or are known for what they do: each is noticed, in bounded time and by name.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use warpbell_driver::{
    Controller, ControllerOptions, ControllerState, DoorbellBuffer, DriverError, IoQueue, IoQueueOptions,
    Outcome, QueueSpec,
};
use warpbell_hw::{Clock, Iova, PciId};
use warpbell_nvme::command;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::mock::{Event, Follow, Mock, Reply};
use crate::{chain, open};

/// Brings a controller up, uses it and shuts it down.
fn live(mock: &Arc<Mock>) -> Result<(), DriverError> {
    let controller = open(mock)?;
    let pair = controller.create_queue_pair(QueueSpec::new(8))?;
    controller.smart_log()?;
    controller.check_health()?;
    controller.reset()?;
    drop(pair);
    controller.shutdown()
}

#[test]
fn a_function_that_disappears_at_any_register_access_is_noticed_there() {
    let whole = Mock::new(|_| {});
    live(&whole).unwrap();
    let accesses = whole.state().accesses;
    assert!(accesses > 50, "{accesses}");
    for at in 1..=accesses {
        let mock = Mock::new(|b| b.gone_at = Some(at));
        match live(&mock) {
            // A write that goes nowhere shows at the next read, and the last accesses are writes.
            Ok(()) => assert!(at + 3 > accesses, "not noticed at access {at} of {accesses}"),
            Err(error) => assert!(chain(&error).contains("gone"), "access {at}: {}", chain(&error)),
        }
        assert!(mock.clock.now() < Duration::from_secs(15), "access {at} took {:?}", mock.clock.now());
        assert_eq!(mock.dma.violations(), [0u64; 0], "access {at}");
    }
}

#[test]
fn queues_of_a_function_that_is_gone_are_dropped_without_waiting() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pairs: Vec<_> = (0..3).map(|_| controller.create_queue_pair(QueueSpec::new(8)).unwrap()).collect();
    let options = IoQueueOptions::new().timeout(Duration::from_millis(80));
    let mut queue = IoQueue::new(controller.create_queue_pair(QueueSpec::new(8)).unwrap(), options).unwrap();
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Swallow));
    queue.submit(&command::flush(1)).unwrap();
    mock.vanish();
    let completion = queue.wait(Duration::from_secs(1)).expect("a timeout");
    assert_eq!(completion.outcome, Outcome::TimedOut);
    assert!(queue.wait(Duration::from_secs(1)).is_none(), "nothing is left that could come");
    assert!(mock.clock.now() < Duration::from_secs(1));
    for pair in pairs {
        assert!(controller.delete_queue_pair(pair).is_err());
    }
    drop((controller, queue));
    assert!(mock.clock.now() < Duration::from_secs(1), "{:?}", mock.clock.now());
}

#[test]
fn a_controller_whose_ready_falls_by_itself_is_an_error_at_once_until_it_is_reset() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    controller.check_health().unwrap();
    mock.fall();
    let before = mock.clock.now();
    let error = controller.smart_log().unwrap_err();
    assert!(matches!(error, DriverError::NotReady { csts: 0, .. }), "{error:?}");
    assert!(mock.clock.now() - before < Duration::from_millis(10), "not only after the admin timeout");
    assert_eq!(controller.state(), ControllerState::Fallen);
    assert!(matches!(controller.check_health(), Err(DriverError::NotReady { .. })));
    let text = chain(&controller.smart_log().unwrap_err());
    assert_eq!(text, "mock: cannot execute an admin command: the controller is not ready any more");
    assert_eq!(controller.reset().unwrap().lost_queues, [pair.qid()]);
    controller.smart_log().unwrap();
    controller.check_health().unwrap();
}

#[test]
fn a_fallen_controller_is_dropped_in_bounded_time() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    mock.fall();
    drop((controller, pair));
    assert!(mock.clock.now() < Duration::from_secs(15), "{:?}", mock.clock.now());
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (0, vec![]));
}

#[test]
fn quirks_are_heeded() {
    let with = |vendor, device| Mock::new(|b| b.pci_id = Some(PciId { vendor, device }));
    let slow = with(0x144d, 0xa822);
    drop(open(&slow).unwrap());
    assert!(slow.clock.now() > Duration::from_millis(2500));

    let micron = with(0x1344, 0x51c3);
    assert_eq!(open(&micron).unwrap().vectors(), 3, "of 4 that it claims");

    let apple = with(0x106b, 0x2001);
    assert_eq!(open(&apple).unwrap().max_entries(), 2);
    let text = chain(&open(&with(0x106b, 0x2005)).unwrap_err());
    assert!(
        text.starts_with("mock: PCI function 106b:2005 cannot be used: it takes entries of 128"),
        "{text}"
    );

    let intel = with(0x8086, 0x0a54);
    intel.left_enabled(true);
    intel.behave(|b| b.disable = Follow::Never);
    let _controller = open(&intel).unwrap();
    assert!(intel.clock.now() > Duration::from_secs(2), "after the function level reset");
}

#[test]
fn memory_beyond_a_controllers_addresses_is_refused() {
    let amazon = Mock::new(|b| b.pci_id = Some(PciId { vendor: 0x1d0f, device: 0x8061 }));
    let controller = open(&amazon).unwrap();
    let check = |iova, len| controller.check_reach("a buffer", Iova(iova), len);
    check((1 << 48) - 4096, 4096).unwrap();
    let text = chain(&check((1 << 48) - 4096, 4097).unwrap_err());
    assert_eq!(text, "mock: a buffer ends at 0x1000000000001: this controller has addresses of 48 bits");
}

#[test]
fn events_that_are_answered_at_once_do_not_keep_a_look_going() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::ASYNC_EVENT_REQUEST => Reply::Status(Status::SUCCESS),
            _ => Reply::Normal,
        });
    });
    assert!(mock.raise(0));
    assert_eq!(controller.poll_events().unwrap().len(), 64);
    assert_eq!(controller.poll_events().unwrap().len(), 64, "the next look goes on");
}

#[test]
fn doorbells_too_far_apart_for_the_page_go_to_registers() {
    for (stride, most) in [(4, 31), (9, 0), (10, 0), (15, 0)] {
        let mock = Mock::new(|b| {
            b.stride = stride;
            b.identify.oacs.set_dbbuf(true);
        });
        assert!(!open(&mock).unwrap().uses_doorbell_buffer(), "stride {stride}");
        let options = ControllerOptions::new().doorbell_buffer(DoorbellBuffer::On);
        let error = Controller::open(mock, options).unwrap_err().to_string();
        assert!(error.contains(&format!("ask for at most {most} queues")), "{error}");
    }
}

#[test]
fn entries_of_the_doorbell_pages_are_as_far_apart_as_the_registers() {
    let pages = Arc::new(AtomicU64::new(0));
    let told = pages.clone();
    let mock = Mock::new(|b| {
        // Another value than when the device was opened.
        b.cap.set_dstrd(1);
        b.identify.oacs.set_dbbuf(true);
        b.script = Box::new(move |_, sqe| {
            if AdminOpcode(sqe.opcode()) == AdminOpcode::DBBUF_CONFIG {
                told.store(sqe.prp1(), Ordering::Relaxed);
            }
            Reply::Normal
        });
    });
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(4)).unwrap();
    let (page, at) = mock.dma.find(pages.load(Ordering::Relaxed));
    for (register, kind) in [(pair.sq_doorbell(), 0), (pair.cq_doorbell(), 1)] {
        let entry = register.shadow().expect("doorbells go through memory").entry.as_ptr();
        assert_eq!(entry, page.slice(at + (2 + kind) * 4, 4).unwrap().as_ptr(), "queue 1, kind {kind}");
    }
}

#[test]
fn doorbell_pages_that_may_still_come_into_use_stay_until_the_controller_is_disabled() {
    let mock = Mock::new(|b| {
        b.identify.oacs.set_dbbuf(true);
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::DBBUF_CONFIG => Reply::Swallow,
            _ => Reply::Normal,
        });
    });
    let error = open(&mock).unwrap_err();
    assert!(matches!(error, DriverError::CommandTimeout { .. }), "{error:?}");
    assert_eq!(mock.dma.mapped(), 0, "nothing is leaked");
    let events = mock.events();
    let disabled = events.iter().rposition(|event| matches!(event, Event::Cc(cc) if !cc.en()));
    let unmapped = events.iter().filter(|event| matches!(event, Event::Unmap(_))).count();
    let late = events[disabled.unwrap()..].iter().filter(|event| matches!(event, Event::Unmap(_))).count();
    // Both rings, and both pages; the data of commands was released before.
    assert_eq!((late, unmapped > late), (4, true), "{events:?}");
}
