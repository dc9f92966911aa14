//! Tier S: other ways for doorbells and rings to go: shadow doorbells, priorities, controller memory.

use std::sync::Arc;
use std::time::Duration;

use warpbell::test_hooks::TestSsd;
use warpbell::{AttachOptions, DeviceName, OpenOptions, RingPlacement, Sharing, Ssd};
use warpbell_driver::{
    Controller, ControllerOptions, DoorbellBuffer, IoQueue, IoQueueOptions, QueueSpec, RingMemory,
};
use warpbell_hw::{Device, Lba, Nsid};
use warpbell_kernels::cpu::{Counters, Module};
use warpbell_nvme::command::{self, QueuePriority};
use warpbell_nvme::feature::Arbitration;
use warpbell_sim::simulation::{Outcome, Simulation};
use warpbell_sim::{Case, Mode, Schedule, lines, seeds, threaded};
use warpbell_softctl::test_hooks::{Defect, with_defect};
use warpbell_softctl::{DoorbellBufferMode, SoftConfig, SoftDevice};

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

fn builtin() -> Module {
    Module::builtin().expect("the CPU target is built in")
}

fn weak() -> Schedule {
    Schedule { random: true, store_buffer: 16, preempt_one_in: 8 }
}

/// Two warps on two queues, which write and read back under weak memory.
fn busy(name: impl Into<String>, sharing: Sharing, seed: u64) -> Case {
    Case {
        seed,
        sharing,
        queues: 2,
        warps: 2,
        entries: 16,
        commands: 6,
        async_depth: 2,
        shuffle: 4,
        mode: Mode::WriteRead,
        schedule: weak(),
        ..Case::new(name)
    }
}

/// A run in which every command must succeed.
fn expect_success_on(case: &Case, config: SoftConfig) -> (Simulation, Outcome) {
    let mut simulation = Simulation::with_config(case, &builtin(), config).expect("a rig");
    let mut outcome = simulation.run().expect("a run");
    outcome.findings.extend(simulation.rig.check_success().expect("records"));
    outcome.expect_right(case);
    (simulation, outcome)
}

// ---- Doorbell Buffer Config

fn traps(counters: &Counters) -> u64 {
    counters.sq_doorbells + counters.cq_doorbells
}

#[test]
fn shadow_doorbells_spare_traps_and_change_no_data_at_any_stride() {
    for (sharing, stride) in MODES.into_iter().flat_map(|s| (0..=4).map(move |stride| (s, stride))) {
        let (mut with, mut without) = (0, 0);
        for seed in seeds(5) {
            let case = Case { stride, ..busy(format!("{sharing:?}, stride {stride}"), sharing, seed) };
            let (off, plain) = expect_success_on(&case, case.soft_config());
            let case = Case { dbbuf: true, ..case };
            let (on, shadowed) = expect_success_on(&case, case.soft_config());
            assert_eq!(plain.counters.shadow_stores, 0);
            assert!(shadowed.counters.shadow_stores > 0);
            assert!(on.rig.soft.statistics().shadow_updates > 0);
            let mut blocks = [vec![0; 512 * 384], vec![0; 512 * 384]];
            off.rig.soft.peek(Nsid(1), Lba(0), &mut blocks[0]).expect("blocks");
            on.rig.soft.peek(Nsid(1), Lba(0), &mut blocks[1]).expect("blocks");
            assert!(blocks[0] == blocks[1], "the same contents");
            with += traps(&shadowed.counters);
            without += traps(&plain.counters);
        }
        println!("{sharing:?}, stride {stride}: {with} traps with shadows, {without} without");
        assert!(with < without, "{sharing:?}, stride {stride}: {with} traps with shadows, {without} without");
    }
}

#[test]
fn a_busy_polling_controller_is_hardly_ever_trapped() {
    let case = Case {
        entries: 256,
        commands: 400,
        async_depth: 4,
        batch: 8,
        mode: Mode::Flush,
        ..Case::new("threaded, shadows")
    };
    for sharing in MODES {
        let case = Case { sharing, ..case.clone() };
        let plain = threaded::run(&case).expect("a run");
        let shadowed = threaded::run(&Case { dbbuf: true, ..case.clone() }).expect("a run");
        assert_eq!((lines(&plain.findings), lines(&shadowed.findings)), (String::new(), String::new()));
        let (with, without) = (traps(&shadowed.counters), traps(&plain.counters));
        println!("{sharing:?}: {with} traps with shadows, {without} without");
        assert!(with * 4 < without, "{sharing:?}: {with} traps with shadows, {without} without");
    }
}

