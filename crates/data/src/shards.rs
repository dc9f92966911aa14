//! The state of a model, in shards of uneven size.

use std::io::{self, Write};

use crate::generate::write_each;
use crate::{Error, Plan, Random};

/// Sections `shard0` to `shard7`, as many as there are ranks: any bits, in words of 64 bits. Their sizes lie between half
/// and one and a half of what was asked for.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Shards {
    /// Ranks, each with a shard
    #[arg(long, value_name = "N", default_value = "4", value_parser = crate::count)]
    pub ranks: u64,
    /// Bytes of a shard on average
    #[arg(long, value_name = "SIZE", default_value = "4m", value_parser = crate::count)]
    pub shard: u64,
}

const NAMES: [&str; 8] = ["shard0", "shard1", "shard2", "shard3", "shard4", "shard5", "shard6", "shard7"];

impl Shards {
    /// Bytes of shard `rank`. They are the same for each seed: sections must not depend on it.
    fn bytes(&self, rank: u64) -> u64 {
        let words = self.shard / 8;
        (words - words / 2 + Random::new(0, 0).below(rank, words + 1)) * 8
    }
}

impl Plan for Shards {
    fn name(&self) -> &'static str {
        "shards"
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_within("--ranks", self.ranks, 1..=NAMES.len() as u64)?;
        Error::unless_within("--shard", self.shard, 8..=1 << 40)
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![("ranks", self.ranks)]
    }

    fn sections(&self) -> Vec<(&'static str, u64)> {
        (0..self.ranks).map(|rank| (NAMES[rank as usize], self.bytes(rank))).collect()
    }

    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        let rank = NAMES.iter().position(|name| *name == section).unwrap_or_default() as u64;
        let random = Random::new(seed, 1 + rank);
        write_each(out, self.bytes(rank) / 8, |index| random.bits(index).to_le_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, generate};

    #[test]
    fn each_rank_has_a_shard_of_its_own_size() {
        let mut file = Vec::new();
        let header = generate(&Kind::Shards(Shards { ranks: 4, shard: 100_000 }), 3, &mut file).unwrap();
        let shards: Vec<_> = NAMES[..4].iter().map(|name| header.section(name).unwrap()).collect();
        for shard in &shards {
            assert!((50_000..=150_000).contains(&shard.bytes), "{shard:?}");
            assert_eq!((shard.bytes % 8, shard.offset % 4096), (0, 0), "{shard:?}");
        }
        let bytes = |index: usize| &file[shards[index].offset as usize..shards[index].end() as usize];
        for (one, other) in [(0, 1), (1, 2), (2, 3), (3, 0)] {
            assert_ne!(shards[one].bytes, shards[other].bytes);
            assert_ne!(bytes(one)[..64], bytes(other)[..64]);
        }
        assert!(header.section("shard4").is_err());
    }

    #[test]
    fn sizes_have_limits() {
        assert_eq!(
            Shards { ranks: 9, shard: 4096 }.check().unwrap_err().to_string(),
            "--ranks 9: must be from 1 to 8"
        );
        assert!(Shards { ranks: 1, shard: 7 }.check().is_err());
        assert!(Shards { ranks: 8, shard: 8 }.check().is_ok());
        assert!((0..8).all(|rank| Shards { ranks: 8, shard: 8 }.bytes(rank) >= 8));
    }
}
