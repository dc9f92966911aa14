//! A synthetic machine: its tree of files, and a kernel that binds drivers in it.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::step::Apply;
use super::{Bdf, Function, Step, Sysfs, function};

/// A tree with SSDs, without a process, mount or swap.
pub struct Fake {
    root: tempfile::TempDir,
}

impl Fake {
    pub fn new() -> Fake {
        let fake = Fake { root: tempfile::tempdir().unwrap() };
        fake.dir("/sys/bus/pci/drivers/vfio-pci");
        fake.dir("/dev/vfio");
        fake.write("/proc/self/mountinfo", "22 1 0:21 / /proc rw - proc proc rw\n");
        fake.write("/proc/swaps", "Filename\t\t\t\tType\t\tSize\tUsed\tPriority\n");
        fake
    }

    pub fn sysfs(&self) -> Sysfs {
        Sysfs::at(self.root.path())
    }

    pub fn dir(&self, path: &str) {
        fs::create_dir_all(self.sysfs().path(path)).unwrap();
    }

    pub fn write(&self, path: &str, text: &str) {
        let path = self.sysfs().path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    pub fn link(&self, path: &str, target: &str) {
        let path = self.sysfs().path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        let _ = fs::remove_file(&path);
        symlink(target, path).unwrap();
    }

    /// An SSD `nvmeINDEX` of 1 MiB that the nvme driver owns, in group 57 + INDEX.
    pub fn ssd(&self, bdf: &str, index: u32, serial: &str) {
        let folder = format!("/sys/bus/pci/devices/{bdf}");
        for (name, text) in [
            ("class", "0x010802"),
            ("vendor", "0x1b36"),
            ("device", "0x0010"),
            ("numa_node", "1"),
            ("driver_override", "(null)"),
            ("current_link_speed", "16.0 GT/s PCIe"),
            ("current_link_width", "4"),
        ] {
            self.write(&format!("{folder}/{name}"), &format!("{text}\n"));
        }
        let group = format!("/sys/kernel/iommu_groups/{}", 57 + index);
        self.link(&format!("{folder}/iommu_group"), &format!("../../../..{group}"));
        self.dir(&format!("{group}/devices/{bdf}"));
        self.controller(bdf, index, serial);
        self.set_driver(bdf, Some("nvme"));
    }

    fn controller(&self, bdf: &str, index: u32, serial: &str) {
        let nvme = format!("/sys/bus/pci/devices/{bdf}/nvme/nvme{index}");
        self.write(&format!("{nvme}/model"), "Vendor B 3.8T        \n");
        self.write(&format!("{nvme}/serial"), &format!("{serial}\n"));
        self.dir(&format!("{nvme}/nvme{index}n1"));
        self.write(&format!("/sys/class/nvme/nvme{index}/dev"), &format!("245:{index}\n"));
        self.write(&format!("/dev/nvme{index}"), "");
        self.block(&format!("nvme{index}n1"), &format!("259:{index}"));
        fs::write(self.sysfs().path(format!("/dev/nvme{index}n1")), vec![0; 1 << 20]).unwrap();
    }

    pub fn block(&self, name: &str, dev: &str) {
        let folder = format!("/sys/class/block/{name}");
        self.write(&format!("{folder}/dev"), &format!("{dev}\n"));
        self.write(&format!("{folder}/size"), "2048\n");
        self.write(&format!("{folder}/queue/logical_block_size"), "512\n");
        self.dir(&format!("{folder}/holders"));
    }

    pub fn partition(&self, disk: &str, name: &str, dev: &str) {
        self.write(&format!("/sys/class/block/{disk}/{name}/partition"), "1\n");
        self.block(name, dev);
    }

    pub fn holder(&self, held: &str, holder: &str, dev: &str) {
        self.dir(&format!("/sys/class/block/{held}/holders/{holder}"));
        self.block(holder, dev);
    }

    pub fn mount(&self, dev: &str, point: &str, kind: &str, source: &str) {
        let path = self.sysfs().path("/proc/self/mountinfo");
        let line = format!("36 35 {dev} / {point} rw,noatime master:1 - {kind} {source} rw\n");
        fs::write(&path, fs::read_to_string(&path).unwrap() + &line).unwrap();
    }

    pub fn open(&self, pid: u32, command: &str, node: &str) {
        self.write(&format!("/proc/{pid}/comm"), &format!("{command}\n"));
        self.link(&format!("/proc/{pid}/fd/3"), node);
    }

    /// Another function in the group of `bdf`, no SSD.
    pub fn mate(&self, bdf: &str, mate: &str, driver: Option<&str>) {
        let group = self.function(bdf).group.unwrap().number;
        self.write(&format!("/sys/bus/pci/devices/{mate}/class"), "0x030200\n");
        self.dir(&format!("/sys/kernel/iommu_groups/{group}/devices/{mate}"));
        self.set_driver(mate, driver);
    }

    pub fn function(&self, bdf: &str) -> Function {
        function(&self.sysfs(), bdf.parse().unwrap()).unwrap()
    }

    /// Changes a function's owner: controllers are there while nvme owns it, VFIO nodes while vfio-pci does.
    pub fn set_driver(&self, bdf: &str, driver: Option<&str>) {
        let folder = self.sysfs().path(format!("/sys/bus/pci/devices/{bdf}"));
        let (shown, hidden) = (folder.join("nvme"), folder.join(".nvme"));
        let (from, to) = if driver == Some("nvme") { (hidden, shown) } else { (shown, hidden) };
        if from.exists() {
            fs::rename(from, to).unwrap();
        }
        let _ = fs::remove_file(folder.join("driver"));
        if let Some(driver) = driver {
            self.dir(&format!("/sys/bus/pci/drivers/{driver}"));
            self.link(&format!("/sys/bus/pci/devices/{bdf}/driver"), &format!("../../drivers/{driver}"));
        }
    }
}

/// A kernel for that tree.
pub struct FakeKernel<'a> {
    pub fake: &'a Fake,
    /// Whether vfio-pci takes what it is offered.
    pub takes: bool,
    /// Whether nodes appear.
    pub makes_nodes: bool,
}

impl FakeKernel<'_> {
    pub fn of(fake: &Fake) -> FakeKernel<'_> {
        FakeKernel { fake, takes: true, makes_nodes: true }
    }

    fn probe(&self, bdf: &str) {
        let function = self.fake.function(bdf);
        let driver = function.driver_override.as_deref().unwrap_or("nvme");
        if function.driver.is_some() || (driver == "vfio-pci" && !self.takes) {
            return;
        }
        self.fake.set_driver(bdf, Some(driver));
        if driver == "vfio-pci" && self.makes_nodes {
            self.fake.write(&self.fake.function(bdf).vfio_nodes()[0], "");
        }
    }
}

impl Apply for FakeKernel<'_> {
    fn apply(&self, step: &Step) -> io::Result<()> {
        let Step::Write { path, text } = step else { return self.fake.sysfs().apply(step) };
        match Path::new(path).file_name().unwrap().to_str().unwrap() {
            "driver_override" => {
                let text = if text.is_empty() { "(null)" } else { text };
                self.fake.write(path, &format!("{text}\n"));
            }
            "drivers_probe" => self.probe(text),
            "unbind" => {
                let nodes =
                    text.parse::<Bdf>().map(|bdf| function(&self.fake.sysfs(), bdf).unwrap().vfio_nodes());
                self.fake.set_driver(text, None);
                for node in nodes.unwrap() {
                    let _ = fs::remove_file(self.fake.sysfs().path(node));
                }
            }
            name => panic!("no such attribute: {name}"),
        }
        Ok(())
    }
}
