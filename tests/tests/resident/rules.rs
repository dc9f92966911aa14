//! Every rule of the controller, broken by a client that is this test.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use warpbell_kernels::abi::{self, ResidentQueue};
use warpbell_kernels::cpu::{Hooks, Module, Worker};
use warpbell_softctl::Rule;
use warpbell_workload::BenchOptions;
use warpbell_workload::resident::{BLOCKS, rules};

use crate::fixture::{Fixture, options, spec};

const ENTRIES: u32 = 8;
const IOVA: u64 = 1 << 40;

/// A controller without clients, stepped between what the test does. Its time passes in [`Solo::wait`] alone.
struct Solo {
    fixture: Fixture,
    worker: Worker,
    clock_ns: Arc<AtomicU64>,
    tail: u32,
}

impl Solo {
    fn new(what: &str) -> Solo {
        let fixture = Fixture::new(&spec(what), &BenchOptions { iodepth: 7, ..options() }, 0);
        let module = Module::builtin().unwrap();
        let args = fixture.args(0);
        let clock_ns = Arc::new(AtomicU64::new(1));
        let clock = clock_ns.clone();
        let hooks = Hooks::new().clock(move || clock.load(Ordering::Relaxed));
        let launch = fixture.launch(&module, &args).grid(fixture.geometry.controller_blocks).hooks(hooks);
        let worker = launch.worker().unwrap();
        Solo { fixture, worker, clock_ns, tail: 0 }
    }

    fn wait(&mut self, time: Duration) {
        self.clock_ns.fetch_add(time.as_nanos() as u64, Ordering::Relaxed);
        self.step();
    }

    fn step(&mut self) {
        for _ in 0..8 {
            self.worker.step(16);
        }
    }

    fn doorbell(&mut self, which: usize, value: u32) {
        let mut line = [0; 32];
        line[0] = value;
        self.fixture.memory.doorbells().put(which, &[line]).unwrap();
        self.step();
    }

    /// Submits entries and lets the controller answer.
    fn submit(&mut self, entries: &[[u32; 16]]) {
        for entry in entries {
            self.fixture.memory.entries().put((self.tail % ENTRIES) as usize, &[*entry]).unwrap();
            self.tail += 1;
        }
        self.doorbell(0, self.tail % ENTRIES);
    }

    /// Status and command of completion `index` of the first lap.
    fn completion(&self, index: usize) -> (u32, u32) {
        let high = self.fixture.memory.completions().get(index).unwrap()[1];
        assert_eq!(high >> 48 & 1, 1, "completion {index} was not posted");
        ((high >> 49) as u32, (high >> 32) as u32 & 0xffff)
    }

    fn queue(&self) -> ResidentQueue {
        self.fixture.memory.queues().get(0).unwrap()
    }

    fn broken(&self) -> Vec<(Rule, u32)> {
        rules::broken(&self.queue()).collect()
    }

    /// Ends the launch.
    fn end(mut self) -> ResidentQueue {
        self.fixture.memory.ended().put(0, &[1]).unwrap();
        let begin = Instant::now();
        while !self.worker.finished().unwrap() {
            assert!(begin.elapsed() < Duration::from_secs(60), "the controller does not end");
            self.worker.step(64);
        }
        self.queue()
    }
}

/// A right read of one block by SGL, with this identifier.
fn read(cid: u32) -> [u32; 16] {
    let mut e = [0; 16];
    e[0] = 2 | 1 << 14 | cid << 16;
    e[1] = 1;
    (e[6], e[7]) = (IOVA as u32, (IOVA >> 32) as u32);
    e[8] = 512;
    e
}

/// The same by PRPs, of so many blocks.
fn by_prp(cid: u32, blocks: u32, prp1: u64, prp2: u64) -> [u32; 16] {
    let mut e = read(cid);
    e[0] &= !(3 << 14);
    (e[6], e[7]) = (prp1 as u32, (prp1 >> 32) as u32);
    (e[8], e[9]) = (prp2 as u32, (prp2 >> 32) as u32);
    e[12] = blocks - 1;
    e
}

