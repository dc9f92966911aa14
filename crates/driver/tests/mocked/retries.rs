//! Commands that are submitted again: which, how often, and when.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warpbell_driver::{
    Controller, ControllerOptions, Data, IoQueue, IoQueueOptions, Outcome, QueueSpec, RetryPolicy, Token,
};
use warpbell_hw::{Cid, Clock, Nsid, Qid};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::mock::{Mock, Reply};
use crate::open;

const MS: Duration = Duration::from_millis(1);
const SECOND: Duration = Duration::from_secs(1);
const INTERRUPTED: Status = Status::COMMAND_INTERRUPTED;

/// Answers the first `times` commands of the wanted kind with a status; counts all of them.
fn fail(
    mock: &Mock,
    wanted: impl Fn(u16, &Sqe) -> bool + Send + 'static,
    times: u32,
    status: Status,
) -> Arc<AtomicU32> {
    let count = Arc::new(AtomicU32::new(0));
    let seen = count.clone();
    mock.behave(|b| {
        b.script = Box::new(move |qid, sqe| match wanted(qid, sqe) {
            true if seen.fetch_add(1, Ordering::Relaxed) < times => Reply::Status(status),
            _ => Reply::Normal,
        });
    });
    count
}

fn keep_alive(qid: u16, sqe: &Sqe) -> bool {
    qid == 0 && sqe.opcode() == AdminOpcode::KEEP_ALIVE.0
}

fn delayed(mock: &Arc<Mock>) -> Controller {
    mock.behave(|b| (b.identify.crdt1, b.identify.crdt2, b.identify.crdt3) = (1, 20, 300));
    open(mock).unwrap()
}

#[test]
fn an_admin_command_is_tried_three_times_more() {
    for (times, ok) in [(1, true), (3, true), (4, false)] {
        let mock = Mock::new(|_| {});
        let controller = open(&mock).unwrap();
        let count = fail(&mock, keep_alive, times, INTERRUPTED);
        let done = controller.admin(command::keep_alive(), Data::None);
        assert_eq!(done.is_ok(), ok, "{done:?}");
        assert_eq!(count.load(Ordering::Relaxed), 4.min(times + 1));
        assert_eq!(controller.admin_counters().retried, u64::from(times.min(3)));
    }
}

#[test]
fn what_cannot_help_is_not_tried() {
    for status in [INTERRUPTED.with_dnr(true), Status::INVALID_FIELD, Status::ABORT_REQUESTED] {
        let mock = Mock::new(|_| {});
        let controller = open(&mock).unwrap();
        let count = fail(&mock, keep_alive, 9, status);
        let error = controller.admin(command::keep_alive(), Data::None).unwrap_err();
        assert_eq!((error.status(), count.load(Ordering::Relaxed)), (Some(status), 1));
    }
    let mock = Mock::new(|_| {});
    let options = ControllerOptions::new().admin_retries(0);
    let controller = Controller::open(mock.clone(), options).unwrap();
    let count = fail(&mock, keep_alive, 9, INTERRUPTED);
    controller.admin(command::keep_alive(), Data::None).unwrap_err();
    assert_eq!(count.load(Ordering::Relaxed), 1, "switched off");
}

#[test]
fn an_abort_is_sent_once() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let abort = |qid, sqe: &Sqe| qid == 0 && sqe.opcode() == AdminOpcode::ABORT.0;
    let count = fail(&mock, abort, 9, INTERRUPTED);
    let error = controller.abort(Qid(1), Cid(3)).unwrap_err();
    assert_eq!((error.status(), count.load(Ordering::Relaxed)), (Some(INTERRUPTED), 1));
}

