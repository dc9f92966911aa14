//! A volume over stepped controllers, and a kernel that writes and reads it.

use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

use warpbell::{AttachOptions, MemberReport, Module, Sharing, Volume, VolumeLayout, VolumeSpec};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_kernels::cpu;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::several::Several;
use warpbell_sim::{TestLaunch, TestVariant, on_cpu};
pub use warpbell_tests::Disk;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub const SEEDS: u64 = 6;
/// Seeds that a broken rule has to show itself.
pub const SEEDS_OF_RULES: u64 = 100;
pub const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

/// As `volume_test` numbers mappings.
pub const MAPS: [u32; 5] = [0, 1, 2, 3, 4];
pub const HASHED: u32 = 1;
pub const BY_CTA: u32 = 2;
pub const NEAREST: u32 = 3;

pub const WITH_RETRIES: u32 = 5;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
pub struct VolumeArgs {
    pub volume: abi::VolumeRef,
    pub buffer: abi::VolumeBufferRef,
    pub records: u64,
    pub units: u64,
    pub seed: u64,
    pub unit_blocks: u32,
    pub writes: u32,
    pub whole: u32,
    pub map: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct UnitRecord {
    pub answers: u32,
    pub status: u32,
    pub wrong: u32,
    pub again: u32,
    pub digest: u64,
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/volume.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub static MODULE: LazyLock<cpu::Module> = LazyLock::new(|| source().loaded().expect("compiles"));

/// A volume, and how a kernel uses it.
#[derive(Clone)]
pub struct Fixture {
    pub disks: Vec<Disk>,
    pub sharing: Sharing,
    pub blocks: u32,
    pub warps_per_block: u32,
    pub spec: VolumeSpec,
    pub unit_blocks: u32,
    pub most_units: u64,
    pub whole: bool,
    pub map: u32,
    /// Of each SSD: a loss of power takes what was not flushed.
    pub volatile: bool,
}

impl Fixture {
    pub fn new(disks: Vec<Disk>, sharing: Sharing, layout: VolumeLayout) -> Fixture {
        let spec = VolumeSpec::new().layout(layout).chunk_bytes(3 * 4096);
        let (unit_blocks, most_units) = (5, 200);
        Fixture {
            disks,
            sharing,
            blocks: 2,
            warps_per_block: 1,
            spec,
            unit_blocks,
            most_units,
            whole: false,
            map: 0,
            volatile: false,
        }
    }

    pub fn warps(&self) -> u32 {
        self.blocks * self.warps_per_block
    }

    pub fn open(&self) -> Made {
        let attach = |disk: &Disk| {
            AttachOptions::new()
                .queues(if self.sharing == Sharing::Exclusive { self.warps() } else { disk.queues })
                // Room for `by_cta` and for a mapping of one's own.
                .warps(disk.warps.unwrap_or(if self.sharing == Sharing::Exclusive {
                    self.warps()
                } else {
                    self.warps() * disk.queues * 2
                }))
                .sharing(self.sharing)
                .timeout(Duration::from_millis(10))
                .recovery(false)
        };
        let config = |disk: &Disk| disk.config().volatile_cache(self.volatile);
        let each = self.disks.iter().map(|disk| (config(disk), attach(disk))).collect();
        let several = Several::new(each).expect("SSDs");
        let queues: Vec<_> = several.queues.iter().collect();
        let volume = Volume::new(&queues, &self.spec).expect("a volume");
        Made { fixture: self.clone(), several, volume }
    }
}

pub struct Made {
    pub fixture: Fixture,
    pub volume: Volume,
    pub several: Several,
}

impl Made {
    pub fn units(&self) -> u64 {
        (self.volume.blocks() / u64::from(self.fixture.unit_blocks)).min(self.fixture.most_units)
    }

    pub fn run(
        &self,
        module: &cpu::Module,
        seed: u64,
        writes: bool,
        host: impl FnMut(u64),
    ) -> Vec<UnitRecord> {
        let fixture = &self.fixture;
        let unit = fixture.unit_blocks as usize * self.volume.block_bytes() as usize;
        let buffer = self.volume.buffer(fixture.warps() as usize * 64 * unit).expect("a buffer");
        let mut records = vec![UnitRecord::default(); self.units() as usize];
        let memory = self.several.queues[0].target().memory(size_of_val(&records[..])).expect("memory");
        memory.fill(0, memory.len(), 0).expect("records");
        let args = VolumeArgs {
            volume: self.volume.as_ref().expect("a volume"),
            buffer: buffer.as_ref(),
            records: memory.address(),
            units: self.units(),
            seed: 7,
            unit_blocks: fixture.unit_blocks,
            writes: u32::from(writes),
            whole: u32::from(fixture.whole),
            map: fixture.map,
        };
        let launch = self.volume.launch_bytes(&Module::from(module.clone()), "volume_test", args.as_bytes());
        let launch = launch.expect("a launch").grid(fixture.blocks).block(32 * fixture.warps_per_block);
        self.several.run(on_cpu(&launch).expect("the CPU target"), seed, host).expect("a run");
        memory.read(0, records.as_mut_bytes()).expect("records");
        assert!(records.iter().all(|record| record.answers == 1), "seed {seed}: {records:?}");
        records
    }

    pub fn report(&self) -> Vec<MemberReport> {
        self.volume.report().expect("a report")
    }

    /// Writes all units, reads them, and holds what lies on the SSDs against `place`: member and its block of a block of
    /// the volume.
    pub fn write_and_read(&self, seed: u64, place: impl Fn(u64) -> Vec<(usize, u64)>) {
        for writes in [true, false] {
            let records = self.run(&MODULE, seed, writes, |_| ());
            assert!(
                records.iter().all(|record| (record.status, record.wrong) == (0, 0)),
                "seed {seed}: {records:?}"
            );
        }
        assert_eq!(self.several.violations(), Vec::<String>::new(), "seed {seed}");
        let bytes = self.volume.block_bytes() as usize;
        for block in 0..self.units() * u64::from(self.fixture.unit_blocks) {
            let expected: Vec<u8> =
                (0..bytes as u64 / 8).flat_map(|word| content(block, word).to_le_bytes()).collect();
            for (member, lba) in place(block) {
                let mut found = vec![0; bytes];
                self.several.softs[member].peek(Nsid(1), Lba(lba), &mut found).expect("blocks");
                assert!(found == expected, "seed {seed}: block {block} is not block {lba} of SSD {member}");
            }
        }
    }
}

pub fn content(block: u64, word: u64) -> u64 {
    content_of(7, block, word)
}

pub fn content_of(seed: u64, block: u64, word: u64) -> u64 {
    let mixed = (seed + block)
        .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        .wrapping_add(word.wrapping_mul(0xbf58_476d_1ce4_e5b9));
    mixed ^ mixed >> 29
}

pub fn good(records: &[UnitRecord]) -> bool {
    records.iter().all(|record| record.status == 0 && record.wrong == 0)
}

pub fn digest(records: &[UnitRecord]) -> u64 {
    records.iter().fold(0, |sum, record| sum.rotate_left(1) ^ record.digest)
}
