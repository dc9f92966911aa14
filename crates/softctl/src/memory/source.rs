//! What a client maps, as memory of this process.

use std::sync::Arc;

use warpbell_hw::{DmaAccess, DmaError, DmaSource, Window};

use super::PAGE;
use super::mapping::{FileMapping, Stitched};
use super::remote::{Backing, Remote};
use super::space::Table;

/// What a source is to the controller; remote memory without anything pinned for it.
pub(super) fn backing_of(source: DmaSource<'_>, access: DmaAccess) -> Result<Backing, DmaError> {
    let check = |offset: u64, len: u64| {
        if offset.is_multiple_of(PAGE) && len.is_multiple_of(PAGE) && len > 0 {
            return Ok(());
        }
        Err(DmaError::Alignment { offset, len, page_size: PAGE })
    };
    match source {
        DmaSource::Memory(window) => {
            check(window.offset_in_memory() as u64, window.len() as u64)?;
            Ok(Backing::Memory(window.clone()))
        }
        DmaSource::Remote(memory) => {
            check(0, memory.len())?;
            Ok(Backing::Remote(Remote::new(memory.clone())))
        }
        DmaSource::File { fd, offset, len } => {
            check(offset, len)?;
            let system = |source| DmaError::System { step: "mapping of a file", len, source };
            let size = rustix::fs::fstat(fd).map_err(|e| system(e.into()))?.st_size as u64;
            if offset.checked_add(len).is_none_or(|end| end > size) {
                let reason = format!("range {offset}+{len} is outside a file of {size} bytes");
                return Err(DmaError::Unsupported { reason });
            }
            let mapping = FileMapping::new(fd, offset, len as usize, access.write).map_err(system)?;
            Ok(Backing::Memory(Window::whole(Arc::new(mapping))))
        }
    }
}

/// A range that crosses mappings, in one piece; `None` if not all of it is mapped for `access`, or if some of it is no
/// file that can be mapped again.
pub(super) fn stitch(table: &Table, iova: u64, len: u64, access: DmaAccess) -> Option<Window> {
    let lead = iova % PAGE;
    let whole = (lead + len).checked_next_multiple_of(PAGE)?;
    let pieces = table.pieces(iova - lead, whole, access)?;
    match Stitched::new(&pieces) {
        Ok(stitched) => Window::whole(Arc::new(stitched)).slice(lead as usize, len as usize).ok(),
        Err(error) => {
            tracing::warn!(%error, iova, len, pieces = pieces.len(), "cannot map a range in one piece");
            None
        }
    }
}
