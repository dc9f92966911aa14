//! Where the choices of an episode come from: a seed, or the input of a fuzzer.

use std::convert::Infallible;

use rand::{Rng, SeedableRng, TryRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// A source of choices.
pub struct Random {
    /// What was not used yet of a fuzzer's input.
    input: Option<Vec<u8>>,
    /// What follows behind the input, and what fills memory.
    rest: Xoshiro256PlusPlus,
}

impl Random {
    /// Choices without end, by a seed.
    pub fn seeded(seed: u64) -> Random {
        Random { input: None, rest: Xoshiro256PlusPlus::seed_from_u64(seed) }
    }

    /// The choices that a fuzzer made. A changed byte changes one of them, and a longer input makes a longer episode.
    pub fn of_input(input: &[u8]) -> Random {
        let input = input.iter().rev().copied().collect();
        Random { input: Some(input), rest: Xoshiro256PlusPlus::seed_from_u64(1) }
    }

    /// Whether the input is used up; never so for a seed.
    pub fn is_spent(&self) -> bool {
        self.input.as_ref().is_some_and(Vec::is_empty)
    }

    /// Two bytes, of which each is in both halves of the word: ranges take its high bits, small integers its low ones.
    fn word(&mut self) -> Option<u32> {
        let input = self.input.as_mut()?;
        let (one, other) = (input.pop()?, input.pop().unwrap_or(0));
        Some(u32::from_le_bytes([one, other, other, one]))
    }
}

impl TryRng for Random {
    type Error = Infallible;

    fn try_next_u32(&mut self) -> Result<u32, Infallible> {
        Ok(self.word().unwrap_or_else(|| self.rest.next_u32()))
    }

    fn try_next_u64(&mut self) -> Result<u64, Infallible> {
        let value = match self.word() {
            Some(high) => u64::from(high) << 32 | u64::from(self.word().unwrap_or(0)),
            None => self.rest.next_u64(),
        };
        Ok(value)
    }

    /// Whole buffers are never an input's: they would use it up.
    fn try_fill_bytes(&mut self, into: &mut [u8]) -> Result<(), Infallible> {
        self.rest.fill_bytes(into);
        Ok(())
    }
}
