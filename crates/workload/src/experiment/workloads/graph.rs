//! `graph`: a breadth-first search whose edges lie on the SSD. Level after level, the rows of the nodes found last are
//! read; who a row leads to is known from the graph that was made, not from what was read.

use std::collections::BTreeSet;
use std::rc::Rc;

use warpbell_data::Csr;

use super::{Requests, Way, done, refusal, seconds};
use crate::error::RunError;
use crate::experiment::unfit::Unfit;
use crate::experiment::{Figures, Lab};
use crate::options::ReplayTiming;

/// Edges of a node, on average.
const DEGREE: u64 = 16;
/// Bytes of an edge.
const EDGE: u64 = 4;

/// Rows of the graph, as bytes of the SSD.
struct Graph {
    offsets: Vec<u64>,
    columns: Vec<u32>,
}

impl Graph {
    /// Where the edges of a node end.
    fn neighbours(&self, node: u32) -> &[u32] {
        let (first, end) = (self.offsets[node as usize], self.offsets[node as usize + 1]);
        &self.columns[first as usize..end as usize]
    }

    /// Bytes of a node's row.
    fn row(&self, node: u32) -> (u64, u64) {
        (self.offsets[node as usize] * EDGE, self.neighbours(node).len() as u64 * EDGE)
    }

    /// The nodes of each level, from the node with the most edges on.
    fn levels(&self) -> Vec<Vec<u32>> {
        let nodes = self.offsets.len() - 1;
        let most = (0..nodes as u32).max_by_key(|node| self.row(*node).1).unwrap_or(0);
        let mut found = vec![false; nodes];
        found[most as usize] = true;
        let (mut levels, mut level) = (Vec::new(), vec![most]);
        while !level.is_empty() {
            let mut next = Vec::new();
            for node in &level {
                for to in self.neighbours(*node) {
                    if !std::mem::replace(&mut found[*to as usize], true) {
                        next.push(*to);
                    }
                }
            }
            levels.push(std::mem::replace(&mut level, next));
        }
        levels
    }
}

/// A graph, and the nodes of each level of the search.
struct Search {
    graph: Graph,
    levels: Vec<Vec<u32>>,
}

/// Its ways: each node's row by itself, and each page of a level once.
pub(in crate::experiment) fn ways(lab: &Lab<'_>) -> Result<Vec<Way>, RunError> {
    let csr = Csr { nodes: lab.options.ops, edges: lab.options.ops * DEGREE };
    let room = Requests::on(lab, lab.ssd)?.room();
    if csr.edges * EDGE > room {
        let skip: Way = Box::new(move |lab| {
            let (count, bytes) = (csr.edges, csr.edges * EDGE);
            lab.skip("rows", Unfit::Items { what: "edges", count, bytes, room });
            Ok(())
        });
        return Ok(vec![skip]);
    }
    let seed = lab.options.seed;
    let graph = Graph { offsets: csr.offsets(seed), columns: csr.columns(seed) };
    let search = Rc::new(Search { levels: graph.levels(), graph });
    let mut ways: Vec<Way> = Vec::new();
    let rows = search.clone();
    ways.push(Box::new(move |lab| rows.row(lab, "rows", None)));
    for size in lab.options.sizes.clone() {
        let search = search.clone();
        ways.push(Box::new(move |lab| search.row(lab, &format!("pages bs={size}"), Some(size.0))));
    }
    Ok(ways)
}

/// What the levels of a search took together.
#[derive(Default)]
struct Sum {
    seconds: f64,
    commands: u64,
    bytes: u64,
    /// What the lists asked for: the model.
    listed: (u64, u64),
}

impl Search {
    /// Adds a row: the levels one after the other, whose times add up. A level waits for the one before; what the host
    /// does between two is not part of it.
    fn row(&self, lab: &mut Lab<'_>, name: &str, page: Option<u64>) -> Result<(), RunError> {
        let (mut sum, mut edges) = (Sum::default(), 0);
        for level in &self.levels {
            edges += level.iter().map(|node| self.graph.row(*node).1 / EDGE).sum::<u64>();
            if !self.level(lab, name, (level, page), &mut sum)? {
                return Ok(());
            }
        }
        let per_edge = |bytes: u64| bytes as f64 / (edges * EDGE).max(1) as f64;
        let rate = |count: u64| count as f64 / sum.seconds;
        let figures = Figures::default()
            .with("edges_per_s", rate(edges))
            .with("iops", rate(sum.commands))
            .with("bytes_per_s", rate(sum.bytes))
            .with("levels", self.levels.len() as f64)
            .with("commands", sum.commands as f64)
            .with("read_amplification", per_edge(sum.bytes))
            .with("expected_commands", sum.listed.0 as f64)
            .with("expected_read_amplification", per_edge(sum.listed.1));
        lab.row(name, figures);
        Ok(())
    }

    /// Reads a level. False: there is no row.
    fn level(
        &self,
        lab: &mut Lab<'_>,
        name: &str,
        (level, page): (&[u32], Option<u64>),
        sum: &mut Sum,
    ) -> Result<bool, RunError> {
        let mut requests = Requests::on(lab, lab.ssd)?;
        let wrong = page
            .filter(|page| *page == 0 || !page.is_multiple_of(requests.block))
            .map(|page| Unfit::Block { bytes: page, block: requests.block });
        if wrong.is_none() {
            ask(&mut requests, &self.graph, level, page);
        }
        if let Some(reason) = wrong.or_else(|| refusal(&requests)) {
            lab.skip(name, reason);
            return Ok(false);
        }
        if requests.commands == 0 {
            return Ok(true);
        }
        sum.listed = (sum.listed.0 + requests.commands, sum.listed.1 + requests.bytes);
        let options = requests.options(lab, name, ReplayTiming::Asap);
        let Some(run) = lab.point(name, &options)? else { return Ok(false) };
        let (commands, bytes) = done(&run);
        (sum.commands, sum.bytes) = (sum.commands + commands, sum.bytes + bytes);
        sum.seconds += seconds(&run);
        Ok(true)
    }
}

fn ask(requests: &mut Requests, graph: &Graph, level: &[u32], page: Option<u64>) {
    let rows = level.iter().map(|node| graph.row(*node)).filter(|(_, bytes)| *bytes > 0);
    let Some(page) = page else {
        return rows.for_each(|(at, bytes)| {
            requests.read(at, bytes, 0);
            requests.next_warp();
        });
    };
    let pages: BTreeSet<u64> = rows.flat_map(|(at, bytes)| at / page..(at + bytes).div_ceil(page)).collect();
    let end = requests.room();
    for number in pages {
        let at = number * page;
        requests.read(at, page.min(end - at), 0);
        requests.next_warp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_node_is_found_once_and_levels_follow_edges() {
        let csr = Csr { nodes: 500, edges: 4000 };
        let graph = Graph { offsets: csr.offsets(3), columns: csr.columns(3) };
        let levels = graph.levels();
        let found: BTreeSet<u32> = levels.iter().flatten().copied().collect();
        assert_eq!(found.len(), levels.iter().map(Vec::len).sum::<usize>(), "no node twice");
        assert!(levels.len() > 2 && found.len() > 100, "{} levels, {} nodes", levels.len(), found.len());
        for pair in levels.windows(2) {
            let reached: BTreeSet<u32> =
                pair[0].iter().flat_map(|node| graph.neighbours(*node)).copied().collect();
            assert!(pair[1].iter().all(|node| reached.contains(node)));
        }
    }
}
