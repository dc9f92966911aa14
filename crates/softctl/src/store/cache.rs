//! A volatile write cache, seen from its loss: what blocks held before they were written and not flushed.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use parking_lot::Mutex;
use rand::{Rng, RngExt};

use super::{Namespace, StoreError};
use warpbell_hw::Lba;

/// The durable contents of the blocks that were written since the last flush.
#[derive(Debug, Default)]
pub(crate) struct WriteCache {
    durable: Mutex<BTreeMap<u64, Box<[u8]>>>,
}

impl Namespace {
    /// Blocks that a range of bytes touches.
    fn blocks_of(&self, offset: u64, len: u64) -> std::ops::Range<u64> {
        offset >> self.shift..(offset + len).div_ceil(u64::from(self.block_size()))
    }

    /// Bytes are about to be written: keeps what would come back if power failed. Costs nothing without a cache.
    #[inline]
    pub(crate) fn before_write(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        match &self.cache {
            None => Ok(()),
            Some(cache) => self.remember(cache, offset, len),
        }
    }

    #[cold]
    fn remember(&self, cache: &WriteCache, offset: u64, len: u64) -> Result<(), StoreError> {
        let mut durable = cache.durable.lock();
        for lba in self.blocks_of(offset, len) {
            if let Entry::Vacant(entry) = durable.entry(lba) {
                let mut block = vec![0; self.block_size() as usize].into_boxed_slice();
                self.read(self.offset(Lba(lba)), &mut block)?;
                entry.insert(block);
            }
        }
        Ok(())
    }

    /// Makes a range of bytes durable, and nothing else that the cache holds.
    pub(crate) fn make_durable(&self, offset: u64, len: u64) -> Result<(), StoreError> {
        self.store.flush()?;
        if let Some(cache) = &self.cache {
            let blocks = self.blocks_of(offset, len);
            cache.durable.lock().retain(|lba, _| !blocks.contains(lba));
        }
        Ok(())
    }

    /// Makes all earlier writes durable.
    pub(crate) fn flush(&self) -> Result<(), StoreError> {
        self.store.flush()?;
        if let Some(cache) = &self.cache {
            cache.durable.lock().clear();
        }
        Ok(())
    }

    /// Nothing comes back any more of what blocks held before they were written.
    pub(crate) fn forget_durable(&self) {
        if let Some(cache) = &self.cache {
            cache.durable.lock().clear();
        }
    }

    /// Power fails: each block that was written and not flushed holds what it held before, but survives with
    /// probability `keep`. A block is never torn. The caller keeps everybody else away.
    pub(crate) fn lose_power(&self, keep: f64, random: &mut impl Rng) {
        let Some(cache) = &self.cache else { return };
        for (lba, block) in std::mem::take(&mut *cache.durable.lock()) {
            let survives = keep >= 1.0 || keep > 0.0 && random.random_bool(keep);
            if survives {
                continue;
            }
            if let Err(error) = self.store.write(self.offset(Lba(lba)), &block) {
                tracing::warn!(nsid = self.nsid, lba, %error, "a block could not be taken back");
            }
        }
    }
}
