// UNSAFETY: launches kernels of its own.
//! Breadth-first search: how many edges each node of a graph is away from one of them.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]

#[path = "../graph.rs"]
mod graph;
mod reference;

use std::process::ExitCode;

use clap::Parser;
use warpbell_data::Csr;
use warpbell_examples::{Check, Code, DataFile, Failure, Options, Outcome, Pass, Stage, StageRef, ending};
use zerocopy::{Immutable, IntoBytes};

use crate::graph::Graph;
use crate::reference::{Search, UNSEEN};

/// Searches a graph on an SSD breadth-first by kernels, a level each, and compares depths with those of a search by the
/// host.
#[derive(Parser)]
#[command(version)]
struct Bfs {
    #[command(flatten)]
    sizes: Csr,
    /// The node to begin with
    #[arg(long, value_name = "NODE", default_value_t = 0)]
    source: u64,
    #[command(flatten)]
    options: Options,
}

/// As in bfs.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct BfsArgs {
    stage: StageRef,
    offsets: u64,
    columns: u64,
    nodes: u64,
    edges: u64,
    depths: u64,
    frontier: u64,
    next: u64,
    frontier_nodes: u64,
    level: u64,
    found: u64,
}

fn main() -> ExitCode {
    ending(run(&Bfs::parse()))
}

fn run(Bfs { sizes, source, options }: &Bfs) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let graph = Graph::read(&data)?;
    if *source >= graph.nodes() {
        let limit = format!("the graph has nodes from 0 to {}", graph.nodes() - 1);
        return Err(Failure::Usage { object: "--source", value: source.to_string(), limit });
    }
    let code = Code { name: "bfs.cu", source: include_str!("bfs.cu") };
    let stage = Stage::open(options, &data, code, 0)?;
    stage.corrupt(byte_that_matters(&graph, *source))?;

    let expected = reference::search(&graph, *source);
    let compared = |pass: &mut Pass| {
        let found = search(pass, &graph, *source)?;
        let depths = Check::of(&pass.result("depth"), &expected.depths, &found.depths);
        let check = depths.and(Check::of(&pass.result("edges"), expected.edges, found.edges));
        Ok((check, found))
    };
    let ((check, found), cached) = stage.cached(compared)?;
    let ((again, _), loaded) = stage.loaded(compared)?;
    let check = check.and(again);
    let (elements, bytes) = (found.edges[0], found.edges[0] * 4 + found.nodes() * 16);
    stage.report(Outcome { program: "bfs", element: "edge", elements, bytes, check, cached, loaded })
}

/// Of where the source's first edge ends: no node is there then. Or of where its row ends, where it has none.
fn byte_that_matters(graph: &Graph, source: u64) -> u64 {
    match graph.row(source as usize) {
        [] => graph.offsets_at + (source + 1) * 8,
        _ => graph.columns_at + graph.offsets[source as usize] * 4 + 3,
    }
}

fn search(pass: &mut Pass, graph: &Graph, source: u64) -> Result<Search, Failure> {
    let mut found = Search { depths: vec![UNSEEN; graph.nodes() as usize], edges: [0; 2] };
    found.depths[source as usize] = 0;
    let depths = pass.memory(graph.nodes() * 8)?;
    depths.write(0, found.depths.as_bytes())?;
    let mut frontiers = [pass.memory(graph.nodes() * 4)?, pass.memory(graph.nodes() * 4)?];
    frontiers[0].write(0, &(source as u32).to_ne_bytes())?;
    let counts = pass.memory(24)?;
    let mut frontier_nodes = 1;
    for level in 0.. {
        counts.write(0, &[0; 24])?;
        let args = BfsArgs {
            stage: pass.stage(),
            offsets: graph.offsets_at,
            columns: graph.columns_at,
            nodes: graph.nodes(),
            edges: graph.edges(),
            depths: depths.address(),
            frontier: frontiers[0].address(),
            next: frontiers[1].address(),
            frontier_nodes,
            level,
            found: counts.address(),
        };
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { pass.launch("bfs", &args, frontier_nodes) }?;
        let mut counted = [0u64; 3];
        counts.read(0, counted.as_mut_bytes())?;
        found.edges = [found.edges[0] + counted[1], found.edges[1] + counted[2]];
        frontiers.swap(0, 1);
        frontier_nodes = counted[0];
        if frontier_nodes == 0 {
            break;
        }
    }
    depths.read(0, found.depths.as_mut_bytes())?;
    Ok(found)
}
