//! Schedules of tiles (`stream.cuh`): which tile is used when, where it lies, and which uses need no load.

mod build;
mod report;
mod text;

use std::path::Path;

use warpbell_files::{FileMap, Piece};
use warpbell_hw::Lba;
use warpbell_kernels::abi::{self, TileStep};
use zerocopy::IntoBytes;

use crate::{Attachment, Error, KernelMemory, OpenTarget};
pub use report::TileReport;

/// Slots that a ring may have.
pub const TILE_SLOTS_MAX: u32 = 32;
/// Bytes of a tile. Shared memory of any block is less.
const BYTES_MAX: u32 = 1 << 20;

/// A tile: rows of blocks, which lie one behind the other once it was loaded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tile {
    /// What it is called. One tile has one number.
    pub number: u64,
    /// The first block of its first row.
    pub first_block: Lba,
    /// Blocks of a row.
    pub blocks: u32,
    /// Rows, up to 32.
    pub rows: u32,
    /// Blocks from the beginning of a row to that of the next.
    pub row_stride: u64,
}

impl Tile {
    /// One row: `blocks` blocks from `first_block` on.
    pub fn linear(number: u64, first_block: Lba, blocks: u32) -> Tile {
        Tile { number, first_block, blocks, rows: 1, row_stride: 0 }
    }

    /// One row: `bytes` bytes of a file from `offset` on.
    ///
    /// # Errors
    /// What does not lie in one piece, as a tile is read by its blocks alone: holes, parts of several extents. What is not
    /// whole blocks of the namespace that `queues` are attached for. A file that is known to lie in another one.
    pub fn of_file(
        number: u64,
        (file, queues): (&FileMap, &Attachment),
        (offset, bytes): (u64, u64),
    ) -> Result<Tile, Error> {
        let value = format!("{number}, {bytes} bytes at offset {offset} of a file");
        file.check(queues.namespace_id())?;
        let block = 1 << queues.namespace().block_shift;
        let pieces = file.pieces(offset, bytes).map(|pieces| pieces.take(2).collect::<Vec<_>>());
        match pieces.as_deref() {
            Ok(&[Piece::Data { at, bytes }]) if at % block == 0 && bytes % block == 0 => {
                let blocks = u32::try_from(bytes / block);
                blocks.map_or_else(
                    |_| refuse("tile", &value, "must have less than 2^32 blocks"),
                    |blocks| Ok(Tile::linear(number, Lba(at / block), blocks)),
                )
            }
            Ok(&[Piece::Data { at, .. }]) => {
                refuse("tile", value, format!("it lies at byte {at}: must be whole blocks of {block} bytes"))
            }
            Ok(&[Piece::Hole { .. }, ..]) => refuse("tile", value, "it begins with a hole"),
            Ok(&[first, _]) => {
                let seam = offset + first.bytes();
                refuse("tile", value, format!("must lie in one piece, and one ends at offset {seam}"))
            }
            Ok(_) => refuse("tile", value, "must have a byte"),
            Err(error) => refuse("tile", value, error.to_string()),
        }
    }
}

warpbell_base::options! {
    /// What a schedule is made for.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct TileSpec {
        /// Bytes of a block.
        pub block_bytes: u32,
        /// Tiles that the ring has room for: as `tile_stream` has `Slots`.
        pub slots: u32,
        /// A tile is loaded where none of so many steps before it lies, so that its load need not wait for them: 1 is
        /// double buffering. Less than `slots`.
        pub ahead: u32,
    } no new
}

impl TileSpec {
    /// Two slots, which are double buffering, for blocks of this size.
    pub fn new(block_bytes: u32) -> TileSpec {
        TileSpec { block_bytes, slots: 2, ahead: 1 }
    }
}

/// Uses of tiles in their order, each with its slot. The same for the same order and specification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TileSchedule {
    spec: TileSpec,
    steps: Vec<TileStep>,
}

impl TileSchedule {
    /// A schedule for tiles that are used in this order. A tile that is still in the ring is not loaded again. Which one
    /// is given up is known to be the right one, as the order is: of those that may be overwritten, the one whose next use
    /// is farthest away (Belady).
    pub fn new(order: &[Tile], spec: TileSpec) -> Result<TileSchedule, Error> {
        build::build(order, spec)
    }

    /// For what it was made.
    pub fn spec(&self) -> TileSpec {
        self.spec
    }

    /// The steps, as kernels read them.
    pub fn steps(&self) -> &[TileStep] {
        &self.steps
    }

    /// Bytes of a slot: the largest tile's.
    pub fn slot_bytes(&self) -> u32 {
        let bytes = |step: &TileStep| step.blocks * step.rows * self.spec.block_bytes;
        self.steps.iter().map(bytes).max().unwrap_or(0)
    }

    /// Bytes of the ring: what the buffer must have that kernels load into.
    pub fn ring_bytes(&self) -> usize {
        self.slot_bytes() as usize * self.spec.slots as usize
    }

    /// Shared memory of a block that streams by it: `tile_stream::shared_bytes` with as many stages.
    pub fn shared_bytes(&self, stages: u32) -> u32 {
        const BARRIER: u32 = 32;
        let storage = stages * BARRIER + self.spec.slots * (32 * 8 + 32 * 4 + 4) + 2 * 4;
        storage.next_multiple_of(16).next_multiple_of(128) + stages * self.slot_bytes()
    }