/// A read with one dword changed.
fn with(index: usize, value: u32) -> [u32; 16] {
    let mut e = read(1);
    e[index] = value;
    e
}

const DNR: u32 = 1 << 14;
/// What a right command is answered with: made of its block address.
const ECHO: u32 = abi::RESIDENT_ECHO_STATUS;

#[test]
fn right_commands_break_nothing() {
    let mut solo = Solo::new("");
    let mut flush = [0; 16];
    (flush[0], flush[1]) = (7 << 16, u32::MAX);
    let prps = [by_prp(2, 8, IOVA, 0), by_prp(3, 9, IOVA, IOVA + 4096), by_prp(4, 64, IOVA + 8, 1 << 20)];
    let mut write = with(10, 0x1234);
    write[0] = 1 | 1 << 14 | 9 << 16;
    solo.submit(&[read(1), prps[0], prps[1], prps[2], flush, write]);
    assert_eq!(solo.broken(), []);
    let answers: Vec<_> = (0..6).map(|index| solo.completion(index)).collect();
    assert_eq!(answers, [(ECHO, 1), (ECHO, 2), (ECHO, 3), (ECHO, 4), (ECHO, 7), (ECHO | 0x34, 9)]);
    let high = solo.fixture.memory.completions().get(0).unwrap()[1];
    assert_eq!((high & 0xffff, high >> 16 & 0xffff), (6, 1), "SQHD and SQID");
    assert_eq!(solo.end().commands, 6);
}

#[test]
fn entries_that_break_rules_are_named_and_answered() {
    let far = (BLOCKS as u32, (BLOCKS >> 32) as u32);
    let mut beyond = read(1);
    (beyond[10], beyond[11]) = far;
    let cases: Vec<([u32; 16], Rule, u32)> = vec![
        (with(0, 2 | 1 << 14 | 0xffff << 16), Rule::CidReserved, ECHO),
        (with(0, 0x81 | 1 << 16), Rule::UnsupportedOpcode, DNR | 0x01),
        (with(0, 2 | 1 << 8 | 1 << 14 | 1 << 16), Rule::FusedOperation, DNR | 0x02),
        (with(1, 2), Rule::NamespaceIdentifier, DNR | 0x0b),
        (with(3, 1), Rule::ReservedField, ECHO),
        (with(5, 1), Rule::Metadata, DNR | 0x02),
        (beyond, Rule::LbaRange, DNR | 0x80),
        (with(0, 2 | 2 << 14 | 1 << 16), Rule::DataPointer, DNR | 0x02),
        (with(9, 0x30 << 24), Rule::SglDescriptor, DNR | 0x11),
        (with(8, 1024), Rule::SglLength, DNR | 0x0f),
        (by_prp(1, 1, IOVA + 2, 0), Rule::PrpMisaligned, DNR | 0x13),
        (by_prp(1, 64, IOVA, 4), Rule::PrpMisaligned, DNR | 0x13),
        (by_prp(1, 9, IOVA, IOVA + 8), Rule::PrpOffset, DNR | 0x13),
        (by_prp(1, 8, IOVA, IOVA), Rule::PrpUnneeded, ECHO),
        (with(7, 1), Rule::ForeignAddress, DNR | 0x04),
        (by_prp(1, 9, IOVA, 0x1000), Rule::ForeignAddress, DNR | 0x04),
    ];
    for (entry, rule, status) in cases {
        let mut solo = Solo::new("");
        solo.submit(&[entry]);
        assert_eq!(solo.broken(), [(rule, 1)], "{entry:x?}");
        assert_eq!(solo.completion(0).0, status, "{rule}");
        let queue = solo.end();
        assert_eq!(queue.commands, 1);
        assert!(rules::first(&queue).unwrap().starts_with(rule.name()));
    }
    // Above MDTS, which is more than the buffer has: the first rule decides.
    let mut solo = Solo::new("");
    let mut long = with(12, 2048);
    long[8] = 2049 * 512;
    solo.submit(&[long]);
    assert_eq!(solo.broken(), [(Rule::TransferSize, 1), (Rule::ForeignAddress, 1)]);
    assert_eq!(solo.completion(0).0, DNR | 0x02);
}

