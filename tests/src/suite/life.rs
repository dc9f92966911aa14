//! The life of queues and of the controller.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use warpbell::{AttachOptions, Ssd, Target};
use warpbell_driver::{IoQueue, IoQueueOptions, QueueSpec};
use warpbell_nvme::command;

use warpbell_hw::Lba;
use warpbell_sim::{Blocks, Case, Rig};

/// Longer than a reset takes on any machine.
const LIMIT: Duration = Duration::from_secs(60);

/// Creates all queues that the controller granted, uses each, deletes them in another order, and does it again.
pub fn all_queues(ssd: &Ssd) {
    let controller = ssd.controller();
    let nsid = ssd.namespaces()[0].nsid;
    let entries = controller.max_entries().min(64);
    for round in 0..2 {
        let granted = controller.granted_queues();
        let pairs = (0..granted).map(|index| {
            controller
                .create_queue_pair(QueueSpec::new(entries))
                .unwrap_or_else(|error| panic!("queue {index} of {granted}, round {round}: {error}"))
        });
        let mut queues: Vec<IoQueue> = pairs
            .collect::<Vec<_>>()
            .into_iter()
            .map(|pair| IoQueue::new(pair, IoQueueOptions::default()).expect("an idle pair"))
            .collect();
        let one_more = controller.create_queue_pair(QueueSpec::new(entries)).expect_err("all are taken");
        assert!(one_more.to_string().contains(&granted.to_string()), "names the limit: {one_more}");
        for queue in &mut queues {
            assert!(queue.execute(&command::flush(nsid.get())).expect("a flush").is_ok(), "{queue:?}");
        }
        if round == 0 {
            queues.reverse();
        }
        for queue in queues {
            controller.delete_queue_pair(queue.into_pair()).expect("deleted");
        }
    }
    println!("{}: {} queues, twice", ssd.name(), controller.granted_queues());
}

/// How a controller is reset while kernels have commands in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResetOrder {
    /// The kernels are told first, and have returned.
    AfterKernels,
    /// Under their feet: they ring doorbells of queues that are gone.
    UnderKernels,
}

/// Resets the controller with commands of kernels in flight: all of them return by their deadlines, and afterwards
/// everything works.
pub fn reset_under_load(ssd: &Arc<Ssd>, order: ResetOrder) {
    reset_under_load_on(Target::Cpu, ssd, order, 16_000);
}

/// The same on any target, with so many commands of each lane.
pub fn reset_under_load_on(target: Target, ssd: &Arc<Ssd>, order: ResetOrder, commands: u32) {
    // A host that is kept from its core may come too late: more commands wait for it then.
    let (answered, all) = [1, 4, 4]
        .into_iter()
        .map(|times| commands * times)
        .map(|commands| one_reset(target, ssd, order, commands))
        .find(|(answered, all)| answered < all)
        .expect("three times all commands were answered before the reset");
    assert!(answered > 0, "none of {all} before the reset");
    works(ssd);
    println!("{}: reset {order:?}, {answered} of {all} commands before", ssd.name());
}

/// How many commands of a run were answered before the reset, and how many there were.
fn one_reset(target: Target, ssd: &Arc<Ssd>, order: ResetOrder, commands: u32) -> (usize, usize) {
    let namespace = ssd.namespaces()[0].clone();
    let (nsid, block_size) = (namespace.nsid.get(), namespace.block_size);
    // Nothing may end by it before the reset, however slow the machine; what is lost does not wait for it.
    let timeout = LIMIT;
    let case = Case { entries: 64, async_depth: 4, commands, read_range: 1024, ..Case::new("reset") };
    // The reset alone takes the queue away: recovery would delete it while slow kernels are on their way back.
    let case = Case { target, nsid, block_size, timeout, recovery: false, ..case };
    let rig = Rig::new(&case, ssd.clone(), ssd.clone()).expect("a rig");
    let ended = thread::scope(|scope| {
        let running = scope.spawn(|| warpbell_sim::threaded::run_on(&rig));
        let begin = Instant::now();
        let waits = || !running.is_finished() && begin.elapsed() < LIMIT;
        while rig.record(0).expect("a record").answers == 0 && waits() {
            thread::sleep(Duration::from_millis(1));
        }
        if order == ResetOrder::UnderKernels {
            reset(ssd);
        }
        rig.attachment.declare_lost(0);
        let ended = running.join().expect("no panic").unwrap_or_else(|error| panic!("a run: {error:#}"));
        if order == ResetOrder::AfterKernels {
            reset(ssd);
        }
        ended
    });
    assert!(ended.findings.is_empty(), "the kernel came back: {:?}", ended.findings);
    let records = rig.records().expect("records");
    let answered = records.iter().filter(|record| record.answers == 1 && record.status == 0).count();
    assert!(records.iter().all(|record| record.answers <= 1));
    (answered, records.len())
}

fn reset(ssd: &Ssd) {
    let report = ssd.controller().reset().expect("resets");
    assert_eq!(report.lost_queues.len(), 1, "{report:?}");
}

/// A block is written and read back over a fresh queue.
pub fn works(ssd: &Ssd) {
    let namespace = ssd.namespaces()[0].clone();
    let written: Vec<u8> = (0..namespace.block_size).map(|at| (at % 251) as u8).collect();
    let mut read = vec![0; written.len()];
    ssd.store(namespace.nsid, Lba(7), &written).expect("writes");
    ssd.load(namespace.nsid, Lba(7), &mut read).expect("reads");
    assert!(read == written, "{}: what was written comes back", ssd.name());
    drop(ssd.attach(&AttachOptions::default()).expect("attaches"));
}
