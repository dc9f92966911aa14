//! Log pages, read in pieces where they are long.

use std::time::Duration;

use warpbell_hw::Nsid;
use warpbell_nvme::command;
use warpbell_nvme::log::{
    ChangedNamespaceList, CommandsSupportedAndEffects, ErrorLogEntry, FirmwareSlotLog, LogPageId, SmartLog,
};
use zerocopy::{FromBytes, IntoBytes};

use crate::DriverError;
use crate::controller::Controller;
use crate::data::Data;

/// Bytes of one Get Log Page.
const PIECE: usize = 4096;

impl Controller {
    /// The first `bytes` of a log page. Reading it re-arms the asynchronous event that belongs to it.
    pub fn log_page(&self, page: LogPageId, nsid: Nsid, bytes: usize) -> Result<Vec<u8>, DriverError> {
        let mut data = vec![0; bytes];
        self.read_log(page, nsid, &mut data, self.log_limit())?;
        Ok(data)
    }

    /// How long each command may take that reads a log page.
    pub(crate) fn log_limit(&self) -> Duration {
        self.core.options.admin_timeout
    }

    /// Fills `data` from a log page; each command that this takes within `limit`.
    pub(crate) fn read_log(
        &self,
        page: LogPageId,
        nsid: Nsid,
        data: &mut [u8],
        limit: Duration,
    ) -> Result<(), DriverError> {
        // Without extended data there is no offset, so that one piece must do.
        let most = if self.identify.lpa.extended_data() { u32::MAX as usize } else { PIECE };
        let len = data.len();
        if len == 0 || !len.is_multiple_of(4) || len > most {
            return Err(DriverError::LogLength { device: self.name(), len, limit: most & !3 });
        }
        let last = (len - 1) / PIECE;
        for (index, piece) in data.chunks_mut(PIECE).enumerate() {
            let numd_z = (piece.len() / 4 - 1) as u32;
            // The event is retained until the last piece, so that the page does not change meanwhile.
            let retain = index != last;
            let sqe = command::get_log_page(page, nsid.0, numd_z, (index * PIECE) as u64, retain);
            self.core.execute_within(sqe, Data::In(piece), limit)?;
        }
        Ok(())
    }

    pub(crate) fn fixed_log<T: FromBytes + IntoBytes>(
        &self,
        page: LogPageId,
        nsid: Nsid,
        limit: Duration,
    ) -> Result<Box<T>, DriverError> {
        let mut log = Box::new(T::new_zeroed());
        self.read_log(page, nsid, log.as_mut_bytes(), limit)?;
        Ok(log)
    }

    /// The newest entries of the error log, at most `count`, those in use only.
    pub fn error_log(&self, count: u32) -> Result<Vec<ErrorLogEntry>, DriverError> {
        self.error_log_within(count, self.log_limit())
    }

    pub(crate) fn error_log_within(
        &self,
        count: u32,
        limit: Duration,
    ) -> Result<Vec<ErrorLogEntry>, DriverError> {
        let count = count.clamp(1, self.identify.error_log_entries()) as usize;
        let mut entries = vec![ErrorLogEntry::default(); count];
        self.read_log(LogPageId::ERROR_INFORMATION, Nsid::ALL, entries.as_mut_bytes(), limit)?;
        entries.retain(|entry| entry.error_count != 0);
        Ok(entries)
    }

    /// Health of the whole controller.
    pub fn smart_log(&self) -> Result<Box<SmartLog>, DriverError> {
        self.fixed_log(LogPageId::SMART, Nsid::ALL, self.log_limit())
    }

    /// Firmware slots.
    pub fn firmware_log(&self) -> Result<Box<FirmwareSlotLog>, DriverError> {
        self.fixed_log(LogPageId::FIRMWARE_SLOT, Nsid::ALL, self.log_limit())
    }

    /// Which commands there are, and what they change.
    pub fn command_effects(&self) -> Result<Box<CommandsSupportedAndEffects>, DriverError> {
        self.fixed_log(LogPageId::COMMAND_EFFECTS, Nsid(0), self.log_limit())
    }

    /// Namespaces that changed since this page was read last.
    pub fn changed_namespaces(&self) -> Result<Box<ChangedNamespaceList>, DriverError> {
        self.fixed_log(LogPageId::CHANGED_NAMESPACE_LIST, Nsid::ALL, self.log_limit())
    }
}
