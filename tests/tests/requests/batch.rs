//! Batches of blocks and of warps.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_kernels::toolchain::Variant;
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_sim::seeds;
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};
use warpbell_tests::documented;
use zerocopy::{Immutable, IntoBytes};

use crate::fixture::*;
use warpbell_hw::{Lba, Nsid};
use warpbell_sim::{TestLaunch, TestVariant, on_cpu};

/// Generic, Internal Error, Do Not Retry.
pub const BROKEN: Status = Status::new(StatusCodeType::GENERIC, 0x06).with_dnr(true);
pub const BROKEN_BITS: u32 = 0x4006;
/// The same without Do Not Retry.
const PASSING: Status = Status::new(StatusCodeType::GENERIC, 0x06);

pub fn library(code: u32) -> u32 {
    abi::STATUS_LIBRARY | code
}

pub fn each(run: impl Fn(Sharing, u64)) {
    for seed in seeds(SEEDS) {
        MODES.iter().for_each(|sharing| run(*sharing, seed));
    }
}

#[test]
fn requests_of_any_thread_go_to_the_ssd_and_their_answers_to_every_thread() {
    each(|sharing, seed| {
        for (warps, submitters, most) in [(1, 1, 64), (2, 2, 64), (3, 3, 2), (4, 1, 64), (4, 3, 1), (4, 2, 3)]
        {
            let setting = Setting { submitters, most, ..Setting::new(sharing, 2, warps) };
            let ran = setting.run(&MODULE, seed).expect("a run");
            assert_eq!(ran.check(), Ok(()), "seed {seed}, {setting:?}");
            assert_eq!(ran.commands(), 2 * 2 * setting.commands_of_group(), "{setting:?}");
        }
    });
}

#[test]
fn warps_have_batches_too_and_a_flush_is_a_request() {
    each(|sharing, seed| {
        for most in [64, 2] {
            let setting = Setting { flags: BY_WARP | WITH_FLUSH, most, ..Setting::new(sharing, 1, 3) };
            let ran = setting.run(&MODULE, seed).expect("a run");
            assert_eq!(ran.check(), Ok(()), "seed {seed}, {setting:?}");
            assert_eq!(ran.commands(), 3 * (2 * setting.commands_of_group() + 1));
            assert_eq!(ran.several.softs[0].statistics().commands(NvmOpcode::FLUSH), 3);
        }
    });
}

#[test]
fn a_warp_rings_once_for_each_32_commands() {
    // Warp w of three has the slots 32 w to 32 w + 31.
    for (most, submitters) in [(64, 3), (2, 3), (64, 1), (1, 1)] {
        let setting = Setting { most, submitters, ..Setting::new(Sharing::Exclusive, 1, 3) };
        let ran = setting.run(&MODULE, 1).expect("a run");
        let mut of_warp = vec![0; submitters as usize];
        for (slot, blocks) in Setting::sizes() {
            of_warp[(slot / 32 % u64::from(submitters)) as usize] += blocks.div_ceil(u64::from(most));
        }
        let rings: u64 = of_warp.iter().map(|commands: &u64| commands.div_ceil(32)).sum();
        assert_eq!(ran.counters.sq_doorbells, 2 * rings, "{setting:?}");
        assert_eq!(ran.counters.rmw, 0, "nothing atomic on exclusive queues");
    }
}

#[test]
fn batches_larger_than_the_ring_go_in_parts() {
    each(|sharing, seed| {
        for iodepth in [1, 3] {
            let setting = Setting { iodepth, most: 2, ..Setting::new(sharing, 1, 2) };
            let ran = setting.run(&MODULE, seed).expect("a run");
            assert_eq!(ran.check(), Ok(()), "seed {seed}, {setting:?}");
        }
    });
}

/// One block of a request of five cannot be read, each by a command of its own.
pub struct Broken {
    pub slot: u64,
    pub block: u64,
}

impl Broken {
    pub fn setting(&self, sharing: Sharing) -> Setting {
        let bad = Setting::first_of(0, self.slot) + self.block;
        let selector = Selector::new().lba(Some(Lba(bad)..=Lba(bad))).opcodes(vec![NvmOpcode::READ]);
        let setting = Setting { most: 1, ..Setting::new(sharing, 1, 2) };
        setting.failing(FaultAction::Fail { status: BROKEN }, selector)
    }

    /// Only that request has failed, and its bytes are those before the block.
    pub fn check(&self, ran: &Ran) -> Result<(), String> {
        for (_, slot, blocks, record) in ran.answers(1) {
            let good = Record { answers: 1, bytes: blocks * BLOCK, ..Record::default() };
            let bad = Record { status: BROKEN_BITS, bytes: self.block * BLOCK, ..good };
            if record != if slot == self.slot { bad } else { good } {
                return Err(format!("slot {slot}: {record:?}"));
            }
        }
        if ran.notes[1].iter().any(|told| *told != BROKEN_BITS) {
            return Err(format!("told of all: {:x?}", ran.notes[1]));
        }
        Ok(())
    }
}

