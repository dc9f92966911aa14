//! Opening, resetting, shutting down; features, log pages, events.

use std::time::Duration;

use warpbell_driver::{
    Controller, ControllerOptions, ControllerState, Data, EventDetail, QueueSpec, ResetMethod,
};
use warpbell_hw::{Cid, Device, Nsid, Qid};
use warpbell_nvme::command;
use warpbell_nvme::feature::{Arbitration, FeatureId, FeatureSelect, TemperatureThreshold};
use warpbell_nvme::log::LogPageId;
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::register::{Cc, offset};
use warpbell_softctl::{NamespaceConfig, SoftDevice};

use crate::fixture::*;

#[test]
fn open_identifies_and_shutdown_leaves_nothing() {
    let namespaces =
        vec![NamespaceConfig::memory(1 << 20, 512), NamespaceConfig::memory((1 << 20) + 1, 4096)];
    let config = config().namespaces(namespaces).serial("SN 1".to_owned());
    on_both(&config, |device| {
        let controller = open(device);
        assert_eq!(controller.identify().serial(), "SN 1");
        let sizes: Vec<_> = controller.namespaces().iter().map(|ns| (ns.blocks, ns.block_size)).collect();
        assert_eq!(sizes, [(2048, 512), (257, 4096)]);
        assert_eq!(controller.namespaces()[1].nsid, Nsid(2));
        assert!(controller.namespaces().iter().all(|ns| ns.ids.uuid.is_some()));
        assert!(controller.refused_namespaces().is_empty());
        assert_eq!(controller.max_transfer_bytes(), Some(128 << 10));
        assert!(controller.supports_sgl());
        assert_eq!((controller.max_entries(), controller.granted_queues()), (65536, 64));
        controller.shutdown().unwrap();
        let csts = device.registers().read32(offset::CSTS);
        assert_eq!(csts & 1, 0, "disabled: CSTS {csts:#x}");
    });
}

#[test]
fn a_controller_can_be_opened_again_and_again() {
    on_both(&config(), |device| {
        for round in 0..3 {
            let controller = open(device);
            let pair = controller.create_queue_pair(QueueSpec::new(16)).unwrap();
            match round {
                0 => controller.shutdown().unwrap(),
                1 => drop(controller),
                // Neither shut down nor disabled, as after a crash of this process.
                _ => std::mem::forget(controller),
            }
            drop(pair);
        }
        let controller = open(device);
        assert_eq!(controller.state(), ControllerState::Ready);
        controller.shutdown().unwrap();
    });
}

#[test]
fn a_left_over_configuration_is_not_kept() {
    let device = SoftDevice::stepped(config()).unwrap();
    device.registers().write32(offset::CC, Cc::new().with_iosqes(9).with_iocqes(1).with_mps(3).into_bits());
    let controller = open(&device);
    let cc = Cc::from_bits(device.registers().read32(offset::CC));
    assert_eq!((cc.iosqes(), cc.iocqes(), cc.mps(), cc.en()), (6, 4, 0, true));
    drop(controller);
}

#[test]
fn reset_loses_queues_and_nothing_else() {
    on_both(&config(), |device| {
        let controller = open(device);
        let pairs: Vec<_> =
            (0..3).map(|_| controller.create_queue_pair(QueueSpec::new(8)).unwrap()).collect();
        let report = controller.reset().unwrap();
        assert_eq!(report.lost_queues, [Qid(1), Qid(2), Qid(3)]);
        assert_eq!(report.changed_namespaces, []);
        assert!(pairs.iter().all(|pair| pair.is_retired()));
        drop(pairs);
        let mut queue = io_queue(&controller, 8);
        assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
        controller.delete_queue_pair(queue.into_pair()).unwrap();
        controller.shutdown().unwrap();
    });
}

