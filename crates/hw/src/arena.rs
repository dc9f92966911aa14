//! Host memory of one device for rings and data, in few mappings: servers and IOMMUs take only so many.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;

use crate::{BASE_PAGE, DmaAccess, DmaBuffer, DmaError, DmaSpace, Pool};

/// Bytes of the first mapping.
const FIRST: usize = 1 << 20;
/// What is at least this long gets a mapping of its own, and no mapping gets longer for what may come.
const MOST: usize = 64 << 20;

/// Memory that a device reaches, handed out in parts. It grows by mappings that are as long as all before them together.
/// A mapping lives as long as its last part; so a part that a controller may still write to keeps its place.
pub struct DmaArena {
    space: Arc<dyn DmaSpace>,
    chunks: Mutex<Vec<Chunk>>,
    /// Held while a mapping is made, which may take seconds: what fits into others does not wait for it.
    growing: Mutex<()>,
}

/// A mapping, and which parts of it are in use. The parts keep it.
struct Chunk {
    mapping: Weak<DmaBuffer>,
    pool: Weak<Pool>,
    len: usize,
}

impl Chunk {
    fn is_alive(&self) -> bool {
        self.mapping.strong_count() > 0
    }

    /// A part, if there is room for one.
    fn take(&self, len: usize) -> Option<DmaBuffer> {
        let (mapping, pool) = (self.mapping.upgrade()?, self.pool.upgrade()?);
        DmaBuffer::part(&mapping, pool.take(len).ok()?).ok()
    }
}

impl std::fmt::Debug for DmaArena {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DmaArena").field("mappings", &self.mappings()).finish_non_exhaustive()
    }
}

impl DmaArena {
    /// An arena without any memory yet.
    pub fn new(space: Arc<dyn DmaSpace>) -> Arc<DmaArena> {
        Arc::new(DmaArena { space, chunks: Mutex::default(), growing: Mutex::default() })
    }

    /// Zeroed host memory of at least `len` bytes, resident, readable and writable by the device.
    pub fn buffer(&self, len: usize) -> Result<DmaBuffer, DmaError> {
        if len == 0 || len >= MOST || !self.space.coalesces() {
            return DmaBuffer::host(self.space.clone(), len);
        }
        if let Some(part) = self.take(len)? {
            return Ok(part);
        }
        let growing = self.growing.lock();
        // Another may have made room since.
        if let Some(part) = self.take(len)? {
            return Ok(part);
        }
        let part = self.grow(len)?;
        drop(growing);
        part.window().populate()?;
        Ok(part)
    }

    /// A zeroed part of what is mapped, if there is room for one.
    fn take(&self, len: usize) -> Result<Option<DmaBuffer>, DmaError> {
        let part = {
            let mut chunks = self.chunks.lock();
            chunks.retain(Chunk::is_alive);
            chunks.iter().find_map(|chunk| chunk.take(len))
        };
        if let Some(part) = &part {
            part.window().populate()?;
            part.window().fill(0, part.len(), 0)?;
        }
        Ok(part)
    }

    /// The first part of a new mapping. Where there is no room for what may come, it is as long as that part.
    fn grow(&self, len: usize) -> Result<DmaBuffer, DmaError> {
        let so_far: usize = self.chunks.lock().iter().map(|chunk| chunk.len).sum();
        let wish = len.max(so_far.clamp(FIRST, MOST));
        let mapping = match self.map(wish) {
            Err(error) if wish > len && is_about_room(&error) => {
                tracing::debug!(%error, wish, len, "no room for more than what is needed now");
                self.map(len)
            }
            mapped => mapped,
        }?;
        let (mapping, pool) = (Arc::new(mapping.0), mapping.1);
        let part = pool.take(len).map_err(|error| DmaError::Unsupported { reason: error.to_string() })?;
        let part = DmaBuffer::part(&mapping, part)?;
        let len = mapping.len();
        self.chunks.lock().push(Chunk {
            mapping: Arc::downgrade(&mapping),
            pool: Arc::downgrade(&pool),
            len,
        });
        Ok(part)
    }

    fn map(&self, len: usize) -> Result<(DmaBuffer, Arc<Pool>), DmaError> {
        let page = usize::try_from(self.space.limits().page_size).unwrap_or(BASE_PAGE);
        let window = self.space.allocate(len.next_multiple_of(page.max(BASE_PAGE)))?;
        crate::available::check(&window)?;
        let pool = Pool::new(window.clone());
        Ok((DmaBuffer::map(self.space.clone(), window, DmaAccess::READ_WRITE)?, pool))
    }

