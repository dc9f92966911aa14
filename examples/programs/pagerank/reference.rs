//! The same ranks by the host.

use crate::graph::Graph;

/// A rank of one.
pub const ONE: u64 = 1 << 32;
/// In 256ths: 0.85, nearly.
pub const DAMPING: u64 = 217;
/// What each node's rank is at least.
pub const BASE: u64 = ONE - ((ONE * DAMPING) >> 8);

/// A node's rank, of what it was handed in the last round.
pub fn rank(sum: u64) -> u64 {
    BASE + ((sum * DAMPING) >> 8)
}

/// What each node is handed in the last of so many rounds. Ranks begin at one; that of a node without edges is lost.
pub fn sums(graph: &Graph, rounds: u32) -> Vec<u64> {
    let mut sums = vec![ONE; graph.nodes() as usize];
    for _ in 0..rounds {
        let mut next = vec![0; sums.len()];
        for (node, sum) in sums.iter().enumerate() {
            let row = graph.row(node);
            row.iter().for_each(|end| next[*end as usize] += rank(*sum) / row.len() as u64);
        }
        sums = next;
    }
    sums
}
