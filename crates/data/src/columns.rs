//! Two columns of keys and values, to be joined.

use std::io::{self, Write};

use crate::generate::write_each;
use crate::{Error, Plan, Random};

/// One left row in so many has the key of the row before.
const REPEATED: u64 = 16;

/// Sections `left` and `right`: rows of a key and a value, 64 bits each. Every 16th left key is there twice, the others
/// once. Right keys come in any order and number.
#[derive(Clone, Debug, PartialEq, Eq, clap::Args)]
pub struct Columns {
    /// Rows of the left column
    #[arg(long, value_name = "N", default_value = "16k", value_parser = crate::count)]
    pub left: u64,
    /// Rows of the right column
    #[arg(long, value_name = "N", default_value = "32k", value_parser = crate::count)]
    pub right: u64,
    /// Of 100 right rows, how many have the key of a left row
    #[arg(long, value_name = "PERCENT", default_value = "50", value_parser = crate::count)]
    pub matching: u64,
}

/// Streams of random numbers. Keys of one seed are all different: Random's numbers of one stream are.
const KEYS: u64 = 0;
const LEFT_VALUES: u64 = 1;
const RIGHT_VALUES: u64 = 2;
const MATCHES: u64 = 3;
const MATCHED: u64 = 4;

impl Columns {
    fn left_row(&self, seed: u64, row: u64) -> [u64; 2] {
        [Columns::left_key(seed, row), Random::new(seed, LEFT_VALUES).bits(row)]
    }

    fn left_key(seed: u64, row: u64) -> u64 {
        let repeats = row % REPEATED == REPEATED - 1;
        Random::new(seed, KEYS).bits(row - u64::from(repeats))
    }

    fn right_row(&self, seed: u64, row: u64) -> [u64; 2] {
        let matches = Random::new(seed, MATCHES).below(row, 100) < self.matching;
        let key = match matches {
            true => Columns::left_key(seed, Random::new(seed, MATCHED).below(row, self.left)),
            false => Random::new(seed, KEYS).bits(self.left + row),
        };
        [key, Random::new(seed, RIGHT_VALUES).bits(row)]
    }
}

impl Plan for Columns {
    fn name(&self) -> &'static str {
        "columns"
    }

    fn check(&self) -> Result<(), Error> {
        Error::unless_within("--left", self.left, 1..=1 << 36)?;
        Error::unless_within("--right", self.right, 1..=1 << 36)?;
        Error::unless_within("--matching", self.matching, 0..=100)
    }

    fn parameters(&self) -> Vec<(&'static str, u64)> {
        vec![("left", self.left), ("right", self.right), ("matching", self.matching)]
    }

    fn sections(&self) -> Vec<(&'static str, u64)> {
        vec![("left", self.left * 16), ("right", self.right * 16)]
    }

    fn write(&self, section: &str, seed: u64, out: &mut dyn Write) -> io::Result<()> {
        let bytes = |[key, value]: [u64; 2]| ((u128::from(value) << 64) | u128::from(key)).to_le_bytes();
        match section {
            "left" => write_each(out, self.left, |row| bytes(self.left_row(seed, row))),
            _ => write_each(out, self.right, |row| bytes(self.right_row(seed, row))),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[test]
    fn as_many_rows_match_as_were_asked_for() {
        let some = Columns { left: 3200, right: 5000, matching: 40 };
        let mut times = HashMap::new();
        (0..3200).for_each(|row| *times.entry(some.left_row(3, row)[0]).or_insert(0) += 1);
        let twice = times.values().filter(|times| **times == 2).count();
        assert_eq!((times.len(), twice), (3000, 200));

        let matching =
            |of: &Columns| (0..5000).filter(|row| times.contains_key(&of.right_row(3, *row)[0])).count();
        let found = matching(&some);
        assert!((1850..2150).contains(&found), "{found} of 5000");
        assert_eq!(matching(&Columns { matching: 0, ..some.clone() }), 0);
        assert_eq!(matching(&Columns { matching: 100, ..some }), 5000);
    }

    #[test]
    fn sections_have_keys_then_values() {
        let some = Columns { left: 3, right: 5, matching: 40 };
        let mut bytes = Vec::new();
        some.write("right", 1, &mut bytes).unwrap();
        assert_eq!(bytes.len(), 80);
        let last = [64, 72].map(|at| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()));
        assert_eq!(last, some.right_row(1, 4));
        let mut other = Vec::new();
        some.write("right", 2, &mut other).unwrap();
        assert_ne!(bytes, other);
    }
}
