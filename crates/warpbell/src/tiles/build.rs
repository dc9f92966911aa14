//! The choice of slots.

use std::collections::HashMap;

use warpbell_kernels::abi::{TILE_RESIDENT, TileStep};

use super::{Tile, TileSchedule, TileSpec, check_spec, check_tile, refuse};
use crate::Error;

/// The step that has no next use.
const NEVER: usize = usize::MAX;

/// What a slot of the ring has, while the steps are gone through.
#[derive(Clone, Copy)]
pub(super) struct Slot {
    pub(super) tile: Tile,
    /// The latest step that uses it.
    pub(super) last: usize,
    /// The next one that will.
    next: usize,
}

pub(super) fn build(order: &[Tile], spec: TileSpec) -> Result<TileSchedule, Error> {
    check(order, &spec)?;
    let next = next_uses(order);
    let mut slots: Vec<Option<Slot>> = vec![None; spec.slots as usize];
    let mut steps = Vec::with_capacity(order.len());
    for (at, tile) in order.iter().enumerate() {
        let there = slots.iter().position(|slot| slot.is_some_and(|slot| slot.tile == *tile));
        let slot = there.unwrap_or_else(|| victim(&slots, at, spec.ahead as usize));
        let after = match (there, slots[slot]) {
            (None, Some(slot)) => slot.last as u32 + 1,
            _ => 0,
        };
        slots[slot] = Some(Slot { tile: *tile, last: at, next: next[at] });
        let flags = if there.is_some() { TILE_RESIDENT } else { 0 };
        steps.push(step_of(tile, slot as u32, after, flags));
    }
    Ok(TileSchedule { spec, steps })
}

fn check(order: &[Tile], spec: &TileSpec) -> Result<(), Error> {
    check_spec(spec)?;
    if order.len() >= 1 << 31 {
        return refuse("steps of a tile schedule", order.len(), "must be less than 2^31");
    }
    let mut known: HashMap<u64, Tile> = HashMap::new();
    for tile in order {
        check_tile(tile, spec)?;
        if *known.entry(tile.number).or_insert(*tile) != *tile {
            return refuse("tile", tile.number, "must be the same blocks wherever it is used");
        }
    }
    Ok(())
}

/// For each step, the next one that uses its tile.
fn next_uses(order: &[Tile]) -> Vec<usize> {
    let mut seen = HashMap::new();
    let mut next = vec![NEVER; order.len()];
    for (at, tile) in order.iter().enumerate().rev() {
        next[at] = seen.insert(tile.number, at).unwrap_or(NEVER);
    }
    next
}

/// The slot for a tile that is not there: an empty one, or of those that the latest `ahead` steps do not use the one whose
/// tile is needed last.
fn victim(slots: &[Option<Slot>], at: usize, ahead: usize) -> usize {
    let mut best = None;
    for (number, slot) in slots.iter().enumerate() {
        let Some(slot) = slot else { return number };
        let is_better = best.is_none_or(|(_, next)| slot.next > next);
        if slot.last + ahead < at && is_better {
            best = Some((number, slot.next));
        }
    }
    // There are more slots than steps whose tiles must stay.
    best.map_or(0, |(number, _)| number)
}

fn step_of(tile: &Tile, slot: u32, after: u32, flags: u32) -> TileStep {
    TileStep {
        tile: tile.number,
        first_block: tile.first_block.get(),
        row_stride: tile.row_stride,
        blocks: tile.blocks,
        rows: tile.rows,
        slot,
        after,
        flags,
        pad0: 0,
    }
}

#[cfg(test)]
mod tests {
    use warpbell_hw::Lba;

    use super::*;

    fn order(numbers: &[u64]) -> Vec<Tile> {
        numbers.iter().map(|number| Tile::linear(*number, Lba(number * 8), 8)).collect()
    }

    fn made(numbers: &[u64], slots: u32, ahead: u32) -> TileSchedule {
        build(&order(numbers), TileSpec { block_bytes: 512, slots, ahead }).expect("a schedule")
    }

