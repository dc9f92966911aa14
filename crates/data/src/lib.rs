//! Synthetic data for programs: files of a kind, with a header that says what is in them.
//!
//! The same [`Kind`] with the same sizes and seed gives the same bytes on every machine: there is no floating-point
//! function, no clock and no order of threads in it. A file is written as a stream, however large it is; only graphs, and
//! requests of kind `kv`, are made in memory first.
//!
//! ```
//! use warpbell_data::{Header, Kind, Vectors, generate};
//!
//! let mut file = Vec::new();
//! let written = generate(&Kind::Vectors(Vectors { count: 1000 }), 7, &mut file)?;
//! let header = Header::read(&mut file.as_slice())?;
//! assert_eq!(header, written);
//! assert_eq!((header.kind(), header.seed(), header.parameter("count")?), ("vectors", 7, 1000));
//! assert_eq!(header.section("x")?.bytes, 4000);
//! # Ok::<(), warpbell_data::Error>(())
//! ```
#![forbid(unsafe_code)]

mod columns;
mod count;
mod csr;
mod embeddings;
mod error;
mod generate;
mod header;
mod kind;
mod kv;
mod random;
mod shards;
mod vectors;

pub use columns::Columns;
pub use count::{CountError, count};
pub use csr::Csr;
pub use embeddings::Embeddings;
pub use error::Error;
pub use generate::{Plan, generate, layout};
pub use header::{HEADER_BYTES, Header, Section};
pub use kind::Kind;
pub use kv::{Kv, KvRequest};
pub use random::Random;
pub use shards::Shards;
pub use vectors::Vectors;
