//! Faults of commands, each kind stepped and threaded: the client sees what the plan says, and the checker, which
//! judges the client, sees nothing.

mod client;

use std::time::Duration;

use client::faults::{LONG, both, config, expect_silence, identifiers, injected, now, read, submit};
use client::{Client, Pair, memory};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::register::offset;
use warpbell_nvme::{Cqe, Status, queue_command};
use warpbell_softctl::{CompletionOrder, FaultKind, Rule};

/// A payload that comes 300 ms late is there by then, however busy the machine is.
const LATE_AT_MOST: Duration = Duration::from_secs(10);

#[test]
fn a_delayed_command_completes_so_much_later() {
    for mut client in both("kind='delay';by='30ms';lba=7") {
        let mut pair = client.pair(1, 16);
        let start = now(&client);
        submit(&client, &mut pair, 1, &[read(7), read(8)]);
        assert_eq!(identifiers(&client, &mut pair, 2), [2, 1]);
        let took = now(&client) - start;
        assert!(took >= Duration::from_millis(30), "{took:?}");
        assert_eq!(injected(&client), [(FaultKind::Delay, 1, 1)]);
        client.assert_clean();
    }
}

#[test]
fn stepped_a_delay_is_exact_and_announced() {
    let [mut client, _] = both("kind='delay';by='30ms'");
    let mut pair = client.pair(1, 16);
    submit(&client, &mut pair, 1, &[read(7)]);
    let before = now(&client);
    assert!(client.device.step(), "the fetch");
    assert!(!client.device.step(), "nothing can be done now");
    let due = client.device.next_event().unwrap();
    assert!(due >= before + Duration::from_millis(30) && due <= before + Duration::from_millis(31));
    client.device.advance(due - now(&client) - Duration::from_nanos(1));
    assert!(!client.device.step() && pair.poll().is_none());
    client.device.advance(Duration::from_nanos(1));
    assert!(client.device.step() && pair.poll().is_some());
    assert_eq!(client.device.next_event(), None);
}

#[test]
fn a_dropped_command_ends_with_its_queue_only() {
    for mut client in both("kind='drop';lba=7") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7), read(8)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [2]);
        expect_silence(&client, &mut pair, LONG);
        let abort = client.admin_ok(command::abort(1, 1));
        assert_eq!(abort.dw0 & 1, 1, "an Abort does not find it");
        expect_silence(&client, &mut pair, LONG);
        client.admin_ok(queue_command::delete_io_sq(1));
        let entry = pair.poll().unwrap();
        assert_eq!((entry.cid, entry.status()), (1, Status::ABORTED_SQ_DELETION));
        client.assert_clean();
    }
}

#[test]
fn a_duplicate_is_posted_twice() {
    for mut client in both("kind='duplicate';lba=7;count=1") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7), read(8)]);
        assert_eq!(identifiers(&client, &mut pair, 3), [1, 1, 2]);
        client.assert_clean();
    }
}