#[test]
fn queues_that_kernels_hold_over_a_reset_keep_their_names_to_themselves() {
    for method in [ResetMethod::Controller, ResetMethod::Function, ResetMethod::Subsystem] {
        on_both(&config().grant(Some(4)), |device| {
            let controller = open_with(device, 4);
            let held: Vec<_> =
                (0..3).map(|_| controller.create_queue_pair(QueueSpec::new(8)).unwrap()).collect();
            let memory = held[0].sq().unwrap().window().clone();
            for round in 0..3 {
                let report = controller.reset_within(method, PATIENCE).unwrap();
                let mut lost = vec![Qid(1), Qid(2), Qid(3)];
                lost.retain(|_| round == 0);
                assert_eq!(report.lost_queues, lost, "round {round}");
                assert!(held.iter().all(|pair| pair.is_retired()));
                let mut queue = io_queue(&controller, 8);
                assert_eq!(queue.qid(), Qid(4), "1 to 3 are held");
                assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
                let error = controller.create_queue_pair(QueueSpec::new(8)).unwrap_err().to_string();
                assert!(error.contains("4 in use and 0 lost of 4 granted"), "{error}");
                // Rings of before are still there to be written.
                memory.fill(0, memory.len(), 0xa5).unwrap();
                assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
                controller.delete_queue_pair(queue.into_pair()).unwrap();
            }
            drop(held);
            assert_eq!(controller.create_queue_pair(QueueSpec::new(8)).unwrap().qid(), Qid(1));
        });
    }
}

#[test]
fn a_doorbell_of_a_queue_from_before_a_reset_leads_nowhere() {
    let device = SoftDevice::stepped(config()).unwrap();
    let controller = open(&device);
    let held = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    controller.reset_within(ResetMethod::Controller, PATIENCE).unwrap();
    let mut queue = io_queue(&controller, 8);
    held.sq_doorbell().ring(3);
    let events = poll_until_some(&controller, &device);
    assert!(matches!(events[0].detail, EventDetail::Errors(_)), "{events:?}");
    assert!(queue.execute(&command::flush(1)).unwrap().is_ok());
    assert_eq!(device.statistics().io_commands.iter().sum::<u64>(), 1, "nothing else was executed");
}

#[test]
fn features_are_read_and_set() {
    on_both(&config(), |device| {
        let controller = open(device);
        let weights = Arbitration::new().with_ab(3).with_lpw_z(1).with_mpw_z(2).with_hpw_z(3);
        controller.set_arbitration(weights).unwrap();
        assert_eq!(controller.arbitration().unwrap(), weights);
        let threshold = TemperatureThreshold::new().with_tmpth(350);
        controller.set_temperature_threshold(threshold).unwrap();
        assert_eq!(controller.temperature_threshold(TemperatureThreshold::new()).unwrap().tmpth(), 350);
        assert!(controller.volatile_write_cache().unwrap());
        let queues = controller.get_feature(FeatureId::NUMBER_OF_QUEUES, FeatureSelect::CURRENT, None);
        assert_eq!(queues.unwrap(), 63 | 63 << 16);
        assert!(controller.async_event_config().unwrap().namespace_attribute());
        let unknown = controller.get_feature(FeatureId(0xc7), FeatureSelect::CURRENT, None).unwrap_err();
        assert!(unknown.status().is_some(), "{unknown}");
        controller.shutdown().unwrap();
    });
}

#[test]
fn log_pages_are_read() {
    on_both(&config(), |device| {
        let controller = open(device);
        let effects = controller.command_effects().unwrap();
        assert!(effects.acs[usize::from(AdminOpcode::IDENTIFY.0)].csupp());
        assert!(controller.smart_log().unwrap().composite_temperature.get() > 0);
        assert!(controller.firmware_log().unwrap().revision(1).is_some());
        assert_eq!(controller.changed_namespaces().unwrap().iter().count(), 0);
        controller.error_log(u32::MAX).unwrap();
        let page = controller.log_page(LogPageId::COMMAND_EFFECTS, Nsid(0), 4096).unwrap();
        assert_eq!(page.len(), 4096);
        controller.shutdown().unwrap();
    });
}

#[test]
fn a_wrong_doorbell_comes_back_as_an_event() {
    let device = SoftDevice::stepped(config()).unwrap();
    let controller = open(&device);
    let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
    for round in 0..6 {
        // An entry that the queue does not have.
        pair.sq_doorbell().ring(100 + round);
        let events = poll_until_some(&controller, &device);
        assert_eq!(events.len(), 1, "round {round}: {events:?}");
        assert!(matches!(events[0].detail, EventDetail::Errors(_)), "{events:?}");
    }
    assert_eq!(device.violations().len(), 6, "the controller saw each of them");
    controller.delete_queue_pair(pair).unwrap();
    controller.shutdown().unwrap();
}

