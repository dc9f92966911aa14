//! Pages that are several commands of the SSD, and one deadline for all of a page's commands.

use std::time::Duration;

use warpbell::{Module, PageCacheSpec, Sharing};
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::seeds;
use warpbell_softctl::{FaultAction, Selector};
use warpbell_tests::Disk;
use warpbell_tests::cached::{FLUSHES, Note, Pages, STORES, Shape, TWO_LANES, digest_of, stored};

use crate::pages::{Fixture, block};
use crate::words::{MODES, MODULE};

const SEEDS: u64 = 4;
/// Of a page; the SSD takes a quarter of it at once.
const PAGE: u32 = 32 << 10;
const COMMANDS: u64 = 4;
/// Of a command, and so of a page's: that of the queues ([`Shape::attach`]).
const DEADLINE: Duration = Duration::from_millis(10);
const TIMED_OUT: u32 = abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT;
const NOT_SUBMITTED: u32 = abi::STATUS_LIBRARY | abi::STATUS_NOT_SUBMITTED;

/// One warp over pages of four commands each. A page that is missing claims its bucket: of so many lines two pages have one
/// each.
fn shape(sharing: Sharing, action: FaultAction, selector: Selector) -> Shape {
    let disk = Disk { mdts: Some(1), ..Disk::new(8 * u64::from(PAGE), 512) }.failing(action, selector);
    let spec = PageCacheSpec::new().page_bytes(PAGE).lines(64).timeout(Duration::from_secs(60));
    Shape { sharing, warps: 1, spec, ..Shape::new(disk, 64) }
}

/// Each of them answered so late.
fn slow(sharing: Sharing, opcode: NvmOpcode, by: Duration) -> Fixture {
    let selector = Selector::new().opcodes(vec![opcode]);
    Fixture::new(shape(sharing, FaultAction::Delay { by }, selector))
}

/// Commands that the SSD got and that had a fault.
fn got(fixture: &Fixture) -> u64 {
    fixture.several.softs[0].faults().len() as u64
}

/// How many commands of a page can begin before its deadline, if each takes so long.
fn begun(each: Duration) -> u64 {
    COMMANDS.min(DEADLINE.as_nanos().div_ceil(each.as_nanos()) as u64)
}

/// Page 0, as [`Fixture`] filled the SSD.
fn page() -> Vec<u8> {
    (0..64).flat_map(block).collect()
}

#[test]
fn a_page_of_several_commands_is_read_and_written() {
    for (sharing, seed) in MODES.iter().flat_map(|mode| seeds(SEEDS).map(move |seed| (*mode, seed))) {
        let fixture = slow(sharing, NvmOpcode::READ, Duration::from_micros(1));
        let pages = Pages { steps: 1, flags: STORES | FLUSHES, ..Pages::default() };
        let notes = fixture.run(&MODULE, seed, pages).expect("a run");
        let right = Note { digest: digest_of(&page()), ..Note::default() };
        assert_eq!(notes, [right, Note::default()], "{sharing:?}, seed {seed}");
        let count = |opcode| fixture.commands(opcode);
        assert_eq!([NvmOpcode::READ, NvmOpcode::WRITE].map(count), [COMMANDS; 2], "{sharing:?}, seed {seed}");
        let written: Vec<u8> = (0..64).flat_map(|number| fixture.block(number)).collect();
        assert!(written == stored(&page(), 0), "{sharing:?}, seed {seed}");
    }
}

/// The deadline is one for all commands of a page. Who polls looks at the clock now and then: answers are late by two
/// milliseconds, or not at all.
#[test]
fn commands_of_a_page_that_is_late_are_not_sent() {
    for (sharing, seed) in MODES.iter().flat_map(|mode| seeds(SEEDS).map(move |seed| (*mode, seed))) {
        for each in [1, 2, 3, 4, 6, 9, 13, 15].map(Duration::from_millis) {
            let fixture = slow(sharing, NvmOpcode::READ, each);
            let note = fixture.run(&MODULE, seed, Pages { steps: 1, ..Pages::default() }).expect("a run")[0];
            let right = Note { digest: digest_of(&page()), ..Note::default() };
            let late = Note { status: TIMED_OUT, ..Note::default() };
            let expected = if each * COMMANDS as u32 <= DEADLINE { right } else { late };
            assert_eq!(
                (note, got(&fixture)),
                (expected, begun(each)),
                "{sharing:?}, seed {seed}, {each:?} each"
            );
        }
    }
}

