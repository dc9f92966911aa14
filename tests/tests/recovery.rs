//! Tier S: the host's half of recovery, with kernels running, in real time. Every waiter returns, I/O goes on in the same
//! launch, and nothing grows however often it happens.

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use warpbell::{
    AttachOptions, Attachment, DeviceName, KernelMemory, Launch, Module, OpenOptions, RecoveryCounters,
    RecoveryPolicy, Running, Sharing, Ssd, SsdEvent, SsdEventKind,
};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::{Idle, Threads};
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::{TestLaunch, TestVariant};
use warpbell_softctl::FaultPlan;
use zerocopy::IntoBytes;

/// Longer than anything takes, on any machine.
const LIMIT: Duration = Duration::from_secs(120);
/// Of a wait in a kernel. Recovery has begun by then, and is not over.
const DEADLINE: Duration = Duration::from_secs(1);
/// Until a successor comes.
const PATIENCE: Duration = Duration::from_secs(60);
/// Command Aborted due to SQ Deletion: how a controller may complete what it still has when a queue is deleted.
const SQ_DELETION: u32 = 0x08;
/// As many commands as a warp has lanes are dropped at once, long before the first of them is given up: no drop is left
/// to hit the next queue of that identifier. The others take a while, so that the kernel still runs when the queue is lost.
const VANISH: &str = "kind = \"drop\"\nafter = 64\nqueue = 1\ncount = 32\n\
                      [[fault]]\nkind = \"delay\"\nby = \"100ms\"\nafter = 64\nqueue = 1";
const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

fn policy() -> RecoveryPolicy {
    RecoveryPolicy::new()
        .health_period(Duration::from_millis(10))
        .settle(Duration::from_millis(100))
        .replace(Duration::from_secs(60))
}

fn open_with(faults: &str, recovery: RecoveryPolicy) -> Ssd {
    let faults = FaultPlan::from_toml(faults).expect("a plan");
    let options = OpenOptions::new().faults(Some(faults)).recovery(recovery);
    Ssd::open(&"soft:size=1m".parse::<DeviceName>().expect("a name"), &options).expect("opens")
}

fn open(faults: &str) -> Ssd {
    open_with(faults, policy())
}

/// Two warps: on a queue each, or on one.
fn options(sharing: Sharing) -> AttachOptions {
    let queues = if sharing == Sharing::Exclusive { 2 } else { 1 };
    let tokens = Some(16);
    AttachOptions::new().queues(queues).warps(2).sharing(sharing).commands_per_lane(tokens).timeout(DEADLINE)
}

/// Two warps that flush, and that switch_to_successor when their queue is lost.
struct Work {
    attachment: Attachment,
    records: KernelMemory,
    commands: u32,
}

impl Work {
    fn new(ssd: &Ssd, options: &AttachOptions, commands: u32) -> Work {
        let attachment = ssd.attach(options).expect("attaches");
        let bytes = (options.warps * 32 * commands) as usize * size_of::<abi::TestRecord>();
        let records = attachment.target().memory(bytes).expect("memory");
        Work { attachment, records, commands }
    }

    fn launch(&self) -> Launch {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("kernels/recovery.cu");
        let module =
            Module::from(Variant::file(&source).expect("the kernel").quick().loaded().expect("compiles"));
        let args = abi::QueueTestArgs {
            ns: self.attachment.namespace(),
            records: self.records.address(),
            timeout_ns: DEADLINE.as_nanos() as u64,
            submit_timeout_ns: PATIENCE.as_nanos() as u64,
            commands: self.commands,
            ..abi::QueueTestArgs::new()
        };
        let launch = self.attachment.launch_bytes(&module, "recovery_test", &args).expect("a launch");
        let threads = Threads::new().workers(2).idle(Idle::YieldAfter(8));
        launch.grid(2).threads(threads).keep(self.records.clone())
    }

    fn start(&self) -> Running {
        self.launch().start().expect("starts")
    }

    fn records(&self) -> Vec<abi::TestRecord> {
        let mut records = vec![abi::TestRecord::new(); (64 * self.commands) as usize];
        self.records.read(0, records.as_mut_slice().as_mut_bytes()).expect("records");
        records
    }

