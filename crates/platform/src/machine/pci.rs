//! PCI functions: where they are on the tree, their links and capabilities.

use std::path::Path;

use warpbell_vfio::pci::{self, Function, Look, Snapshot, Sysfs, Use, uses};
use warpbell_vfio::{Bdf, bar_addresses};

use crate::{ConfigSpace, Link, PortKind};

const NVIDIA: u16 = 0x10de;

/// What a function is for us.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// An NVIDIA GPU.
    Gpu,
    /// An NVMe controller.
    Ssd,
    /// A bridge: a port of the root complex or of a switch.
    Port(PortKind),
    /// Anything else.
    Other,
}

/// A PCI function.
#[derive(Clone, Debug)]
pub struct PciNode {
    /// Its address.
    pub bdf: Bdf,
    /// The bridge above it; nothing on a root bus.
    pub parent: Option<Bdf>,
    /// The root complex that it hangs on, in the kernel's words, such as `pci0000:00`.
    pub root: String,
    /// What it is.
    pub role: Role,
    /// As VFIO and the NVMe driver see it.
    pub function: Function,
    /// What was readable of its configuration space.
    pub config: ConfigSpace,
    /// Its link as it is.
    pub link: Option<Link>,
    /// Its link at its best.
    pub best_link: Option<Link>,
}

/// An NVIDIA GPU.
#[derive(Clone, Debug)]
pub struct Gpu {
    /// Its address.
    pub bdf: Bdf,
    /// Its model, where NVIDIA's driver says it.
    pub model: Option<String>,
    /// Bytes of BAR 1, the window to its memory.
    pub bar1: Option<u64>,
    /// What kind of domain the IOMMU has for it: `identity`, `DMA`, `DMA-FQ`; nothing where there is no IOMMU.
    pub domain: Option<String>,
}

impl Gpu {
    /// Whether it is one of those for which no export of memory as a dma-buf is known.
    pub fn is_geforce(&self) -> bool {
        self.model.as_deref().is_some_and(|model| model.contains("GeForce"))
    }

    /// The kind of its domain, if that translates addresses.
    pub fn translated(&self) -> Option<&str> {
        self.domain.as_deref().filter(|kind| *kind != "identity")
    }
}

/// An NVMe controller.
#[derive(Clone, Debug)]
pub struct Ssd {
    /// Its address.
    pub bdf: Bdf,
    /// Bytes of BAR 0, its registers.
    pub bar0: Option<u64>,
    /// Who uses its namespaces.
    pub uses: Vec<Use>,
    /// Whether the running system lets this user open it through VFIO; nothing for captured machines, whose nodes have
    /// no permissions.
    pub usable: Option<Result<(), pci::Obstacle>>,
}

/// All functions, by address; nothing where the machine shows none.
pub(super) fn read(sysfs: &Sysfs) -> Option<Vec<PciNode>> {
    let folder = "/sys/bus/pci/devices";
    if !sysfs.exists(folder) {
        return None;
    }
    let mut nodes: Vec<PciNode> =
        sysfs.names(folder).iter().filter_map(|name| node(sysfs, name.parse().ok()?)).collect();
    nodes.sort_by_key(|node| node.bdf);
    without_cycles(&mut nodes);
    let bare = ports_without_words(&nodes);
    nodes.iter_mut().zip(bare).for_each(|(node, kind)| node.role = kind.unwrap_or(node.role));
    Some(nodes)
}

/// A captured machine may say what it likes: who is above itself is above nobody.
fn without_cycles(nodes: &mut [PciNode]) {
    for index in 0..nodes.len() {
        let own = nodes[index].bdf;
        let above = |at: Bdf| nodes.iter().find(|node| node.bdf == at)?.parent;
        let chain = std::iter::successors(nodes[index].parent, |at| above(*at));
        if chain.take(nodes.len()).any(|at| at == own) {
            nodes[index].parent = None;
        }
    }
}

