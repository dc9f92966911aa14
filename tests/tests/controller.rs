//! Tier S, simulation: controllers that grant fewer or more queues than asked, small and huge rings, several namespaces,
//! and I/Os above what the controller moves at once.

use std::time::Duration;

use warpbell::{AttachOptions, Sharing, Ssd};
use warpbell_hw::{Lba, Nsid, Window};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_nvme::NvmOpcode;
use warpbell_sim::cpu_launch;
use warpbell_sim::simulation::Simulation;
use warpbell_sim::{Case, Mode, Rig, Schedule};
use warpbell_softctl::{NamespaceConfig, SoftConfig};

fn builtin() -> Module {
    Module::builtin().expect("the CPU target is built in")
}

fn expect_success_on(case: &Case, config: SoftConfig) -> Simulation {
    let mut simulation = Simulation::with_config(case, &builtin(), config).expect("a rig");
    let mut outcome = simulation.run().expect("a run");
    outcome.findings.extend(simulation.rig.check_success().expect("records"));
    outcome.expect_right(case);
    simulation
}

/// What attaching says.
fn refusal(ssd: &Ssd, options: &AttachOptions) -> String {
    match ssd.attach(options) {
        Ok(_) => panic!("attached: {options:?}"),
        Err(error) => error.to_string(),
    }
}

#[test]
fn of_64_queues_asked_for_7_are_granted_and_7_work() {
    let config = |case: &Case| case.soft_config().grant(Some(7));
    let asking = Case { queues: 64, warps: 64, ..Case::new("64 asked, 7 granted") };
    let error =
        Simulation::with_config(&asking, &builtin(), config(&asking)).err().expect("no such attachment");
    assert_eq!(format!("{error:#}"), "attach: queues 64: the controller granted 7");
    let case = Case { queues: 7, warps: 7, entries: 8, ..Case::new("7 granted") };
    let simulation = expect_success_on(&case, config(&case));
    assert_eq!(simulation.rig.ssd.granted_queues(), 7);
    let one_more = AttachOptions::new().queues(1).warps(1);
    let text = refusal(&simulation.rig.ssd, &one_more);
    assert!(text.contains('7') && text.contains("queue"), "all queues are in use: {text}");
}

#[test]
fn of_4_queues_asked_for_64_are_granted_and_4_are_used() {
    let case = Case {
        queues: 4,
        warps: 8,
        sharing: Sharing::Shared,
        entries: 8,
        ..Case::new("4 asked, 64 granted")
    };
    let simulation = expect_success_on(&case, case.soft_config().grant(Some(64)));
    assert_eq!(simulation.rig.ssd.granted_queues(), 4);
    assert_eq!(simulation.rig.ssd.controller().grant().submission, 64);
}

#[test]
fn any_depth_from_1_to_65535_works_and_0_and_65536_are_refused_by_name() {
    for (sharing, entries) in
        [Sharing::Exclusive, Sharing::Shared].into_iter().flat_map(|s| [2, 4, 65536].map(|n| (s, n)))
    {
        let case = Case { sharing, entries, async_depth: 4, commands: 4, shuffle: 8, ..Case::new("depth") };
        let simulation = expect_success_on(&case, case.soft_config());
        assert_eq!(simulation.rig.attachment.pairs()[0].entries(), entries);
    }
    let simulation = Simulation::new(&Case { queues: 2, warps: 2, ..Case::new("any") }).expect("a rig");
    for iodepth in [0, 65536, 100_000] {
        let options = AttachOptions::new().iodepth(iodepth);
        let expected =
            format!("iodepth {iodepth}: must be from 1 to 65535, the controller's queue size less one");
        assert_eq!(refusal(&simulation.rig.ssd, &options), expected);
    }
}

#[test]
fn an_iodepth_between_powers_of_two_has_room_for_all_of_it() {
    for (iodepth, entries) in [(1, 2), (2, 4), (3, 4), (4, 8), (127, 128), (128, 256), (65534, 65536)] {
        assert_eq!(AttachOptions::new().iodepth(iodepth).entries(), entries);
    }
    let case = Case { queues: 2, warps: 2, ..Case::new("iodepth 2") };
    let simulation = Simulation::new(&case).expect("a rig");
    let Rig { ssd, attachment, .. } = simulation.rig.run;
    drop(attachment);
    let options = AttachOptions::new().iodepth(2);
    assert_eq!(ssd.attach(&options).expect("attaches").pairs()[0].entries(), 4);
}

