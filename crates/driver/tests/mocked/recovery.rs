//! Aborts, deletions and resets that do not go well at the first try.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use warpbell_driver::{
    AbortOutcome, Controller, ControllerState, Data, DriverError, QueueSpec, ResetMethod, Shutdown,
};
use warpbell_hw::{Cid, Clock, Qid};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::feature::{Arbitration, FeatureId, TemperatureThreshold};
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::mock::{Event, Follow, Mock, Reply};
use crate::{chain, open};

const SECOND: Duration = Duration::from_secs(1);

/// Answers one kind of admin command in its own way.
fn on(opcode: AdminOpcode, reply: Reply) -> impl FnOnce(&mut crate::mock::Behaviour) {
    move |behaviour| {
        behaviour.script = Box::new(move |qid, sqe: &Sqe| match (qid, AdminOpcode(sqe.opcode())) {
            (0, found) if found == opcode => reply,
            _ => Reply::Normal,
        });
    }
}

fn normal(mock: &Mock) {
    mock.behave(|b| b.script = Box::new(|_, _| Reply::Normal));
}

/// The admin opcodes since there were `before` of them.
fn opcodes_since(mock: &Mock, before: usize) -> Vec<AdminOpcode> {
    mock.admin_opcodes()[before..].iter().copied().map(AdminOpcode).collect()
}

#[test]
fn no_more_aborts_are_outstanding_than_the_controller_takes() {
    let mock = Mock::new(|b| b.identify.acl_z = 1);
    let controller = open(&mock).unwrap();
    assert_eq!(controller.abort_limit(), 2);
    mock.behave(on(AdminOpcode::ABORT, Reply::Swallow));
    for cid in [1, 2] {
        let error = controller.abort_within(Qid(1), Cid(cid), SECOND).unwrap_err();
        assert!(matches!(error, DriverError::CommandTimeout { limit: SECOND, .. }), "{error:?}");
    }
    let before = mock.clock.now();
    let text = chain(&controller.abort_within(Qid(1), Cid(3), SECOND).unwrap_err());
    assert!(
        text.starts_with("mock: 2 Aborts outstanding for 1s, as many as this controller takes"),
        "{text}"
    );
    assert!(mock.clock.now() - before < 2 * SECOND);
    assert_eq!(mock.state().swallowed.len(), 2, "the third was not even submitted");
    assert!(!controller.takes_abort());
    controller.admin(command::keep_alive(), Data::None).expect("other commands have their room");

    let (_, late) = mock.state().swallowed[0];
    normal(&mock);
    mock.complete(0, late, Status::SUCCESS);
    assert!(controller.takes_abort());
    assert_eq!(controller.abort_within(Qid(1), Cid(3), SECOND).unwrap(), AbortOutcome::NotAborted);
    controller.reset().unwrap();
    for cid in 0..5 {
        controller.abort_within(Qid(1), Cid(cid), SECOND).expect("a reset ends what was outstanding");
    }
}

#[test]
fn a_second_try_goes_on_with_the_half_that_is_left() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    mock.behave(on(AdminOpcode::DELETE_IO_CQ, Reply::Status(Status::INTERNAL_ERROR.with_dnr(true))));
    let text = chain(&controller.retire_queue_pair_within(&pair, SECOND).unwrap_err());
    assert!(text.starts_with("mock: cannot delete the completion queue of queue 1"), "{text}");
    assert!(!pair.is_retired());
    normal(&mock);
    let before = mock.admin_opcodes().len();
    controller.retire_queue_pair_within(&pair, SECOND).unwrap();
    assert_eq!(opcodes_since(&mock, before), [AdminOpcode::DELETE_IO_CQ]);
    assert!(pair.is_retired());
    controller.retire_queue_pair_within(&pair, SECOND).expect("there is nothing left to do");
    drop(pair);
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (mapped, vec![]));
    assert_eq!(controller.create_queue_pair(QueueSpec::new(2)).unwrap().qid(), Qid(1));
}

#[test]
fn a_deletion_that_was_not_answered_is_found_to_have_happened() {
    for (half, first) in
        [(AdminOpcode::DELETE_IO_SQ, "submission"), (AdminOpcode::DELETE_IO_CQ, "completion")]
    {
        let mock = Mock::new(|_| {});
        let controller = open(&mock).unwrap();
        let mapped = mock.dma.mapped();
        let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
        mock.behave(on(half, Reply::Mute));
        let before = mock.clock.now();
        let text = chain(&controller.retire_queue_pair_within(&pair, SECOND).unwrap_err());
        assert!(text.starts_with(&format!("mock: cannot delete the {first} queue of queue 1")), "{text}");
        assert!(mock.clock.now() - before < SECOND * 3 / 2);
        normal(&mock);
        controller.retire_queue_pair_within(&pair, SECOND).unwrap();
        drop(pair);
        assert_eq!(mock.dma.mapped(), mapped);
        // The first command may still be executed: it must not meet a new queue of that name.
        let other = controller.create_queue_pair(QueueSpec::new(2)).unwrap();
        assert_eq!(other.qid(), Qid(2));
        let (_, late) = mock.state().swallowed[0];
        mock.complete(0, late, Status::SUCCESS);
        controller.admin(command::keep_alive(), Data::None).unwrap();
        assert_eq!(controller.create_queue_pair(QueueSpec::new(2)).unwrap().qid(), Qid(1));
        assert_eq!(mock.dma.violations(), [0u64; 0]);
    }
}

