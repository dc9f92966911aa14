//! The PCIe tree: how far SSDs are from GPUs, and what the links between them carry.

mod svg;
mod text;
mod tree;

use std::fmt;

use serde::Serialize;
pub use tree::{Leaf, Root};
use warpbell_vfio::Bdf;

use crate::link::rate;
use crate::machine::{Machine, PciNode, Role};
use crate::{Link, PortKind};

/// How a GPU and an SSD are related, the nearest first. The short words are those of `nvidia-smi topo -m`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub enum Relation {
    /// One switch above both.
    #[serde(rename = "PIX")]
    Switch,
    /// Several switches.
    #[serde(rename = "PXB")]
    Switches,
    /// One root complex, through its ports.
    #[serde(rename = "PHB")]
    RootComplex,
    /// Two root complexes of one NUMA node.
    #[serde(rename = "NODE")]
    Node,
    /// Two root complexes, of two NUMA nodes or of unknown ones.
    #[serde(rename = "SYS")]
    System,
}

impl Relation {
    /// The word of `nvidia-smi`.
    pub fn word(self) -> &'static str {
        match self {
            Relation::Switch => "PIX",
            Relation::Switches => "PXB",
            Relation::RootComplex => "PHB",
            Relation::Node => "NODE",
            Relation::System => "SYS",
        }
    }
}

impl fmt::Display for Relation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Relation::Switch => "on one switch",
            Relation::Switches => "behind several switches",
            Relation::RootComplex => "under one root complex, on different ports",
            Relation::Node => "under different root complexes of one NUMA node",
            Relation::System => "under different root complexes of different or unknown NUMA nodes",
        })
    }
}

/// A GPU and an SSD.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Pair {
    /// Address of the GPU.
    pub gpu: String,
    /// Address of the SSD.
    pub ssd: String,
    /// How they are related.
    pub relation: Relation,
    /// Links between them.
    pub links: usize,
    /// Bytes a second that the slowest of these links carries in one direction; nothing where none says its speed.
    pub limit_bytes_per_s: Option<u64>,
    /// Lower end of the slowest link.
    pub limited_by: Option<String>,
}

/// A link that several GPUs or SSDs share.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Shared {
    /// Its lower end: the upstream port of a switch.
    pub port: String,
    /// The link.
    pub link: Link,
    /// Bytes a second in one direction.
    pub limit_bytes_per_s: u64,
    /// GPUs and SSDs below it.
    pub members: Vec<String>,
    /// Bytes a second that the links of the SSDs below it carry together.
    pub ssds_bytes_per_s: u64,
}

/// The SSD to take for a GPU.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Nearest {
    /// Number of the GPU, by address. CUDA's own numbers may differ.
    pub gpu: usize,
    /// The GPU and the SSD.
    #[serde(flatten)]
    pub pair: Pair,
    /// Other SSDs that are as near.
    pub as_near: Vec<String>,
    /// Why this one.
    pub why: String,
}

/// The tree, and what follows from it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Topology {
    /// Root complexes that lead to GPUs or SSDs.
    pub roots: Vec<Root>,
    /// Every GPU with every SSD, the nearest first.
    pub pairs: Vec<Pair>,
    /// Links that several share.
    pub shared: Vec<Shared>,
    /// The nearest SSD of each GPU.
    pub nearest: Vec<Nearest>,
}

impl Topology {
    /// Of a machine.
    pub fn of(machine: &Machine) -> Topology {
        let of_gpu = |gpu: Bdf| {
            let mut pairs: Vec<Pair> =
                machine.ssds.iter().filter_map(|ssd| pair(machine, gpu, ssd.bdf)).collect();
            pairs.sort_by(|a, b| order(a).cmp(&order(b)));
            pairs
        };
        let by_gpu: Vec<Vec<Pair>> = machine.gpus.iter().map(|gpu| of_gpu(gpu.bdf)).collect();
        Topology {
            roots: tree::roots(machine),
            shared: machine.functions.iter().flatten().filter_map(|node| shared(machine, node)).collect(),
            nearest: by_gpu.iter().enumerate().filter_map(|(index, pairs)| nearest(index, pairs)).collect(),
            pairs: by_gpu.concat(),
        }
    }

    /// Only what concerns GPU `index`.
    pub fn only(mut self, index: usize) -> Topology {
        let gpu =
            self.nearest.iter().find(|nearest| nearest.gpu == index).map(|nearest| nearest.pair.gpu.clone());
        self.nearest.retain(|nearest| nearest.gpu == index);
        self.pairs.retain(|pair| Some(&pair.gpu) == gpu.as_ref());
        self
    }

    /// The tree and what follows from it, for people.
    pub fn text(&self) -> String {
        text::text(self)
    }

    /// The tree as a picture.
    pub fn svg(&self) -> String {
        svg::svg(self)
    }
}

