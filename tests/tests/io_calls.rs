//! Tier S, simulation: the calls of deallocate.cuh, outstanding.cuh and coalesce.cuh, in every sharing mode, on random
//! schedules.

use std::path::Path;
use std::time::Duration;

use warpbell::Sharing;
use warpbell_base::mix64;
use warpbell_hw::{Lba, Nsid};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::cpu_launch;
use warpbell_sim::simulation::{Outcome, Simulation};
use warpbell_sim::{Case, Schedule, TestVariant, seeds};

/// As in io_calls.cu.
#[derive(Clone, Copy, Debug)]
enum Call {
    Compare,
    WriteZeroes,
    Deallocate,
    Fua,
    Any,
    Cancel,
    Coalesced,
    Split,
    Each,
    Flush,
    Alone,
    Mixed,
}

/// How a call is made: it waits, it returns a token, it begins an `io_request`.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Form {
    Waits,
    Token,
    Request,
}

const FORMS: [Form; 3] = [Form::Waits, Form::Token, Form::Request];

/// Commands that are cancelled: as in io_calls.cu.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Read,
    Write,
    Compare,
    WriteZeroes,
    ReadFua,
    WriteFua,
    Deallocate,
    Flush,
}

const KINDS: [Kind; 8] = [
    Kind::Read,
    Kind::Write,
    Kind::Compare,
    Kind::WriteZeroes,
    Kind::ReadFua,
    Kind::WriteFua,
    Kind::Deallocate,
    Kind::Flush,
];

const ALL: u32 = !0;
const COMPARE_FAILURE: u32 = 0x285;

fn module() -> Module {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/io_calls.cu");
    Variant::file(&source).expect("the kernel").quick().loaded().expect("compiles")
}

/// The cases in which each call must be right. Entries that do not hold one command of each lane, too.
fn cases() -> impl Iterator<Item = Case> {
    let of = |seed: u64| {
        [Sharing::Exclusive, Sharing::Shared].into_iter().flat_map(move |sharing| {
            [(2, true), (64, false)].map(|(entries, sgl)| {
                // The monitor takes a lane's own answers for pending until they leave its store buffer.
                let store_buffer = if sharing == Sharing::Shared { 8 } else { 0 };
                let schedule = Schedule { random: true, store_buffer, ..Schedule::default() };
                let timeout = Duration::from_millis(10);
                let case = Case { seed, sharing, entries, sgl, schedule, timeout, ..Case::new("io calls") };
                Case { commands: 4, async_depth: 4, shuffle: 3, ..case }
            })
        })
    };
    seeds(4).flat_map(of)
}

/// What a call is made with.
#[derive(Clone, Copy)]
struct With {
    call: Call,
    /// Its form, or what is cancelled.
    form: u32,
    lanes: u32,
    flags: u32,
    /// Blocks of a command.
    most: u32,
    namespace_flags: u32,
    alive: bool,
}

fn with(call: Call) -> With {
    With { call, form: 0, lanes: ALL, flags: 0, most: 64, namespace_flags: 0, alive: true }
}

/// All of them, in each form.
fn cases_and_forms() -> impl Iterator<Item = (Case, u32)> {
    cases().flat_map(|case| FORMS.map(|form| (case.clone(), form as u32)))
}

fn run(module: &Module, case: &Case, with: With) -> (Simulation, Outcome) {
    let config = case.soft_config().volatile_cache(true);
    let mut simulation = Simulation::with_config(case, module, config).expect("a rig");
    let mode = with.call as u32 | with.form << 8;
    let mut args = abi::QueueTestArgs { mode, flags: with.flags, ..simulation.rig.args() };
    args.batch = with.lanes;
    args.timeout_ns = case.timeout.as_nanos() as u64;
    args.submit_timeout_ns = args.timeout_ns / 2;
    args.ns.max_blocks = args.ns.max_blocks.min(with.most);
    args.ns.flags |= with.namespace_flags;
    let launch = cpu_launch(module, "io_call_test", &args).expect("a launch");
    let outcome = simulation.run_launch(launch, |_, _| with.alive).expect("a run");
    outcome.expect_right(case);
    (simulation, outcome)
}