#[test]
fn a_duplicate_waits_for_room() {
    for mut client in both("kind='duplicate';lba=7;count=1") {
        let mut pair = client.pair(1, 2);
        submit(&client, &mut pair, 1, &[read(7)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [1]);
        submit(&client, &mut pair, 2, &[read(8)]);
        let mut rest = identifiers(&client, &mut pair, 2);
        rest.sort_unstable();
        assert_eq!(rest, [1, 2]);
    }
}

#[test]
fn a_duplicate_that_may_be_taken_for_another_commands_says_when() {
    let [mut client, _] = both("kind='duplicate';lba=7;count=1");
    let mut pair = client.pair(1, 2);
    submit(&client, &mut pair, 1, &[read(7)]);
    client.settle();
    submit(&client, &mut pair, 1, &[read(8)]);
    assert_eq!(identifiers(&client, &mut pair, 3), [1, 1, 1]);
    assert!(client.device.faults()[0].ambiguous_at.is_some(), "the second command had its identifier");

    let [mut client, _] = both("kind='duplicate';lba=7;count=1");
    let mut pair = client.pair(1, 16);
    submit(&client, &mut pair, 1, &[read(7)]);
    client.settle();
    assert_eq!(client.device.faults()[0].ambiguous_at, None, "posted twice before it is used again");
    submit(&client, &mut pair, 1, &[read(8)]);
    client.settle();
    let first = client.device.faults()[0].ambiguous_at;
    assert!(first.is_some(), "used again before the second was freed");
    client.device.advance(Duration::from_micros(1));
    assert_eq!(identifiers(&client, &mut pair, 3), [1, 1, 1]);
    submit(&client, &mut pair, 1, &[read(9)]);
    client.settle();
    assert_eq!(client.device.faults()[0].ambiguous_at, first, "the first time counts");

    let [mut client, _] = both("kind='duplicate';lba=7;count=1");
    let mut pair = client.pair(1, 16);
    submit(&client, &mut pair, 1, &[read(7), read(8)]);
    assert_eq!(identifiers(&client, &mut pair, 3), [1, 1, 2]);
    assert_eq!(client.device.faults()[0].ambiguous_at, None, "what waits has another identifier");

    let [mut client, _] = both("kind='duplicate';lba=7;count=1");
    let mut pair = client.pair(1, 2);
    submit(&client, &mut pair, 1, &[read(7)]);
    assert_eq!(identifiers(&client, &mut pair, 2), [1, 1]);
    assert_eq!(client.device.faults()[0].ambiguous_at, None);
}

/// Found by fuzzing: a doorbell made room for a repeated completion, which went to where the ring had been.
#[test]
fn a_duplicate_that_waits_for_room_is_not_posted_to_memory_that_was_unmapped() {
    let [mut client, _] = both("kind='duplicate';lba=7;count=1");
    let mut pair = client.pair(1, 2);
    submit(&client, &mut pair, 1, &[read(7)]);
    client.settle();
    let (rings, space) = (pair.cq_memory.window().clone(), client.device.dma());
    space.unmap(pair.cq_memory.iova(), pair.cq_memory.len() as u64).unwrap();
    let before = rings.to_vec(0, rings.len()).unwrap();
    pair.cq_doorbell.ring(1);
    client.settle();
    assert_eq!(rings.to_vec(0, rings.len()).unwrap(), before);
    assert_eq!(client.broken(), [Rule::QueueMemoryUnmapped]);
}

#[test]
fn a_reordered_command_lets_others_pass() {
    for mut client in both("kind='reorder';by=3;lba=7;count=1") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7), read(8), read(9), read(10), read(11)]);
        assert_eq!(identifiers(&client, &mut pair, 5)[..4], [2, 3, 4, 1]);
        client.assert_clean();
    }
    for mut client in both("kind='reorder';by=3;lba=7") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [1], "nothing else is left to do");
    }
}

#[test]
fn a_torn_entry_shows_its_last_dword_first() {
    for mut client in both("kind='torn';by='300ms';lba=7") {
        let mut pair = client.pair(1, 16);
        pair.cq_memory.window().fill(0, 12, 0xee).unwrap();
        submit(&client, &mut pair, 1, &[read(7)]);
        let early: Cqe = pair.wait(&client.device);
        assert_eq!((early.cid, early.sqid, early.dw0), (1, 0xeeee, 0xeeee_eeee));
        let end = now(&client) + Duration::from_millis(310);
        while now(&client) < end {
            client.device.clock().pause(Duration::from_millis(1));
        }
        let late = pair.cq.poll(0).unwrap();
        assert_eq!((late.cid, late.sqid, late.sqhd, late.dw0), (1, 1, 1, 0));
        client.assert_clean();
    }
}

