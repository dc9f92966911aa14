//! A distribution given by percentiles, and draws from it.

use std::time::Duration;

use rand::{Rng, RngExt};

/// Draws of one cycle: each ten-thousandth of the distribution occurs once in so many.
const STRATA: u16 = 10_000;

/// Latencies at percentiles, in increasing order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Percentiles {
    /// The fastest.
    pub min: Duration,
    /// Half are at most this long.
    pub p50: Duration,
    /// 90 % are at most this long.
    pub p90: Duration,
    /// 99 %.
    pub p99: Duration,
    /// 99.9 %.
    pub p99_9: Duration,
    /// 99.99 %.
    pub p99_99: Duration,
    /// The slowest: one in a million is this long.
    pub max: Duration,
}

impl Percentiles {
    /// Names and values, in the order in which they must increase.
    pub(crate) fn named(&self) -> [(&'static str, Duration); 7] {
        [
            ("min", self.min),
            ("p50", self.p50),
            ("p90", self.p90),
            ("p99", self.p99),
            ("p99_9", self.p99_9),
            ("p99_99", self.p99_99),
            ("max", self.max),
        ]
    }

    /// The inverse of the cumulative distribution: `q` from 0 to 1. Between two percentiles the logarithm of the
    /// latency goes linearly with the number of nines, `-log10(1 - q)`.
    pub fn at(&self, q: f64) -> Duration {
        const NINES: [f64; 7] = [0.0, std::f64::consts::LOG10_2, 1.0, 2.0, 3.0, 4.0, 6.0];
        let nines = -(1.0 - q).max(1e-6).log10();
        let values = self.named().map(|(_, value)| (value.as_nanos() as f64).ln());
        let above = NINES.iter().position(|n| *n >= nines).unwrap_or(6).max(1);
        let (low, high) = (NINES[above - 1], NINES[above]);
        let part = ((nines - low) / (high - low)).clamp(0.0, 1.0);
        let value = values[above - 1] + part * (values[above] - values[above - 1]);
        Duration::from_nanos(value.exp().round() as u64)
    }
}

/// Draws latencies. Of every ten thousand draws each ten-thousandth of the distribution gets one, in random order, so
/// that a short run, too, has the percentiles of the profile.
#[derive(Debug)]
pub(super) struct Sampler {
    percentiles: Percentiles,
    strata: Vec<u16>,
    next: usize,
}

impl Sampler {
    pub(super) fn new(percentiles: Percentiles) -> Sampler {
        Sampler { percentiles, strata: (0..STRATA).collect(), next: 0 }
    }

    pub(super) fn draw(&mut self, random: &mut impl Rng) -> Duration {
        // One step of a Fisher-Yates shuffle for each draw.
        let other = random.random_range(self.next..self.strata.len());
        self.strata.swap(self.next, other);
        let stratum = f64::from(self.strata[self.next]);
        self.next = (self.next + 1) % self.strata.len();
        let inside: f64 = random.random();
        self.percentiles.at((stratum + inside) / f64::from(STRATA))
    }
}

#[cfg(test)]
mod tests {
    use rand::SeedableRng;
    use rand_xoshiro::Xoshiro256PlusPlus;

    use super::*;

    fn table() -> Percentiles {
        let us = Duration::from_micros;
        let (p50, p90, p99) = (us(80), us(95), us(130));
        Percentiles { min: us(60), p50, p90, p99, p99_9: us(250), p99_99: us(900), max: us(5000) }
    }

    #[test]
    fn the_inverse_goes_through_every_percentile() {
        let table = table();
        for (q, value) in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 1.0].into_iter().zip(table.named()) {
            let off = table.at(q).abs_diff(value.1);
            assert!(off * 1000 < value.1, "{}: {:?}", value.0, table.at(q));
        }
        let steps: Vec<_> = (0..=1000).map(|i| table.at(f64::from(i) / 1000.0)).collect();
        assert!(steps.is_sorted());
    }

    #[test]
    fn draws_have_the_percentiles() {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(3);
        let mut sampler = Sampler::new(table());
        let mut draws: Vec<_> = (0..20_000).map(|_| sampler.draw(&mut random)).collect();
        assert!(!draws.is_sorted(), "in random order");
        draws.sort();
        for (q, value, tolerance) in
            [(0.5, 80, 1), (0.9, 95, 1), (0.99, 130, 1), (0.999, 250, 2), (0.9999, 900, 10)]
        {
            let got = draws[(q * 20_000.0) as usize - 1];
            let want = Duration::from_micros(value);
            assert!(got.abs_diff(want) * 100 <= want * tolerance, "{q}: {got:?}, not {want:?}");
        }
    }
}
