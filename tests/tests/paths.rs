//! Bed S: other ways for doorbells, rings, identifiers and completions to go.

use warpbell::driver::{ControllerOptions, DoorbellBuffer};
use warpbell::{AttachOptions, DeviceName, OpenOptions, Sharing, Ssd};
use warpbell_kernels::cpu::{Counters, Module};
use warpbell_softctl::{DoorbellBufferMode, SoftConfig, SoftDevice};
use warpbell_tests::simulation::{Outcome, Simulation};
use warpbell_tests::{Case, Mode, Schedule, lines, seeds, threaded};

const MODES: [Sharing; 2] = [Sharing::Exclusive, Sharing::Shared];

fn builtin() -> Module {
    Module::builtin().expect("the CPU target is built in")
}

fn weak() -> Schedule {
    Schedule { random: true, store_buffer: 16, preempt_one_in: 8 }
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
            let case = Case {
                seed,
                sharing,
                stride,
                queues: 2,
                warps: 2,
                entries: 16,
                commands: 6,
                async_depth: 2,
                shuffle: 4,
                mode: Mode::WriteRead,
                schedule: weak(),
                ..Case::new(format!("{sharing:?}, stride {stride}"))
            };
            let (off, plain) = expect_success_on(&case, case.soft_config());
            let case = Case { dbbuf: true, ..case };
            let (on, shadowed) = expect_success_on(&case, case.soft_config());
            assert_eq!(plain.counters.shadow_stores, 0);
            assert!(shadowed.counters.shadow_stores > 0);
            assert!(on.rig.soft.statistics().shadow_updates > 0);
            let mut blocks = [vec![0; 512 * 384], vec![0; 512 * 384]];
            off.rig.soft.peek(1, 0, &mut blocks[0]).expect("blocks");
            on.rig.soft.peek(1, 0, &mut blocks[1]).expect("blocks");
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
        let config = SoftConfig { doorbell_buffer: DoorbellBufferMode::NoRecheck, ..case.soft_config() };
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
        let config = |queue_pairs| SoftConfig {
            stride,
            queue_pairs,
            doorbell_buffer: DoorbellBufferMode::On,
            ..SoftConfig::default()
        };
        let options = |queues, doorbell_buffer| OpenOptions {
            queues: Some(queues),
            doorbell_buffer,
            ..OpenOptions::default()
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
        assert_eq!(ssd.data_path().doorbells_name(), "mapped");
    }
}

#[test]
fn a_controller_without_doorbell_buffers_refuses_and_a_reset_keeps_them() {
    let on = OpenOptions { doorbell_buffer: DoorbellBuffer::On, ..OpenOptions::default() };
    let text = open(SoftConfig::default(), on.clone()).err().expect("refused").to_string();
    assert!(text.contains("Doorbell Buffer Config (OACS bit 8) is 0"), "{text}");
    assert_eq!(ControllerOptions::default().doorbell_buffer, DoorbellBuffer::Auto);
    let config = SoftConfig { doorbell_buffer: DoorbellBufferMode::On, ..SoftConfig::default() };
    let ssd = open(config, OpenOptions::default()).expect("auto takes it");
    assert_eq!(ssd.data_path().doorbells_name(), "shadowed, mapped");
    for _ in 0..2 {
        let attachment = ssd.attach(&AttachOptions::default()).expect("attaches");
        assert!(attachment.pairs()[0].sq_doorbell().shadow().is_some());
        drop(attachment);
        ssd.controller().reset().expect("resets");
    }
    assert_eq!(ssd.violations(), []);
}
