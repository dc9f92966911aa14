//! The host's queue against completions that come late, wrong or never.

use std::sync::Arc;
use std::time::Duration;

use warpbell_driver::{
    Controller, DriverError, IoQueue, IoQueueOptions, Outcome, QueueSpec, SpuriousCompletion,
};
use warpbell_hw::{Cid, Clock, Nsid};
use warpbell_nvme::command;
use warpbell_nvme::status::Status;

use crate::mock::{Mock, Reply};
use crate::{chain, open};

fn queue(mock: &Arc<Mock>, entries: u32) -> (Controller, IoQueue) {
    let controller = open(mock).unwrap();
    let pair = controller.create_queue_pair(QueueSpec::new(entries)).unwrap();
    let options = IoQueueOptions::new().timeout(Duration::from_secs(1));
    let queue = IoQueue::new(pair, options).unwrap();
    (controller, queue)
}

fn swallowing() -> Arc<Mock> {
    Mock::new(|b| b.script = Box::new(|qid, _| if qid == 0 { Reply::Normal } else { Reply::Swallow }))
}

/// Pops until something comes, for up to `limit` of virtual time.
fn wait(mock: &Mock, queue: &mut IoQueue, limit: Duration) -> Option<warpbell_driver::Completion> {
    let end = mock.clock.now() + limit;
    while mock.clock.now() < end {
        if let Some(completion) = queue.pop() {
            return Some(completion);
        }
        queue.pause(Duration::from_millis(5));
    }
    None
}

#[test]
fn a_command_past_its_deadline_is_reported_once_and_its_slot_quarantined() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 4);
    let started = mock.clock.now();
    let token = queue.submit(&command::flush(1)).unwrap();
    let timed_out = wait(&mock, &mut queue, Duration::from_secs(5)).unwrap();
    let took = mock.clock.now() - started;
    assert_eq!((timed_out.token, timed_out.outcome), (token, Outcome::TimedOut));
    assert!(took >= Duration::from_secs(1) && took <= Duration::from_millis(1300), "{took:?}");
    assert!(wait(&mock, &mut queue, Duration::from_secs(5)).is_none(), "reported once");
    assert_eq!((queue.outstanding(), queue.room(), queue.counters().timed_out), (1, 2, 1));

    // The other slots go on; none of them gets the quarantined identifier.
    for _ in 0..8 {
        let other = queue.submit(&command::flush(1)).unwrap();
        assert_ne!(other.slot, token.slot);
        mock.complete(1, other.cid.0, Status::SUCCESS);
        assert!(queue.pop().unwrap().is_ok());
    }
    mock.complete(1, token.cid.0, Status::SUCCESS);
    assert!(queue.pop().is_none(), "a late completion is not reported");
    let counters = queue.counters();
    assert_eq!((counters.late, counters.spurious, queue.outstanding()), (1, 0, 0));
}

#[test]
fn a_completion_that_beats_its_timeout_wins() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 4);
    let token = queue.submit(&command::flush(1)).unwrap();
    mock.clock.pause(Duration::from_secs(3));
    queue.check_deadlines();
    mock.complete(1, token.cid.0, Status::SUCCESS);
    assert!(queue.pop().unwrap().is_ok());
    assert!(wait(&mock, &mut queue, Duration::from_secs(3)).is_none());
    assert_eq!(queue.counters().timed_out, 0);
}

#[test]
fn quarantine_does_not_starve_the_rest_of_the_queue() {
    // Seven slots, of which five hang for ever: less than one completion doorbell batch is left.
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 8);
    for _ in 0..6 {
        queue.push(&command::flush(1)).unwrap();
    }
    queue.ring();
    for _ in 0..6 {
        assert_eq!(wait(&mock, &mut queue, Duration::from_secs(5)).unwrap().outcome, Outcome::TimedOut);
    }
    for round in 0..20 {
        let token = queue.submit(&command::flush(1)).unwrap_or_else(|| panic!("round {round}: no room"));
        mock.complete(1, token.cid.0, Status::SUCCESS);
        assert!(queue.pop().unwrap().is_ok());
    }
}

#[test]
fn synthetic_identifiers_are_counted_and_touch_nothing() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 8);
    let token = queue.submit(&command::flush(1)).unwrap();
    // Beyond the slots; the last slot that does not exist; a free slot; another generation of ours.
    for cid in [0xffff, 7, token.cid.0 ^ 1, token.cid.0 ^ 0x4000] {
        mock.complete(1, cid, Status::SUCCESS);
        assert!(queue.pop().is_none(), "{cid:#x}");
    }
    let counters = queue.counters();
    assert_eq!((counters.spurious, counters.cqes), (4, 4));
    let last = SpuriousCompletion { cid: token.cid.0 ^ 0x4000, expected: Some(token.cid.0) };
    assert_eq!(counters.last_spurious, Some(last));
    mock.complete(1, token.cid.0, Status::SUCCESS);
    assert_eq!(queue.pop().unwrap().token, token);
    // Both rings no longer stand at the same count, so nobody else can take the queue over.
    let pair = queue.into_pair();
    assert_eq!(pair.index_base(), None);
    let text = chain(&IoQueue::new(pair, IoQueueOptions::default()).unwrap_err());
    assert!(text.starts_with("mock: queue 1 was not left idle"), "{text}");
}

