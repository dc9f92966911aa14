//! An SSD is unplugged in good order while it is in use, and comes back.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use serde_json::json;
use warpbell::{OnRelease, OpenOptions, RecoveryPolicy, Ssd, SsdEventKind};
use warpbell_sim::Blocks;
use warpbell_tests::suite;
use warpbell_workload::{Api, Sharing};

use crate::fixture;
use crate::holdings::pinned_pages;
use crate::load::{Diary, Load, await_commands, checked};
use crate::monitor::Monitor;
use warpbell_hw::{Lba, Nsid};

/// Longer than QEMU and the guest's kernel take to plug and unplug.
const LIMIT: Duration = Duration::from_secs(60);

fn await_ssds(count: usize) {
    let begin = Instant::now();
    while fixture::ssds().len() != count {
        assert!(begin.elapsed() < LIMIT, "{count} SSDs are not there: {:?}", fixture::ssds());
        thread::sleep(Duration::from_millis(20));
    }
}

fn plug_in(monitor: &mut Monitor) {
    let back = json!({ "driver": "nvme", "id": "nvme0", "serial": "WARP0", "drive": "kept", "bus": "rp0" });
    monitor.execute("device_add", &back);
    await_ssds(2);
}

/// Waits for the system to have the function back.
fn await_gone(monitor: &mut Monitor) {
    monitor.await_event("DEVICE_DELETED", "nvme0");
    await_ssds(1);
}

/// What was written to the SSD before it was unplugged is still there; and something new is written.
fn remembers(ssd: &Ssd, round: u8) {
    let (mut found, mark) = (vec![0; 4096], vec![0x40 + round; 4096]);
    if round > 0 {
        ssd.load(Nsid(1), Lba(100_000), &mut found).expect("reads");
        assert!(found.iter().all(|byte| *byte == 0x40 + round - 1), "what was written is still there");
    }
    ssd.store(Nsid(1), Lba(100_000), &mark).expect("writes");
}

/// The host's own commands until it is told that the SSD is asked for: how many there were. They are the host's to stop.
fn host_at_work(ssd: &Ssd, diary: &Diary) -> u64 {
    let (begin, mut block, mut done) = (Instant::now(), vec![0; 512], 0);
    while diary.count(|kind| matches!(kind, SsdEventKind::ReleaseRequested)) == 0 {
        ssd.load(Nsid(1), Lba(7), &mut block).expect("reads, as long as nobody has asked");
        done += 1;
        assert!(begin.elapsed() < LIMIT, "nobody told the host");
    }
    done
}

#[test]
fn kernels_and_host_stop_when_the_ssd_is_asked_for_and_go_on_when_it_is_back() {
    if !fixture::is("plug") {
        return;
    }
    let mut monitor = Monitor::open();
    let other = fixture::plain(1);
    let other_load = Load::start(&other, &checked(Api::Io, Sharing::Shared, 10 * LIMIT));
    let mut pinned = Vec::new();
    for (round, api) in [Api::Io, Api::Raw, Api::Host].into_iter().enumerate() {
        let ssd = fixture::plain(0);
        let diary = Diary::of(&ssd);
        remembers(&ssd, round as u8);
        let load = Load::start(&ssd, &checked(api, Sharing::Exclusive, 10 * LIMIT));
        let host = thread::spawn({
            let (ssd, diary) = (ssd.clone(), diary.clone());
            move || host_at_work(&ssd, &diary)
        });
        await_commands(&ssd);
        monitor.execute("device_del", &json!({ "id": "nvme0" }));
        let begin = Instant::now();
        diary.wait_for("the release", |kind| matches!(kind, SsdEventKind::Released));
        if api == Api::Host {
            // Queues of the host are the host's to stop.
            load.stop();
        }
        let ended = load.ended().map_or_else(|error| error.to_string(), |run| told(&run));
        let done = host.join().expect("no panic");
        println!("round {round}, {api:?}: {ended}; {done} reads of the host; {:?}", begin.elapsed());
        diary.print(&ssd.name().to_string());
        assert!(Arc::strong_count(&ssd) == 1, "nobody else has the SSD");
        drop(ssd);
        await_gone(&mut monitor);
        pinned.push(pinned_pages());
        plug_in(&mut monitor);
    }
    // The other SSD's buffers are in the same DMA space, and nobody disturbed it.
    assert!(pinned.iter().all(|pages| *pages == pinned[0]), "pages that stay pinned: {pinned:?}");
    other_load.stop();
    let run = other_load.ended().expect("the other one goes on");
    assert!(run.errors == 0 && run.recovery.is_quiet(), "{:?} {:?}", run.failures, run.recovery);
    suite::works(&fixture::plain(0));
}

fn told(run: &warpbell_workload::Run) -> String {
    let failure = run.failures.first().map(|failure| failure.status.clone());
    assert!(run.partial || failure.is_some(), "a bench that was stopped says so");
    format!("partial {}, {} errors, {failure:?}", run.partial, run.errors)
}

#[test]
fn who_only_wants_to_be_told_keeps_the_ssd_until_it_is_dropped() {
    if !fixture::is("plug") {
        return;
    }
    let mut monitor = Monitor::open();
    let other = fixture::plain(1);
    let tell = RecoveryPolicy::new().on_release(OnRelease::Tell);
    let ssd = fixture::open(0, &OpenOptions::new().recovery(tell));
    let asked = ssd.pci().expect("a PCI function").release_requests().expect("an eventfd");
    let diary = Diary::of(&ssd);
    monitor.execute("device_del", &json!({ "id": "nvme0" }));
    // Whoever asks for the eventfd has the same one.
    let limit = Timespec { tv_sec: LIMIT.as_secs() as i64, tv_nsec: 0 };
    let ready = poll(&mut [PollFd::new(&asked, PollFlags::IN)], Some(&limit)).expect("polls");
    assert_eq!(ready, 1, "VFIO asks for the function");
    suite::works(&ssd);
    diary.wait_for("the request", |kind| matches!(kind, SsdEventKind::ReleaseRequested));
    assert_eq!(diary.count(|kind| matches!(kind, SsdEventKind::Released)), 0);
    suite::works(&ssd);
    drop((ssd, asked));
    await_gone(&mut monitor);
    suite::works(&other);
    plug_in(&mut monitor);
    suite::works(&fixture::plain(0));
}
