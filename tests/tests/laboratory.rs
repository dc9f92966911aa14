//! Tier S: the protocols of the laboratory answer every command once, with the right data, on real threads and in the
//! simulation, and a command that is lost ends a run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use warpbell::test_hooks::TestSsd;
use warpbell::{DeviceName, KernelMemory, OpenOptions, SharedMemory, Sharing as Mode, Ssd, Target};
use warpbell_kernels::abi::{self, LabArgs, Mailbox};
use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::cpu_launch;
use warpbell_sim::simulation::Simulation;
use warpbell_sim::threaded::sized;
use warpbell_sim::{Breach, Case, Finding, Schedule, TestVariant, lines, seeds};
use warpbell_softctl::{FaultPlan, NamespaceConfig, SoftConfig, SoftDevice};
use warpbell_workload::{
    Access, Api, BenchOptions, ByteSize, Control, Protocol, Run, Sharing, Verify, bench, resolve,
};
use zerocopy::{FromZeros, IntoBytes};

fn open(config: SoftConfig, options: &OpenOptions) -> Ssd {
    let soft = SoftDevice::threaded(config).unwrap();
    Ssd::over_soft(DeviceName::Soft("size=1m".to_owned()), soft, options).unwrap()
}

fn config() -> SoftConfig {
    SoftConfig::new().namespaces(vec![NamespaceConfig::memory(4 << 20, 512)])
}

/// Mixed I/O of `warps` warps on each of `queues` queues, `lanes` of each of which work.
fn options(protocol: Protocol, queues: u16, warps: u32, lanes: u32) -> BenchOptions {
    BenchOptions {
        rw: Access::RandRw,
        rwmixread: Some(50),
        bs: ByteSize(512),
        iodepth: warps * lanes,
        queues,
        warps: Some(u32::from(queues) * warps),
        sharing: Sharing::Shared,
        api: Api::Raw,
        protocol: Some(protocol),
        size: Some(ByteSize(u64::from(sized(8)) << 16)),
        io_limit: Some(ByteSize(u64::from(sized(8)) << 16)),
        threads: Some(2),
        timeout: Duration::from_secs(60),
        ..BenchOptions::default()
    }
}

fn run(ssd: &Ssd, options: &BenchOptions) -> Run {
    let job = resolve(ssd, options).unwrap();
    bench(ssd, Target::Cpu, &job, &Control::new()).unwrap_or_else(|error| panic!("{options:?}: {error}"))
}

fn expect_verified(ssd: &Ssd, options: &BenchOptions) {
    let options = BenchOptions { verify: Some(Verify::Crc32c), ..options.clone() };
    let run = run(ssd, &options);
    let verify = run.verify.clone().unwrap();
    assert!(run.clean(), "{options:?}: {:?} {:?} {verify:?}", run.failures, run.violation_examples);
    let ios = options.io_limit.unwrap().0 / 512;
    assert_eq!(run.total.ios, ios, "{options:?}");
    assert_eq!(verify.blocks, run.read.ios + options.size.unwrap().0 / 512, "{options:?}");
}

#[test]
fn what_is_written_is_read_by_any_number_of_warps() {
    let ssd = open(config(), &OpenOptions::default());
    for &protocol in Protocol::ALL {
        for (queues, warps, lanes) in [(1, 1, 32), (1, 8, 32), (1, 64, 1), (2, 12, 5), (1, 64, 32)] {
            expect_verified(&ssd, &options(protocol, queues, warps, lanes));
        }
    }
}

#[test]
fn small_rings_and_lanes_with_nothing_to_do() {
    let ssd = open(config(), &OpenOptions::default());
    for &protocol in Protocol::ALL {
        for (warps, iodepth) in [(1, 1), (1, 3), (3, 2), (9, 40)] {
            let range = Some(ByteSize(64 << 10));
            let small =
                BenchOptions { iodepth, size: range, io_limit: range, ..options(protocol, 1, warps, 1) };
            expect_verified(&ssd, &small);
        }
    }
}

#[test]
fn doorbells_in_memory_are_polled_from_there() {
    // In virtual time: how seldom a controller's thread asks to be woken is up to the machine.
    let name: DeviceName = "soft:size=4m,profile=optane,time=virtual,dbbuf=on".parse().unwrap();
    let ssd = Ssd::open(&name, &Case { dbbuf: true, ..Case::new("dbbuf") }.open_options()).unwrap();
    for &protocol in Protocol::ALL {
        let options = BenchOptions { threads: None, ..options(protocol, 1, 8, 8) };
        expect_verified(&ssd, &options);
        let run = run(&ssd, &options);
        let counted = run.counters.unwrap();
        assert!(counted.shadow_stores > counted.sq_doorbells, "{protocol}: {counted:?}");
    }
}

