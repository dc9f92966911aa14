//! The tree from root complexes down to GPUs and SSDs, without what leads to neither.

use serde::Serialize;
use warpbell_vfio::Bdf;

use crate::machine::{Machine, PciNode, Role};
use crate::{Link, PortKind};

/// A root complex.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Root {
    /// Its name in sysfs, such as `pci0000:00`.
    pub name: String,
    /// NUMA node.
    pub numa_node: Option<u32>,
    /// Its ports, and devices on it.
    pub children: Vec<Leaf>,
}

/// A function on the tree.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Leaf {
    /// Its address.
    pub address: String,
    /// `root port`, `switch, up`, `switch, down`, `bridge`, `GPU n` or `SSD`.
    pub kind: String,
    /// Its model, where it is known.
    pub model: Option<String>,
    /// The link as it is.
    pub link: Option<Link>,
    /// Bytes a second in one direction, of the link as it is.
    pub link_bytes_per_s: Option<u64>,
    /// The link at its best, where it is slower now.
    pub best_link: Option<Link>,
    /// What is below.
    pub children: Vec<Leaf>,
}

pub(super) fn roots(machine: &Machine) -> Vec<Root> {
    let nodes: Vec<&PciNode> = machine.functions.iter().flatten().collect();
    let mut names: Vec<&String> = nodes.iter().map(|node| &node.root).collect();
    names.sort();
    names.dedup();
    let all = names.into_iter().map(|name| {
        let on_it = nodes.iter().filter(|node| &node.root == name);
        let numa_node = on_it.clone().find_map(|node| node.function.numa_node);
        let children = on_it.filter(|node| node.parent.is_none()).filter_map(|node| leaf(machine, node));
        Root { name: name.clone(), numa_node, children: children.collect() }
    });
    all.filter(|root| !root.children.is_empty()).collect()
}

/// The function and what is below it, unless that leads to no GPU and no SSD.
fn leaf(machine: &Machine, node: &PciNode) -> Option<Leaf> {
    let below = machine.functions.iter().flatten().filter(|other| other.parent == Some(node.bdf));
    let children: Vec<Leaf> = below.filter_map(|node| leaf(machine, node)).collect();
    let (kind, model) = match node.role {
        Role::Gpu => gpu(machine, node.bdf)?,
        Role::Ssd => ("SSD".to_owned(), node.function.model().map(str::to_owned)),
        Role::Port(kind) if !children.is_empty() => (port(kind).to_owned(), None),
        _ => return None,
    };
    // A port away from the root complex shows the link that the one below it shows.
    let upper_end = matches!(node.role, Role::Port(PortKind::Root | PortKind::Downstream));
    let link = node.link.filter(|_| !upper_end);
    Some(Leaf {
        address: node.bdf.to_string(),
        kind,
        model,
        link,
        link_bytes_per_s: link.map(Link::bytes_per_s),
        best_link: node.best_link.filter(|best| link.is_some_and(|link| link != *best)),
        children,
    })
}

fn gpu(machine: &Machine, bdf: Bdf) -> Option<(String, Option<String>)> {
    let index = machine.gpus.iter().position(|gpu| gpu.bdf == bdf)?;
    Some((format!("GPU {index}"), machine.gpus[index].model.clone()))
}

fn port(kind: PortKind) -> &'static str {
    match kind {
        PortKind::Root => "root port",
        PortKind::Upstream => "switch, up",
        PortKind::Downstream => "switch, down",
        PortKind::Endpoint | PortKind::Other => "bridge",
    }
}

impl Leaf {
    /// `GPU 0  NVIDIA H100  32 GT/s x16, 63.02 GB/s (best: ...)`.
    pub(super) fn words(&self) -> String {
        let mut words = vec![self.kind.clone()];
        words.extend(self.model.clone());
        if let Some(link) = self.link {
            let best = self
                .best_link
                .map_or(String::new(), |best| format!(" (at its best {best}, {})", best.rate()));
            words.push(format!("{link}, {}{best}", link.rate()));
        }
        words.join("  ")
    }
}
