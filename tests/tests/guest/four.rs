//! Four SSDs as QEMU makes them, and a memory device in the part of the GPU.

use std::process::Command;
use std::sync::Arc;
use std::thread;

use warpbell::{
    DataPlacement, DataPointerKind, OpenOptions, OrderPolicy, RingPlace, RingPlacement, Sharing, Ssd, Target,
};
use warpbell_driver::{DoorbellBuffer, Waiting};
use warpbell_hw::{DeviceKind, DoorbellPath};
use warpbell_nvme::register::Vs;
use warpbell_sim::threaded::{Outcome, run_on};
use warpbell_sim::{Case, Mode, Rig};
use warpbell_tests::suite::{self, Calls, ResetOrder};
use warpbell_workload::Api;

use crate::fixture::{self, SSD_BYTES};

fn with(doorbell_buffer: DoorbellBuffer) -> OpenOptions {
    OpenOptions::new().doorbell_buffer(doorbell_buffer)
}

#[test]
fn each_is_what_qemu_was_told() {
    if !fixture::is("four") {
        return;
    }
    let ssds: Vec<Arc<Ssd>> = (0..4).map(fixture::plain).collect();
    for (number, ssd) in ssds.iter().enumerate() {
        let identify = ssd.identify();
        assert_eq!(identify.serial(), format!("WARP{number}"));
        assert_eq!(identify.model(), "QEMU NVMe Ctrl");
        let [namespace] = ssd.namespaces() else { panic!("one namespace: {:?}", ssd.namespaces()) };
        assert_eq!((namespace.block_size, namespace.bytes()), (512, SSD_BYTES));
        assert_eq!(ssd.max_transfer_bytes(), Some(512 << 10), "QEMU's default MDTS is 7");
        assert_eq!(ssd.controller().version(), Vs::from_parts(1, 4, 0));
        let limits = ssd.controller().command_limits();
        assert_eq!(limits.range_blocks, Some(u32::MAX >> 10), "what QEMU's block layer takes at once: 2 GiB");
        assert_eq!(ssd.info().kind, DeviceKind::Pcie);
        assert_eq!(ssd.data_path().doorbells, DoorbellPath::Mapped);
        println!("{}: {} {}, {} bytes", ssd.name(), identify.model(), identify.serial(), namespace.bytes());
    }
}

#[test]
fn the_suite_holds_with_registers_as_doorbells() {
    if !fixture::is("four") {
        return;
    }
    let ssd = fixture::open(0, &with(DoorbellBuffer::Off));
    assert!(!ssd.controller().uses_doorbell_buffer());
    suite::kernels(&ssd, 1);
    suite::both_apis(&ssd, 1);
    suite::boundaries(&ssd, 1);
}

#[test]
fn the_suite_holds_with_shadow_doorbells() {
    if !fixture::is("four") {
        return;
    }
    let ssd = fixture::open(1, &with(DoorbellBuffer::On));
    assert!(ssd.controller().uses_doorbell_buffer(), "QEMU offers Doorbell Buffer Config");
    suite::kernels(&ssd, 1);
    suite::both_apis(&ssd, 1);
}

#[test]
fn the_suite_holds_with_prp_lists() {
    if !fixture::is("four") {
        return;
    }
    let ssd = fixture::open(2, &OpenOptions::new().prp_only(true));
    assert_eq!(
        ssd.data_path().data_pointer,
        DataPointerKind::Prp,
        "QEMU takes SGLs too, but most SSDs do not"
    );
    suite::kernels(&ssd, 1);
    suite::both_apis(&ssd, 1);
}

#[test]
fn rings_and_data_lie_in_memory_of_another_function() {
    if !fixture::is("four") {
        return;
    }
    let foreign = fixture::foreign();
    for place in 0..8 {
        let [sq, cq, data] = [1, 2, 4].map(|bit| place & bit != 0);
        let ring = |away| if away { RingPlace::Foreign(foreign.clone()) } else { RingPlace::Host };
        let rings = RingPlacement::Pair { sq: ring(sq), cq: ring(cq) };
        let order = match cq == data {
            true => OrderPolicy::OneMemory,
            false => OrderPolicy::Flush { data },
        };
        let data = if data { DataPlacement::Foreign(foreign.clone()) } else { DataPlacement::Host };
        let ssd = fixture::open(0, &with(DoorbellBuffer::Off).rings(rings).data(data));
        println!("{}: {order}", ssd.data_path());
        flushed_as_reported(&ssd, order);
        at_any_depth_and_batch(&ssd, order);
        if ssd.data_path().to_string().contains("bar:") {
            suite::kernels(&ssd, 1);
            suite::both_apis(&ssd, 1);
        }
    }
}

