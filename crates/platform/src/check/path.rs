//! The path layer: each way between a GPU and an SSD, in the order in which they are tried.

use serde::Serialize;

use super::forwarding;
use super::obstacle::Obstacle;
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
pub(super) fn lendable(machine: &Machine, ssd: &Ssd) -> Result<(), Obstacle> {
    let node = machine.node(ssd.bdf).ok_or(Obstacle::Gone)?;
    if let Some(first) = ssd.uses.first() {
        return Err(Obstacle::InUse(first.clone()));
    }
    let group = node.function.group.as_ref().ok_or(Obstacle::NoGroup)?;
    if let Some(mate) = group.mates.iter().find(|mate| !mate.is_harmless()) {
        let driver = mate.driver.clone();
        return Err(Obstacle::SharedGroup { group: group.number, mate: mate.bdf, driver });
    }
    if machine.iommu.remapping == crate::Remapping::Off && !machine.vfio.unsafe_interrupts {
        return Err(Obstacle::InterruptsNotRemapped);
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

fn route(name: &'static str, outcome: Result<String, Obstacle>) -> Route {
    let open = outcome.is_ok();
    Route { name, open, reason: outcome.unwrap_or_else(|obstacle| obstacle.to_string()) }
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
    fn base(&self) -> Result<&Nvidia, Obstacle> {
        lendable(self.machine, self.ssd)?;
        self.machine.nvidia.as_ref().ok_or(Obstacle::NoDriver)
    }

    fn iommufd(&self) -> Result<String, Obstacle> {
        self.base()?;
        let release = self.machine.kernel.release.as_deref().unwrap_or("not told");
        Err(Obstacle::NoForeignDmaBuf { release: release.to_owned() })
    }

    fn dma_buf(&self) -> Result<String, Obstacle> {
        let nvidia = self.base()?;
        self.routed()?;
        self.type1()?;
        self.unencrypted()?;
        if !nvidia.open {
            return Err(Obstacle::ClosedExportsNone);
        }
        if self.gpu.is_geforce() {
            return Err(Obstacle::GeForceExport);
        }
        if !nvidia.is_at_least(&[610, 43, 2]) {
            return Err(Obstacle::MmapRefused { version: nvidia.version.clone() });
        }
        Ok(format!(
            "nothing found speaks against it; it was not tried: `sudo warpbell report gpu {}` does",
            self.ssd.bdf
        ))
    }

    fn gdrdrv(&self) -> Result<String, Obstacle> {
        let nvidia = self.base()?;
        self.routed()?;
        self.unencrypted()?;
        self.type1()?;
        if self.gpu.is_geforce() {
            return Err(Obstacle::GeForcePin);
        }
        let module = nvidia.gdrdrv.as_ref().ok_or(Obstacle::NoGdrdrv)?;
        if !module.is_usable() {
            return Err(Obstacle::OldGdrdrv { module: module.to_string() });
        }
        Ok(format!(
            "gdrdrv is loaded: {module}; nothing found speaks against it; it was not tried: `sudo warpbell report gpu {}` does",
            self.ssd.bdf
        ))
    }

    fn type1(&self) -> Result<(), Obstacle> {
        match !self.machine.vfio.type1 && self.machine.vfio.pci {
            true => Err(Obstacle::NoType1),
            false => Ok(()),
        }
    }

    fn registered(&self) -> Result<String, Obstacle> {
        let nvidia = self.base()?;
        self.routed()?;
        if self.machine.kernel.version() >= Some((6, 12)) && !nvidia.is_at_least(&[570, 86, 15]) {
            return Err(Obstacle::OldForKernel { version: nvidia.version.clone() });
        }
        self.unencrypted()?;
        if self.machine.kernel.version() >= Some((6, 12)) {
            if !nvidia.open {
                return Err(Obstacle::ClosedLooksUpNone);
            }
            if let Some(kind) = self.gpu.translated() {
                return Err(Obstacle::Translated { kind: kind.to_string() });
            }
        }
        let administrator = self.machine.limits.is_administrator();
        match (administrator, nvidia.peer_mapping_override) {
            (Some(true), _) | (_, Some(true)) => Ok(format!(
                "nothing found speaks against it; not tried: `sudo warpbell report gpu {}`",
                self.ssd.bdf
            )),
            (None, _) => Err(Obstacle::RightsNotRead),
            (Some(false), _) => Err(Obstacle::NoRights),
        }
    }

    /// Whether addresses of BARs are what they seem.
    fn unencrypted(&self) -> Result<(), Obstacle> {
        match self.machine.memory_is_encrypted() {
            true => Err(Obstacle::Encrypted),
            false => Ok(()),
        }
    }

    /// Whether requests of one device reach the other. With an IOMMU in between they go up to the root complex, also
    /// below one switch: the addresses of both are translated there.
    fn routed(&self) -> Result<(), Obstacle> {
        Ok(forwarding::routed(self.machine, self.gpu.bdf, self.ssd.bdf, self.pair.relation)?)
    }
}
