//! Pages: who reads them, how often, and which stay.

use std::time::Duration;

use warpbell::{Module, PageCacheReport, Sharing};
use warpbell_kernels::abi;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::seeds;
use warpbell_sim::several::Several;
use warpbell_tests::Disk;
use warpbell_tests::cached::{
    Cached, FLUSHES, HOLDS_ONE, Kind, Note, Pages, STORES, Shape, digest_of, stored,
};

use crate::words::{MODES, MODULE};
use warpbell_hw::{Lba, Nsid};
use warpbell_sim::on_cpu;

pub const NO_ROOM: u32 = abi::STATUS_LIBRARY | abi::STATUS_NO_ROOM;
const SEEDS: u64 = 4;

/// A cache of few lines over an SSD of 64 blocks, which hold what `block` says.
pub struct Fixture {
    pub several: Several,
    pub cached: Cached,
}

pub fn block(number: u64) -> Vec<u8> {
    (0..64).flat_map(|word: u64| (number << 32 | word).to_le_bytes()).collect()
}

pub fn shape(warps: u32, lines: u32) -> Shape {
    Shape { warps, ..Shape::new(Disk::new(64 * 512, 512), lines) }
}

impl Fixture {
    pub fn new(shape: Shape) -> Fixture {
        let several = shape.several();
        let cached = Cached::new(&shape, &several.queues);
        for number in 0..64 {
            several.softs[0].poke(Nsid(1), Lba(number), &block(number)).expect("a block");
        }
        Fixture { several, cached }
    }

    /// For each warp its pages, then its flush.
    pub fn run(&self, module: &Module, seed: u64, pages: Pages) -> Result<Vec<Note>, String> {
        self.run_with(module, seed, pages, |_| ())
    }

    pub fn run_with(
        &self,
        module: &Module,
        seed: u64,
        pages: Pages,
        host: impl FnMut(u64),
    ) -> Result<Vec<Note>, String> {
        let launched = self.cached.pages(&self.several.queues, module, pages);
        let on_cpu = on_cpu(&launched.launch).expect("the CPU target");
        self.several.run(on_cpu, seed, host).map_err(|error| error.to_string())?;
        match self.several.violations().as_slice() {
            [] => Ok(launched.notes()),
            found => Err(format!("seed {seed}: violations: {found:?}")),
        }
    }

    pub fn commands(&self, opcode: NvmOpcode) -> u64 {
        self.several.softs[0].statistics().commands(opcode)
    }

    pub fn block(&self, number: u64) -> Vec<u8> {
        let mut bytes = vec![0; 512];
        self.several.softs[0].peek(Nsid(1), Lba(number), &mut bytes).expect("a block");
        bytes
    }

    pub fn report(&self) -> PageCacheReport {
        self.cached.report()
    }
}

/// 64 warps want one page: each sees all of it, and it is read once.
pub fn one_read(module: &Module, sharing: Sharing) -> Result<(), String> {
    for seed in seeds(SEEDS) {
        let fixture = Fixture::new(Shape { sharing, ..shape(64, 8) });
        let notes = fixture.run(module, seed, Pages { page: 5, steps: 1, ..Pages::default() })?;
        let right = Note { digest: digest_of(&block(5)), ..Note::default() };
        if let Some(wrong) = notes.iter().step_by(2).position(|note| *note != right) {
            return Err(format!("seed {seed}: warp {wrong} saw {:?}", notes[wrong * 2]));
        }
        let (reads, report) = (fixture.commands(NvmOpcode::READ), fixture.report());
        if (reads, report.misses, report.hits) != (1, 1, 63) {
            return Err(format!("seed {seed}: {reads} reads: {report:?}"));
        }
    }
    Ok(())
}

#[test]
fn warps_that_want_one_page_cause_one_read() {
    MODES.iter().for_each(|sharing| assert_eq!(one_read(&MODULE, *sharing), Ok(()), "{sharing:?}"));
}

/// Who holds the only line and wants another page is told so.
pub fn crowded(module: &Module) -> Result<(), String> {
    let fixture = Fixture::new(shape(1, 1));
    let timeout = Duration::from_micros(200);
    let pages = Pages { page: 9, steps: 2, flags: HOLDS_ONE, held: 3, timeout, ..Pages::default() };
    let said: Vec<u32> = fixture.run(module, 1, pages)?.iter().map(|note| note.status).collect();
    let later = fixture.run(module, 2, Pages { page: 9, steps: 1, ..Pages::default() })?;
    match (said == [NO_ROOM, NO_ROOM, 0], later[0].status) {
        (true, 0) => Ok(()),
        other => Err(format!("{said:x?}, then {other:?}")),
    }
}

#[test]
fn a_warp_that_holds_all_lines_is_told_so() {
    assert_eq!(crowded(&MODULE), Ok(()));
}

/// Nothing is stored through a cache for reading.
pub fn read_only(module: &Module) -> Result<(), String> {
    let fixture = Fixture::new(Shape { kind: Kind::ReadOnly, ..shape(2, 3) });
    let pages = Pages { by_warp: 16, by_step: 1, steps: 8, flags: STORES | FLUSHES, ..Pages::default() };
    let notes = fixture.run(module, 1, pages)?;
    let refused: u32 = notes.iter().map(|note| note.failed).sum();
    let writes = fixture.commands(NvmOpcode::WRITE);
    if refused == 16 && writes == 0 { Ok(()) } else { Err(format!("{refused} refused, {writes} writes")) }
}

#[test]
fn a_cache_for_reading_stores_nothing() {
    assert_eq!(read_only(&MODULE), Ok(()));
}

#[test]
fn pages_that_are_written_as_a_whole_are_never_read() {
    for seed in seeds(SEEDS) {
        let fixture = Fixture::new(Shape { kind: Kind::WriteOnce, ..shape(2, 3) });
        let pages = Pages { by_warp: 16, by_step: 1, steps: 12, flags: STORES | FLUSHES, ..Pages::default() };
        let notes = fixture.run(&MODULE, seed, pages).expect("a run");
        assert!(notes.iter().all(|note| note.status == 0), "seed {seed}: {notes:x?}");
        assert_eq!((fixture.commands(NvmOpcode::READ), fixture.commands(NvmOpcode::WRITE)), (0, 24));
        for page in (0..12).chain(16..28) {
            let expected = stored(&[0; 512], page);
            assert!(fixture.block(page) == expected, "seed {seed}: page {page}");
        }
        assert!(fixture.block(13) == block(13));
    }
}

/// Pages that a cache keeps are read once, however often all others go by.
pub fn kept(module: &Module) -> Result<(), String> {
    let shape = Shape { kind: Kind::Pinned, ..shape(1, 6) };
    let fixture = Fixture::new(Shape { spec: shape.spec.clone().kept(3..5), ..shape });
    for round in 0..3 {
        fixture.run(module, round, Pages { by_step: 1, steps: 32, ..Pages::default() })?;
    }
    match fixture.commands(NvmOpcode::READ) {
        92 => Ok(()),
        reads => Err(format!("{reads} reads, not 32, 30 and 30")),
    }
}

#[test]
fn pages_that_are_kept_are_read_once() {
    assert_eq!(kept(&MODULE), Ok(()));
}