    /// How often tiles are used, and how far apart.
    pub fn report(&self) -> TileReport {
        report::report(self)
    }

    /// As a text of one line for each step.
    pub fn to_text(&self) -> String {
        text::write(self)
    }

    /// From such a text. It is refused where it could not be replayed: a tile that is not where it says, a load over a
    /// tile that may still be used.
    pub fn from_text(text: &str) -> Result<TileSchedule, Error> {
        text::read(text)
    }

    /// Writes the text into a file.
    pub fn save(&self, path: &Path) -> Result<(), Error> {
        std::fs::write(path, self.to_text()).map_err(|source| file_error(path, &source))
    }

    /// Reads such a file.
    pub fn load(path: &Path) -> Result<TileSchedule, Error> {
        TileSchedule::from_text(&std::fs::read_to_string(path).map_err(|source| file_error(path, &source))?)
    }

    /// A copy of the steps where kernels on `target` read it.
    pub fn list(&self, target: &OpenTarget) -> Result<TileList, Error> {
        let memory = target.memory(size_of_val(&self.steps[..]).max(1))?;
        memory.write(0, self.steps.as_bytes())?;
        let shape = abi::ScheduleRef {
            steps: memory.address(),
            step_count: self.steps.len() as u32,
            slots: self.spec.slots,
            slot_bytes: self.slot_bytes(),
            ..abi::ScheduleRef::new()
        };
        Ok(TileList { shape, memory })
    }
}

/// The steps of a schedule in memory of kernels.
#[derive(Debug)]
pub struct TileList {
    shape: abi::ScheduleRef,
    memory: KernelMemory,
}

impl TileList {
    /// The kernel argument that names it. Valid while it lives; a launch must keep it: [`memory`](Self::memory).
    pub fn as_ref(&self) -> abi::ScheduleRef {
        self.shape
    }

    /// What kernels read; hand a clone to [`Launch::keep`](crate::Launch::keep).
    pub fn memory(&self) -> KernelMemory {
        self.memory.clone()
    }
}

fn refuse<T>(object: &'static str, value: impl ToString, limit: impl Into<String>) -> Result<T, Error> {
    Err(Error::Argument { object, value: value.to_string(), limit: limit.into() })
}

fn file_error(path: &Path, source: &std::io::Error) -> Error {
    let (value, limit) = (path.display().to_string(), format!("cannot be used: {source}"));
    Error::Argument { object: "file of a tile schedule", value, limit }
}

fn check_spec(spec: &TileSpec) -> Result<(), Error> {
    if !spec.block_bytes.is_power_of_two() || !(16..=BYTES_MAX).contains(&spec.block_bytes) {
        return refuse("bytes of a block", spec.block_bytes, "must be a power of two, from 16 to 1 MiB");
    }
    if !(1..=TILE_SLOTS_MAX).contains(&spec.slots) {
        return refuse("slots of a ring of tiles", spec.slots, format!("must be 1 to {TILE_SLOTS_MAX}"));
    }
    if spec.ahead >= spec.slots {
        return refuse(
            "tiles loaded ahead",
            spec.ahead,
            format!("must be less than the {} slots", spec.slots),
        );
    }
    Ok(())
}

fn check_tile(tile: &Tile, spec: &TileSpec) -> Result<(), Error> {
    if tile.blocks == 0 || !(1..=32).contains(&tile.rows) {
        let shape = format!("{} rows of {} blocks", tile.rows, tile.blocks);
        return refuse("tile", shape, "must have 1 to 32 rows of at least a block");
    }
    // At most 2^5 * 2^32 * 2^20.
    let bytes = u64::from(tile.rows) * u64::from(tile.blocks) * u64::from(spec.block_bytes);
    if bytes > u64::from(BYTES_MAX) {
        return refuse("bytes of a tile", bytes, "must be at most 1 MiB");
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpbell_files::Extent;

    use super::*;
    use crate::{AttachOptions, OpenOptions, Ssd};

    #[test]
    fn tiles_of_a_file_lie_in_one_extent() {
        let extents = [(0, 8192, 4096), (4096, 65_536, 4096), (12_288, 1024, 2048)];
        let extents = extents.map(|(offset, at, bytes)| Extent { offset, at, bytes });
        let file = FileMap::new(14_336, extents.to_vec()).unwrap();
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::new()).unwrap();
        let queues = ssd.attach(&AttachOptions::new()).unwrap();
        let tile = |range| Tile::of_file(3, (&file, &queues), range);
        assert_eq!(tile((4608, 1024)).unwrap(), Tile::linear(3, Lba(129), 2));
        let refused = |offset, bytes| tile((offset, bytes)).unwrap_err().to_string();
        let begin = |offset, bytes| format!("tile 3, {bytes} bytes at offset {offset} of a file: ");
        let cases = [
            (3584, 1024, "must lie in one piece, and one ends at offset 4096"),
            (8192, 512, "it begins with a hole"),
            (7680, 1024, "must lie in one piece, and one ends at offset 8192"),
            (100, 512, "it lies at byte 8292: must be whole blocks of 512 bytes"),
            (512, 0, "must have a byte"),
            (13_824, 1024, "offset 13824 and 1024 bytes: the file has 14336 bytes"),
        ];
        for (offset, bytes, reason) in cases {
            assert_eq!(refused(offset, bytes), begin(offset, bytes) + reason);
        }
    }
}
