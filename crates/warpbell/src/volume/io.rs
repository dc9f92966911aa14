//! Reads and writes of a volume by the host, over a queue of each SSD. There is no thread: whoever polls drives them.

mod lane;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::Lba;

use super::{Volume, VolumeBuffer, VolumePiece};
use crate::{Error, Ssd};
use lane::{Ended, Lane, Op, Part};

warpbell_hw::options! {
    /// How the host drives its queues of a volume.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct VolumeIoSpec {
        /// Commands in flight on each SSD.
        pub depth: u32,
        /// The longest that one command may take.
        pub deadline: Duration,
    }
}

impl Default for VolumeIoSpec {
    /// 32 commands on each SSD, 30 s for one.
    fn default() -> VolumeIoSpec {
        VolumeIoSpec { depth: 32, deadline: Duration::from_secs(30) }
    }
}

/// Names a request until its end was told.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VolumeRequest(u64);

impl VolumeRequest {
    /// Its number: 1 is the first of its [`VolumeIo`].
    pub fn get(self) -> u64 {
        self.0
    }
}

/// What is left of a request.
struct Left {
    parts: usize,
    failed: Option<Error>,
}

/// I/O of a volume by the host: requests in flight at once, split where their blocks go on at another SSD.
///
/// A part that one replica fails is read from the next, unless the SSD has not answered: it may still write to the buffer.
/// A write goes to each replica, and fails where one fails: until the same blocks are written again, replicas differ.
/// After a command without an answer, or a reset, the SSD's queue is given up with what is on it, and made anew.
pub struct VolumeIo {
    /// As the volume counts its SSDs.
    lanes: Vec<Lane>,
    requests: HashMap<u64, Left>,
    ended: VecDeque<(VolumeRequest, Result<(), Error>)>,
    made: u64,
    /// Blocks of the volume that each SSD moves by one command.
    piece_blocks: u64,
    writes: bool,
    volume: Arc<Volume>,
}

impl VolumeIo {
    /// Queues that read. They are made when there is something to do.
    pub fn new(volume: &Arc<Volume>, spec: &VolumeIoSpec) -> Result<VolumeIo, Error> {
        if spec.depth == 0 {
            let limit = "must be at least 1".to_owned();
            return Err(Error::Argument { object: "depth", value: "0".to_owned(), limit });
        }
        let lanes: Vec<Lane> =
            volume.members.iter().map(|member| Lane::new(member, spec)).collect::<Result<_, _>>()?;
        let piece_blocks = lanes.iter().map(|lane| lane.piece_blocks).min().unwrap_or(1);
        let (requests, ended) = (HashMap::new(), VecDeque::new());
        Ok(VolumeIo { lanes, requests, ended, made: 0, piece_blocks, writes: false, volume: volume.clone() })
    }

    /// With writes: `ssds` are those of the volume, each of which must permit them.
    pub fn allow_write(mut self, ssds: &[&Ssd]) -> Result<VolumeIo, Error> {
        for lane in &mut self.lanes {
            let Some(ssd) = ssds.iter().find(|ssd| lane.is_of(ssd)) else {
                let limit = "must be among those that writes are allowed for".to_owned();
                return Err(Error::Argument {
                    object: "SSD of the volume",
                    value: lane.name().to_owned(),
                    limit,
                });
            };
            lane.allow_write(ssd)?;
        }
        self.writes = true;
        Ok(self)
    }

    /// Begins to read `blocks` blocks from `first` on into the buffer, from byte `at` on, a multiple of 4.
    pub fn read(
        &mut self,
        buffer: &Arc<VolumeBuffer>,
        at: u64,
        first: Lba,
        blocks: u64,
    ) -> Result<VolumeRequest, Error> {
        let pieces = self.pieces(buffer, at, first, blocks)?;
        let part = |piece: VolumePiece| (Op::Read, at + piece.at, piece.places.into(), Some(buffer.clone()));
        Ok(self.begin(pieces.into_iter().map(part).collect()))
    }

    /// Begins to write as many blocks from the buffer to each replica.
    pub fn write(
        &mut self,
        buffer: &Arc<VolumeBuffer>,
        at: u64,
        first: Lba,
        blocks: u64,
    ) -> Result<VolumeRequest, Error> {
        if !self.writes {
            return Err(Error::Refused {
                object: "a volume".to_owned(),
                reason: "its I/O was made for reads".to_owned(),
                remedy: "allow writes, which each of its SSDs must permit".to_owned(),
            });
        }
        let mut parts = Vec::new();
        for piece in self.pieces(buffer, at, first, blocks)? {
            for place in piece.places {
                self.lanes[place.member].check_tail(&place)?;
                parts.push((Op::Write, at + piece.at, [place].into(), Some(buffer.clone())));
            }
        }
        Ok(self.begin(parts))
    }

