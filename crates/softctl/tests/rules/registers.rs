//! Registers: access, CC, the admin queue, shutdown and resets.

use std::sync::Arc;

use warpbell_hw::Device;
use warpbell_nvme::register::{Cc, Shn, Shst, offset};
use warpbell_softctl::{SoftConfig, SoftDevice};

use crate::client::{Pair, configuration, csts, set_admin_queue, wait_csts};
use crate::{Scene, cases, keep, start};

/// A controller that is not enabled, with its admin queue set.
fn disabled() -> (Arc<SoftDevice>, Pair) {
    let device = SoftDevice::stepped(SoftConfig::default()).unwrap();
    let admin = Pair::new(&device, 0, 16);
    set_admin_queue(&device, &admin);
    (device, admin)
}

fn cc(device: &SoftDevice, cc: Cc) {
    device.registers().write32(offset::CC, cc.into_bits());
}

/// Enables the controller with `with`, which is fatal.
fn fatal(with: Cc, prepare: impl FnOnce(&SoftDevice, &Pair)) -> Scene {
    let (device, admin) = disabled();
    prepare(&device, &admin);
    cc(&device, with.with_en(true));
    wait_csts(&device, |csts| csts.cfs());
    assert!(!csts(&device).rdy());
    (device, Box::new(admin))
}

/// Accesses registers of a controller that is not enabled.
fn touch(access: impl FnOnce(&SoftDevice)) -> Scene {
    let (device, admin) = disabled();
    access(&device);
    (device, Box::new(admin))
}