#[test]
fn torn_entries_never_overwrite_newer_ones() {
    for mut client in both("kind='torn';by='1s'") {
        let mut pair = client.pair(1, 4);
        for round in 0..12u16 {
            submit(&client, &mut pair, round + 1, &[read(7)]);
            assert_eq!(pair.wait(&client.device).cid, round + 1);
        }
        client.admin_ok(queue_command::delete_io_sq(1));
        for slot in 0..4 {
            let sqid =
                pair.cq_memory.window().load_u32(16 * slot + 8, std::sync::atomic::Ordering::Acquire) >> 16;
            assert_eq!(sqid, 1, "entry {slot} is whole in the end");
        }
    }
}

/// A read of LBA 7 has completed, and its data, 5Ah, is not there.
fn read_without_data(client: &mut Client) -> Pair {
    client.device.poke(Nsid(1), Lba(7), &[0x5a; 512]).expect("a block");
    let mut pair = client.pair(1, 16);
    client.fill(4096, &[0xee; 512]);
    submit(client, &mut pair, 1, &[read(7)]);
    assert_eq!(identifiers(client, &mut pair, 1), [1]);
    assert_eq!(client.bytes(4096, 512), [0xee; 512], "nothing yet");
    pair
}

#[test]
fn the_answer_to_a_register_read_comes_after_late_payloads_for_the_client() {
    for mut client in both("kind='late_payload';by='300ms';lba=7") {
        let mut pair = read_without_data(&mut client);
        client.device.registers().read32(offset::CSTS);
        assert_eq!(client.bytes(4096, 512), [0x5a; 512], "pushed by the answer");
        // What the controller has still to fetch is pushed by nothing.
        client.fill(8192, &[2; 512]);
        submit(&client, &mut pair, 2, &[command::write(1, 7, 0)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [2]);
        client.device.registers().read32(offset::CSTS);
        let mut block = [0; 512];
        client.device.peek(Nsid(1), Lba(7), &mut block).unwrap();
        assert_eq!(block, [0x5a; 512], "not fetched yet");
        client.assert_clean();
    }
}

#[test]
fn a_late_payload_comes_after_its_completion() {
    for mut client in both("kind='late_payload';by='300ms';lba=7;opcode='read'") {
        let _pair = read_without_data(&mut client);
        let end = now(&client) + LATE_AT_MOST;
        while client.bytes(4096, 512) != [0x5a; 512] {
            assert!(now(&client) < end, "the payload never came");
            client.device.clock().pause(Duration::from_millis(1));
        }
        client.assert_clean();
    }
    for mut client in both("kind='late_payload';by='300ms';lba=7;opcode='write'") {
        let mut pair = client.pair(1, 16);
        client.fill(4096, &[1; 512]);
        submit(&client, &mut pair, 1, &[command::write(1, 7, 0)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [1]);
        client.fill(4096, &[2; 512]);
        let (end, mut block) = (now(&client) + LATE_AT_MOST, [0; 512]);
        while block != [2; 512] {
            assert!(
                now(&client) < end,
                "not what the buffer held when the data was fetched at last: {block:?}"
            );
            client.device.clock().pause(Duration::from_millis(1));
            client.device.peek(Nsid(1), Lba(7), &mut block).unwrap();
        }
    }
}

#[test]
fn stuck_doorbells_are_seen_later() {
    for mut client in both("kind='stuck_doorbell';by='30ms';lba=7;count=1") {
        let mut pair = client.pair(1, 16);
        let mut other = client.pair(2, 16);
        submit(&client, &mut pair, 1, &[read(7)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [1]);
        let start = now(&client);
        submit(&client, &mut pair, 2, &[read(8)]);
        submit(&client, &mut other, 3, &[read(9)]);
        assert_eq!(identifiers(&client, &mut other, 1), [3], "another queue is not concerned");
        assert_eq!(identifiers(&client, &mut pair, 1), [2]);
        assert!(now(&client) - start >= Duration::from_millis(25), "{:?}", now(&client) - start);
        client.assert_clean();
    }
    for mut client in both("kind='stuck_doorbell';by='forever';lba=7") {
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7)]);
        assert_eq!(identifiers(&client, &mut pair, 1), [1]);
        submit(&client, &mut pair, 2, &[read(8)]);
        expect_silence(&client, &mut pair, LONG);
        client.admin_ok(queue_command::delete_io_sq(1));
        client.admin_ok(queue_command::delete_io_cq(1));
        let mut again = client.pair(1, 16);
        submit(&client, &mut again, 3, &[read(8)]);
        assert_eq!(identifiers(&client, &mut again, 1), [3], "a new queue has new doorbells");
    }
}