/// Nearer, then fewer links, then faster, then by address.
fn order(pair: &Pair) -> (Relation, usize, std::cmp::Reverse<Option<u64>>, &str) {
    (pair.relation, pair.links, std::cmp::Reverse(pair.limit_bytes_per_s), &pair.ssd)
}

/// How `gpu` and `ssd` are related, and the slowest link between them.
pub(crate) fn pair(machine: &Machine, gpu: Bdf, ssd: Bdf) -> Option<Pair> {
    let chain = |bdf| Some([vec![machine.node(bdf)?], machine.above(bdf)].concat());
    let (of_gpu, of_ssd): (Vec<&PciNode>, Vec<&PciNode>) = (chain(gpu)?, chain(ssd)?);
    let common = of_ssd.iter().find(|node| of_gpu.iter().any(|other| other.bdf == node.bdf)).copied();
    let below = |chain: &[&PciNode]| {
        chain.iter().take_while(|node| Some(node.bdf) != common.map(|node| node.bdf)).count()
    };
    let between = [&of_gpu[..below(&of_gpu)], &of_ssd[..below(&of_ssd)]].concat();
    // A link is named by its lower end; the ports at its upper end show the same one.
    let links: Vec<&PciNode> = between.iter().copied().filter(|node| is_lower_end(node)).collect();
    let slowest =
        links.iter().filter_map(|node| Some((node, node.link?.bytes_per_s()))).min_by_key(|one| one.1);
    let switches = between.iter().filter(|node| node.role == Role::Port(PortKind::Upstream)).count();
    Some(Pair {
        gpu: gpu.to_string(),
        ssd: ssd.to_string(),
        relation: relation(of_gpu[0], of_ssd[0], common, switches),
        links: links.len(),
        limit_bytes_per_s: slowest.map(|(_, rate)| rate),
        limited_by: slowest.map(|(node, _)| node.bdf.to_string()),
    })
}

fn relation(gpu: &PciNode, ssd: &PciNode, common: Option<&PciNode>, switches: usize) -> Relation {
    let (a, b) = (gpu.function.numa_node, ssd.function.numa_node);
    match common {
        // The common port is that of the one switch, or that above several.
        Some(port) if port.role == Role::Port(PortKind::Upstream) && switches == 0 => Relation::Switch,
        Some(_) => Relation::Switches,
        None if gpu.root == ssd.root => Relation::RootComplex,
        None if a.is_some() && a == b => Relation::Node,
        None => Relation::System,
    }
}

/// Whether it is the lower end of a link: an endpoint, or a switch's port towards the root complex.
fn is_lower_end(node: &PciNode) -> bool {
    !matches!(node.role, Role::Port(PortKind::Root | PortKind::Downstream | PortKind::Other))
}

/// The link above a switch, where several GPUs or SSDs are below.
fn shared(machine: &Machine, port: &PciNode) -> Option<Shared> {
    let link = port.link.filter(|_| port.role == Role::Port(PortKind::Upstream))?;
    let below = |bdf: Bdf| machine.above(bdf).iter().any(|node| node.bdf == port.bdf);
    let members = machine.gpus.iter().map(|gpu| gpu.bdf).chain(machine.ssds.iter().map(|ssd| ssd.bdf));
    let members: Vec<Bdf> = members.filter(|bdf| below(*bdf)).collect();
    let ssds = members.iter().filter_map(|bdf| machine.node(*bdf)).filter(|node| node.role == Role::Ssd);
    let ssds_bytes_per_s = ssds.filter_map(|node| Some(node.link?.bytes_per_s())).sum();
    (members.len() > 1).then(|| Shared {
        port: port.bdf.to_string(),
        link,
        limit_bytes_per_s: link.bytes_per_s(),
        members: members.iter().map(Bdf::to_string).collect(),
        ssds_bytes_per_s,
    })
}

/// The first of the pairs, which are the nearest first, and why.
fn nearest(index: usize, pairs: &[Pair]) -> Option<Nearest> {
    let (first, others) = pairs.split_first()?;
    let rank = |pair: &Pair| (pair.relation, pair.links, pair.limit_bytes_per_s);
    let as_near: Vec<String> =
        others.iter().filter(|pair| rank(pair) == rank(first)).map(|pair| pair.ssd.clone()).collect();
    let mut why = format!("it and the GPU are {}, {} links apart", first.relation, first.links);
    if let Some(limit) = first.limit_bytes_per_s {
        why += &format!(", and the slowest of them carries {}", rate(limit));
    }
    if !as_near.is_empty() {
        why += &format!("; {} as near, and this one has the lowest address", list_are(&as_near));
    } else if let Some(next) = others.first() {
        why += &format!("; the next, {}, is {} ({} links)", next.ssd, next.relation, next.links);
    } else {
        why += "; it is the only SSD";
    }
    Some(Nearest { gpu: index, pair: first.clone(), as_near, why })
}

fn list_are(names: &[String]) -> String {
    let verb = if names.len() == 1 { "is" } else { "are" };
    format!("{} {verb}", names.join(", "))
}
