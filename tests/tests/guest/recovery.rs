//! Controllers fail under kernels at work. The host resets them, and the kernels go on in the same launch.

use std::sync::Arc;
use std::time::Duration;

use warpbell::{OpenOptions, RecoveryEvent, RecoveryPolicy, Ssd, SsdEventKind};
use warpbell_hw::ResetKind;
use warpbell_nvme::register::offset;
use warpbell_tests::suite;
use warpbell_workload::{Api, Run, Sharing};

use crate::fixture;
use crate::holdings::pinned_pages;
use crate::load::{Diary, Load, await_commands, checked};

/// Long enough for two failures with work before and after each, on a machine with other things to do.
const RUNTIME: Duration = Duration::from_secs(8);

/// What goes wrong, provoked behind the driver's back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    /// The controller stops: all queues are gone, nothing completes any more.
    Stops,
    /// It reports a fatal status: admin queues that do not begin on a page.
    Fatal,
    /// Its function is reset, through VFIO: registers and doorbells go out of the page table, too.
    FunctionReset,
}

impl Failure {
    fn provoke(self, ssd: &Ssd) {
        let device = ssd.controller().device();
        let registers = device.registers();
        let enabled = registers.read32(offset::CC) | 1;
        match self {
            Failure::Stops => registers.write32(offset::CC, enabled & !1),
            Failure::Fatal => {
                registers.write32(offset::CC, enabled & !1);
                registers.write64(offset::ASQ, 0x10);
                registers.write32(offset::CC, enabled);
            }
            Failure::FunctionReset => device.reset().reset(ResetKind::Function).expect("a function reset"),
        }
        println!("{}: {self:?}", ssd.name());
    }
}

/// Kernels at work while that happens, twice.
fn under_load(ssd: &Arc<Ssd>, failure: Failure, (api, sharing): (Api, Sharing)) -> Run {
    let (diary, before) = (Diary::of(ssd), ssd.recovery_counters());
    let load = Load::start(ssd, &checked(api, sharing, RUNTIME));
    for round in 1..=2 {
        await_commands(ssd);
        failure.provoke(ssd);
        diary.wait_for_count("a reset", round, |kind| {
            is_step(kind, |step| matches!(step, RecoveryEvent::ResetDone { .. }))
        });
    }
    await_commands(ssd);
    let run = load.ended_well();
    diary.print(&ssd.name().to_string());
    let after = ssd.recovery_counters();
    assert!(after.resets >= before.resets + 2, "{after:?}");
    assert!(
        run.recovery.clients.queue_losses > 0 && run.recovery.clients.recovered > 0,
        "{:?}",
        run.recovery
    );
    suite::works(ssd);
    run
}

fn is_step(kind: &SsdEventKind, wanted: impl Fn(&RecoveryEvent) -> bool) -> bool {
    matches!(kind, SsdEventKind::Recovery(step) if wanted(step))
}

const KERNELS: [(Api, Sharing); 2] = [(Api::Io, Sharing::Shared), (Api::Raw, Sharing::Exclusive)];

#[test]
fn kernels_go_on_when_their_controller_stopped() {
    if !fixture::is("recovery") {
        return;
    }
    let ssd = fixture::plain(0);
    for kernels in KERNELS {
        under_load(&ssd, Failure::Stops, kernels);
    }
}

#[test]
fn kernels_go_on_when_their_controller_failed() {
    if !fixture::is("recovery") {
        return;
    }
    let ssd = fixture::plain(0);
    under_load(&ssd, Failure::Fatal, KERNELS[0]);
}

#[test]
fn kernels_go_on_when_their_function_was_reset() {
    if !fixture::is("recovery") {
        return;
    }
    let ssd = fixture::plain(1);
    for kernels in KERNELS {
        under_load(&ssd, Failure::FunctionReset, kernels);
    }
}

#[test]
fn one_of_four_is_lost_and_the_others_do_not_notice() {
    if !fixture::is("recovery") {
        return;
    }
    const LOST: usize = 2;
    let before = pinned_pages();
    let no_resets = RecoveryPolicy::new().resets(0);
    let options = |number| {
        let recovery = if number == LOST { no_resets.clone() } else { RecoveryPolicy::default() };
        OpenOptions::new().recovery(recovery)
    };
    let ssds: Vec<Arc<Ssd>> = (0..4).map(|number| fixture::open(number, &options(number))).collect();
    let diary = Diary::of(&ssds[LOST]);
    let loads: Vec<Load> =
        ssds.iter().map(|ssd| Load::start(ssd, &checked(Api::Io, Sharing::Shared, RUNTIME / 2))).collect();
    await_commands(&ssds[LOST]);
    Failure::Stops.provoke(&ssds[LOST]);
    diary.wait_for_step("the loss", |step| matches!(step, RecoveryEvent::SsdLost { .. }));
    for (number, (ssd, load)) in ssds.iter().zip(loads).enumerate() {
        if number == LOST {
            let told =
                load.ended().map_or_else(|error| error.to_string(), |run| format!("{:?}", run.failures));
            println!("{}: {told}", ssd.name());
            assert!(told.contains("given up"), "kernels and their host are told: {told}");
        } else {
            assert!(load.ended_well().recovery.is_quiet());
        }
        let counters = ssd.recovery_counters();
        assert_eq!(counters.ssds_lost, u64::from(number == LOST), "{counters:?}");
        assert_eq!(counters.queues_dead > 0, number == LOST, "{counters:?}");
    }
    diary.print("the lost one");
    drop(ssds);
    // Queues and data of the one that was given up stay mapped until its controller is disabled, which dropping does.
    let left = pinned_pages();
    println!("{before} pages were pinned before, {left} are afterwards");
    assert_eq!(left, before, "pages stay pinned");
    suite::works(&fixture::plain(LOST));
}