fn poll_until_some(controller: &Controller, device: &SoftDevice) -> Vec<warpbell_driver::AsyncEvent> {
    for _ in 0..1000 {
        let events = controller.poll_events().unwrap();
        if !events.is_empty() {
            return events;
        }
        device.step();
    }
    vec![]
}

#[test]
fn aborting_nothing_is_not_an_error() {
    on_both(&config(), |device| {
        let controller = open(device);
        let pair = controller.create_queue_pair(QueueSpec::new(8)).unwrap();
        assert!(!controller.abort(pair.qid(), Cid(3)).unwrap());
        controller.delete_queue_pair(pair).unwrap();
        controller.shutdown().unwrap();
    });
}

#[test]
fn admin_commands_of_several_threads() {
    let device = SoftDevice::threaded(config()).unwrap();
    let controller = open(&device);
    std::thread::scope(|scope| {
        let threads = [(); 3].map(|()| {
            scope.spawn(|| {
                for _ in 0..100 {
                    controller.smart_log().unwrap();
                }
            })
        });
        threads.into_iter().for_each(|thread| thread.join().unwrap());
    });
    controller.shutdown().unwrap();
    assert_clean(&device);
}

#[test]
fn invalid_commands_keep_their_status() {
    on_both(&config(), |device| {
        let controller = open(device);
        let mut data = [0; 4096];
        let sqe = command::identify(warpbell_nvme::identify::Cns::NAMESPACE, 77);
        let error = controller.admin(sqe, Data::In(&mut data)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("Identify (CDW10 0x0, NSID 0x4d) failed: Invalid Namespace or Format"),
            "{text}"
        );
        controller.shutdown().unwrap();
    });
}

#[test]
fn time_is_virtual_in_simulation() {
    let device = SoftDevice::stepped(config()).unwrap();
    // Who waited for it in real time would not come back before the runner ends the test.
    let options = ControllerOptions::new().admin_timeout(Duration::from_secs(1000));
    let controller = Controller::open(device.clone(), options).unwrap();
    let before = device.clock().now();
    std::thread::sleep(Duration::from_millis(2));
    assert_eq!(device.clock().now(), before, "nothing but what the driver does moves it");
    controller.shutdown().unwrap();
    assert_clean(&device);
}

#[test]
fn a_controller_is_kept_alive_as_long_as_events_are_polled() {
    let device = SoftDevice::stepped(config()).unwrap();
    let controller = Controller::open(device.clone(), ControllerOptions::default()).unwrap();
    let kept = controller.set_keep_alive(Some(Duration::from_millis(950))).unwrap();
    assert_eq!(kept, Some(Duration::from_secs(1)), "in steps of 100 ms");
    let beats = || device.statistics().admin_commands[usize::from(AdminOpcode::KEEP_ALIVE.0)];
    for _ in 0..20 {
        device.advance(Duration::from_millis(300));
        assert!(controller.poll_events().unwrap().is_empty());
    }
    assert_eq!(beats(), 10, "one when half of the timeout is over, at every second look");
    assert_clean(&device);
    // A host that falls silent is taken for dead.
    device.advance(Duration::from_millis(1100));
    while device.step() {}
    assert!(controller.poll_events().unwrap_err().to_string().contains("fatal"));
    assert_eq!(device.violations()[0].rule, warpbell_softctl::Rule::KeepAliveExpired);
    // The reset sets the timer again, and the beats go on.
    controller.reset().unwrap();
    let before = beats();
    for _ in 0..20 {
        device.advance(Duration::from_millis(300));
        assert!(controller.poll_events().unwrap().is_empty());
    }
    assert_eq!(beats() - before, 10);
    assert_eq!(controller.set_keep_alive(None).unwrap(), None);
    device.advance(Duration::from_secs(5));
    controller.poll_events().unwrap();
    assert_eq!(device.statistics().violations, 1);
}
