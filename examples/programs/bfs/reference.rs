//! The same search by the host.

use std::collections::VecDeque;

use crate::graph::Graph;

/// Depth of a node that no edge leads to.
pub const UNSEEN: u64 = u64::MAX;

/// What a search finds.
pub struct Search {
    /// How many edges from the source each node is.
    pub depths: Vec<u64>,
    /// Edges of the nodes that were found, and the sum of the nodes that they end in.
    pub edges: [u64; 2],
}

impl Search {
    /// Nodes that were found.
    pub fn nodes(&self) -> u64 {
        self.depths.iter().filter(|depth| **depth != UNSEEN).count() as u64
    }
}

/// Searches a graph, by a queue of nodes.
pub fn search(graph: &Graph, source: u64) -> Search {
    let mut found = Search { depths: vec![UNSEEN; graph.nodes() as usize], edges: [0; 2] };
    found.depths[source as usize] = 0;
    let mut nodes = VecDeque::from([source as usize]);
    while let Some(node) = nodes.pop_front() {
        found.edges[0] += graph.row(node).len() as u64;
        for &end in graph.row(node) {
            found.edges[1] += u64::from(end);
            if found.depths[end as usize] == UNSEEN {
                found.depths[end as usize] = found.depths[node] + 1;
                nodes.push_back(end as usize);
            }
        }
    }
    found
}
