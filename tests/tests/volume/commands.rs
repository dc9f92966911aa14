//! Commands of each kind, given to a volume by each lane and by whole warps.

use std::path::Path;
use std::sync::LazyLock;

use warpbell::{MemberReport, Module, Sharing, VolumeLayout};
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::toolchain::Variant;
use warpbell_kernels::{abi, cpu};
use warpbell_nvme::NvmOpcode;
use warpbell_sim::{
    TestVariant, {TestLaunch, on_cpu, seeds},
};
use warpbell_softctl::FaultAction;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::fixture::*;
use crate::layouts::unlike;
use crate::replicas::{BROKEN, only, replicas};

pub const FUA: u32 = 1 << 30;
/// Of a Compare: Compare Failure.
pub const DIFFERS: u32 = 0x285;

#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct Args {
    volume: abi::VolumeRef,
    buffer: abi::VolumeBufferRef,
    records: u64,
    seed: u64,
    other: u64,
    first: u64,
    operation: u32,
    flags: u32,
    blocks: u32,
    whole: u32,
    without_data: u32,
    pad0: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Record {
    answers: u32,
    pub status: u32,
    pub wrong: u64,
}

pub fn source() -> Variant {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/volume_commands.cu");
    Variant::file(&source).expect("the kernel").quick()
}

pub static COMMANDS: LazyLock<cpu::Module> = LazyLock::new(|| source().loaded().expect("compiles"));

/// What each lane or warp is to do, with blocks of its own.
#[derive(Clone, Copy, Debug)]
pub struct Command {
    pub operation: NvmOpcode,
    pub flags: u32,
    /// Of the data; 0: zeroes.
    pub seed: u64,
    /// A block whose data is another than the seed's.
    pub other: u64,
    pub first: u64,
    pub blocks: u32,
    pub whole: bool,
    pub without_data: bool,
}

impl Command {
    pub fn new(operation: NvmOpcode, seed: u64, whole: bool) -> Command {
        // Two warps: 64 lanes, or two I/Os that cross chunks.
        let blocks = if whole { 50 } else { 2 };
        Command {
            operation,
            flags: 0,
            seed,
            other: u64::MAX,
            first: 0,
            blocks,
            whole,
            without_data: operation == NvmOpcode::WRITE_ZEROES,
        }
    }

    fn units(&self) -> usize {
        if self.whole { 2 } else { 64 }
    }

    /// All blocks of all of them.
    pub fn all_blocks(&self) -> u64 {
        self.units() as u64 * u64::from(self.blocks)
    }
}

/// What each was answered.
pub fn run(made: &Made, module: &cpu::Module, seed: u64, command: Command) -> Vec<Record> {
    try_run(made, module, seed, command).expect("no violation")
}

/// The same; or the first thing that an SSD found wrong.
pub fn try_run(
    made: &Made,
    module: &cpu::Module,
    seed: u64,
    command: Command,
) -> Result<Vec<Record>, String> {
    let bytes = command.all_blocks() as usize * made.volume.block_bytes() as usize;
    let buffer = made.volume.buffer(bytes).expect("a buffer");
    let mut records = vec![Record::default(); command.units()];
    let memory = made.several.queues[0].target().memory(size_of_val(&records[..])).expect("memory");
    memory.fill(0, memory.len(), 0).expect("records");
    let args = Args {
        volume: made.volume.as_ref().expect("a volume"),
        buffer: buffer.as_ref(),
        records: memory.address(),
        seed: command.seed,
        other: command.other,
        first: command.first,
        operation: command.operation.0.into(),
        flags: command.flags,
        blocks: command.blocks,
        whole: command.whole.into(),
        without_data: command.without_data.into(),
        pad0: 0,
    };
    let launch =
        made.volume.launch_bytes(&Module::from(module.clone()), "volume_command_test", args.as_bytes());
    let launch = on_cpu(&launch.expect("a launch").grid(2)).expect("the CPU target");
    made.several.run(launch, seed, |_| ()).expect("a run");
    memory.read(0, records.as_mut_bytes()).expect("records");
    assert!(records.iter().all(|record| record.answers == 1), "seed {seed}, {command:?}: {records:?}");
    match made.several.violations().first() {
        Some(violation) => Err(format!("seed {seed}, {command:?}: {violation}")),
        None => Ok(records),
    }
}

fn expect(made: &Made, seed: u64, command: Command, status: u32) {
    for record in run(made, &COMMANDS, seed, command) {
        assert_eq!((record.status, record.wrong), (status, 0), "seed {seed}, {command:?}");
    }
}

/// Commands of a kind, that each SSD has executed.
pub fn counted(made: &Made, operation: NvmOpcode) -> Vec<u64> {
    made.several.softs.iter().map(|soft| soft.statistics().commands(operation)).collect()
}

