//! Requests in an order.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_nvme::NvmOpcode;
use warpbell_softctl::{FaultAction, Selector};

use crate::batch::{BROKEN, BROKEN_BITS, each, library};
use crate::pieces::*;

/// As in requests.cu.
pub const IN_TURN: u32 = 0;
pub const DELIVERED: u32 = 1;
pub const LOG: u32 = 2;
const STEPS: u32 = 11;

pub fn steps(sharing: Sharing, mode: u32) -> Work {
    let most = if mode == LOG { 5 } else { 64 };
    Work { blocks: STEPS + 2, rounds: STEPS + 1, most, ..Work::new(sharing, "order_test", mode) }
}

/// What the last write left in a lane's block.
fn last_word(mode: u32, lane: u32) -> u32 {
    match mode {
        IN_TURN => (STEPS - 1) * 32 + (lane + 32 - (STEPS - 1)) % 32 + 1,
        // Each third step is a flush: steps 8 and 5 are, 10 is a write.
        _ => (STEPS - 1) * 32 + lane + 1,
    }
}

/// All steps were answered well, in their order, and the last write is the one that lasts.
pub fn check(done: &Done) -> Result<(), String> {
    let mode = done.work.mode;
    done.expect(|_, round, lane| {
        let blocks = match mode {
            LOG if round % 3 == 2 => 0,
            LOG => 32,
            _ => 1,
        };
        let step = Record { answers: 1, bytes: blocks * BLOCK, ..Record::default() };
        match (round, mode) {
            (STEPS, DELIVERED) => Record { pad: u32::from(done.work.in_order), ..Record::default() },
            (STEPS, _) => Record { pad: last_word(mode, lane), bytes: 0, ..step },
            _ => step,
        }
    })
}

#[test]
fn each_step_is_sent_after_those_before_it_completed() {
    each(|sharing, seed| {
        for (mode, iodepth) in [(IN_TURN, 63), (IN_TURN, 3), (LOG, 63), (LOG, 2)] {
            let work = Work { iodepth, ..steps(sharing, mode) };
            let done = work.run(&PIECES, seed).expect("a run");
            assert_eq!(check(&done), Ok(()), "seed {seed}, {work:?}");
            // And one of each warp in the end.
            let flushes = if mode == LOG { u64::from(STEPS / 3) * 2 + 2 } else { 2 };
            assert_eq!(done.several.softs[0].statistics().commands(NvmOpcode::FLUSH), flushes);
        }
    });
}

/// A read of step 1 takes longer than those of the steps behind it.
pub fn slow(sharing: Sharing) -> Work {
    let late = Selector::new().lba(Some(Lba(64)..=Lba(64)));
    let work = Work { warps: 1, ..steps(sharing, DELIVERED) };
    work.failing(FaultAction::Delay { by: Duration::from_millis(1) }, late)
}

#[test]
fn answers_are_handed_over_in_the_order_of_submission() {
    each(|sharing, seed| {
        for iodepth in [63, 3] {
            let work = Work { iodepth, ..steps(sharing, DELIVERED) };
            let done = work.run(&PIECES, seed).expect("a run");
            assert_eq!(check(&done), Ok(()), "seed {seed}, {work:?}");
        }
        let done = narrow(sharing).run(&PIECES, seed).expect("a run");
        assert_eq!(check(&done), Ok(()), "seed {seed}, {sharing:?}, one identifier");
        let done = slow(sharing).run(&PIECES, seed).expect("a run");
        assert_eq!(check(&done), Ok(()), "seed {seed}, {sharing:?}, a slow read");
        assert!(done.took >= Duration::from_millis(1), "{:?}", done.took);
    });
}

/// Kernels are told which controllers complete in order, and what is handed over is the same there.
#[test]
fn queues_tell_whether_their_controller_completes_in_order() {
    each(|sharing, seed| {
        for in_order in [false, true] {
            let done = Work { in_order, ..slow(sharing) }.run(&PIECES, seed).expect("a run");
            assert_eq!(check(&done), Ok(()), "seed {seed}, {sharing:?}");
        }
    });
}

/// The write of lane 7 in step 2 fails: that of block 9.
pub fn broken(sharing: Sharing) -> Work {
    let selector =
        Selector::new().lba(Some(Lba(9)..=Lba(9))).opcodes(vec![NvmOpcode::WRITE]).after(2).count(Some(1));
    Work { warps: 1, ..steps(sharing, IN_TURN) }.failing(FaultAction::Fail { status: BROKEN }, selector)
}

/// What follows the failure was not sent until the failure had been taken with all that was posted behind it.
pub fn check_broken(done: &Done) -> Result<(), String> {
    let aborted = library(abi::STATUS_ABORTED);
    for (_, round, lane, record) in done.each().filter(|(_, round, ..)| *round < STEPS) {
        let expected = match (round, lane) {
            (2, 7) => BROKEN_BITS,
            (0..=2, _) => 0,
            _ => aborted,
        };
        if record.status != expected || record.answers != 1 {
            return Err(format!("step {round}, lane {lane}: {record:?}"));
        }
    }
    match done.each().any(|(_, round, _, record)| round == STEPS && record.wrong != 0) {
        true => Err("a step after all others was not done".to_owned()),
        false => Ok(()),
    }
}

/// Lanes with one identifier: a step has to wait for that of the step before.
pub fn narrow(sharing: Sharing) -> Work {
    Work { tokens: 1, ..steps(sharing, DELIVERED) }
}

#[test]
fn what_follows_a_failure_is_not_sent() {
    each(|sharing, seed| {
        let done = broken(sharing).run(&PIECES, seed).expect("a run");
        assert_eq!(check_broken(&done), Ok(()), "seed {seed}, {sharing:?}");
        assert_eq!(done.several.softs[0].statistics().commands(NvmOpcode::WRITE), 3 * 32);
    });
}

/// One command of step 1 never completes.
pub fn hung(sharing: Sharing) -> Work {
    let selector = Selector::new().after(40).count(Some(1));
    Work { warps: 1, ..steps(sharing, IN_TURN) }.failing(FaultAction::Drop, selector)
}

/// It was given up, and what was to come after it was not sent.
pub fn check_hung(done: &Done) -> Result<(), String> {
    let (timed_out, aborted) = (library(abi::STATUS_TIMED_OUT), library(abi::STATUS_ABORTED));
    for (_, round, lane, record) in done.each().filter(|(_, round, ..)| *round < STEPS) {
        let fine = match round {
            0 => record.status == 0,
            1 => [0, timed_out].contains(&record.status),
            _ => record.status == aborted,
        };
        if !fine || record.answers != 1 {
            return Err(format!("step {round}, lane {lane}: {record:?}"));
        }
    }
    let late = done.each().filter(|(_, _, _, record)| record.status == timed_out).count();
    if late == 1 { Ok(()) } else { Err(format!("{late} requests timed out")) }
}

#[test]
fn a_step_that_never_ends_is_given_up_at_its_deadline() {
    each(|sharing, seed| {
        let done = hung(sharing).run(&PIECES, seed).expect("a run");
        assert_eq!(check_hung(&done), Ok(()), "seed {seed}, {sharing:?}");
        assert_eq!(done.counters.sqes, 2 * 32 + 1 + 32, "two steps, a flush, and what is read in the end");
    });
}