#[test]
fn a_controller_that_does_not_look_again_loses_a_doorbell() {
    let mut caught = None;
    for seed in 1..=200 {
        let case = Case {
            seed,
            entries: 64,
            commands: 6,
            async_depth: 2,
            dbbuf: true,
            schedule: weak(),
            ..Case::new("no recheck")
        };
        let config = with_defect(case.soft_config(), Some(Defect::NoRecheck));
        let mut simulation = Simulation::with_config(&case, &builtin(), config).expect("a rig");
        let mut outcome = simulation.run().expect("a run");
        outcome.findings.extend(simulation.rig.check_success().expect("records"));
        if outcome.findings.iter().any(|finding| finding.check().starts_with("no progress")) {
            caught = Some(seed);
            break;
        }
    }
    println!("caught by seed {caught:?}");
    assert!(caught.is_some(), "nobody noticed");
}

fn open(config: SoftConfig, options: OpenOptions) -> Result<Ssd, warpbell::Error> {
    let soft = SoftDevice::stepped(config).expect("a controller");
    Ssd::over_soft(DeviceName::Soft("size=1m".to_owned()), soft, &options)
}

#[test]
fn queues_beyond_the_page_are_refused_by_name_at_each_stride() {
    for (stride, most) in [(0u8, 511u16), (1, 255), (2, 127), (3, 63), (4, 31)] {
        let config = |queue_pairs| {
            SoftConfig::new().stride(stride).queue_pairs(queue_pairs).doorbell_buffer(DoorbellBufferMode::On)
        };
        let options = |queues, doorbell_buffer| {
            OpenOptions::new().queues(Some(queues)).doorbell_buffer(doorbell_buffer)
        };
        let ssd = open(config(most), options(most, DoorbellBuffer::On)).expect("fits");
        assert!(ssd.controller().uses_doorbell_buffer());
        let error =
            open(config(most + 1), options(most + 1, DoorbellBuffer::On)).err().expect("one too many");
        let need = (8u32 << stride) * (u32::from(most) + 2);
        assert!(
            error.to_string().ends_with(&format!(
                "a doorbell buffer for {} I/O queues at stride {stride} needs {need} bytes in a page of 4096: ask \
                 for at most {most} queues",
                most + 1
            )),
            "{error}"
        );
        let ssd = open(config(most + 1), options(most + 1, DoorbellBuffer::Auto)).expect("goes without");
        assert!(!ssd.controller().uses_doorbell_buffer());
        assert_eq!(ssd.data_path().doorbells_name(), "mapped (polled memory)");
    }
}

#[test]
fn a_controller_without_doorbell_buffers_refuses_and_a_reset_keeps_them() {
    let on = OpenOptions::new().doorbell_buffer(DoorbellBuffer::On);
    let text = open(SoftConfig::default(), on.clone()).err().expect("refused").to_string();
    assert!(text.contains("Doorbell Buffer Config (OACS bit 8 is 0)"), "{text}");
    assert_eq!(ControllerOptions::default().doorbell_buffer, DoorbellBuffer::Auto);
    let config = SoftConfig::new().doorbell_buffer(DoorbellBufferMode::On);
    let ssd = open(config, OpenOptions::default()).expect("auto takes it");
    assert_eq!(ssd.data_path().doorbells_name(), "shadowed, mapped (polled memory)");
    for _ in 0..2 {
        let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
        assert!(attachment.pairs()[0].sq_doorbell().shadow().is_some());
        drop(attachment);
        ssd.controller().reset().expect("resets");
    }
    assert_eq!(ssd.violations(), []);
}

// ---- weighted round robin with urgent class

/// Urgent, high, medium, low, and another high one.
const PRIORITIES: [QueuePriority; 5] = [
    QueuePriority::URGENT,
    QueuePriority::HIGH,
    QueuePriority::MEDIUM,
    QueuePriority::LOW,
    QueuePriority::HIGH,
];