#[test]
fn a_slow_namespace_is_slow_for_a_while() {
    let mut took = Vec::new();
    for mut client in both("kind='slow';by='10ms';lasting='50ms';lba=7") {
        let mut pair = client.pair(1, 16);
        let start = now(&client);
        submit(&client, &mut pair, 1, &[read(7)]);
        identifiers(&client, &mut pair, 1);
        submit(&client, &mut pair, 2, &[read(8)]);
        identifiers(&client, &mut pair, 1);
        assert!(now(&client) - start >= Duration::from_millis(20));
        while now(&client) < start + Duration::from_millis(60) {
            client.device.clock().pause(Duration::from_millis(1));
        }
        let start = now(&client);
        submit(&client, &mut pair, 3, &[read(8)]);
        identifiers(&client, &mut pair, 1);
        assert_eq!(client.device.faults().len(), 1);
        took.push(now(&client) - start);
    }
    assert!(took[0] < Duration::from_millis(1), "stepped: {:?}", took[0]);
}

#[test]
fn selectors_by_queue_and_position() {
    for mut client in both("kind='fail';status='Internal Error';queue=2;after=1;every=2") {
        let mut one = client.pair(1, 16);
        let mut two = client.pair(2, 16);
        let mut failures = Vec::new();
        for number in 0..6 {
            assert!(client.io(&mut one, read(number), 0).is_ok());
            if !client.io(&mut two, read(number), 0).is_ok() {
                failures.push(number);
            }
        }
        assert_eq!(failures, [2, 4]);
        assert_eq!(client.device.faults()[0].queue, 2);
    }
}

#[test]
fn admin_commands_fail_and_come_late() {
    let get = command::get_features(FeatureId::TEMPERATURE_THRESHOLD, FeatureSelect::CURRENT, 0);
    for mut client in both("kind='fail';status='Internal Error';admin='get_features'") {
        assert_eq!(client.admin(get).status(), Status::INTERNAL_ERROR);
        assert_eq!(client.device.faults()[0].queue, 0);
        client.pair(1, 16);
    }
    for mut client in both("kind='delay';by='30ms';admin='get_features'") {
        let start = now(&client);
        assert_eq!(client.admin_ok(get).dw0, 343);
        assert!(now(&client) - start >= Duration::from_millis(30));
    }
    for mut client in both("kind='drop';admin=['abort', 'get_features'];count=1") {
        client.admin.push(&get.with_cid(77));
        client.admin.ring();
        let device = client.device.clone();
        let end = device.clock().now() + LONG;
        while device.clock().now() < end {
            assert!(client.admin.poll().is_none());
            device.clock().pause(Duration::from_micros(50));
        }
        assert_eq!(client.admin_ok(get).dw0, 343, "only one was dropped");
    }
}

#[test]
fn two_pollers_share_one_plan() {
    let plan = config(
        "[[fault]];kind='fail';status='Internal Error';every=10;[[fault]];kind='delay';by='1ms';every=7",
    );
    let mut client = Client::threaded(plan.pollers(2));
    let mut pairs = [client.pair(1, 64), client.pair(2, 64)];
    let mut failed = 0;
    for round in 0..20u16 {
        for pair in &mut pairs {
            submit(&client, pair, 10 * round + 1, &[read(0), read(1), read(2), read(3), read(4)]);
        }
        for pair in &mut pairs {
            let ended: Vec<Cqe> = (0..5).map(|_| pair.wait(&client.device)).collect();
            failed += ended.iter().filter(|entry| !entry.status().is_ok()).count();
        }
    }
    assert_eq!(failed, 20, "every tenth of 200 commands, whichever poller served it");
    let delays = client.device.faults().iter().filter(|fault| fault.kind == FaultKind::Delay).count();
    assert!((20..=28).contains(&delays), "every seventh of those that did not fail: {delays}");
    client.assert_clean();
}

