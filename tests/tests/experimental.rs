//! Tier S: what our controller offers beyond the specification: completions in submission order, 32-bit identifiers.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use warpbell::test_hooks::TestSsd;
use warpbell::{AttachOptions, DeviceName, OpenOptions, Sharing, Ssd};
use warpbell_driver::{Controller, ControllerOptions, IoQueue, IoQueueOptions, QueueSpec};
use warpbell_hw::{Device, DmaBuffer};
use warpbell_kernels::abi;
use warpbell_kernels::cpu::Module;
use warpbell_nvme::command;
use warpbell_nvme::experimental::{Experimental, WIDE_CIDS};
use warpbell_sim::simulation::{Outcome, Simulation};
use warpbell_sim::{Case, Mode, Schedule, peek, seeds};
use warpbell_softctl::{CompletionOrder, Profile, SoftConfig, SoftDevice};

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

fn weak() -> Schedule {
    Schedule { random: true, store_buffer: 16, preempt_one_in: 8 }
}

/// A run in which every command must succeed.
fn expect_success_on(case: &Case, config: SoftConfig) -> (Simulation, Outcome) {
    let module = Module::builtin().expect("the CPU target is built in");
    let mut simulation = Simulation::with_config(case, &module, config).expect("a rig");
    let mut outcome = simulation.run().expect("a run");
    outcome.findings.extend(simulation.rig.check_success().expect("records"));
    outcome.expect_right(case);
    (simulation, outcome)
}

fn open(config: SoftConfig, options: OpenOptions) -> Result<Ssd, warpbell::Error> {
    let soft = SoftDevice::stepped(config).expect("a controller");
    Ssd::over_soft(DeviceName::Soft("size=1m".to_owned()), soft, &options)
}

// ---- completions in submission order

/// Identifiers of commands as they were submitted and as they completed, over a controller that executes them in an
/// order of its own.
fn orders(config: SoftConfig) -> (Vec<u16>, Vec<u16>) {
    let in_order = matches!(config.order, CompletionOrder::Submission { .. });
    let soft = SoftDevice::stepped(config).expect("a controller");
    let device: Arc<dyn Device> = soft.clone();
    let controller = Controller::open(device, ControllerOptions::default()).expect("opens");
    assert_eq!(controller.completes_in_order(), in_order);
    let data = DmaBuffer::host(soft.dma(), 4096).expect("a buffer");
    let queue = |_| {
        let pair = controller.create_queue_pair(QueueSpec::new(64)).expect("a pair");
        IoQueue::new(pair, IoQueueOptions::default()).expect("a queue")
    };
    let mut queues: Vec<IoQueue> = (0..3).map(queue).collect();
    let (mut submitted, mut completed) = (Vec::new(), Vec::new());
    for _ in 0..10 {
        for queue in &mut queues {
            for lba in 0..40 {
                let read = command::read(1, lba, 0).with_prp(data.iova().0, 0);
                submitted.push(queue.push(&read).expect("room").cid.0);
            }
            queue.ring();
        }
        for queue in &mut queues {
            let mut left = 40;
            while left > 0 {
                soft.clock().pause(Duration::ZERO);
                left -= queue.poll(|completion| completed.push(completion.token.cid.0));
            }
        }
    }
    assert_eq!(soft.violations(), []);
    (submitted, completed)
}

#[test]
fn completions_keep_submission_order_though_media_do_not() {
    for seed in seeds(10) {
        let with = |order, profile| orders(SoftConfig::new().order(order).profile(profile).seed(seed));
        let (submitted, completed) = with(CompletionOrder::Submission { window: 16 }, None);
        assert_eq!(submitted, completed, "seed {seed}, shuffled");
        let (submitted, completed) = with(CompletionOrder::Shuffled { window: 16 }, None);
        assert_ne!(submitted, completed, "the same media shuffle without the mode");
        let (submitted, completed) = with(CompletionOrder::Submission { window: 0 }, Some(Profile::tlc()));
        assert_eq!(submitted, completed, "seed {seed}, latencies of TLC flash");
        let (submitted, completed) = with(CompletionOrder::Immediate, Some(Profile::tlc()));
        assert_ne!(submitted, completed, "the same latencies shuffle without the mode");
    }
}

