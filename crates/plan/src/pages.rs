//! Pages of the documentation that are made from data.

use crate::error::Error;
use crate::{challenges, claims};

/// Such a page.
#[derive(Clone, Copy, Debug)]
pub struct Page {
    /// Where it lies in the repository.
    pub file: &'static str,
    /// What it is made from.
    pub data: &'static str,
    /// Makes it.
    pub make: fn() -> Result<String, Error>,
}

/// All of them. `scripts/regenerate-claims` writes them.
pub const PAGES: [Page; 2] = [
    Page { file: "docs/claims.md", data: "crates/plan/claims.toml", make: claims::page },
    Page { file: "docs/challenges.md", data: "crates/plan/challenges.toml", make: challenges::page },
];