#[test]
fn a_queue_that_a_first_try_does_not_find_is_an_error() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(64)).unwrap();
    mock.behave(on(AdminOpcode::DELETE_IO_SQ, Reply::Status(Status::INVALID_QUEUE_IDENTIFIER)));
    let error = controller.retire_queue_pair(&pair).unwrap_err();
    assert!(error.status().is_some_and(|status| status.same_code(Status::INVALID_QUEUE_IDENTIFIER)));
}

#[test]
fn a_creation_that_may_still_happen_keeps_its_memory_at_every_try() {
    let mock = Mock::new(on(AdminOpcode::CREATE_IO_CQ, Reply::Swallow));
    let controller = open(&mock).unwrap();
    let mapped = mock.dma.mapped();
    controller.create_queue_pair(QueueSpec::new(64)).unwrap_err();
    normal(&mock);
    assert_eq!(controller.reclaim_queues(SECOND), 1, "there is no queue yet, but there may be one soon");
    assert_eq!(mock.dma.mapped(), mapped + 2);
    let (_, late) = mock.state().swallowed[0];
    mock.complete(0, late, Status::INTERNAL_ERROR);
    controller.admin(command::keep_alive(), Data::None).unwrap();
    assert_eq!(controller.reclaim_queues(SECOND), 0);
    assert_eq!((mock.dma.mapped(), mock.dma.violations()), (mapped, vec![]));
    assert_eq!(controller.create_queue_pair(QueueSpec::new(64)).unwrap().qid(), Qid(1));
}

#[test]
fn a_reset_with_a_limit_leaves_a_stuck_controller_to_the_caller() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    mock.behave(|b| b.disable = Follow::Never);
    let before = mock.clock.now();
    let limit = Duration::from_millis(300);
    let error = controller.reset_within(ResetMethod::Controller, limit).unwrap_err();
    assert!(matches!(error, DriverError::StateTimeout { .. }), "{error:?}");
    assert!(mock.clock.now() - before < 2 * limit, "CAP.TO says a second");
    assert!(!mock.events().contains(&Event::FunctionReset));
    assert_eq!(controller.state(), ControllerState::Stuck);
    assert!(!pair.is_retired(), "it may still be there");

    mock.behave(|b| b.disable = Follow::After(Duration::from_millis(10)));
    let report = controller.reset_within(ResetMethod::Function, SECOND).unwrap();
    assert_eq!(report.lost_queues, [pair.qid()]);
    assert!(mock.events().contains(&Event::FunctionReset));
    assert!(pair.is_retired() && report.took < SECOND && report.took > Duration::ZERO);
    controller.smart_log().unwrap();
}

#[test]
fn a_function_that_cannot_be_reset_is_as_it_was() {
    let mock = Mock::new(|b| b.function_reset = false);
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    let text = chain(&controller.reset_within(ResetMethod::Function, SECOND).unwrap_err());
    assert!(text.starts_with("mock: its function cannot be reset: "), "{text}");
    assert_eq!(controller.state(), ControllerState::Ready);
    controller.delete_queue_pair(pair).unwrap();
}

#[test]
fn a_subsystem_reset_waits_for_a_function_that_is_away_for_a_while() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let text = chain(&controller.reset_within(ResetMethod::Subsystem, SECOND).unwrap_err());
    assert_eq!(text, "mock: the support for NVM subsystem resets (CAP.NSSRS) is 0, this driver needs 1");
    assert_eq!(controller.state(), ControllerState::Ready);

    let mock = Mock::new(|b| (b.cap.set_nssrs(true), b.silence = SECOND / 4).0);
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    let report = controller.reset_within(ResetMethod::Subsystem, SECOND).unwrap();
    assert!(mock.events().contains(&Event::SubsystemReset));
    assert_eq!(report.lost_queues, [pair.qid()]);
    controller.smart_log().unwrap();

    mock.behave(|b| b.silence = 3600 * SECOND);
    let before = mock.clock.now();
    let error = controller.reset_within(ResetMethod::Subsystem, SECOND).unwrap_err();
    assert!(matches!(error, DriverError::Gone { .. }), "{error:?}");
    assert!(mock.clock.now() - before < 2 * SECOND);
    assert_eq!(controller.state(), ControllerState::Gone);
}

