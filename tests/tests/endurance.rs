//! Tier S, virtual time: very many commands over a controller that loses some, leaves some hanging, delays some and fails
//! some. The run ends well, its counts are those of the faults, and nothing is left behind: no identifier, no memory, no
//! thread, no descriptor.
//!
//! `WARPBELL_ENDURANCE_COMMANDS=10000000` makes it longer. Alone in its process: it looks at all of it.

use std::time::Duration;

use warpbell::{AttachOptions, OpenOptions, RecoveryPolicy, Ssd, Target};
use warpbell_softctl::{FaultKind, FaultPlan, InjectedFault};
use warpbell_workload::{Access, BenchOptions, ByteSize, Control, Run, Sharing, Trouble, bench, resolve};

const BLOCK: u64 = 512;
const RETRIES: u32 = 8;
const DEADLINE: Duration = Duration::from_millis(10);
/// Memory that a long run may take more than a short one did: what allocators keep.
const SLACK_KIB: u64 = 16 << 10;

/// Commands of all runs together.
fn commands() -> u64 {
    let given = std::env::var("WARPBELL_ENDURANCE_COMMANDS").ok();
    given.map_or(1_000_000, |text| text.parse().expect("WARPBELL_ENDURANCE_COMMANDS: a whole number"))
}

/// Faults that leave every queue as it is: an Abort ends what hangs. One command in 3,300 has one.
const HANGS: &str = r#"
    [[fault]]
    kind = "hang"
    probability = 0.0001
    [[fault]]
    kind = "delay"
    by = "2ms"
    probability = 0.0001
    [[fault]]
    kind = "fail"
    status = "Namespace Not Ready"
    crd = 1
    probability = 0.0001
"#;

/// Besides, faults that cost a queue: no Abort ends what was dropped.
const DROPS: &str = r#"
    [[fault]]
    kind = "drop"
    probability = 0.0001
    [[fault]]
    kind = "delay"
    by = "15ms"
    probability = 0.0001
"#;

fn open(plan: &str) -> Ssd {
    let faults = FaultPlan::from_toml(plan).expect("a plan").seed(7);
    // Short, so that many queues are replaced.
    let recovery = RecoveryPolicy::new().settle(Duration::from_millis(20));
    let options = OpenOptions::new().faults(Some(faults)).recovery(recovery);
    let name = "soft:size=1m,profile=optane,time=virtual,queues=8,crdt=100ms".parse().expect("a name");
    Ssd::open(&name, &options).expect("opens")
}

/// So many commands of one block each.
fn run(ssd: &Ssd, sharing: Sharing, commands: u64) -> Run {
    let options = BenchOptions {
        rw: Access::RandRw,
        bs: ByteSize(BLOCK),
        iodepth: 64,
        queues: 2,
        warps: Some(if sharing == Sharing::Shared { 6 } else { 2 }),
        sharing,
        io_limit: Some(ByteSize(commands * BLOCK)),
        timeout: DEADLINE,
        retries: RETRIES,
        ..BenchOptions::default()
    };
    let job = resolve(ssd, &options).expect("a job");
    bench(ssd, Target::Cpu, &job, &Control::new()).expect("a run")
}

/// What a process holds, and an SSD of its memory.
#[derive(Debug, PartialEq, Eq)]
struct Held {
    threads: usize,
    descriptors: usize,
    mapped_bytes: u64,
}

impl Held {
    fn now(ssd: &Ssd) -> Held {
        let count = |folder: &str| std::fs::read_dir(folder).expect("proc").count();
        Held {
            threads: count("/proc/self/task"),
            descriptors: count("/proc/self/fd"),
            mapped_bytes: ssd.soft().expect("soft").client_memory().mapped_bytes(),
        }
    }
}

/// Memory of this process that is resident, in KiB.
fn resident_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("proc");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches(" kB").parse().expect("a number")
}

