//! How random addresses are drawn, in fio's words: each as often as any other, or by Zipf's law.

use std::fmt;
use std::str::FromStr;

use rand::SeedableRng;
use rand::distr::Distribution as _;
use rand_distr::Zipf;
use rand_xoshiro::Xoshiro256PlusPlus;
use serde::{Deserialize, Serialize};

use crate::job::Job;

/// The largest exponent: above it, nearly every address is the first one.
const THETA_MAX: f64 = 10.0;

/// Addresses that are drawn before a run, at most. They are used in turn, and begin again behind the last.
pub(crate) const DRAWN_MAX: u64 = 1 << 20;

/// How random addresses are drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub enum Distribution {
    /// Each as often as any other.
    #[default]
    Random,
    /// By Zipf's law: of `n` I/Os side by side, that of rank `k` has the probability `k^-theta / (1^-theta + ... + n^-theta)`.
    Zipf {
        /// The exponent, above 0 and at most 10.
        theta: f64,
    },
}

/// Not a distribution.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DistributionError {
    /// Another word.
    #[error("'{0}': expected random or zipf:THETA, such as zipf:1.2")]
    Form(String),
    /// An exponent outside of its limits.
    #[error("'{text}': theta {theta} is outside of its limits: above 0, at most {THETA_MAX}")]
    Theta {
        /// What was given.
        text: String,
        /// The exponent in it.
        theta: String,
    },
}

impl FromStr for Distribution {
    type Err = DistributionError;

    fn from_str(text: &str) -> Result<Distribution, DistributionError> {
        if text == "random" {
            return Ok(Distribution::Random);
        }
        let form = || DistributionError::Form(text.to_owned());
        let word = text.strip_prefix("zipf:").ok_or_else(form)?;
        let theta: f64 = word.parse().map_err(|_| form())?;
        if theta > 0.0 && theta <= THETA_MAX {
            return Ok(Distribution::Zipf { theta });
        }
        Err(DistributionError::Theta { text: text.to_owned(), theta: word.to_owned() })
    }
}

impl fmt::Display for Distribution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Distribution::Random => f.write_str("random"),
            Distribution::Zipf { theta } => write!(f, "zipf:{theta}"),
        }
    }
}

impl From<Distribution> for String {
    fn from(distribution: Distribution) -> String {
        distribution.to_string()
    }
}

impl TryFrom<String> for Distribution {
    type Error = DistributionError;

    fn try_from(text: String) -> Result<Distribution, DistributionError> {
        text.parse()
    }
}

/// Places of a range by their ranks: rank 0 is wanted most often. Those of neighbouring ranks are not neighbours.
pub(crate) struct Ranks {
    zipf: Zipf<f64>,
    places: u64,
    step: u64,
}

impl Ranks {
    /// Of so many places; nothing of none.
    pub(crate) fn new(places: u64, theta: f64) -> Option<Ranks> {
        let zipf = Zipf::new(places as f64, theta).ok().filter(|_| places > 0)?;
        Some(Ranks { zipf, places, step: scattering(places) })
    }

    /// Draws a place.
    pub(crate) fn draw(&self, random: &mut Xoshiro256PlusPlus) -> u64 {
        self.place(self.zipf.sample(random) as u64 - 1)
    }

    /// Where the place of this rank lies.
    fn place(&self, rank: u64) -> u64 {
        (u128::from(rank) * u128::from(self.step) % u128::from(self.places)) as u64
    }
}

/// A step that visits each of `places` once, near the golden section: those that are asked for often are not neighbours.
fn scattering(places: u64) -> u64 {
    let golden = ((u128::from(places) * 0x9e37_79b9_7f4a_7c15) >> 64) as u64;
    (golden.max(1)..).find(|step| gcd(*step, places) == 1).unwrap_or(1)
}

fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