    #[test]
    fn tiles_that_are_used_once_take_the_slots_in_turn() {
        let steps = made(&[0, 1, 2, 3, 4, 5], 3, 2).steps;
        let places: Vec<_> = steps.iter().map(|step| (step.slot, step.after, step.flags)).collect();
        assert_eq!(places, [(0, 0, 0), (1, 0, 0), (2, 0, 0), (0, 1, 0), (1, 2, 0), (2, 3, 0)]);
    }

    #[test]
    fn a_tile_that_will_be_used_soon_stays() {
        // Tile 2 must not take the place of tile 0, which comes again, but that of 1.
        let made = made(&[0, 1, 0, 2, 0, 1], 2, 0);
        let flags: Vec<_> = made.steps.iter().map(|step| step.flags).collect();
        assert_eq!(flags, [0, 0, TILE_RESIDENT, 0, TILE_RESIDENT, 0]);
        assert_eq!(made.steps[3].slot, made.steps[1].slot);
    }

    #[test]
    fn no_order_is_loaded_less_often_than_by_this_choice() {
        // Against the least of all choices, by trying each.
        fn least(order: &[u64], ring: &[u64], slots: usize) -> usize {
            let Some((first, rest)) = order.split_first() else { return 0 };
            if ring.contains(first) {
                return least(rest, ring, slots);
            }
            if ring.len() < slots {
                return 1 + least(rest, &[ring, &[*first]].concat(), slots);
            }
            let with = |gone: usize| {
                let mut ring = ring.to_vec();
                ring[gone] = *first;
                least(rest, &ring, slots)
            };
            1 + (0..slots).map(with).min().expect("a slot")
        }
        let mut random = 1u64;
        for _ in 0..40 {
            let numbers: Vec<u64> = (0..9)
                .map(|_| {
                    random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    (random >> 33) % 5
                })
                .collect();
            for slots in [1, 2, 3] {
                let loads = made(&numbers, slots, 0).steps.iter().filter(|step| step.flags == 0).count();
                assert_eq!(loads, least(&numbers, &[], slots as usize), "{numbers:?}, {slots} slots");
            }
        }
    }

    #[test]
    fn a_load_never_waits_for_the_steps_that_it_is_ahead_of() {
        let numbers: Vec<u64> = (0..200).map(|at| at * at % 17).collect();
        for (slots, ahead) in [(2, 1), (3, 1), (4, 2), (4, 3)] {
            for (at, step) in made(&numbers, slots, ahead).steps.iter().enumerate() {
                assert!(
                    step.after as usize + ahead as usize <= at || step.after == 0,
                    "{slots}, {ahead}: {step:?}"
                );
            }
        }
    }

    #[test]
    fn a_block_sets_as_much_memory_aside_as_the_stream_takes() {
        // As tests/kernels/stream.cu asserts of the header.
        for (slots, stages, storage) in [(1, 1, 512), (3, 2, 1280), (4, 2, 1664)] {
            assert_eq!(made(&[0, 1], slots, 0).shared_bytes(stages), storage + stages * 4096);
        }
    }

    #[test]
    fn what_no_kernel_could_stream_is_refused() {
        let spec = TileSpec { block_bytes: 512, slots: 2, ahead: 1 };
        let said = |tiles: &[Tile], spec| build(tiles, spec).expect_err("refused").to_string();
        let tile = Tile::linear(1, Lba(0), 8);
        assert!(said(&[tile], TileSpec { slots: 33, ..spec }).contains("1 to 32"));
        assert!(said(&[tile], TileSpec { ahead: 2, ..spec }).contains("less than the 2 slots"));
        assert!(said(&[tile], TileSpec { block_bytes: 500, ..spec }).contains("power of two"));
        assert!(said(&[tile], TileSpec { block_bytes: 1 << 31, ..spec }).contains("1 MiB"));
        assert!(said(&[Tile { rows: 33, ..tile }], spec).contains("1 to 32 rows"));
        assert!(said(&[Tile { blocks: 4096, ..tile }], spec).contains("1 MiB"));
        assert!(said(&[tile, Tile { first_block: Lba(3), ..tile }], spec).contains("wherever it is used"));
    }
}