#[test]
fn a_piece_that_fails_fails_its_request_and_no_other() {
    each(|sharing, seed| {
        // The second request begins with the last commands of a round; what is not sent of it comes later.
        for (slot, block, not_sent) in [(39, 3, 0), (44, 1, 3), (44, 3, 0)] {
            let broken = Broken { slot, block };
            let setting = broken.setting(sharing);
            let ran = setting.run(&MODULE, seed).expect("a run");
            assert_eq!(broken.check(&ran), Ok(()), "seed {seed}, {sharing:?}");
            assert_eq!(ran.commands(), 2 * setting.commands_of_group() - not_sent, "slot {slot}");
        }
    });
}

#[test]
fn what_passes_is_sent_again_where_the_session_says_so() {
    each(|sharing, seed| {
        let selector = Selector::new().every(5);
        let setting = Setting { flags: WITH_RETRY, most: 2, ..Setting::new(sharing, 1, 2) };
        let setting = setting.failing(FaultAction::Fail { status: PASSING }, selector.count(Some(9)));
        let ran = setting.run(&MODULE, seed).expect("a run");
        assert_eq!(ran.check(), Ok(()), "seed {seed}, {sharing:?}");
        assert_eq!(ran.commands(), 2 * setting.commands_of_group() + 9);
    });
}

/// Many rounds of one warp, each of which takes a third of the deadline.
pub fn slow(sharing: Sharing) -> Setting {
    let late = FaultAction::Delay { by: Duration::from_millis(3) };
    let reads = Selector::new().opcodes(vec![NvmOpcode::READ]);
    Setting { most: 1, submitters: 1, ..Setting::new(sharing, 1, 2) }.failing(late, reads)
}

pub fn check_slow(ran: &Ran) -> Result<(), String> {
    let most = Duration::from_millis(15);
    if ran.took < most { Ok(()) } else { Err(format!("took {:?}, with {most:?}", ran.took)) }
}

#[test]
fn a_batch_has_one_deadline_and_tells_what_became_of_each_request() {
    each(|sharing, seed| {
        let ran = slow(sharing).run(&MODULE, seed).expect("a run");
        assert_eq!(check_slow(&ran), Ok(()), "seed {seed}, {sharing:?}");
        // Of one warp: many rounds.
        let lost = Selector::new().opcodes(vec![NvmOpcode::READ]).after(40).count(Some(1));
        let setting = Setting { most: 1, submitters: 1, ..Setting::new(sharing, 1, 2) };
        let ran = setting.failing(FaultAction::Drop, lost).run(&MODULE, seed).expect("a run");
        assert!(ran.took < Duration::from_millis(30), "{:?} with a deadline of 10 ms", ran.took);
        let mut seen = [0; 3];
        for (_, slot, blocks, record) in ran.answers(1) {
            let known = [0, library(abi::STATUS_TIMED_OUT), library(abi::STATUS_NOT_SUBMITTED)];
            let at = known.iter().position(|status| *status == record.status);
            seen[at.unwrap_or_else(|| panic!("seed {seed}, slot {slot}: {record:?}"))] += 1;
            assert_eq!((record.answers, record.wrong), (1, 0), "slot {slot}: {record:?}");
            assert_eq!(record.bytes == blocks * BLOCK, record.status == 0, "slot {slot}: {record:?}");
        }
        assert_eq!(seen[1], 1, "seed {seed}: {seen:?}");
        assert!(seen[0] > 5 && seen[2] > 5, "seed {seed}: {seen:?}");
        assert!(ran.notes[1].iter().all(|told| *told == library(abi::STATUS_TIMED_OUT)));
    });
}

pub fn refused(sharing: Sharing) -> Setting {
    Setting { flags: REFUSED, ..Setting::new(sharing, 1, 1) }
}

/// What the slots were answered, and what was said when requests were added.
pub fn check_refused(ran: &Ran) -> Result<(), String> {
    let status: Vec<u32> = ran.records[0].iter().map(|record| record.status).collect();
    let range = library(abi::STATUS_OUT_OF_RANGE);
    let (field, buffer) = (library(abi::STATUS_INVALID_FIELD), library(abi::STATUS_OUT_OF_BUFFER));
    let answers = [range, field, 0, buffer, library(abi::STATUS_MISALIGNED), 0, range, 0];
    let added = [0, 0, 0, 0, 0, library(abi::STATUS_NO_ROOM), field, field, buffer, 0];
    for (what, found, expected) in [
        ("slots were answered", &status[..8], &answers[..]),
        ("was said of those added", &status[10..20], &added[..]),
        ("was said of all, and of no slot", &status[20..22], &[range, field][..]),
    ] {
        if found != expected {
            return Err(format!("{what} {found:x?} for {expected:x?}"));
        }
    }
    if ran.commands() == 1 { Ok(()) } else { Err(format!("{} commands", ran.commands())) }
}

