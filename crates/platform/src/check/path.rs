//! The path layer: each way between a GPU and an SSD, in the order in which they are tried.

use serde::Serialize;

use super::forwarding;
use crate::machine::{Gpu, Machine, Nvidia, Ssd};
use crate::topology::{Pair, pair};

/// A way that memory or doorbells may go.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Route {
    /// Its name, as `warpbell report gpu` has it.
    pub name: &'static str,
    /// Whether nothing that was found speaks against it. It was not tried.
    pub open: bool,
    /// What speaks against it, or for it.
    pub reason: String,
}

/// The ways between a GPU and the SSD that is best for it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The two, and the links between them.
    #[serde(flatten)]
    pub pair: Pair,
    /// Ways for the SSD to reach GPU memory, in order; the first that is open is taken.
    pub memory: Vec<Route>,
    /// Ways for kernels to reach the SSD's doorbells, likewise.
    pub doorbells: Vec<Route>,
}

impl Choice {
    /// The way that memory goes.
    pub fn memory_route(&self) -> Option<&Route> {
        self.memory.iter().find(|route| route.open)
    }

    /// The way that doorbells go.
    pub fn doorbell_route(&self) -> Option<&Route> {
        self.doorbells.iter().find(|route| route.open)
    }

    /// Whether the SSD reaches GPU memory without a copy in host memory.
    pub fn is_direct(&self) -> bool {
        self.memory_route().is_some_and(|route| route.name != HOST)
    }
}

const HOST: &str = "host memory";

/// For each GPU, the ways to the best SSD: one that may be lent out, then the nearest.
pub(super) fn choices(machine: &Machine) -> Vec<Choice> {
    let best = |gpu: &Gpu| {
        let pairs = machine.ssds.iter().filter_map(|ssd| Some((ssd, pair(machine, gpu.bdf, ssd.bdf)?)));
        pairs.min_by_key(|(ssd, pair)| {
            let bound = machine.node(ssd.bdf).is_some_and(|node| node.function.is_on_vfio());
            (lendable(machine, ssd).is_err(), !bound, pair.relation, pair.links, pair.ssd.clone())
        })
    };
    let choice = |gpu: &Gpu| {
        let (ssd, pair) = best(gpu)?;
        let ways = Ways { machine, gpu, ssd, pair: &pair };
        let (memory, doorbells) = (ways.memory(), ways.doorbells());
        Some(Choice { memory, doorbells, pair })
    };
    machine.gpus.iter().filter_map(choice).collect()
}

/// Whether VFIO can lend the SSD to a program, now or after it was bound.
pub(super) fn lendable(machine: &Machine, ssd: &Ssd) -> Result<(), String> {
    let node = machine.node(ssd.bdf).ok_or("it is gone")?;
    if let Some(first) = ssd.uses.first() {
        return Err(format!("the SSD is {first}"));
    }
    let group = node.function.group.as_ref().ok_or("no IOMMU group: VFIO does not lend the SSD out")?;
    if let Some(mate) = group.mates.iter().find(|mate| !mate.is_harmless()) {
        let driver = mate.driver.as_deref().unwrap_or("no driver");
        return Err(format!("the SSD shares IOMMU group {} with {} ({driver})", group.number, mate.bdf));
    }
    if machine.iommu.remapping == crate::Remapping::Off && !machine.vfio.unsafe_interrupts {
        return Err("interrupts are not remapped: type1 refuses the SSD".to_owned());
    }
    Ok(())
}

/// The ways of one pair.
struct Ways<'a> {
    machine: &'a Machine,
    gpu: &'a Gpu,
    ssd: &'a Ssd,
    pair: &'a Pair,
}

fn route(name: &'static str, outcome: Result<String, String>) -> Route {
    let open = outcome.is_ok();
    Route { name, open, reason: outcome.unwrap_or_else(|reason| reason) }
}

