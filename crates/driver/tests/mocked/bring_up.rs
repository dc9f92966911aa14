//! Enable, disable, shutdown, reset.

use std::time::Duration;

use warpbell_driver::{Controller, ControllerOptions, ControllerState, DriverError, QueueSpec};
use warpbell_hw::{Clock, Qid};
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::register::{ArbitrationMechanism, Cap, Cc, CommandSet, Crto, Shn};
use warpbell_nvme::status::Status;

use crate::mock::{Event, Follow, Mock, Reply};
use crate::{chain, open};

fn written_cc(mock: &Mock) -> Vec<Cc> {
    let cc = |event| match event {
        Event::Cc(cc) => Some(cc),
        _ => None,
    };
    mock.events().into_iter().filter_map(cc).collect()
}

#[test]
fn a_fresh_controller_is_programmed_before_it_is_enabled() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let events = mock.events();
    assert_eq!(events[0], Event::AdminQueues, "{events:?}");
    let [Event::Cc(configured), Event::Cc(enabled)] = events[1..3] else { panic!("{events:?}") };
    assert!(!configured.en() && enabled.en());
    assert_eq!(configured.with_en(true), enabled, "nothing but EN changes together with EN");
    assert_eq!((enabled.iosqes(), enabled.iocqes(), enabled.mps()), (6, 4, 0));
    assert_eq!(enabled.css(), CommandSet::NVM);
    assert_eq!(controller.state(), ControllerState::Ready);
}

#[test]
fn the_command_set_follows_cap() {
    let mock = Mock::new(|b| b.cap.set_css(1 | 1 << 6));
    open(&mock).unwrap();
    assert_eq!(written_cc(&mock)[1].css(), CommandSet::CSI);
    let mock = Mock::new(|b| b.cap.set_css(1 << 7));
    assert!(chain(&open(&mock).unwrap_err()).contains("CAP.CSS) is 128"));
}

#[test]
fn number_of_queues_comes_before_any_queue_and_events_after() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    controller.create_queue_pair(QueueSpec::new(4)).unwrap();
    let opcodes = mock.admin_opcodes();
    let at = |opcode: AdminOpcode| opcodes.iter().position(|o| *o == opcode.0).unwrap();
    assert_eq!(at(AdminOpcode::IDENTIFY), 0);
    assert!(at(AdminOpcode::SET_FEATURES) < at(AdminOpcode::CREATE_IO_CQ));
    assert!(at(AdminOpcode::CREATE_IO_CQ) < at(AdminOpcode::CREATE_IO_SQ));
    assert_eq!(mock.state().event_requests.len(), 3, "AERL is 2, zero-based");
}

#[test]
fn an_enabled_controller_is_disabled_first_keeping_its_other_bits() {
    let mock = Mock::new(|_| {});
    mock.left_enabled(true);
    open(&mock).unwrap();
    let first = written_cc(&mock)[0];
    assert!(!first.en());
    assert_eq!((first.iosqes(), first.iocqes()), (6, 4), "cleared together with EN: {first:?}");
    assert_eq!(first.shn(), Shn::NONE, "a shutdown could write to memory that is not ours");
}

#[test]
fn a_controller_that_is_getting_ready_is_waited_for_before_it_is_disabled() {
    let mock = Mock::new(|b| b.enable = Follow::After(Duration::from_millis(300)));
    mock.left_enabled(false);
    open(&mock).unwrap();
    assert!(mock.clock.now() >= Duration::from_millis(600), "waited for the old and the new enable");
}

#[test]
fn a_controller_in_fatal_error_is_reset_by_opening_it() {
    let mock = Mock::new(|_| {});
    mock.left_enabled(false);
    mock.state().fatal = true;
    open(&mock).unwrap();
}

#[test]
fn never_ready_ends_at_the_deadline() {
    for (to, crwmt, seconds) in [(6, 0, 3), (0, 0, 0), (2, 40, 20)] {
        let mock = Mock::new(|b| {
            b.enable = Follow::Never;
            b.cap = b.cap.with_to(to).with_crwms(crwmt != 0);
            b.crto = Crto::new().with_crwmt(crwmt);
        });
        let error = open(&mock).unwrap_err();
        assert!(matches!(error, DriverError::StateTimeout { .. }), "{error:?}");
        // A timeout of 0 is legal and does not mean "do not wait".
        let limit = Duration::from_secs(seconds).max(Duration::from_millis(500));
        let text = format!("mock: becoming ready (CSTS.RDY = 1) took longer than {limit:?} (CSTS 0x0)");
        assert_eq!(chain(&error), text);
        assert!(mock.clock.now() >= limit && mock.clock.now() < limit * 2 + Duration::from_secs(1));
        assert_eq!(mock.dma.mapped(), 0, "disabled again, so nothing had to be leaked");
    }
}

