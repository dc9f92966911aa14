//! How sure a figure is that was measured several times. No distribution is assumed: ranks alone count.

use serde::{Deserialize, Serialize};

/// What an interval should hold the true median with.
const CONFIDENCE: f64 = 0.95;

/// A range that holds the true median, and how surely it does.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Its lower end, one of the values.
    pub low: f64,
    /// Its upper end, likewise.
    pub high: f64,
    /// How surely: of few values less than 0.95, as their whole range holds it no surer.
    pub confidence: f64,
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}

/// The middle value, or the mean of the two in the middle; nothing of nothing.
pub fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let (low, high) = (sorted.get(sorted.len().checked_sub(1)? / 2)?, sorted.get(sorted.len() / 2)?);
    Some(low.midpoint(*high))
}

/// The interval of the median by order statistics: as many values lie below it as above, and so few that it holds the
/// true median with 95 %, by the binomial distribution. Below six values it is their whole range.
pub fn median_interval(values: &[f64]) -> Option<Interval> {
    let sorted = sorted(values);
    let count = sorted.len();
    if count > COUNTED {
        return Some(by_normal_ranks(&sorted));
    }
    let mut interval = Interval { low: *sorted.first()?, high: *sorted.last()?, confidence: 0.0 };
    // What is missed on one side: the chance of at most `cut` heads in `count` throws.
    let (mut term, mut missed) = (0.5f64.powi(count as i32), 0.0);
    for cut in 0..count.div_ceil(2) {
        missed += term;
        term *= (count - cut) as f64 / (cut + 1) as f64;
        let confidence = (1.0 - 2.0 * missed).max(0.0);
        if cut > 0 && confidence < CONFIDENCE {
            break;
        }
        interval = Interval { low: sorted[cut], high: sorted[count - 1 - cut], confidence };
    }
    Some(interval)
}

/// The most values whose binomial distribution is counted: 0.5 to a greater power is no number of 64 bits.
const COUNTED: usize = 1000;

/// The same of many values, whose ranks are as by the normal distribution.
fn by_normal_ranks(sorted: &[f64]) -> Interval {
    let (middle, deviation) = ((sorted.len() as f64 - 1.0) / 2.0, (sorted.len() as f64).sqrt() / 2.0);
    // Two-sided, 95 % lie within 1.96 deviations.
    let rank = (middle - 1.96 * deviation).floor();
    let confidence = 1.0 - both_tails((middle - rank) / deviation);
    let rank = rank as usize;
    Interval { low: sorted[rank], high: sorted[sorted.len() - 1 - rank], confidence }
}

/// The most values of both samples that all sums are counted of: time and memory grow with its cube.
const EXACT: usize = 100;

/// How likely two samples of one population are at least so different: the rank sum test of Wilcoxon, Mann and Whitney,
/// two-sided, exact also where values are equal; of more than 100 values by the normal distribution. The second figure is
/// the least that samples of these sizes can give.
pub fn rank_sum(one: &[f64], other: &[f64]) -> Option<(f64, f64)> {
    tested(one, other, EXACT)
}

/// The same, exact of so many values at most.
fn tested(one: &[f64], other: &[f64], exact: usize) -> Option<(f64, f64)> {
    if one.is_empty() || other.is_empty() {
        return None;
    }
    let mut all: Vec<(f64, bool)> = one.iter().map(|value| (*value, true)).collect();
    all.extend(other.iter().map(|value| (*value, false)));
    all.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let ranks = doubled_ranks(&all);
    let own = ranks.iter().zip(&all).filter(|(_, (_, own))| *own);
    let observed: usize = own.map(|(rank, _)| rank).sum();
    // Twice the mean of the ranks of so many, so that all is whole.
    let middle = one.len() * (all.len() + 1);
    let far = observed.abs_diff(middle);
    if all.len() > exact {
        return Some((by_normal(&ranks, one.len(), far), 0.0));
    }
    let sums = ways(&ranks, one.len());
    let total: f64 = sums.iter().sum();
    let extreme = sums.iter().enumerate().filter(|(sum, _)| sum.abs_diff(middle) >= far);
    let p = extreme.map(|(_, ways)| ways).sum::<f64>() / total;
    Some((p.min(1.0), (2.0 / total).min(1.0)))
}

/// Ranks from 1 on, doubled: equal values share the mean of theirs.
fn doubled_ranks(sorted: &[(f64, bool)]) -> Vec<usize> {
    let mut ranks = Vec::with_capacity(sorted.len());
    for equal in sorted.chunk_by(|a, b| a.0 == b.0) {
        let first = ranks.len() + 1;
        ranks.extend(equal.iter().map(|_| 2 * first + equal.len() - 1));
    }
    ranks
}

/// How likely a sum of `count` of the doubled ranks is at least so `far` from its mean, by the normal distribution with its
/// variance; ranks lie in steps, so that half a step is taken off.
fn by_normal(ranks: &[usize], count: usize, far: usize) -> f64 {
    let (all, count) = (ranks.len() as f64, count as f64);
    let mean = all + 1.0;
    let square = ranks.iter().map(|rank| (*rank as f64 - mean).powi(2)).sum::<f64>() / (all - 1.0);
    let deviation = (square * count * (all - count) / all).sqrt();
    if deviation == 0.0 { 1.0 } else { both_tails((far as f64 - 1.0).max(0.0) / deviation) }
}

/// The chance that a value lies at least so many deviations from the mean of a normal distribution, to 1.5e-7: Abramowitz
/// and Stegun, 7.1.26.
fn both_tails(deviations: f64) -> f64 {
    const TERMS: [f64; 5] = [1.061_405_429, -1.453_152_027, 1.421_413_741, -0.284_496_736, 0.254_829_592];
    let x = deviations * std::f64::consts::FRAC_1_SQRT_2;
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    TERMS.iter().fold(0.0, |sum, term| (sum + term) * t) * (-x * x).exp()
}