/// The first block, of a command's, that does not have this content everywhere.
pub fn lost(made: &Made, command: &Command, seed: u64) -> Option<u64> {
    let bytes = made.volume.block_bytes() as usize;
    // Members of a stripe are sorted by size.
    let number = |member: &MemberReport| member.name.trim_start_matches("soft:S").parse().expect("a number");
    let softs: Vec<usize> = made.report().iter().map(number).collect();
    (0..command.all_blocks()).find(|block| {
        let word = |word| if seed == 0 { 0 } else { content_of(seed, *block, word) };
        let expected: Vec<u8> = (0..bytes as u64 / 8).flat_map(|at| word(at).to_le_bytes()).collect();
        let pieces = made.volume.places(Lba(*block), 1).expect("places");
        pieces.iter().flat_map(|piece| &piece.places).any(|place| {
            let mut found = vec![0; bytes];
            made.several.softs[softs[place.member]].peek(Nsid(1), place.lba, &mut found).expect("blocks");
            found != expected
        })
    })
}

fn fixtures(sharing: Sharing) -> [Fixture; 3] {
    let of = |layout| Fixture::new(unlike(), sharing, layout);
    [of(VolumeLayout::Stripe), of(VolumeLayout::Concatenate), replicas(sharing, |disk| disk)]
}

/// Each fixture, with each schedule, by each lane and by whole warps.
fn cases() -> impl Iterator<Item = (Fixture, u64, bool)> {
    let of = |(sharing, seed)| fixtures(sharing).map(move |fixture| (fixture, seed));
    let all = MODES.iter().flat_map(|sharing| seeds(SEEDS).map(|seed| (*sharing, seed))).flat_map(of);
    all.flat_map(|(fixture, seed)| [false, true].map(|whole| (fixture.clone(), seed, whole)))
}

#[test]
fn what_is_written_is_compared_zeroed_and_read() {
    for (fixture, seed, whole) in cases() {
        let made = fixture.open();
        let of = |operation, content| Command::new(operation, content, whole);
        expect(&made, seed, of(NvmOpcode::WRITE, 5), 0);
        expect(&made, seed, of(NvmOpcode::COMPARE, 5), 0);
        expect(&made, seed, Command { flags: FUA, ..of(NvmOpcode::READ, 5) }, 0);
        expect(&made, seed, of(NvmOpcode::COMPARE, 6), DIFFERS);
        // Of one block: the answer of the lane or warp that has it.
        let command = Command { other: 63, ..of(NvmOpcode::COMPARE, 5) };
        for (unit, record) in run(&made, &COMMANDS, seed, command).iter().enumerate() {
            let expected = if unit as u64 == 63 / u64::from(command.blocks) { DIFFERS } else { 0 };
            assert_eq!(record.status, expected, "unit {unit}, seed {seed}, {command:?}");
        }
        expect(&made, seed, of(NvmOpcode::WRITE_ZEROES, 0), 0);
        assert_eq!(lost(&made, &command, 0), None, "seed {seed}, {command:?}");
        expect(&made, seed, of(NvmOpcode::READ, 0), 0);
        expect(&made, seed, of(NvmOpcode::COMPARE, 0), 0);
        let report = made.report();
        assert!(report.iter().all(|member| member.present && member.errors == 0), "{report:?}");
        // Five of what reads, one that writes; what differs was read, too, as far as it was looked at.
        let bytes = command.all_blocks() * u64::from(made.volume.block_bytes());
        let (read, written) =
            report.iter().fold((0, 0), |(r, w), member| (r + member.bytes_read, w + member.bytes_written));
        let copies = if fixture.spec.layout == VolumeLayout::Replicate { 3 } else { 1 };
        assert_eq!(written, copies * bytes, "{report:?}");
        assert!((4 * bytes..=6 * bytes).contains(&read), "{report:?}");
    }
}

#[test]
fn what_is_written_with_fua_or_flushed_is_durable_on_each_ssd() {
    for (fixture, seed, whole) in cases() {
        for (operation, flags, flushes, content) in [
            (NvmOpcode::WRITE, FUA, false, 8),
            (NvmOpcode::WRITE, 0, true, 8),
            (NvmOpcode::WRITE, 0, false, 0),
            (NvmOpcode::WRITE_ZEROES, FUA, false, 0),
            (NvmOpcode::WRITE_ZEROES, 0, false, 8),
        ] {
            let made = Fixture { volatile: true, ..fixture.clone() }.open();
            let command = Command { flags, ..Command::new(operation, 8, whole) };
            if operation == NvmOpcode::WRITE_ZEROES {
                expect(&made, seed, Command { flags: FUA, ..Command::new(NvmOpcode::WRITE, 8, whole) }, 0);
            }
            expect(&made, seed, command, 0);
            if flushes {
                expect(&made, seed, Command::new(NvmOpcode::FLUSH, 0, true), 0);
                // One for each warp.
                assert_eq!(counted(&made, NvmOpcode::FLUSH), [2; 3]);
            }
            made.several.softs.iter().for_each(|soft| soft.power_loss(0.0));
            assert_eq!(lost(&made, &command, content), None, "seed {seed}, {command:?}");
        }
    }
}

