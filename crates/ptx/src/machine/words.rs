//! What is known by word: maps that are asked at each access.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// By the addresses of words, or by numbers of blocks.
pub(super) type Words<T> = HashMap<u64, T, BuildHasherDefault<Mix>>;

/// Addresses come from kernels, and a map of theirs that is slow harms nobody else: a few instructions are enough.
#[derive(Debug, Default)]
pub(super) struct Mix(u64);

impl Hasher for Mix {
    fn finish(&self) -> u64 {
        self.0 ^ self.0 >> 32
    }

    fn write(&mut self, bytes: &[u8]) {
        bytes.iter().for_each(|byte| self.write_u64(u64::from(*byte)));
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = (self.0.rotate_left(5) ^ value).wrapping_mul(0x517c_c1b7_2722_0a95);
    }
}
