//! Queues that are replaced step by step, in virtual time: the test plays the lanes, and looks by hand.

use std::sync::Arc;
use std::time::Duration;

use warpbell_driver::DoorbellBuffer;
use warpbell_hw::{ClientMemory, DmaAccess};
use warpbell_kernels::abi::{self, HAZARD_FREE, HAZARD_TAKEN, HAZARD_WAITING};
use warpbell_softctl::FaultPlan;

use super::QueueTable;
use crate::test_hooks::TestSsd;
use crate::{AttachOptions, Attachment, OpenOptions, RecoveryEvent, Sharing, Ssd, SsdEventKind};

/// One shared queue of one warp, with two replacement_queues: slots 0 to 2.
struct Fixture {
    ssd: Ssd,
    attachment: Attachment,
    table: Arc<QueueTable>,
}

impl Fixture {
    fn new(options: &OpenOptions) -> Fixture {
        let ssd = Ssd::open(&"soft:size=1m,time=virtual,dbbuf=on".parse().unwrap(), options).unwrap();
        let shared = AttachOptions { sharing: Sharing::Shared, ..AttachOptions::default() };
        let attachment = ssd.attach(&shared).unwrap();
        let table = ssd.recovery().tables().remove(0);
        Fixture { ssd, attachment, table }
    }

    fn sit(&self, slot: usize, lane: usize, how: u32) {
        self.table.parts.queues.pages().sit(slot, lane, how);
    }

    /// Gives the queue up and looks.
    fn lose(&self) {
        self.attachment.declare_lost(0);
        self.ssd.recovery().poll();
    }

    /// The identifier and epoch of the queue in a slot, as lanes find them.
    fn entry(&self, slot: usize) -> (u32, u32) {
        let entry = self.table.parts.queues.entry(slot).unwrap();
        (entry.qid, entry.epoch)
    }

    fn state(&self, slot: usize) -> u32 {
        self.table.parts.queues.pages().state(slot)
    }

    /// The slot that lanes of another are sent to.
    fn sent_to(&self, slot: usize) -> Option<usize> {
        let queues = &self.table.parts.queues;
        (0..3).find(|to| queues.entry_address(*to) == queues.pages().successor(slot))
    }

    fn replaced(&self) -> u64 {
        self.ssd.recovery_counters().queues_replaced
    }

    fn pass(&self, time: Duration) {
        let clock = self.ssd.controller().device().clock();
        let until = clock.now() + time;
        while clock.now() < until {
            clock.pause(Duration::from_millis(1));
        }
    }
}

#[test]
fn more_replacement_queues_than_anybody_needs_are_refused_by_name() {
    let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap();
    let error = ssd.attach(&AttachOptions { replacement_queues: u32::MAX, ..AttachOptions::default() }).err();
    let text = error.expect("refused").to_string();
    assert!(text.starts_with("replacement_queues 4294967295: must be at most 4096"), "{text}");
}

#[test]
fn an_identifier_comes_back_when_no_lane_can_ring_and_a_slot_when_none_can_look() {
    let fixture = Fixture::new(&OpenOptions::default());
    fixture.table.enter().unwrap();
    fixture.sit(0, 5, HAZARD_TAKEN);
    fixture.lose();
    assert_eq!((fixture.state(0), fixture.sent_to(0), fixture.entry(1)), (abi::QUEUE_LOST, Some(1), (2, 1)));
    assert_eq!(fixture.ssd.recovery_counters().ids_freed, 0, "lane 5 may still ring id 1");
    fixture.sit(0, 5, HAZARD_WAITING);
    fixture.ssd.recovery().poll();
    assert_eq!(fixture.ssd.recovery_counters().ids_freed, 1);
    fixture.sit(1, 5, HAZARD_TAKEN);
    fixture.sit(0, 5, HAZARD_FREE);
    fixture.lose();
    assert_eq!((fixture.sent_to(0), fixture.sent_to(1), fixture.entry(2)), (Some(2), Some(2), (1, 2)));
    // Slot 0 is what starting kernels find; lane 5 looks at slot 1, lane 6 is on slot 2: there is no room for a fourth.
    fixture.sit(1, 5, HAZARD_WAITING);
    fixture.sit(2, 6, HAZARD_TAKEN);
    fixture.lose();
    assert_eq!((fixture.replaced(), fixture.sent_to(0), fixture.sent_to(1)), (2, None, None));
    fixture.sit(1, 5, HAZARD_FREE);
    fixture.ssd.recovery().poll();
    assert_eq!((fixture.replaced(), fixture.sent_to(0), fixture.entry(1).1), (3, Some(1), 3));
    assert_eq!(fixture.state(1), abi::QUEUE_RUNNING);
    fixture.table.leave();
}