/// Sent to no SSD.
#[test]
fn what_cannot_be_done_is_refused() {
    let [invalid, range] =
        [abi::STATUS_INVALID_FIELD, abi::STATUS_OUT_OF_RANGE].map(|code| abi::STATUS_LIBRARY | code);
    let of_modes = MODES.iter().flat_map(|sharing| fixtures(*sharing));
    for (fixture, whole) in of_modes.flat_map(|fixture| [(fixture.clone(), false), (fixture, true)]) {
        let (made, seed) = (fixture.open(), 3);
        let of = |operation| Command::new(operation, 1, whole);
        let behind = made.volume.blocks();
        for (command, status) in [
            (Command { flags: 1, ..of(NvmOpcode::READ) }, invalid),
            (Command { flags: FUA | 2, ..of(NvmOpcode::WRITE_ZEROES) }, invalid),
            (of(NvmOpcode::DATASET_MANAGEMENT), invalid),
            (of(NvmOpcode::VERIFY), invalid),
            (Command { flags: FUA, ..of(NvmOpcode::FLUSH) }, invalid),
            (Command { without_data: true, ..of(NvmOpcode::COMPARE) }, invalid),
            (Command { first: behind, ..of(NvmOpcode::WRITE_ZEROES) }, range),
            (Command { first: behind, ..of(NvmOpcode::COMPARE) }, range),
        ] {
            expect(&made, seed, command, status);
        }
        if !whole {
            expect(&made, seed, of(NvmOpcode::FLUSH), invalid);
        }
        let sent = made.several.softs.iter().map(|soft| soft.statistics().total_commands());
        assert_eq!(sent.sum::<u64>(), 0);
    }
}

// ---- replicas that fail

/// A Compare that fails on a replica is tried on the next; one that finds a difference is not.
#[test]
fn a_replica_that_fails_a_compare_is_passed_over() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let fails = FaultAction::Fail { status: BROKEN };
        let made = replicas(sharing, |disk| disk.failing(fails, only(NvmOpcode::COMPARE, 0))).open();
        expect(&made, seed, Command::new(NvmOpcode::WRITE, 5, false), 0);
        expect(&made, seed, Command::new(NvmOpcode::COMPARE, 5, false), 0);
        expect(&made, seed, Command::new(NvmOpcode::COMPARE, 6, false), DIFFERS);
        let report = made.report();
        assert!(report.iter().all(|member| member.present), "seed {seed}: {report:?}");
        assert!(report[1].errors > 0 && report[1].bytes_read == 0, "seed {seed}: {report:?}");
    }
}

/// One that does not answer a Compare may still read the buffer: its caller is told, as of a read.
#[test]
fn a_replica_that_does_not_answer_a_compare_is_avoided() {
    let timed_out = abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT;
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let silent = |disk: Disk| disk.failing(FaultAction::Drop, only(NvmOpcode::COMPARE, 0));
        let made = replicas(sharing, silent).open();
        expect(&made, seed, Command::new(NvmOpcode::WRITE, 5, false), 0);
        let first = run(&made, &COMMANDS, seed, Command::new(NvmOpcode::COMPARE, 5, false));
        assert!(first.iter().any(|record| record.status == timed_out), "seed {seed}: {first:?}");
        assert!(first.iter().all(|record| [0, timed_out].contains(&record.status)), "seed {seed}: {first:?}");
        assert!(made.report()[1].avoided && made.report()[1].present, "seed {seed}: {:?}", made.report());
        expect(&made, seed, Command::new(NvmOpcode::COMPARE, 5, false), 0);
    }
}

#[test]
fn a_replica_that_misses_zeroes_is_dropped_but_not_the_last() {
    for (sharing, seed) in MODES.iter().flat_map(|sharing| seeds(SEEDS).map(move |seed| (*sharing, seed))) {
        let fails = FaultAction::Fail { status: BROKEN };
        let made = replicas(sharing, |disk| disk.failing(fails, only(NvmOpcode::WRITE_ZEROES, 3))).open();
        expect(&made, seed, Command::new(NvmOpcode::WRITE, 5, false), 0);
        expect(&made, seed, Command::new(NvmOpcode::WRITE_ZEROES, 0, false), 0);
        expect(&made, seed, Command::new(NvmOpcode::READ, 0, false), 0);
        let present: Vec<_> = made.report().iter().map(|member| member.present).collect();
        assert_eq!(present, [true, false, true], "seed {seed}: {:?}", made.report());

        let disk = Disk::new(64 << 10, 512).failing(fails, only(NvmOpcode::WRITE_ZEROES, 0));
        let made = Fixture::new(vec![disk; 2], sharing, VolumeLayout::Replicate).open();
        let command = Command { blocks: 1, ..Command::new(NvmOpcode::WRITE_ZEROES, 0, false) };
        expect(&made, seed, command, u32::from(BROKEN.into_bits()));
        assert!(made.report().iter().all(|member| member.present && member.errors > 0), "seed {seed}");
    }
}