#[test]
fn a_completion_of_another_queue_is_not_taken() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 8);
    let token = queue.submit(&command::flush(1)).unwrap();
    mock.complete_wrongly(1, token.cid.0, |cqe| cqe.sqid = 2);
    assert!(queue.pop().is_none());
    assert_eq!((queue.counters().spurious, queue.outstanding()), (1, 1));
}

#[test]
fn a_submission_queue_head_that_cannot_be_true_is_counted_and_changes_nothing() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 8);
    let tokens: Vec<_> = (0..4).map(|_| queue.submit(&command::flush(1)).unwrap()).collect();
    // Fetched all four; beyond what was submitted; less than before; fewer than completed.
    for (token, (sqhd, mismatches)) in tokens.iter().zip([(4, 0), (5, 1), (3, 2), (0, 3)]) {
        mock.complete_wrongly(1, token.cid.0, |cqe| cqe.sqhd = sqhd);
        assert_eq!(queue.pop().unwrap().token, *token);
        assert_eq!(queue.counters().sqhd_mismatches, mismatches, "head {sqhd}");
    }
    assert_eq!((queue.outstanding(), queue.room()), (0, 7));
}

#[test]
fn spurious_completions_do_not_grant_room() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 4);
    for _ in 0..3 {
        queue.submit(&command::flush(1)).unwrap();
    }
    for _ in 0..2 {
        mock.complete(1, 0xeeef, Status::SUCCESS);
        assert!(queue.pop().is_none());
    }
    assert_eq!(queue.room(), 0);
    assert!(queue.submit(&command::flush(1)).is_none());
}

#[test]
fn statuses_come_through() {
    let status = Status::LBA_OUT_OF_RANGE.with_dnr(true);
    let mock = Mock::new(|_| {});
    let (_controller, mut queue) = queue(&mock, 4);
    mock.behave(|b| b.script = Box::new(move |_, _| Reply::Status(status)));
    let completion = queue.execute(&command::read(1, 1000, 0)).unwrap();
    assert_eq!(completion.outcome, Outcome::Completed(status));
    assert!(!completion.is_ok());
}

#[test]
fn execute_ends_at_its_deadline_and_wants_an_idle_queue() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 4);
    let text = chain(&queue.execute(&command::flush(1)).unwrap_err());
    assert_eq!(text, "mock: queue 1: command 0x0000 did not complete within 1s");
    let error = queue.execute(&command::flush(1)).unwrap_err();
    assert!(matches!(error, DriverError::QueueBusy { outstanding: 1, .. }), "{error:?}");
    assert!(matches!(queue.advance_to(5, Nsid(1)).unwrap_err(), DriverError::QueueBusy { .. }));
}

#[test]
fn a_queue_with_commands_outstanding_can_be_deleted() {
    let mock = swallowing();
    let (controller, mut queue) = queue(&mock, 4);
    queue.submit(&command::flush(1)).unwrap();
    let pair = queue.into_pair();
    assert_eq!(pair.index_base(), None);
    controller.delete_queue_pair(pair).unwrap();
    assert_eq!(mock.dma.violations(), [0; 0]);
}

/// Found by fuzzing: the flushes that were on their way when one of them timed out were reported to a caller who had
/// never pushed them.
#[test]
fn nothing_that_moving_the_counters_submitted_is_reported_later() {
    let mock = swallowing();
    let (_controller, mut queue) = queue(&mock, 4);
    let started = mock.clock.now();
    let error = queue.advance_to(2, Nsid(1)).unwrap_err();
    assert!(matches!(error, DriverError::IoTimeout { cid: Cid(0), .. }), "{error}");
    let took = mock.clock.now() - started;
    assert!(took <= Duration::from_millis(1300), "{took:?}");
    assert_eq!((queue.outstanding(), queue.counters().timed_out), (2, 2));
    assert!(wait(&mock, &mut queue, Duration::from_secs(5)).is_none(), "they are nobody's");

    // Nor are their completions, which free their slots.
    (0..2).for_each(|cid| mock.complete(1, cid, Status::SUCCESS));
    assert!(queue.pop().is_none());
    assert_eq!((queue.counters().late, queue.outstanding()), (2, 0));
}