/// The I/Os of a run whose addresses are not drawn one by one, as numbers of the range's I/Os, in their order: the same
/// from the same seed, whoever submits them.
pub(crate) fn drawn(job: &Job) -> Option<Vec<u64>> {
    let Distribution::Zipf { theta } = job.random_distribution else { return None };
    let ranks = Ranks::new(job.io_slots(), theta)?;
    let mut random = Xoshiro256PlusPlus::seed_from_u64(job.seed);
    // A ramp before the measurement takes addresses, too.
    let count = job.io_limit().filter(|_| job.ramp.is_zero()).map_or(DRAWN_MAX, |ios| ios.min(DRAWN_MAX));
    Some((0..count.max(1)).map(|_| ranks.draw(&mut random)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Limits;
    use crate::options::BenchOptions;
    use crate::size::ByteSize;

    #[test]
    fn every_rank_has_a_place_of_its_own() {
        for places in [1, 2, 3, 4, 6, 10, 4096, 174_762, 699_050] {
            let ranks = Ranks::new(places, 1.0).unwrap();
            let mut found: Vec<u64> = (0..places).map(|rank| ranks.place(rank)).collect();
            found.sort_unstable();
            found.dedup();
            assert_eq!(found.len() as u64, places, "step {}", ranks.step);
        }
        assert!(Ranks::new(0, 1.0).is_none());
    }

    #[test]
    fn words() {
        for text in ["random", "zipf:0.9", "zipf:1", "zipf:1.2", "zipf:10"] {
            assert_eq!(text.parse::<Distribution>().unwrap().to_string(), text);
        }
        for text in ["zipf", "zipf:", "zipf:x", "pareto:0.2", "Random", "zipf:1.2:0.5"] {
            let line = text.parse::<Distribution>().unwrap_err().to_string();
            assert_eq!(line, format!("'{text}': expected random or zipf:THETA, such as zipf:1.2"));
        }
        for theta in ["0", "-1", "10.1", "inf", "NaN"] {
            let line = format!("zipf:{theta}").parse::<Distribution>().unwrap_err().to_string();
            let limits = "is outside of its limits: above 0, at most 10";
            assert_eq!(line, format!("'zipf:{theta}': theta {theta} {limits}"));
        }
    }

    fn job(theta: f64, seed: u64) -> Job {
        let random_distribution = Distribution::Zipf { theta };
        let options =
            BenchOptions { random_distribution, seed, bs: ByteSize(4096), ..BenchOptions::default() };
        // 1,000 I/Os of the range.
        Job::resolve(&options, &Limits::of_blocks(8000)).unwrap()
    }

    #[test]
    fn the_most_frequent_places_come_as_often_as_the_formula_says() {
        for theta in [0.5, 0.99, 1.0, 1.2, 2.0] {
            let job = job(theta, 7);
            let drawn = drawn(&job).unwrap();
            assert_eq!(drawn.len() as u64, DRAWN_MAX);
            let mut counts = vec![0u64; 1000];
            drawn.iter().for_each(|place| counts[*place as usize] += 1);
            let ranks = Ranks::new(1000, theta).unwrap();
            let whole: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-theta)).sum();
            for rank in 0..20u32 {
                let share = f64::from(rank + 1).powf(-theta) / whole;
                let expected = share * DRAWN_MAX as f64;
                // Five standard deviations of a binomial count.
                let most = 5.0 * (expected * (1.0 - share)).sqrt();
                let found = counts[ranks.place(rank.into()) as usize] as f64;
                assert!((found - expected).abs() <= most, "{theta} {rank}: {found}, expected {expected}");
            }
        }
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        assert_eq!(drawn(&job(1.2, 7)), drawn(&job(1.2, 7)));
        assert_ne!(drawn(&job(1.2, 7)), drawn(&job(1.2, 8)));
        let uniform = Job { random_distribution: Distribution::Random, ..job(1.2, 7) };
        assert_eq!(drawn(&uniform), None);
        let few = Job { io_limit_bytes: Some(10 * 4096), ..job(1.2, 7) };
        assert_eq!(drawn(&few).unwrap().len(), 10);
    }
}