cases! {
    a_register_at_an_odd_offset: RegisterAccess, ["4 bytes to register 0x2"], || touch(|device| {
        assert_eq!(device.registers().read32(2), 0);
    });
    a_wide_read_across_registers: RegisterAccess, ["8 bytes to register 0x4"], || touch(|device| {
        assert_eq!(device.registers().read64(4), 0);
    });
    a_register_among_the_doorbells: RegisterAccess, ["4 bytes to register 0x1000"], || touch(|device| {
        device.registers().write32(0x1000, 1);
    });
    a_register_that_is_read_only: RegisterAccess, ["write of 0x1 to register 0x0"], || touch(|device| {
        device.registers().write32(offset::CAP, 1);
    });
    a_memory_buffer_that_there_is_not: RegisterAccess, ["register 0x50", "read only or reserved"], || touch(|device| {
        device.registers().write32(0x50, 1);
    });
    a_wide_write_to_a_narrow_register: RegisterAccess, ["64 bits to register 0x18"], || touch(|device| {
        device.registers().write64(0x18, 1);
    });
    an_interrupt_mask: InterruptMask, ["write of 0x1 to register 0xc", "MSI-X"], || touch(|device| {
        device.registers().write32(offset::INTMS, 1);
        device.registers().write32(offset::INTMC, 1);
    });
    a_subsystem_reset_with_a_wrong_value: SubsystemReset, ["0x1234", "0x4e564d65"], || touch(|device| {
        device.registers().write32(offset::NSSR, 0x1234);
        assert!(!csts(device).nssro(), "nothing was reset");
    });
    reserved_bits_of_cc: ReservedField, ["CC bits 0x2"], || touch(|device| {
        device.registers().write32(offset::CC, configuration().into_bits() | 2);
    });
    reserved_bits_of_aqa: ReservedField, ["AQA bits 0x1000"], || touch(|device| {
        device.registers().write32(offset::AQA, 0x000f_100f);
    });
    cc_changed_while_enabled: CcChangedWhileEnabled, ["CC from 0x460001 to 0x470001"], || {
        let (client, pair) = start();
        cc(&client.device, configuration().with_en(true).with_iosqes(7));
        let now = client.device.registers().read32(offset::CC);
        assert_eq!(Cc::from_bits(now), configuration().with_en(true), "CC stays as it was");
        keep(client, pair)
    };
    the_admin_queue_moved_while_enabled: AdminQueueChanged, ["register 0x28 while CC.EN is set"], || {
        let (client, pair) = start();
        client.device.registers().write64(offset::ASQ, 0);
        let now = client.device.registers().read64(offset::ASQ);
        assert_eq!(now, client.admin.sq_memory.iova().0);
        keep(client, pair)
    };
    admin_attributes_changed_while_enabled: AdminQueueChanged, ["0x30003 to register 0x24"], || {
        let (client, pair) = start();
        client.device.registers().write32(offset::AQA, 0x3_0003);
        keep(client, pair)
    };
    an_admin_queue_of_one_entry: EnableConfiguration, ["AQA.ASQS is 0", "2 entries"], || {
        fatal(configuration(), |device, _| device.registers().write32(offset::AQA, 15 << 16))
    };
    an_admin_completion_queue_of_one_entry: EnableConfiguration, ["AQA.ACQS is 0"], || {
        fatal(configuration(), |device, _| device.registers().write32(offset::AQA, 15))
    };
    an_admin_queue_inside_a_page: EnableConfiguration, ["ASQ", "not aligned to 4096 bytes"], || {
        fatal(configuration(), |device, pair| {
            device.registers().write64(offset::ASQ, pair.sq_memory.iova().0 + 64);
        })
    };
    a_memory_page_that_is_too_large: EnableConfiguration, ["CC.MPS is 5, the largest is 4"], || {
        fatal(configuration().with_mps(5), |_, _| {})
    };
    an_arbitration_that_there_is_not: EnableConfiguration, ["CC.AMS"], || {
        fatal(configuration().with_ams(7.into()), |_, _| {})
    };
    a_command_set_that_there_is_not: EnableConfiguration, ["CC.CSS"], || {
        fatal(configuration().with_css(5.into()), |_, _| {})
    };
    ready_independent_of_media: EnableConfiguration, ["CC.CRIME is not supported"], || {
        fatal(configuration().with_crime(true), |_, _| {})
    };
    an_admin_queue_in_unmapped_memory: ForeignAddress, ["admin queue", "0x700000000"], || {
        fatal(configuration(), |device, _| device.registers().write64(offset::ACQ, 0x7_0000_0000))
    };
    admin_queues_that_overlap: QueueOverlap, ["admin completion queue", "where the admin submission queue"], || {
        let (device, admin) = disabled();
        let buffer = warpbell_hw::DmaBuffer::host(device.dma(), 4096).unwrap();
        device.registers().write64(offset::ASQ, buffer.iova().0);
        device.registers().write64(offset::ACQ, buffer.iova().0);
        cc(&device, configuration().with_en(true));
        wait_csts(&device, |csts| csts.cfs());
        (device, Box::new((admin, buffer)))
    };
    disabled_before_it_is_ready: EnableTransition, ["CC.EN from 1 to 0 before CSTS.RDY became 1"], || {
        let (device, admin) = disabled();
        cc(&device, configuration().with_en(true));
        cc(&device, configuration());
        wait_csts(&device, |csts| !csts.rdy());
        (device, Box::new(admin))
    };
    a_reserved_shutdown: ShutdownNotification, ["SHN is 01b or 10b"], || {
        let (client, pair) = start();
        cc(&client.device, configuration().with_en(true).with_shn(Shn(3)));
        client.settle();
        assert_eq!(csts(&client.device).shst(), Shst::NORMAL_OPERATION);
        keep(client, pair)
    };
    a_shutdown_together_with_a_reset: ShutdownNotification, ["changes while EN is set"], || {
        let (client, pair) = start();
        cc(&client.device, configuration().with_shn(Shn::NORMAL));
        // The reset is a reset all the same.
        wait_csts(&client.device, |csts| !csts.rdy());
        keep(client, pair)
    };
}

#[test]
fn enabled_again_before_it_is_not_ready() {
    // Two rules at once: the transition, and the enabling that it makes fatal.
    let (client, _pair) = start();
    cc(&client.device, configuration());
    cc(&client.device, configuration().with_en(true));
    wait_csts(&client.device, |csts| csts.cfs());
    let details: Vec<String> = client.device.violations().into_iter().map(|v| v.detail).collect();
    assert!(details[0].contains("CC.EN from 0 to 1 before CSTS.RDY became 0"), "{details:?}");
    assert!(details[1].contains("RDY is still set"), "{details:?}");
}
