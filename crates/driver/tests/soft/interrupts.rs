//! Waiting by interrupt: for admin commands, for I/O, alone and with others on a vector.

use std::sync::Arc;
use std::time::Duration;

use warpbell_driver::{
    Coalescing, Controller, ControllerOptions, DriverError, IoQueue, IoQueueOptions, Notification, Outcome,
    QueueSpec, Waiting,
};
use warpbell_hw::{Device, Nsid, ResetKind};
use warpbell_nvme::command;
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector, SoftDevice};

use crate::fixture::*;
use crate::wired::Wired;

fn by_interrupt_within(controller: &Controller, entries: u32, timeout: Duration) -> IoQueue {
    let spec = QueueSpec::new(entries).notification(Notification::Interrupt);
    let options = IoQueueOptions::new().timeout(timeout);
    IoQueue::new(controller.create_queue_pair(spec).unwrap(), options).unwrap()
}

fn by_interrupt(controller: &Controller, entries: u32) -> IoQueue {
    by_interrupt_within(controller, entries, PATIENCE)
}

/// Executes `count` flushes, several at a time, asleep whenever nothing is there.
fn flush(queue: &mut IoQueue, count: u32) {
    let (mut pushed, mut done) = (0, 0);
    while done < count {
        while pushed < count && queue.push(&command::flush(1)).is_some() {
            pushed += 1;
        }
        assert!(queue.wait(PATIENCE).expect("a completion").is_ok());
        done += 1;
    }
    assert!(queue.wait(PATIENCE).is_none(), "nothing is outstanding");
}

#[test]
fn admin_commands_sleep_until_their_interrupt_where_time_passes_by_itself() {
    let device = SoftDevice::threaded(config()).unwrap();
    let controller = open(&device);
    assert_eq!(controller.admin_vector(), Some(0));
    assert!(device.statistics().interrupts > 0);
    (0..50).for_each(|_| drop(controller.smart_log().unwrap()));
    controller.reset().unwrap();
    controller.smart_log().unwrap();
    drop(controller);
    let options = ControllerOptions::new().admin_waiting(Waiting::Poll);
    assert_eq!(Controller::open(device.clone(), options).unwrap().admin_vector(), None);
    assert_clean(&device);
    let stepped = SoftDevice::stepped(config()).unwrap();
    assert_eq!(open(&stepped).admin_vector(), None);
}

#[test]
fn a_queue_with_a_vector_sleeps_and_one_without_is_polled_on_the_same_controller() {
    on_both(&config(), |device| {
        let controller = open(device);
        let mut sleeping = by_interrupt(&controller, 64);
        let mut polled = io_queue(&controller, 64);
        flush(&mut sleeping, 500);
        flush(&mut polled, 500);
        let (counters, others) = (sleeping.counters(), polled.counters());
        assert_eq!((counters.missed_interrupts, others.sleeps), (0, 0));
        assert!(counters.sleeps > 0, "in virtual time, too: {counters:?}");
        assert!(sleeping.execute(&command::flush(1)).unwrap().is_ok());
        sleeping.advance_to(1 << 33, Nsid(1)).unwrap();
        for queue in [sleeping, polled] {
            controller.delete_queue_pair(queue.into_pair()).unwrap();
        }
        controller.shutdown().unwrap();
    });
}

/// How many interrupts the controller has sent for `count` commands that were in flight together.
fn gathered(device: &Arc<SoftDevice>, wanted: Coalescing, count: u32) -> u64 {
    let controller = open(device);
    controller.set_interrupt_coalescing(wanted).unwrap();
    assert_eq!(controller.interrupt_coalescing().unwrap(), wanted);
    let mut queue = by_interrupt(&controller, 64);
    let before = device.statistics().interrupts;
    let start = device.clock().now();
    flush(&mut queue, count);
    let (interrupts, took) = (device.statistics().interrupts - before, device.clock().now() - start);
    assert_eq!(queue.counters().missed_interrupts, 0);
    assert_eq!(took >= wanted.time(), wanted.threshold() > count, "{took:?} for {wanted}");
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    controller.shutdown().unwrap();
    interrupts
}

#[test]
fn the_driver_has_interrupts_gathered_by_number_and_by_time() {
    let of = |text: &str| text.parse::<Coalescing>().unwrap();
    let device = || SoftDevice::stepped(config()).unwrap();
    assert!((1..=4).contains(&gathered(&device(), of("8/1ms"), 32)), "each is for eight at least");
    assert_eq!(gathered(&device(), of("64/300us"), 32), 1, "the time ends the wait");
    let controller = open(&device());
    controller.set_interrupt_coalescing(of("5/200us")).unwrap();
    controller.reset().unwrap();
    assert_eq!(controller.interrupt_coalescing().unwrap(), of("5/200us"), "a reset sets it again");
    controller.shutdown().unwrap();
}