/// One lane waits in vain until the deadline: the rest of the other lane's page is not sent after it.
pub fn late(module: &Module, modes: &[Sharing]) -> Result<(), String> {
    for (sharing, seed) in modes.iter().flat_map(|mode| seeds(SEEDS).map(move |seed| (*mode, seed))) {
        let first = Selector::new().opcodes(vec![NvmOpcode::READ]).lba(Some(Lba(0)..=Lba(0)));
        let fixture = Fixture::new(shape(sharing, FaultAction::Drop, first));
        let notes = fixture.run(module, seed, Pages { steps: 1, flags: TWO_LANES, ..Pages::default() })?;
        let said: Vec<u32> = notes.iter().map(|note| note.status).collect();
        if (said.as_slice(), fixture.commands(NvmOpcode::READ)) != (&[TIMED_OUT, NOT_SUBMITTED], 1) {
            return Err(format!(
                "{sharing:?}, seed {seed}: {} commands: {said:x?}",
                fixture.commands(NvmOpcode::READ)
            ));
        }
    }
    Ok(())
}

#[test]
fn a_page_is_not_continued_after_the_deadline_of_its_neighbour() {
    assert_eq!(late(&MODULE, &MODES), Ok(()));
}

/// A command's answer may come with the poll that finds the deadline over: the page's next is not sent after it. When the
/// clock is looked at depends on the schedule.
fn answered_last(module: &Module, modes: &[Sharing]) -> Result<(), String> {
    for sharing in modes {
        let mut told = 0;
        for seed in 0..32 {
            let fixture = slow(*sharing, NvmOpcode::READ, DEADLINE - Duration::from_micros(10));
            let note = fixture.run(module, seed, Pages { steps: 1, ..Pages::default() })?[0];
            match (note.status, got(&fixture)) {
                (NOT_SUBMITTED, 1) => told += 1,
                (TIMED_OUT, 1 | 2) => {}
                wrong => return Err(format!("{sharing:?}, seed {seed}: {wrong:x?}")),
            }
        }
        if told == 0 {
            return Err(format!("{sharing:?}: each page has sent its second command"));
        }
    }
    Ok(())
}

#[test]
fn a_page_is_not_continued_after_the_poll_that_found_it_late() {
    assert_eq!(answered_last(&MODULE, &MODES), Ok(()));
}

/// From its second command on a page is not answered: it has failed, and its others are not sent.
#[test]
fn a_silent_ssd_gets_no_more_commands_of_a_page() {
    for (sharing, seed) in MODES.iter().flat_map(|mode| seeds(SEEDS).map(move |seed| (*mode, seed))) {
        let second = Selector::new().opcodes(vec![NvmOpcode::READ]).after(1);
        let fixture = Fixture::new(shape(sharing, FaultAction::Drop, second));
        let pages = Pages { steps: 1, ..Pages::default() };
        let note = fixture.run(&MODULE, seed, pages).expect("a run")[0];
        assert_eq!((note.status, got(&fixture)), (TIMED_OUT, 1), "{sharing:?}, seed {seed}");
    }
}

/// A page that is written back too slowly stays: the flush is told, nothing is lost in the cache.
#[test]
fn commands_of_a_page_that_leaves_too_late_are_not_sent() {
    for (sharing, seed) in MODES.iter().flat_map(|mode| seeds(SEEDS).map(move |seed| (*mode, seed))) {
        let each = Duration::from_millis(6);
        let fixture = slow(sharing, NvmOpcode::WRITE, each);
        let pages = Pages { steps: 1, flags: STORES | FLUSHES, ..Pages::default() };
        let notes = fixture.run(&MODULE, seed, pages).expect("a run");
        let what = format!("{sharing:?}, seed {seed}: {notes:x?}");
        assert_eq!(notes[0].status, 0, "{what}");
        assert!([TIMED_OUT, NOT_SUBMITTED].contains(&notes[1].status), "{what}");
        assert_eq!(got(&fixture), begun(each), "{what}");
        let again = fixture.run(&MODULE, seed + 1, Pages { flags: 0, ..pages }).expect("a run");
        assert_eq!(
            (again[0].status, again[0].digest),
            (0, digest_of(&stored(&page(), 0))),
            "{what}: {again:x?}"
        );
    }
}
