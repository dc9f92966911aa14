//! Calls whose answers have not come: what is said of them meanwhile, and how long they wait.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_kernels::abi;

use crate::fixture::{After, Note, Scene, Setting, library, play, settings};
use crate::{both, callers};

/// Of a call, and of the queue, which waits longer.
const TIMEOUT: Duration = Duration::from_millis(20);
const QUEUE: Duration = Duration::from_millis(400);

/// As long as named, of all that the queue would wait.
fn is_in_time(note: &Note, call: usize) -> bool {
    (TIMEOUT..QUEUE / 2).contains(&note.took(call))
}

/// Asserts that these calls took as long as they named, by the C++ API and by the flat layer.
fn expect_in_time(setting: &Setting, calls: &[usize]) {
    for flat in [false, true] {
        let notes = play(setting, flat).notes;
        for (call, note) in callers(setting, &notes).iter().flat_map(|n| calls.iter().map(move |c| (*c, n))) {
            let (took, said) = (note.took(call), note.said()[call]);
            assert!(
                is_in_time(note, call),
                "call {call}: {said:#x} after {took:?}, flat {flat}, {setting:?}"
            );
        }
    }
}

#[test]
fn what_has_not_come_is_pending() {
    let timed_out = library(abi::STATUS_TIMED_OUT);
    let pending = abi_pending();
    for setting in settings(Scene::Pending) {
        let setting = setting.queue_timeout(Duration::from_millis(10)).dead();
        let notes = both(&setting);
        for (lane, note) in callers(&setting, &notes).iter().enumerate() {
            let said = note.said();
            let of_read = [0, pending, pending, timed_out, 0];
            assert_eq!(said[1..6], of_read, "lane {lane}: {setting:?}");
            // A flush is one command of the warp, whose first lane has it.
            assert_eq!(said[6..9], [0, pending, timed_out], "lane {lane}: {setting:?}");
            let each = if setting.by_thread { &[][..] } else { &[0, pending, timed_out, 0] };
            assert_eq!(&said[9..said.len() - 1], each, "lane {lane}: {setting:?}");
        }
    }
}

/// WARPBELL_PENDING, as the header has it.
fn abi_pending() -> u32 {
    let header = include_str!("../../../kernels/include/warpbell/warpbell_device.h");
    let line = header.lines().find_map(|line| line.strip_prefix("#define WARPBELL_PENDING 0x"));
    let digits = line.and_then(|line| line.strip_suffix('u')).expect("a definition");
    u32::from_str_radix(digits, 16).expect("a number")
}

/// The queue would wait longer.
#[test]
fn each_call_waits_for_as_long_as_it_names() {
    let timed_out = library(abi::STATUS_TIMED_OUT);
    for setting in settings(Scene::Late) {
        let setting = setting.ring(1024, 16).queue_timeout(QUEUE).timeout(TIMEOUT).dead();
        let notes = both(&setting);
        for note in callers(&setting, &notes) {
            let said = note.said();
            assert_eq!(said[1..4], [timed_out; 3], "{setting:?}");
            assert_eq!(said[4..10], [0, timed_out, 0, timed_out, 0, timed_out], "{setting:?}");
            let each = if setting.by_thread { &[][..] } else { &[timed_out, timed_out, 0, timed_out] };
            assert_eq!(&said[10..said.len() - 1], each, "{setting:?}");
        }
        let of_all = [1, 2, 3, 5, 7, 9];
        let each: &[usize] = if setting.by_thread { &[] } else { &[10, 11, 13] };
        expect_in_time(&setting, &[&of_all[..], each].concat());
    }
}

/// Of threads of a warp some get the room, and it is not said which: so of one caller.
#[test]
fn what_begins_waits_for_room_for_as_long_as_it_names() {
    let full = library(abi::STATUS_NOT_SUBMITTED);
    let one_caller = |setting: &Setting| !setting.by_thread || setting.sharing == Sharing::Exclusive;
    for setting in settings(Scene::Crowded).filter(one_caller) {
        let setting = setting.ring(4, 8).queue_timeout(QUEUE).timeout(TIMEOUT).dead();
        let notes = both(&setting);
        let said = callers(&setting, &notes).last().expect("a lane").said();
        // One I/O of a warp is one command here.
        let last = said.len() - 2;
        assert_eq!(said[1..4], [0; 3], "{setting:?}");
        assert_eq!(said[4..last], vec![full; last - 4], "{setting:?}");
        expect_in_time(&setting, &(4..last).collect::<Vec<_>>());
    }
}

#[test]
fn a_successor_is_waited_for_as_long_as_is_named() {
    for setting in settings(Scene::Lost) {
        let setting = setting.queue_timeout(QUEUE).patience(TIMEOUT).after(After::Lost);
        both(&setting);
        expect_in_time(&setting, &[5]);
    }
}
