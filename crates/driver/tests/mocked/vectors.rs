//! Which interrupt vectors are listened to, and when.

use std::sync::atomic::Ordering;

use warpbell_driver::{Controller, ControllerOptions, Notification, QueueSpec, Waiting};

use crate::mock::{Event, Mock};
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