#[test]
fn a_controller_with_small_rings_limits_the_depth() {
    let case = Case { entries: 16, async_depth: 2, ..Case::new("the largest ring") };
    let simulation = expect_success_on(&case, case.soft_config().max_entries(16));
    let Rig { ssd, attachment, .. } = simulation.rig.run;
    drop(attachment);
    let text = refusal(&ssd, &AttachOptions::new().iodepth(16));
    assert_eq!(text, "iodepth 16: must be from 1 to 15, the controller's queue size less one");
    // 100 entries hold no ring of 128.
    let case = Case { entries: 64, ..Case::new("a ring limit that is no power of two") };
    let simulation = expect_success_on(&case, case.soft_config().max_entries(100));
    let Rig { ssd, attachment, .. } = simulation.rig.run;
    drop(attachment);
    let text = refusal(&ssd, &AttachOptions::new().iodepth(64));
    assert!(text.contains("64") || text.contains("128"), "names the value: {text}");
    assert!(text.contains("100") || text.contains("63"), "names the limit: {text}");
}

#[test]
fn more_warps_than_command_ids_are_refused_by_name() {
    let simulation = Simulation::new(&Case { queues: 2, warps: 2, ..Case::new("any") }).expect("a rig");
    let shared = AttachOptions::new().sharing(Sharing::Shared);
    let text = refusal(&simulation.rig.ssd, &shared.clone().warps(2049));
    assert_eq!(text, "warps 2049 on 1 queues: 2049 warps share a queue, CIDs allow at most 2048");
    let text = refusal(&simulation.rig.ssd, &shared.warps(128).commands_per_lane(Some(32)));
    assert_eq!(text, "commands in flight per lane 32: 128 warps on a queue leave each lane 16 CIDs");
    let text = refusal(&simulation.rig.ssd, &AttachOptions::new().warps(2));
    assert!(text.contains("2 on 1 exclusive queues"), "{text}");
}

#[test]
fn the_most_warps_use_every_command_id_but_ffff() {
    let case =
        Case { tokens: 1, commands: 1, entries: 64, mode: Mode::Flush, ..Case::shared("2048 warps", 2048) };
    let case = Case { warps_per_block: 8, timeout: Duration::from_secs(60), ..case };
    let mut simulation = Simulation::new(&case).expect("a rig");
    let mut outcome = simulation.run().expect("a run");
    outcome.findings.extend(simulation.rig.check_records(&[abi::STATUS_NO_CID]).expect("records"));
    outcome.expect_right(&case);
    for (command, record) in simulation.rig.records().expect("records").iter().enumerate() {
        let expected = if command == 0xffff {
            (!0, abi::STATUS_LIBRARY | abi::STATUS_NO_CID)
        } else {
            (command as u32, 0)
        };
        assert_eq!((record.cid, record.status, record.answers), (expected.0, expected.1, 1));
    }
}

#[test]
fn namespaces_of_both_block_sizes_are_kept_apart() {
    let case = |nsid, block_size| Case {
        nsid,
        block_size,
        mode: Mode::WriteRead,
        commands: 4,
        ..Case::new("namespaces")
    };
    let both = |case: &Case| {
        let namespaces =
            [512, 4096, 512].map(|size| NamespaceConfig::memory(case.blocks() * u64::from(size), size));
        case.soft_config().namespaces(namespaces.to_vec())
    };
    for (nsid, block_size) in [(1, 512), (2, 4096), (3, 512)] {
        let case = case(nsid, block_size);
        let simulation = expect_success_on(&case, both(&case));
        let mut other = vec![1; block_size as usize];
        for elsewhere in (1..=3).filter(|other| *other != nsid) {
            let size = if elsewhere == 2 { 4096 } else { 512 };
            simulation
                .rig
                .soft
                .peek(Nsid(elsewhere), Lba(0), &mut other[..size.min(block_size as usize)])
                .expect("a block");
            assert!(
                other[..size.min(block_size as usize)].iter().all(|byte| *byte == 0),
                "namespace {elsewhere}"
            );
            other.fill(1);
        }
    }
    let case = case(1, 512);
    let simulation = expect_success_on(&case, both(&case));
    let options = AttachOptions::new().nsid(Some(warpbell_hw::Nsid(4)));
    let text = refusal(&simulation.rig.ssd, &options);
    assert!(text.contains("namespace 4") && text.contains("1, 2, 3"), "{text}");
}

/// Tables for CRC-32C, slice by 8.
fn crc_tables() -> Vec<u32> {
    let byte = |b: u32| (0..8).fold(b, |crc, _| if crc & 1 != 0 { crc >> 1 ^ 0x82f6_3b78 } else { crc >> 1 });
    let mut tables: Vec<u32> = (0..256).map(byte).collect();
    for index in 256..8 * 256 {
        let before = tables[index - 256];
        tables.push(before >> 8 ^ tables[(before & 255) as usize]);
    }
    tables
}