#[test]
fn a_fatal_status_while_enabling_is_an_error_at_once() {
    let mock = Mock::new(|b| b.enable = Follow::Fatal);
    let error = open(&mock).unwrap_err();
    assert_eq!(chain(&error), "mock: controller fatal status (CSTS 0x2) while becoming ready");
    assert!(mock.clock.now() < Duration::from_secs(1));
}

#[test]
fn all_ones_mean_gone() {
    let mock = Mock::new(|b| b.enable = Follow::Gone);
    assert!(matches!(open(&mock).unwrap_err(), DriverError::Gone { .. }));
    let mock = Mock::new(|_| {});
    mock.vanish();
    assert_eq!(chain(&open(&mock).unwrap_err()), "mock: register CAP reads as all ones: the device is gone");
}

#[test]
fn vanishing_is_noticed_while_waiting_for_a_command() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.vanish();
    let before = mock.clock.now();
    assert!(matches!(controller.smart_log().unwrap_err(), DriverError::Gone { .. }));
    assert!(mock.clock.now() - before < Duration::from_secs(1));
    assert_eq!(controller.state(), ControllerState::Gone);
    assert!(chain(&controller.smart_log().unwrap_err()).contains("the controller is gone"));
}

#[test]
fn a_stuck_controller_is_reset_from_outside_once() {
    let mock = Mock::new(|b| b.disable = Follow::Never);
    mock.left_enabled(true);
    let _controller = open(&mock).unwrap();
    assert_eq!(mock.events().iter().filter(|e| **e == Event::FunctionReset).count(), 1);

    let mock = Mock::new(|b| {
        b.disable = Follow::Never;
        b.function_reset = false;
    });
    mock.left_enabled(true);
    let text = chain(&open(&mock).unwrap_err());
    assert!(text.contains("becoming disabled") && text.contains("the mock has none"), "{text}");
    assert!(mock.dma.mapped() > 0, "a controller that is not disabled may still write: memory is leaked");
}

#[test]
fn pages_larger_than_ours_are_refused() {
    let mock = Mock::new(|b| b.cap = b.cap.with_mpsmin(2).with_mpsmax(4));
    let text = chain(&open(&mock).unwrap_err());
    assert_eq!(text, "mock: the smallest memory page (CAP.MPSMIN) in bytes is 16384, this driver needs 4096");
}

#[test]
fn zero_queue_entries_are_taken_for_sixty_four() {
    let mock = Mock::new(|b| b.cap.set_mqes_z(0));
    assert_eq!(open(&mock).unwrap().max_entries(), 64);
}

#[test]
fn weighted_round_robin_needs_the_capability() {
    let options = ControllerOptions::new().weighted_round_robin(true);
    let mock = Mock::new(|_| {});
    let error = Controller::open(mock, options.clone()).unwrap_err();
    assert!(chain(&error).contains("CAP.AMS"));
    let mock = Mock::new(|b| b.cap.set_ams(1));
    Controller::open(mock.clone(), options).unwrap();
    assert_eq!(written_cc(&mock)[1].ams(), ArbitrationMechanism::WEIGHTED_ROUND_ROBIN);
}

#[test]
fn admin_queue_sizes_are_checked() {
    for admin_entries in [0, 1, 3, 8192] {
        let options = ControllerOptions::new().admin_entries(admin_entries);
        let text = chain(&Controller::open(Mock::new(|_| {}), options).unwrap_err());
        let expected = format!("queue of {admin_entries} entries: must be a power of two from 2 to 4096");
        assert!(text.contains(&expected), "{text}");
    }
    let options = ControllerOptions::new().admin_entries(2);
    Controller::open(Mock::new(|_| {}), options).unwrap();
}

#[test]
fn shutdown_deletes_queues_then_notifies_then_disables() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pairs: Vec<_> = (0..2).map(|_| controller.create_queue_pair(QueueSpec::new(8)).unwrap()).collect();
    let before = mock.events().len();
    controller.shutdown().unwrap();
    let events = mock.events()[before..].to_vec();
    let opcodes: Vec<AdminOpcode> =
        mock.admin_opcodes().iter().rev().take(4).rev().map(|o| AdminOpcode(*o)).collect();
    let (sq, cq) = (AdminOpcode::DELETE_IO_SQ, AdminOpcode::DELETE_IO_CQ);
    assert_eq!(opcodes, [sq, sq, cq, cq]);
    let [Event::Cc(notified), Event::Cc(disabled)] = events[4..6] else { panic!("{events:?}") };
    assert_eq!((notified.shn(), notified.en(), disabled.en()), (Shn::NORMAL, true, false));
    assert!(pairs.iter().all(|pair| pair.is_retired()));
    drop(pairs);
    assert_eq!(mock.dma.mapped(), 0);
    assert_eq!(mock.dma.violations(), [0; 0]);
}