/// Each command is answered once, and its data is there, as in the tests of queues over the soft controller.
fn at_any_depth_and_batch(ssd: &Arc<Ssd>, order: OrderPolicy) {
    for (entries, batches) in [(2, vec![1, 2]), (4, vec![1, 3, 4]), (64, vec![1, 32])] {
        for (batch, async_depth) in batches.into_iter().flat_map(|batch| [(batch, 1), (batch, 3)]) {
            for (sharing, warps) in [(Sharing::Exclusive, 1), (Sharing::Shared, 2)] {
                let name = format!("{order}, depth {entries}, batch {batch}, {async_depth} in flight");
                let case = Case { entries, batch, async_depth, sharing, warps, ..Case::new(name) };
                expect_right(ssd, &Case { commands: 6, mode: Mode::WriteRead, ..case });
            }
        }
    }
}

fn expect_right(ssd: &Arc<Ssd>, case: &Case) -> (Rig, Outcome) {
    let rig = Rig::new(case, ssd.clone(), ssd.clone()).expect("attaches");
    let outcome = run_on(&rig).expect("runs");
    let found = rig.check_success().expect("readable");
    assert!(outcome.findings.is_empty() && found.is_empty(), "{case:?}: {:?} {found:?}", outcome.findings);
    (rig, outcome)
}

/// Kernels read registers where the order says so, and nowhere else.
fn flushed_as_reported(ssd: &Arc<Ssd>, order: OrderPolicy) {
    let case = Case { entries: 64, commands: 8, mode: Mode::WriteRead, async_depth: 2, ..Case::new("order") };
    let (rig, outcome) = expect_right(ssd, &case);
    assert_eq!(rig.attachment.order(), order);
    let counters = outcome.counters;
    let most = match order {
        OrderPolicy::Flush { data: false } => counters.cqes,
        OrderPolicy::Flush { data: true } => 2 * counters.cqes,
        _ => 0,
    };
    let reads = counters.register_reads;
    println!("{order}: {reads} register reads for {} completions", counters.cqes);
    assert!(reads <= most && (reads > 0) == (most > 0), "{order}: {counters:?}");
}

#[test]
fn cpu_queues_by_interrupt_and_polled_kernel_queues_work_on_one_ssd_at_once() {
    if !fixture::is("four") {
        return;
    }
    let device = fixture::device(1);
    let bdf = device.bdf();
    let ssd = fixture::over(device, &OpenOptions::new().admin_waiting(Waiting::Interrupt));
    let before = fixture::interrupts(bdf);
    assert!(before > 0, "admin commands were answered by interrupt");
    suite::interrupts_and_polling(&ssd);
    let after = fixture::interrupts(bdf);
    assert!(after > before, "I/O queues interrupted: {before} and {after}");
    println!("{before} interrupts of the admin queue, {after} in all");
}

#[test]
fn queues_come_and_go() {
    if !fixture::is("four") {
        return;
    }
    suite::all_queues(&fixture::plain(0));
}

#[test]
fn a_reset_under_load_ends_every_wait_and_the_next_kernel_works() {
    if !fixture::is("four") {
        return;
    }
    for doorbells in [DoorbellBuffer::Off, DoorbellBuffer::On] {
        let ssd = fixture::open(2, &with(doorbells));
        suite::reset_under_load(&ssd, ResetOrder::AfterKernels);
        suite::reset_under_load(&ssd, ResetOrder::UnderKernels);
    }
}

