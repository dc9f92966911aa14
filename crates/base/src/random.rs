//! Reproducible random numbers: cheap enough for every I/O, and a function of the seed alone.

/// SplitMix64: a 64-bit counter behind a mixing function. (Steele, Lea, Flood: "Fast Splittable
/// Pseudorandom Number Generators", 2014.)
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

/// The odd step of the counter: 2^64 divided by the golden ratio.
pub const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mixing function alone: a bijection of 64-bit words.
#[inline]
pub fn mix64(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

impl SplitMix64 {
    /// The stream `stream` of `seed`; different streams do not overlap in practice.
    pub fn new(seed: u64, stream: u64) -> SplitMix64 {
        SplitMix64(mix64(seed ^ mix64(stream.wrapping_mul(GOLDEN).wrapping_add(1))))
    }

    /// The stream that starts behind `state`, as published.
    pub fn from_state(state: u64) -> SplitMix64 {
        SplitMix64(state)
    }

    /// The next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(GOLDEN);
        mix64(self.0)
    }

    /// Puts values into an order of chance.
    pub fn shuffle<T>(&mut self, values: &mut [T]) {
        for last in (1..values.len()).rev() {
            values.swap(last, self.below(last as u64 + 1) as usize);
        }
    }

    /// A number below `bound` (not 0). The bias of the multiplication is below `bound / 2^64`.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_repeat_and_differ() {
        let take = |seed, stream| {
            let mut random = SplitMix64::new(seed, stream);
            [random.next_u64(), random.next_u64(), random.next_u64()]
        };
        assert_eq!(take(1, 0), take(1, 0));
        assert_ne!(take(1, 0), take(1, 1));
        assert_ne!(take(1, 0), take(2, 0));
    }

    #[test]
    fn the_published_numbers_come_out() {
        let mut random = SplitMix64::from_state(1_234_567);
        let first = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423];
        assert_eq!([(); 3].map(|()| random.next_u64()), first);
    }

    #[test]
    fn bounded_numbers_fill_their_range() {
        let mut random = SplitMix64::new(7, 0);
        let mut seen = [0u32; 10];
        for _ in 0..10_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|&count| (800..1200).contains(&count)), "{seen:?}");
        assert_eq!(random.below(1), 0);
    }
}
