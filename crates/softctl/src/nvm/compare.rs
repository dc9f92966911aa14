//! Compare.

use warpbell_nvme::Status;
use warpbell_nvme::command::ReadWrite;

use super::read_failed;
use super::read_write::CHUNK;
use crate::copying::Kind;
use crate::engine::{Command, Engine, Refused};
use crate::transfer::Direction;

impl Engine {
    pub(super) fn compare(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let optional = ReadWrite::new().with_fua(true).with_lr(true).into_bits();
        let extent = self.extent(command, optional)?;
        self.map_limited(command, extent.bytes, Direction::FromClient)?;
        self.judge()?;
        self.statistics.bytes_checked += extent.bytes;
        let Some(_off) = self.kept_off(&extent, Direction::FromClient) else {
            return self.begin_job(Kind::Compare, extent);
        };
        let namespace = &self.namespaces[extent.index];
        let mut stored = vec![0; CHUNK.min(extent.bytes as usize)];
        let mut given = stored.clone();
        let mut done = 0;
        while done < extent.bytes {
            let piece = (extent.bytes - done).min(CHUNK as u64) as usize;
            namespace.read(extent.offset + done, &mut stored[..piece]).map_err(read_failed)?;
            self.receive(done as usize, &mut given[..piece])?;
            if stored[..piece] != given[..piece] {
                return Err(Status::COMPARE_FAILURE);
            }
            done += piece as u64;
        }
        Ok(())
    }
}
