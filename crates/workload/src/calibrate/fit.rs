//! A straight line through points, neither of whose constants is below zero.

use super::Samples;

/// `y = at_zero + slope * x`.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Line {
    at_zero: f64,
    slope: f64,
}

/// The least squares of relative deviations, so that small values count as much as large ones. Costs are not negative:
/// where the best line has one that is, the best line without it is taken.
fn line(points: &[(f64, f64)]) -> Line {
    let sum = |of: fn(f64, f64) -> f64| points.iter().map(|(x, y)| of(*x, *y) / (y * y)).sum::<f64>();
    let (weight, x, y) = (sum(|_, _| 1.0), sum(|x, _| x), sum(|_, y| y));
    let (xx, xy) = (sum(|x, _| x * x), sum(|x, y| x * y));
    let slope = (weight * xy - x * y) / (weight * xx - x * x);
    let at_zero = (y - slope * x) / weight;
    match (at_zero < 0.0, slope < 0.0) {
        (true, _) => Line { at_zero: 0.0, slope: xy / xx },
        (_, true) => Line { at_zero: y / weight, slope: 0.0 },
        _ => Line { at_zero, slope },
    }
}

/// A line for each round, all of which have their points at the same places.
pub(super) struct Rounds {
    rounds: Vec<Vec<(f64, f64)>>,
    lines: Vec<Line>,
}

impl Rounds {
    pub(super) fn of(rounds: Vec<Vec<(f64, f64)>>) -> Rounds {
        let lines = rounds.iter().map(|points| line(points)).collect();
        Rounds { rounds, lines }
    }

    pub(super) fn at_zero(&self) -> Samples {
        Samples::new(self.lines.iter().map(|line| line.at_zero).collect())
    }

    pub(super) fn slope(&self) -> Samples {
        Samples::new(self.lines.iter().map(|line| line.slope).collect())
    }

    /// How well the middle line explains the middle of the rounds: their spread is told by the samples.
    pub(super) fn r2(&self) -> f64 {
        let places = self.rounds.first().map_or(0, Vec::len);
        let middle = |place: usize| {
            let all = self.rounds.iter().filter_map(|points| points.get(place));
            let (x, y): (Vec<f64>, Vec<f64>) = all.copied().unzip();
            (x.first().copied().unwrap_or_default(), Samples::new(y).median())
        };
        let points: Vec<(f64, f64)> = (0..places).map(middle).collect();
        r2(&points, Line { at_zero: self.at_zero().median(), slope: self.slope().median() })
    }
}

/// The share of the points' differences that the line explains: 1 is all.
fn r2(points: &[(f64, f64)], line: Line) -> f64 {
    let mean = points.iter().map(|(_, y)| y).sum::<f64>() / points.len() as f64;
    let off: f64 = points.iter().map(|(x, y)| (y - line.at_zero - line.slope * x).powi(2)).sum();
    let all: f64 = points.iter().map(|(_, y)| (y - mean).powi(2)).sum();
    1.0 - off / all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(found: Line, at_zero: f64, slope: f64) -> bool {
        (found.at_zero - at_zero).abs() < 1e-9 && (found.slope - slope).abs() < 1e-9
    }

    #[test]
    fn a_line_is_found_again() {
        let points: Vec<(f64, f64)> = [1.0, 16.0, 256.0, 4096.0].map(|x| (x, 3.0 + 0.25 * x)).to_vec();
        let found = line(&points);
        assert!(near(found, 3.0, 0.25), "{found:?}");
        assert!((r2(&points, found) - 1.0).abs() < 1e-12);
    }

    #[test]
    fn one_round_that_was_disturbed_changes_neither_constants_nor_fit() {
        let round = |slower: f64| [1.0, 16.0, 256.0].map(|x| (x, slower * (3.0 + 0.25 * x))).to_vec();
        let rounds = Rounds::of(vec![round(1.0), round(9.0), round(1.0)]);
        assert!((rounds.at_zero().median() - 3.0).abs() < 1e-9);
        assert!((rounds.slope().median() - 0.25).abs() < 1e-9 && rounds.slope().quantile(1.0) > 2.0);
        assert!((rounds.r2() - 1.0).abs() < 1e-9);
    }

    #[test]
    fn no_cost_is_negative() {
        let falling = line(&[(1.0, 4.0), (2.0, 3.0), (3.0, 2.0)]);
        assert!(falling.slope == 0.0 && falling.at_zero > 2.0 && falling.at_zero < 4.0, "{falling:?}");
        let steep = line(&[(1.0, 1.0), (2.0, 4.0), (3.0, 7.0)]);
        assert!(steep.at_zero == 0.0 && steep.slope > 1.0, "{steep:?}");
        assert!(r2(&[(1.0, 4.0), (2.0, 3.0), (3.0, 2.0)], falling) < 0.5);
    }
}