#[test]
fn a_retry_waits_as_long_as_the_controller_asks_for_and_the_time_allows() {
    let mock = Mock::new(|_| {});
    let controller = delayed(&mock);
    let features = mock.admin_opcodes().iter().filter(|op| **op == AdminOpcode::SET_FEATURES.0).count();
    assert_eq!(features, 3, "number of queues, host behavior, events");
    fail(&mock, keep_alive, 2, INTERRUPTED.with_crd(2));
    let before = mock.clock.now();
    controller.admin(command::keep_alive(), Data::None).unwrap();
    let took = mock.clock.now() - before;
    assert!(took >= 4 * SECOND && took < 5 * SECOND, "{took:?}");
    // 30 s do not fit 10 s.
    let count = fail(&mock, keep_alive, 2, INTERRUPTED.with_crd(3));
    let before = mock.clock.now();
    controller.admin(command::keep_alive(), Data::None).unwrap_err();
    assert!(mock.clock.now() - before < SECOND && count.load(Ordering::Relaxed) == 1);
}

fn io_queue(controller: &Controller, timeout: Duration, attempts: u32) -> IoQueue {
    let retry = controller.retry_policy(attempts);
    let options = IoQueueOptions::new().timeout(timeout).retry(retry);
    IoQueue::new(controller.create_queue_pair(QueueSpec::new(64)).unwrap(), options).unwrap()
}

fn write_of(lba: u64) -> impl Fn(u16, &Sqe) -> bool {
    move |qid, sqe| qid != 0 && sqe.slba() == lba
}

/// Waits for everything; the outcomes in the order of `tokens`.
fn outcomes(queue: &mut IoQueue, tokens: &[Token]) -> Vec<Outcome> {
    let mut done = vec![None; tokens.len()];
    while let Some(completion) = queue.wait(100 * SECOND) {
        let index = tokens.iter().position(|token| *token == completion.token).expect("a token of ours");
        assert_eq!(done[index].replace(completion.outcome), None, "reported once");
    }
    done.into_iter().map(|outcome| outcome.expect("each is reported")).collect()
}

#[test]
fn an_io_queue_retries_under_the_name_that_its_caller_knows() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mut queue = io_queue(&controller, SECOND, 2);
    for (times, last) in [(0, Status::SUCCESS), (2, Status::SUCCESS), (3, INTERRUPTED), (9, INTERRUPTED)] {
        fail(&mock, write_of(3), times, INTERRUPTED);
        let before = queue.counters().retried;
        let tokens: Vec<_> = (0..7).map(|lba| queue.push(&command::read(1, lba, 0)).unwrap()).collect();
        let outcomes = outcomes(&mut queue, &tokens);
        for (lba, outcome) in (0..).zip(outcomes) {
            let expected = if lba == 3 { last } else { Status::SUCCESS };
            assert_eq!(outcome, Outcome::Completed(expected), "lba {lba}, failing {times} times");
        }
        assert_eq!(queue.counters().retried - before, u64::from(times.min(2)));
        assert_eq!(queue.outstanding(), 0);
    }
    let pair = queue.into_pair();
    assert!(pair.index_base().is_some(), "idle");
}

#[test]
fn flushes_that_move_the_counters_are_not_submitted_again() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let mut queue = io_queue(&controller, SECOND, 2);
    let flushes = fail(&mock, |qid, sqe| qid != 0 && sqe.opcode() == 0, 2, INTERRUPTED);
    queue.advance_to(5, Nsid(1)).unwrap();
    assert_eq!(flushes.load(Ordering::Relaxed), 5, "an entry each");
    // Both rings stand where they are said to, and retries work again.
    let count = fail(&mock, write_of(3), 2, INTERRUPTED);
    let token = queue.push(&command::read(1, 3, 0)).unwrap();
    assert_eq!(outcomes(&mut queue, &[token]), [Outcome::Completed(Status::SUCCESS)]);
    assert_eq!(count.load(Ordering::Relaxed), 3);
    assert_eq!((queue.counters().retried, queue.into_pair().index_base()), (2, Some(8)));
}