fn node(sysfs: &Sysfs, bdf: Bdf) -> Option<PciNode> {
    let function = pci::function(sysfs, bdf)?;
    let folder = function.folder();
    let target = std::fs::read_link(sysfs.path(&folder)).unwrap_or_default();
    let parent = target.parent().and_then(Path::file_name).and_then(|name| name.to_str()?.parse().ok());
    let config = ConfigSpace::new(std::fs::read(sysfs.path(format!("{folder}/config"))).unwrap_or_default());
    let link = |which: &str| {
        let speed = sysfs.text(format!("{folder}/{which}_link_speed"))?;
        Link::parse(&speed, sysfs.number(format!("{folder}/{which}_link_width"))?)
    };
    Some(PciNode {
        bdf,
        parent,
        root: root(&target).unwrap_or_else(|| format!("pci{:04x}:{:02x}", bdf.domain, bdf.bus)),
        role: role(&function, &config),
        link: link("current"),
        best_link: link("max"),
        function,
        config,
    })
}

/// `pci0000:00` of `../../../devices/pci0000:00/0000:00:01.0/0000:01:00.0`.
fn root(target: &Path) -> Option<String> {
    let mut parts = target.iter().filter_map(|part| part.to_str());
    parts.find(|part| part.starts_with("pci") && part.contains(':')).map(str::to_owned)
}

fn role(function: &Function, config: &ConfigSpace) -> Role {
    match function.class >> 8 {
        0x0300 | 0x0302 if function.vendor == NVIDIA => Role::Gpu,
        0x0604 => Role::Port(config.port_kind().unwrap_or(PortKind::Other)),
        _ if function.is_nvme() => Role::Ssd,
        _ => Role::Other,
    }
}

/// Ports whose capabilities could not be read: below a root complex is a root port, and in a switch the port above and
/// those below take turns.
fn ports_without_words(nodes: &[PciNode]) -> Vec<Option<Role>> {
    let depth = |node: &PciNode| {
        let mut parents = 0;
        let mut at = node.parent;
        while let Some(above) = at.and_then(|bdf| nodes.iter().find(|node| node.bdf == bdf)) {
            parents += 1;
            at = above.parent;
        }
        parents
    };
    let guessed = |node: &PciNode| match (node.role, depth(node)) {
        (Role::Port(PortKind::Other), 0) => Some(Role::Port(PortKind::Root)),
        (Role::Port(PortKind::Other), depth) if depth % 2 == 1 => Some(Role::Port(PortKind::Upstream)),
        (Role::Port(PortKind::Other), _) => Some(Role::Port(PortKind::Downstream)),
        _ => None,
    };
    nodes.iter().map(guessed).collect()
}

pub(super) fn gpus(sysfs: &Sysfs, nodes: &[PciNode]) -> Vec<Gpu> {
    let all = nodes.iter().filter(|node| node.role == Role::Gpu);
    let gpu = |node: &PciNode| {
        let text = sysfs.text(format!("/proc/driver/nvidia/gpus/{}/information", node.bdf));
        let model = text.and_then(|text| {
            let line = text.lines().find_map(|line| line.strip_prefix("Model:"))?;
            Some(line.trim().to_owned())
        });
        let group = node.function.group.as_ref();
        let domain =
            group.and_then(|group| sysfs.text(format!("/sys/kernel/iommu_groups/{}/type", group.number)));
        Gpu { bdf: node.bdf, model, bar1: size(sysfs, node.bdf, 1), domain }
    };
    all.map(gpu).collect()
}

pub(super) fn ssds(sysfs: &Sysfs, nodes: &[PciNode]) -> Vec<Ssd> {
    let now = Snapshot::take(sysfs);
    let all = nodes.iter().filter(|node| node.role == Role::Ssd);
    let ssd = |node: &PciNode| {
        let (uses, _) = uses(sysfs, &node.function, &now, Look::Outside);
        let usable = sysfs.is_system().then(|| pci::usable(sysfs, &node.function, &uses, &now));
        Ssd { bdf: node.bdf, bar0: size(sysfs, node.bdf, 0), uses, usable }
    };
    all.map(ssd).collect()
}

/// Bytes of a BAR. NVIDIA's BAR 1 is the second line of `resource` whatever the width of the first.
fn size(sysfs: &Sysfs, bdf: Bdf, bar: u8) -> Option<u64> {
    bar_addresses(sysfs, bdf, bar).map(|range| range.end - range.start)
}
