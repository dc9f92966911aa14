//! Two vectors of floats, to be added.

use std::io::{self, Write};

use crate::generate::write_each;
use crate::{Error, Plan, Random};

/// Sections `x` and `y`: floats of 32 bits, from -1 to 1.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Vectors {
    /// Elements of each vector
    #[arg(long, value_name = "N", default_value = "1m", value_parser = crate::count)]
    pub count: u64,
}

impl Plan for Vectors {
    fn name(&self) -> &'static str {
        "vectors"
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_within("--count", self.count, 1..=1 << 40)
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![("count", self.count)]
    }

    fn sections(&self) -> Vec<(&'static str, u64)> {
        vec![("x", self.count * 4), ("y", self.count * 4)]
    }

    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        let random = Random::new(seed, u64::from(section == "y"));
        write_each(out, self.count, |index| random.signed_unit(index).to_le_bytes())
    }
}