#[test]
fn threads_that_share_a_vector_with_each_other_and_with_admin_miss_nothing() {
    for vectors in [1, 2] {
        let soft = SoftDevice::threaded(config()).unwrap();
        let device = Arc::new(Wired { soft: soft.clone(), vectors, cut: false });
        let controller = Controller::open(device, ControllerOptions::default()).unwrap();
        std::thread::scope(|scope| {
            let threads: Vec<_> = (0..4)
                .map(|_| {
                    let mut queue = by_interrupt(&controller, 8);
                    scope.spawn(move || {
                        flush(&mut queue, 300);
                        queue
                    })
                })
                .collect();
            (0..20).for_each(|_| drop(controller.smart_log().unwrap()));
            for thread in threads {
                let queue = thread.join().unwrap();
                assert_eq!(queue.counters().missed_interrupts, 0, "{vectors} vectors");
                let pair = queue.into_pair();
                assert_eq!(pair.vector(), Some(vectors - 1));
                controller.delete_queue_pair(pair).unwrap();
            }
        });
        controller.shutdown().unwrap();
        assert_clean(&soft);
    }
}

#[test]
fn a_completion_whose_interrupt_got_lost_is_found_all_the_same() {
    let slow = FaultAction::Delay { by: Duration::from_millis(30) };
    let faults = FaultPlan::new().seed(0).faults(vec![Fault::new(slow, Selector::default())]);
    let soft = SoftDevice::threaded(config().faults(faults)).unwrap();
    let device = Arc::new(Wired { soft: soft.clone(), vectors: 2, cut: true });
    let controller = Controller::open(device, ControllerOptions::default()).unwrap();
    let mut queue = by_interrupt(&controller, 8);
    for _ in 0..3 {
        queue.submit(&command::flush(1)).unwrap();
        assert!(queue.wait(PATIENCE).expect("found by looking").is_ok());
    }
    let counters = queue.counters();
    assert_eq!((counters.timed_out, counters.missed_interrupts), (0, 3));
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    controller.shutdown().unwrap();
    assert_clean(&soft);
}

#[test]
fn a_wait_for_what_never_comes_ends_in_time() {
    let fault = Fault::new(FaultAction::Drop, Selector::default());
    let faults = FaultPlan::new().seed(0).faults(vec![fault]);
    let device = SoftDevice::threaded(config().faults(faults)).unwrap();
    let controller = open(&device);
    let mut queue = by_interrupt_within(&controller, 8, Duration::from_millis(200));
    queue.submit(&command::flush(1)).unwrap();
    assert_eq!(queue.wait(Duration::from_millis(20)), None, "the limit of the wait");
    let late = queue.wait(PATIENCE).expect("the deadline of the command");
    assert_eq!(late.outcome, Outcome::TimedOut);
    assert_eq!(queue.wait(PATIENCE), None, "nothing is left to wait for");
    controller.delete_queue_pair(queue.into_pair()).unwrap();
    controller.shutdown().unwrap();
}

#[test]
fn waits_on_a_removed_function_end_and_nothing_hangs_afterwards() {
    let device = SoftDevice::threaded(config()).unwrap();
    // An admin command that was waited for would not come back before the runner ends the test.
    let options = ControllerOptions::new().admin_timeout(Duration::from_secs(1000));
    let controller = Controller::open(device.clone(), options).unwrap();
    let mut queue = by_interrupt_within(&controller, 64, Duration::from_millis(300));
    device.remove();
    (0..32).for_each(|_| assert!(queue.push(&command::flush(1)).is_some()));
    let mut ended = 0;
    while let Some(completion) = queue.wait(PATIENCE) {
        assert_eq!(completion.outcome, Outcome::TimedOut);
        ended += 1;
    }
    assert_eq!(ended, 32);
    assert!(controller.delete_queue_pair(queue.into_pair()).is_err());
    drop(controller);
}

#[test]
fn a_controller_that_resets_itself_is_noticed_before_the_admin_timeout() {
    let fault = Fault::new(FaultAction::Reset, Selector::default());
    let faults = FaultPlan::new().seed(0).faults(vec![fault]);
    let device = SoftDevice::threaded(config().faults(faults)).unwrap();
    let options = ControllerOptions::new().admin_timeout(Duration::from_secs(1000));
    let controller = Controller::open(device.clone(), options).unwrap();
    controller.check_health().unwrap();
    let mut queue = by_interrupt_within(&controller, 8, Duration::from_millis(100));
    queue.submit(&command::flush(1)).unwrap();
    assert_eq!(queue.wait(PATIENCE).unwrap().outcome, Outcome::TimedOut);
    let error = controller.smart_log().unwrap_err();
    assert!(matches!(error, DriverError::NotReady { .. }), "{error}");
    assert!(matches!(controller.check_health(), Err(DriverError::NotReady { .. })));
    controller.reset().unwrap();
    controller.smart_log().unwrap();
    drop(queue);
    controller.shutdown().unwrap();
}

#[test]
fn a_reset_from_outside_is_noticed_too() {
    let device = SoftDevice::threaded(config()).unwrap();
    let controller = open(&device);
    Device::reset(&*device).reset(ResetKind::Function).unwrap();
    assert!(matches!(controller.check_health(), Err(DriverError::NotReady { .. })));
    controller.reset().unwrap();
    controller.shutdown().unwrap();
}
