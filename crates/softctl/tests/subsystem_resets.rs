//! Resets and shutdowns of the whole subsystem, and of a controller in any state.

mod client;

use client::{Client, configuration, csts, memory, parsed, set_admin_queue, shut_down, wait_csts};
use warpbell_hw::{Device, ResetKind};
use warpbell_nvme::Status;
use warpbell_nvme::command::{self, AsyncEvent, AsyncEventType, AsyncImmediateInfo};
use warpbell_nvme::feature::{AsyncEventConfig, FeatureId};
use warpbell_nvme::log::{LogPageId, SmartLog};
use warpbell_nvme::queue_command;
use warpbell_nvme::register::{Cap, Cc, Csts, NSSD_ABRUPT, NSSD_NORMAL, NSSR_MAGIC, Shn, Shst, offset};
use warpbell_softctl::{CompletionOrder, Rule, SoftDevice, Subsystem};

fn write(device: &SoftDevice, at: u32, value: u32) {
    device.registers().write32(at, value);
}

fn pairs() -> [[Client; 2]; 2] {
    let config = memory(1 << 20, 512);
    let (one, two) =
        (Subsystem::new(&config).expect("a controller"), Subsystem::new(&config).expect("a controller"));
    [
        [1, 2].map(|_| Client::start(SoftDevice::stepped_on(&one, config.clone()).expect("a controller"))),
        [1, 2].map(|_| Client::start(SoftDevice::threaded_on(&two, config.clone()).expect("a controller"))),
    ]
}

fn smart(client: &mut Client) -> SmartLog {
    parsed(&client.admin_data(command::get_log_page(LogPageId::SMART, 0, 127, 0, true)))
}

#[test]
fn a_subsystem_reset_resets_every_controller() {
    for [one, mut two] in pairs() {
        assert!(Cap::from_bits(one.device.registers().read64(offset::CAP)).nssrs());
        let mut queues = two.pair(1, 8);
        assert!(two.io(&mut queues, command::write(1, 0, 0), 0).is_ok());
        two.admin.push(&command::async_event_request().with_cid(1));
        two.admin.ring();
        write(&one.device, offset::NSSR, NSSR_MAGIC);
        for device in [&one.device, &two.device] {
            let state = csts(device);
            assert!(state.nssro() && !state.rdy(), "{state:?}");
            assert_eq!(device.registers().read32(offset::CC), 0);
            write(device, offset::CSTS, Csts::new().with_nssro(true).into_bits());
            assert!(!csts(device).nssro());
        }
        assert!(queues.poll().is_none());
        let devices = [one.device.clone(), two.device.clone()];
        let [mut one, _two] = devices.map(Client::start);
        let log = smart(&mut one);
        assert_eq!((log.power_cycles.get(), log.unsafe_shutdowns.get()), (1, 0), "the power stayed on");
        one.assert_clean();
    }
}

#[test]
fn a_subsystem_shutdown_is_announced_and_shuts_every_controller_down() {
    for normal in [true, false] {
        for [mut one, mut two] in pairs() {
            assert!(Cap::from_bits(one.device.registers().read64(offset::CAP)).nsss());
            let enable = AsyncEventConfig::new().with_subsystem_shutdown(true).into_bits();
            two.admin_ok(command::set_features(FeatureId::ASYNC_EVENT_CONFIG, enable, 0));
            two.admin.push(&command::async_event_request().with_cid(0x77));
            two.admin.ring();
            two.settle();
            // A threaded controller has fetched the request once it answers the next command.
            two.number_of_queues(4);
            write(&one.device, offset::NSSD, if normal { NSSD_NORMAL } else { NSSD_ABRUPT });
            for device in [&one.device, &two.device] {
                wait_csts(device, |csts| csts.shst() == Shst::COMPLETE && csts.st());
            }
            match two.admin.poll() {
                Some(entry) => {
                    assert!(normal, "an abrupt shutdown is not announced");
                    let event = AsyncEvent::from_bits(entry.dw0);
                    let info = AsyncImmediateInfo::NORMAL_SUBSYSTEM_SHUTDOWN.0;
                    assert_eq!(
                        (entry.cid, event.event_type(), event.info()),
                        (0x77, AsyncEventType::IMMEDIATE, info)
                    );
                }
                None => assert!(!normal),
            }
            // A reset of each brings it back.
            for client in [&mut one, &mut two] {
                write(&client.device, offset::CC, 0);
                wait_csts(&client.device, |csts| !csts.rdy());
                assert_eq!(csts(&client.device).shst(), Shst::NORMAL_OPERATION);
                assert!(!csts(&client.device).st());
            }
            let mut one = Client::start(one.device.clone());
            one.device.power_loss(1.0);
            one = Client::start(one.device.clone());
            assert_eq!(smart(&mut one).power_cycles.get(), 2);
            one.assert_clean();
        }
    }
}