    /// The last answer of each lane.
    fn last(&self) -> Vec<abi::TestRecord> {
        let records = self.records();
        records.chunks(self.commands as usize).map(|lane| lane[lane.len() - 1]).collect()
    }
}

fn library(code: u32) -> u32 {
    abi::STATUS_LIBRARY | code
}

fn count(records: &[abi::TestRecord], status: u32) -> usize {
    records.iter().filter(|record| record.answers == 1 && record.status == status).count()
}

fn join(running: Running) {
    let begin = Instant::now();
    while !running.is_finished().expect("runs") {
        assert!(begin.elapsed() < LIMIT, "a kernel hangs");
        thread::sleep(Duration::from_millis(1));
    }
    running.join().expect("ends well");
}

/// Looks until it is so.
fn until(ssd: &Ssd, what: &str, done: impl Fn(RecoveryCounters) -> bool) -> RecoveryCounters {
    let begin = Instant::now();
    loop {
        let counters = ssd.recovery_counters();
        if done(counters) {
            return counters;
        }
        assert!(begin.elapsed() < LIMIT, "{what}: {counters:?}\n{}", story(ssd));
        thread::sleep(Duration::from_millis(1));
    }
}

fn story(ssd: &Ssd) -> String {
    let events: Vec<SsdEvent> = ssd.events().try_iter().collect();
    events.iter().map(|event| format!("{:?} {event}\n", event.at)).collect()
}

/// All commands had one answer, the last ones a good one, and the queue was replaced under the kernel.
fn expect_gone_on(work: &Work, story: &str) {
    let records = work.records();
    assert!(records.iter().all(|record| record.answers == 1), "{story}");
    let known = count(&records, 0)
        + count(&records, library(abi::STATUS_TIMED_OUT))
        + count(&records, library(abi::STATUS_QUEUE_GONE))
        + count(&records, library(abi::STATUS_NOT_SUBMITTED))
        + count(&records, SQ_DELETION);
    let others: BTreeSet<u32> = records.iter().map(|record| record.status).collect();
    assert_eq!(known, records.len(), "{others:x?}\n{story}");
    let last = work.last();
    assert!(last.iter().all(|record| record.status == 0), "{:x?}\n{story}", last[0]);
    assert!(last.iter().any(|record| record.found > 0), "some lane is on a later queue\n{story}");
}

/// Something happens to I/O commands of one queue, once; I/O goes on in the same launch.
fn goes_on_after(fault: &str, check: impl Fn(&RecoveryCounters, &str)) {
    for sharing in MODES {
        let ssd = open(&format!("[[fault]]\n{fault}\n"));
        let work = Work::new(&ssd, &options(sharing), 40);
        join(work.start());
        let (counters, story) = (ssd.recovery_counters(), story(&ssd));
        expect_gone_on(&work, &story);
        check(&counters, &story);
        assert_eq!(counters.queues_dead + counters.ssds_lost + counters.resets_failed, 0, "{story}");
        assert_eq!(counters.queues_replaced, counters.queues_lost, "{story}");
        // The same queues serve the next kernel.
        work.records.fill(0, work.records.len(), 0).expect("cleared");
        join(work.start());
        assert!(work.records().iter().all(|record| record.answers == 1 && record.status == 0), "{story}");
        println!("{fault:?} {sharing:?}: {counters:?}");
    }
}

#[test]
fn a_queue_whose_commands_vanish_is_replaced_under_its_kernel() {
    goes_on_after(VANISH, |counters, story| {
        assert!(counters.timed_out > 0 && counters.alarms > 0, "{story}");
        assert_eq!(counters.aborts, counters.aborts_not_found, "{story}");
        assert_eq!((counters.queues_lost, counters.resets), (1, 0), "{story}");
    });
}

#[test]
fn a_queue_whose_doorbells_are_stuck_is_replaced_under_its_kernel() {
    goes_on_after(
        "kind = \"stuck_doorbell\"\nby = \"forever\"\nafter = 64\nqueue = 1\ncount = 1",
        |counters, story| {
            assert_eq!((counters.queues_lost, counters.resets), (1, 0), "{story}");
        },
    );
}

