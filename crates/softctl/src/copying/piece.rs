//! A piece of a command's data, and where its parts lie.

use std::sync::Arc;

use vm_memory::VolatileSlice;
use warpbell_hw::PoolPart;
use warpbell_nvme::Status;

use crate::engine::{Refused, never};
use crate::memory::{Remote, View};
use crate::store::Taken;
use crate::transfer::{Direction, Segment};

/// Data that moves at a time: through one staging buffer, or straight between a store and remote memory.
pub(super) struct Piece {
    pub(super) number: u64,
    /// Its first byte in the command's data.
    pub(super) at: u64,
    pub(super) len: usize,
    /// Copies of it that have not ended.
    pub(super) copies: usize,
    /// `None`: its copies are with the store itself.
    pub(super) staged: Option<PoolPart>,
    /// Keeps everybody else away from blocks that an engine copies.
    pub(super) _taken: Option<Taken>,
}

/// A part of a piece that lies in one place.
pub(super) struct Part<'v> {
    /// Its first byte in the piece.
    pub(super) at: usize,
    pub(super) len: usize,
    pub(super) place: Place<'v>,
}

pub(super) enum Place<'v> {
    /// Memory with a pointer.
    Host(VolatileSlice<'v>),
    /// Remote memory, and where in it.
    Remote(&'v Arc<Remote>, u64),
    /// Nowhere: nobody wants these bytes.
    Bucket,
}

/// The parts of `len` bytes of data from `start` on, as far as they are still mapped.
pub(super) fn parts<'v>(
    view: &'v View,
    segments: &[Segment],
    start: u64,
    len: usize,
    direction: Direction,
) -> Result<Vec<Part<'v>>, Refused> {
    let (mut skip, mut at, mut parts) = (start as usize, 0, Vec::new());
    for segment in segments {
        if at == len {
            break;
        }
        if skip >= segment.len {
            skip -= segment.len;
            continue;
        }
        let piece = (segment.len - skip).min(len - at);
        let place = match segment.bucket {
            true => Place::Bucket,
            false => place(view, segment.iova + skip as u64, piece, direction)?,
        };
        parts.push(Part { at, len: piece, place });
        at += piece;
        skip = 0;
    }
    Ok(parts)
}

fn place(view: &View, iova: u64, len: usize, direction: Direction) -> Result<Place<'_>, Refused> {
    let access = direction.access();
    if let Some((remote, at)) = view.remote(iova, len, access) {
        return Ok(Place::Remote(remote, at));
    }
    // The client may have unmapped it since it was checked.
    let span = view.resolve(iova, len, access).ok_or(never(Status::DATA_TRANSFER_ERROR))?;
    Ok(Place::Host(span))
}
