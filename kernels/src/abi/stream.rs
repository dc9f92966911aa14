//! What the host shares with kernels that stream tiles. `abi_stream.h` says what each field is.

use super::mirror;

mirror! {
    /// One use of a tile.
    plain TileStep = "warpbell_tile_step" {
        /// Which one.
        tile: u64,
        /// Of its first row.
        first_block: u64,
        /// Blocks from the beginning of a row to that of the next.
        row_stride: u64,
        /// Blocks of a row.
        blocks: u32,
        /// 1 to 32.
        rows: u32,
        /// Of the ring.
        slot: u32,
        /// So many steps must have been released before it may be loaded.
        after: u32,
        /// `TILE_RESIDENT`.
        flags: u32,
        /// Zero.
        pad0: u32,
    }
}

mirror! {
    /// Which tiles are used, in which order, and where each lies.
    versioned ScheduleRef = "warpbell_schedule_ref" {
        /// Address of `TileStep[step_count]`.
        steps: u64,
        /// Uses of tiles.
        step_count: u32,
        /// Of the ring.
        slots: u32,
        /// No tile is larger.
        slot_bytes: u32,
        /// Zero.
        pad0: u32,
    }
}