/// Records of the lanes that called, each of which had its answer, and what it read was right.
fn records(simulation: &Simulation, lanes: u32) -> Vec<(u32, abi::TestRecord)> {
    let records = simulation.rig.records().expect("records");
    let called = (0..32).filter(|lane| lanes >> lane & 1 != 0);
    called
        .map(|lane| (lane, records[lane as usize]))
        .inspect(|(lane, record)| assert_eq!(record.answers, 1, "lane {lane}"))
        .collect()
}

fn expect_all(simulation: &Simulation, lanes: u32, status: u32, found: u64) {
    for (lane, record) in records(simulation, lanes) {
        let seen = (record.status, record.found, record.payload);
        assert_eq!(seen, (status, found, 1), "lane {lane} of {:?}", simulation.rig.case);
    }
}

fn commands(simulation: &Simulation, opcode: NvmOpcode) -> u64 {
    simulation.rig.soft.statistics().commands(opcode)
}

#[test]
fn a_difference_is_an_answer_of_compare() {
    let module = module();
    for (case, form) in cases_and_forms() {
        let (simulation, _) = run(&module, &case, With { form, ..with(Call::Compare) });
        for (lane, record) in records(&simulation, ALL) {
            let expected = if lane % 2 == 1 { COMPARE_FAILURE } else { 0 };
            assert_eq!((record.status, record.payload), (expected, 1), "lane {lane}, {form}, {case:?}");
            assert_eq!(record.found, 0, "block 0, compared by all lanes together");
        }
        // A kernel that may only read may compare.
        let read_only = With { form, namespace_flags: abi::NAMESPACE_READ_ONLY, ..with(Call::Compare) };
        let (simulation, _) = run(&module, &case, read_only);
        assert!(records(&simulation, ALL).iter().all(|(lane, record)| lane % 2 == 1 || record.status == 0));
    }
}

#[test]
fn zeroes_are_written_without_data_in_as_many_commands_as_it_takes() {
    let module = module();
    for (case, form) in cases_and_forms() {
        let (simulation, _) = run(&module, &case, With { form, most: 4, ..with(Call::WriteZeroes) });
        expect_all(&simulation, ALL, 0, 0);
        assert_eq!(commands(&simulation, NvmOpcode::WRITE_ZEROES), 32 + 16 / 4);
        assert_eq!(simulation.rig.soft.statistics().bytes_written, 0);
    }
}

#[test]
fn what_changes_the_medium_needs_the_right_to_write() {
    let module = module();
    let refused = abi::STATUS_LIBRARY | abi::STATUS_READ_ONLY;
    for ((case, form), call) in
        cases_and_forms().take(12).flat_map(|of| [(of.clone(), Call::WriteZeroes), (of, Call::Deallocate)])
    {
        let with = With { form, namespace_flags: abi::NAMESPACE_READ_ONLY, ..with(call) };
        let (simulation, _) = run(&module, &case, with);
        assert!(records(&simulation, ALL).iter().all(|(_, record)| record.status == refused), "{call:?}");
        let sent = [NvmOpcode::WRITE_ZEROES, NvmOpcode::DATASET_MANAGEMENT];
        assert_eq!(sent.map(|opcode| commands(&simulation, opcode)), [0, 0]);
    }
}

#[test]
fn the_extents_of_all_lanes_are_deallocated_by_one_command() {
    let module = module();
    for (case, form) in cases().flat_map(|case| [0, 1].map(|form| (case.clone(), form))) {
        for lanes in [ALL, 0x0000_8421, 0x8000_0002, 1] {
            let (simulation, _) = run(&module, &case, With { form, lanes, ..with(Call::Deallocate) });
            for (lane, record) in records(&simulation, lanes) {
                let content = mix64(simulation.rig.args().seed ^ u64::from(lane));
                let expected = if lane % 2 == 0 { 0 } else { content };
                assert_eq!((record.status, record.payload, record.found), (0, 1, expected), "lane {lane}");
            }
            // Of lanes that have no extent none is sent.
            let sent = u64::from(lanes & 0x5555_5555 != 0);
            assert_eq!(commands(&simulation, NvmOpcode::DATASET_MANAGEMENT), sent, "{lanes:#x}");
        }
        // A list that no 16-byte entries fit into.
        let (simulation, _) = run(&module, &case, With { form, flags: 8, ..with(Call::Deallocate) });
        let misaligned = abi::STATUS_LIBRARY | abi::STATUS_MISALIGNED;
        assert!(records(&simulation, ALL).iter().all(|(_, record)| record.status == misaligned));
    }
}

