//! Registers, enabling, shutdown and resets.

mod client;

use client::{Client, Pair, configuration, csts, memory, set_admin_queue, shut_down, wait_csts};
use warpbell_hw::{Device, ResetKind};
use warpbell_nvme::command;
use warpbell_nvme::feature::{FeatureId, FeatureSelect};
use warpbell_nvme::queue_command;
use warpbell_nvme::register::{Cap, Cc, Csts, NSSR_MAGIC, Shn, Shst, Vs, offset};
use warpbell_softctl::{Rule, SoftConfig, SoftDevice};

fn cc(device: &SoftDevice, value: Cc) {
    device.registers().write32(offset::CC, value.into_bits());
}

#[test]
fn capabilities_say_what_was_configured() {
    let config = SoftConfig::new().max_entries(128).stride(3);
    let device = SoftDevice::stepped(config).unwrap();
    let cap = Cap::from_bits(device.registers().read64(offset::CAP));
    assert_eq!((cap.max_queue_entries(), cap.dstrd()), (128, 3));
    assert!(cap.cqr() && cap.supports_nvm() && cap.supports_csi() && !cap.supports_wrr());
    assert!(cap.timeout_ms() >= 500);
    assert_eq!(cap.into_bits() as u32, device.registers().read32(offset::CAP));
    assert_eq!(Vs::from_bits(device.registers().read32(offset::VS)).to_string(), "2.0.0");
    assert!(device.violations().is_empty());
}

#[test]
fn enable_and_disable_take_virtual_time_when_stepped() {
    let device = SoftDevice::stepped(SoftConfig::default()).unwrap();
    let admin = Pair::new(&device, 0, 16);
    set_admin_queue(&device, &admin);
    cc(&device, configuration().with_en(true));
    assert!(!csts(&device).rdy(), "not at once");
    let before = device.clock().now();
    wait_csts(&device, Csts::rdy_is_set);
    assert!(device.clock().now() > before);
    cc(&device, configuration());
    assert!(csts(&device).rdy(), "not at once");
    wait_csts(&device, |csts| !csts.rdy());
    assert!(device.violations().is_empty());
}

trait Ready {
    fn rdy_is_set(self) -> bool;
}

impl Ready for Csts {
    fn rdy_is_set(self) -> bool {
        self.rdy()
    }
}

#[test]
fn a_controller_comes_up_again_after_each_kind_of_reset() {
    for mut client in Client::both(&SoftConfig::default()) {
        for round in 0..4 {
            client.number_of_queues(4);
            let mut pair = client.pair(1, 8);
            assert!(client.io(&mut pair, command::read(1, 0, 0), 0).is_ok());
            let device = client.device.clone();
            match round {
                0 => {
                    cc(&device, configuration());
                    wait_csts(&device, |csts| !csts.rdy());
                    assert_eq!(device.registers().read64(offset::ASQ), client.admin.sq_memory.iova().0);
                }
                1 => device.reset().reset(ResetKind::Function).unwrap(),
                2 => {
                    device.registers().write32(offset::NSSR, NSSR_MAGIC);
                    assert!(csts(&device).nssro());
                    device.registers().write32(offset::CSTS, Csts::new().with_nssro(true).into_bits());
                    assert!(!csts(&device).nssro());
                }
                _ => {
                    cc(&device, configuration().with_en(true).with_shn(Shn::NORMAL));
                    wait_csts(&device, |csts| csts.shst() == Shst::COMPLETE);
                    assert!(csts(&device).rdy(), "a shutdown leaves the controller ready");
                    cc(&device, configuration());
                    wait_csts(&device, |csts| !csts.rdy());
                    assert_eq!(csts(&device).shst(), Shst::NORMAL_OPERATION);
                }
            }
            drop(pair);
            client = Client::start(device);
        }
        client.assert_clean();
    }
}

#[test]
fn a_reset_forgets_queues_and_features_that_were_not_saved() {
    let mut client = Client::stepped(SoftConfig::default());
    let pair = client.pair(1, 8);
    client.admin_ok(command::set_features(FeatureId::TEMPERATURE_THRESHOLD, 300, 0));
    let mut saved = command::set_features(FeatureId::ERROR_RECOVERY, 9, 1);
    saved.cdw10 |= 1 << 31;
    client.admin_ok(saved);
    let device = client.device.clone();
    cc(&device, configuration());
    wait_csts(&device, |csts| !csts.rdy());
    let mut client = Client::start(device);
    let get = |fid, nsid| command::get_features(fid, FeatureSelect::CURRENT, nsid);
    assert_eq!(client.admin_ok(get(FeatureId::TEMPERATURE_THRESHOLD, 0)).dw0, 343);
    assert_eq!(client.admin_ok(get(FeatureId::ERROR_RECOVERY, 1)).dw0, 9);
    client.create(&pair);
    client.assert_clean();
}

