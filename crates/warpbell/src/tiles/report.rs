//! What a schedule does with its tiles: all of it is known before anything runs.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use warpbell_kernels::abi::TILE_RESIDENT;

use super::TileSchedule;

/// How often tiles are used, and how far apart.
#[derive(Clone, Debug, PartialEq)]
pub struct TileReport {
    /// Uses.
    pub steps: u64,
    /// Of them, those that load their tile.
    pub loads: u64,
    /// Different tiles.
    pub tiles: u64,
    /// Bytes that are loaded.
    pub loaded_bytes: u64,
    /// Bytes that are used.
    pub used_bytes: u64,
    /// How many other tiles are used between two uses of one, and how often that is so.
    pub reuse_distances: BTreeMap<u64, u64>,
    /// How often a tile is used while it is in the ring, and for how many loads that is so.
    pub uses_of_load: BTreeMap<u64, u64>,
    /// For how many steps a tile stays of use, from its load to its last use in the ring, and for how many loads.
    pub residency: BTreeMap<u64, u64>,
}

impl TileReport {
    /// Uses of a load on average: `reuse` of `warpbell plan tiles`.
    pub fn reuse(&self) -> f64 {
        self.steps as f64 / self.loads.max(1) as f64
    }
}

pub(super) fn report(schedule: &TileSchedule) -> TileReport {
    let bytes = |step: &warpbell_kernels::abi::TileStep| {
        u64::from(step.blocks) * u64::from(step.rows) * u64::from(schedule.spec.block_bytes)
    };
    let steps = &schedule.steps;
    let loads: Vec<_> = steps.iter().filter(|step| step.flags & TILE_RESIDENT == 0).collect();
    let (uses_of_load, residency) = stays(schedule);
    TileReport {
        steps: steps.len() as u64,
        loads: loads.len() as u64,
        tiles: steps.iter().map(|step| step.tile).collect::<BTreeSet<_>>().len() as u64,
        loaded_bytes: loads.iter().map(|step| bytes(step)).sum(),
        used_bytes: steps.iter().map(bytes).sum(),
        reuse_distances: distances(schedule),
        uses_of_load,
        residency,
    }
}

/// A use is the latest one of its tile until the tile is used again. Between two uses of a tile, as many others are used as
/// there are latest uses: counted by a tree of partial sums (Fenwick), so that long orders are no work.
fn distances(schedule: &TileSchedule) -> BTreeMap<u64, u64> {
    let (mut last, mut found) = (HashMap::new(), BTreeMap::new());
    let mut latest = PartialSums(vec![0; schedule.steps.len() + 1]);
    for (at, step) in schedule.steps.iter().enumerate() {
        if let Some(before) = last.insert(step.tile, at) {
            *found.entry((latest.below(at) - latest.below(before + 1)) as u64).or_default() += 1;
            latest.add(before, -1);
        }
        latest.add(at, 1);
    }
    found
}

/// Sums of the numbers at the first places; each is at place + 1.
struct PartialSums(Vec<i64>);

impl PartialSums {
    fn add(&mut self, place: usize, number: i64) {
        let mut at = place + 1;
        while let Some(sum) = self.0.get_mut(at) {
            *sum += number;
            at += at & at.wrapping_neg();
        }
    }

    /// Of all places below this one.
    fn below(&self, place: usize) -> i64 {
        let next = |at: &usize| Some(at & (at - 1)).filter(|at| *at != 0);
        std::iter::successors(Some(place).filter(|place| *place != 0), next).map(|at| self.0[at]).sum()
    }
}

/// Uses of each load, and the steps that it stays for.
fn stays(schedule: &TileSchedule) -> (BTreeMap<u64, u64>, BTreeMap<u64, u64>) {
    let mut slots: Vec<Option<(usize, usize, u64)>> = vec![None; schedule.spec.slots as usize];
    let (mut uses, mut steps) = (BTreeMap::new(), BTreeMap::new());
    let mut end = |stay: Option<(usize, usize, u64)>| {
        if let Some((first, last, count)) = stay {
            *uses.entry(count).or_default() += 1;
            *steps.entry((last - first) as u64 + 1).or_default() += 1;
        }
    };
    for (at, step) in schedule.steps.iter().enumerate() {
        let slot = &mut slots[step.slot as usize];
        match slot {
            Some((_, last, count)) if step.flags & TILE_RESIDENT != 0 => (*last, *count) = (at, *count + 1),
            _ => end(slot.replace((at, at, 1))),
        }
    }
    slots.into_iter().for_each(&mut end);
    (uses, steps)
}

#[cfg(test)]
mod tests {
    use warpbell_hw::Lba;

    use crate::{Tile, TileSchedule, TileSpec};

    #[test]
    fn distances_are_those_of_a_list_of_latest_uses() {
        let numbers: Vec<u64> = (0..300).map(|at| at * at * 7 % 23 + at % 5).collect();
        let (mut recent, mut expected) = (Vec::new(), std::collections::BTreeMap::new());
        for number in &numbers {
            if let Some(place) = recent.iter().rev().position(|tile| tile == number) {
                *expected.entry(place as u64).or_default() += 1;
                recent.remove(recent.len() - 1 - place);
            }
            recent.push(*number);
        }
        let order: Vec<Tile> = numbers.iter().map(|tile| Tile::linear(*tile, Lba(tile * 4), 4)).collect();
        let spec = TileSpec { block_bytes: 512, slots: 2, ahead: 0 };
        assert_eq!(TileSchedule::new(&order, spec).expect("a schedule").report().reuse_distances, expected);
    }

    #[test]
    fn distances_uses_and_residency_are_those_of_the_order() {
        let order: Vec<Tile> = [0, 1, 0, 2, 1, 1].map(|tile| Tile::linear(tile, Lba(tile * 4), 4)).to_vec();
        let spec = TileSpec { block_bytes: 512, slots: 2, ahead: 0 };
        let report = TileSchedule::new(&order, spec).expect("a schedule").report();
        // Tile 0 over 1; 1 over 0 and 2; 1 at once.
        assert_eq!(report.reuse_distances, [(0, 1), (1, 1), (2, 1)].into());
        // 2 takes the place of 0, which does not come again: 0 twice, 1 three times, 2 once.
        assert_eq!((report.steps, report.loads, report.tiles), (6, 3, 3));
        assert_eq!(report.uses_of_load, [(1, 1), (2, 1), (3, 1)].into());
        assert_eq!(report.residency, [(1, 1), (3, 1), (5, 1)].into());
        assert_eq!((report.loaded_bytes, report.used_bytes), (3 * 2048, 6 * 2048));
        assert_eq!(report.reuse(), 2.0);
    }
}