/// In how many ways `count` of the ranks have each sum.
fn ways(ranks: &[usize], count: usize) -> Vec<f64> {
    let most: usize = ranks.iter().sum();
    let mut ways = vec![vec![0.0; most + 1]; count + 1];
    ways[0][0] = 1.0;
    for rank in ranks {
        for taken in (1..=count).rev() {
            let (fewer, more) = ways.split_at_mut(taken);
            let (from, to) = (&fewer[taken - 1], &mut more[0]);
            to.iter_mut().skip(*rank).zip(from).for_each(|(to, from)| *to += from);
        }
    }
    ways.swap_remove(count)
}

/// What several tests at once leave of their p-values: Holm's correction.
pub fn holm(values: &[f64]) -> Vec<f64> {
    let mut order: Vec<usize> = (0..values.len()).collect();
    order.sort_unstable_by(|a, b| values[*a].total_cmp(&values[*b]));
    let (mut corrected, mut largest) = (vec![0.0; values.len()], 0.0f64);
    for (place, index) in order.into_iter().enumerate() {
        largest = largest.max(values[index] * (values.len() - place) as f64).min(1.0);
        corrected[index] = largest;
    }
    corrected
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_as_wide_as_it_must_be() {
        let values = |count: usize| (1..=count).map(|value| value as f64).collect::<Vec<_>>();
        let ends =
            |count| median_interval(&values(count)).map(|of| (of.low, of.high, of.confidence)).unwrap();
        assert_eq!(ends(1), (1.0, 1.0, 0.0), "one value says nothing of others");
        assert_eq!(ends(3), (1.0, 3.0, 0.75));
        assert_eq!(ends(6), (1.0, 6.0, 0.96875), "the first with 95 %");
        // Tables of the sign test: of 20 values the 6th and the 15th, with 95.9 %.
        let (low, high, confidence) = ends(20);
        assert_eq!((low, high), (6.0, 15.0));
        assert!((confidence - 0.9586).abs() < 1e-4, "{confidence}");
        // Where counting ends, both ways agree.
        let (counted, about) = (ends(COUNTED), by_normal_ranks(&values(COUNTED)));
        assert_eq!((counted.0, counted.1), (about.low, about.high));
        assert!((counted.2 - about.confidence).abs() < 1e-4, "{counted:?} {about:?}");
        let (low, high, confidence) = ends(10_000);
        assert!(low < 4_903.0 && high > 5_098.0 && (0.95..0.952).contains(&confidence), "{low} {high}");
        assert_eq!((median(&values(4)), median(&values(5)), median(&[])), (Some(2.5), Some(3.0), None));
        assert_eq!(median_interval(&[]), None);
    }

    #[test]
    fn rank_sums_are_exact() {
        let p = |one: &[f64], other: &[f64]| rank_sum(one, other).unwrap().0;
        // Tables of Mann and Whitney: U = 0 of 3 and 3 has 2 of 20 ways, U = 2 of 4 and 5 has 8 of 126.
        assert_eq!(rank_sum(&[1.0, 2.0, 3.0], &[4.0, 5.0, 6.0]), Some((0.1, 0.1)));
        let four = [1.0, 2.0, 3.0, 6.0];
        assert!((p(&four, &[4.0, 5.0, 7.0, 8.0, 9.0]) - 8.0 / 126.0).abs() < 1e-12);
        assert_eq!(p(&[5.0, 5.0], &[5.0, 5.0]), 1.0, "equal values are no difference");
        assert_eq!(p(&[1.0, 3.0], &[2.0]), 1.0);
        // Of one tie: ranks 1, 2.5, 2.5, 4; both lowest have 2 of 6 sums at least so far from the mean.
        assert!((p(&[1.0, 2.0], &[2.0, 3.0]) - 4.0 / 6.0).abs() < 1e-12, "{}", p(&[1.0, 2.0], &[2.0, 3.0]));
        assert_eq!(rank_sum(&[], &[1.0]), None);
    }

    #[test]
    fn many_values_are_compared_by_the_normal_distribution() {
        for (deviations, chance) in [(0.0, 1.0), (1.0, 0.317_310_5), (1.96, 0.049_995_8), (3.0, 0.002_699_8)]
        {
            assert!((both_tails(deviations) - chance).abs() < 2e-7, "{deviations}");
        }
        // Values that are in part equal, and shifted.
        let sample = |count: usize, more: usize| {
            (0..count).map(|index| (index * 37 % 41 + more) as f64).collect::<Vec<_>>()
        };
        for more in [0, 3, 6, 9] {
            let (one, other) = (sample(60, 0), sample(40, more));
            let ((exact, _), (about, _)) =
                (rank_sum(&one, &other).unwrap(), tested(&one, &other, 0).unwrap());
            assert!((exact - about).abs() < 0.002, "{more}: {exact} {about}");
        }
        // As many as a sweep has runs: counting all sums would take terabytes.
        assert!(rank_sum(&sample(5000, 0), &sample(5000, 9)).unwrap().0 < 1e-6);
        assert_eq!(rank_sum(&[1.0; 60], &[1.0; 60]).unwrap().0, 1.0, "equal values are no difference");
    }

    #[test]
    fn many_tests_at_once_are_less_sure() {
        assert_eq!(holm(&[0.01, 0.04, 0.03]), [0.03, 0.06, 0.06]);
        assert_eq!(holm(&[0.5, 0.9]), [1.0, 1.0]);
        assert!(holm(&[]).is_empty());
    }
}