/// Runs the kernel `bench` once over each unit of `blocks_per_io` blocks, which it writes or reads and checks; returns its
/// only warp's result.
fn each_unit(
    simulation: &mut Simulation,
    read_percent: u32,
    blocks_per_io: u32,
    units: u64,
    first_lba: u64,
) -> abi::WarpResult {
    let tables: Vec<u8> = crc_tables().iter().flat_map(|word| word.to_le_bytes()).collect();
    let memory = Window::host(tables.len() + size_of::<abi::Mailbox>()).expect("memory");
    memory.write(0, &tables).expect("fits");
    let bytes = 32 * blocks_per_io * simulation.rig.case.block_size;
    let buffer = simulation.rig.attachment.buffer(bytes as usize).expect("a buffer");
    let args = abi::BenchArgs {
        ns: simulation.rig.attachment.namespace(),
        buffer: buffer.as_ref(),
        mailbox: memory.as_ptr() as u64 + tables.len() as u64,
        results: simulation.rig.args().results,
        crc_tables: memory.as_ptr() as u64,
        first_lba,
        units,
        seed: 9,
        io_limit: units,
        blocks_per_io,
        iodepth: 8,
        units_per_warp: 32,
        read_percent,
        pattern: abi::PATTERN_SEQUENTIAL,
        api: abi::API_IO,
        verify: 1,
        ..abi::BenchArgs::new()
    };
    simulation.rig.clear().expect("results");
    let launch = cpu_launch(&builtin(), "bench", &args).expect("a launch");
    let outcome = simulation.run_launch(launch, |_, _| true).expect("a run");
    outcome.expect_right(&simulation.rig.case);
    assert_eq!(simulation.rig.soft.violations(), []);
    simulation.rig.results().expect("results")[0]
}

#[test]
fn an_io_above_the_transfer_limit_is_split() {
    // 20 KiB per I/O; the controller moves 8 KiB at once: 8 + 8 + 4.
    for (block_size, sgl) in [(512, true), (512, false), (4096, true), (4096, false)] {
        let blocks_per_io = 20480 / block_size;
        let schedule = Schedule { random: true, ..Schedule::default() };
        let case = Case {
            block_size,
            sgl,
            entries: 16,
            commands: 100,
            mode: Mode::Flush,
            schedule,
            ..Case::new("split")
        };
        let config = case.soft_config().mdts(1);
        let mut simulation = Simulation::with_config(&case, &builtin(), config).expect("a rig");
        let units = 40;
        let written = each_unit(&mut simulation, 0, blocks_per_io, units, 3);
        assert_eq!((written.writes, written.errors, written.bytes_written), (units, 0, units * 20480));
        let checked = each_unit(&mut simulation, 100, blocks_per_io, units, 3);
        assert_eq!((checked.reads, checked.errors, checked.mismatches), (units, 0, 0));
        let statistics = simulation.rig.soft.statistics();
        assert_eq!(statistics.commands(NvmOpcode::WRITE), 3 * units, "three commands for each I/O");
        assert_eq!((statistics.commands(NvmOpcode::READ), statistics.bytes_read), (3 * units, units * 20480));
        // A flipped bit in the last piece of unit 7 is found, in its block.
        let lba = 3 + 8 * u64::from(blocks_per_io) - 1;
        let mut block = vec![0; block_size as usize];
        simulation.rig.soft.peek(Nsid(1), Lba(lba), &mut block).expect("a block");
        block[100] ^= 4;
        simulation.rig.soft.poke(Nsid(1), Lba(lba), &block).expect("a block");
        let spoilt = each_unit(&mut simulation, 100, blocks_per_io, units, 3);
        assert_eq!((spoilt.errors, spoilt.mismatches, spoilt.mismatch_lba), (0, 1, lba));
        assert_ne!(spoilt.expected, spoilt.actual);
    }
}

#[test]
fn an_io_past_the_end_is_refused_without_asking_the_controller() {
    let case = Case { entries: 16, mode: Mode::Flush, ..Case::new("past the end") };
    let mut simulation = Simulation::new(&case).expect("a rig");
    let last = case.blocks() - 4;
    let result = each_unit(&mut simulation, 100, 8, 1, last);
    assert_eq!((result.errors, result.error_lba), (1, last));
    assert_eq!(result.error_status, abi::STATUS_LIBRARY | abi::STATUS_OUT_OF_RANGE);
    assert_eq!(simulation.rig.soft.statistics().commands(NvmOpcode::READ), 0);
}