#[test]
fn a_controller_in_fatal_error_is_reset_under_its_kernel() {
    goes_on_after("kind = \"fatal\"\nafter = 64\ncount = 1", |counters, story| {
        assert_eq!(counters.resets, 1, "{story}");
    });
}

#[test]
fn a_controller_that_resets_itself_is_set_up_again_under_its_kernel() {
    goes_on_after("kind = \"reset\"\nafter = 64\ncount = 1", |counters, story| {
        assert_eq!(counters.resets, 1, "{story}");
    });
}

#[test]
fn a_queue_that_cannot_be_deleted_costs_a_reset() {
    let undeleted = "[[fault]]\nkind = \"drop\"\nadmin = \"delete_i/o_submission_queue\"\ncount = 1\n";
    let faults = format!("[[fault]]\n{VANISH}\n{undeleted}");
    let ssd = open_with(&faults, policy().delete(Duration::from_millis(100)));
    let work = Work::new(&ssd, &options(Sharing::Shared), 40);
    join(work.start());
    let (counters, story) = (ssd.recovery_counters(), story(&ssd));
    expect_gone_on(&work, &story);
    assert_eq!((counters.resets, counters.queues_lost, counters.queues_replaced), (1, 1, 1), "{story}");
}

#[test]
fn of_a_controller_that_is_gone_every_waiter_is_told() {
    for sharing in MODES {
        let ssd = open("[[fault]]\nkind = \"remove\"\nafter = 200\ncount = 1\n");
        let events = ssd.events();
        let work = Work::new(&ssd, &options(sharing), 400);
        join(work.start());
        let records = work.records();
        let told = |record: &&abi::TestRecord| record.payload == (1 << 31 | library(abi::STATUS_SSD_LOST));
        assert_eq!(records.iter().filter(told).count(), 64, "each lane, once");
        let counters = until(&ssd, "given up", |counters| counters.ssds_lost == 1);
        assert_eq!(counters.queues_dead, u64::from(options(sharing).queues));
        let lost = |event: &SsdEvent| matches!(&event.kind, SsdEventKind::Recovery(event) if event.to_string().contains("the SSD is given up"));
        assert!(events.try_iter().any(|event| lost(&event)));
        assert!(ssd.attach(&options(sharing)).is_err());
    }
}

#[test]
fn a_reset_hits_all_attachments_of_an_ssd_and_of_no_other() {
    let faults = "[[fault]]\nkind = \"fatal\"\nafter = 300\ncount = 1\n";
    let (ssd, other) = (open(faults), open(""));
    let works = [
        Work::new(&ssd, &options(Sharing::Shared), 60),
        Work::new(&ssd, &options(Sharing::Exclusive), 60),
        Work::new(&ssd, &options(Sharing::Shared), 60),
    ];
    let bystander = Work::new(&other, &options(Sharing::Shared), 60);
    let running: Vec<Running> = works.iter().chain([&bystander]).map(Work::start).collect();
    running.into_iter().for_each(join);
    let counters = ssd.recovery_counters();
    let story = story(&ssd);
    for work in &works {
        assert!(work.last().iter().all(|record| record.status == 0), "{story}");
    }
    assert_eq!((counters.resets, counters.queues_lost, counters.queues_replaced), (1, 4, 4), "{story}");
    assert_eq!(other.recovery_counters(), RecoveryCounters::default());
    assert!(bystander.records().iter().all(|record| record.status == 0));
}

#[test]
fn resets_have_a_budget() {
    let recovery = policy().resets(1);
    let ssd = open_with("[[fault]]\nkind = \"fatal\"\nafter = 64\nevery = 64\n", recovery);
    let work = Work::new(&ssd, &options(Sharing::Shared), 40);
    join(work.start());
    let counters = until(&ssd, "given up", |counters| counters.ssds_lost == 1);
    assert_eq!(counters.resets, 1);
    assert!(story(&ssd).contains("it was reset 1 times within"));
}

/// Mappings and descriptors of this process.
fn resources() -> (usize, usize) {
    let maps = std::fs::read_to_string("/proc/self/maps").expect("maps").lines().count();
    (maps, std::fs::read_dir("/proc/self/fd").expect("descriptors").count())
}