#[test]
fn what_was_set_is_set_again_after_a_reset() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    controller.set_arbitration(Arbitration::new().with_ab(3)).unwrap();
    let threshold = |sensor, kelvin| TemperatureThreshold::new().with_tmpsel(sensor).with_tmpth(kelvin);
    controller.set_temperature_threshold(threshold(0, 350)).unwrap();
    controller.set_temperature_threshold(threshold(1, 360)).unwrap();
    controller.set_temperature_threshold(threshold(0, 340)).unwrap();
    controller.set_volatile_write_cache(false).unwrap();
    mock.behave(|b| {
        b.script = Box::new(|_, sqe| match (AdminOpcode(sqe.opcode()), FeatureId(sqe.cdw10 as u8)) {
            (AdminOpcode::SET_FEATURES, FeatureId::VOLATILE_WRITE_CACHE) => {
                Reply::Status(Status::INVALID_FIELD)
            }
            _ => Reply::Normal,
        });
    });
    mock.state().features.clear();
    let report = controller.reset_within(ResetMethod::Controller, SECOND).unwrap();
    let set = |feature: FeatureId, value| (u32::from(feature.0), value);
    let features = mock.state().features.clone();
    assert_eq!(features[0].0, u32::from(FeatureId::ASYNC_EVENT_CONFIG.0));
    assert_eq!(
        features[1..],
        [
            set(FeatureId::ARBITRATION, 3),
            set(FeatureId::TEMPERATURE_THRESHOLD, 1 << 16 | 360),
            set(FeatureId::TEMPERATURE_THRESHOLD, 340),
        ]
    );
    assert_eq!(report.features_lost.len(), 1, "{report:?}");
    assert_eq!(report.features_lost[0].0, FeatureId::VOLATILE_WRITE_CACHE);
    assert_eq!(mock.state().event_requests.len(), 3, "events are armed again");
}

/// What other threads got while the controller was being set up.
type Seen = Arc<Mutex<Vec<DriverError>>>;

#[test]
fn commands_of_others_are_refused_until_a_reset_is_over() {
    let mock = Mock::new(|_| {});
    let controller = Arc::new(open(&mock).unwrap());
    let (seen, weak): (Seen, _) = (Arc::default(), Arc::downgrade(&controller));
    let noted = seen.clone();
    mock.behave(|b| {
        b.script = Box::new(move |_, sqe| {
            let queues = (AdminOpcode::SET_FEATURES.0, FeatureId::NUMBER_OF_QUEUES.0);
            if (sqe.opcode(), sqe.cdw10 as u8) == queues {
                let controller: Arc<Controller> = weak.upgrade().unwrap();
                let other = std::thread::spawn(move || controller.admin(command::keep_alive(), Data::None));
                noted.lock().extend(other.join().unwrap().err());
            }
            Reply::Normal
        });
    });
    controller.reset_within(ResetMethod::Controller, SECOND).unwrap();
    let seen = std::mem::take(&mut *seen.lock());
    assert!(
        matches!(seen[..], [DriverError::State { state: ControllerState::Starting, .. }]),
        "the number of queues must come first: {seen:?}"
    );
    controller.admin(command::keep_alive(), Data::None).unwrap();
}

#[test]
fn a_reset_that_fails_half_way_can_be_tried_again() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    mock.behave(on(AdminOpcode::SET_FEATURES, Reply::Swallow));
    let before = mock.clock.now();
    let error = controller.reset_within(ResetMethod::Controller, SECOND).unwrap_err();
    assert!(matches!(error, DriverError::CommandTimeout { .. }), "{error:?}");
    assert!(mock.clock.now() - before < 2 * SECOND, "not the admin timeout");
    assert_eq!(controller.state(), ControllerState::Stuck);
    assert!(pair.is_retired(), "it is gone all the same");
    let text = chain(&controller.smart_log().unwrap_err());
    assert_eq!(text, "mock: cannot execute an admin command: the controller is stuck");
    normal(&mock);
    controller.reset_within(ResetMethod::Controller, SECOND).unwrap();
    assert_eq!(controller.create_queue_pair(QueueSpec::new(8)).unwrap().qid(), Qid(2), "1 is still held");
}

#[test]
fn a_shutdown_is_not_taken_for_a_controller_that_fell() {
    let mock = Mock::new(|b| b.disable = Follow::After(SECOND / 10));
    let controller = Arc::new(open(&mock).unwrap());
    let (seen, watched) = (Arc::new(Mutex::new(Vec::new())), Arc::downgrade(&controller));
    let states = seen.clone();
    mock.clock.meanwhile(move || {
        let Some(controller) = watched.upgrade() else { return };
        let health = controller.check_health().map_err(|error| error.to_string());
        states.lock().push((controller.state(), health));
    });
    controller.shut_down(Shutdown::Normal, Some(10 * SECOND)).unwrap();
    let seen = seen.lock();
    assert!(seen.len() > 10, "{seen:?}");
    assert!(seen.iter().all(|(state, _)| *state == ControllerState::Starting), "{seen:?}");
    assert_eq!(controller.state(), ControllerState::Disabled);
}
