//! NVMe functions, their drivers, IOMMU groups and namespaces.

use super::block::{self, Namespace};
use super::{Bdf, Binding, Sysfs};

/// The driver that lends functions to programs.
pub const VFIO_PCI: &str = "vfio-pci";

/// A PCI function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Function {
    /// Its address.
    pub bdf: Bdf,
    /// Class code with programming interface, such as 0x010802.
    pub class: u32,
    /// Vendor ID.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Kernel driver that owns it.
    pub driver: Option<String>,
    /// The only driver that may take it, if one is set.
    pub driver_override: Option<String>,
    /// Its IOMMU group.
    pub group: Option<Group>,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// The PCIe link as it is now.
    pub link: Option<Link>,
    /// Name of its VFIO character device, such as `vfio0`, where the kernel has them.
    pub vfio_cdev: Option<String>,
    /// Controllers that the kernel's NVMe driver made of it.
    pub controllers: Vec<NvmeController>,
    /// Namespaces that the kernel's NVMe driver shows.
    pub namespaces: Vec<Namespace>,
    /// What was noted when it was bound.
    pub binding: Option<Binding>,
}

/// An IOMMU group: the functions that the IOMMU cannot tell apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Its number.
    pub number: u32,
    /// Whether there is no IOMMU behind it (VFIO's no-IOMMU mode).
    pub no_iommu: bool,
    /// The other functions in it.
    pub mates: Vec<Mate>,
}

/// Another function of a group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mate {
    /// Its address.
    pub bdf: Bdf,
    /// Kernel driver that owns it.
    pub driver: Option<String>,
}

/// A PCIe link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Link {
    /// Speed of a lane, in the kernel's words, such as `16.0 GT/s PCIe`.
    pub speed: String,
    /// Lanes.
    pub width: u32,
}

/// A controller of the kernel's NVMe driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NvmeController {
    /// Its name, such as `nvme0`.
    pub name: String,
    /// Model number.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
}

impl Group {
    /// The character device that opens the group.
    pub fn node(&self) -> String {
        let prefix = if self.no_iommu { "noiommu-" } else { "" };
        format!("/dev/vfio/{prefix}{}", self.number)
    }
}

impl Mate {
    /// Whether VFIO may lend the group out with this mate as it is: it has no driver, or one that does no DMA of its own.
    pub fn is_harmless(&self) -> bool {
        let harmless =
            |driver: &str| driver.starts_with("vfio") || ["pci-stub", "pcieport"].contains(&driver);
        self.driver.as_deref().is_none_or(harmless)
    }
}

impl Function {
    /// Whether it is an NVMe controller or another of that subclass.
    pub fn is_nvme(&self) -> bool {
        self.class >> 8 == 0x0108
    }

    /// Whether a VFIO driver owns it.
    pub fn is_on_vfio(&self) -> bool {
        self.driver.as_deref().is_some_and(|driver| driver.starts_with("vfio"))
    }

    /// Its folder in sysfs.
    pub fn folder(&self) -> String {
        folder(self.bdf)
    }

    /// Model number: the kernel driver's word, or what was noted at the time of binding.
    pub fn model(&self) -> Option<&str> {
        let told = self.controllers.first().and_then(|controller| controller.model.as_deref());
        told.or_else(|| self.binding.as_ref()?.model.as_deref())
    }

    /// Serial number: the kernel driver's word, or what was noted at the time of binding.
    pub fn serial(&self) -> Option<&str> {
        let told = self.controllers.first().and_then(|controller| controller.serial.as_deref());
        told.or_else(|| self.binding.as_ref()?.serial.as_deref())
    }

    /// Bytes of all namespaces, as the kernel driver shows them or as noted at the time of binding.
    pub fn size_bytes(&self) -> Option<u64> {
        match self.namespaces.is_empty() {
            false => Some(self.namespaces.iter().map(|namespace| namespace.size_bytes).sum()),
            true => self.binding.as_ref()?.size_bytes,
        }
    }

    /// Bytes of a block of the first namespace, likewise.
    pub fn block_size_bytes(&self) -> Option<u32> {
        let told = self.namespaces.first().map(|namespace| namespace.block_size_bytes);
        told.or_else(|| self.binding.as_ref()?.block_size_bytes)
    }

    /// The character devices through which a program opens it, group first.
    pub fn vfio_nodes(&self) -> Vec<String> {
        let group = self.group.iter().map(Group::node);
        group.chain(self.vfio_cdev.iter().map(|name| format!("/dev/vfio/devices/{name}"))).collect()
    }
}

/// The NVMe functions, by address.
pub fn functions(sysfs: &Sysfs) -> Vec<Function> {
    let names = sysfs.names("/sys/bus/pci/devices");
    let all = names.iter().filter_map(|name| function(sysfs, name.parse().ok()?));
    all.filter(Function::is_nvme).collect()
}

