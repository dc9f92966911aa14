//! The right tiles, in the right order, with the right data: from lists and by rules, by one call and by the four verbs.

use warpbell::{Sharing, Tile, TileSchedule};
use warpbell_hw::Lba;
use warpbell_sim::seeds;

use crate::fixture::*;

/// Uses of ten tiles: some soon again, some late, some never.
pub const REUSED: [u64; 24] = [0, 1, 0, 2, 3, 1, 1, 4, 5, 0, 6, 2, 7, 7, 8, 3, 9, 0, 1, 2, 9, 8, 0, 5];

pub fn reused(slots: u32, ahead: u32) -> TileSchedule {
    schedule(&order(&REUSED), slots, ahead)
}

fn right(setting: &Setting, seed: u64) -> Ran {
    let ran =
        setting.run(&MODULE, seed).unwrap_or_else(|error| panic!("seed {seed}: {error:#}: {setting:?}"));
    assert_eq!(ran.check(setting), Ok(()), "seed {seed}, {setting:?}");
    ran
}

#[test]
fn tiles_come_in_their_order_from_rings_of_one_to_four_slots() {
    for seed in seeds(SEEDS) {
        for sharing in MODES {
            for (shape, slots, _) in &SHAPES[..5] {
                // A warp alone streams for itself.
                let (grid, warps) = if *shape == 5 { (2, 1) } else { (2, 1 + (seed as u32 + shape) % 3) };
                let schedule = reused(*slots, (slots - 1).min(1));
                let setting = Setting { grid, warps, ..Setting::new(sharing, *shape, schedule) };
                let ran = right(&setting, seed);
                assert_eq!(ran.reads, u64::from(grid) * setting.schedule.report().loads, "{setting:?}");
            }
        }
    }
}

#[test]
fn the_four_verbs_do_what_for_each_does_and_refuse_what_cannot_be() {
    for sharing in MODES {
        for (shape, slots, _) in &SHAPES[..5] {
            let setting = Setting { flags: BY_VERBS, ..Setting::new(sharing, *shape, reused(*slots, 0)) };
            let setting = Setting { warps: if *shape == 5 { 1 } else { 2 }, ..setting };
            right(&setting, 1);
        }
    }
}

#[test]
fn several_tiles_are_held_at_a_time() {
    for sharing in MODES {
        for (shape, slots, stages) in &SHAPES[1..5] {
            let setting = Setting::new(sharing, *shape, reused(*slots, stages - 1));
            let warps = if *shape == 5 { 1 } else { 2 };
            right(&Setting { flags: BY_VERBS | WAITS_AHEAD, warps, ..setting }, 1);
        }
    }
}

#[test]
fn fewer_ids_than_slots_load_every_tile() {
    for seed in seeds(SEEDS) {
        for sharing in MODES {
            for (shape, tokens) in [(3, 2), (3, 1), (4, 3), (4, 1)] {
                let slots = SHAPES[shape as usize - 1].1;
                let one_row = Setting { tokens, ..Setting::new(sharing, shape, reused(slots, slots - 1)) };
                right(&one_row, seed);
                // Of which each lane has a part; and of several rows.
                right(&Setting { most: 1, ..one_row }, seed);
                right(&Setting { tokens, ..Setting::new(sharing, 3, schedule(&of_matrix(), 3, 2)) }, seed);
            }
        }
    }
}

#[test]
fn what_was_loaded_and_not_waited_for_is_done_when_the_stream_ends() {
    for sharing in MODES {
        let setting = Setting::new(sharing, 3, schedule(&order(&[0, 1, 2, 3, 4, 5, 6, 7]), 3, 2));
        let setting = Setting { flags: BY_VERBS | LEAVES_EARLY, ..setting };
        let ran = setting.run(&MODULE, 1).expect("a run");
        let statuses: Vec<_> = ran.records[0].iter().map(|record| (record.answers, record.wrong)).collect();
        assert_eq!(statuses[..4], [(2, 0); 4], "{statuses:?}");
        assert_eq!(statuses[4..], [(0, 0); 4], "{statuses:?}");
        // Two more were on their way, and none is left.
        assert_eq!(ran.reads, 6);
        assert_eq!(ran.several.violations(), Vec::<String>::new());
    }
}

#[test]
fn a_tile_larger_than_a_command_comes_in_parts() {
    for most in [1, 4] {
        let setting = Setting { most, ..Setting::new(Sharing::Shared, 2, reused(2, 1)) };
        let ran = right(&setting, 1);
        let commands = u64::from(TILE.div_ceil(most));
        assert_eq!(ran.reads, setting.schedule.report().loads * commands);
    }
}

/// The tiles of `ruled_tiles::matrix` in shape 6, as a list.
fn of_matrix() -> Vec<Tile> {
    let tile = |at: u64| Tile {
        number: at,
        first_block: Lba(8 + at / 4 * 200 + at % 4 * 2),
        blocks: 2,
        rows: 5,
        row_stride: 40,
    };
    (0..8).map(tile).collect()
}

/// Rules, and lists of the same tiles.
fn ruled() -> [(u32, Vec<Tile>); 3] {
    let linear =
        |first: u64, stride: u64| (0..20).map(move |at| Tile::linear(at, Lba(first + at * stride), TILE));
    [(6, of_matrix()), (7, linear(3, 11).collect()), (8, linear(5, 6).collect())]
}

#[test]
fn tiles_by_rules_are_those_of_the_same_list() {
    for (shape, tiles) in ruled() {
        let slots = SHAPES[shape as usize - 1].1;
        let setting = Setting::new(Sharing::Shared, shape, schedule(&tiles, slots, slots - 1));
        right(&setting, 1);
    }
    // And a list of tiles of several rows.
    right(&Setting::new(Sharing::Exclusive, 3, schedule(&of_matrix(), 3, 1)), 1);
}

#[test]
fn a_schedule_that_was_written_is_replayed() {
    let written = reused(3, 1).to_text();
    assert_eq!(written, reused(3, 1).to_text());
    let replayed = TileSchedule::from_text(&written).expect("a schedule");
    let slots = |schedule: TileSchedule| {
        let ran = right(&Setting::new(Sharing::Shared, 3, schedule), 1);
        (ran.reads, ran.records[0].iter().map(|record| record.tile).collect::<Vec<_>>())
    };
    assert_eq!(slots(replayed), slots(reused(3, 1)));
}
