//! Which interrupt vectors are listened to, and when.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_driver::{
    Controller, ControllerOptions, IoQueue, IoQueueOptions, Notification, QueueSpec, Waiting,
};
use warpbell_hw::Clock;
use warpbell_nvme::command;
use warpbell_nvme::status::Status;

use crate::mock::{Event, Mock, Reply};
use crate::{chain, open};

#[test]
fn the_admin_vector_is_listened_to_before_the_controller_is_enabled() {
    let mock = Mock::new(|_| {});
    mock.clock.1.store(true, Ordering::Relaxed);
    let controller = open(&mock).unwrap();
    assert_eq!(controller.admin_vector(), Some(0));
    let events = mock.events();
    let subscribed = events.iter().position(|event| *event == Event::Subscribe(0)).unwrap();
    let enabled = events.iter().position(|event| matches!(event, Event::Cc(cc) if cc.en())).unwrap();
    assert!(subscribed < enabled, "{events:?}");
}

#[test]
fn without_vectors_or_time_admin_commands_are_polled_unless_interrupts_were_asked_for() {
    let by_interrupt = ControllerOptions::new().admin_waiting(Waiting::Interrupt);
    let stepped = Mock::new(|_| {});
    assert_eq!(open(&stepped).unwrap().admin_vector(), None);
    let text = chain(&Controller::open(stepped, by_interrupt.clone()).unwrap_err());
    assert_eq!(text, "mock: cannot wait for interrupts: its time passes only while somebody polls");

    let bare = Mock::new(|b| b.vectors = 0);
    bare.clock.1.store(true, Ordering::Relaxed);
    let controller = open(&bare).unwrap();
    assert_eq!(controller.admin_vector(), None);
    let spec = QueueSpec::new(8).notification(Notification::Interrupt);
    let text = chain(&controller.create_queue_pair(spec).unwrap_err());
    assert_eq!(text, "mock: cannot wait for interrupts: it has no interrupt vectors: poll this queue");
    drop(controller);
    let text = chain(&Controller::open(bare, by_interrupt).unwrap_err());
    assert_eq!(text, "mock: cannot wait for interrupts: it has no interrupt vectors");
}

#[test]
fn queues_get_vectors_of_their_own_while_there_are_enough() {
    let spec = || QueueSpec::new(8).notification(Notification::Interrupt);
    let mock = Mock::new(|b| b.vectors = 4);
    let controller = open(&mock).unwrap();
    let mut pairs: Vec<_> = (0..5).map(|_| controller.create_queue_pair(spec()).unwrap()).collect();
    let vectors: Vec<_> = pairs.iter().map(|pair| pair.vector()).collect();
    assert_eq!(vectors, [1, 2, 3, 1, 2].map(Some), "the admin queue keeps its own");
    drop(pairs.drain(1..));
    assert_eq!(controller.create_queue_pair(spec()).unwrap().vector(), Some(2), "one that is free again");
    assert_eq!(controller.create_queue_pair(QueueSpec::new(8)).unwrap().vector(), None);

    let single = open(&Mock::new(|b| b.vectors = 1)).unwrap();
    assert_eq!(single.create_queue_pair(spec()).unwrap().vector(), Some(0), "shared with the admin queue");
}

/// How many interrupts a queue misses that has a command completed `posted` after it was submitted, and interrupts `fired`
/// after that, if at all.
fn missed(posted: Duration, fired: Option<Duration>, limit: Duration) -> u64 {
    let mock =
        Mock::new(|b| b.script = Box::new(|qid, _| if qid == 0 { Reply::Normal } else { Reply::Swallow }));
    let controller = open(&mock).unwrap();
    let spec = QueueSpec::new(8).notification(Notification::Interrupt);
    let options = IoQueueOptions::new().timeout(Duration::from_secs(60));
    let mut queue = IoQueue::new(controller.create_queue_pair(spec).unwrap(), options).unwrap();
    let (start, there) = (mock.clock.now(), Arc::downgrade(&mock));
    let mut due = fired.map(|after| posted + after);
    queue.submit(&command::flush(1)).unwrap();
    mock.clock.meanwhile(move || {
        let Some(mock) = there.upgrade() else { return };
        let passed = mock.clock.now() - start;
        let commands = mock.state().swallowed.clone();
        if let [(qid, cid)] = commands[..]
            && passed >= posted
        {
            mock.complete(qid, cid, Status::SUCCESS);
        }
        if due.take_if(|due| passed >= *due).is_some() {
            mock.fire(1);
        }
    });
    while !queue.wait(limit).is_some_and(|completion| completion.is_ok()) {}
    queue.counters().missed_interrupts
}

#[test]
fn an_interrupt_that_comes_late_is_not_missed() {
    let ms = Duration::from_millis;
    let long = Duration::from_secs(30);
    // The sleeper wakes by itself after 100 ms: between completion and interrupt.
    assert_eq!(missed(ms(99), Some(ms(2)), long), 0);
    assert_eq!(missed(ms(99), Some(Duration::from_micros(25_500)), long), 0, "the longest aggregation time");
    // Or because nobody wanted to wait for longer.
    assert_eq!(missed(ms(1), Some(ms(10)), ms(3)), 0);
    assert_eq!(missed(ms(99), None, long), 1);
    assert_eq!(missed(ms(1), None, ms(3)), 1);
}