#[test]
fn a_thousand_recoveries_leave_nothing_behind() {
    let ssd = Arc::new(open(""));
    let attachment = ssd.attach(&options(Sharing::Shared)).expect("attaches");
    let recover = |rounds: u64| {
        let mut ids = BTreeSet::new();
        for _ in 0..rounds {
            let before = ssd.recovery_counters().queues_replaced;
            attachment.declare_lost(0);
            while ssd.recovery_counters().queues_replaced == before {
                ssd.recovery().poll();
            }
            ids.extend(attachment.pairs().iter().map(|pair| pair.qid().get()));
        }
        ids
    };
    recover(10);
    let before = resources();
    let ids = recover(1000);
    let after = resources();
    assert!(ids.len() <= 3, "{ids:?}");
    // Other tests of this program map and unmap meanwhile.
    println!("maps and descriptors: {before:?} before, {after:?} after 1000 recoveries; ids {ids:?}");
    assert!(after.0 < before.0 + 500 && after.1 < before.1 + 100, "{before:?} {after:?}");
    assert_eq!(ssd.recovery_counters().queues_dead, 0);
}

#[test]
fn one_kernel_survives_many_losses_of_its_queue() {
    for sharing in MODES {
        let ssd = open("");
        // Losses come faster than lanes move: each of the two warps may wait on a slot of its own, starting kernels find
        // a third one, and there is always a fourth.
        let work = Work::new(&ssd, &options(sharing).replacement_queues(3), 20_000);
        let running = work.start();
        let (mut losses, mut ids) = (0, BTreeSet::new());
        while !running.is_finished().expect("runs") && losses < 200 {
            let before = ssd.recovery_counters().queues_replaced;
            work.attachment.declare_lost(0);
            until(&ssd, "replaced", |counters| {
                counters.queues_replaced > before || running.is_finished().expect("runs")
            });
            ids.extend(work.attachment.pairs().iter().map(|pair| pair.qid().get()));
            losses += 1;
        }
        join(running);
        let (counters, story) = (ssd.recovery_counters(), story(&ssd));
        let records = work.records();
        assert!(records.iter().all(|record| record.answers == 1), "{story}");
        assert!(work.last().iter().all(|record| record.status == 0), "{story}");
        assert_eq!(counters.queues_dead, 0, "{story}");
        assert!(losses > 3, "{losses}");
        assert!(ids.len() <= 8, "{ids:?}");
        println!("{sharing:?}: {losses} losses under one kernel, ids {ids:?}, {counters:?}");
    }
}

#[test]
fn without_recovery_nobody_helps() {
    let ssd =
        open("[[fault]]\nkind = \"stuck_doorbell\"\nby = \"forever\"\nafter = 64\nqueue = 1\ncount = 1\n");
    let work = Work::new(&ssd, &options(Sharing::Shared).recovery(false), 4);
    join(work.start());
    assert!(count(&work.records(), library(abi::STATUS_TIMED_OUT)) > 0);
    assert_eq!(ssd.recovery_counters().queues_lost, 0);
}

#[test]
fn the_thread_ends_with_the_ssd() {
    let threads = || {
        let tasks = std::fs::read_dir("/proc/self/task").expect("tasks");
        let name =
            |task: std::fs::DirEntry| std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
        tasks.flatten().map(name).filter(|name| name.trim() == "recovery").count()
    };
    let attach = || {
        let ssd = open("");
        let attachment = ssd.attach(&options(Sharing::Shared)).expect("attaches");
        (ssd, attachment)
    };
    let (ssd, attachment) = attach();
    // A thread takes its name when it first runs.
    let begin = Instant::now();
    while threads() == 0 {
        assert!(begin.elapsed() < LIMIT, "no thread recovers");
        std::thread::yield_now();
    }
    drop(ssd);
    attachment.declare_lost(0);
    drop(attachment);
    let (begin, before) = (Instant::now(), threads());
    for _ in 0..50 {
        drop(attach());
    }
    assert!(begin.elapsed() < LIMIT, "each ends at once");
    // Other tests of this program have some of their own.
    let after = threads();
    assert!(after < before + 40, "{before} threads before, {after} after 50 more SSDs");
}
