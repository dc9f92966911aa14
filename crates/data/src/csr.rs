//! A directed graph in compressed sparse rows, with few nodes of many edges and many of few.

use std::io::{self, Write};

use crate::generate::write_each;
use crate::{Error, Plan, Random};

/// Of 16 edges so many begin and end in the lower half of the nodes in question, and so many begin there and end in the
/// upper half, or the other way round: R-MAT, with the parameters of Graph500 in sixteenths.
const LOWER: u64 = 9;
const MIXED: u64 = 3;

/// Section `offsets`: where each row begins in `columns`, and where the last one ends, 64 bits each. Section `columns`:
/// where edges end, 32 bits each, in ascending order within a row. An edge may be there twice, or end where it begins.
///
/// Making it takes memory for all of it.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Csr {
    /// Nodes of the graph
    #[arg(long, value_name = "N", default_value = "16k", value_parser = crate::count)]
    pub nodes: u64,
    /// Edges of the graph
    #[arg(long, value_name = "N", default_value = "128k", value_parser = crate::count)]
    pub edges: u64,
}

impl Csr {
    /// From where to where an edge goes.
    fn edge(&self, random: Random, index: u64) -> (u64, u64) {
        let levels = self.nodes.next_power_of_two().trailing_zeros();
        let bits = [0, 1].map(|word| random.bits(2 * index + word));
        let (mut row, mut column) = (0, 0);
        for level in 0..levels {
            let quarter = bits[(level / 16) as usize] >> (4 * (level % 16)) & 15;
            let upper_row = quarter >= LOWER + MIXED;
            let upper_column = if upper_row { quarter >= LOWER + 2 * MIXED } else { quarter >= LOWER };
            row = (row << 1) | u64::from(upper_row);
            column = (column << 1) | u64::from(upper_column);
        }
        // Of a number of nodes that is no power of two.
        ((row * self.nodes) >> levels, (column * self.nodes) >> levels)
    }

    fn edges(&self, seed: u64) -> impl Iterator<Item = (u64, u64)> {
        let random = Random::new(seed, 0);
        (0..self.edges).map(move |index| self.edge(random, index))
    }

    /// Section `offsets`.
    pub fn offsets(&self, seed: u64) -> Vec<u64> {
        let mut offsets = vec![0; self.nodes as usize + 1];
        self.edges(seed).for_each(|(row, _)| offsets[row as usize + 1] += 1);
        (0..self.nodes as usize).for_each(|row| offsets[row + 1] += offsets[row]);
        offsets
    }

    /// Section `columns`.
    pub fn columns(&self, seed: u64) -> Vec<u32> {
        let offsets = self.offsets(seed);
        let (mut columns, mut next) = (vec![0; self.edges as usize], offsets.clone());
        for (row, column) in self.edges(seed) {
            let at = &mut next[row as usize];
            columns[*at as usize] = column as u32;
            *at += 1;
        }
        for row in offsets.windows(2) {
            columns[row[0] as usize..row[1] as usize].sort_unstable();
        }
        columns
    }
}

impl Plan for Csr {
    fn name(&self) -> &'static str {
        "csr"
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_within("--nodes", self.nodes, 1..=1 << 31)?;
        Error::unless_within("--edges", self.edges, 1..=1 << 36)
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![("nodes", self.nodes), ("edges", self.edges)]
    }

    fn sections(&self) -> Vec<(&'static str, u64)> {
        vec![("offsets", (self.nodes + 1) * 8), ("columns", self.edges * 4)]
    }

    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        if section == "offsets" {
            let offsets = self.offsets(seed);
            return write_each(out, self.nodes + 1, |row| offsets[row as usize].to_le_bytes());
        }
        let columns = self.columns(seed);
        write_each(out, self.edges, |edge| columns[edge as usize].to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOME: Csr = Csr { nodes: 1000, edges: 8000 };

    #[test]
    fn each_edge_is_in_its_row() {
        let (offsets, columns) = (SOME.offsets(7), SOME.columns(7));
        assert_eq!((offsets.len(), offsets[0], offsets[1000]), (1001, 0, 8000));
        let mut found = Vec::new();
        for (row, ends) in offsets.windows(2).enumerate() {
            let columns = &columns[ends[0] as usize..ends[1] as usize];
            assert!(columns.is_sorted(), "row {row}");
            found.extend(columns.iter().map(|column| (row as u64, u64::from(*column))));
        }
        let mut expected: Vec<_> = SOME.edges(7).collect();
        expected.sort_unstable();
        assert_eq!(found, expected);
        assert!(expected.iter().all(|(row, column)| *row < 1000 && *column < 1000));
        assert_ne!(SOME.columns(8), columns);
    }

    #[test]
    fn few_nodes_have_most_edges() {
        let graph = Csr { nodes: 4096, edges: 32768 };
        let offsets = graph.offsets(1);
        let mut degrees: Vec<_> = offsets.windows(2).map(|row| row[1] - row[0]).collect();
        degrees.sort_unstable_by(|one, other| other.cmp(one));
        let of_a_tenth: u64 = degrees[..410].iter().sum();
        assert!(of_a_tenth > 32768 / 2, "a tenth of the nodes has {of_a_tenth} of 32768 edges");
        assert!(degrees[0] > 20 * 8, "the largest row has {} edges", degrees[0]);
    }
}
