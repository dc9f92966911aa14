//! Schedules of tiles of a C program.

use warpbell::{Lba, Tile, TileList, TileSchedule, TileSpec};
use warpbell_kernels::abi::ScheduleRef;

use crate::error::{Answer, Failure};
use crate::events::count;
use crate::handle::{Kind, Table};
use crate::over::Over;
use crate::scope::User;
use crate::types::{self, Head, TilesInfo, TilesOptions};

pub(crate) static TILES: Table<Tiles> = Table::new(Kind::Tiles);

/// Stages that a stream may have (stream.cuh).
const STAGES_MAX: u32 = 32;

/// A schedule of a C program's, and its steps where kernels read them.
pub(crate) struct Tiles {
    schedule: TileSchedule,
    list: TileList,
    over: Over,
    /// Keeps queues or volume open.
    _user: User,
}

impl Tiles {
    pub(crate) fn make(over: Over, order: &[types::Tile], options: &TilesOptions) -> Answer<u64> {
        let user = over.enter()?;
        let (_, block_bytes) = over.blocks();
        let default = TileSpec::new(block_bytes);
        let slots = if options.slots == 0 { default.slots } else { options.slots };
        let spec = default.slots(slots).ahead(count(options.ahead, default.ahead));
        let order: Vec<Tile> = order.iter().map(tile_of).collect();
        let schedule = TileSchedule::new(&order, spec)?;
        let list = schedule.list(over.open_target())?;
        Ok(TILES.add(Tiles { schedule, list, over, _user: user }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        TILES.close(handle, |tiles| tiles.over.no_runs()).map(drop)
    }

    pub(crate) fn to_ref(&self) -> ScheduleRef {
        self.list.as_ref()
    }

    pub(crate) fn info(&self) -> TilesInfo {
        let report = self.schedule.report();
        TilesInfo {
            head: Head::of::<TilesInfo>(),
            steps: report.steps,
            loads: report.loads,
            loaded_bytes: report.loaded_bytes,
            ring_bytes: self.schedule.ring_bytes() as u64,
            slot_bytes: self.schedule.slot_bytes(),
            pad0: 0,
        }
    }

    pub(crate) fn shared_bytes(&self, stages: u32) -> Answer<u32> {
        if !(1..=STAGES_MAX).contains(&stages) {
            return Err(Failure::invalid(format!("stages {stages}: must be 1 to {STAGES_MAX}")));
        }
        Ok(self.schedule.shared_bytes(stages))
    }
}

fn tile_of(tile: &types::Tile) -> Tile {
    let types::Tile { number, first_block, row_stride, blocks, rows } = *tile;
    Tile { number, first_block: Lba(first_block), blocks, rows, row_stride }
}
