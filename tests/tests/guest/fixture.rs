//! The guest as tests see it.

use std::fs;
use std::path::Path;
use std::sync::Arc;

use warpbell::test_hooks::TestSsd;
use warpbell::{Bdf, DeviceName, ForeignMemory, OpenOptions, Ssd};
use warpbell_hw::Device;
use warpbell_vfio::pci::{self, BindOptions, BindPlan, Sysfs};
use warpbell_vfio::{PciDevice, PciOptions};

/// Bytes of each SSD, unless its scene says otherwise.
pub const SSD_BYTES: u64 = 64 << 20;

/// Whether this is the guest, booted as `scene`; says so if not.
pub fn is(scene: &str) -> bool {
    let here = std::env::var("WARPBELL_SCENE").unwrap_or_default();
    if here != scene {
        println!("skipped: only in the guest (scripts/guest test {scene})");
    }
    here == scene
}

/// The SSDs, in the order of the machine's root ports: number N has serial number `WARP<N>`.
pub fn ssds() -> Vec<Bdf> {
    let functions = pci::functions(&Sysfs::system());
    functions.into_iter().filter(|function| function.is_nvme()).map(|function| function.bdf).collect()
}

/// BAR 2 of the machine's memory device, which stands for a GPU: memory that another PCI function owns.
pub fn foreign() -> Arc<ForeignMemory> {
    let devices = fs::read_dir("/sys/bus/pci/devices").expect("sysfs").map_while(Result::ok);
    let is_memory =
        |path: &Path| fs::read_to_string(path.join("class")).is_ok_and(|class| class.trim() == "0x050000");
    let folder = devices.map(|entry| entry.path()).find(|path| is_memory(path)).expect("an ivshmem device");
    fs::write(folder.join("enable"), "1").expect("enabled");
    let bdf = folder.file_name().and_then(|name| name.to_str()).and_then(|name| name.parse().ok());
    ForeignMemory::bar(bdf.expect("an address"), 2).unwrap_or_else(|error| panic!("{error}"))
}

/// Interrupts that the kernel has taken from a function for VFIO.
pub fn interrupts(bdf: Bdf) -> u64 {
    let text = fs::read_to_string("/proc/interrupts").expect("interrupts");
    let ours = text.lines().filter(|line| line.contains("vfio") && line.contains(&bdf.to_string()));
    // A column for each processor follows the number of the interrupt.
    let of_line = |line: &str| -> u64 {
        line.split_whitespace().skip(1).map_while(|column| column.parse::<u64>().ok()).sum()
    };
    ours.map(of_line).sum()
}

/// Binds SSD `number` to vfio-pci, by our own plan.
pub fn bind(number: usize) -> Bdf {
    let bdf = ssds()[number];
    let system = Sysfs::system();
    let plan = BindPlan::new(&system, bdf, &[bdf], &BindOptions::default()).expect("a plan");
    assert!(plan.refusals.is_empty() && plan.missing.is_empty(), "{:?} {:?}", plan.refusals, plan.missing);
    plan.carry_out(&system, &system, &mut |_| {}).unwrap_or_else(|error| panic!("{bdf}: {error}"));
    bdf
}

/// SSD `number` as a device.
pub fn device(number: usize) -> Arc<PciDevice> {
    let bdf = bind(number);
    PciDevice::open(bdf, &PciOptions::default()).unwrap_or_else(|error| panic!("{bdf}: {error}"))
}

/// SSD `number`, its controller up.
pub fn open(number: usize, options: &OpenOptions) -> Arc<Ssd> {
    let name = DeviceName::Pci(bind(number));
    Arc::new(Ssd::open(&name, options).unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// Brings the controller of a device up. What the system asks of its function is the caller's to know.
pub fn over(device: Arc<PciDevice>, options: &OpenOptions) -> Arc<Ssd> {
    let name = DeviceName::Pci(device.bdf());
    let device: Arc<dyn Device> = device;
    let ssd = Ssd::over_device(name.clone(), device, None, options);
    Arc::new(ssd.unwrap_or_else(|error| panic!("{name}: {error}")))
}

/// SSD `number` with default options.
pub fn plain(number: usize) -> Arc<Ssd> {
    open(number, &OpenOptions::default())
}