#[test]
fn each_protocol_costs_what_it_is_made_of() {
    // In virtual time: on threads, how often warps meet at a counter or a lock is up to the machine.
    let name: DeviceName = "soft:size=4m,profile=optane,time=virtual".parse().unwrap();
    let ssd = Ssd::open(&name, &OpenOptions::default()).unwrap();
    let costs = |protocol| {
        let reads = BenchOptions {
            rw: Access::RandRead,
            rwmixread: None,
            threads: None,
            ..options(protocol, 1, 8, 32)
        };
        run(&ssd, &reads).per_io
    };
    let at = |cost: Option<f64>| cost.unwrap();
    let (turns, marks, own) = (costs(Protocol::Turns), costs(Protocol::Marks), costs(Protocol::MarksOwn));
    let (lockstep, service) = (costs(Protocol::Lockstep), costs(Protocol::Service));
    assert!(at(turns.rmw_per_io) <= 2.5 && at(lockstep.rmw_per_io) < 0.01, "{turns:?} {lockstep:?}");
    assert!(at(marks.rmw_per_io) > 10.0 && at(service.rmw_per_io) > 7.0, "{marks:?} {service:?}");
    let saved = at(marks.rmw_per_io) - at(own.rmw_per_io);
    assert!((1.9..2.1).contains(&saved), "a counter and a lock for each identifier: {marks:?} {own:?}");
    assert!(at(lockstep.sq_doorbells_per_io) < 1.0 / 128.0, "one for each block: {lockstep:?}");
    assert!(at(service.cq_doorbells_per_io) < 0.05, "one for each window: {service:?}");
}

#[test]
fn a_lost_command_ends_the_run_with_an_error() {
    let plan = "[[fault]]\nkind = \"drop\"\nafter = 300\ncount = 1\n";
    for &protocol in Protocol::ALL {
        let faults = FaultPlan::from_toml(plan).unwrap();
        let ssd = open(config().faults(faults), &OpenOptions::default());
        let lossy = BenchOptions { timeout: Duration::from_millis(300), ..options(protocol, 1, 2, 32) };
        let begin = Instant::now();
        let run =
            run(&ssd, &BenchOptions { io_limit: None, runtime: Some(Duration::from_secs(600)), ..lossy });
        assert!(run.errors > 0 && run.recovery.clients.timed_out > 0, "{protocol}: {:?}", run.failures);
        assert!(begin.elapsed() < Duration::from_secs(300), "{protocol}: {:?}", begin.elapsed());
    }
}

// ---- in the simulation

const BLOCKS: u64 = 3;

/// The memory of a launch, and its arguments.
struct Lab {
    args: LabArgs,
    results: KernelMemory,
    /// What the arguments point to, beside.
    _memory: ([KernelMemory; 2], SharedMemory),
}

impl Lab {
    fn new(simulation: &Simulation, protocol: Protocol) -> Lab {
        let (rig, case) = (&simulation.rig, &simulation.rig.case);
        let target = rig.attachment.target();
        let (iodepth, warps) = (case.entries - 1, case.warps + servers(protocol, case));
        let queue_words =
            abi::LAB_LINES * abi::LAB_LINE_WORDS + abi::LAB_ARRAYS * abi::LAB_ENTRY_WORDS * case.entries;
        let state = target.memory(8 * (queue_words * case.queues) as usize).unwrap();
        let results = target.memory(warps as usize * size_of::<abi::WarpResult>()).unwrap();
        let tables = target.memory(8 * 256 * 4).unwrap();
        tables.write(0, crc_tables().as_bytes()).unwrap();
        let mailbox = target.shared(size_of::<Mailbox>()).unwrap();
        mailbox.window().write(0, Mailbox::new().as_bytes()).unwrap();
        let units = u64::from(iodepth * case.queues) * BLOCKS;
        let bench = abi::BenchArgs {
            ns: rig.attachment.namespace(),
            buffer: rig.buffer.as_ref(),
            mailbox: mailbox.address(),
            results: results.address(),
            crc_tables: tables.address(),
            units,
            seed: case.seed,
            io_limit: units,
            timeout_ns: case.timeout.as_nanos() as u64,
            blocks_per_io: 1,
            iodepth,
            verify: 1,
            ..abi::BenchArgs::new()
        };
        let args =
            LabArgs { bench, state: state.address(), queue_words, warps: case.warps, ..LabArgs::new() };
        Lab { args, results, _memory: ([state, tables], mailbox) }
    }

    /// I/Os, errors and wrong blocks of all warps.
    fn sums(&self) -> [u64; 3] {
        let mut each = vec![abi::WarpResult::new_zeroed(); self.results.len() / size_of::<abi::WarpResult>()];
        self.results.read(0, each.as_mut_bytes()).unwrap();
        let sum = |pick: fn(&abi::WarpResult) -> u64| each.iter().map(pick).sum();
        [sum(|warp| warp.reads + warp.writes), sum(|warp| warp.errors), sum(|warp| warp.mismatches)]
    }
}

fn servers(protocol: Protocol, case: &Case) -> u32 {
    if protocol == Protocol::Service { case.queues } else { 0 }
}

