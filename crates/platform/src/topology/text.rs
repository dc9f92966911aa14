//! The tree for people.

use std::fmt::Write;

use super::{Leaf, Nearest, Pair, Shared, Topology};
use crate::link::rate;

pub(super) fn text(topology: &Topology) -> String {
    let mut text = String::new();
    for root in &topology.roots {
        let numa = root.numa_node.map_or("NUMA node not told".to_owned(), |node| format!("NUMA node {node}"));
        let _ = writeln!(text, "{}  root complex, {numa}", root.name);
        children(&mut text, &root.children, "");
    }
    if topology.roots.is_empty() {
        return "No NVIDIA GPU and no NVMe SSD on the PCIe tree.\n".to_owned();
    }
    if !topology.pairs.is_empty() {
        text += "\nGPU           SSD           RELATION  LINKS  LIMIT IN ONE DIRECTION\n";
    }
    text.extend(topology.pairs.iter().map(pair));
    text.extend(topology.shared.iter().map(shared));
    for Nearest { gpu, pair, why, .. } in &topology.nearest {
        let _ = writeln!(text, "\nGPU {gpu} ({}): take {}: {why}.", pair.gpu, pair.ssd);
    }
    text + NOTES
}

fn pair(pair: &Pair) -> String {
    let limit = match (pair.limit_bytes_per_s, &pair.limited_by) {
        (Some(limit), Some(by)) => format!("{} (link of {by})", rate(limit)),
        _ => "not told".to_owned(),
    };
    format!("{}  {}  {:<8}  {:>5}  {limit}\n", pair.gpu, pair.ssd, pair.relation.word(), pair.links)
}

fn shared(shared: &Shared) -> String {
    let more = shared.ssds_bytes_per_s > shared.limit_bytes_per_s;
    format!(
        "\nShared: {} above {} carries {} for {}; the SSDs' own links have {}, {} than it carries\n",
        shared.link,
        shared.port,
        rate(shared.limit_bytes_per_s),
        shared.members.join(", "),
        rate(shared.ssds_bytes_per_s),
        if more { "more" } else { "no more" },
    )
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