    /// Begins to make durable what was written before, on each SSD, but for replicas that were dropped.
    pub fn flush(&mut self) -> Result<VolumeRequest, Error> {
        let place = |member| [super::VolumePlace { member, lba: Lba(0), blocks: 0 }].into();
        let members = self.volume.present()?;
        Ok(self.begin(members.into_iter().map(|member| (Op::Flush, 0, place(member), None)).collect()))
    }

    /// Deletes the queues. Requests that have not ended are gone with them; the first failure counts.
    pub fn close(mut self) -> Result<(), Error> {
        let closed: Vec<_> = self.lanes.iter_mut().map(Lane::close).collect();
        closed.into_iter().collect()
    }

    /// Drives the queues once: a request that has ended, if there is one. Each is told once; the first failure counts.
    pub fn poll(&mut self) -> Option<(VolumeRequest, Result<(), Error>)> {
        let mut told = Vec::new();
        self.lanes.iter_mut().for_each(|lane| lane.pass(&mut told));
        for ended in told {
            match ended {
                Ended::Part { request, answer } => self.end_part(request, answer),
                // Another replica's turn.
                Ended::Again(part) => self.lanes[part.member()].take(part),
            }
        }
        self.ended.pop_front()
    }

    /// Drives the queues until this request has ended. Others that end meanwhile are told later.
    pub fn wait(&mut self, request: VolumeRequest) -> Result<(), Error> {
        loop {
            if let Some(told) = self.poll() {
                self.ended.push_front(told);
            }
            if let Some(at) = self.ended.iter().position(|ended| ended.0 == request) {
                return self.ended.remove(at).map_or(Ok(()), |ended| ended.1);
            }
            if !self.requests.contains_key(&request.0) {
                let limit = "is none in flight: was its end told before?".to_owned();
                return Err(Error::Argument { object: "request", value: request.0.to_string(), limit });
            }
            self.lanes.iter_mut().for_each(Lane::pause);
        }
    }

    /// Requests whose end was not told.
    pub fn outstanding(&self) -> usize {
        self.requests.len() + self.ended.len()
    }

    /// The places of what is asked for, in pieces that each SSD moves by one command.
    fn pieces(
        &self,
        buffer: &VolumeBuffer,
        at: u64,
        first: Lba,
        blocks: u64,
    ) -> Result<Vec<VolumePiece>, Error> {
        let refuse = |object, value: String, limit: String| Err(Error::Argument { object, value, limit });
        if blocks == 0 {
            return refuse("blocks", "0".to_owned(), "must be at least 1".to_owned());
        }
        let pieces = self.volume.places(first, blocks)?;
        if !self.volume.has(buffer) {
            let limit = "must be one of the volume's (Volume::buffer)".to_owned();
            return refuse("buffer at", format!("{:#x}", buffer.as_ref().data), limit);
        }
        let (room, bytes) = (buffer.as_ref().bytes, blocks << self.volume.shape.block_shift);
        if !at.is_multiple_of(4) || at.checked_add(bytes).is_none_or(|end| end > room) {
            let limit =
                format!("must be a multiple of 4, and {bytes} bytes of the buffer's {room} must follow");
            return refuse("at", at.to_string(), limit);
        }
        let (most, shift) = (self.piece_blocks, self.volume.shape.block_shift);
        Ok(pieces.iter().flat_map(|piece| self.cut(piece, most, shift)).collect())
    }

    fn cut(&self, piece: &VolumePiece, most: u64, shift: u32) -> Vec<VolumePiece> {
        let unit = |member: usize| self.volume.members[member].reference.unit_shift;
        let blocks = piece.places.first().map_or(0, |place| place.blocks >> unit(place.member));
        let steps = (0..blocks).step_by(most as usize);
        let part = |begin: u64| VolumePiece {
            at: piece.at + (begin << shift),
            places: piece
                .places
                .iter()
                .map(|place| super::VolumePlace {
                    lba: Lba(place.lba.get() + (begin << unit(place.member))),
                    blocks: most.min(blocks - begin) << unit(place.member),
                    ..*place
                })
                .collect(),
        };
        steps.map(part).collect()
    }

    fn begin(&mut self, parts: Vec<lane::Asked>) -> VolumeRequest {
        self.made += 1;
        let request = self.made;
        self.requests.insert(request, Left { parts: parts.len(), failed: None });
        for asked in parts {
            let part = Part::new(request, asked);
            self.lanes[part.member()].take(part);
        }
        self.lanes.iter_mut().for_each(Lane::push);
        VolumeRequest(request)
    }

    fn end_part(&mut self, request: u64, answer: Result<(), Error>) {
        let Some(left) = self.requests.get_mut(&request) else { return };
        left.parts -= 1;
        if let Err(error) = answer {
            left.failed.get_or_insert(error);
        }
        if left.parts == 0 {
            let failed = self.requests.remove(&request).and_then(|left| left.failed);
            self.ended.push_back((VolumeRequest(request), failed.map_or(Ok(()), Err)));
        }
    }
}

impl std::fmt::Debug for VolumeIo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("VolumeIo").field("outstanding", &self.outstanding()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
