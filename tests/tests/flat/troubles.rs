//! Arrays whose pages cannot be read or written, or find no line.

use std::time::Duration;

use warpbell::Sharing;
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_nvme::NvmOpcode;
use warpbell_softctl::{Fault, FaultAction, FaultPlan, Selector};

use crate::fixture::{Scene, Setting, library, play, settings};
use crate::{MEDIA, both, callers};

/// Of a call, and of queue and cache, which wait longer.
const TIMEOUT: Duration = Duration::from_millis(20);
const QUEUE: Duration = Duration::from_millis(400);

/// What befalls commands of one kind for the first blocks; a page has one.
fn fault(action: FaultAction, opcode: NvmOpcode, last_block: u64) -> FaultPlan {
    let selector = Selector::new().opcodes(vec![opcode]).lba(Some(Lba(0)..=Lba(last_block)));
    FaultPlan::new().faults(vec![Fault::new(action, selector)])
}

fn media() -> FaultAction {
    FaultAction::Fail { status: MEDIA }
}

/// Whether a status is the medium's.
fn is_media(status: u32) -> bool {
    status & 0x7ff == u32::from(MEDIA.code())
}

/// Both sizes of elements.
fn with_elements(scene: Scene) -> impl Iterator<Item = Setting> {
    settings(scene).flat_map(|setting| [4, 8].map(|bytes| setting.clone().elements(0, bytes)))
}

/// Each lane has a page of its own, of which there are twice as many as lines.
#[test]
fn pages_that_cannot_be_read_are_the_same() {
    for setting in with_elements(Scene::Pages) {
        let setting = setting.faults(fault(media(), NvmOpcode::READ, 5));
        let notes = both(&setting);
        for (lane, note) in callers(&setting, &notes).iter().enumerate() {
            let said = note.said();
            let failed = [2, 3, 4, 6].map(|call| is_media(said[call]));
            assert_eq!(failed, [lane <= 5; 4], "lane {lane}: {said:x?}, {setting:?}");
            assert_eq!([said[1], said[5], said[7]], [0; 3], "lane {lane}: {said:x?}, {setting:?}");
            // What cannot be read is left alone.
            assert_eq!(note.saw[2] == 1, lane <= 5, "lane {lane}: {setting:?}");
        }
    }
}

#[test]
fn pages_that_may_not_be_written_are_the_same() {
    for setting in with_elements(Scene::Pages) {
        // As many lines as pages: none has to leave.
        let read_only = both(&setting.clone().lines(32).flags(abi::NAMESPACE_READ_ONLY));
        let elsewhere = both(&setting.clone().lines(32).lease(127..128));
        for (read_only, elsewhere) in callers(&setting, &read_only).iter().zip(&elsewhere) {
            let no = library(abi::STATUS_READ_ONLY);
            assert_eq!(read_only.said()[1..8], [0, 0, 0, 0, no, 0, 0], "{setting:?}");
            let out = library(abi::STATUS_OUT_OF_LEASE);
            assert_eq!(elsewhere.said()[1..5], [0, out, out, out], "{setting:?}");
        }
    }
}

/// The one line keeps its page, as that cannot be written: there is no room for another.
#[test]
fn a_cache_without_room_is_the_same() {
    let crowded = library(abi::STATUS_NO_ROOM);
    for setting in with_elements(Scene::Page) {
        let setting = setting.lines(1).faults(fault(media(), NvmOpcode::WRITE, 0));
        let setting = setting.queue_timeout(QUEUE).timeout(TIMEOUT);
        let notes = both(&setting);
        let said = notes[0].said();
        assert_eq!(said[1..6], [0, 0, 0, crowded, crowded], "{said:x?}, {setting:?}");
        assert!(is_media(said[6]), "{said:x?}, {setting:?}");
        expect_in_time(&setting, &[4, 5]);
    }
}

/// A read that is never answered has its line's memory for ever.
#[test]
fn a_line_that_is_lost_to_the_ssd_is_the_same() {
    let [timed_out, crowded] = [abi::STATUS_TIMED_OUT, abi::STATUS_NO_ROOM].map(library);
    for setting in with_elements(Scene::Page) {
        let setting = setting.lines(1).faults(fault(FaultAction::Drop, NvmOpcode::READ, 0));
        let setting = setting.queue_timeout(QUEUE).timeout(TIMEOUT);
        let notes = both(&setting);
        let said = notes[0].said();
        assert_eq!(said[1..7], [0, timed_out, crowded, crowded, crowded, 0], "{said:x?}, {setting:?}");
        assert!(notes[0].took(2) >= QUEUE, "a read of a page has the queue's deadline");
        expect_in_time(&setting, &[3, 4, 5]);
    }
}

/// One thread writes its dirty pages one after the other, and begins none when its time is over.
#[test]
fn a_flush_of_an_array_ends_when_its_time_is_over() {
    let slow = FaultAction::Delay { by: TIMEOUT * 2 };
    for setting in settings(Scene::Array).filter(Setting::is_one_thread) {
        // The element lies in two pages.
        let setting = setting.faults(fault(slow, NvmOpcode::WRITE, 5)).elements(510, 8);
        let setting = setting.queue_timeout(QUEUE).timeout(TIMEOUT);
        let notes = both(&setting);
        let said = notes[0].said();
        assert_eq!(setting.sharing, Sharing::Exclusive);
        assert_eq!(said[said.len() - 3], library(abi::STATUS_NOT_SUBMITTED), "{said:x?}, {setting:?}");
    }
}

/// Asserts that lane 0's calls took as long as they named, by both.
fn expect_in_time(setting: &Setting, calls: &[usize]) {
    for flat in [false, true] {
        let notes = play(setting, flat).notes;
        for call in calls {
            let took = notes[0].took(*call);
            assert!((TIMEOUT..QUEUE / 2).contains(&took), "call {call}: {took:?}, flat {flat}, {setting:?}");
        }
    }
}