fn crc_tables() -> [[u32; 256]; 8] {
    let mut tables = [[0u32; 256]; 8];
    for byte in 0..256u32 {
        tables[0][byte as usize] = (0..8).fold(byte, |crc, _| (crc >> 1) ^ (0x82f6_3b78 * (crc & 1)));
    }
    for table in 1..8 {
        for byte in 0..256 {
            let crc = tables[table - 1][byte];
            tables[table][byte] = (crc >> 8) ^ tables[0][(crc & 255) as usize];
        }
    }
    tables
}

/// The monitor follows the library's queue: by its words it knows who may ring, and when an identifier and an entry are
/// free. Of other protocols it judges the values of doorbells and what they announce; the controller judges the rest.
fn is_judged(finding: &Finding) -> bool {
    let Finding::Breach(breach) = finding else { return true };
    matches!(breach, Breach::DoorbellValue { .. } | Breach::Unwritten { .. } | Breach::NoCommandId { .. })
}

/// Writes every unit, then reads units at random, each by a launch of its own. The error says what was found wrong.
fn simulate(case: &Case, protocol: Protocol, module: &Module) -> Result<(), String> {
    let mut simulation = Simulation::new(case).unwrap();
    for (read_percent, pattern) in [(0, abi::PATTERN_SEQUENTIAL), (100, abi::PATTERN_RANDOM)] {
        let mut lab = Lab::new(&simulation, protocol);
        (lab.args.bench.read_percent, lab.args.bench.pattern) = (read_percent, pattern);
        let block = if protocol == Protocol::Lockstep { case.warps_per_block } else { 1 };
        let launch = cpu_launch(module, &format!("lab_{protocol}").replace('-', "_"), &lab.args).unwrap();
        let launch = launch.grid((case.warps + servers(protocol, case)) / block).block(32 * block);
        let outcome = simulation.run_launch(launch, |_, _| true).unwrap();
        let own = !matches!(protocol, Protocol::Turns | Protocol::TurnsAlone);
        let mut findings: Vec<Finding> =
            outcome.findings.into_iter().filter(|found| !own || is_judged(found)).collect();
        findings.extend(simulation.rig.ssd.violations().into_iter().map(Finding::Violation));
        let what = format!("{protocol}, {read_percent} % reads, seed {}", case.seed);
        let sums = lab.sums();
        if !findings.is_empty() || sums != [lab.args.bench.io_limit, 0, 0] {
            let (found, history) = (lines(&findings), outcome.history);
            return Err(format!(
                "{what}: I/Os, errors, wrong blocks: {sums:?}; {found}\n{case:?}\n{history}"
            ));
        }
    }
    Ok(())
}

/// The case of a seed: weak memory of some depth, or none.
fn case_of(seed: u64, warps: u32, entries: u32) -> Case {
    let store_buffer = [0, 1, 4, 16][seed as usize % 4];
    let schedule = Schedule { random: true, store_buffer, preempt_one_in: [0, 2, 64][seed as usize % 3] };
    let start = [0, u64::from(entries) - 1, (1 << 32) - 2, 1 << 50][seed as usize / 4 % 4];
    let case = Case { seed, entries, schedule, start, ..Case::shared("laboratory", warps) };
    // As many blocks as written, and all the buffers; waits never end by their deadlines.
    let case = Case { commands: BLOCKS as u32, warps_per_block: warps.min(8), ..case };
    Case { shuffle: [0, 5][seed as usize % 2], sharing: Mode::Shared, ..case }
}

fn simulated(warps: u32, entries: u32, count: u64) {
    let module = Module::builtin().unwrap();
    for seed in seeds(count) {
        for &protocol in Protocol::ALL {
            simulate(&case_of(seed, warps, entries), protocol, &module)
                .unwrap_or_else(|found| panic!("{found}"));
        }
    }
}

#[test]
fn one_warp_under_random_schedules() {
    simulated(1, 32, 24);
    simulated(1, 4, 12);
}

#[test]
fn eight_warps_under_random_schedules() {
    simulated(8, 64, 8);
}

#[test]
fn sixty_four_warps_under_random_schedules() {
    simulated(64, 128, 1);
}

/// What is found wrong where a doorbell announces an entry that cannot be seen yet.
const UNWRITTEN: &[&str] = &["monitor: entry not written", "violation StaleEntry"];

/// Switch, protocol, and what is found wrong then.
const RULES: [(&str, Protocol, &[&str]); 1] = [("SERVICE_PUBLISHED_UNSEEN", Protocol::Service, UNWRITTEN)];

#[test]
fn an_entry_that_is_published_before_it_can_be_seen_is_noticed() {
    for (switch, protocol, says) in RULES {
        let module = Variant::ours().only("lab").quick().mutate(switch).loaded().unwrap();
        let found = seeds(40).filter(|seed| seed % 4 != 0).find_map(|seed| {
            let found = simulate(&case_of(seed, 8, 64), protocol, &module).err()?;
            says.iter().any(|says| found.contains(says)).then_some(found)
        });
        let found = found.unwrap_or_else(|| panic!("{switch} is not noticed"));
        println!("{switch}: {}", found.lines().next().unwrap_or_default());
    }
}
