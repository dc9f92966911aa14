//! The ways of an experiment, and whose turn it is.

use std::time::Duration;

use super::{
    Experiment, ExperimentOptions, Lab, arbitration, batching, cold, notice, order, path, registration,
    stripe, tail, tiles, workloads,
};
use crate::error::RunError;
use crate::stopwatch::ClockKind;
use warpbell_base::SplitMix64;

/// Measures one way, or several that need each other, and adds their rows.
pub(super) type Way = Box<dyn Fn(&mut Lab<'_>) -> Result<(), RunError>>;

/// How long the first way is measured before it counts, at most.
const WARM_UP: Duration = Duration::from_millis(100);

impl Experiment {
    /// Its ways in their order.
    fn ways(self, lab: &Lab<'_>) -> Result<Vec<Way>, RunError> {
        match self {
            Experiment::Path => Ok(path::ways(lab)),
            Experiment::Registration => Ok(registration::ways(lab)),
            Experiment::Batching => Ok(batching::ways(lab)),
            Experiment::Stripe => stripe::ways(lab),
            Experiment::Notice => Ok(notice::ways(lab)),
            Experiment::Tail => Ok(tail::ways(lab)),
            Experiment::Order => Ok(order::ways(lab)),
            Experiment::Tiles => Ok(tiles::ways(lab)),
            Experiment::Arbitration => Ok(arbitration::ways(lab)),
            Experiment::Cold => Ok(cold::ways(lab)),
            Experiment::Kv => Ok(workloads::kv(lab)),
            Experiment::Checkpoint => Ok(workloads::checkpoint(lab)),
            Experiment::Loader => Ok(workloads::loader(lab)),
            Experiment::Graph => workloads::graph(lab),
            Experiment::Vectors => Ok(workloads::vectors(lab)),
        }
    }

    /// Whether its first row is to find everything warm.
    const fn is_warmed(self) -> bool {
        !matches!(self, Experiment::Cold | Experiment::Registration)
    }
}

/// The ways of a repeat in the order in which they are measured: of several repeats each has its own, so that a drift of
/// the machine favours no way.
fn shuffled(ways: usize, (repeat, repeats): (u32, u32), seed: u64) -> Vec<usize> {
    let mut order: Vec<usize> = (0..ways).collect();
    if repeats > 1 {
        SplitMix64::new(seed, repeat.into()).shuffle(&mut order);
    }
    order
}

impl Lab<'_> {
    /// Measures all ways; what broke, if something did.
    pub(super) fn measure(mut self, which: Experiment, repeat: (u32, u32)) -> (Self, Option<RunError>) {
        let broken = self.in_turn(which, repeat).err();
        (self, broken)
    }

    fn in_turn(&mut self, which: Experiment, (repeat, repeats): (u32, u32)) -> Result<(), RunError> {
        let ways = which.ways(self)?;
        let order = shuffled(ways.len(), (repeat, repeats), self.options.seed);
        if let Some(first) = order.first().filter(|_| repeat == 0 && which.is_warmed()) {
            self.warm_up(&ways[*first])?;
        }
        for (turn, way) in order.into_iter().enumerate() {
            if self.control.stopped() {
                break;
            }
            (self.way, self.turn) = (way, turn as u32);
            ways[way](self)?;
        }
        Ok(())
    }

    /// Measures a way for nothing: whoever is first would pay for pages that are touched for the first time, and for
    /// processors that have slept. In virtual time nothing of that is seen.
    fn warm_up(&self, way: &Way) -> Result<(), RunError> {
        if ClockKind::of(self.ssd) == ClockKind::Virtual {
            return Ok(());
        }
        let runtime = self.options.runtime.min(WARM_UP);
        let options = ExperimentOptions { runtime, ..self.options.clone() };
        way(&mut Lab::new(self.ssds, self.target, (&options, self.iodepth), self.control))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_repeat_has_every_way_once_in_an_order_of_its_own() {
        assert!(shuffled(5, (0, 1), 1).into_iter().eq(0..5), "one repeat has them in their order");
        let orders: Vec<_> = (0..4).map(|repeat| shuffled(6, (repeat, 4), 1 + u64::from(repeat))).collect();
        for order in &orders {
            let mut sorted = order.clone();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..6), "{order:?}");
        }
        let first: std::collections::BTreeSet<_> = orders.iter().map(|order| order[0]).collect();
        assert!(first.len() > 1 && orders[0] != orders[1], "{orders:?}");
    }
}
