//! Power states, shutdowns, and what is told of them.

use std::time::Duration;

use warpbell_driver::{ControllerState, EventDetail, Notice, QueueSpec, ResetMethod, Shutdown};
use warpbell_hw::Device;
use warpbell_nvme::command;
use warpbell_nvme::feature::{ApstEntry, ApstTable};
use warpbell_nvme::register::{Csts, Shst, offset};
use warpbell_softctl::{Health, SoftConfig, SoftDevice};

use crate::fixture::*;

const MS: Duration = Duration::from_millis(1);

fn sleepy() -> SoftConfig {
    SoftConfig::parse("size=1m,power=8W+4W:2ms:1ms+50mW:10ms:20ms:nops,rtd3e=30ms").unwrap()
}

#[test]
fn states_are_listed_and_entered_and_left_for_io() {
    on_both(&sleepy(), |device| {
        let controller = open(device);
        let powers: Vec<_> = controller.power_states().iter().map(|one| one.max_power_tenth_mw()).collect();
        assert_eq!(powers, [80_000, 40_000, 500]);
        let mut queue = io_queue(&controller, 8);
        controller.set_power_state(1, 1).unwrap();
        controller.set_power_state(2, 0).unwrap();
        assert_eq!(controller.power_state().unwrap().ps(), 2);
        controller.smart_log().unwrap();
        assert_eq!(controller.power_state().unwrap().ps(), 2, "admin commands do not wake it");
        let start = device.clock().now();
        assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
        assert!(device.clock().now() - start >= 22 * MS);
        assert_eq!(controller.power_state().unwrap().ps(), 1);
        let text = controller.set_power_state(3, 0).unwrap_err().to_string();
        assert!(
            text.ends_with("power state 3 with workload hint 0: it has 3 states, and hints go to 7"),
            "{text}"
        );
        let changes = [(0, 1), (1, 2)].map(|(from, to)| Notice::PowerState { from, to });
        assert_eq!(controller.take_notices(), changes);
        controller.delete_queue_pair(queue.into_pair()).unwrap();
        controller.shutdown().unwrap();
    });
}

#[test]
fn what_was_chosen_of_power_holds_after_a_reset() {
    let device = SoftDevice::stepped(sleepy()).unwrap();
    let controller = open(&device);
    let mut table = ApstTable::default();
    table.0[1] = ApstEntry::new().with_itps(2).with_itpt(100);
    controller.set_autonomous_power(true, &table).unwrap();
    controller.set_power_state(1, 0).unwrap();
    let report = controller.reset_within(ResetMethod::Controller, PATIENCE).unwrap();
    assert_eq!(report.features_lost, []);
    assert_eq!(controller.autonomous_power().unwrap(), (true, table));
    assert_eq!(controller.power_state().unwrap().ps(), 1);
    device.advance(200 * MS);
    assert_eq!(controller.power_state().unwrap().ps(), 2, "by itself");
    assert_clean(&device);

    let plain = SoftDevice::stepped(config()).unwrap();
    let text = open(&plain).autonomous_power().unwrap_err().to_string();
    assert!(text.contains("the support for autonomous power state transitions (APSTA) is 0"), "{text}");
}

#[test]
fn shutdowns_are_told_and_take_their_time() {
    for kind in [Shutdown::Normal, Shutdown::Abrupt] {
        on_both(&sleepy(), |device| {
            let controller = open(device);
            let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
            let took = controller.shut_down(kind, Some(PATIENCE)).unwrap();
            assert!(took >= 30 * MS, "RTD3E");
            assert_eq!(controller.state(), ControllerState::Disabled);
            assert!(pair.is_retired());
            let notices = controller.take_notices();
            assert_eq!(notices, [Notice::ShutdownBegun(kind), Notice::ShutdownDone { kind, took }]);
            let text = controller.shut_down(kind, None).unwrap_err().to_string();
            assert!(text.ends_with("cannot shut down: the controller is disabled"), "{text}");
            controller.reset_within(ResetMethod::Controller, PATIENCE).expect("it comes back");
            let csts = Csts::from_bits(device.registers().read32(offset::CSTS));
            assert_eq!((csts.rdy(), csts.shst()), (true, Shst::NORMAL_OPERATION));
            controller.smart_log().unwrap();
        });
    }
}

#[test]
fn a_shutdown_that_takes_too_long_is_an_error_in_time() {
    let device = SoftDevice::stepped(config().shutdown_time(5000 * MS)).unwrap();
    let controller = open(&device);
    let start = device.clock().now();
    let error = controller.shut_down(Shutdown::Normal, Some(100 * MS)).unwrap_err();
    assert!(error.to_string().contains("shutting down (CSTS.SHST = 2) took longer than"), "{error}");
    assert!(device.clock().now() - start < 300 * MS);
    assert!(matches!(controller.take_notices()[1], Notice::ShutdownFailed { kind: Shutdown::Normal, .. }));
    assert_eq!(controller.state(), ControllerState::Disabled);
}

/// Its name in a device's name, and what brings it about.
type Warning = (&'static str, fn(&mut Health));

#[test]
fn every_critical_warning_comes_as_an_event() {
    let warnings: [Warning; 5] = [
        ("hot", |health| health.temperature = 343),
        ("spare", |health| health.spare = 9),
        ("degraded", |health| health.degraded = true),
        ("read_only", |health| health.read_only = true),
        ("backup_failed", |health| health.backup_failed = true),
    ];
    for (bits, (word, set)) in [0b10, 0b1, 0b100, 0b1000, 0b1_0000].into_iter().zip(warnings) {
        let device = SoftDevice::stepped(config()).unwrap();
        let controller = open(&device);
        let mut health = Health::default();
        set(&mut health);
        device.set_health(health);
        expect_warning(&controller, &device, bits);
        // The same from the start, by the device's name.
        let device =
            SoftDevice::stepped(SoftConfig::parse(&format!("size=1m,health={word}")).unwrap()).unwrap();
        expect_warning(&open(&device), &device, bits);
    }
    let text = SoftConfig::parse("size=1m,health=tired").unwrap_err().to_string();
    assert!(text.contains("health=tired: must be some of hot, spare,"), "{text}");
}

fn expect_warning(controller: &warpbell_driver::Controller, device: &SoftDevice, bits: u8) {
    while device.step() {}
    let events = controller.poll_events().unwrap();
    let [event] = &events[..] else { panic!("{bits:#b}: {events:?}") };
    let EventDetail::Health(log) = &event.detail else { panic!("{event:?}") };
    assert_eq!(log.critical_warning.into_bits(), bits);
}

#[test]
fn a_firmware_activation_is_announced() {
    let device = SoftDevice::stepped(config()).unwrap();
    let controller = open(&device);
    device.announce_firmware_activation();
    while device.step() {}
    let events = controller.poll_events().unwrap();
    assert!(
        matches!(events[..], [ref event] if matches!(event.detail, EventDetail::Firmware(_))),
        "{events:?}"
    );
    assert!(events[0].event.to_string().contains("Firmware activation starting"), "{events:?}");
}
