//! Which data there is.

use crate::{Columns, Csr, Embeddings, Kv, Plan, Shards, Vectors};

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two vectors of floats.
    Vectors(Vectors),
    /// A table of rows of floats, and rows to look up.
    Embeddings(Embeddings),
    /// A graph.
    Csr(Csr),
    /// Two columns to be joined.
    Columns(Columns),
    /// Requests to a store of attention keys and values, and room for the store.
    Kv(Kv),
    /// The state of a model, in shards of uneven size.
    Shards(Shards),
}

impl Kind {
    /// What it says of itself.
    pub fn plan(&self) -> &dyn Plan {
        match self {
            Kind::Vectors(sizes) => sizes,
            Kind::Embeddings(sizes) => sizes,
            Kind::Csr(sizes) => sizes,
            Kind::Columns(sizes) => sizes,
            Kind::Kv(sizes) => sizes,
            Kind::Shards(sizes) => sizes,
        }
    }
}

impl From<Vectors> for Kind {
    fn from(sizes: Vectors) -> Kind {
        Kind::Vectors(sizes)
    }
}

impl From<Embeddings> for Kind {
    fn from(sizes: Embeddings) -> Kind {
        Kind::Embeddings(sizes)
    }
}

impl From<Csr> for Kind {
    fn from(sizes: Csr) -> Kind {
        Kind::Csr(sizes)
    }
}

impl From<Columns> for Kind {
    fn from(sizes: Columns) -> Kind {
        Kind::Columns(sizes)
    }
}

impl From<Kv> for Kind {
    fn from(sizes: Kv) -> Kind {
        Kind::Kv(sizes)
    }
}

impl From<Shards> for Kind {
    fn from(sizes: Shards) -> Kind {
        Kind::Shards(sizes)
    }
}
