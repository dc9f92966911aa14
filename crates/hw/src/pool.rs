//! Memory handed out in parts, for rings and data of any number of devices.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::{BASE_PAGE, Window};

/// A part of this length is not free.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{need} bytes do not fit: {used} of {size} bytes are in use")]
pub struct PoolFull {
    /// Bytes asked for.
    pub need: usize,
    /// Bytes in use.
    pub used: usize,
    /// Bytes that there are.
    pub size: usize,
}

/// Which parts of some memory are in use, wherever it lies. Parts begin and end at multiples of 4096 bytes.
#[derive(Debug)]
pub struct Extents {
    size: usize,
    /// Lengths by offset.
    used: Mutex<BTreeMap<usize, usize>>,
}

/// A part of it that is in use until dropped.
#[derive(Debug)]
pub struct Extent {
    offset: usize,
    len: usize,
    extents: Arc<Extents>,
}

impl Extents {
    /// All of `size` bytes are free.
    pub fn new(size: usize) -> Arc<Extents> {
        Arc::new(Extents { size, used: Mutex::default() })
    }

    /// The first free part of at least `len` bytes.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<Extent, PoolFull> {
        let mut used = self.used.lock();
        let full = PoolFull { need: len, used: used.values().sum(), size: self.size };
        let len = len.max(1).checked_next_multiple_of(BASE_PAGE).ok_or(full)?;
        let mut offset = 0;
        for (start, taken) in used.iter() {
            if start - offset >= len {
                break;
            }
            offset = start + taken;
        }
        if self.size - offset < len {
            return Err(full);
        }
        used.insert(offset, len);
        Ok(Extent { offset, len, extents: self.clone() })
    }
}

impl Extent {
    /// Where it begins, in bytes.
    pub fn offset(&self) -> usize {
        self.offset
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether it has no bytes; it always has some.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}

impl Drop for Extent {
    fn drop(&mut self) {
        self.extents.used.lock().remove(&self.offset);
    }
}

/// A window, and which parts of it are in use.
#[derive(Debug)]
pub struct Pool {
    window: Window,
    extents: Arc<Extents>,
}

/// A part of a pool, released when dropped.
#[derive(Debug)]
pub struct PoolPart {
    window: Window,
    extent: Extent,
    /// A part keeps its pool.
    _pool: Arc<Pool>,
}

impl Pool {
    /// A pool over the whole window.
    pub fn new(window: Window) -> Arc<Pool> {
        let extents = Extents::new(window.len());
        Arc::new(Pool { window, extents })
    }

    /// All of the memory.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// The first free part of at least `len` bytes. Its contents are whatever was there.
    pub fn take(self: &Arc<Self>, len: usize) -> Result<PoolPart, PoolFull> {
        let extent = self.extents.take(len)?;
        let window =
            self.window.slice(extent.offset(), extent.len()).expect("inside by its offset and length");
        Ok(PoolPart { window, extent, _pool: self.clone() })
    }
}

impl PoolPart {
    /// The memory.
    pub fn window(&self) -> &Window {
        &self.window
    }

    /// Where it begins in the pool, in bytes.
    pub fn offset(&self) -> usize {
        self.extent.offset()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_take_whole_pages_and_give_them_back() {
        let pool = Pool::new(Window::host(4 * BASE_PAGE).unwrap());
        let first = pool.take(100).unwrap();
        let second = pool.take(BASE_PAGE + 1).unwrap();
        assert_eq!((first.offset(), second.offset()), (0, BASE_PAGE));
        assert_eq!(second.window().len(), 2 * BASE_PAGE);
        let refused = pool.take(2 * BASE_PAGE).unwrap_err().to_string();
        assert_eq!(refused, "8192 bytes do not fit: 12288 of 16384 bytes are in use");
        drop(first);
        let third = pool.take(1).unwrap();
        assert_eq!((third.offset(), pool.take(BASE_PAGE).unwrap().offset()), (0, 3 * BASE_PAGE));
        drop((second, third));
        assert!(pool.take(4 * BASE_PAGE).is_ok());
        assert!(pool.take(usize::MAX).is_err());
    }
}