#[test]
fn what_was_written_with_fua_or_flushed_survives_a_loss_of_power_and_nothing_else_does() {
    let module = module();
    for (case, form) in cases_and_forms() {
        for (call, most, survives) in [(Call::Fua, 3, 64), (Call::Flush, 64, 32), (Call::Coalesced, 64, 0)] {
            let form = if survives == 0 { 0 } else { form };
            let (simulation, _) = run(&module, &case, With { form, most, ..with(call) });
            expect_all(&simulation, ALL, 0, 0);
            assert_eq!(commands(&simulation, NvmOpcode::FLUSH), u64::from(survives == 32));
            simulation.rig.soft.power_loss(0.0);
            let mut bytes = vec![0; 64 * case.block_size as usize];
            simulation.rig.soft.peek(Nsid(case.nsid), Lba(0), &mut bytes).expect("blocks");
            for (lane, block) in bytes.chunks_exact(case.block_size as usize).enumerate() {
                let content = mix64(simulation.rig.args().seed ^ lane as u64);
                let expected = if lane < survives { !content } else { content };
                let found = u64::from_le_bytes(block[..8].try_into().expect("eight bytes"));
                assert_eq!(found, expected, "block {lane} after {call:?}, {form}, {case:?}");
            }
        }
    }
}

#[test]
fn a_thread_makes_each_call_by_itself() {
    let module = module();
    for case in cases() {
        for (form, lanes) in [0, 1].into_iter().flat_map(|form| [1, 1 << 31].map(|lanes| (form, lanes))) {
            let (simulation, _) = run(&module, &case, With { form, lanes, ..with(Call::Alone) });
            expect_all(&simulation, lanes, 0, 0);
            let each = [
                NvmOpcode::WRITE,
                NvmOpcode::COMPARE,
                NvmOpcode::WRITE_ZEROES,
                NvmOpcode::DATASET_MANAGEMENT,
                NvmOpcode::FLUSH,
            ];
            assert_eq!(each.map(|opcode| commands(&simulation, opcode)), [1; 5], "form {form}, {case:?}");
        }
    }
}

#[test]
fn commands_of_several_kinds_are_in_flight_at_once() {
    let module = module();
    for case in cases() {
        for lanes in [ALL, 0x0000_8421, 1 << 31] {
            let (simulation, _) = run(&module, &case, With { lanes, ..with(Call::Mixed) });
            for (lane, record) in records(&simulation, lanes) {
                // The flush is one lane's.
                let answers = if lane == lanes.trailing_zeros() { 4 } else { 3 };
                let seen = (record.status, record.found, record.payload);
                assert_eq!(seen, (0, answers, 1), "lane {lane} of {lanes:#x}, {case:?}");
            }
            assert_eq!(commands(&simulation, NvmOpcode::FLUSH), 1);
        }
    }
}

#[test]
fn a_lane_has_several_commands_in_flight_and_takes_their_answers_as_they_come() {
    let module = module();
    for case in cases() {
        for lanes in [ALL, 0x7, 0x8000_0000] {
            let (simulation, _) = run(&module, &case, With { lanes, ..with(Call::Any) });
            expect_all(&simulation, lanes, 0, 2);
        }
    }
}

#[test]
fn nothing_is_given_up_at_the_deadline_of_wait_any() {
    let module = module();
    for case in cases().filter(|case| case.entries > 2) {
        let (simulation, outcome) = run(&module, &case, With { lanes: 0xf, alive: false, ..with(Call::Any) });
        let timed_out = abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT;
        assert!(records(&simulation, 0xf).iter().all(|(_, record)| record.status == timed_out));
        assert!(simulation.rig.quarantine(0).expect("masks").iter().all(|mask| *mask == 0));
        assert!(outcome.elapsed < case.timeout * 3, "{:?}", outcome.elapsed);
    }
}

