//! Samples of one quantity: their middle and their spread.

/// At least one sample, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn new(mut values: Vec<f64>) -> Samples {
        values.sort_by(f64::total_cmp);
        Samples(values)
    }

    /// How many there are.
    pub fn count(&self) -> u64 {
        self.0.len() as u64
    }

    /// The middle one.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The value that this share of the samples is below; between two samples, the value between.
    pub fn quantile(&self, share: f64) -> f64 {
        let place = share.clamp(0.0, 1.0) * self.0.len().saturating_sub(1) as f64;
        let at = |index: f64| self.0.get(index as usize).copied().unwrap_or_default();
        let (below, above) = (at(place.floor()), at(place.ceil()));
        below + (above - below) * place.fract()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_lie_between_samples() {
        let samples = Samples::new(vec![5.0, 1.0, 3.0, 2.0, 4.0]);
        assert_eq!((samples.count(), samples.median()), (5, 3.0));
        assert_eq!((samples.quantile(0.0), samples.quantile(1.0)), (1.0, 5.0));
        assert!((samples.quantile(0.1) - 1.4).abs() < 1e-12 && (samples.quantile(0.9) - 4.6).abs() < 1e-12);
        assert_eq!(Samples::new(vec![1.0, 2.0]).median(), 1.5);
    }
}