#[test]
fn a_shutdown_that_never_ends_is_an_error_and_disables_all_the_same() {
    let mock = Mock::new(|b| b.shutdown = Follow::Never);
    let text = chain(&open(&mock).unwrap().shutdown().unwrap_err());
    assert_eq!(text, "mock: shutting down (CSTS.SHST = 2) took longer than 5s (CSTS 0x5)");
    assert_eq!(mock.dma.mapped(), 0);
}

#[test]
fn the_controller_says_how_long_a_shutdown_takes() {
    let mock = Mock::new(|b| {
        b.identify.rtd3e = 8_000_000;
        b.shutdown = Follow::After(Duration::from_secs(7));
    });
    open(&mock).unwrap().shutdown().unwrap();
}

#[test]
fn dropping_shuts_down_in_bounded_time() {
    let mock = Mock::new(|b| b.shutdown = Follow::Never);
    let controller = open(&mock).unwrap();
    let before = mock.clock.now();
    drop(controller);
    assert!(mock.clock.now() - before < Duration::from_secs(4));
    assert!(!written_cc(&mock).last().unwrap().en());
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (0, vec![]));
}

#[test]
fn a_controller_that_cannot_be_stopped_keeps_its_memory() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    mock.behave(|b| {
        b.disable = Follow::Never;
        b.function_reset = false;
    });
    drop(controller);
    drop(pair);
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (4, vec![]));
}

#[test]
fn dropping_does_not_wait_as_long_as_a_controller_asks_for() {
    for fallen in [false, true] {
        let mock = Mock::new(|b| b.cap.set_to(255));
        let controller = open(&mock).unwrap();
        mock.behave(|b| {
            b.disable = Follow::Never;
            b.function_reset = false;
        });
        if fallen {
            mock.fall();
        }
        let before = mock.clock.now();
        drop(controller);
        let took = mock.clock.now() - before;
        assert!(took < Duration::from_secs(11), "fallen {fallen}: {took:?}");
        assert_eq!(mock.dma.violations(), [0u64; 0]);
    }
}

#[test]
fn a_status_of_the_moment_does_not_make_another_namespace_of_one() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match AdminOpcode(sqe.opcode()) {
            AdminOpcode::IDENTIFY if sqe.nsid == 1 => Reply::Status(Status::COMMAND_INTERRUPTED),
            _ => Reply::Normal,
        });
    });
    let error = controller.reset().unwrap_err().to_string();
    assert!(error.contains("Command Interrupted"), "{error}");
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Normal));
    assert_eq!(controller.reset().unwrap().changed_namespaces, []);
}

#[test]
fn reset_reports_what_was_lost_and_starts_again() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    mock.behave(|b| b.namespaces.get_mut(&1).unwrap().nsze = 2000);
    let before = mock.events().len();
    let report = controller.reset().unwrap();
    assert_eq!(report.lost_queues, [Qid(1)]);
    assert_eq!(report.changed_namespaces, [warpbell_hw::Nsid(1)]);
    let events = &mock.events()[before..];
    assert!(events.contains(&Event::AdminQueues), "admin queues are written again: {events:?}");
    assert!(pair.is_retired());
    let other = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    assert_eq!(other.qid(), Qid(2), "the old pair still holds its identifier");
    drop(pair);
    assert_eq!(controller.create_queue_pair(QueueSpec::new(8)).unwrap().qid(), Qid(1));
    assert_eq!(mock.state().event_requests.len(), 3);
    assert_eq!(mock.dma.violations(), [0; 0]);
}

#[test]
fn reset_brings_a_controller_back_from_fatal_error() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    mock.state().fatal = true;
    assert!(matches!(controller.check_health().unwrap_err(), DriverError::Fatal { .. }));
    let text = chain(&controller.smart_log().unwrap_err());
    assert_eq!(text, "mock: cannot execute an admin command: the controller is in fatal error");
    controller.reset().unwrap();
    controller.smart_log().unwrap();
}

#[test]
fn capabilities_are_shown() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    assert_eq!(
        controller.capabilities(),
        Cap::new().with_mqes_z(u16::MAX).with_cqr(true).with_to(2).with_css(1)
    );
    assert_eq!(controller.max_entries(), 65536);
    assert_eq!(controller.max_transfer_bytes(), Some(128 << 10));
    assert!(!controller.supports_sgl());
    assert_eq!(controller.version().to_string(), "1.4.0");
}