#[test]
fn a_queue_that_was_not_asked_to_does_not_retry() {
    let mock = Mock::new(|_| {});
    let controller = open(&mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    let mut queue = IoQueue::new(pair, IoQueueOptions::default()).unwrap();
    let count = fail(&mock, write_of(3), 1, INTERRUPTED);
    let completion = queue.execute(&command::read(1, 3, 0)).unwrap();
    assert_eq!(completion.outcome, Outcome::Completed(INTERRUPTED));
    assert_eq!((count.load(Ordering::Relaxed), queue.counters().retried), (1, 0));
}

#[test]
fn an_io_retry_waits_its_time_and_others_pass_it() {
    let mock = Mock::new(|_| {});
    let controller = delayed(&mock);
    let mut queue = io_queue(&controller, 10 * SECOND, 3);
    fail(&mock, write_of(3), 1, INTERRUPTED.with_crd(2));
    let slow = queue.push(&command::read(1, 3, 0)).unwrap();
    let before = mock.clock.now();
    for lba in 10..40 {
        let fast = queue.submit(&command::read(1, lba, 0)).expect("one slot is held, the others are not");
        assert_eq!(queue.wait(SECOND).map(|done| done.token), Some(fast));
    }
    assert!(mock.clock.now() - before < SECOND);
    assert_eq!(queue.outstanding(), 1);
    let completion = queue.wait(5 * SECOND).unwrap();
    assert_eq!((completion.token, completion.is_ok()), (slow, true));
    let took = mock.clock.now() - before;
    assert!(took >= 2 * SECOND && took < 3 * SECOND, "{took:?}");
}

#[test]
fn a_deadline_holds_for_all_tries_together() {
    let mock = Mock::new(|_| {});
    let controller = delayed(&mock);
    let mut queue = io_queue(&controller, 800 * MS, 100);
    fail(&mock, write_of(3), u32::MAX, INTERRUPTED.with_crd(1));
    let token = queue.submit(&command::read(1, 3, 0)).unwrap();
    let before = mock.clock.now();
    let completion = queue.wait(100 * SECOND).unwrap();
    assert_eq!((completion.token, completion.outcome), (token, Outcome::TimedOut));
    assert!(mock.clock.now() - before < 1100 * MS);
    assert_eq!(queue.outstanding(), 0, "while it waits for its time, the controller knows nothing of it");
    assert!(queue.counters().retried >= 7);

    // One that the controller has holds its slot.
    mock.behave(|b| {
        let mut first = true;
        b.script = Box::new(move |_, _| match std::mem::take(&mut first) {
            true => Reply::Status(INTERRUPTED),
            false => Reply::Swallow,
        });
    });
    let token = queue.submit(&command::read(1, 3, 0)).unwrap();
    let completion = queue.wait(100 * SECOND).unwrap();
    assert_eq!((completion.token, completion.outcome), (token, Outcome::TimedOut));
    assert_eq!(queue.outstanding(), 1);
    let (qid, cid) = mock.state().swallowed[0];
    assert_ne!(cid, token.cid.0, "it has another name by now");
    mock.complete(qid, cid, Status::SUCCESS);
    assert!(queue.wait(SECOND).is_none());
    assert_eq!((queue.outstanding(), queue.counters().late), (0, 1));
}

#[test]
fn a_policy_is_bounded_and_heeds_dnr_and_crd() {
    let policy = RetryPolicy::new().attempts(2).delays([MS, 2 * MS, 3 * MS]);
    assert_eq!(policy.delay(INTERRUPTED, 0), Some(Duration::ZERO));
    assert_eq!(policy.delay(INTERRUPTED.with_crd(3), 1), Some(3 * MS));
    assert_eq!(policy.delay(INTERRUPTED, 2), None);
    assert_eq!(policy.delay(INTERRUPTED.with_dnr(true), 0), None);
    assert_eq!(policy.delay(Status::SUCCESS, 0), None);
    assert_eq!(RetryPolicy::default().delay(INTERRUPTED, 0), None);
}
