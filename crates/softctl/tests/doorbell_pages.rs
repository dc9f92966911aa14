//! Doorbell Buffer Config: what becomes of queues that exist, and of pages that are gone.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod client;

use std::sync::atomic::Ordering;
use std::time::Duration;

use client::pages::Pages;
use client::{Client, Pair, expect, memory, shut_down};
use warpbell_hw::{Device, DmaBuffer, Doorbell, DoorbellKind, Qid, Shadow};
use warpbell_nvme::Status;
use warpbell_nvme::command;
use warpbell_nvme::feature::{FeatureId, NumberOfQueues};
use warpbell_nvme::register::Shn;
use warpbell_softctl::{DoorbellBufferMode, FaultPlan, Rule, SoftConfig};

impl Pages {
    fn doorbell(&self, client: &Client, qid: u16, kind: DoorbellKind) -> Doorbell {
        let at = 8 * usize::from(qid) + if kind == DoorbellKind::CqHead { 4 } else { 0 };
        let word = |page: &DmaBuffer| page.window().slice(at, 4).unwrap();
        let shadow = Shadow { entry: word(&self.shadows), event: word(&self.events) };
        client.device.doorbells().doorbell(Qid(qid), kind).unwrap().with_shadow(shadow)
    }

    /// From now on the client writes shadows.
    fn adopt(&self, client: &Client, pair: &mut Pair) {
        pair.sq_doorbell = self.doorbell(client, pair.qid, DoorbellKind::SqTail);
        pair.cq_doorbell = self.doorbell(client, pair.qid, DoorbellKind::CqHead);
    }
}

fn config() -> SoftConfig {
    memory(1 << 20, 512).doorbell_buffer(DoorbellBufferMode::On)
}

/// A stepped controller, its pages, and a queue pair of so many entries whose client writes shadows.
fn with_shadows(config: SoftConfig, entries: u32) -> (Client, Pages, Pair) {
    let mut client = Client::stepped(config);
    let pages = Pages::new(&client);
    client.admin_ok(pages.config());
    let mut pair = client.pair(1, entries);
    pages.adopt(&client, &mut pair);
    (client, pages, pair)
}

fn push_reads(client: &Client, pair: &mut Pair, cids: std::ops::Range<u16>) {
    for cid in cids {
        let at = client.buffer.iova().0 + 4096 * u64::from(cid);
        pair.push(&command::read(1, u64::from(cid), 0).with_cid(cid).with_prp(at, 0));
    }
}

#[test]
fn queues_that_were_used_keep_their_doorbells() {
    for _ in 0..10 {
        for mut client in Client::both(&config()) {
            let pages = Pages::new(&client);
            let mut pair = client.pair(1, 8);
            push_reads(&client, &mut pair, 1..8);
            pair.ring();
            (1..8).for_each(|_| _ = pair.wait(&client.device));
            // The controller need not have looked at the head by now: there was room.
            client.admin_ok(pages.config());
            let head = pages.shadows.window().load_u32(12, Ordering::Acquire);
            assert_eq!(head, 7, "the shadow begins where the register was");
            pages.adopt(&client, &mut pair);
            for cid in 8..40 {
                push_reads(&client, &mut pair, cid..cid + 1);
                pair.ring();
                assert_eq!(pair.wait(&client.device).cid, cid);
            }
            client.assert_clean();
        }
    }
}

#[test]
fn a_shadow_that_was_written_before_a_shutdown_is_no_violation() {
    let (client, _pages, mut pair) = with_shadows(config(), 8);
    push_reads(&client, &mut pair, 1..3);
    pair.ring();
    shut_down(&client.device, Shn::NORMAL);
    client.settle();
    client.assert_clean();
    push_reads(&client, &mut pair, 3..4);
    pair.ring();
    client.settle();
    assert_eq!(client.broken(), [Rule::CommandAfterShutdown]);
}

