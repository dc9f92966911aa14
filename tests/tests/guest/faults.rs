//! Ends in the middle of something, limits, and an IOMMU group of two.

use warpbell::{OpenOptions, Ssd};
use warpbell_driver::{IoQueue, IoQueueOptions, QueueSpec};
use warpbell_hw::DmaBuffer;
use warpbell_nvme::command;
use warpbell_tests::suite;
use warpbell_vfio::pci::{self, BindOptions, BindPlan, Refusal, Step, Sysfs, User};
use warpbell_vfio::{Bdf, PciDevice, PciOptions};

use crate::child::Process;
use crate::fixture;
use crate::holdings::pinned_pages;

/// Someone who is not root.
const NOBODY: u32 = 65534;

/// The two functions of one slot are the first on the machine's bus; the SSD behind the root port comes after them.
const ONE: usize = 0;
const MATE: usize = 1;
const ALONE: usize = 2;

/// Bytes of a buffer that shows in the kernel's counters.
const LARGE: usize = 16 << 20;
const LARGE_PAGES: u64 = LARGE as u64 / 4096;

/// A queue with reads in flight, for as long as it is asked again.
fn reading(ssd: &Ssd) -> (IoQueue, DmaBuffer) {
    let buffer = DmaBuffer::host(ssd.controller().device().dma(), LARGE).expect("a buffer");
    let pair = ssd.controller().create_queue_pair(QueueSpec::new(256)).expect("a pair");
    (IoQueue::new(pair, IoQueueOptions::default()).expect("a queue"), buffer)
}

#[test]
#[ignore = "run by a_process_that_is_killed_leaves_nothing_behind"]
fn child_reads_for_ever() {
    let ssd = fixture::plain(ALONE);
    let (mut queue, buffer) = reading(&ssd);
    let read = command::read(1, 0, 7).with_prp(buffer.iova().get(), 0);
    for round in 0u64.. {
        while queue.push(&read).is_some() {}
        queue.ring();
        if round == 100 {
            println!("reading, {} outstanding", queue.outstanding());
        }
        queue.poll(|completion| assert!(completion.is_ok()));
    }
}

#[test]
fn a_process_that_is_killed_leaves_nothing_behind() {
    if !fixture::is("faults") {
        return;
    }
    let before = pinned_pages();
    for _ in 0..3 {
        let child = Process::start("faults::child_reads_for_ever");
        child.await_line("reading");
        assert!(pinned_pages() >= before + LARGE_PAGES, "{} pages while it is used", pinned_pages());
        child.kill();
        assert_eq!(pinned_pages(), before, "pages afterwards");
        suite::works(&fixture::plain(ALONE));
    }
}

#[test]
#[ignore = "run by too_little_memlock_is_said"]
fn child_opens_with_little_memlock() {
    let limit = rustix::process::Rlimit { current: Some(64 << 10), maximum: Some(64 << 10) };
    rustix::process::setrlimit(rustix::process::Resource::Memlock, limit).expect("may be lowered");
    let opened = PciDevice::open(fixture::ssds()[ALONE], &PciOptions::default()).expect("opens");
    let error = DmaBuffer::host(warpbell_hw::Device::dma(opened.as_ref()), 1 << 20).expect_err("too much");
    println!("refused: {error}");
}

#[test]
#[ignore = "run by an_owner_of_the_group_needs_no_root"]
fn child_works_as_owner() {
    let opened = PciDevice::open(fixture::ssds()[ALONE], &PciOptions::default()).expect("opens");
    suite::works(&fixture::over(opened, &OpenOptions::default()));
    println!("worked as {}", rustix::process::getuid().as_raw());
}

fn bind_for_nobody() {
    let (system, bdf) = (Sysfs::system(), fixture::bind(ALONE));
    let options = BindOptions::new().user(Some(User { name: NOBODY.to_string(), uid: NOBODY }));
    let plan = BindPlan::new(&system, bdf, &[bdf], &options).expect("a plan");
    plan.carry_out(&system, &system, &mut |step: &Step| println!("{step}")).expect("given");
}

#[test]
fn an_owner_of_the_group_needs_no_root() {
    if !fixture::is("faults") {
        return;
    }
    bind_for_nobody();
    let child = Process::start_as("faults::child_works_as_owner", NOBODY);
    assert_eq!(child.await_line("worked as"), NOBODY.to_string());
    child.join();
}

#[test]
fn too_little_memlock_is_said() {
    if !fixture::is("faults") {
        return;
    }
    bind_for_nobody();
    let child = Process::start_as("faults::child_opens_with_little_memlock", NOBODY);
    let text = child.await_line("refused:");
    child.join();
    assert!(text.contains("64 KiB") && text.contains("ulimit -l"), "names the limit and the setting: {text}");
}

fn plan(bdf: Bdf, all: &[Bdf]) -> BindPlan {
    BindPlan::new(&Sysfs::system(), bdf, all, &BindOptions::default()).expect("a plan")
}

#[test]
fn a_group_is_lent_as_a_whole_and_its_mate_is_named() {
    if !fixture::is("faults") {
        return;
    }
    let (system, all) = (Sysfs::system(), fixture::ssds());
    let (one, mate) = (all[ONE], all[MATE]);
    let group = |bdf| pci::function(&system, bdf).expect("there").group.map(|group| group.number);
    assert_eq!(group(one), group(mate), "both functions of a slot are in one group");
    let alone = plan(one, &[one]);
    let named =
        |refusal: &Refusal| matches!(refusal, Refusal::GroupMate { mate: found, .. } if found.bdf == mate);
    assert!(alone.refusals.iter().any(named), "{:?}", alone.refusals);
    // Whoever binds it all the same cannot open it, and is told why.
    alone.carry_out(&system, &system, &mut |_| {}).expect("the kernel does not mind");
    let text = PciDevice::open(one, &PciOptions::default()).expect_err("not viable").to_string();
    assert!(text.contains(&mate.to_string()), "names the mate: {text}");
    println!("{text}");
    let second = plan(mate, &[one, mate]);
    assert!(second.refusals.is_empty(), "{:?}", second.refusals);
    second.carry_out(&system, &system, &mut |_| {}).expect("binds");
    for number in [ONE, MATE] {
        suite::works(&fixture::plain(number));
    }
}
