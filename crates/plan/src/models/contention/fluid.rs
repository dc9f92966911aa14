//! The fluid limit: what streams have if they flow in drops.

use super::Input;

impl Input {
    /// What a stream has with every port for itself.
    pub(super) fn alone(&self) -> f64 {
        let window = self.depth as f64 * self.io_bytes as f64 / (self.base_latency_us * 1e3);
        self.source_gb_per_s.min(self.efficiency * self.downstream_gb_per_s).min(window).min(self.capacity(1))
    }

    /// What a switch passes on when `streams` share it.
    pub(super) fn capacity(&self, streams: usize) -> f64 {
        let port = self.efficiency * self.upstream_gb_per_s;
        if streams <= 1 {
            return port;
        }
        let quantum = self.quantum_bytes.min(self.io_bytes) as f64;
        quantum / (quantum / port + self.switch_ns)
    }

    /// The speed of each stream.
    pub(super) fn fluid(&self) -> Vec<f64> {
        let places = self.places();
        let mut speeds = vec![0.0; places.len()];
        for switch in 0..self.switches as usize {
            let streams: Vec<usize> = (0..places.len()).filter(|stream| places[*stream] == switch).collect();
            let weights: Vec<f64> = streams.iter().map(|stream| self.weight(*stream)).collect();
            let shares = max_min(self.capacity(streams.len()), self.alone(), &weights);
            for (stream, share) in streams.iter().zip(shares) {
                speeds[*stream] = share;
            }
        }
        speeds
    }

    /// The use of each switch, and whether one is full.
    pub(super) fn utilisation(&self, speeds: &[f64]) -> (Vec<f64>, bool) {
        let places = self.places();
        let of = |switch: usize| {
            let own = || speeds.iter().zip(&places).filter(move |(_, place)| **place == switch);
            own().map(|(speed, _)| speed).sum::<f64>() / self.capacity(own().count())
        };
        let all: Vec<f64> = (0..self.switches as usize).map(of).collect();
        let full = all.iter().any(|share| *share >= 0.99);
        (all, full)
    }

    /// The fewest streams whose throughput is within 1 % of the most.
    pub(super) fn best_streams(&self) -> u64 {
        let aggregate =
            |streams: u64| -> f64 { Input { streams, weights: vec![], ..self.clone() }.fluid().iter().sum() };
        let all: Vec<f64> = (1..=self.most_streams).map(aggregate).collect();
        let most = all.iter().copied().fold(0.0, f64::max);
        all.iter().position(|one| *one >= 0.99 * most).map_or(1, |index| index as u64 + 1)
    }
}

/// Weighted max-min shares of `capacity`, none above `cap`.
pub(super) fn max_min(capacity: f64, cap: f64, weights: &[f64]) -> Vec<f64> {
    let mut shares = vec![0.0; weights.len()];
    let mut open: Vec<usize> = (0..weights.len()).collect();
    let mut left = capacity;
    while !open.is_empty() {
        let each = left / open.iter().map(|flow| weights[*flow]).sum::<f64>();
        let (full, rest): (Vec<usize>, Vec<usize>) =
            open.iter().copied().partition(|flow| weights[*flow] * each >= cap);
        if full.is_empty() {
            for flow in rest {
                shares[flow] = weights[flow] * each;
            }
            break;
        }
        for flow in &full {
            shares[*flow] = cap;
            left -= cap;
        }
        open = rest;
    }
    shares
}
