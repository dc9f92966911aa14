//! Dataset Management.

use warpbell_nvme::Status;
use warpbell_nvme::command::{DsmCdw10, DsmCdw11, DsmRange};
use zerocopy::IntoBytes;

use super::write_failed;
use crate::engine::{Command, Engine, Refused, never};
use crate::transfer::Direction;

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
        let attributes = DsmCdw11::from_bits(sqe.cdw11);
        let index = sqe.nsid.wrapping_sub(1) as usize;
        let writable = self.namespace(sqe.nsid)?.writable;
        let mut ranges = vec![DsmRange::default(); DsmCdw10::from_bits(sqe.cdw10).ranges() as usize];
        self.map_data(command, ranges.as_bytes().len(), Direction::FromClient)?;
        self.receive(0, ranges.as_mut_bytes())?;
        self.judge()?;
        let namespace = &self.namespaces[index];
        if ranges.iter().any(|range| range.nlb > 0 && !namespace.contains(range.slba, range.nlb.into())) {
            return Err(never(Status::LBA_OUT_OF_RANGE));
        }
        if !attributes.ad() {
            return Ok(());
        }
        if !writable {
            return Err(never(Status::NAMESPACE_WRITE_PROTECTED));
        }
        for range in ranges.iter().filter(|range| range.nlb > 0) {
            // The unaligned tail stays as it is: to deallocate is a request, not an order.
            let tail = u64::from(namespace.protected(range.slba, range.nlb.into()));
            let bytes = (u64::from(range.nlb) - tail) << namespace.shift;
            let offset = namespace.offset(range.slba);
            namespace.zero(offset, bytes).map_err(write_failed)?;
            if self.is_durable_at_once(sqe, false) {
                namespace.make_durable(offset, bytes).map_err(write_failed)?;
            }
        }
        Ok(())
    }
}
