//! A table of rows of floats, and rows to look up.

use std::io::{self, Write};

use crate::generate::write_each;
use crate::{Error, Plan, Random};

/// Section `rows`: `rows` times `dim` floats of 32 bits, from -1 to 1. Section `lookups`: row numbers of 64 bits, of
/// which some rows have many, as words of a text have.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Embeddings {
    /// Rows of the table
    #[arg(long, value_name = "N", default_value = "64k", value_parser = crate::count)]
    pub rows: u64,
    /// Floats of a row
    #[arg(long, value_name = "N", default_value = "96", value_parser = crate::count)]
    pub dim: u64,
    /// Rows to look up
    #[arg(long, value_name = "N", default_value = "16k", value_parser = crate::count)]
    pub lookups: u64,
}

/// Neighbours in rank are not neighbours in the table, and no two ranks have one row: a prime, the largest of 64 bits.
const SCATTER: u128 = 0xffff_ffff_ffff_ffc5;

impl Embeddings {
    /// Which row lookup `index` wants. Half of all lookups want an eighth of the rows, which are anywhere in the table.
    fn lookup(&self, random: Random, index: u64) -> u64 {
        let draw = random.below(index, 1 << 32);
        let cubed = u128::from(draw).pow(3) >> 64;
        let rank = (cubed * u128::from(self.rows)) >> 32;
        ((rank * SCATTER) % u128::from(self.rows)) as u64
    }
}

impl Plan for Embeddings {
    fn name(&self) -> &'static str {
        "embeddings"
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_within("--rows", self.rows, 1..=1 << 32)?;
        Error::unless_within("--dim", self.dim, 1..=1 << 16)?;
        Error::unless_within("--lookups", self.lookups, 1..=1 << 32)
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![("rows", self.rows), ("dim", self.dim), ("lookups", self.lookups)]
    }

    fn sections(&self) -> Vec<(&'static str, u64)> {
        vec![("rows", self.rows * self.dim * 4), ("lookups", self.lookups * 8)]
    }

    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        let random = Random::new(seed, u64::from(section == "lookups"));
        match section {
            "rows" => write_each(out, self.rows * self.dim, |index| random.signed_unit(index).to_le_bytes()),
            _ => write_each(out, self.lookups, |index| self.lookup(random, index).to_le_bytes()),
        }
    }
}
