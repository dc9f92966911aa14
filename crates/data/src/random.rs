//! Random numbers that are the same everywhere, in any order.

use warpbell_base::{GOLDEN, mix64};

/// Numbers by their index: each is had without those before it, so that whoever checks needs not generate all.
///
/// SplitMix64 (Steele, Lea, Flood 2014) over seed, stream and index.
#[derive(Clone, Copy, Debug)]
pub struct Random {
    base: u64,
}

impl Random {
    /// One of the streams of a seed; two of them have nothing to do with each other.
    pub fn new(seed: u64, stream: u64) -> Random {
        Random { base: mix64(mix64(seed.wrapping_add(GOLDEN)).wrapping_add(stream.wrapping_mul(GOLDEN))) }
    }

    /// Any 64 bits.
    pub fn bits(self, index: u64) -> u64 {
        mix64(self.base.wrapping_add(index.wrapping_add(1).wrapping_mul(GOLDEN)))
    }

    /// A number below `limit`, which is not 0.
    pub fn below(self, index: u64, limit: u64) -> u64 {
        ((u128::from(self.bits(index)) * u128::from(limit)) >> 64) as u64
    }

    /// A number of -1 to 1, a multiple of 2^-23: exact in 32 bits.
    pub fn signed_unit(self, index: u64) -> f32 {
        ((self.bits(index) >> 40) as i64 - (1 << 23)) as f32 / (1 << 23) as f32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// These are the bytes that users' files have.
    #[test]
    fn numbers_stay_what_they_are() {
        // From the algorithm's publication: the first of seed 0.
        assert_eq!(mix64(GOLDEN), 0xe220_a839_7b1d_cdaf);
        let random = Random::new(1, 2);
        assert_eq!([random.bits(0), random.bits(1)], [11446999876264359965, 9047282882916087253]);
        assert_ne!(random.bits(0), Random::new(1, 3).bits(0));
        assert_ne!(random.bits(0), Random::new(2, 2).bits(0));
    }

    #[test]
    fn numbers_are_within_their_limits_and_spread() {
        let random = Random::new(9, 0);
        let mut seen = [0; 10];
        for index in 0..10_000 {
            seen[random.below(index, 10) as usize] += 1;
            let unit = random.signed_unit(index);
            assert!((-1.0..=1.0).contains(&unit), "{unit}");
        }
        assert!(seen.iter().all(|&count| (850..1150).contains(&count)), "{seen:?}");
        assert_eq!(random.below(5, 1), 0);
    }
}
