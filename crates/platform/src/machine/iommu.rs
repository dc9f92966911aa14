//! The IOMMU, its groups, and whether it remaps interrupts.

use std::collections::BTreeMap;

use warpbell_vfio::pci::Sysfs;

/// Whose IOMMU it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Vendor {
    /// Intel's VT-d.
    Intel,
    /// AMD's.
    Amd,
    /// Another.
    Other,
}

impl Vendor {
    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Vendor::Intel => "Intel VT-d",
            Vendor::Amd => "AMD-Vi",
            Vendor::Other => "another kind",
        }
    }

    fn of(unit: &str) -> Vendor {
        match unit {
            unit if unit.starts_with("dmar") => Vendor::Intel,
            unit if unit.starts_with("ivhd") => Vendor::Amd,
            _ => Vendor::Other,
        }
    }
}

/// Whether interrupts of devices are remapped, so that none can raise another's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Remapping {
    /// They are.
    On,
    /// They are not.
    Off,
    /// Not to be told from files, for this reason.
    Unknown(&'static str),
}

/// The IOMMU.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Iommu {
    /// Its units, such as `dmar0`.
    pub units: Vec<String>,
    /// How many groups there are, without those of VFIO's no-IOMMU mode.
    pub groups: usize,
    /// How many groups have which kind of domain: `DMA`, `DMA-FQ`, `identity`.
    pub domains: BTreeMap<String, usize>,
    /// Interrupt remapping.
    pub remapping: Remapping,
}

impl Iommu {
    pub(super) fn read(sysfs: &Sysfs) -> Iommu {
        let folder = "/sys/kernel/iommu_groups";
        let names = sysfs.names(folder);
        let real =
            |name: &&String| sysfs.text(format!("{folder}/{name}/name")).as_deref() != Some("vfio-noiommu");
        let groups: Vec<&String> = names.iter().filter(real).collect();
        let mut domains = BTreeMap::new();
        for domain in groups.iter().filter_map(|name| sysfs.text(format!("{folder}/{name}/type"))) {
            *domains.entry(domain).or_insert(0) += 1;
        }
        let units = sysfs.names("/sys/class/iommu");
        Iommu { groups: groups.len(), domains, remapping: remapping(sysfs, &units), units }
    }

    /// Whose it is, if there is one.
    pub fn vendor(&self) -> Option<Vendor> {
        self.units.first().map(|unit| Vendor::of(unit))
    }

    /// Whether it is there and has groups, so that VFIO can lend functions out.
    pub fn is_on(&self) -> bool {
        self.groups > 0
    }
}

/// x86 names the chip of each interrupt, and a remapped one's begins with `IR-`.
fn remapping(sysfs: &Sysfs, units: &[String]) -> Remapping {
    if units.first().is_some_and(|unit| Vendor::of(unit) == Vendor::Other) {
        return Remapping::Unknown("only IOMMUs of Intel and AMD show it in /proc/interrupts");
    }
    match sysfs.text("/proc/interrupts") {
        None => Remapping::Unknown("/proc/interrupts could not be read"),
        Some(text) if text.split_whitespace().any(|word| word.starts_with("IR-")) => Remapping::On,
        Some(text) if text.contains("IO-APIC") || text.contains("PCI-MSI") => Remapping::Off,
        Some(_) => Remapping::Unknown("/proc/interrupts names no interrupt of a PCI function"),
    }
}
