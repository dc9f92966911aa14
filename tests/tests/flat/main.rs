//! Tier S, simulation: the flat layer answers as the C++ API does, call by call, in both sharing modes, for a warp and for
//! one thread. What its callers may not do is refused.

mod fixture;
mod late;
mod rules;
mod troubles;

use std::time::Duration;

use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_nvme::Status;
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};

use crate::fixture::{After, Note, Scene, Setting, library, play, settings};

const MEDIA: Status = Status::UNRECOVERED_READ;

/// What each lane noted of both, which is the same.
fn both(setting: &Setting) -> Vec<Note> {
    let [cpp, flat] = [false, true].map(|flat| play(setting, flat));
    assert_eq!((cpp.kept.as_str(), flat.kept.as_str()), ("", ""), "{setting:?}");
    for (lane, (cpp_note, flat_note)) in cpp.notes.iter().zip(&flat.notes).enumerate() {
        assert_eq!(flat_note, cpp_note, "lane {lane} of {setting:?}");
    }
    assert!(flat.blocks == cpp.blocks, "the SSD's blocks differ: {setting:?}");
    assert_eq!(flat.commands, cpp.commands, "{setting:?}");
    flat.notes
}

/// Notes of the lanes that called.
fn callers<'a>(setting: &Setting, notes: &'a [Note]) -> &'a [Note] {
    if setting.is_one_thread() { &notes[..1] } else { notes }
}

#[test]
fn every_operation_is_the_same() {
    for setting in settings(Scene::Io) {
        let notes = both(&setting);
        for note in callers(&setting, &notes) {
            assert!(note.said().iter().all(|status| *status == 0), "{setting:?}: {note:x?}");
            assert!(note.saw.iter().any(|word| *word != 0), "{setting:?}");
        }
        assert_eq!(notes[31].said().is_empty(), setting.is_one_thread(), "{setting:?}");
    }
}

#[test]
fn every_refusal_is_the_same() {
    for setting in settings(Scene::Refused) {
        let notes = both(&setting.clone().most_blocks(2));
        let refused = [
            abi::STATUS_OUT_OF_RANGE,
            abi::STATUS_OUT_OF_BUFFER,
            abi::STATUS_MISALIGNED,
            abi::STATUS_INVALID_FIELD,
            abi::STATUS_OUT_OF_BUFFER,
            abi::STATUS_OUT_OF_RANGE,
        ];
        for note in callers(&setting, &notes) {
            // Behind the attachment: four calls with each of the arguments.
            for (calls, why) in note.said()[1..].chunks(4).zip(refused) {
                assert_eq!(calls, [library(why); 4], "{setting:?}");
            }
            let too_large = library(abi::STATUS_TOO_LARGE);
            assert_eq!(note.said()[25..33], [0, 0, too_large, too_large, 0, 0, 0, 0], "{setting:?}");
        }
    }
}

#[test]
fn what_a_lease_forbids_is_the_same() {
    for setting in settings(Scene::Io) {
        let read_only = both(&setting.clone().flags(abi::NAMESPACE_READ_ONLY));
        let elsewhere = both(&setting.clone().lease(127..128));
        for (read_only, elsewhere) in callers(&setting, &read_only).iter().zip(&elsewhere) {
            assert_eq!(read_only.said()[1..3], [library(abi::STATUS_READ_ONLY), 0], "{setting:?}");
            assert_eq!(elsewhere.said()[1..3], [library(abi::STATUS_OUT_OF_LEASE); 2], "{setting:?}");
        }
    }
}

/// Also whether the SSD forbids another attempt.
#[test]
fn what_the_ssd_answers_is_the_same() {
    let reads = Selector::new().lba(Some(Lba(0)..=Lba(5)));
    for setting in settings(Scene::Io) {
        for status in [MEDIA, MEDIA.with_dnr(true)] {
            let action = FaultAction::Fail { status };
            let faults = vec![Fault::new(action, reads.clone())];
            let setting = setting.clone().faults(FaultPlan::new().faults(faults));
            let notes = both(&setting);
            let (first, dnr) = (notes[0].said()[1], u32::from(status.dnr()));
            assert_eq!((first & 0x7ff, first >> 14 & 1), (u32::from(MEDIA.code()), dnr), "{setting:?}");
            let others = setting.by_thread && !setting.is_one_thread();
            assert!(!others || notes[31].said().iter().all(|status| *status == 0), "{setting:?}");
        }
    }
}

#[test]
fn what_becomes_of_calls_to_a_dead_controller_is_the_same() {
    for setting in settings(Scene::Dead) {
        let setting = setting.queue_timeout(Duration::from_millis(10)).dead();
        let notes = both(&setting);
        let said = notes[0].said();
        let [timed_out, no_cid] = [abi::STATUS_TIMED_OUT, abi::STATUS_NO_CID].map(library);
        // A read that times out, one for each identifier that is left, and those that find none.
        assert_eq!(said[1..7], [timed_out, 0, 0, 0, no_cid, no_cid], "{setting:?}");
        assert_eq!(said[7..11], [timed_out, timed_out, no_cid, no_cid], "{setting:?}");
    }
}

#[test]
fn a_lost_queue_and_its_successor_are_the_same() {
    let [lost, dead] = [abi::STATUS_QUEUE_GONE, abi::STATUS_SSD_LOST].map(library);
    for setting in settings(Scene::Lost) {
        let setting = setting.queue_timeout(Duration::from_millis(10));
        for (after, then) in [(After::Replaced, 0), (After::Lost, lost), (After::Dead, dead)] {
            let notes = both(&setting.clone().after(after));
            for note in callers(&setting, &notes) {
                assert_eq!(note.said()[..5], [lost; 5], "{setting:?}, {after:?}");
                assert_eq!(note.said()[5..], [then, then, 0], "{setting:?}, {after:?}");
            }
        }
    }
}

