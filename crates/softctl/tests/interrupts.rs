//! Interrupts: one a completion, gathered by threshold and time, and never for the admin queue.

mod client;

use std::os::fd::OwnedFd;
use std::time::Duration;

use client::{Client, Pair, memory};
use warpbell_hw::Device;
use warpbell_nvme::command;
use warpbell_nvme::feature::{
    FeatureCapabilities, FeatureId, FeatureSelect, InterruptCoalescing, InterruptVectorConfig,
};
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::register::offset;
use warpbell_softctl::SoftDevice;

/// A pair whose completions interrupt.
fn pair(client: &mut Client, qid: u16, vector: u16) -> Pair {
    let pair = Pair::new(&client.device, qid, 64);
    let base = pair.cq_memory.iova().0;
    client.admin_ok(queue_command::create_io_cq(qid, 63, base, Some(vector)));
    let base = pair.sq_memory.iova().0;
    client.admin_ok(queue_command::create_io_sq(qid, 63, base, qid, QueuePriority::URGENT));
    pair
}

fn gather(client: &mut Client, threshold: u8, time: u8) {
    let value = InterruptCoalescing::new().with_thr_z(threshold - 1).with_time(time).into_bits();
    client.admin_ok(command::set_features(FeatureId::INTERRUPT_COALESCING, value, 0));
    let get = command::get_features(FeatureId::INTERRUPT_COALESCING, FeatureSelect::CURRENT, 0);
    assert_eq!(client.admin_ok(get).dw0, value);
}

/// Interrupts since the last call.
fn taken(event: &OwnedFd) -> u64 {
    let mut count = [0; 8];
    match rustix::io::read(event, &mut count) {
        Ok(_) => u64::from_ne_bytes(count),
        Err(_) => 0,
    }
}

/// Completes a command every `every` until `count` are complete. Returns the interrupts, and the mean time from a
/// completion to its interrupt.
fn run(client: &Client, pair: &mut Pair, event: &OwnedFd, every: Duration, count: u32) -> (u64, Duration) {
    let clock = client.device.clock();
    let (mut interrupts, mut waiting, mut waited) = (0, Vec::new(), Duration::ZERO);
    let mut look = |waiting: &mut Vec<Duration>| {
        let taken = taken(event);
        if taken > 0 {
            interrupts += taken;
            let now = clock.now();
            waiting.drain(..).for_each(|posted| waited += now - posted);
        }
    };
    let start = clock.now();
    for index in 0..count {
        let due = start + every * index;
        while clock.now() < due {
            let next = client.device.next_event().unwrap_or(due).min(due);
            client.device.advance(next - clock.now());
            client.settle();
            look(&mut waiting);
        }
        pair.push(&command::flush(1).with_cid(index as u16));
        pair.ring();
        while pair.poll().is_none() {
            assert!(client.device.step());
        }
        waiting.push(clock.now());
        look(&mut waiting);
    }
    (interrupts, waited / count)
}

fn near(actual: Duration, expected: Duration) -> bool {
    actual.abs_diff(expected) <= expected / 20 + Duration::from_micros(2)
}

#[test]
fn gathered_interrupts_and_their_delay_are_as_the_formula_says() {
    // (threshold, aggregation time in 100 us, time between completions in us)
    for (threshold, time, every) in
        [(1, 0, 10), (2, 10, 20), (8, 100, 10), (32, 255, 50), (32, 1, 1000), (8, 3, 400)]
    {
        let mut client = Client::stepped(memory(1 << 20, 512));
        let mut pair = pair(&mut client, 1, 1);
        let event = client.device.interrupts().subscribe(1).unwrap();
        if time > 0 {
            gather(&mut client, threshold, time);
        }
        let (every, count) = (Duration::from_micros(every), 640);
        let (interrupts, delay) = run(&client, &mut pair, &event, every, count);
        let limit = Duration::from_micros(100) * u32::from(time);
        // (k - 1) / (2 lambda), which is at most the aggregation time where that comes first.
        let full = every * (u32::from(threshold) - 1);
        let (expected, delayed) = if full <= limit {
            (u64::from(count / u32::from(threshold)), full / 2)
        } else {
            // No second completion comes in time: each waits alone.
            assert!(every > limit);
            (u64::from(count), limit)
        };
        let slack = u64::from(full > limit);
        assert!(
            expected - interrupts <= slack,
            "{threshold} {time}: {interrupts} interrupts, expected {expected}"
        );
        assert!(near(delay, delayed), "{threshold} {time}: a delay of {delay:?}, expected {delayed:?}");
        client.assert_clean();
    }
}

#[test]
fn the_first_entry_waits_no_longer_than_the_aggregation_time() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    let mut pair = pair(&mut client, 1, 1);
    let event = client.device.interrupts().subscribe(1).unwrap();
    gather(&mut client, 16, 5);
    for cid in 0..3 {
        pair.run(&client.device, &command::flush(1).with_cid(cid));
    }
    assert_eq!(taken(&event), 0);
    let left = client.device.next_event().unwrap() - client.device.clock().now();
    assert!(left <= Duration::from_micros(500) && left > Duration::from_micros(490), "{left:?}");
    client.device.advance(left - Duration::from_nanos(1));
    assert!(!client.device.step());
    assert_eq!(taken(&event), 0);
    client.device.advance(Duration::from_nanos(1));
    client.settle();
    assert_eq!(taken(&event), 1, "one for all three");
    assert_eq!(client.device.next_event(), None);
    client.assert_clean();
}

