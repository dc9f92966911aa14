//! What works on any SSD works over the socket, for one client after the other.

use std::time::Duration;

use warpbell_hw::{Device, DeviceKind, DoorbellPath};
use warpbell_tests::suite::{self, ResetOrder};
use warpbell_vfio::user::{DoorbellMode, ServerOptions, UserDevice, UserOptions};

use crate::served::{Served, open};
use warpbell_hw::{Lba, Nsid};

#[test]
fn everything_holds_with_mapped_doorbells() {
    let served = Served::new("size=16m", ServerOptions::default());
    let ssd = served.open();
    assert_eq!(ssd.info().kind, DeviceKind::VfioUser);
    assert_eq!(ssd.data_path().doorbells, DoorbellPath::Mapped);
    suite::kernels(&ssd, 1);
    suite::both_apis(&ssd, 1);
    suite::boundaries(&ssd, 1);
    suite::all_queues(&ssd);
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn everything_holds_with_message_doorbells() {
    let options = ServerOptions::new().doorbells(DoorbellMode::Message);
    let served = Served::new("size=16m,block=4096", options);
    let ssd = served.open();
    assert_eq!(ssd.data_path().doorbells, DoorbellPath::Forwarded);
    suite::kernels(&ssd, 1);
    suite::both_apis(&ssd, 1);
    suite::all_queues(&ssd);
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn a_reset_under_load_leaves_a_controller_that_works() {
    for doorbells in [DoorbellMode::Mapped, DoorbellMode::Message] {
        let served = Served::slow(ServerOptions::new().doorbells(doorbells));
        suite::reset_under_load(&served.open(), ResetOrder::AfterKernels);
        assert_eq!(served.soft.violations(), []);
    }
}

#[test]
fn a_client_may_send_messages_where_it_could_map() {
    let served = Served::new("size=16m", ServerOptions::default());
    let options = UserOptions::new().message_doorbells(true);
    let ssd = std::sync::Arc::new(open(&served.socket(), &options).unwrap());
    assert_eq!(ssd.data_path().doorbells, DoorbellPath::Forwarded);
    suite::kernels(&ssd, 1);
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn controller_memory_holds_rings() {
    let served = Served::new("size=16m,cmb=1m", ServerOptions::default());
    let options = warpbell::OpenOptions::new().rings(warpbell::RingPlacement::Cmb);
    let name = warpbell::DeviceName::VfioUser(served.socket());
    let ssd = std::sync::Arc::new(warpbell::Ssd::open(&name, &options).unwrap());
    suite::kernels(&ssd, 1);
    suite::works(&ssd);
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn clients_come_one_after_the_other_and_find_the_data() {
    let served = Served::new("size=16m", ServerOptions::default());
    let mut before = vec![0; 512];
    for round in 1..4u8 {
        let ssd = served.open();
        suite::works(&ssd);
        served.soft.peek(Nsid(1), Lba(3), &mut before).unwrap();
        assert_eq!(before, vec![round - 1; 512], "from the client before");
        warpbell_sim::Blocks::store(&*ssd, Nsid(1), Lba(3), &[round; 512]).unwrap();
        drop(ssd);
        served.wait_for(&format!("{round} gone: it left"));
    }
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn who_comes_while_another_is_served_waits_and_is_told_why() {
    let served = Served::new("size=16m", ServerOptions::default());
    let first = served.open();
    let impatient = UserOptions::new().timeout(Duration::from_millis(200));
    let text = open(&served.socket(), &impatient).err().expect("not yet").to_string();
    assert!(text.contains("VERSION of the device: no reply within 200ms"), "{text}");
    assert!(text.contains("serves another client"), "{text}");
    std::thread::scope(|scope| {
        // This one is patient.
        let second = scope.spawn(|| served.open());
        suite::works(&first);
        drop(first);
        suite::works(&second.join().unwrap());
    });
    assert_eq!(served.soft.violations(), []);
}

#[test]
fn the_function_reset_of_a_device_works_and_interrupts_survive_it() {
    let served = Served::new("size=16m", ServerOptions::default());
    let device = UserDevice::connect(&served.socket(), &UserOptions::default()).unwrap();
    let before = device.registers().read64(0);
    let event = device.interrupts().subscribe(0).unwrap();
    Device::reset(&*device).reset(warpbell_hw::ResetKind::Function).unwrap();
    assert_eq!(device.registers().read64(0), before);
    assert_eq!(device.registers().read32(0x1c), 0, "not ready");
    drop(event);
    drop(device);
    suite::works(&served.open());
    assert_eq!(served.soft.violations(), []);
}
