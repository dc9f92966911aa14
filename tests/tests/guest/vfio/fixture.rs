//! What the tests share: which functions there are, and commands to them.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warpbell_driver::{Controller, ControllerOptions, IoQueue, IoQueueOptions, Outcome, QueueSpec};
use warpbell_hw::{DmaBuffer, Iova};
use warpbell_nvme::command::{self, Sqe};
use warpbell_vfio::pci::{self, Function, Sysfs};
use warpbell_vfio::{Bdf, PciDevice, PciOptions};

/// How long anything may take before a test fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// The machine, for one test.
pub struct Fixture;

impl Fixture {
    /// None, with a word on it, where this is not the guest: these tests write to SSDs.
    pub fn new() -> Option<Fixture> {
        crate::fixture::is("vfio").then_some(Fixture)
    }

    /// The function with this serial number, bound to vfio-pci.
    pub fn ssd(&self, serial: &str) -> Bdf {
        let bdf = self.function(serial);
        bind(bdf);
        bdf
    }

    /// The function with this serial number, wherever it is bound.
    pub fn function(&self, serial: &str) -> Bdf {
        static SEEN: Mutex<Vec<(String, Bdf)>> = Mutex::new(Vec::new());
        let mut seen = SEEN.lock();
        // Only the kernel's driver knows serial numbers, so all are noted before the first is bound.
        if seen.is_empty() {
            wait_for("the kernel's driver knows the serial numbers of WARP0, 1 and MATE0, 1", || {
                let functions = pci::functions(&Sysfs::system());
                let serials = |function: &Function| Some((function.serial()?.to_owned(), function.bdf));
                *seen = functions.iter().filter_map(serials).collect();
                seen.len() == 4
            });
        }
        seen.iter().find(|(name, _)| name == serial).unwrap_or_else(|| panic!("no SSD {serial}: {seen:?}")).1
    }

    /// The function that stands for a GPU.
    pub fn gpu(&self) -> Bdf {
        let names = fs::read_dir("/sys/bus/pci/devices").unwrap().flatten();
        let is_gpu = |path: &Path| fs::read_to_string(path.join("device")).unwrap().trim() == "0x1110";
        let mut found = names.filter(|entry| is_gpu(&entry.path()));
        let name = found.next().expect("an ivshmem device").file_name();
        fs::write(Path::new("/sys/bus/pci/devices").join(&name).join("enable"), "1").unwrap();
        name.to_str().unwrap().parse().unwrap()
    }
}

pub fn bind(bdf: Bdf) {
    hand_over(bdf, "vfio-pci", "vfio-pci");
}

/// Returns a function to the kernel's driver.
pub fn release(bdf: Bdf) {
    hand_over(bdf, "nvme", "\n");
}

fn hand_over(bdf: Bdf, driver: &str, by: &str) {
    let folder = format!("/sys/bus/pci/devices/{bdf}");
    if fs::read_link(format!("{folder}/driver")).is_ok_and(|found| found.ends_with(driver)) {
        return;
    }
    fs::write(format!("{folder}/driver_override"), by).unwrap();
    if Path::new(&format!("{folder}/driver")).exists() {
        fs::write(format!("{folder}/driver/unbind"), bdf.to_string()).unwrap();
    }
    fs::write("/sys/bus/pci/drivers_probe", bdf.to_string()).unwrap();
}

pub fn open(bdf: Bdf) -> Arc<PciDevice> {
    PciDevice::open(bdf, &PciOptions::default()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn control(device: &Arc<PciDevice>) -> Controller {
    Controller::open(device.clone(), ControllerOptions::new().queues(4)).unwrap()
}

pub fn io_queue(controller: &Controller, spec: QueueSpec) -> IoQueue {
    let pair = controller.create_queue_pair(spec).unwrap();
    IoQueue::new(pair, IoQueueOptions::new().timeout(PATIENCE)).unwrap()
}

/// Writes blocks with a pattern of `seed`, reads them back to elsewhere in the buffer and compares.
pub fn write_and_compare(queue: &mut IoQueue, buffer: &DmaBuffer, seed: u64) {
    const BLOCK: usize = 512;
    let (window, Iova(iova)) = (buffer.window(), buffer.iova());
    for lba in 0..40u64 {
        let pattern: Vec<u8> = (0..BLOCK).map(|index| (lba * 37 + seed * 101) as u8 ^ index as u8).collect();
        window.write(0, &pattern).unwrap();
        window.fill(4096, BLOCK, 0).unwrap();
        succeed(queue, command::write(1, lba, 0).with_prp(iova, 0));
        succeed(queue, command::read(1, lba, 0).with_prp(iova + 4096, 0));
        assert_eq!(window.to_vec(4096, BLOCK).unwrap(), pattern, "block {lba}");
    }
}

pub fn succeed(queue: &mut IoQueue, sqe: Sqe) {
    match queue.execute(&sqe).unwrap().outcome {
        Outcome::Completed(status) => assert!(status.is_ok(), "{status:?}"),
        Outcome::TimedOut => panic!("execute reports timeouts as errors"),
    }
}

pub fn wait_for(what: &str, mut done: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !done() {
        assert!(Instant::now() < end, "not within {PATIENCE:?}: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}
