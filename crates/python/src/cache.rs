//! Caches of pages and schedules of tiles: what kernels use of them is made here.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use warpbell::{KernelMemory, Lba, OpenTarget, PageCacheSpec, Tile, TileList, TileSpec};
use zerocopy::IntoBytes;

use crate::args;
use crate::error::{Answer, Failure};
use crate::file::FileTable;
use crate::home::Own;
use crate::lease::range;
use crate::queues::{Queues, QueuesCore};
use crate::volume::{Volume, VolumeCore};

/// What they are made for.
enum Base {
    Queues(Own<QueuesCore>),
    Volume(Own<VolumeCore>),
}

impl Base {
    fn of(over: &Bound<'_, PyAny>) -> Answer<Base> {
        if let Ok(queues) = over.cast::<Queues>() {
            return Ok(Base::Queues(Own::new(queues.get().core.clone())));
        }
        if let Ok(volume) = over.cast::<Volume>() {
            return Ok(Base::Volume(Own::new(volume.get().core.clone())));
        }
        Err(Failure::argument_type("queues", over, "must be warpbell.Queues or a warpbell.Volume"))
    }

    /// The queues that it is of.
    fn owners(&self) -> &[Arc<QueuesCore>] {
        match self {
            Base::Queues(queues) => std::slice::from_ref(&**queues),
            Base::Volume(volume) => volume.members(),
        }
    }

    /// Does something for its target, with blocks and bytes of each. It is not closed meanwhile.
    fn with<T>(&self, work: impl FnOnce(&OpenTarget, (u64, u32)) -> Answer<T>) -> Answer<T> {
        match self {
            Base::Queues(queues) => {
                let shape = (queues.ssd.blocks, queues.ssd.block as u32);
                queues.with(|attached| work(attached.attachment.target(), shape))
            }
            Base::Volume(volume) => volume.with(|opened| {
                let shape = (opened.blocks(), opened.block_bytes());
                volume.members()[0].with(|attached| work(attached.attachment.target(), shape))
            }),
        }
    }

    fn check_open(&self) -> Answer<()> {
        self.with(|_, _| Ok(()))
    }

    /// Whether a file's table is of these queues.
    fn check_table(&self, table: &FileTable) -> Answer<()> {
        match (self.owners(), table.owners()) {
            ([own], [its]) if Arc::ptr_eq(own, its) => Ok(()),
            _ => {
                let owner = table.owners().first().map_or_else(String::new, ToString::to_string);
                Err(Failure::argument(
                    "file",
                    format!("of {owner}"),
                    "must be a table for the queues of the cache",
                ))
            }
        }
    }
}

/// A cache of pages that kernels share: the kernel argument `warpbell_cache_ref`. Its pages lie in a buffer of what it is
/// made for, `queues.buffer(cache.buffer_bytes)` or `volume.buffer(cache.buffer_bytes)`. Any number of threads may use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct PageCache {
    cache: Own<warpbell::PageCache>,
    base: Base,
}

impl PageCache {
    pub(crate) fn owners(&self) -> &[Arc<QueuesCore>] {
        self.base.owners()
    }

    pub(crate) fn memory(&self) -> Answer<KernelMemory> {
        self.base.check_open().map(|()| self.cache.memory())
    }
}

