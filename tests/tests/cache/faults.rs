//! Reads and write-backs that fail, that nobody answers, and queues that are lost: who is told, and what stays right.

use std::time::Duration;

use warpbell::{Module, Sharing};
use warpbell_hw::Lba;
use warpbell_kernels::abi;
use warpbell_nvme::{NvmOpcode, Status, status::StatusCodeType};
use warpbell_sim::seeds;
use warpbell_softctl::{FaultAction, Selector};
use warpbell_tests::cached::{FLUSHES, Kind, Note, Pages, STORES, Shape, digest_of, stored};

use crate::pages::{Fixture, block, shape};
use crate::words::{MODES, MODULE};

const SEEDS: u64 = 4;
const BROKEN: Status = Status::new(StatusCodeType::MEDIA, 0x81).with_dnr(true);
const TIMED_OUT: u32 = abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT;
const QUEUE_LOST: u32 = abi::STATUS_LIBRARY | abi::STATUS_QUEUE_GONE;

fn broken() -> u32 {
    u32::from(BROKEN.into_bits())
}

/// Block 2, as often as `count` says.
fn of_block_2(opcode: NvmOpcode, count: Option<u64>) -> Selector {
    Selector::new().opcodes(vec![opcode]).lba(Some(Lba(2)..=Lba(2))).count(count)
}

fn failing(shape: Shape, action: FaultAction, selector: Selector) -> Fixture {
    let disks = shape.disks.iter().map(|disk| disk.clone().failing(action, selector.clone())).collect();
    Fixture::new(Shape { disks, ..shape })
}

/// All who want a page that cannot be read are told so; the next ones read it again.
pub fn unreadable(module: &Module, modes: &[Sharing]) -> Result<(), String> {
    for (sharing, seed) in modes.iter().flat_map(|mode| seeds(SEEDS).map(move |seed| (*mode, seed))) {
        let one = Pages { page: 2, steps: 1, ..Pages::default() };
        let fail = FaultAction::Fail { status: BROKEN };
        let always = failing(Shape { sharing, ..shape(8, 4) }, fail, of_block_2(NvmOpcode::READ, None));
        let notes = always.run(module, seed, one)?;
        if let Some(other) = notes.iter().step_by(2).find(|note| note.status != broken()) {
            return Err(format!("{sharing:?}, seed {seed}: not told: {other:x?}"));
        }
        let once = failing(Shape { sharing, ..shape(1, 1) }, fail, of_block_2(NvmOpcode::READ, Some(1)));
        let said = [once.run(module, seed, one)?[0], once.run(module, seed, one)?[0]];
        let right = Note { digest: digest_of(&block(2)), ..Note::default() };
        if (said[0].status, said[1]) != (broken(), right) {
            return Err(format!("{sharing:?}, seed {seed}: {said:x?}"));
        }
    }
    Ok(())
}

#[test]
fn a_page_that_cannot_be_read_is_an_answer_to_all_who_want_it() {
    assert_eq!(unreadable(&MODULE, &MODES), Ok(()));
}

/// Pages 2 to 14, each stored to, and a flush.
const STORED: Pages = Pages {
    page: 2,
    by_warp: 0,
    by_step: 1,
    steps: 13,
    flags: STORES | FLUSHES,
    held: 0,
    timeout: Duration::ZERO,
};

/// A page that cannot be written stays, and the report and flushes say so, until it can be.
pub fn unwritable(module: &Module) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let fail = FaultAction::Fail { status: BROKEN };
        let fixture = failing(shape(1, 4), fail, of_block_2(NvmOpcode::WRITE, Some(2)));
        let notes = fixture.run(module, seed, STORED)?;
        let (pages, flush) = notes.split_at(13);
        if pages.iter().any(|note| note.status != 0) || flush[0].status != broken() {
            return Err(format!("seed {seed}: {notes:x?}"));
        }
        if fixture.report().error != Some((broken(), 2)) || fixture.block(2) != block(2) {
            return Err(format!("seed {seed}: {:?}", fixture.report()));
        }
        let reads = fixture.commands(NvmOpcode::READ);
        let again = fixture.run(module, seed, Pages { steps: 1, flags: FLUSHES, ..STORED })?;
        let right = Note { digest: digest_of(&stored(&block(2), 2)), ..Note::default() };
        if again != [right, Note::default()] || fixture.commands(NvmOpcode::READ) != reads {
            return Err(format!("seed {seed}: it was not there: {again:x?}"));
        }
        for page in 2..15 {
            if fixture.block(page) != stored(&block(page), page) {
                return Err(format!("seed {seed}: page {page} was not written"));
            }
        }
    }
    Ok(())
}

#[test]
fn a_page_that_cannot_be_written_stays_until_it_can_be() {
    assert_eq!(unwritable(&MODULE), Ok(()));
}

