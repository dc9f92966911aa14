//! Admin commands: data, timeouts, completions of no command, events, log pages.

use std::time::Duration;

use warpbell_driver::{
    AsyncEvent, Controller, ControllerOptions, Data, DriverError, EventDetail, SpuriousCompletion,
};
use warpbell_hw::{Cid, Clock, Nsid, Qid};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::mock::{Behaviour, Mock, Reply};
use crate::{chain, open};

/// Swallows one kind of admin command.
fn swallow(opcode: AdminOpcode) -> impl FnOnce(&mut Behaviour) {
    move |behaviour| {
        let reply = move |qid, sqe: &Sqe| match (qid, AdminOpcode(sqe.opcode())) {
            (0, found) if found == opcode => Reply::Swallow,
            _ => Reply::Normal,
        };
        behaviour.script = Box::new(reply);
    }
}

#[test]
fn data_of_any_length_comes_in_page_by_page() {
    let mock = Mock::new(|b| b.identify.mdts = 0);
    let controller = open(&mock).unwrap();
    for pages in [1usize, 2, 3, 5, 512] {
        let mut sqe = Sqe::new(0xc1, 0);
        sqe.cdw10 = pages as u32;
        let mut data = vec![0xee; pages * 4096];
        controller.admin(sqe, Data::In(&mut data)).unwrap();
        for (page, bytes) in data.chunks(4096).enumerate() {
            assert!(bytes.iter().all(|byte| *byte == page as u8), "page {page} of {pages}");
        }
    }
    let mut data = vec![0; 513 * 4096];
    let text = chain(&controller.admin(Sqe::new(0xc1, 0), Data::In(&mut data)).unwrap_err());
    assert_eq!(text, "mock: C1h with 2101248 bytes of data: at most 2097152");
}

#[test]
fn mdts_limits_admin_data_too() {
    let mock = Mock::new(|b| b.identify.mdts = 1);
    let controller = open(&mock).unwrap();
    let error = controller.admin(Sqe::new(0xc2, 0), Data::Out(&[0; 8193])).unwrap_err();
    assert!(matches!(error, DriverError::DataLength { len: 8193, limit: 8192, .. }), "{error:?}");
}

#[test]
fn a_failed_command_says_which_and_why() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Status(Status::INVALID_FIELD.with_dnr(true))));
    let error = controller.admin(command::keep_alive(), Data::None).unwrap_err();
    assert_eq!(error.status(), Some(Status::INVALID_FIELD.with_dnr(true)));
    let text = chain(&error);
    assert!(text.starts_with("mock: Keep Alive (CDW10 0x0, NSID 0x0) failed: Invalid Field"), "{text}");
}

#[test]
fn a_timed_out_command_keeps_its_buffer_until_its_completion_comes() {
    let mock = Mock::new(swallow(AdminOpcode::GET_LOG_PAGE));
    let controller = open(&mock).unwrap();
    let (mapped, before) = (mock.dma.mapped(), mock.clock.now());
    let error = controller.smart_log().unwrap_err();
    assert!(matches!(error, DriverError::CommandTimeout { .. }), "{error:?}");
    let took = mock.clock.now() - before;
    assert!(took >= Duration::from_secs(10) && took < Duration::from_secs(11), "{took:?}");
    assert_eq!(mock.dma.mapped(), mapped + 1, "the controller may still write to it");
    assert_eq!(controller.admin_counters().timed_out, 1);

    let [(0, cid)] = mock.state().swallowed[..] else { panic!("one command") };
    mock.complete(0, cid, Status::SUCCESS);
    controller.admin(command::keep_alive(), Data::None).unwrap();
    assert_eq!(mock.dma.mapped(), mapped);
    let counters = controller.admin_counters();
    assert_eq!((counters.timed_out, counters.spurious), (0, 0));
}

#[test]
fn a_reset_frees_what_timed_out_commands_kept() {
    let mock = Mock::new(swallow(AdminOpcode::GET_LOG_PAGE));
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    controller.smart_log().unwrap_err();
    assert_eq!(mock.dma.mapped(), mapped + 1);
    controller.reset().unwrap();
    assert_eq!((mock.dma.mapped(), controller.admin_counters().timed_out), (mapped, 0));
}

#[test]
fn a_command_that_a_reset_overtakes_is_lost() {
    let mock = Mock::new(swallow(AdminOpcode::GET_LOG_PAGE));
    let options = ControllerOptions::new().admin_timeout(Duration::from_secs(100_000));
    let controller = Controller::open(mock.clone(), options).unwrap();
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| controller.smart_log().unwrap_err());
        while mock.state().swallowed.is_empty() {
            std::thread::yield_now();
        }
        controller.reset().unwrap();
        let error = waiting.join().unwrap();
        assert!(matches!(error, DriverError::CommandLost { .. }), "{error:?}");
    });
}

#[test]
fn a_full_admin_queue_is_an_error_not_an_overrun() {
    let mock = Mock::new(swallow(AdminOpcode::KEEP_ALIVE));
    let timeout = Duration::from_millis(100);
    let options = ControllerOptions::new().admin_entries(4).admin_timeout(timeout);
    let controller = Controller::open(mock.clone(), options).unwrap();
    // Two event requests are armed, so that one slot is left.
    let first = controller.admin(command::keep_alive(), Data::None).unwrap_err();
    assert!(matches!(first, DriverError::CommandTimeout { .. }), "{first:?}");
    let text = chain(&controller.admin(command::keep_alive(), Data::None).unwrap_err());
    assert_eq!(text, "mock: Keep Alive found the admin queue full: 3 commands outstanding for 100ms");
}

