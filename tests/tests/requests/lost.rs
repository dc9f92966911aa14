//! Queues that the host gives up, and controllers that stop, under requests of every kind: each is answered once, with
//! what became of it, and nobody waits for what will not come.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;
use warpbell_nvme::NvmOpcode;
use warpbell_softctl::{FaultAction, Selector};

use crate::batch::{each, library};
use crate::fixture::{BLOCK, MODULE, Ran, SLOTS, Setting};
use crate::order;
use crate::pieces::{Done, PIECES, Work};
use crate::split;

/// Long beyond any run: who waits for it has not heard of the loss.
const NEVER: Duration = Duration::from_secs(600);
const SOON: Duration = Duration::from_secs(60);

/// Reads are not answered from some on.
fn stopped() -> Selector {
    Selector::new().opcodes(vec![NvmOpcode::READ]).after(30)
}

/// Each request of a batch has one answer: done with all its data, or one of these.
fn expect_answers(ran: &Ran, seed: u64, known: &[u32]) {
    let mut seen = vec![0; known.len()];
    for (_, slot, blocks, record) in ran.answers(1).filter(|(_, _, blocks, _)| *blocks != 0) {
        assert_eq!((record.answers, record.wrong), (1, 0), "seed {seed}, slot {slot}: {record:?}");
        assert_eq!(
            record.status == 0,
            record.bytes == blocks * BLOCK,
            "seed {seed}, slot {slot}: {record:?}"
        );
        match known.iter().position(|status| *status == record.status) {
            Some(at) => seen[at] += 1,
            None => assert_eq!(record.status, 0, "seed {seed}, slot {slot}"),
        }
    }
    // Told of all: by each thread the same, that a buffer may be in use.
    assert!(seen[0] > 0, "seed {seed}: nobody was told {:x}", known[0]);
    assert!(ran.notes[1].iter().all(|told| *told == known[0]), "seed {seed}: {:x?}", ran.notes[1]);
}

fn batch(sharing: Sharing, timeout: Duration, lost: Option<u64>) -> Setting {
    let setting = Setting { most: 2, timeout, lost, ..Setting::new(sharing, 1, 2) };
    setting.failing(FaultAction::Drop, stopped())
}

#[test]
fn a_lost_queue_answers_all_requests_of_a_batch() {
    each(|sharing, seed| {
        let ran = batch(sharing, NEVER, Some(20_000 + 50 * seed)).run(&MODULE, seed).expect("a run");
        assert!(ran.took < SOON, "seed {seed}: {:?}", ran.took);
        expect_answers(&ran, seed, &[library(abi::STATUS_QUEUE_GONE)]);
        assert_eq!(ran.records[1].len() as u64, SLOTS);
    });
}

#[test]
fn a_controller_that_stops_leaves_no_batch_waiting() {
    each(|sharing, seed| {
        let ran = batch(sharing, Duration::from_millis(10), None).run(&MODULE, seed).expect("a run");
        assert!(ran.took < Duration::from_millis(30), "seed {seed}: {:?}", ran.took);
        expect_answers(
            &ran,
            seed,
            &[abi::STATUS_TIMED_OUT, abi::STATUS_NOT_SUBMITTED, abi::STATUS_NO_CID].map(library),
        );
    });
}

#[test]
fn a_lost_queue_answers_requests_of_any_size() {
    let lost = library(abi::STATUS_QUEUE_GONE);
    each(|sharing, seed| {
        let work = Work { timeout: NEVER, lost: Some(20_000 + 50 * seed), ..split::crowded(sharing) };
        let done = work.failing(FaultAction::Drop, stopped()).run(&PIECES, seed).expect("a run");
        assert!(done.took < SOON, "seed {seed}: {:?}", done.took);
        for (_, _, lane, record) in done.each() {
            assert_eq!((record.answers, record.wrong), (1, 0), "seed {seed}, lane {lane}: {record:?}");
            assert!([0, lost].contains(&record.status), "seed {seed}, lane {lane}: {record:?}");
        }
        assert!(done.each().any(|(_, _, _, record)| record.status == lost), "seed {seed}");
    });
}

/// A command of step 1 is on its way when the queue is given up.
pub fn ended(sharing: Sharing, seed: u64) -> Work {
    Work { timeout: NEVER, lost: Some(20_000 + 50 * seed), ..order::hung(sharing) }
}

pub fn check_ended(done: &Done) -> Result<(), String> {
    let (lost, aborted) = (library(abi::STATUS_QUEUE_GONE), library(abi::STATUS_ABORTED));
    if done.took > SOON {
        return Err(format!("took {:?}", done.took));
    }
    for (_, round, lane, record) in done.each().filter(|(_, round, ..)| round + 1 < done.work.rounds) {
        let fine = match round {
            0 => record.status == 0,
            1 => [0, lost].contains(&record.status),
            // Posted behind the failure, or when the queue was lost already.
            _ => [aborted, lost].contains(&record.status),
        };
        if !fine || record.answers != 1 {
            return Err(format!("step {round}, lane {lane}: {record:?}"));
        }
    }
    Ok(())
}

#[test]
fn a_lost_queue_ends_a_class_and_each_step_is_answered() {
    each(|sharing, seed| {
        let done = ended(sharing, seed).run(&PIECES, seed).expect("a run");
        assert_eq!(check_ended(&done), Ok(()), "seed {seed}, {sharing:?}");
    });
}
