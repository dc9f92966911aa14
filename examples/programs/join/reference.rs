//! The same join by the host.

use std::collections::HashMap;

/// Key and value.
pub type Row = [u64; 2];
/// Key, and the values of both sides.
pub type Match = [u64; 3];

/// What is compared of matches, which come in any order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// How many there are.
    pub matches: u64,
    /// The sum of their hashes.
    pub checksum: u64,
}

impl Summary {
    /// One match more.
    pub fn add(&mut self, found: Match) {
        let mix = |hash: u64, word: u64| (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        self.matches += 1;
        self.checksum = self.checksum.wrapping_add(found.into_iter().fold(1, mix));
    }
}

/// Joins two columns. Also the first right row that matches.
pub fn join(left: &[Row], right: &[Row]) -> (Summary, Option<u64>) {
    let mut table: HashMap<u64, Vec<u64>> = HashMap::new();
    for [key, value] in left {
        table.entry(*key).or_default().push(*value);
    }
    let (mut all, mut first) = (Summary::default(), None);
    for (row, [key, value]) in right.iter().enumerate() {
        for left in table.get(key).into_iter().flatten() {
            all.add([*key, *left, *value]);
            first.get_or_insert(row as u64);
        }
    }
    (all, first)
}
