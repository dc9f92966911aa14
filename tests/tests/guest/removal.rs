//! An SSD disappears without a word while kernels and the host wait for it: somebody pulled it out of its slot. QEMU's
//! registers read 0 then.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fs, process};

use rustix::process::{Pid, Signal, kill_process};
use warpbell::{AttachOptions, Bdf, OpenOptions, RecoveryEvent, RecoveryPolicy, SsdEventKind};
use warpbell_driver::{IoQueue, IoQueueOptions, QueueSpec};
use warpbell_nvme::command;
use warpbell_sim::threaded::run_on;
use warpbell_sim::{Case, Rig};
use warpbell_tests::suite;
use warpbell_workload::{Api, BenchOptions, Sharing};

use crate::child::Process;
use crate::fixture;
use crate::holdings::{Holdings, pinned_pages};
use crate::load::{Diary, Load, await_commands, checked};

const DEADLINE: Duration = Duration::from_millis(500);
/// Of everything together, on a machine with other things to do.
const LIMIT: Duration = Duration::from_secs(60);

/// Offset of a capability in configuration space.
fn capability(config: &fs::File, id: u8) -> u64 {
    let byte = |at: u64| {
        let mut byte = [0];
        config.read_exact_at(&mut byte, at).expect("configuration space");
        byte[0]
    };
    let mut at = u64::from(byte(0x34));
    while byte(at) != id {
        at = u64::from(byte(at + 1));
        assert_ne!(at, 0, "capability {id:#x}");
    }
    at
}

/// Slot Control: power and power indicator off, with which QEMU takes the SSD out.
const OFF: u16 = 0x700;
/// Slot Control: Hot-Plug Interrupt Enable.
const INTERRUPTS: u16 = 0x20;

/// The process that uses the SSD, and the root port above it, for `child_pulls`.
const TARGET: &str = "WARPBELL_GUEST_PULL";
/// Longer than what is in flight takes to complete.
const QUIET: Duration = Duration::from_millis(100);

/// Pulls an SSD out of its slot, in a process of its own: process `user`, which is stopped meanwhile, may be this one.
fn pull(user: u32, port: &Path) {
    let target = format!("{user} {}", port.display());
    Process::start_with("removal::child_pulls", TARGET, &target).join();
}

/// QEMU's controller (7.2) is freed while doorbells are written and commands are in flight, which every second time
/// ended QEMU with SIGSEGV. So who uses the SSD is stopped while it goes, and finds it gone.
#[test]
#[ignore = "run by pull"]
fn child_pulls() {
    let target = env::var(TARGET).expect("a process and a port");
    let (user, port) = target.split_once(' ').expect("two words");
    let user = user.parse().ok().and_then(Pid::from_raw).expect("a process");
    kill_process(user, Signal::STOP).expect("stopped");
    thread::sleep(QUIET);
    switch_off(Path::new(port));
    kill_process(user, Signal::CONT).expect("goes on");
}

/// Takes the power from a slot, with which its SSD goes. The kernel's hotplug driver hears of it only when the power is
/// on again, as if nobody had announced anything: a slot whose power is off is none of its business.
fn switch_off(port: &Path) {
    let config =
        fs::OpenOptions::new().read(true).write(true).open(port.join("config")).expect("the root port");
    let slot_control = capability(&config, 0x10) + 0x18;
    let mut word = [0; 2];
    config.read_exact_at(&mut word, slot_control).expect("Slot Control");
    let on = u16::from_le_bytes(word);
    for word in [(on | OFF) & !INTERRUPTS, on] {
        config.write_all_at(&word.to_le_bytes(), slot_control).expect("Slot Control");
    }
}

/// The host knows that nothing will work on it any more: it found out by itself, or the system, which noticed the
/// removal, asked for the function.
fn is_end(kind: &SsdEventKind) -> bool {
    matches!(kind, SsdEventKind::Released | SsdEventKind::Recovery(RecoveryEvent::SsdLost { .. }))
}

