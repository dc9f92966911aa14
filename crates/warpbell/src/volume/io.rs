//! Reads and writes of a volume by the host, over a queue of each SSD. There is no thread: whoever polls drives them.

mod lane;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::Lba;

use super::{Volume, VolumeBuffer, VolumeLeft, VolumePart, VolumePiece};
use crate::{Error, IoOp, Ssd};
use lane::{Ended, Lane, Used};

warpbell_base::options! {
    /// How the host drives its queues of a volume.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct VolumeIoSpec {
        /// Commands in flight on each SSD.
        pub depth: u32,
        /// The longest that one command may take.
        pub timeout: Duration,
    }
}

impl Default for VolumeIoSpec {
    /// 32 commands on each SSD, 30 s for one.
    fn default() -> VolumeIoSpec {
        VolumeIoSpec { depth: 32, timeout: Duration::from_secs(30) }
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

/// I/O of a volume by the host: requests in flight at once, split where their blocks go on at another SSD.
///
/// A part that one replica fails is read from the next, unless the SSD has not answered: it may still write to the buffer.
/// A write goes to each replica, and fails where one fails: until the same blocks are written again, replicas differ.
/// After a command without an answer, or a reset, the SSD's queue is given up with what is on it, and made anew.
pub struct VolumeIo {
    /// As the volume counts its SSDs.
    lanes: Vec<Lane>,
    requests: HashMap<u64, VolumeLeft<Error>>,
    ended: VecDeque<(VolumeRequest, Result<(), Error>)>,
    made: u64,
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
        let (requests, ended) = (HashMap::new(), VecDeque::new());
        Ok(VolumeIo { lanes, requests, ended, made: 0, writes: false, volume: volume.clone() })
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
        let parts = VolumePart::of(IoOp::Read, self.pieces(buffer, at, first, blocks)?);
        Ok(self.begin(parts, at, Some(buffer)))
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
        let parts = VolumePart::of(IoOp::Write, self.pieces(buffer, at, first, blocks)?);
        for part in &parts {
            self.lanes[part.place().member].check_tail(&part.place())?;
        }
        Ok(self.begin(parts, at, Some(buffer)))
    }

    /// Begins to make durable what was written before, on each SSD, but for replicas that were dropped.
    pub fn flush(&mut self) -> Result<VolumeRequest, Error> {
        let parts = VolumePart::flushes(self.volume.present()?);
        Ok(self.begin(parts, 0, None))
    }

    /// Deletes the queues. Requests that have not ended are gone with them; the first failure counts.
    pub fn close(self) -> Result<(), Error> {
        let closed: Vec<_> = self.lanes.into_iter().map(Lane::close).collect();
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
                Ended::Again { request, part, buffer } => {
                    self.lanes[part.place().member].take(request, part, buffer);
                }
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

    /// The places of what is asked for.
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
        Ok(pieces)
    }

    fn begin(
        &mut self,
        parts: Vec<VolumePart<Error>>,
        at: u64,
        buffer: Option<&Arc<VolumeBuffer>>,
    ) -> VolumeRequest {
        self.made += 1;
        let request = self.made;
        self.requests.insert(request, VolumeLeft::new(parts.len()));
        for part in parts {
            let used: Used = buffer.cloned();
            self.lanes[part.place().member].take(request, part.behind(at), used);
        }
        self.lanes.iter_mut().for_each(Lane::push);
        VolumeRequest(request)
    }

    fn end_part(&mut self, request: u64, answer: Result<(), Error>) {
        let Some(left) = self.requests.get_mut(&request) else { return };
        if let Some(answer) = left.end(answer) {
            self.requests.remove(&request);
            self.ended.push_back((VolumeRequest(request), answer));
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