#[test]
fn what_cannot_be_done_is_refused_and_the_rest_is_done() {
    each(|sharing, seed| {
        let ran = refused(sharing).run(&MODULE, seed).expect("a run");
        assert_eq!(check_refused(&ran), Ok(()), "seed {seed}, {sharing:?}");
    });
}

/// Block 1 of a request cannot be read, and the command for block 3 is never answered: that one keeps its buffer.
pub fn in_use(sharing: Sharing) -> Setting {
    let first = Setting::first_of(0, 39);
    let at = |lba, action| {
        let opcodes = vec![NvmOpcode::READ];
        Fault::new(action, Selector::new().lba(Some(Lba(lba)..=Lba(lba))).opcodes(opcodes))
    };
    let faults = vec![at(first + 1, FaultAction::Fail { status: BROKEN }), at(first + 3, FaultAction::Drop)];
    let faults = FaultPlan::new().faults(faults);
    Setting { most: 1, faults, ..Setting::new(sharing, 1, 2) }
}

pub fn check_in_use(ran: &Ran) -> Result<(), String> {
    let told = ran.answers(1).find(|(_, slot, ..)| *slot == 39).map(|(.., record)| record);
    let expected =
        Record { answers: 1, status: library(abi::STATUS_TIMED_OUT), bytes: BLOCK, ..Record::default() };
    if told == Some(expected) { Ok(()) } else { Err(format!("slot 39: {told:?}")) }
}

#[test]
fn of_two_failures_of_a_request_the_one_that_keeps_its_buffer_is_told() {
    each(|sharing, seed| {
        let ran = in_use(sharing).run(&MODULE, seed).expect("a run");
        assert_eq!(check_in_use(&ran), Ok(()), "seed {seed}, {sharing:?}");
    });
}

#[test]
fn a_block_that_is_no_whole_number_of_warps_is_refused() {
    each(|sharing, seed| {
        let setting = Setting { threads: 48, ..Setting::new(sharing, 1, 1) };
        let ran = setting.run(&MODULE, seed).expect("a run");
        let refused = library(abi::STATUS_INVALID_BATCH);
        assert!(ran.notes.iter().flatten().all(|told| *told == refused), "{:x?}", ran.notes);
        let mut answers = ran.answers(0).chain(ran.answers(1));
        assert!(answers.all(|(_, _, blocks, record)| record.status == if blocks != 0 { refused } else { 0 }));
        assert_eq!(ran.commands(), 0);
    });
}

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct ExampleArgs {
    ns: abi::NamespaceRef,
    buffer: abi::BufferRef,
    answers: u64,
}

/// Each thread asks for its own requests, of `most` blocks, whose first words are squares of their numbers.
fn run_example(kernel: &str, warps: u32, submitters: u32, requests: u64, most: u64) {
    let module = Variant::text(kernel, &documented(kernel)).quick().loaded().expect("compiles");
    let fixture = Setting { submitters, ..Setting::new(Sharing::Shared, 3, warps) };
    let several = fixture.open(1).expect("an SSD");
    for request in 0..requests {
        let mut bytes = vec![0; (most * BLOCK) as usize];
        bytes[..8].copy_from_slice(&(request * request + 1).to_le_bytes());
        several.softs[0].poke(Nsid(1), Lba(request * most), &bytes).expect("blocks");
    }
    let queues = &several.queues[0];
    let buffer = queues.buffer((requests * most * BLOCK) as usize).expect("a buffer");
    let answers = queues.target().memory(requests as usize * 8).expect("memory");
    let args = ExampleArgs { ns: queues.namespace(), buffer: buffer.as_ref(), answers: answers.address() };
    let launch = queues.launch_bytes(&module.into(), kernel, args.as_bytes()).expect("a launch");
    let launch =
        on_cpu(&launch.grid(2).block(32 * warps).shared_bytes(64 * 84 + 128)).expect("the CPU target");
    several.run(launch, 5, |_| ()).expect("a run");
    let mut found = vec![0u64; requests as usize];
    answers.read(0, found.as_mut_bytes()).expect("answers");
    assert!((0..requests).all(|at| found[at as usize] == at * at + 1), "{found:?}");
}

#[test]
fn the_examples_of_the_documentation_run() {
    // Two blocks of three warps, with 64 requests each; and of two warps, of which one has a queue.
    run_example("block_example", 3, 3, 128, 8);
    run_example("submitter_example", 2, 1, 128, 1);
}