/// The function at `bdf`, of whatever class; nothing where there is none.
pub fn function(sysfs: &Sysfs, bdf: Bdf) -> Option<Function> {
    let folder = folder(bdf);
    let attribute = |name: &str| sysfs.number(format!("{folder}/{name}"));
    let class = attribute("class")? as u32;
    let (vendor, device) = (attribute("vendor").unwrap_or(0) as u16, attribute("device").unwrap_or(0) as u16);
    let driver = sysfs.link_name(format!("{folder}/driver"));
    let controllers = controllers(sysfs, &folder);
    let nvme = format!("{folder}/nvme");
    let namespaces =
        controllers.iter().flat_map(|controller| block::namespaces(sysfs, &nvme, &controller.name)).collect();
    Some(Function {
        bdf,
        class,
        vendor,
        device,
        driver,
        // sysfs shows an absent override as `(null)`.
        driver_override: sysfs.text(format!("{folder}/driver_override")).filter(|name| name != "(null)"),
        group: group(sysfs, bdf),
        numa_node: attribute("numa_node").map(|node| node as u32),
        link: link(sysfs, &folder),
        vfio_cdev: vfio_cdev(sysfs, &folder),
        controllers,
        namespaces,
        binding: Binding::load(sysfs, bdf).filter(|noted| (noted.vendor, noted.device) == (vendor, device)),
    })
}

fn folder(bdf: Bdf) -> String {
    format!("/sys/bus/pci/devices/{bdf}")
}

fn group(sysfs: &Sysfs, bdf: Bdf) -> Option<Group> {
    let number: u32 = sysfs.link_name(format!("{}/iommu_group", folder(bdf)))?.parse().ok()?;
    let group = format!("/sys/kernel/iommu_groups/{number}");
    let no_iommu = sysfs.text(format!("{group}/name")).is_some_and(|name| name == "vfio-noiommu");
    let others = sysfs.names(format!("{group}/devices")).into_iter().filter_map(|name| name.parse().ok());
    let mate = |bdf| Mate { bdf, driver: sysfs.link_name(format!("{}/driver", folder(bdf))) };
    Some(Group { number, no_iommu, mates: others.filter(|other| *other != bdf).map(mate).collect() })
}

fn link(sysfs: &Sysfs, folder: &str) -> Option<Link> {
    let speed = sysfs.text(format!("{folder}/current_link_speed"))?;
    Some(Link { speed, width: sysfs.number(format!("{folder}/current_link_width"))? as u32 })
}

/// The VFIO device has a folder also where the kernel makes no character device of it; then it has no device number.
fn vfio_cdev(sysfs: &Sysfs, folder: &str) -> Option<String> {
    let folder = format!("{folder}/vfio-dev");
    let names = sysfs.names(&folder);
    names.into_iter().find(|name| sysfs.exists(format!("{folder}/{name}/dev")))
}

fn controllers(sysfs: &Sysfs, folder: &str) -> Vec<NvmeController> {
    let named = |name: String| {
        let attribute = |attribute: &str| sysfs.text(format!("{folder}/nvme/{name}/{attribute}"));
        NvmeController { model: attribute("model"), serial: attribute("serial"), name }
    };
    sysfs.names(format!("{folder}/nvme")).into_iter().map(named).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::fake::Fake;

    #[test]
    fn a_function_is_read_whole() {
        let fake = Fake::new();
        fake.ssd("0000:41:00.0", 0, "S64X");
        fake.mate("0000:41:00.0", "0000:41:00.1", Some("nvidia"));
        let all = functions(&fake.sysfs());
        assert_eq!(all.len(), 1, "the mate is of another class");
        let ssd = &all[0];
        assert_eq!((ssd.bdf.to_string().as_str(), ssd.driver.as_deref()), ("0000:41:00.0", Some("nvme")));
        assert_eq!((ssd.model(), ssd.serial()), (Some("Vendor B 3.8T"), Some("S64X")));
        assert_eq!((ssd.size_bytes(), ssd.block_size_bytes()), (Some(1 << 20), Some(512)));
        assert_eq!(ssd.driver_override, None);
        let link = ssd.link.as_ref().unwrap();
        assert_eq!((link.speed.as_str(), link.width), ("16.0 GT/s PCIe", 4));
        let group = ssd.group.as_ref().unwrap();
        assert_eq!(group.node(), "/dev/vfio/57");
        assert_eq!(group.mates.len(), 1);
        assert!(!group.mates[0].is_harmless());
    }

    #[test]
    fn a_vfio_device_without_a_number_has_no_node() {
        let fake = Fake::new();
        fake.ssd("0000:41:00.0", 0, "S64X");
        fake.dir("/sys/bus/pci/devices/0000:41:00.0/vfio-dev/vfio0");
        assert_eq!(fake.function("0000:41:00.0").vfio_nodes(), ["/dev/vfio/57"]);
        fake.write("/sys/bus/pci/devices/0000:41:00.0/vfio-dev/vfio0/dev", "511:0\n");
        let nodes = fake.function("0000:41:00.0").vfio_nodes();
        assert_eq!(nodes, ["/dev/vfio/57", "/dev/vfio/devices/vfio0"]);
    }

    #[test]
    fn an_absent_tree_has_no_functions() {
        assert_eq!(functions(&Sysfs::at("/nonexistent")), []);
    }
}