#[test]
fn pages_that_were_unmapped_are_neither_read_nor_written() {
    let mut client = Client::stepped(config());
    let pages = Pages::new(&client);
    let (shadows, events) = (pages.shadows.window().clone(), pages.events.window().clone());
    client.admin_ok(pages.config());
    let mut pair = client.pair(1, 8);
    drop(pages);
    push_reads(&client, &mut pair, 1..4);
    shadows.store_u32(8, 3, Ordering::Release);
    events.store_u32(8, 0x7777, Ordering::Release);
    client.settle();
    assert!(pair.poll().is_none(), "a shadow that is no longer the controller's");
    assert_eq!(events.load_u32(8, Ordering::Acquire), 0x7777);
    assert!(client.broken().contains(&Rule::QueueMemoryUnmapped), "{:?}", client.broken());
}

#[test]
fn pages_that_cannot_be_had_leave_the_old_ones_in_use() {
    let (mut client, pages, mut pair) = with_shadows(config(), 8);
    let taken = command::dbbuf_config(pair.sq_memory.iova().0, pages.events.iova().0);
    assert!(!client.admin(taken).status().is_ok());
    assert_eq!(client.broken(), [Rule::QueueOverlap]);
    for cid in 1..20 {
        push_reads(&client, &mut pair, cid..cid + 1);
        pair.ring();
        assert_eq!(pair.wait(&client.device).cid, cid);
    }
    drop(pages);
    assert_eq!(client.broken().last(), Some(&Rule::QueueMemoryUnmapped), "they are still the controller's");
}

#[test]
fn the_same_pages_again_are_no_conflict_with_themselves() {
    let mut client = Client::stepped(config());
    let pages = Pages::new(&client);
    (0..3).for_each(|_| _ = client.admin_ok(pages.config()));
    let other = Pages::new(&client);
    client.admin_ok(command::dbbuf_config(pages.events.iova().0, other.events.iova().0));
    drop(pages.shadows);
    client.assert_clean();
}

#[test]
fn a_stuck_doorbell_that_moves_to_a_shadow_keeps_what_was_written() {
    let plan = "[[fault]]\nkind = 'stuck_doorbell'\nby = '20ms'\ncount = 1\n";
    let faults = FaultPlan::from_toml(plan).unwrap();
    for mut client in Client::both(&config().faults(faults)) {
        let pages = Pages::new(&client);
        let mut pair = client.pair(1, 4);
        push_reads(&client, &mut pair, 1..2);
        pair.ring();
        pair.wait(&client.device);
        push_reads(&client, &mut pair, 2..4);
        pair.ring();
        client.admin_ok(pages.config());
        pages.adopt(&client, &mut pair);
        assert_eq!([2, 3].map(|_| pair.wait(&client.device).cid), [2, 3]);
        client.assert_clean();
    }
}

#[test]
fn no_more_queues_than_the_pages_have_entries_for() {
    let mut client = Client::stepped(config().stride(4));
    let pages = Pages::new(&client);
    assert_eq!(client.number_of_queues(16).submission_queues(), 16);
    client.admin_ok(pages.config());
    let many = NumberOfQueues::new().with_nsqr_z(63).with_ncqr_z(63);
    let sqe = command::set_features(FeatureId::NUMBER_OF_QUEUES, many.into_bits(), 0);
    expect(&mut client, sqe, Status::COMMAND_SEQUENCE_ERROR);
    assert_eq!(client.number_of_queues(31).submission_queues(), 31);
}

#[test]
fn stepped_a_completion_that_waits_for_room_is_repeated_when_the_shadow_head_moves() {
    let faults = FaultPlan::from_toml("[[fault]]\nkind = 'duplicate'\ncount = 1\n").unwrap();
    let (client, _pages, mut pair) = with_shadows(config().faults(faults), 2);
    push_reads(&client, &mut pair, 1..2);
    pair.ring();
    client.settle();
    assert_eq!(pair.poll().unwrap().cid, 1);
    client.device.advance(Duration::from_millis(1));
    client.settle();
    assert_eq!(pair.poll().unwrap().cid, 1, "once more, now that there is room");
    client.assert_clean();
}