#[test]
fn bad_configurations_are_fatal_and_named() {
    type Break = fn(&SoftDevice, &Pair);
    let cases: [(Break, &str); 7] = [
        (|device, _| device.registers().write32(offset::AQA, 15), "AQA.ACQS is 0"),
        (|device, _| device.registers().write32(offset::AQA, 15 << 16), "AQA.ASQS is 0"),
        (|device, pair| device.registers().write64(offset::ASQ, pair.sq_memory.iova().0 + 64), "not aligned"),
        (|device, _| device.registers().write64(offset::ACQ, 0x7_0000_0000), "not mapped"),
        (|device, _| cc(device, configuration().with_en(true).with_mps(5)), "CC.MPS is 5"),
        (|device, _| cc(device, configuration().with_en(true).with_ams(1.into())), "CC.AMS"),
        (|device, _| cc(device, configuration().with_en(true).with_css(7.into())), "CC.CSS"),
    ];
    for (break_it, what) in cases {
        let device = SoftDevice::stepped(SoftConfig::default()).unwrap();
        let admin = Pair::new(&device, 0, 16);
        set_admin_queue(&device, &admin);
        break_it(&device, &admin);
        if !Cc::from_bits(device.registers().read32(offset::CC)).en() {
            cc(&device, configuration().with_en(true));
        }
        wait_csts(&device, |csts| csts.cfs());
        assert!(!csts(&device).rdy());
        let violation = &device.violations()[0];
        assert!(violation.detail.contains(what), "{violation} should say {what:?}");
        // Only a reset helps.
        cc(&device, configuration());
        wait_csts(&device, |csts| !csts.cfs());
        Client::start(device);
    }
}

#[test]
fn cc_and_admin_registers_stay_as_they_are_while_enabled() {
    let client = Client::stepped(SoftConfig::default());
    cc(&client.device, configuration().with_en(true).with_mps(1));
    assert_eq!(Cc::from_bits(client.device.registers().read32(offset::CC)), configuration().with_en(true));
    client.device.registers().write64(offset::ASQ, 0);
    assert_eq!(client.device.registers().read64(offset::ASQ), client.admin.sq_memory.iova().0);
    assert_eq!(
        client.broken(),
        [Rule::CcChangedWhileEnabled, Rule::AdminQueueChanged, Rule::AdminQueueChanged]
    );
}

#[test]
fn odd_register_accesses_are_harmless_and_named() {
    let device = SoftDevice::stepped(SoftConfig::default()).unwrap();
    let registers = device.registers();
    assert_eq!(registers.read32(2), 0);
    assert_eq!(registers.read64(4), 0);
    registers.write32(offset::CAP, 1);
    registers.write64(offset::CC, 1);
    registers.write32(0x1000, 1);
    assert_eq!(registers.read32(offset::CMBSZ), 0, "no CMB");
    let broken: Vec<_> = device.violations().into_iter().map(|v| v.rule).collect();
    assert_eq!(broken, [Rule::RegisterAccess; 5]);
}

#[test]
fn commands_after_a_shutdown_are_violations_and_are_not_executed() {
    for mut client in Client::both(&memory(1 << 20, 512)) {
        let mut pair = client.pair(1, 8);
        cc(&client.device, configuration().with_en(true).with_shn(Shn::ABRUPT));
        wait_csts(&client.device, |csts| csts.shst() == Shst::COMPLETE);
        client.assert_clean();
        pair.push(&command::flush(1));
        pair.ring();
        client.settle();
        let deadline = client.device.clock().now() + std::time::Duration::from_secs(5);
        while client.broken().is_empty() {
            assert!(client.device.clock().now() < deadline);
            client.device.clock().pause(std::time::Duration::from_millis(1));
        }
        assert_eq!(client.broken(), [Rule::CommandAfterShutdown]);
        assert!(pair.poll().is_none());
    }
}

/// Rung while the poller sleeps, which looks at the doorbell only after the shutdown: the order of the writes counts.
#[test]
fn what_was_rung_before_a_shutdown_is_no_violation_however_late_it_is_seen() {
    for admin in [false, true] {
        for _ in 0..20 {
            let mut client = Client::threaded(memory(1 << 20, 512));
            let mut pair = client.pair(1, 8);
            std::thread::sleep(std::time::Duration::from_millis(5));
            let (of, command) = match admin {
                false => (&mut pair, command::flush(1)),
                true => (&mut client.admin, queue_command::keep_alive()),
            };
            of.push(&command);
            of.ring();
            shut_down(&client.device, Shn::NORMAL);
            // It sleeps for a hundredth of the time in which there was nothing to do.
            std::thread::sleep(std::time::Duration::from_millis(2));
            client.assert_clean();
        }
    }
}

#[test]
fn entry_sizes_may_be_set_until_there_is_an_io_queue() {
    let device = SoftDevice::stepped(memory(1 << 20, 512)).unwrap();
    let admin = Pair::new(&device, 0, client::ADMIN_ENTRIES);
    client::set_admin_queue(&device, &admin);
    device.registers().write32(offset::CC, Cc::new().with_en(true).into_bits());
    client::wait_csts(&device, |csts| csts.rdy());
    let wanted = client::configuration().with_en(true).into_bits();
    device.registers().write32(offset::CC, wanted);
    assert_eq!(device.registers().read32(offset::CC), wanted);
    assert!(device.violations().is_empty(), "{:?}", device.violations());
}
