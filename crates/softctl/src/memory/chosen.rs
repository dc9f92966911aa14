//! Mappings at addresses that the client chose: memory of a client in another process.
//!
//! Such a client, a virtual machine above all, takes memory away and returns it a moment later while queues lie in
//! it, as the layout of its address space changes. A device on a bus notices nothing of this unless it looks in
//! between. So a queue whose memory goes is suspended, and goes on when its memory is back.

use warpbell_hw::{DmaAccess, DmaError, DmaSource, Iova};

use super::claim::Claim;
use super::source::backing_of;
use super::space::Region;
use super::{IovaSpace, PAGE};

impl IovaSpace {
    /// Maps at `iova`. Returns the queues that have all their memory again.
    pub(crate) fn map_at(
        &self,
        iova: Iova,
        source: DmaSource<'_>,
        access: DmaAccess,
    ) -> Result<Vec<Claim>, DmaError> {
        if let DmaSource::Remote(memory) = source {
            return Err(DmaError::only_an_engine(&**memory));
        }
        let backing = backing_of(source, access)?;
        let (start, len) = (iova.0, backing.len());
        if !start.is_multiple_of(PAGE) {
            return Err(DmaError::Alignment { offset: start, len, page_size: PAGE });
        }
        if start.checked_add(len - 1).is_none() {
            return Err(DmaError::NoSpace { len, ranges: vec![0..=u64::MAX] });
        }
        let mut inner = self.inner.lock();
        inner.check_count()?;
        let overlap = |(other, other_len)| DmaError::Overlap { iova, len, other: Iova(other), other_len };
        inner.allocator.take_at(start, len).map_err(overlap)?;
        let mut resumed = Vec::new();
        self.change(&mut inner, |table| {
            table.insert(Region { start, len, access, backing, queues: false });
            let mut claims = std::mem::take(&mut table.claims);
            resumed = claims.resume(|start, len| table.pieces(start, len, DmaAccess::READ).is_some());
            table.claims = claims;
            table.mark(start, len);
            resumed.iter().for_each(|claim| table.mark(claim.start, claim.len));
        });
        Ok(resumed)
    }

    /// Removes a mapping. Queues in it are suspended.
    pub(crate) fn unmap_at(&self, iova: Iova, len: u64) -> Result<(), DmaError> {
        let mut inner = self.inner.lock();
        if !inner.allocator.release(iova.0, len) {
            return Err(DmaError::NotMapped { iova, len });
        }
        self.change(&mut inner, |table| {
            table.claims.suspend(iova.0, len);
            table.remove(iova.0, len);
        });
        Ok(())
    }

    /// Removes all mappings.
    pub(crate) fn unmap_everything(&self) {
        let mut inner = self.inner.lock();
        let all: Vec<(u64, u64)> = inner.table.regions.iter().map(|one| (one.start, one.len)).collect();
        for (start, len) in &all {
            inner.allocator.release(*start, *len);
        }
        self.change(&mut inner, |table| {
            table.regions.clear();
            table.remotes = 0;
        });
    }
}
