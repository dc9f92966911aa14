//! Which data there is.

use crate::{Embeddings, Plan, Vectors};

/// What to make.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Two vectors of floats.
    Vectors(Vectors),
    /// A table of rows of floats, and rows to look up.
    Embeddings(Embeddings),
}

impl Kind {
    /// What it says of itself.
    pub fn plan(&self) -> &dyn Plan {
        match self {
            Kind::Vectors(sizes) => sizes,
            Kind::Embeddings(sizes) => sizes,
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
