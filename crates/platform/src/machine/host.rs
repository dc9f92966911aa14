//! Kernel, processors, VFIO's modules, limits and memory.

use warpbell_vfio::pci::Sysfs;

/// The kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its release, such as `6.12.0-amd64`.
    pub release: Option<String>,
    /// Its parameters, where they can be read.
    pub parameters: Option<String>,
    /// Its configuration, where it can be read as text.
    pub config: Option<String>,
}

/// The kernel's release, which is a part of paths: nothing where it has more parts itself.
pub(crate) fn release(sysfs: &Sysfs) -> Option<String> {
    sysfs.text("/proc/sys/kernel/osrelease").filter(|release| !release.contains('/'))
}

impl Kernel {
    pub(super) fn read(sysfs: &Sysfs) -> Kernel {
        let release = release(sysfs);
        let config = release.as_ref().and_then(|release| sysfs.text(format!("/boot/config-{release}")));
        Kernel { config, parameters: sysfs.text("/proc/cmdline"), release }
    }

    /// Major and minor number.
    pub fn version(&self) -> Option<(u32, u32)> {
        let mut parts = self.release.as_ref()?.split(|c: char| !c.is_ascii_digit());
        Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
    }

    /// The value of a parameter such as `intel_iommu`; empty for one without a value.
    pub fn parameter(&self, name: &str) -> Option<&str> {
        let mut words = self.parameters.as_ref()?.split_whitespace();
        words.find_map(|word| match word.split_once('=') {
            Some((key, value)) => (key == name).then_some(value),
            None => (word == name).then_some(""),
        })
    }

    /// How an option such as `CONFIG_IOMMUFD` is set: `y`, `m`, or nothing where it is off. `None` where the
    /// configuration could not be read.
    pub fn option(&self, name: &str) -> Option<Option<&str>> {
        let mut lines = self.config.as_ref()?.lines();
        Some(lines.find_map(|line| line.strip_prefix(name)?.strip_prefix('=')))
    }
}

/// The processors.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cpu {
    /// Who made them, such as `GenuineIntel`.
    pub vendor: Option<String>,
    /// Their family.
    pub family: Option<u32>,
    /// Whether they are those of a virtual machine.
    pub is_virtual: bool,
    /// Whether they can encrypt memory (AMD's SME).
    pub encrypts_memory: bool,
}

impl Cpu {
    pub(super) fn read(sysfs: &Sysfs) -> Cpu {
        let text = sysfs.text("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let mut fields = text.lines().filter_map(|line| line.split_once(':'));
            fields.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        let has =
            |wanted: &str| field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == wanted));
        let (is_virtual, encrypts_memory) = (has("hypervisor"), has("sme"));
        let family = field("cpu family").and_then(|family| family.parse().ok());
        Cpu { vendor: field("vendor_id"), family, is_virtual, encrypts_memory }
    }
}

/// VFIO's modules.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Vfio {
    /// Whether the driver `vfio-pci` is there.
    pub pci: bool,
    /// Whether the type1 backend is there.
    pub type1: bool,
    /// Whether iommufd is there.
    pub iommufd: bool,
    /// Whether `vfio-pci` could be loaded; nothing where the list of modules could not be read.
    pub loadable: Option<bool>,
    /// Whether type1 takes functions although interrupts are not remapped.
    pub unsafe_interrupts: bool,
    /// Whether the mode without an IOMMU is on.
    pub no_iommu: bool,
}

impl Vfio {
    pub(super) fn read(sysfs: &Sysfs, kernel: &Kernel) -> Vfio {
        let yes = |path: &str| sysfs.text(path).is_some_and(|text| text == "Y" || text == "1");
        let modules = kernel.release.as_ref().map(|release| format!("/lib/modules/{release}"));
        let listed = |file: &str| sysfs.text(format!("{}/{file}", modules.as_ref()?));
        let (loadable, built_in) = (listed("modules.dep"), listed("modules.builtin"));
        let known = loadable.is_some() || built_in.is_some();
        let named = [loadable, built_in].iter().flatten().any(|list| list.contains("/vfio-pci.ko"));
        Vfio {
            pci: sysfs.exists("/sys/bus/pci/drivers/vfio-pci"),
            type1: sysfs.exists("/sys/module/vfio_iommu_type1"),
            iommufd: sysfs.exists("/sys/module/iommufd"),
            loadable: known.then_some(named),
            unsafe_interrupts: yes("/sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"),
            no_iommu: yes("/sys/module/vfio/parameters/enable_unsafe_noiommu_mode"),
        }
    }
}

/// What this user may do, and memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes that may be pinned: `u64::MAX` without a limit.
    pub memlock: Option<u64>,
    /// Effective capabilities, as a mask.
    pub capabilities: Option<u64>,
    /// Huge pages: how many are free, and bytes of one.
    pub huge_pages: Option<(u64, u64)>,
}

impl Limits {
    pub(super) fn read(sysfs: &Sysfs) -> Limits {
        let limits = sysfs.text("/proc/self/limits").unwrap_or_default();
        let line = limits.lines().find_map(|line| line.strip_prefix("Max locked memory"));
        let soft = line.and_then(|line| line.split_whitespace().next());
        let memlock =
            soft.and_then(|soft| if soft == "unlimited" { Some(u64::MAX) } else { soft.parse().ok() });
        let status = sysfs.text("/proc/self/status").unwrap_or_default();
        let mask = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
        let capabilities = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
        let memory = sysfs.text("/proc/meminfo").unwrap_or_default();
        let number = |name: &str| -> Option<u64> {
            let line = memory.lines().find_map(|line| line.strip_prefix(name))?;
            line.split_whitespace().next()?.parse().ok()
        };
        let huge_pages = number("HugePages_Free:").zip(number("Hugepagesize:"));
        Limits { memlock, capabilities, huge_pages: huge_pages.map(|(free, kib)| (free, kib << 10)) }
    }

    /// Whether this user may lock any amount of memory.
    pub fn may_lock(&self) -> Option<bool> {
        const CAP_IPC_LOCK: u32 = 14;
        self.capabilities.map(|mask| mask >> CAP_IPC_LOCK & 1 == 1)
    }

    /// Whether this user may register BAR pages with CUDA.
    pub fn is_administrator(&self) -> Option<bool> {
        const CAP_SYS_ADMIN: u32 = 21;
        self.capabilities.map(|mask| mask >> CAP_SYS_ADMIN & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_and_options_are_told_from_longer_names() {
        let kernel = Kernel {
            release: Some("6.12.0-amd64".to_owned()),
            parameters: Some("quiet iommu=pt xintel_iommu=off intel_iommu=on nosmt".to_owned()),
            config: Some("CONFIG_VFIO=m\nCONFIG_VFIO_PCI=m\n# CONFIG_IOMMUFD is not set\n".to_owned()),
        };
        assert_eq!(kernel.version(), Some((6, 12)));
        assert_eq!(kernel.parameter("intel_iommu"), Some("on"));
        assert_eq!((kernel.parameter("nosmt"), kernel.parameter("amd_iommu")), (Some(""), None));
        assert_eq!(kernel.option("CONFIG_VFIO"), Some(Some("m")));
        assert_eq!(kernel.option("CONFIG_IOMMUFD"), Some(None));
        assert_eq!(Kernel::default().option("CONFIG_VFIO"), None);
    }
}