#[test]
#[ignore = "run by every_wait_ends_when_the_ssd_is_gone"]
fn child_works_until_the_end() {
    let ssd = fixture::plain(0);
    let diary = Diary::of(&ssd);
    let case =
        Case { entries: 64, async_depth: 4, commands: 16_000, read_range: 1024, ..Case::new("removal") };
    let rig = Rig::new(&Case { timeout: DEADLINE, ..case }, ssd.clone(), ssd.clone()).expect("a rig");
    let pair = ssd.controller().create_queue_pair(QueueSpec::new(64)).expect("a pair");
    let mut queue = IoQueue::new(pair, IoQueueOptions::new().timeout(DEADLINE)).expect("a queue");
    thread::scope(|scope| {
        let kernels = scope.spawn(|| run_on(&rig));
        let host = scope.spawn(move || {
            // One at a time until one does not come back.
            let mut done = 0u64;
            while queue.execute(&command::flush(1)).is_ok() {
                done += 1;
            }
            (queue, done)
        });
        while rig.record(0).expect("a record").answers == 0 {
            thread::sleep(Duration::from_millis(1));
        }
        println!("working");
        let (_queue, flushes) = host.join().expect("no panic");
        println!("host: returned after {flushes} flushes");
        let begin = Instant::now();
        diary.wait_for("the end", is_end);
        diary.print("it");
        println!("end: {}", ssd.controller().state());
        let admin = ssd.controller().smart_log();
        println!("admin: {}", admin.expect_err("nobody answers"));
        println!("admin took: {}", begin.elapsed().as_millis());
        let ended = kernels.join().expect("no panic").expect("a run");
        assert!(ended.findings.is_empty(), "{:?}", ended.findings);
        let records = rig.records().expect("records");
        let timed_out = records.iter().filter(|record| record.answers == 1 && record.status != 0).count();
        println!("kernels: returned, {timed_out} commands failed");
    });
}

/// The root port of SSD `number`.
fn port_of(number: usize) -> PathBuf {
    let parent = format!("/sys/bus/pci/devices/{}/..", fixture::ssds()[number]);
    PathBuf::from(parent).canonicalize().expect("a port")
}

fn await_gone(bdf: Bdf) {
    let begin = Instant::now();
    while fixture::ssds().contains(&bdf) {
        assert!(begin.elapsed() < LIMIT, "{bdf} is still there");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_wait_ends_when_the_ssd_is_gone() {
    if !fixture::is("removal") {
        return;
    }
    let (port, bdf) = (port_of(0), fixture::bind(0));
    let before = Holdings::now();
    let child = Process::start("removal::child_works_until_the_end");
    child.await_line("working");
    let begin = Instant::now();
    pull(child.id(), &port);
    child.await_line("host: returned");
    child.await_line("end:");
    child.await_line("admin:");
    let failed = child.await_line("kernels: returned,");
    assert_ne!(failed, "0 commands failed");
    assert!(begin.elapsed() < LIMIT, "all of it took {:?}", begin.elapsed());
    child.join();
    await_gone(bdf);
    println!(
        "the process ended, and the kernel let the function go, {:?} after the removal",
        begin.elapsed()
    );
    let now = Holdings::now();
    assert_eq!((now.pinned, &now.open), (before.pinned, &before.open));
    suite::works(&fixture::plain(0));
}

/// Pulls an SSD out while it and another one are at work, by kernels or by the host. When it is dropped, nothing stays
/// pinned for it, though nobody deleted its queues.
fn lose_one(api: Api, sharing: Sharing) {
    let (port, bdf) = (port_of(0), fixture::bind(0));
    let options = || OpenOptions::new().recovery(RecoveryPolicy::new().reset(Duration::from_secs(2)));
    let other = fixture::open(1, &options());
    let pinned = pinned_pages();
    let lost = fixture::open(0, &options());
    let diary = Diary::of(&lost);
    let other_load = Load::start(&other, &checked(Api::Io, Sharing::Shared, Duration::from_secs(600)));
    let short = BenchOptions { timeout: DEADLINE, ..checked(api, sharing, Duration::from_secs(600)) };
    let load = Load::start(&lost, &short);
    await_commands(&lost);
    pull(process::id(), &port);
    let begin = Instant::now();
    diary.wait_for("the end", is_end);
    let told = load.ended().map_or_else(|error| error.to_string(), |run| format!("{:?}", run.failures));
    println!("{bdf}: {told}, {:?} after the removal", begin.elapsed());
    diary.print(&lost.name().to_string());
    assert!(lost.attach(&AttachOptions::default()).is_err(), "nothing works on it any more");
    drop(lost);
    await_gone(bdf);
    println!("{bdf}: the kernel let the function go {:?} after the removal", begin.elapsed());
    other_load.stop();
    let run = other_load.ended().expect("the other one goes on");
    assert!(run.errors == 0 && run.recovery.is_quiet(), "{:?} {:?}", run.failures, run.recovery);
    suite::works(&other);
    let left = pinned_pages();
    println!("{bdf}: {pinned} pages were pinned before it was opened, {left} are now that it is gone");
    assert_eq!(left, pinned, "pages of the lost one stay pinned");
}

#[test]
fn the_process_goes_on_with_its_other_ssds() {
    if !fixture::is("removal") {
        return;
    }
    lose_one(Api::Io, Sharing::Shared);
    lose_one(Api::Host, Sharing::Exclusive);
}
