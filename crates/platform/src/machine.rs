//! The facts of a machine.

mod host;
mod iommu;
mod nvidia;
mod pci;

pub(crate) use host::release;
pub use host::{Cpu, Kernel, Limits, Vfio};
pub use iommu::{Iommu, Remapping, Vendor};
pub use nvidia::{Gdrdrv, Nvidia};
pub use pci::{Gpu, PciNode, Role, Ssd};
use warpbell_vfio::Bdf;
use warpbell_vfio::pci::Sysfs;

/// A machine as its files show it. What they do not show is absent here, and no default stands for it.
#[derive(Clone, Debug)]
pub struct Machine {
    /// Whether this is the running system, and not a captured one.
    pub is_system: bool,
    /// The kernel.
    pub kernel: Kernel,
    /// The processors.
    pub cpu: Cpu,
    /// The IOMMU.
    pub iommu: Iommu,
    /// VFIO's modules.
    pub vfio: Vfio,
    /// What this user may do, and memory.
    pub limits: Limits,
    /// NVIDIA's driver, where it is loaded.
    pub nvidia: Option<Nvidia>,
    /// All PCI functions, by address; nothing where there is no such folder.
    pub functions: Option<Vec<PciNode>>,
    /// NVIDIA GPUs, by address.
    pub gpus: Vec<Gpu>,
    /// NVMe controllers, by address.
    pub ssds: Vec<Ssd>,
}

impl Machine {
    /// Whether memory is encrypted (AMD's SME), as the kernel was told at boot or when it was built.
    pub fn memory_is_encrypted(&self) -> bool {
        let by_default =
            self.kernel.option("CONFIG_AMD_MEM_ENCRYPT_ACTIVE_BY_DEFAULT").flatten() == Some("y");
        let told = self.kernel.parameter("mem_encrypt").map(|value| value == "on");
        self.cpu.encrypts_memory && told.unwrap_or(by_default)
    }

    /// Reads the machine below the root of `sysfs`. No device is opened, and nothing is written.
    pub fn read(sysfs: &Sysfs) -> Machine {
        let functions = pci::read(sysfs);
        let all = functions.as_deref().unwrap_or_default();
        let kernel = Kernel::read(sysfs);
        Machine {
            is_system: sysfs.is_system(),
            cpu: Cpu::read(sysfs),
            iommu: Iommu::read(sysfs),
            vfio: Vfio::read(sysfs, &kernel),
            limits: Limits::read(sysfs),
            nvidia: Nvidia::read(sysfs),
            gpus: pci::gpus(sysfs, all),
            ssds: pci::ssds(sysfs, all),
            kernel,
            functions,
        }
    }

    /// The function at `bdf`.
    pub fn node(&self, bdf: Bdf) -> Option<&PciNode> {
        self.functions.iter().flatten().find(|node| node.bdf == bdf)
    }

    /// The functions above `bdf`, the nearest first.
    pub fn above(&self, bdf: Bdf) -> Vec<&PciNode> {
        let mut above = Vec::new();
        let mut at = self.node(bdf);
        while let Some(node) = at.and_then(|node| self.node(node.parent?)) {
            above.push(node);
            at = Some(node);
        }
        above
    }
}
