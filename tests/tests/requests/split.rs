//! Asynchronous requests of any size.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};

use crate::batch::{BROKEN, BROKEN_BITS, each, library};
use crate::pieces::*;

/// As in requests.cu.
const WHOLE: u32 = 0;
const EACH: u32 = 1;
const PAIR: u32 = 2;
const POLLED: u32 = 3;
const CANCELLED: u32 = 4;
const AGAIN: u32 = 5;
const STARVED: u32 = 6;

fn split(sharing: Sharing, mode: u32) -> Work {
    Work::new(sharing, "split_test", mode)
}

/// Blocks of a lane's request.
fn blocks(mode: u32, lane: u32) -> u64 {
    if matches!(mode, EACH | POLLED | CANCELLED | AGAIN | STARVED) { u64::from(lane % 9) } else { 32 * 8 }
}

fn good(mode: u32, lane: u32) -> Record {
    Record { answers: 1, bytes: blocks(mode, lane) * BLOCK, ..Record::default() }
}

pub fn check(module: &Module, work: &Work, seed: u64) -> Result<Done, String> {
    let done = work.run(module, seed)?;
    done.expect(|_, _, lane| good(work.mode, lane)).map_err(|bad| format!("seed {seed}, {work:?}: {bad}"))?;
    Ok(done)
}

/// Requests that take more commands than there is room for.
pub fn crowded(sharing: Sharing) -> Work {
    Work { most: 1, iodepth: 3, ..split(sharing, EACH) }
}

#[test]
fn a_request_of_any_size_goes_in_pieces_and_has_one_answer() {
    each(|sharing, seed| {
        for (mode, most, iodepth) in
            [(WHOLE, 64, 63), (WHOLE, 1, 63), (EACH, 1, 63), (PAIR, 1, 63), (POLLED, 2, 63), (WHOLE, 3, 2)]
        {
            let work = Work { most, iodepth, ..split(sharing, mode) };
            let done = check(&PIECES, &work, seed).unwrap_or_else(|bad| panic!("{bad}"));
            let of_warp: u64 = match mode {
                WHOLE => 256u64.div_ceil(u64::from(most)),
                PAIR => 2 * 128,
                _ => (0..32).map(|lane| blocks(mode, lane).div_ceil(u64::from(most))).sum(),
            };
            assert_eq!(done.counters.sqes, 2 * 2 * of_warp, "{work:?}");
        }
        let work = crowded(sharing);
        check(&PIECES, &work, seed).unwrap_or_else(|bad| panic!("{bad}"));
    });
}

/// Block 5 of lane 8 of the first warp cannot be read.
pub fn broken(sharing: Sharing, whole: bool) -> Work {
    let bad = 8 * 8 + 5;
    let selector = Selector::new().lba(Some(Lba(bad)..=Lba(bad))).opcodes(vec![NvmOpcode::READ]);
    let work = Work { most: 1, warps: 1, ..split(sharing, if whole { WHOLE } else { EACH }) };
    work.failing(FaultAction::Fail { status: BROKEN }, selector)
}

pub fn check_broken(done: &Done) -> Result<(), String> {
    let whole = done.work.mode == WHOLE;
    done.expect(|_, round, lane| match (round, lane) {
        (1, _) if whole => Record { status: BROKEN_BITS, bytes: (8 * 8 + 5) * BLOCK, ..good(WHOLE, lane) },
        (1, 8) => Record { status: BROKEN_BITS, bytes: 5 * BLOCK, ..good(EACH, lane) },
        _ => good(done.work.mode, lane),
    })?;
    // Three of a lane may be in flight when one fails. Of 256 reads many are never sent, of a lane's eight one may be.
    let reads = done.several.softs[0].statistics().commands(NvmOpcode::READ);
    if whole && reads > 32 * 3 + 32 * 3 { Err(format!("{reads} commands were sent")) } else { Ok(()) }
}

#[test]
fn what_was_moved_before_a_failure_is_known_and_nothing_more_is_sent() {
    each(|sharing, seed| {
        for whole in [true, false] {
            let done = broken(sharing, whole).run(&PIECES, seed).expect("a run");
            assert_eq!(check_broken(&done), Ok(()), "seed {seed}, {sharing:?}");
        }
    });
}