#[test]
fn late_payloads_keep_their_commands_apart_where_completions_keep_their_order() {
    for seed in 1..20 {
        let plan = config("[[fault]];kind='late_payload';by='1ms';opcode='read'");
        let order = CompletionOrder::Submission { window: 4 };
        let mut client = Client::stepped(plan.order(order).seed(seed));
        client.device.poke(Nsid(1), Lba(7), &[7; 512]).expect("poke");
        client.device.poke(Nsid(1), Lba(8), &[8; 512]).expect("poke");
        let mut pair = client.pair(1, 16);
        submit(&client, &mut pair, 1, &[read(7), read(8)]);
        assert_eq!(identifiers(&client, &mut pair, 2), [1, 2]);
        let end = now(&client) + Duration::from_millis(2);
        while now(&client) < end {
            client.device.clock().pause(Duration::from_micros(100));
        }
        assert_eq!((client.bytes(4096, 512), client.bytes(8192, 512)), (vec![7; 512], vec![8; 512]));
    }
}

#[test]
fn duplicates_never_overrun_a_completion_queue() {
    for mut client in both("kind='duplicate'") {
        let mut pair = client.pair(1, 8);
        submit(&client, &mut pair, 1, &[0, 1, 2, 3, 4, 5, 6].map(read));
        // Full before anything is freed.
        let end = now(&client) + LONG;
        while now(&client) < end {
            client.device.clock().pause(Duration::from_micros(50));
        }
        let mut seen = identifiers(&client, &mut pair, 14);
        seen.sort_unstable();
        assert_eq!(seen, [1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7]);
        expect_silence(&client, &mut pair, LONG);
        client.assert_clean();
    }
}

#[test]
fn a_deleted_queue_with_a_stuck_doorbell_leaves_the_head_to_the_others() {
    for mut client in both("kind='stuck_doorbell';by='forever';queue=1") {
        let mut pair = client.pair(1, 4);
        let mut other = Pair::new(&client.device, 2, 4);
        let base = other.sq_memory.iova().0;
        client.admin_ok(queue_command::create_io_sq(2, 3, base, 1, queue_command::QueuePriority::URGENT));
        submit(&client, &mut pair, 1, &[read(7), read(8), read(9)]);
        assert_eq!(identifiers(&client, &mut pair, 3), [1, 2, 3]);
        submit(&client, &mut other, 4, &[read(1), read(2)]);
        expect_silence(&client, &mut pair, LONG);
        client.admin_ok(queue_command::delete_io_sq(1));
        assert_eq!(identifiers(&client, &mut pair, 2), [4, 5], "the head was written before");
        client.assert_clean();
    }
}

#[test]
fn what_will_fail_takes_no_time_of_the_media() {
    let profile = Some(warpbell_softctl::Profile::tlc());
    let mut client = Client::stepped(memory(1 << 20, 512).profile(profile));
    let mut pair = client.pair(1, 16);
    let start = now(&client);
    assert!(client.io(&mut pair, read(0), 0).is_ok());
    assert!(now(&client) - start > Duration::from_micros(5), "a read takes its time");
    for sqe in [
        read(2048),
        command::read(9, 0, 0),
        command::flush(9),
        Sqe { cdw0: warpbell_nvme::command::Cdw0::from_bits(0x7f), nsid: 1, ..Sqe::default() },
    ] {
        let start = now(&client);
        assert!(!client.io(&mut pair, sqe, 0).is_ok());
        assert!(now(&client) - start <= Duration::from_micros(5), "opcode {:#x}", sqe.opcode());
    }
}
