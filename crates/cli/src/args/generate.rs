//! `gen`: which data, from which seed, into which file.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use warpbell_data::{Columns, Csr, Embeddings, Kind, Kv, Shards, Vectors};

/// `gen`.
#[derive(Debug, Subcommand)]
pub enum GenArgs {
    /// Two vectors of floats, for vector_add
    Vectors(Made<Vectors>),
    /// A table of rows of floats and a list of rows to look up, for embedding_gather and top_k
    Embeddings(Made<Embeddings>),
    /// A graph of few nodes with many edges and many with few, for bfs and pagerank
    Csr(Made<Csr>),
    /// Two columns of keys and values, for join
    Columns(Made<Columns>),
    /// Requests to a store of attention keys and values, and room for the store, for kv_cache
    Kv(Made<Kv>),
    /// The state of a model in shards of uneven size, for checkpoint
    Shards(Made<Shards>),
}

/// A kind of data by its sizes, and where it goes.
#[derive(Debug, Args)]
pub struct Made<S: Args> {
    /// Its sizes.
    #[command(flatten)]
    pub sizes: S,
    /// Where it goes.
    #[command(flatten)]
    pub to: GenTo,
}

/// Where data goes, and what it is made from.
#[derive(Debug, Args)]
pub struct GenTo {
    /// The file to write
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// What it is made from: the same seed and sizes give the same bytes on every machine
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub seed: u64,
    /// Write in the place of a file that is there
    #[arg(long)]
    pub force: bool,
}

impl GenArgs {
    /// What to make, and where.
    pub fn parts(&self) -> (Kind, &GenTo) {
        match self {
            GenArgs::Vectors(made) => (made.sizes.clone().into(), &made.to),
            GenArgs::Embeddings(made) => (made.sizes.clone().into(), &made.to),
            GenArgs::Csr(made) => (made.sizes.clone().into(), &made.to),
            GenArgs::Columns(made) => (made.sizes.clone().into(), &made.to),
            GenArgs::Kv(made) => (made.sizes.clone().into(), &made.to),
            GenArgs::Shards(made) => (made.sizes.clone().into(), &made.to),
        }
    }
}