#[test]
fn power_that_fails_under_a_controller_counts_as_unsafe_unless_all_were_shut_down() {
    for (how, is_unsafe) in [(None, 1), (Some(Shn::NORMAL), 0), (Some(Shn::ABRUPT), 0)] {
        for [one, two] in pairs() {
            if let Some(how) = how {
                shut_down(&one.device, how);
                shut_down(&two.device, how);
            }
            one.device.power_loss(1.0);
            wait_csts(&two.device, |csts| !csts.rdy());
            let mut two = Client::start(two.device.clone());
            let log = smart(&mut two);
            assert_eq!((log.power_cycles.get(), log.unsafe_shutdowns.get()), (2, is_unsafe), "{how:?}");
        }
    }
}

#[test]
fn a_controller_can_be_reset_while_csts_is_about_to_change() {
    let config = memory(1 << 20, 512);
    for seed in 0..20 {
        let device = SoftDevice::stepped(config.clone().seed(seed)).unwrap();
        let admin = client::Pair::new(&device, 0, 16);
        set_admin_queue(&device, &admin);
        let enable = configuration().with_en(true);
        // About to become ready: disabled, or reset.
        write(&device, offset::CC, enable.into_bits());
        if seed % 2 == 0 {
            write(&device, offset::CC, configuration().into_bits());
        } else {
            device.reset().reset(ResetKind::Function).unwrap();
        }
        wait_csts(&device, |csts| !csts.rdy());
        drop(admin);
        // About to be shut down: disabled.
        let client = Client::start(device);
        let device = client.device.clone();
        write(&device, offset::CC, enable.with_shn(Shn::NORMAL).into_bits());
        assert_eq!(csts(&device).shst(), Shst::OCCURRING);
        write(&device, offset::CC, configuration().into_bits());
        wait_csts(&device, |csts| !csts.rdy());
        assert_eq!(csts(&device).shst(), Shst::NORMAL_OPERATION);
        assert!(!Cc::from_bits(device.registers().read32(offset::CC)).en());
        let mut client = Client::start(device);
        let mut pair = client.pair(1, 8);
        assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
        // To disable a controller before it is ready is possible, and wrong.
        let expected = if seed % 2 == 0 { vec![Rule::EnableTransition] } else { vec![] };
        assert_eq!(client.broken(), expected);
    }
}

#[test]
fn nothing_of_a_controller_in_full_work_survives_its_reset() {
    let order = CompletionOrder::Shuffled { window: 16 };
    for seed in 0..20 {
        let mut client = Client::stepped(memory(1 << 20, 512).order(order).seed(seed));
        let mut pair = client.pair(1, 64);
        for cid in 0..4 {
            client.admin.push(&command::async_event_request().with_cid(0x100 + cid));
        }
        client.admin.ring();
        for cid in 0..40 {
            pair.push(&command::flush(1).with_cid(cid));
        }
        pair.ring();
        for _ in 0..seed {
            client.device.step();
        }
        let device = client.device.clone();
        match seed % 3 {
            0 => write(&device, offset::CC, configuration().into_bits()),
            1 => device.reset().reset(ResetKind::Function).unwrap(),
            _ => write(&device, offset::NSSR, NSSR_MAGIC),
        }
        wait_csts(&device, |csts| !csts.rdy());
        while pair.poll().is_some() {}
        while client.admin.poll().is_some() {}
        client.settle();
        assert!(pair.poll().is_none() && client.admin.poll().is_none(), "seed {seed}");
        let violations = device.violations().len();
        drop((client, pair));
        let mut client = Client::start(device);
        let mut pair = client.pair(1, 8);
        assert!(client.io(&mut pair, command::flush(1), 0).is_ok());
        // The head doorbells after the reset were the client's fault, and nothing since.
        assert_eq!(client.device.violations().len(), violations);
    }
}

#[test]
fn queues_can_be_deleted_with_commands_in_flight_and_requests_outstanding() {
    let order = CompletionOrder::Shuffled { window: 16 };
    for seed in 0..20u64 {
        let mut client = Client::stepped(memory(1 << 20, 512).order(order).seed(seed));
        client.admin.push(&command::async_event_request().with_cid(0x100));
        let mut pair = client.pair(1, 64);
        for cid in 0..40 {
            pair.push(&command::flush(1).with_cid(cid));
        }
        pair.ring();
        for _ in 0..seed * 3 {
            client.device.step();
        }
        client.admin_ok(queue_command::delete_io_sq(1));
        let mut seen = Vec::new();
        while let Some(entry) = pair.poll() {
            assert!(entry.status().is_ok() || entry.status() == Status::ABORTED_SQ_DELETION);
            seen.push(entry.cid);
        }
        client.admin_ok(queue_command::delete_io_cq(1));
        let count = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), count, "seed {seed}: each command completes once");
        let again = client.pair(1, 8);
        client.assert_clean();
        drop(again);
    }
}