impl Ways<'_> {
    fn memory(&self) -> Vec<Route> {
        vec![
            route("iommufd map of the dma-buf", self.iommufd()),
            route("mmap of the dma-buf, mapped by type1", self.dma_buf()),
            route("gdrdrv mapping, mapped by type1", self.gdrdrv()),
            route(
                HOST,
                self.base()
                    .map(|_| "data crosses PCIe twice; the fallback that needs nothing more".to_owned()),
            ),
        ]
    }

    fn doorbells(&self) -> Vec<Route> {
        let forwarded =
            self.base().map(|_| "a thread polls a shadow page and writes the registers".to_owned());
        vec![
            route("BAR registered as I/O memory", self.registered()),
            route("forwarded by a CPU thread", forwarded),
        ]
    }

    /// What every way needs: an SSD that can be lent out, and a driver that runs kernels.
    fn base(&self) -> Result<&Nvidia, String> {
        lendable(self.machine, self.ssd)?;
        self.machine.nvidia.as_ref().ok_or_else(|| "no NVIDIA driver: no kernel runs on the GPU".to_owned())
    }

    fn iommufd(&self) -> Result<String, String> {
        self.base()?;
        let release = self.machine.kernel.release.as_deref().unwrap_or("not told");
        Err(format!(
            "kernels take dma-bufs of vfio-pci alone to this day, and none before 6.19 (here: {release}); it is tried at \
             run time all the same"
        ))
    }

    fn dma_buf(&self) -> Result<String, String> {
        let nvidia = self.base()?;
        self.routed()?;
        self.type1()?;
        self.unencrypted()?;
        if !nvidia.open {
            return Err("the closed kernel module exports no dma-buf".to_owned());
        }
        if self.gpu.is_geforce() {
            return Err("no export of a GeForce's memory as a dma-buf is known (unverified); data-centre and RTX PRO GPUs have it".to_owned());
        }
        if !nvidia.is_at_least(&[610, 43, 2]) {
            return Err(format!("driver {} refuses the mmap; 610.43.02 and newer allow it", nvidia.version));
        }
        Ok(format!(
            "nothing found speaks against it; it was not tried: `sudo warpbell report gpu {}` does",
            self.ssd.bdf
        ))
    }

    fn gdrdrv(&self) -> Result<String, String> {
        let nvidia = self.base()?;
        self.routed()?;
        self.unencrypted()?;
        self.type1()?;
        if self.gpu.is_geforce() {
            return Err(
                "the driver pins no memory of a GeForce for other devices, as far as is known (unverified)"
                    .to_owned(),
            );
        }
        let module = nvidia.gdrdrv.as_ref().ok_or("gdrdrv is not loaded: GDRCopy 2.0 and newer have it")?;
        if !module.is_usable() {
            return Err(format!(
                "gdrdrv is loaded: {module}; Warpbell speaks to 2.0 and newer of major version 2"
            ));
        }
        Ok(format!(
            "gdrdrv is loaded: {module}; nothing found speaks against it; it was not tried: `sudo warpbell report gpu {}` does",
            self.ssd.bdf
        ))
    }

    fn type1(&self) -> Result<(), String> {
        match !self.machine.vfio.type1 && self.machine.vfio.pci {
            true => Err("type1 is not loaded, and iommufd maps no BAR of another function".to_owned()),
            false => Ok(()),
        }
    }

    fn registered(&self) -> Result<String, String> {
        let nvidia = self.base()?;
        self.routed()?;
        if self.machine.kernel.version() >= Some((6, 12)) && !nvidia.is_at_least(&[570, 86, 15]) {
            return Err(format!(
                "Linux 6.12 and newer need driver 570.86.15 for it (here: {})",
                nvidia.version
            ));
        }
        self.unencrypted()?;
        if self.machine.kernel.version() >= Some((6, 12)) {
            if !nvidia.open {
                return Err(
                    "from Linux 6.12 on the closed kernel module cannot look up a BAR's pages".to_owned()
                );
            }
            if let Some(kind) = self.gpu.translated() {
                return Err(format!(
                    "the GPU's own IOMMU domain translates ({kind}): from Linux 6.12 on NVIDIA's driver gives it the raw \
                     address of the BAR, and stores vanish; iommu=pt gives it one that does not"
                ));
            }
        }
        let administrator = self.machine.limits.is_administrator();
        match (administrator, nvidia.peer_mapping_override) {
            (Some(true), _) | (_, Some(true)) => {
                Ok(format!("nothing found speaks against it; not tried: `sudo warpbell report gpu {}`", self.ssd.bdf))
            }
            (None, _) => Err("whether this user has CAP_SYS_ADMIN was not to be read".to_owned()),
            (Some(false), _) => Err(
                "it needs CAP_SYS_ADMIN, or NVreg_RegistryDwords=\"PeerMappingOverride=1\" for the driver: run as root"
                    .to_owned(),
            ),
        }
    }

    /// Whether addresses of BARs are what they seem.
    fn unencrypted(&self) -> Result<(), String> {
        match self.machine.memory_is_encrypted() {
            true => {
                Err("memory encryption (SME) is on: a BAR may be mapped with addresses that lead elsewhere"
                    .to_owned())
            }
            false => Ok(()),
        }
    }

    /// Whether requests of one device reach the other. With an IOMMU in between they go up to the root complex, also
    /// below one switch: the addresses of both are translated there.
    fn routed(&self) -> Result<(), String> {
        forwarding::routed(self.machine, self.gpu.bdf, self.ssd.bdf, self.pair.relation)
    }
}