fn weighted(soft: &Arc<SoftDevice>, feature: Arbitration) -> (Controller, Vec<IoQueue>) {
    let device: Arc<dyn Device> = soft.clone();
    let options = ControllerOptions::new().weighted_round_robin(true);
    let controller = Controller::open(device, options).expect("opens");
    controller.set_arbitration(feature).expect("weights");
    let queue = |priority: &QueuePriority| {
        let spec = QueueSpec::new(256).priority(*priority);
        let pair = controller.create_queue_pair(spec).expect("a pair");
        IoQueue::new(pair, IoQueueOptions::default()).expect("a queue")
    };
    let queues = PRIORITIES.iter().map(queue).collect();
    (controller, queues)
}

#[test]
fn saturated_queues_are_served_by_their_weights_within_one_burst() {
    let (high, medium, low, burst) = (8u32, 4u32, 2u32, 2u32);
    let feature = Arbitration::new().with_hpw_z(7).with_mpw_z(3).with_lpw_z(1).with_ab(1);
    for seed in seeds(5) {
        let config = SoftConfig::new().weighted_round_robin(true).seed(seed);
        let soft = SoftDevice::stepped(config).expect("a controller");
        let (_controller, mut queues) = weighted(&soft, feature);
        let mut order = Vec::new();
        let pushed = |class: usize| if class == 0 { 20 } else { 200 };
        for (class, queue) in queues.iter_mut().enumerate() {
            (0..pushed(class)).for_each(|_| assert!(queue.push(&command::flush(1)).is_some()));
            queue.ring();
        }
        while order.len() < 20 + 14 * 20 {
            soft.step();
            for (class, queue) in queues.iter_mut().enumerate() {
                queue.poll(|_| order.push(class));
            }
        }
        assert!(order[..20].iter().all(|class| *class == 0), "urgent commands go strictly first: {order:?}");
        let rest = &order[20..];
        for end in 1..=rest.len() {
            let served =
                |queues: &[usize]| rest[..end].iter().filter(|queue| queues.contains(queue)).count() as f64;
            let rounds = end as f64 / f64::from(high + medium + low);
            for (queues, weight) in [(&[1, 4][..], high), (&[2], medium), (&[3], low)] {
                let share = rounds * f64::from(weight);
                // Never further from its share than what the other classes may get before it is its turn.
                assert!(
                    (served(queues) - share).abs() <= f64::from(high),
                    "{queues:?} after {end}: {rest:?}"
                );
            }
        }
        for round in rest.chunks_exact((high + medium + low) as usize) {
            let count = |queue: usize| round.iter().filter(|served| **served == queue).count() as u32;
            assert_eq!((count(1) + count(4), count(2), count(3)), (high, medium, low));
            assert!(count(1).abs_diff(count(4)) <= burst, "queues of a class share it: {round:?}");
        }
        assert_eq!(soft.violations(), []);
    }
}

#[test]
fn with_threads_queues_of_all_priorities_are_served() {
    let config = SoftConfig::new().weighted_round_robin(true).pollers(2);
    let soft = SoftDevice::threaded(config).expect("a controller");
    let (_controller, mut queues) = weighted(&soft, Arbitration::new().with_hpw_z(99).with_ab(7));
    for round in 0..20 {
        for queue in &mut queues {
            (0..100).for_each(|_| assert!(queue.push(&command::flush(1)).is_some(), "round {round}"));
            queue.ring();
        }
        for queue in &mut queues {
            let deadline = soft.clock().now() + Duration::from_secs(20);
            let mut done = 0;
            while done < 100 {
                done += queue.poll(|completion| assert!(completion.is_ok()));
                assert!(soft.clock().now() < deadline, "{done} of 100");
            }
        }
    }
    assert_eq!(soft.violations(), []);
}

#[test]
fn priorities_need_a_controller_that_has_them() {
    let refused = OpenOptions::new().weighted_round_robin(true);
    let text = open(SoftConfig::default(), refused.clone()).err().expect("refused").to_string();
    assert!(text.contains("arbitration bitmap (CAP.AMS) is 0"), "{text}");
    let config = SoftConfig::new().weighted_round_robin(true);
    let high = AttachOptions::new().priority(QueuePriority::HIGH);
    let ssd = open(config.clone(), OpenOptions::default()).expect("opens");
    let text = ssd.attach(&high).err().expect("round robin has no priorities").to_string();
    assert!(text.contains("High") || text.contains("high"), "{text}");
    let ssd = open(config, refused).expect("opens");
    ssd.attach(&high).expect("attaches");
    assert_eq!(ssd.violations(), []);
}