#[pymethods]
impl PageCache {
    /// A cache of so many pages of `page_bytes` bytes, of the namespace of `queues`, or of a volume, from block
    /// `first_block` on; of `file`, the table of one for these queues, the pages of that, for `file_source`. `kept` are the pages that the policy `pinned_set` keeps: the first, and the one behind the last.
    #[new]
    #[pyo3(signature = (queues, *, pages, page_bytes=None, first_block=None, timeout=None, kept=None, file=None))]
    fn new(
        queues: &Bound<'_, PyAny>,
        pages: &Bound<'_, PyAny>,
        page_bytes: Option<&Bound<'_, PyAny>>,
        first_block: Option<&Bound<'_, PyAny>>,
        timeout: Option<&Bound<'_, PyAny>>,
        kept: Option<&Bound<'_, PyAny>>,
        file: Option<&Bound<'_, FileTable>>,
    ) -> PyResult<PageCache> {
        let base = Base::of(queues)?;
        let mut spec = PageCacheSpec::new().lines(args::within("pages", pages, 1, 1 << 30)? as u32);
        if let Some(bytes) = args::optional("page_bytes", page_bytes, 1, 1 << 31)? {
            spec = spec.page_bytes(bytes as u32);
        }
        if let Some(block) = args::optional("first_block", first_block, 0, u64::MAX)? {
            spec = spec.first_block(Lba(block));
        }
        if let Some(limit) = args::timeout("timeout", timeout)? {
            spec = spec.timeout(limit);
        }
        if let Some(kept) = range("kept", kept)? {
            if kept.start > kept.end {
                let value = format!("{}..{}", kept.start, kept.end);
                return Err(Failure::argument("kept", value, "must not end before it begins").into());
            }
            spec = spec.kept(kept);
        }
        let cache = base.with(|target, shape| match file {
            None => Ok(warpbell::PageCache::new(target, shape, &spec)?),
            Some(file) => {
                base.check_table(file.get())?;
                Ok(warpbell::PageCache::of_file(target, file.get().table(), &spec)?)
            }
        })?;
        Ok(PageCache { cache: Own::new(Arc::new(cache)), base })
    }

    /// Bytes of the buffer that its pages lie in.
    #[getter]
    fn buffer_bytes(&self) -> usize {
        self.cache.buffer_bytes()
    }

    /// Pages that may be cached.
    #[getter]
    fn pages(&self) -> u64 {
        self.cache.pages()
    }

    /// What kernels counted.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.base.with(|_, _| Ok(self.cache.report()?))?;
        let dict = PyDict::new(py);
        dict.set_item("hits", report.hits)?;
        dict.set_item("misses", report.misses)?;
        dict.set_item("write_backs", report.write_backs)?;
        dict.set_item("prefetched", report.prefetched)?;
        dict.set_item("prefetched_used", report.prefetched_used)?;
        dict.set_item("prefetched_in_vain", report.prefetched_in_vain)?;
        dict.set_item("prefetch_skipped", report.prefetch_skipped)?;
        dict.set_item("hit_rate", report.hit_rate())?;
        dict.set_item("error", report.error)?;
        Ok(dict)
    }

    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.base.check_open()?;
        Ok(PyBytes::new(py, warpbell::PageCache::as_ref(&self.cache).as_bytes()))
    }
}

/// Tiles in the order in which kernels use them, each with its slot in a ring: the kernel argument `warpbell_schedule_ref`.
/// Any number of threads may use it.
#[pyclass(frozen, module = "warpbell")]
pub(crate) struct TileSchedule {
    schedule: warpbell::TileSchedule,
    list: Own<TileList>,
    base: Base,
}

impl TileSchedule {
    pub(crate) fn owners(&self) -> &[Arc<QueuesCore>] {
        self.base.owners()
    }

    pub(crate) fn memory(&self) -> Answer<KernelMemory> {
        self.base.check_open().map(|()| self.list.memory())
    }

    fn of(
        base: Base,
        make: impl FnOnce(u32) -> Result<warpbell::TileSchedule, warpbell::Error>,
    ) -> Answer<TileSchedule> {
        let (schedule, list) = base.with(|target, (_, block_bytes)| {
            let schedule = make(block_bytes)?;
            let other = schedule.spec().block_bytes;
            if other != block_bytes {
                let limit = format!("must be {block_bytes}, as the blocks of what it is made for have");
                return Err(Failure::argument("block_bytes of a tile schedule", other, limit));
            }
            let list = schedule.list(target)?;
            Ok((schedule, list))
        })?;
        Ok(TileSchedule { schedule, list: Own::new(Arc::new(list)), base })
    }
}

