//! Dataset Management.

use warpbell_nvme::Status;
use warpbell_nvme::command::{DsmCdw10, DsmCdw11, DsmRange};
use zerocopy::{FromBytes, IntoBytes};

use super::{Extent, write_failed};
use crate::copying::Kind;
use crate::engine::{Command, Engine, Refused, never};
use crate::transfer::Direction;
use warpbell_hw::Lba;

impl Engine {
    /// Deallocates if asked to; the other attributes are hints that change nothing here.
    pub(super) fn dataset_management(&mut self, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let reserved = [("dword 2", sqe.cdw2), ("dword 3", sqe.cdw3), ("dword 12", sqe.cdw12)];
        self.check_reserved(command, &reserved);
        self.check_reserved(
            command,
            &[("dword 10 bits 31:8", sqe.cdw10 >> 8), ("dword 11 bits 31:3", sqe.cdw11 >> 3)],
        );
        self.namespace(sqe.nsid)?;
        let mut ranges = vec![DsmRange::default(); DsmCdw10::from_bits(sqe.cdw10).ranges() as usize];
        self.check_range_count(command, ranges.len())?;
        let len = ranges.as_bytes().len();
        self.map_data(command, len, Direction::FromClient)?;
        if self.has_remote_data(Direction::FromClient) {
            self.judge()?;
            return self.begin_job(Kind::Ranges, Extent::of_ranges(sqe.nsid, len as u64));
        }
        self.receive(0, ranges.as_mut_bytes())?;
        self.judge()?;
        self.deallocate(command, ranges.as_bytes())
    }

    /// Deallocates the ranges that a command has brought, if it asks for that.
    pub(crate) fn deallocate(&mut self, command: Command<'_>, ranges: &[u8]) -> Result<(), Refused> {
        let sqe = command.sqe;
        let attributes = DsmCdw11::from_bits(sqe.cdw11);
        let namespace = self.namespace(sqe.nsid)?;
        let (ranges, _) =
            <[DsmRange]>::ref_from_prefix_with_elems(ranges, ranges.len() / size_of::<DsmRange>())
                .map_err(|_| Status::INTERNAL_ERROR)?;
        self.check_ranges(command, ranges)?;
        if ranges.iter().any(|range| range.nlb > 0 && !namespace.contains(Lba(range.slba), range.nlb.into()))
        {
            return Err(never(Status::LBA_OUT_OF_RANGE));
        }
        if !attributes.ad() {
            return Ok(());
        }
        if !namespace.writable {
            return Err(never(Status::NAMESPACE_WRITE_PROTECTED));
        }
        let mut deallocated = 0;
        for range in ranges.iter().filter(|range| range.nlb > 0) {
            // The unaligned tail stays as it is: to deallocate is a request, not an order. So do blocks that are being
            // copied.
            let tail = u64::from(namespace.protected(Lba(range.slba), range.nlb.into()));
            let bytes = (u64::from(range.nlb) - tail) << namespace.shift;
            let offset = namespace.offset(Lba(range.slba));
            let Some(_off) = self.keep_engines_off(namespace, offset, bytes, true) else { continue };
            namespace.zero(offset, bytes).map_err(write_failed)?;
            deallocated += u64::from(range.nlb) - tail;
            if self.is_durable_at_once(sqe, false) {
                namespace.make_durable(offset, bytes).map_err(write_failed)?;
            }
        }
        self.statistics.blocks_deallocated += deallocated;
        Ok(())
    }
}