#[test]
fn completions_of_no_command_are_counted_with_both_numbers() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.complete(0, 0xfff0, Status::SUCCESS);
    mock.complete(0, 63, Status::SUCCESS);
    controller.admin(command::keep_alive(), Data::None).unwrap();
    let counters = controller.admin_counters();
    assert_eq!(counters.spurious, 2);
    assert_eq!(counters.last_spurious, Some(SpuriousCompletion { cid: 63, expected: None }));
}

#[test]
fn a_completion_of_an_earlier_generation_is_not_taken() {
    let mock = Mock::new(swallow(AdminOpcode::KEEP_ALIVE));
    let controller = open(&mock).unwrap();
    let _ = controller.admin(command::keep_alive(), Data::None);
    let [(0, old)] = mock.state().swallowed[..] else { panic!("one command") };
    mock.complete(0, old, Status::SUCCESS);
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Normal));
    controller.admin(command::keep_alive(), Data::None).unwrap();
    // The slot is free by now; a second completion of the same command is nobody's.
    mock.complete(0, old, Status::SUCCESS);
    controller.admin(command::keep_alive(), Data::None).unwrap();
    assert_eq!(controller.admin_counters().spurious, 1);
    assert_eq!(controller.admin_counters().last_spurious.unwrap().cid, old);
}

#[test]
fn abort_tells_whether_it_did() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    assert!(!controller.abort(Qid(1), Cid(7)).unwrap());
    assert_eq!(*mock.admin_opcodes().last().unwrap(), AdminOpcode::ABORT.0);
}

#[test]
fn long_log_pages_come_in_pieces() {
    let mock = Mock::new(|b| b.identify.lpa.set_extended_data(true));
    let controller = open(&mock).unwrap();
    let data = controller.log_page(LogPageId(0xc0), Nsid::ALL, 4096 * 2 + 4).unwrap();
    assert_eq!(data.len(), 8196);
    let reads = mock.admin_opcodes().iter().filter(|o| **o == AdminOpcode::GET_LOG_PAGE.0).count();
    assert_eq!(reads, 3);
}

#[test]
fn log_page_lengths_are_checked() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    for len in [0, 3, 4100] {
        let text = chain(&controller.log_page(LogPageId::SMART, Nsid::ALL, len).unwrap_err());
        let expected = format!("mock: {len} bytes of a log page: must be a multiple of 4 from 4 to 4096");
        assert_eq!(text, expected);
    }
}

#[test]
fn events_are_read_and_armed_again() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    assert!(controller.poll_events().unwrap().is_empty());
    let notice = 2 | u32::from(LogPageId::CHANGED_NAMESPACE_LIST.0) << 16;
    for round in 0..5 {
        assert!(mock.raise(notice), "round {round}: armed");
        let events = controller.poll_events().unwrap();
        assert_eq!(events.len(), 1);
        assert!(matches!(events[0].detail, EventDetail::Namespaces(_)), "{:?}", events[0]);
        assert_eq!(mock.state().event_requests.len(), 3);
    }
}

#[test]
fn an_event_request_that_fails_is_not_repeated_for_ever() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let cid = mock.state().event_requests.pop().unwrap();
    mock.complete(0, cid, Status::INTERNAL_ERROR);
    assert!(controller.poll_events().unwrap().is_empty());
    assert_eq!(mock.state().event_requests.len(), 2);
}

#[test]
fn an_event_whose_page_cannot_be_read_is_still_reported() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::GET_LOG_PAGE => Reply::Status(Status::INTERNAL_ERROR),
            _ => Reply::Normal,
        });
    });
    assert!(mock.raise(1 | u32::from(LogPageId::SMART.0) << 16));
    let events = controller.poll_events().unwrap();
    assert!(matches!(&events[0].detail, EventDetail::Unread(why) if why.contains("Internal Error")));
}

#[test]
fn several_threads_share_the_admin_queue() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    std::thread::scope(|scope| {
        let threads = [(); 4].map(|()| {
            scope.spawn(|| {
                for _ in 0..200 {
                    controller.smart_log().unwrap();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    let counters = controller.admin_counters();
    assert_eq!((counters.spurious, counters.timed_out, counters.outstanding), (0, 0, 3));
}

#[test]
fn a_look_for_events_has_its_own_limit() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.behave(swallow(AdminOpcode::GET_LOG_PAGE));
    (0..2).for_each(|_| assert!(mock.raise(1 | u32::from(LogPageId::SMART.0) << 16)));
    let (before, limit) = (mock.clock.now(), Duration::from_millis(300));
    let events = controller.poll_events_within(limit).unwrap();
    let took = mock.clock.now() - before;
    assert!(matches!(&events[..], [AsyncEvent { detail: EventDetail::Unread(_), .. }]), "{events:?}");
    assert!(took >= limit && took < limit * 2, "{took:?}");
    assert_eq!(
        controller.poll_events_within(limit).unwrap().len(),
        1,
        "the second has its turn at the next look"
    );
}