#[pymethods]
impl TileSchedule {
    /// A schedule of `tiles` in this order, of the namespace of `queues` or of a volume. A tile is a tuple: its number, its
    /// first block and the blocks of a row, or these and its rows and the blocks from row to row. `slots` is the room of
    /// the ring in tiles, `ahead` the number of steps that a load need not wait for.
    #[new]
    #[pyo3(signature = (queues, tiles, *, slots=None, ahead=None))]
    fn new(
        py: Python<'_>,
        queues: &Bound<'_, PyAny>,
        tiles: &Bound<'_, PyAny>,
        slots: Option<&Bound<'_, PyAny>>,
        ahead: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<TileSchedule> {
        let base = Base::of(queues)?;
        let most = u64::from(u32::MAX);
        let slots = args::optional("slots", slots, 1, most)?;
        let ahead = args::optional("ahead", ahead, 0, most)?;
        let tiles = tiles_of(tiles)?;
        let made = py.detach(|| {
            TileSchedule::of(base, |block_bytes| {
                let spec = TileSpec::new(block_bytes);
                let spec = spec.slots(slots.map_or(spec.slots, |slots| slots as u32));
                let spec = spec.ahead(ahead.map_or(spec.ahead, |ahead| ahead as u32));
                warpbell::TileSchedule::new(&tiles, spec)
            })
        });
        Ok(made?)
    }

    /// The schedule of a text that `to_text` gave. What cannot be replayed is refused with its line.
    #[staticmethod]
    fn from_text(queues: &Bound<'_, PyAny>, text: &str) -> PyResult<TileSchedule> {
        Ok(TileSchedule::of(Base::of(queues)?, |_| warpbell::TileSchedule::from_text(text))?)
    }

    /// As a text of one line for each step: the same for the same order.
    fn to_text(&self) -> String {
        self.schedule.to_text()
    }

    /// Bytes of the ring: of the buffer that kernels load into.
    #[getter]
    fn ring_bytes(&self) -> usize {
        self.schedule.ring_bytes()
    }

    /// Bytes of a slot: the largest tile's.
    #[getter]
    fn slot_bytes(&self) -> u32 {
        self.schedule.slot_bytes()
    }

    /// Shared memory of a block that streams with so many stages: `shared_bytes` of a launch.
    fn shared_bytes(&self, stages: &Bound<'_, PyAny>) -> PyResult<u32> {
        Ok(self.schedule.shared_bytes(args::within("stages", stages, 1, 32)? as u32))
    }

    /// How often tiles are used and loaded, and how far apart.
    fn report<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let report = self.schedule.report();
        let dict = PyDict::new(py);
        dict.set_item("steps", report.steps)?;
        dict.set_item("loads", report.loads)?;
        dict.set_item("tiles", report.tiles)?;
        dict.set_item("loaded_bytes", report.loaded_bytes)?;
        dict.set_item("used_bytes", report.used_bytes)?;
        dict.set_item("reuse", report.reuse())?;
        dict.set_item("reuse_distances", &report.reuse_distances)?;
        dict.set_item("uses_of_load", &report.uses_of_load)?;
        dict.set_item("residency", &report.residency)?;
        Ok(dict)
    }

    fn __warpbell_reference__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        self.base.check_open()?;
        Ok(PyBytes::new(py, TileList::as_ref(&self.list).as_bytes()))
    }
}

fn tiles_of(tiles: &Bound<'_, PyAny>) -> PyResult<Vec<Tile>> {
    let refused = |value: &Bound<'_, PyAny>| {
        let limit =
            "must be tuples: number, first block and blocks; or these, rows and blocks from row to row";
        Failure::argument_type("tiles", value, limit)
    };
    let each = tiles.try_iter().map_err(|_| refused(tiles))?;
    each.map(|tile| {
        let tile = tile?;
        let fields: Vec<u64> = tile
            .try_iter()
            .map_err(|_| refused(&tile))?
            .map(|field| args::count("tile", &field?))
            .collect::<PyResult<_>>()?;
        let narrow = |name: &str, value: u64| {
            u32::try_from(value).map_err(|_| Failure::argument(name, value, "must be below 2^32"))
        };
        match fields[..] {
            [number, first_block, blocks] => {
                Ok(Tile::linear(number, Lba(first_block), narrow("blocks of a tile", blocks)?))
            }
            [number, first_block, blocks, rows, row_stride] => Ok(Tile {
                number,
                first_block: Lba(first_block),
                blocks: narrow("blocks of a tile", blocks)?,
                rows: narrow("rows of a tile", rows)?,
                row_stride,
            }),
            _ => {
                let limit = "must be 3: number, first block, blocks; or 5: also rows, blocks from row to row";
                Err(Failure::argument("fields of a tile", fields.len(), limit).into())
            }
        }
    })
    .collect()
}