#[test]
fn four_controllers_work_at_once_each_with_its_own_queues() {
    if !fixture::is("four") {
        return;
    }
    let ssds: Vec<Arc<Ssd>> = (0..4).map(fixture::plain).collect();
    thread::scope(|scope| {
        let running: Vec<_> = ssds.iter().map(|ssd| scope.spawn(|| suite::kernels(ssd, 1))).collect();
        let commands: Vec<u64> = running.into_iter().map(|one| one.join().expect("no panic")).collect();
        assert!(commands.iter().all(|count| *count > 4000), "{commands:?}");
    });
}

/// Of 2 KiB each.
const UNITS_OF_VOLUMES: u64 = 1000;

#[test]
fn a_volume_stripes_replicates_and_concatenates_all_four() {
    if !fixture::is("four") {
        return;
    }
    let ssds: Vec<Arc<Ssd>> = (0..4).map(fixture::plain).collect();
    for one in [suite::striped_over, suite::mirrored_over] {
        println!("{}", one(Target::Cpu, &ssds, UNITS_OF_VOLUMES).unwrap_or_else(|error| panic!("{error:#}")));
    }
    println!("{}", suite::concatenated_over(Target::Cpu, &ssds).unwrap_or_else(|error| panic!("{error:#}")));
}

#[test]
fn every_call_of_the_device_library_on_four_ssds_at_once() {
    if !fixture::is("four") {
        return;
    }
    let ssds: Vec<Arc<Ssd>> = (0..4).map(fixture::plain).collect();
    let all = |number: usize| {
        // Each SSD begins with other calls.
        let turn = Calls::ALL.iter().cycle().skip(2 * number).take(Calls::ALL.len());
        let made = turn.map(|calls| suite::calls_on(Target::Cpu, &ssds[number], *calls));
        made.collect::<anyhow::Result<Vec<String>>>()
    };
    thread::scope(|scope| {
        let running: Vec<_> = (0..4).map(|number| scope.spawn(move || all(number))).collect();
        for (one, ssd) in running.into_iter().zip(&ssds) {
            let made =
                one.join().expect("no panic").unwrap_or_else(|error| panic!("{}: {error:#}", ssd.name()));
            println!("{}: {}", ssd.name(), made.join("; "));
        }
    });
}

#[test]
fn agents_and_blocks_of_threads_do_io() {
    if !fixture::is("four") {
        return;
    }
    suite::apis_on(Target::Cpu, &fixture::plain(3), 1, &[Api::Agent, Api::Batch]);
}

/// How `warpbell` ended, and what it said.
fn warpbell(words: &[&str]) -> (Option<i32>, Vec<u8>) {
    let output = Command::new("/bin/warpbell").args(words).output().expect("the program is in the guest");
    println!("warpbell {}: {}: {}", words.join(" "), output.status, String::from_utf8_lossy(&output.stderr));
    (output.status.code(), output.stdout)
}

#[test]
fn check_tests_data_through_an_ssd_that_its_owner_names() {
    if !fixture::is("four") {
        return;
    }
    let bdf = fixture::bind(3).to_string();
    let allow = format!("--allow-write={bdf}");
    let block = |lba: u64| warpbell(&["read", &bdf, "--lba", &lba.to_string(), "--count", "8"]).1;
    let edges = || [0, 32_760, 40_960].map(block);
    let (before, test) = (edges(), ["check", "--self-test", "--device", &bdf, "--offset", "16m"]);
    assert_eq!(warpbell(&test).0, Some(3), "not without the owner's word");
    let (code, text) = warpbell(&[&test[..], &[&allow]].concat());
    let text = String::from_utf8(text).expect("words");
    println!("{text}");
    assert_eq!(code, Some(4), "there is no GPU");
    let line = text.lines().find(|line| line.contains("data through an SSD")).expect("the line is there");
    assert!(line.starts_with(" ok ") && line.contains(&bdf) && line.contains("0 wrong"), "{line}");
    assert!(text.contains("data through both     not tested: "), "{text}");
    assert!(before == edges(), "blocks beside those 4 MiB");
    assert!(block(32_768).iter().any(|byte| *byte != 0), "the first of them");
}

#[test]
fn opened_closed_and_opened_again_in_one_process() {
    if !fixture::is("four") {
        return;
    }
    for _ in 0..3 {
        suite::works(&fixture::plain(3));
    }
}