#[test]
fn every_command_is_the_same() {
    let [no, range, data] =
        [abi::STATUS_INVALID_FIELD, abi::STATUS_OUT_OF_RANGE, abi::STATUS_OUT_OF_BUFFER].map(library);
    let differs = u32::from(Status::COMPARE_FAILURE.into_bits());
    for setting in settings(Scene::Commands) {
        let notes = both(&setting);
        for (lane, note) in callers(&setting, &notes).iter().enumerate() {
            // Write, compare, read; compare with other data, zero, read; flush; and those that are refused.
            let refused = [no, no, no, no, no, no, no, no, range, data];
            let each = [&[0, 0, 0, differs, 0, 0, 0], &refused[..]].concat();
            let of_lane = [0, if lane % 2 == 0 { 0 } else { differs }, 0, 0, no];
            let each = if setting.by_thread { each } else { [&each[..], &of_lane].concat() };
            // What is submitted is refused at once, or answered by the wait.
            let begun = |status: &u32| if *status == differs { 0 } else { *status };
            let expected: Vec<u32> = each.iter().flat_map(|s| [*s, begun(s), *s]).collect();
            let said = note.said();
            assert_eq!(said[1..said.len() - 1], expected, "lane {lane}: {setting:?}");
            assert!(note.saw[7] != 0 && note.saw[16] == 0, "lane {lane}: {setting:?}: {note:?}");
        }
    }
}

#[test]
fn the_first_of_several_answers_is_the_same() {
    let timed_out = library(abi::STATUS_TIMED_OUT);
    for (setting, alive) in settings(Scene::Any).flat_map(|of| [(of.clone(), true), (of, false)]) {
        let queue_timeout = Duration::from_millis(10);
        let setting = if alive { setting } else { setting.queue_timeout(queue_timeout).dead() };
        let notes = both(&setting);
        for (lane, note) in callers(&setting, &notes).iter().enumerate() {
            let tokens = if lane < 16 { 3 } else { 2 };
            let begun = if setting.by_thread { tokens } else { 3 };
            let said = &note.said()[1..];
            assert_eq!(said[..begun], vec![0; begun], "lane {lane}: {setting:?}");
            // As long as there is one; then none is found. Nothing is given up by waiting.
            let answer = if alive { 0 } else { timed_out };
            assert_eq!(said[begun..begun + 4], [answer; 4], "lane {lane}: {setting:?}");
            let given_up = |k| if k < tokens { answer } else { 0 };
            assert_eq!(said[begun + 4..begun + 7], [0, 1, 2].map(given_up), "lane {lane}: {setting:?}");
            let found = if alive { tokens } else { 0 };
            let expected = (0xf00 << found & 0xf00) | ((1 << found) - 1);
            assert_eq!(note.saw[begun + 4], expected, "lane {lane}: {setting:?}");
        }
    }
}

#[test]
fn additions_are_the_same() {
    for (setting, bytes) in settings(Scene::Adds).flat_map(|of| SIZES.map(|bytes| (of.clone(), bytes))) {
        for first_byte in [0, 4, 6] {
            let setting = setting.clone().elements(first_byte, bytes);
            let notes = both(&setting);
            for (lane, note) in callers(&setting, &notes).iter().enumerate() {
                let said = note.said();
                let has = [4, 8].contains(&bytes);
                let [range, no] = [
                    abi::STATUS_OUT_OF_RANGE,
                    if has { abi::STATUS_MISALIGNED } else { abi::STATUS_INVALID_FIELD },
                ]
                .map(library);
                let fits = has && first_byte % u64::from(bytes) == 0;
                let (add, beyond) = if fits { (0, range) } else { (no, no) };
                assert_eq!(said[1..6], [0, 0, add, 0, beyond], "lane {lane}, {setting:?}: {said:x?}");
                let own = (lane as u64 * 9).wrapping_sub(u64::from(fits)) & mask(bytes);
                assert_eq!(note.saw[4], own, "lane {lane}, {setting:?}");
                if !setting.by_thread {
                    // To the element of the lane before, by both of them; not by every fourth.
                    let first = lane as u64 / 2 * 2;
                    let sum = first + if first % 4 == 2 { 0 } else { first + 2 };
                    let sum = if fits { first * 9 + sum } else { first * 9 };
                    assert_eq!(note.saw[7], sum & mask(bytes), "lane {lane}, {setting:?}");
                }
            }
        }
    }
}

/// Of elements.
const SIZES: [u32; 5] = [1, 2, 4, 8, 16];

/// What an element holds of a number. One of 16 bytes has it twice.
fn mask(bytes: u32) -> u64 {
    u64::MAX >> (64 - 8 * bytes.min(8))
}

#[test]
fn arrays_are_the_same() {
    for (setting, bytes) in settings(Scene::Array).flat_map(|of| SIZES.map(|bytes| (of.clone(), bytes))) {
        for first_byte in [0, 4, 6] {
            let setting = setting.clone().elements(first_byte, bytes);
            let notes = both(&setting);
            for (lane, note) in callers(&setting, &notes).iter().enumerate() {
                let said = note.said();
                let out_of_range = library(abi::STATUS_OUT_OF_RANGE);
                assert_eq!(said[1..6], [0, 0, 0, 0, out_of_range], "lane {lane}, {setting:?}: {said:x?}");
                assert!(said[6..].iter().all(|status| *status == 0), "lane {lane}, {setting:?}");
                assert_eq!(note.saw[3], !(lane as u64 * 9) & mask(bytes), "lane {lane}, {setting:?}");
            }
        }
    }
}
