//! A request of a volume by the host as parts, and what becomes of all of them: the same for every way to drive the SSDs.

use std::collections::VecDeque;

use warpbell_hw::Lba;

use super::{VolumePiece, VolumePlace};
use crate::IoOp;

/// What one SSD does of a request, or another in its place. `E` is an error.
pub struct VolumePart<E> {
    op: IoOp,
    at: u64,
    /// In the order in which they are tried, at least one.
    places: VecDeque<VolumePlace>,
    /// What the first replica said.
    failed: Option<E>,
}

impl<E> VolumePart<E> {
    /// The parts of a read or a write of these pieces: a piece is read from one of its places, and written to each.
    pub fn of(op: IoOp, pieces: Vec<VolumePiece>) -> Vec<VolumePart<E>> {
        let part = |at, places| VolumePart { op, at, places, failed: None };
        let parts = pieces.into_iter().flat_map(|VolumePiece { at, places }| match op {
            IoOp::Read => vec![part(at, places.into())],
            _ => places.into_iter().map(|place| part(at, [place].into())).collect(),
        });
        parts.collect()
    }

    /// A flush of each of these SSDs.
    pub fn flushes(members: Vec<usize>) -> Vec<VolumePart<E>> {
        let place = |member| [VolumePlace { member, lba: Lba(0), blocks: 0 }].into();
        let part = |member| VolumePart { op: IoOp::Flush, at: 0, places: place(member), failed: None };
        members.into_iter().map(part).collect()
    }

    /// What it does.
    pub fn op(&self) -> IoOp {
        self.op
    }

    /// Bytes from the begin of the request to that of this part.
    pub fn at(&self) -> u64 {
        self.at
    }

    /// The SSD whose turn it is, and its blocks.
    pub fn place(&self) -> VolumePlace {
        self.places[0]
    }

    /// Behind `bytes` of a buffer.
    #[must_use]
    pub fn behind(self, bytes: u64) -> VolumePart<E> {
        VolumePart { at: self.at + bytes, ..self }
    }

    /// Its SSD is done with it: the part's answer, or the part again, for the next replica. `Err` is a failure, and whether
    /// the SSD has answered: one that has not may still write to the buffer, and no other may.
    pub fn end(mut self, answer: Result<(), (E, bool)>) -> Result<Result<(), E>, VolumePart<E>> {
        let (error, answered) = match answer {
            Ok(()) => return Ok(Ok(())),
            Err(failure) => failure,
        };
        if !answered || self.places.len() < 2 {
            return Ok(Err(self.failed.unwrap_or(error)));
        }
        self.places.pop_front();
        self.failed.get_or_insert(error);
        Err(self)
    }
}

/// What is left of a request: it ends with its last part.
pub struct VolumeLeft<E> {
    parts: usize,
    failed: Option<E>,
}

impl<E> VolumeLeft<E> {
    /// Of so many parts, at least one.
    pub fn new(parts: usize) -> VolumeLeft<E> {
        VolumeLeft { parts, failed: None }
    }

    /// A part has ended: with the last, the answer of all. The first failure counts.
    pub fn end(&mut self, answer: Result<(), E>) -> Option<Result<(), E>> {
        self.parts -= 1;
        if let Err(error) = answer {
            self.failed.get_or_insert(error);
        }
        (self.parts == 0).then(|| self.failed.take().map_or(Ok(()), Err))
    }
}