/// Longer than the deadline of a command.
const LATE: FaultAction = FaultAction::Delay { by: Duration::from_millis(15) };

#[test]
fn a_read_that_comes_too_late_costs_its_line_and_nothing_else() {
    for (sharing, action) in
        MODES.iter().flat_map(|mode| [LATE, FaultAction::Drop].map(|action| (*mode, action)))
    {
        for seed in seeds(SEEDS) {
            let selector = of_block_2(NvmOpcode::READ, Some(1));
            let fixture = failing(Shape { sharing, ..shape(1, 3) }, action, selector);
            // Page 2 is asked for again when others have gone by, and what was late has come.
            let pages = Pages { page: 2, by_step: 1, steps: 40, ..Pages::default() };
            let first = fixture.run(&MODULE, seed, pages).expect("a run");
            fixture.several.softs[0].advance(Duration::from_millis(20));
            let second = fixture.run(&MODULE, seed + 1, pages).expect("a run");
            assert_eq!(first[0].status, TIMED_OUT, "{sharing:?}, seed {seed}");
            for (page, note) in (3..42).zip(&first[1..]).chain((2..42).zip(&second)) {
                let right = Note { digest: digest_of(&block(page)), ..Note::default() };
                assert_eq!(*note, right, "{sharing:?}, {action:?}, seed {seed}: page {page}");
            }
            assert_eq!(fixture.report().error, None);
        }
    }
}

#[test]
fn a_write_that_nobody_answers_leaves_its_page_where_it_is() {
    for seed in seeds(SEEDS) {
        let fixture = failing(shape(1, 4), FaultAction::Drop, of_block_2(NvmOpcode::WRITE, None));
        let notes = fixture.run(&MODULE, seed, STORED).expect("a run");
        let (pages, flush) = notes.split_at(13);
        assert!(pages.iter().all(|note| note.status == 0), "seed {seed}: {notes:x?}");
        assert_eq!(
            (flush[0].status, fixture.report().error),
            (TIMED_OUT, Some((TIMED_OUT, 2))),
            "seed {seed}"
        );
        // It is found, and asked of the SSD no more.
        let writes = fixture.commands(NvmOpcode::WRITE);
        let again = fixture.run(&MODULE, seed, Pages { steps: 1, flags: FLUSHES, ..STORED }).expect("a run");
        let right = digest_of(&stored(&block(2), 2));
        assert_eq!((again[0].digest, again[1].status), (right, TIMED_OUT), "seed {seed}");
        assert_eq!(fixture.commands(NvmOpcode::WRITE), writes);
        (3..15).for_each(|page| assert!(fixture.block(page) == stored(&block(page), page), "page {page}"));
    }
}

/// A queue is lost: what is there can be used, all else is answered so, and no line is lost without need.
pub fn lost(module: &Module, modes: &[Sharing]) -> Result<(), String> {
    modes.iter().try_for_each(|&sharing| lost_by(module, sharing, Kind::Clock))
}

fn lost_by(module: &Module, sharing: Sharing, kind: Kind) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        // From some command on nothing is answered any more.
        let silent = Selector::new().after(8 + seed % 16);
        let fixture = failing(Shape { sharing, kind, ..shape(4, 6) }, FaultAction::Drop, silent);
        let pages = Pages { by_warp: 12, by_step: 1, steps: 12, flags: STORES | FLUSHES, ..Pages::default() };
        let dropped = || !fixture.several.softs[0].faults().is_empty();
        let mut given_up = false;
        let lose = |_| {
            fixture.several.lose(!given_up && dropped());
            given_up = dropped();
        };
        let notes = fixture.run_with(module, seed, pages, lose)?;
        let (flushes, pages): (Vec<_>, Vec<_>) = (0..).zip(&notes).partition(|(at, _)| at % 13 == 12);
        let told = |note: &Note| note.status == QUEUE_LOST;
        if !flushes.iter().all(|(_, note)| told(note)) || !pages.iter().any(|(_, note)| told(note)) {
            return Err(format!("{sharing:?}, seed {seed}: nobody was told: {notes:x?}"));
        }
        for (at, note) in pages.into_iter().filter(|(_, note)| !told(note)) {
            let page = at / 13 * 12 + at % 13;
            if (note.status, note.digest) != (0, digest_of(&block(page))) {
                return Err(format!("{sharing:?}, seed {seed}: page {page}: {note:x?}"));
            }
        }
    }
    Ok(())
}

#[test]
fn warps_of_a_lost_queue_are_told_and_end() {
    assert_eq!(lost(&MODULE, &MODES), Ok(()));
}

#[test]
fn warps_with_retries_take_no_line_for_a_lost_queue() {
    assert_eq!(lost_by(&MODULE, Sharing::Shared, Kind::Retry), Ok(()));
}