/// Faults of that kind so far, those that only delay a command if it is for longer than that.
fn injected(ssd: &Ssd, kind: FaultKind, beyond: Duration) -> u64 {
    let faults = ssd.soft().expect("soft").faults();
    let counts = |fault: &&InjectedFault| fault.kind == kind && fault.by.is_none_or(|by| by > beyond);
    faults.iter().filter(counts).count() as u64
}

/// Commands that were dropped, that hang, that were delayed beyond their deadline, and that failed.
fn faults(ssd: &Ssd) -> [u64; 4] {
    [
        injected(ssd, FaultKind::Drop, Duration::ZERO),
        injected(ssd, FaultKind::Hang, Duration::ZERO),
        injected(ssd, FaultKind::Delay, DEADLINE),
        injected(ssd, FaultKind::Fail, Duration::ZERO),
    ]
}

/// The counts of `run` are those of the faults that were injected in it.
fn expect_counts(run: &Run, commands: u64, [drops, hangs, late, fails]: [u64; 4]) {
    let report = &run.recovery;
    let Trouble { timed_out, aborted, not_submitted, retried, .. } = report.clients;
    let text = format!("{report:?}, drops {drops}, hangs {hangs}, late {late}, fails {fails}");
    // Every I/O ended well, and whatever was submitted besides was a retry. One that finds its queue lost leaves no entry.
    assert_eq!((run.errors, run.total.ios, run.violations, not_submitted), (0, commands, 0, 0), "{text}");
    let submitted = run.counters.expect("counted").sqes;
    assert!((commands..=commands + retried).contains(&submitted), "{text}, submitted {submitted}");
    assert_eq!((report.resets, report.queues_dead, report.ssds_lost), (0, 0, 0), "{text}");
    // A queue is given up for a command that no Abort ends, and replaced.
    assert!(report.queues_lost <= drops + late, "{text}");
    assert_eq!(report.queues_replaced, report.queues_lost, "{text}");
    // What was submitted again had failed, timed out, been aborted, or gone with its queue.
    let gone = retried.checked_sub(timed_out + aborted + fails).unwrap_or_else(|| panic!("{text}"));
    let in_flight = report.queues_lost * u64::from(run.job.iodepth);
    assert!(gone <= in_flight, "{text}");
    // Every command that got no completion in time was noticed; and no other timed out, but on a queue that was lost.
    let stuck = drops + hangs + late;
    assert!(stuck <= timed_out + aborted + gone && timed_out <= stuck + in_flight, "{text}");
    assert!(report.aborts_sent <= timed_out, "{text}");
    if report.queues_lost == 0 {
        let exact =
            [timed_out, report.aborts_sent, report.aborts_acknowledged, report.clients.late_completions];
        assert_eq!((exact, aborted, gone), ([hangs; 4], 0, 0), "{text}");
        assert_eq!(submitted, commands + retried, "{text}");
    }
}

#[test]
fn counts_are_those_of_the_faults_and_nothing_is_left_behind() {
    let commands = commands() / 4;
    for plan in [HANGS.to_owned(), format!("{HANGS}{DROPS}")] {
        for sharing in [Sharing::Exclusive, Sharing::Shared] {
            let ssd = open(&plan);
            run(&ssd, sharing, 20_000);
            let (held, resident, before) = (Held::now(&ssd), resident_kib(), faults(&ssd));
            let run = run(&ssd, sharing, commands);
            let after = faults(&ssd);
            let faults = std::array::from_fn(|at| after[at] - before[at]);
            println!("{sharing}: {} I/Os, faults {faults:?}: {:?}", run.total.ios, run.recovery);
            expect_counts(&run, commands, faults);
            assert_eq!(run.recovery.queues_lost > 0, faults[0] > 0, "{faults:?}");

            assert_eq!(Held::now(&ssd), held, "{sharing}");
            let more = resident_kib().saturating_sub(resident);
            assert!(more < SLACK_KIB, "{sharing}: {more} KiB more are resident");
            // Each queue identifier can be used again.
            let queues = u32::from(ssd.granted_queues());
            let all = AttachOptions::new().queues(queues).warps(queues);
            ssd.attach(&all).expect("all queues are free");
        }
    }
}