#[test]
fn at_the_deadline_everybody_is_told_what_became_of_the_request() {
    let (timed_out, not_submitted) = (library(abi::STATUS_TIMED_OUT), library(abi::STATUS_NOT_SUBMITTED));
    each(|sharing, seed| {
        let reads = Selector::new().opcodes(vec![NvmOpcode::READ]).after(20);
        let work = Work { warps: 1, iodepth: 31, ..crowded(sharing) };
        let done = work.failing(FaultAction::Drop, reads).run(&PIECES, seed).expect("a run");
        assert!(done.took < Duration::from_millis(30), "{:?} with a deadline of 10 ms", done.took);
        for (_, round, lane, record) in done.each() {
            let fine = record.status == 0 && record == good(EACH, lane);
            let late = round == 1 && [timed_out, not_submitted].contains(&record.status);
            assert!(fine || late, "seed {seed}, lane {lane}, round {round}: {record:?}");
            assert!(record.bytes <= good(EACH, lane).bytes && record.wrong == 0, "{record:?}");
        }
        assert!(done.each().any(|(_, _, _, record)| record.status == timed_out));
    });
}

/// Two commands of one request go wrong: block 3 and block 5 of the first row of commands.
pub fn twice_broken(sharing: Sharing, second: FaultAction) -> Work {
    let at = |lba, action| {
        let opcodes = vec![NvmOpcode::READ];
        Fault::new(action, Selector::new().lba(Some(Lba(lba)..=Lba(lba))).opcodes(opcodes))
    };
    let faults = vec![at(3, FaultAction::Fail { status: BROKEN }), at(5, second)];
    let faults = FaultPlan::new().faults(faults);
    Work { most: 1, warps: 1, faults, ..split(sharing, WHOLE) }
}

pub const OTHER: Status = Status::new(StatusCodeType::GENERIC, 0x04).with_dnr(true);

/// Each lane is told `status`, and of the bytes before block 3.
pub fn check_twice_broken(done: &Done, status: u32) -> Result<(), String> {
    done.expect(|_, round, lane| match round {
        0 => good(WHOLE, lane),
        _ => Record { status, bytes: 3 * BLOCK, ..good(WHOLE, lane) },
    })
}

#[test]
fn of_two_failures_the_first_is_told_and_a_buffer_in_use_before_all() {
    each(|sharing, seed| {
        for (second, told) in [
            (FaultAction::Fail { status: OTHER }, BROKEN_BITS),
            (FaultAction::Drop, library(abi::STATUS_TIMED_OUT)),
        ] {
            let done = twice_broken(sharing, second).run(&PIECES, seed).expect("a run");
            assert_eq!(check_twice_broken(&done, told), Ok(()), "seed {seed}, {sharing:?}, {second:?}");
        }
    });
}

/// A second request of the same object, while the first is on its way.
pub fn again(sharing: Sharing) -> Work {
    Work { most: 1, ..split(sharing, AGAIN) }
}

/// A request of lanes that have used up their identifiers.
pub fn starved(sharing: Sharing) -> Work {
    Work { most: 1, warps: 1, iodepth: 255, ..split(sharing, STARVED) }
}

pub fn check_starved(done: &Done) -> Result<(), String> {
    let refused = Record { answers: 1, status: library(abi::STATUS_NO_CID), ..Record::default() };
    done.expect(|_, _, lane| if blocks(STARVED, lane) == 0 { good(STARVED, lane) } else { refused })
}

#[test]
fn an_object_has_one_request_and_a_lane_without_identifiers_is_refused() {
    each(|sharing, seed| {
        check(&PIECES, &again(sharing), seed).unwrap_or_else(|bad| panic!("{bad}"));
        let done = starved(sharing).run(&PIECES, seed).expect("a run");
        assert_eq!(check_starved(&done), Ok(()), "seed {seed}, {sharing:?}");
    });
}

pub fn cancelled(sharing: Sharing) -> Work {
    Work { most: 1, warps: 1, iodepth: 31, ..split(sharing, CANCELLED) }
}

/// Each lane is told what became of its request: done with all its data, in flight, or not begun.
pub fn check_cancelled(done: &Done) -> Result<(), String> {
    let (timed_out, aborted) = (library(abi::STATUS_TIMED_OUT), library(abi::STATUS_ABORTED));
    for (_, _, lane, record) in done.each() {
        let known = [0, timed_out, aborted].contains(&record.status);
        let all = record.bytes == u64::from(lane % 9) * BLOCK;
        if !known || record.answers != 1 || (record.status == 0) != all {
            return Err(format!("lane {lane}: {record:?}"));
        }
    }
    for status in [timed_out, aborted] {
        if !done.each().any(|(_, _, _, record)| record.status == status) {
            return Err(format!("nobody was told {status:#x}"));
        }
    }
    Ok(())
}

#[test]
fn a_request_is_cancelled_with_all_its_commands() {
    each(|sharing, seed| {
        let done = cancelled(sharing).run(&PIECES, seed).expect("a run");
        assert_eq!(check_cancelled(&done), Ok(()), "seed {seed}, {sharing:?}");
    });
}