#[test]
fn vectors_can_be_exempt_and_the_admin_queue_always_is() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    let mut pairs = [pair(&mut client, 1, 1), pair(&mut client, 2, 2), pair(&mut client, 3, 0)];
    let events = [1, 2, 0].map(|vector| client.device.interrupts().subscribe(vector).unwrap());
    gather(&mut client, 10, 200);
    let set = |vector, cd| {
        let value = InterruptVectorConfig::new().with_iv(vector).with_cd(cd).into_bits();
        command::set_features(FeatureId::INTERRUPT_VECTOR_CONFIG, value, 0)
    };
    client.admin_ok(set(2, true));
    let mut get = command::get_features(FeatureId::INTERRUPT_VECTOR_CONFIG, FeatureSelect::CURRENT, 0);
    for (vector, exempt) in [(1, 0), (2, 1)] {
        get.cdw11 = vector;
        assert_eq!(client.admin_ok(get).dw0, vector | exempt << 16);
    }
    get.cdw10 |= 3 << 8;
    assert!(FeatureCapabilities::from_bits(client.admin_ok(get).dw0).changeable());
    let admin = taken(&events[2]);
    assert!(admin >= 4, "each admin completion interrupts: {admin}");
    for pair in &mut pairs {
        (0..5).for_each(|cid| _ = pair.run(&client.device, &command::flush(1).with_cid(cid)));
    }
    assert_eq!([0, 1, 2].map(|index| taken(&events[index])), [0, 5, 0]);
    client.admin_ok(queue_command::keep_alive());
    assert_eq!(taken(&events[2]), 1, "the admin queue's alone");
    client.admin_ok(set(1, true));
    assert_eq!(taken(&events[0]), 1, "what waited was signalled");
    let bad = client.admin(set(99, true)).status();
    assert!(bad.same_code(warpbell_nvme::Status::INVALID_FIELD));
    client.assert_clean();
}

#[test]
fn a_reset_forgets_what_waits() {
    let mut client = Client::stepped(memory(1 << 20, 512));
    let mut first = pair(&mut client, 1, 1);
    let event = client.device.interrupts().subscribe(1).unwrap();
    gather(&mut client, 10, 200);
    first.run(&client.device, &command::flush(1));
    client.device.registers().write32(offset::CC, client::configuration().into_bits());
    client::wait_csts(&client.device, |csts| !csts.rdy());
    client.device.advance(Duration::from_secs(1));
    client.settle();
    assert_eq!(taken(&event), 0);
    drop(first);
    let mut client = Client::start(client.device.clone());
    let mut again = pair(&mut client, 1, 1);
    again.run(&client.device, &command::flush(1));
    assert_eq!(taken(&event), 1, "nothing gathers after a reset");
    client.assert_clean();
}

/// A controller with threads that gathers four interrupts, or those of 25.5 ms.
fn gathering() -> (Client, Pair, OwnedFd) {
    let device = SoftDevice::threaded(memory(1 << 20, 512).pollers(2)).expect("two pollers start");
    let mut client = Client::start(device);
    let pair = pair(&mut client, 1, 1);
    let event = client.device.interrupts().subscribe(1).expect("vector 1 is there");
    gather(&mut client, 4, 255);
    (client, pair, event)
}

#[test]
fn polling_threads_gather_too() {
    let (client, mut pair, event) = gathering();
    let sent = || client.device.statistics().interrupts;
    let (before, start) = (sent(), client.device.clock().now());
    for cid in 0..40 {
        pair.run(&client.device, &command::flush(1).with_cid(cid));
    }
    // Where the machine does other things between commands, the time ends some of the waits.
    let most = || 10 + ((client.device.clock().now() - start).as_micros() / 25_500) as u64;
    let sent = sent() - before;
    assert!((10..=most()).contains(&sent), "{sent}, {} at most", most());
    let taken = taken(&event);
    assert!((sent..=most()).contains(&taken), "{taken} of {sent}, {} at most", most());
    client.assert_clean();
}

#[test]
fn polling_threads_wait_for_the_time_where_too_few_come() {
    let (client, mut pair, event) = gathering();
    // Three are too few, so their time must pass.
    let start = client.device.clock().now();
    (0..3).for_each(|cid| _ = pair.run(&client.device, &command::flush(1).with_cid(cid)));
    while taken(&event) == 0 {
        assert!(client.device.clock().now() - start < Duration::from_secs(60), "no interrupt came");
        std::thread::yield_now();
    }
    let took = client.device.clock().now() - start;
    assert!(took >= Duration::from_micros(25_500), "after {took:?}");
    client.assert_clean();
}