#[test]
fn cancelling_tells_what_became_of_the_command() {
    let module = module();
    let timed_out = abi::STATUS_LIBRARY | abi::STATUS_TIMED_OUT;
    let roomy = cases().filter(|case| case.entries > 2);
    for (case, kind) in roomy.flat_map(|case| KINDS.map(|kind| (case.clone(), kind))) {
        let form = kind as u32;
        let (simulation, _) = run(&module, &case, With { form, flags: 1, ..with(Call::Cancel) });
        let answer = if kind == Kind::Compare { COMPARE_FAILURE } else { 0 };
        expect_all(&simulation, ALL, answer, 0);
        let (simulation, _) = run(&module, &case, With { form, alive: false, ..with(Call::Cancel) });
        expect_all(&simulation, ALL, timed_out, 0);
        // Its buffer and its id are out of use, and the host knows.
        let out_of_use = simulation.rig.quarantine(0).expect("masks");
        let of_one = matches!(kind, Kind::Deallocate | Kind::Flush);
        let expected = |lane: usize| lane == 0 || !of_one;
        let right = |(lane, mask): (usize, &u32)| (*mask != 0) == expected(lane);
        assert!(out_of_use.iter().enumerate().all(right), "{kind:?}: {out_of_use:x?}");
        assert!(simulation.rig.attachment.take_alarm(0));
    }
}

#[test]
fn neighbours_go_as_one_command_and_bring_the_same_data() {
    let module = module();
    for case in cases() {
        // Lanes that call, lanes without an extent, blocks of a command, commands.
        for (lanes, without, most, expected) in [
            (ALL, 0, 64, 1),
            (ALL, 0, 8, 4),
            (ALL, 0, 5, 7),
            (ALL, 0, 1, 32),
            (ALL, 0x0000_0100, 64, 2),
            (ALL, 0x5555_5555, 64, 16),
            (ALL, ALL, 64, 0),
            (0x0f0f_0000, 0, 64, 2),
            (0x0f0f_0000, 0, 3, 4),
            (1 << 31, 0, 64, 1),
        ] {
            let with = With { lanes, flags: without, most, ..with(Call::Coalesced) };
            let (simulation, _) = run(&module, &case, with);
            expect_all(&simulation, lanes, 0, 0);
            let sent = [NvmOpcode::WRITE, NvmOpcode::READ].map(|opcode| commands(&simulation, opcode));
            assert_eq!(sent, [expected; 2], "{lanes:#x} without {without:#x}, at most {most}, {case:?}");
        }
    }
}

#[test]
fn what_a_command_cannot_move_is_split_and_answered_as_one() {
    let module = module();
    for case in cases() {
        for (most, expected) in [(64, 1 + 32), (3, 22 + 32), (1, 64 + 64)] {
            let (simulation, _) = run(&module, &case, With { most, ..with(Call::Split) });
            for (lane, record) in records(&simulation, ALL) {
                // Lane 31 reads blocks 63 and 64.
                assert_eq!((record.status, record.found, record.payload), (0, 0, 1), "lane {lane}, {case:?}");
            }
            assert_eq!(commands(&simulation, NvmOpcode::READ), expected, "at most {most}");
        }
    }
}

#[test]
fn lanes_of_any_mask_ring_once() {
    let module = module();
    for case in cases().filter(|case| case.entries > 32) {
        for lanes in [ALL, 1, 1 << 31, 0x8000_0001, 0x5555_5555, 0x00ff_ff00, 0x0001_0000] {
            let (simulation, outcome) = run(&module, &case, With { lanes, ..with(Call::Each) });
            assert!(records(&simulation, lanes).iter().all(|(_, record)| record.status == 0));
            assert_eq!(outcome.counters.sq_doorbells, 1, "{lanes:#x}, {case:?}");
            assert_eq!(outcome.counters.sqes, u64::from(lanes.count_ones()));
        }
    }
}