// ---- controller memory buffer

const CMB: u64 = 64 << 10;

fn with_cmb(case: &Case) -> SoftConfig {
    case.soft_config().controller_memory(CMB)
}

#[test]
fn submission_rings_lie_in_controller_memory_and_completion_rings_do_not() {
    for (sharing, seed) in MODES.into_iter().flat_map(|s| seeds(5).map(move |seed| (s, seed))) {
        let case = Case { cmb: true, ..busy("rings in controller memory", sharing, seed) };
        let (simulation, _) = expect_success_on(&case, with_cmb(&case));
        assert_eq!(simulation.rig.ssd.data_path().rings, "cmb (SQ), host (CQ)");
        let memory = simulation.rig.soft.controller_memory().expect("a buffer");
        let inside = |at: *mut u8| (at as usize).wrapping_sub(memory.as_ptr() as usize) < memory.len();
        for pair in simulation.rig.attachment.pairs() {
            let (sq, cq) = (pair.sq().unwrap().window().as_ptr(), pair.cq().unwrap().window().as_ptr());
            assert!(inside(sq) && !inside(cq));
        }
    }
}

#[test]
fn with_threads_host_queues_use_controller_memory_too_and_survive_a_reset() {
    let config = SoftConfig::new().controller_memory(CMB);
    let soft = SoftDevice::threaded(config).expect("a controller");
    let options = OpenOptions::new().rings(RingPlacement::Cmb);
    let ssd = Ssd::over_soft(DeviceName::Soft("size=1m".to_owned()), soft.clone(), &options).expect("opens");
    for _ in 0..3 {
        let buffer = ssd.buffer(4096).expect("a buffer");
        let mut queue = ssd.host_queue(64, IoQueueOptions::default(), buffer).expect("a queue");
        for _ in 0..10 {
            (0..40).for_each(|_| assert!(queue.push(&command::flush(1)).is_some()));
            queue.ring();
            let mut done = 0;
            while done < 40 {
                done += queue.poll(|completion| assert!(completion.is_ok()));
            }
        }
        queue.delete().expect("deleted");
        ssd.controller().reset().expect("resets");
    }
    assert_eq!(ssd.violations(), []);
}

#[test]
fn controller_memory_is_refused_by_name_where_it_cannot_serve() {
    let cmb = OpenOptions::new().rings(RingPlacement::Cmb);
    let text = open(SoftConfig::default(), cmb.clone()).err().expect("no buffer").to_string();
    assert!(text.contains("does not offer a controller memory buffer (CAP.CMBS is 0)"), "{text}");
    let ssd = open(SoftConfig::new().controller_memory(8192), cmb).expect("opens");
    let three = AttachOptions::new().queues(3).warps(3).iodepth(63);
    let text = ssd.attach(&three).err().expect("two fit").to_string();
    let full = "a submission ring of 4096 bytes does not fit the controller memory buffer: 8192 of 8192 bytes are in \
                use";
    assert!(text.ends_with(full), "{text}");
    // What was taken for it came back.
    drop(ssd.attach(&three.queues(2).warps(2)).expect("two fit"));
    let spec = QueueSpec::new(16).cq_memory(RingMemory::Controller);
    let text = ssd.controller().create_queue_pair(spec).expect_err("no completion ring").to_string();
    assert!(text.contains("a completion ring cannot lie in the controller memory buffer"), "{text}");
    // The controller says so as well, whoever asks.
    let window = ssd.soft().and_then(|soft| soft.controller_memory()).expect("a buffer");
    let iova = ssd.attach(&AttachOptions::default()).expect("attaches").pairs()[0].sq_iova();
    let cq_memory = RingMemory::Fixed { window, iova };
    let error = ssd.controller().create_queue_pair(QueueSpec::new(16).cq_memory(cq_memory));
    let text = error.expect_err("no completion queue").to_string();
    assert!(text.contains("Invalid Use of Controller Memory Buffer"), "{text}");
    assert_eq!(ssd.violations(), []);
}
