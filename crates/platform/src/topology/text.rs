//! The tree for people.

use std::fmt::Write;

use super::{Leaf, Topology};
use crate::link::rate;

pub(super) fn text(topology: &Topology) -> String {
    let mut text = String::new();
    for root in &topology.roots {
        let numa = root.numa_node.map_or("NUMA node not told".to_owned(), |node| format!("NUMA node {node}"));
        let _ = writeln!(text, "{}  root complex, {numa}", root.name);
        children(&mut text, &root.children, "");
    }
    if topology.roots.is_empty() {
        text += "No NVIDIA GPU and no NVMe SSD on the PCIe tree.\n";
        return text;
    }
    if !topology.pairs.is_empty() {
        text += "\nGPU           SSD           RELATION  LINKS  LIMIT IN ONE DIRECTION\n";
    }
    for pair in &topology.pairs {
        let limit = match (pair.limit_bytes_per_s, &pair.limited_by) {
            (Some(limit), Some(by)) => format!("{} (link of {by})", rate(limit)),
            _ => "not told".to_owned(),
        };
        let _ = writeln!(
            text,
            "{}  {}  {:<8}  {:>5}  {limit}",
            pair.gpu,
            pair.ssd,
            pair.relation.word(),
            pair.links
        );
    }
    for shared in &topology.shared {
        let limit = rate(shared.limit_bytes_per_s);
        let _ = write!(
            text,
            "\nShared: {} above {} carries {limit} for {}",
            shared.link,
            shared.port,
            shared.members.join(", ")
        );
        let more = shared.ssds_bytes_per_s > shared.limit_bytes_per_s;
        let verdict = if more { "more than it carries" } else { "no more than it carries" };
        let _ = writeln!(text, "; the SSDs' own links have {}, {verdict}", rate(shared.ssds_bytes_per_s));
    }
    for nearest in &topology.nearest {
        let _ = writeln!(
            text,
            "\nGPU {} ({}): take {}: {}.",
            nearest.gpu, nearest.pair.gpu, nearest.pair.ssd, nearest.why
        );
    }
    text + NOTES
}

const NOTES: &str = "
PIX one switch, PXB several switches, PHB one root complex, NODE two of one NUMA node, SYS two of different nodes.
Rates are after the encoding (8b/10b below 8 GT/s, 128b/130b to 32 GT/s, 236 of 256 bytes at 64 GT/s) and before packet
headers. GPUs are numbered by address: CUDA does the same with CUDA_DEVICE_ORDER=PCI_BUS_ID.
";

fn children(text: &mut String, leaves: &[Leaf], indent: &str) {
    for (index, leaf) in leaves.iter().enumerate() {
        let (fork, bar) = if index + 1 == leaves.len() { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let _ = writeln!(text, "{indent}{fork}{}  {}", leaf.address, leaf.words());
        children(text, &leaf.children, &format!("{indent}{bar}"));
    }
}