#[test]
fn an_entry_that_nobody_wrote_is_not_answered() {
    let mut solo = Solo::new("");
    solo.submit(&[read(1), read(2)]);
    solo.tail += 1;
    let tail = solo.tail;
    solo.doorbell(0, tail % ENTRIES);
    assert_eq!(solo.broken(), [(Rule::StaleEntry, 1)]);
    solo.submit(&[read(3)]);
    assert_eq!([0, 1, 2].map(|index| solo.completion(index).1), [1, 2, 3]);
    let queue = solo.end();
    assert_eq!((queue.commands, queue.fetched, queue.posted), (3, 4, 3));
}

#[test]
fn an_entry_of_the_last_lap_is_not_answered_again() {
    let mut solo = Solo::new("");
    for cid in 0..u32::from(ENTRIES as u8) {
        solo.submit(&[read(cid)]);
        let head = solo.tail % ENTRIES;
        solo.doorbell(1, head);
    }
    assert_eq!(solo.broken(), []);
    solo.tail += 1;
    let tail = solo.tail % ENTRIES;
    solo.doorbell(0, tail);
    assert_eq!(solo.broken(), [(Rule::StaleEntry, 1)]);
}

#[test]
fn an_identifier_in_flight_is_not_to_be_used_again() {
    // At once two in one batch, with a delay also of different batches.
    let mut solo = Solo::new("");
    solo.submit(&[read(5), read(6), read(5)]);
    assert_eq!(solo.broken(), [(Rule::CidInFlight, 1)]);
    assert_eq!([0, 1, 2].map(|index| solo.completion(index)), [(ECHO, 5), (ECHO, 6), (DNR | 3, 5)]);
    solo.submit(&[read(5)]);
    assert_eq!(solo.broken(), [(Rule::CidInFlight, 1)]);

    let mut solo = Solo::new("delay=500ms");
    solo.submit(&[read(5)]);
    solo.submit(&[read(5)]);
    assert_eq!(solo.broken(), [(Rule::CidInFlight, 1)]);
    solo.wait(Duration::from_millis(500));
    assert_eq!([0, 1].map(|index| solo.completion(index)), [(ECHO, 5), (DNR | 3, 5)]);
    // It is free again, once, by the completion of the command that had it.
    solo.submit(&[read(5)]);
    assert_eq!(solo.broken(), [(Rule::CidInFlight, 1)]);
}

#[test]
fn doorbell_values_are_checked() {
    let mut solo = Solo::new("");
    solo.doorbell(0, ENTRIES);
    assert_eq!(solo.broken(), [(Rule::DoorbellRange, 1)]);
    assert!(rules::first(&solo.queue()).unwrap().contains("doorbell value 8"));
    solo.submit(&[read(1)]);
    assert_eq!(solo.completion(0), (ECHO, 1), "a wrong value is not taken");
    solo.doorbell(1, 0x1_0000);
    assert_eq!(solo.broken(), [(Rule::DoorbellRange, 2)]);
    solo.doorbell(1, 2);
    assert_eq!(solo.broken(), [(Rule::DoorbellRange, 2), (Rule::CqHeadBeyondTail, 1)]);
    assert_eq!(solo.end().taken, 0);
}

#[test]
fn a_tail_beyond_the_free_entries_is_not_taken() {
    // With a full completion ring nothing more is fetched, so that entries stay in use.
    let mut solo = Solo::new("");
    solo.submit(&(0..7).map(read).collect::<Vec<_>>());
    assert_eq!(solo.completion(6).1, 6);
    solo.submit(&(10..16).map(read).collect::<Vec<_>>());
    assert_eq!(solo.fixture.memory.completions().get(7).unwrap()[1] >> 48 & 1, 0, "the ring is full");
    let tail = (solo.tail + 3) % ENTRIES;
    solo.doorbell(0, tail);
    assert_eq!(solo.broken(), [(Rule::DoorbellOverrun, 1)]);
    // Told of completions, it goes on with what it took.
    solo.doorbell(1, 7);
    assert_eq!(solo.completion(7).1, 10);
    assert_eq!(solo.end().fetched, 13);
}
