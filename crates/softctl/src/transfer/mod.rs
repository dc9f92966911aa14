//! A command's data: PRPs or SGLs become segments of client memory, all checked before the first byte moves.

mod prp;
mod sgl;
#[cfg(test)]
mod tests;

use vm_memory::VolatileSlice;
use warpbell_hw::DmaAccess;
use warpbell_nvme::Status;
use warpbell_nvme::command::Psdt;

use crate::checker::Rule;
use crate::engine::{Command, Engine, Refused, never};
use crate::memory::View;

/// A contiguous piece of client memory, mapped when it was checked; or bytes that the client does not want.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) iova: u64,
    pub(crate) len: usize,
    /// A bit bucket: takes room in the data, and no memory.
    pub(crate) bucket: bool,
}

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    ToClient,
    FromClient,
}

impl Direction {
    pub(crate) fn access(self) -> DmaAccess {
        match self {
            Direction::ToClient => DmaAccess::WRITE,
            Direction::FromClient => DmaAccess::READ,
        }
    }
}

/// Collects the segments of one command.
struct Walk<'a> {
    engine: &'a Engine,
    command: Command<'a>,
    direction: Direction,
    segments: &'a mut Vec<Segment>,
}

impl Walk<'_> {
    fn violation(&self, rule: Rule, what: impl std::fmt::Display) {
        self.engine.violation(rule, self.command, what);
    }

    /// Adds `len` bytes at `iova`, which must be mapped for the direction.
    fn push(&mut self, iova: u64, len: usize) -> Result<(), Refused> {
        let last = self
            .segments
            .last()
            .filter(|last| !last.bucket && last.iova.wrapping_add(last.len as u64) == iova);
        let grown = last.map(|last| Segment { len: last.len + len, ..*last });
        if let Some(grown) = grown.filter(|grown| self.takes_data(grown.iova, grown.len))
            && let Some(last) = self.segments.last_mut()
        {
            *last = grown;
            return Ok(());
        }
        if !self.takes_data(iova, len) {
            return self.push_pieces(iova, len);
        }
        self.segments.push(Segment { iova, len, bucket: false });
        Ok(())
    }

    /// Whether data may lie there, in one mapping. What admin commands move needs a pointer.
    fn takes_data(&self, iova: u64, len: usize) -> bool {
        let (view, access) = (&self.engine.view, self.direction.access());
        view.resolve(iova, len, access).is_some()
            || self.command.sqid != 0 && view.remote(iova, len, access).is_some()
    }

    /// As [`Walk::push`], for bytes that may lie in mappings that are neighbours.
    #[cold]
    fn push_pieces(&mut self, mut iova: u64, mut len: usize) -> Result<(), Refused> {
        let access = self.direction.access();
        while len > 0 {
            let piece = self.engine.view.in_one_mapping(iova, len);
            let piece = piece.filter(|piece| self.takes_data(iova, *piece));
            let piece = piece.ok_or_else(|| self.foreign(iova, len, access))?;
            self.segments.push(Segment { iova, len: piece, bucket: false });
            (iova, len) = (iova.wrapping_add(piece as u64), len - piece);
        }
        Ok(())
    }

    /// Reads a list or segment of descriptors.
    fn fetch(&self, iova: u64, into: &mut [u8]) -> Result<(), Refused> {
        if self.engine.view.read(iova, into) {
            return Ok(());
        }
        Err(self.foreign(iova, into.len(), DmaAccess::READ))
    }

    #[cold]
    fn foreign(&self, iova: u64, len: usize, access: DmaAccess) -> Refused {
        let way = if access.write { "writing" } else { "reading" };
        if let Some(claim) = self.engine.view.claims().overlapping(iova, len as u64) {
            self.violation(
                Rule::DataInQueue,
                format_args!("{len} bytes at {iova:#x} for {way}, where {claim}"),
            );
            return never(Status::DATA_TRANSFER_ERROR);
        }
        if self.engine.view.remote(iova, len, access).is_some() {
            let what = format_args!(
                "{len} bytes at {iova:#x} for {way}, in memory without a CPU pointer: only I/O queues and data of I/O commands may lie there"
            );
            self.violation(Rule::NoPointer, what);
            return never(Status::DATA_TRANSFER_ERROR);
        }
        let why =
            if self.engine.view.was_unmapped(iova) { ": unmapped under a command or before it" } else { "" };
        self.violation(
            Rule::ForeignAddress,
            format_args!("{len} bytes at {iova:#x} are not mapped for {way}{why}"),
        );
        never(Status::DATA_TRANSFER_ERROR)
    }
}

impl Engine {
    /// Finds and checks the command's data of `len` bytes, for [`Engine::send`] or [`Engine::receive`].
    pub(crate) fn map_data(
        &mut self,
        command: Command<'_>,
        len: usize,
        direction: Direction,
    ) -> Result<(), Refused> {
        let mut segments = std::mem::take(&mut self.segments);
        segments.clear();
        let mut walk = Walk { engine: self, command, direction, segments: &mut segments };
        let result = match command.sqe.cdw0.psdt() {
            Psdt::PRP => walk.prp(len),
            _ => walk.sgl(len),
        };
        self.segments = segments;
        result
    }

    /// As [`Engine::map_data`], for a command whose data MDTS limits.
    pub(crate) fn map_limited(
        &mut self,
        command: Command<'_>,
        len: u64,
        direction: Direction,
    ) -> Result<(), Refused> {
        if len > self.limits.bytes {
            let limit = self.limits.bytes;
            self.violation(Rule::TransferSize, command, format_args!("{len} bytes, the limit is {limit}"));
            return Err(never(Status::INVALID_FIELD));
        }
        self.map_data(command, len as usize, direction)
    }

    /// Copies `bytes` to the mapped data from byte `start` of it on.
    pub(crate) fn send(&self, start: usize, bytes: &[u8]) -> Result<(), Refused> {
        each_piece(&self.view, &self.segments, start, bytes.len(), Direction::ToClient, |at, span| {
            span.copy_from(&bytes[at..at + span.len()]);
        })
    }

    /// Copies the mapped data from byte `start` of it on to `bytes`.
    pub(crate) fn receive(&self, start: usize, bytes: &mut [u8]) -> Result<(), Refused> {
        let len = bytes.len();
        each_piece(&self.view, &self.segments, start, len, Direction::FromClient, |at, span| {
            span.copy_to(&mut bytes[at..at + span.len()]);
        })
    }
}

/// Calls `part(offset from start, slice)` for each piece of client memory of `start..start + len` of the data.
pub(crate) fn each_piece<'v>(
    view: &'v View,
    segments: &[Segment],
    start: usize,
    len: usize,
    direction: Direction,
    mut part: impl FnMut(usize, VolatileSlice<'v>),
) -> Result<(), Refused> {
    let (mut skip, mut done) = (start, 0);
    for segment in segments {
        if done == len {
            break;
        }
        if skip >= segment.len {
            skip -= segment.len;
            continue;
        }
        let piece = (segment.len - skip).min(len - done);
        if !segment.bucket {
            // The client may have unmapped it since it was checked, in which case nobody is hurt but its data.
            let span = view.resolve(segment.iova + skip as u64, piece, direction.access());
            part(done, span.ok_or(never(Status::DATA_TRANSFER_ERROR))?);
        }
        done += piece;
        skip = 0;
    }
    Ok(())
}
