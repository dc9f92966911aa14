//! A graph in compressed sparse rows, as the host has it.

use warpbell_examples::{DataFile, Failure};

/// The graph of a file, and where it is.
pub struct Graph {
    /// Where rows begin in `columns`, and where the last one ends.
    pub offsets: Vec<u64>,
    columns: Vec<u32>,
    /// The first byte of the offsets on the SSD.
    pub offsets_at: u64,
    /// The first byte of the columns there.
    pub columns_at: u64,
}

impl Graph {
    /// Reads all of it, and refuses what is no graph.
    pub fn read(data: &DataFile) -> Result<Graph, Failure> {
        let graph = Graph {
            offsets: data.values("offsets", u64::from_le_bytes)?,
            columns: data.values("columns", u32::from_le_bytes)?,
            offsets_at: data.section("offsets")?.offset,
            columns_at: data.section("columns")?.offset,
        };
        match graph.is_one() {
            true => Ok(graph),
            false => Err(data.refused(
                "its rows must lie one behind the other, and edges end in nodes that there are".to_owned(),
            )),
        }
    }

    fn is_one(&self) -> bool {
        self.offsets.len() > 1
            && self.offsets[0] == 0
            && self.offsets.is_sorted()
            && self.offsets.last() == Some(&self.edges())
            && self.columns.iter().all(|column| u64::from(*column) < self.nodes())
    }

    /// Its nodes.
    pub fn nodes(&self) -> u64 {
        self.offsets.len() as u64 - 1
    }

    /// Its edges.
    pub fn edges(&self) -> u64 {
        self.columns.len() as u64
    }

    /// Where a node's edges end.
    pub fn row(&self, node: usize) -> &[u32] {
        &self.columns[self.offsets[node] as usize..self.offsets[node + 1] as usize]
    }
}