    /// Mappings that parts lie in.
    pub fn mappings(&self) -> usize {
        self.chunks.lock().iter().filter(|chunk| chunk.is_alive()).count()
    }
}

/// Whether less memory may be had where this was too much; a server that does not answer is not asked twice.
fn is_about_room(error: &DmaError) -> bool {
    use DmaError::{Memory, NoSpace, Refused, TooMany};
    matches!(error, Memory(_) | NoSpace { .. } | Refused { .. } | TooMany { .. })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DmaLimits, DmaSource, HUGE_PAGE, Iova};

    /// Keeps lengths by IOVA, as many as it takes.
    struct Space {
        mapped: Mutex<Vec<(u64, u64)>>,
        most: usize,
        longest: u64,
    }

    impl DmaSpace for Space {
        fn map(&self, source: DmaSource<'_>, _: DmaAccess) -> Result<Iova, DmaError> {
            let DmaSource::Memory(window) = source else { unreachable!("an arena maps memory") };
            let (mut mapped, len) = (self.mapped.lock(), window.len() as u64);
            if mapped.len() == self.most || len > self.longest {
                return Err(DmaError::TooMany { limit: self.most as u32 });
            }
            let iova = mapped.iter().map(|(iova, len)| iova + len).max().unwrap_or(1 << 20);
            mapped.push((iova, len));
            Ok(Iova(iova))
        }
        fn unmap(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
            self.mapped.lock().retain(|one| *one != (iova.0, len));
            Ok(())
        }
        fn limits(&self) -> DmaLimits {
            DmaLimits { ranges: vec![0..=u64::MAX], page_size: 4096, mappings: self.most as u32 }
        }
        fn coalesces(&self) -> bool {
            true
        }
    }

    fn arena(most: usize, longest: usize) -> (Arc<Space>, Arc<DmaArena>) {
        let space = Arc::new(Space { mapped: Mutex::default(), most, longest: longest as u64 });
        (space.clone(), DmaArena::new(space))
    }

    #[test]
    fn many_buffers_share_few_mappings_which_double() {
        let (space, arena) = arena(16, usize::MAX);
        let held: Vec<DmaBuffer> = (0..100).map(|_| arena.buffer(256 << 10).unwrap()).collect();
        let lengths: Vec<u64> = space.mapped.lock().iter().map(|(_, len)| len >> 20).collect();
        assert_eq!(lengths, [1, 1, 2, 4, 8, 16]);
        let mut places: Vec<u64> = held.iter().map(|buffer| buffer.iova().0).collect();
        places.sort_unstable();
        assert!(places.windows(2).all(|pair| pair[0] + (256 << 10) <= pair[1]), "none lies in another");
        drop(held);
        assert_eq!((space.mapped.lock().len(), arena.mappings()), (0, 0));
    }

    #[test]
    fn a_place_is_used_again_when_its_buffer_is_gone_and_then_reads_as_zero() {
        let (space, arena) = arena(1, usize::MAX);
        let kept = arena.buffer(1).unwrap();
        let first = arena.buffer(8192).unwrap();
        let (place, window) = (first.iova(), first.window().clone());
        window.fill(0, 8192, 7).unwrap();
        // What is still in flight keeps its buffer, and with it the place.
        let in_flight = first;
        assert_ne!(arena.buffer(8192).unwrap().iova(), place);
        drop(in_flight);
        let second = arena.buffer(8192).unwrap();
        assert_eq!((second.iova(), second.window().to_vec(0, 8192).unwrap()), (place, vec![0; 8192]));
        // One that is never dropped, as its controller may write to it for ever, keeps the mapping.
        std::mem::forget(second);
        drop(kept);
        assert_eq!((space.mapped.lock().len(), arena.mappings()), (1, 1));
    }

    #[test]
    fn where_there_is_no_room_for_more_there_is_for_what_is_needed() {
        let (space, arena) = arena(16, 8192);
        let held = [arena.buffer(8192).unwrap(), arena.buffer(4096).unwrap()];
        assert_eq!(space.mapped.lock().len(), 2);
        assert!(matches!(arena.buffer(12288), Err(DmaError::TooMany { limit: 16 })));
        drop(held);
    }

    #[test]
    fn long_buffers_lie_by_themselves() {
        let (space, arena) = arena(16, usize::MAX);
        let long = arena.buffer(MOST).unwrap();
        let short = arena.buffer(HUGE_PAGE).unwrap();
        let lengths: Vec<u64> = space.mapped.lock().iter().map(|(_, len)| *len).collect();
        assert_eq!(lengths, [MOST as u64, HUGE_PAGE as u64]);
        assert_eq!(arena.mappings(), 1);
        drop((long, short));
    }
}