#[test]
fn kernels_work_on_ordered_queues() {
    for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(5).map(move |seed| (s, seed))) {
        let case = Case { sharing, seed, entries: 8, commands: 6, async_depth: 2, ..Case::new("in order") };
        let order = CompletionOrder::Submission { window: 6 };
        expect_success_on(&Case { schedule: weak(), ..case.clone() }, case.soft_config().order(order));
    }
}

// ---- 32-bit command identifiers

#[test]
fn wide_identifiers_work_under_any_schedule() {
    for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(10).map(move |seed| (s, seed))) {
        for dbbuf in [false, true] {
            let warps = if sharing == Sharing::Shared { 3 } else { 1 };
            let case = Case {
                sharing,
                seed,
                warps,
                dbbuf,
                wide: true,
                entries: 16,
                commands: 6,
                async_depth: 2,
                shuffle: 4,
                mode: Mode::WriteRead,
                stale_tokens: true,
                schedule: weak(),
                ..Case::new("wide identifiers")
            };
            expect_success_on(&case, case.soft_config());
        }
    }
}

#[test]
fn the_tag_goes_on_the_wire_unchanged() {
    let case = Case { entries: 128, tokens: 2, wide: true, mode: Mode::Flush, ..Case::shared("tags", 3) };
    let case = Case { commands: 1, timeout: Duration::from_millis(10), ..case };
    let mut simulation = Simulation::new(&case).expect("a rig");
    // Nobody fetches, so that all entries can be read.
    simulation.run_while(|_, _| false).expect("a run");
    let queue = simulation.rig.attachment.queue(0).expect("a queue");
    assert_eq!((queue.flags, queue.local_bits), (abi::QUEUE_WIDE_CIDS, 16));
    let tag =
        |slot: u64| peek::<u32>(queue.sq + slot * 64) >> 16 | peek::<u32>(queue.sq + slot * 64 + 8) << 16;
    let found: BTreeSet<u32> = (0..96).map(tag).collect();
    let expected: BTreeSet<u32> =
        (0..3).flat_map(|warp| (0..32).map(move |lane| warp << 16 | lane << 11)).collect();
    assert_eq!(found, expected);
}

#[test]
fn more_warps_share_a_queue_than_16_bits_name() {
    let warps = 2056;
    let case =
        Case { tokens: 1, commands: 1, entries: 64, mode: Mode::Flush, ..Case::shared("2056 warps", warps) };
    let case = Case { warps_per_block: 8, timeout: Duration::from_secs(60), wide: true, ..case };
    let (simulation, outcome) = expect_success_on(&case, case.soft_config());
    assert_eq!(outcome.counters.sqes, case.total());
    assert_eq!(simulation.rig.attachment.layout().warp_slots, warps);
    assert_eq!(simulation.rig.attachment.counters(0).expect("counters").head, case.total());
}

#[test]
fn a_stock_controllers_probe_refuses_wide_identifiers() {
    let wide = OpenOptions::new().wide_cids(true);
    let text = open(SoftConfig::default(), wide.clone()).err().expect("refused").to_string();
    assert!(text.contains("does not offer 32-bit command identifiers"), "{text}");
    let config = SoftConfig::new().wide_cids(true);
    let ssd = open(config.clone(), wide).expect("opens");
    assert!(Experimental::of(ssd.identify()).wide_cids() && ssd.controller().wide_cids());
    let queue = ssd.attach(&AttachOptions::default()).expect("attaches").queue(0).expect("a queue");
    assert_eq!(queue.flags & abi::QUEUE_WIDE_CIDS, abi::QUEUE_WIDE_CIDS);
    // Nobody has to, and it is too late once there is a queue.
    let ssd = open(config, OpenOptions::default()).expect("opens");
    let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
    assert_eq!(attachment.queue(0).expect("a queue").flags, 0);
    let error = ssd.controller().set_feature(WIDE_CIDS, 1, None).expect_err("too late").to_string();
    assert!(error.contains("Sequence"), "{error}");
}