#[test]
fn losses_that_come_faster_than_lanes_move_need_no_more_slots() {
    let fixture = Fixture::new(&OpenOptions::default());
    fixture.table.enter().unwrap();
    fixture.lose();
    // Lane 7 waits for the next one, lane 8 is busy elsewhere and has not noticed; nobody comes to the new ones.
    fixture.sit(1, 7, HAZARD_WAITING);
    fixture.sit(0, 8, HAZARD_TAKEN);
    (0..10).for_each(|_| fixture.lose());
    assert_eq!((fixture.replaced(), fixture.sent_to(0), fixture.sent_to(1)), (11, Some(2), Some(2)));
    assert_eq!((fixture.entry(2).1, fixture.state(2)), (11, abi::QUEUE_RUNNING));
    fixture.table.leave();
}

#[test]
fn when_the_last_launch_is_gone_so_are_its_lanes_and_the_next_finds_the_newest() {
    let fixture = Fixture::new(&OpenOptions::default());
    fixture.table.enter().unwrap();
    fixture.sit(0, 1, HAZARD_TAKEN);
    fixture.lose();
    assert_eq!(fixture.attachment.queue(0).unwrap().qid, 1, "a running kernel's table stays as it is");
    fixture.table.leave();
    fixture.ssd.recovery().poll();
    assert_eq!(fixture.ssd.recovery_counters().ids_freed, 1);
    let found = fixture.attachment.queue(0).unwrap();
    assert_eq!((found.qid, found.epoch), (2, 1));
}

#[test]
fn a_kernel_that_starts_while_the_newest_queue_is_lost_does_not_begin_in_its_slot() {
    let fixture = Fixture::new(&OpenOptions::default());
    fixture.lose();
    // Slot 1 has the newest queue, where no lane ever came, and that is lost, too: its slot may be used for the next.
    fixture.attachment.declare_lost(0);
    fixture.table.lose(0, Duration::ZERO);
    fixture.table.enter().unwrap();
    assert_eq!(fixture.attachment.queue(0).unwrap().epoch, 0, "as before the first loss");
    fixture.ssd.recovery().poll();
    assert_eq!((fixture.state(0), fixture.sent_to(0).is_some()), (abi::QUEUE_LOST, true));
    fixture.table.leave();
    assert_eq!(fixture.attachment.queue(0).unwrap().epoch, 2);
}

#[test]
fn a_queue_without_a_successor_in_time_is_dead() {
    let fixture = Fixture::new(&OpenOptions::default());
    let events = fixture.ssd.events();
    fixture.table.enter().unwrap();
    for slot in 0..3 {
        fixture.sit(slot, 0, HAZARD_TAKEN);
        fixture.lose();
        // A fresh slot has free hazard slots.
        fixture.sit(slot, 0, HAZARD_TAKEN);
    }
    assert_eq!(fixture.replaced(), 2);
    fixture.pass(fixture.ssd.recovery().policy().replace);
    fixture.ssd.recovery().poll();
    assert_eq!([0, 1, 2].map(|slot| fixture.state(slot)), [abi::QUEUE_DEAD; 3]);
    assert_eq!(fixture.ssd.recovery_counters().queues_dead, 1);
    let dead = |kind: &SsdEventKind| matches!(kind, SsdEventKind::Recovery(RecoveryEvent::QueueDead { .. }));
    assert!(events.try_iter().any(|event| dead(&event.kind)));
    fixture.table.leave();
}

#[test]
fn a_reset_by_somebody_else_is_noticed_and_queues_come_back() {
    let shadows = OpenOptions { doorbell_buffer: DoorbellBuffer::On, ..OpenOptions::default() };
    let fixture = Fixture::new(&shadows);
    fixture.ssd.controller().reset().unwrap();
    fixture.ssd.recovery().poll();
    assert_eq!((fixture.sent_to(0), fixture.replaced()), (Some(1), 1));
    let entry = fixture.table.parts.queues.entry(1).unwrap();
    assert_eq!(entry.flags & abi::QUEUE_SHADOW, abi::QUEUE_SHADOW);
    assert!(TestSsd::violations(&fixture.ssd).is_empty());
}

#[test]
fn without_recovery_a_lost_queue_stays_lost() {
    let off = OpenOptions { recovery: super::RecoveryPolicy::off(), ..OpenOptions::default() };
    let fixture = Fixture::new(&off);
    fixture.lose();
    assert_eq!((fixture.state(0), fixture.sent_to(0), fixture.replaced()), (abi::QUEUE_LOST, None, 0));
}

#[test]
fn queues_that_cannot_be_deleted_do_not_keep_their_controller() {
    let never = "[[fault]]\nkind = \"drop\"\nadmin = \"delete_i/o_submission_queue\"\n";
    let faults = Some(FaultPlan::from_toml(never).unwrap());
    let Fixture { ssd, attachment, table } = Fixture::new(&OpenOptions { faults, ..OpenOptions::default() });
    let (soft, controller) = (ssd.soft().unwrap().clone(), Arc::downgrade(ssd.controller()));
    let ring = attachment.pairs()[0].sq_iova();
    let mapped = || soft.client_memory().slice(ring, 64, DmaAccess::READ).is_ok();
    drop((table, attachment));
    assert!(mapped(), "the controller may still fetch from it");
    drop(ssd);
    assert_eq!((controller.strong_count(), mapped()), (0, false));
}
