// UNSAFETY: launches kernels of its own.
//! PageRank: how much the nodes of a graph are worth to each other.
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
use crate::reference::{BASE, DAMPING, ONE, rank};

/// Ranks the nodes of a graph on an SSD by kernels, a round each, and compares ranks with the host's, which are exact.
#[derive(Parser)]
#[command(version)]
struct Pagerank {
    #[command(flatten)]
    sizes: Csr,
    /// Times that ranks are handed on
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=1000))]
    rounds: u32,
    #[command(flatten)]
    options: Options,
}

/// As in pagerank.cu.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct PagerankArgs {
    stage: StageRef,
    offsets: u64,
    columns: u64,
    nodes: u64,
    edges: u64,
    sums: u64,
    next: u64,
    base: u64,
    damping: u64,
}

fn main() -> ExitCode {
    ending(run(&Pagerank::parse()))
}

fn run(Pagerank { sizes, rounds, options }: &Pagerank) -> Result<(), Failure> {
    let data = DataFile::take(options, sizes.clone().into())?;
    let graph = Graph::read(&data)?;
    let code = Code { name: "pagerank.cu", source: include_str!("pagerank.cu") };
    let stage = Stage::open(options, &data, code, 0)?;
    // Another node is handed what the end of the first edge was to get.
    stage.corrupt(graph.columns_at)?;

    let ranks = |sums: Vec<u64>| sums.into_iter().map(|sum| rank(sum) as f64 / ONE as f64);
    let expected = reference::sums(&graph, *rounds);
    let compared = |pass: &mut Pass| {
        let found = sums(pass, &graph, *rounds)?;
        Ok(Check::of(&pass.result("rank"), ranks(expected.clone()), ranks(found)))
    };
    let (check, cached) = stage.cached(compared)?;
    let (again, loaded) = stage.loaded(compared)?;
    let check = check.and(again);
    let elements = graph.edges() * u64::from(*rounds);
    let bytes = elements * 4 + (graph.nodes() + 1) * 8 * u64::from(*rounds);
    stage.report(Outcome { program: "pagerank", element: "edge", elements, bytes, check, cached, loaded })
}

/// What each node is handed in the last round.
fn sums(pass: &mut Pass, graph: &Graph, rounds: u32) -> Result<Vec<u64>, Failure> {
    let bytes = graph.nodes() * 8;
    let mut found = vec![ONE; graph.nodes() as usize];
    let mut sums = [pass.memory(bytes)?, pass.memory(bytes)?];
    sums[0].write(0, found.as_bytes())?;
    for _ in 0..rounds {
        sums[1].fill(0, bytes as usize, 0)?;
        let args = PagerankArgs {
            stage: pass.stage(),
            offsets: graph.offsets_at,
            columns: graph.columns_at,
            nodes: graph.nodes(),
            edges: graph.edges(),
            sums: sums[0].address(),
            next: sums[1].address(),
            base: BASE,
            damping: DAMPING,
        };
        // SAFETY: the kernel touches what its arguments name: memory of this pass.
        unsafe { pass.launch("pagerank", &args, graph.nodes()) }?;
        sums.swap(0, 1);
    }
    sums[0].read(0, found.as_mut_bytes())?;
    Ok(found)
}
