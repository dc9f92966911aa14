//! Get Log Page (Base 2.0, 5.16).

use std::collections::VecDeque;

use parking_lot::Mutex;
use warpbell_nvme::command::NSID_ALL;
use warpbell_nvme::completion::StatusField;
use warpbell_nvme::identify::pad_ascii;
use warpbell_nvme::log::{
    ChangedNamespaceList, CommandEffects, CommandsSupportedAndEffects, CriticalWarning, ErrorLogEntry,
    FirmwareSlotInfo, FirmwareSlotLog, GetLogPageCdw10, GetLogPageCdw11, GetLogPageCdw12, GetLogPageCdw13,
    GetLogPageCdw14, LogPageId, ParameterErrorLocation, SmartLog, log_page_bytes, log_page_offset,
};
use warpbell_nvme::{NvmOpcode, Status};
use zerocopy::IntoBytes;

use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Engine, Refused, never};
use crate::transfer::Direction;

/// Entries of the Error Information page.
pub(crate) const ERROR_ENTRIES: usize = 64;
/// The temperature that is reported: 30 degrees Celsius, in kelvin.
const TEMPERATURE: u16 = 303;
const PAGES: &[LogPageId] = &[
    LogPageId::SUPPORTED_LOG_PAGES,
    LogPageId::ERROR_INFORMATION,
    LogPageId::SMART,
    LogPageId::FIRMWARE_SLOT,
    LogPageId::CHANGED_NAMESPACE_LIST,
    LogPageId::COMMAND_EFFECTS,
    LogPageId::SANITIZE_STATUS,
];

/// The commands that failed, newest last. All threads add to it.
#[derive(Debug, Default)]
pub(crate) struct ErrorLog {
    inner: Mutex<Entries>,
}

#[derive(Debug, Default)]
struct Entries {
    count: u64,
    entries: VecDeque<ErrorLogEntry>,
}

impl ErrorLog {
    /// Notes a command that failed.
    #[cold]
    pub(crate) fn note(&self, command: Command<'_>, status: Status, engine: &Engine) {
        let mut inner = self.inner.lock();
        inner.count += 1;
        let mut entry = ErrorLogEntry::default();
        entry.error_count = inner.count;
        entry.sqid = command.sqid;
        entry.cid = command.sqe.cid();
        entry.status = StatusField::from_status(status, false);
        entry.parameter_error_location = ParameterErrorLocation::from_bits(engine.location.get());
        entry.command_specific = engine.specific.get();
        entry.lba = if command.sqid == 0 { 0 } else { command.sqe.slba() };
        entry.nsid = command.sqe.nsid;
        if inner.entries.len() == ERROR_ENTRIES {
            inner.entries.pop_front();
        }
        inner.entries.push_back(entry);
    }

    fn count(&self) -> u64 {
        self.inner.lock().count
    }

    fn page(&self) -> Vec<u8> {
        let inner = self.inner.lock();
        let mut entries = [ErrorLogEntry::default(); ERROR_ENTRIES];
        entries.iter_mut().zip(inner.entries.iter().rev()).for_each(|(slot, entry)| *slot = *entry);
        entries.as_bytes().to_vec()
    }
}

impl Core {
    pub(super) fn get_log_page(&self, control: &mut Control, command: Command<'_>) -> Result<(), Refused> {
        let sqe = command.sqe;
        let fields = GetLogPageCdw10::from_bits(sqe.cdw10);
        control.engine.check_reserved(command, &[("dword 15", sqe.cdw15)]);
        let bytes = log_page_bytes(fields, GetLogPageCdw11::from_bits(sqe.cdw11));
        let offset =
            log_page_offset(GetLogPageCdw12::from_bits(sqe.cdw12), GetLogPageCdw13::from_bits(sqe.cdw13));
        let page = self.log_page(control, fields.lid(), sqe.nsid)?;
        let indexed = GetLogPageCdw14::from_bits(sqe.cdw14).ot();
        if indexed || !offset.is_multiple_of(4) || offset > page.len() as u64 {
            return Err(never(Status::INVALID_FIELD));
        }
        control.engine.map_limited(command, bytes, Direction::ToClient)?;
        let rest = &page[offset as usize..];
        let sent = rest.len().min(bytes as usize);
        control.engine.send(0, &rest[..sent])?;
        // Behind the end of a page there are zeros.
        control.engine.send(sent, &vec![0; bytes as usize - sent])?;
        if !fields.rae() {
            control.events.rearm(fields.lid());
            if fields.lid() == LogPageId::CHANGED_NAMESPACE_LIST {
                self.subsystem.state().forget_changed(self.cntlid);
            }
        }
        Ok(())
    }

    /// The namespaces that other controllers' clients changed; there are never more than the list can name.
    fn changed_namespaces(&self) -> ChangedNamespaceList {
        let mut list = ChangedNamespaceList::zeroed();
        let state = self.subsystem.state();
        list.nsids.iter_mut().zip(state.changed(self.cntlid)).for_each(|(slot, nsid)| *slot = nsid);
        list
    }

    fn log_page(&self, control: &Control, page: LogPageId, nsid: u32) -> Result<Vec<u8>, Refused> {
        match page {
            LogPageId::SUPPORTED_LOG_PAGES => Ok(supported_pages()),
            LogPageId::ERROR_INFORMATION => Ok(self.errors.page()),
            LogPageId::SMART if nsid == 0 || nsid == NSID_ALL => Ok(self.smart(control).as_bytes().to_vec()),
            // LPA bit 0 is clear: no page per namespace.
            LogPageId::SMART => Err(never(Status::INVALID_FIELD)),
            LogPageId::FIRMWARE_SLOT => {
                let mut log = FirmwareSlotLog::zeroed();
                log.afi = FirmwareSlotInfo::new().with_active(1);
                log.frs[0] = pad_ascii(&self.config.firmware);
                Ok(log.as_bytes().to_vec())
            }
            LogPageId::CHANGED_NAMESPACE_LIST => Ok(self.changed_namespaces().as_bytes().to_vec()),
            LogPageId::SANITIZE_STATUS => {
                let written = self.subsystem.written();
                Ok(self.subsystem.state().sanitize.log(written).as_bytes().to_vec())
            }
            LogPageId::COMMAND_EFFECTS => Ok(effects().as_bytes().to_vec()),
            _ => Err(never(Status::INVALID_LOG_PAGE)),
        }
    }

    fn smart(&self, control: &Control) -> SmartLog {
        let counters = self.statistics(control);
        let commands = |opcodes: &[NvmOpcode]| {
            u128::from(opcodes.iter().map(|opcode| counters.commands(*opcode)).sum::<u64>()).into()
        };
        let units = |bytes: u64| u128::from(bytes.div_ceil(512_000)).into();
        let mut log = SmartLog::zeroed();
        log.critical_warning = CriticalWarning::new();
        log.composite_temperature = TEMPERATURE.into();
        log.available_spare = 100;
        log.available_spare_threshold = 10;
        log.data_units_read = units(counters.bytes_read);
        log.data_units_written = units(counters.bytes_written);
        log.host_reads = commands(&[NvmOpcode::READ, NvmOpcode::COMPARE, NvmOpcode::VERIFY]);
        log.host_writes = commands(&[NvmOpcode::WRITE]);
        log.busy_minutes = u128::from(counters.poller_cpu.as_secs() / 60).into();
        log.power_cycles = 1.into();
        log.media_errors = u128::from(counters.media_errors).into();
        log.error_log_entries = u128::from(self.errors.count()).into();
        log.temperature_sensors[0] = TEMPERATURE;
        log
    }
}

fn supported_pages() -> Vec<u8> {
    let mut page = vec![0; 1024];
    for id in PAGES {
        page[usize::from(id.0) * 4] = 1;
    }
    page
}

fn effects() -> CommandsSupportedAndEffects {
    let mut log = CommandsSupportedAndEffects::zeroed();
    for (opcode, effects) in super::SUPPORTED {
        log.acs[usize::from(opcode.0)] = effects.with_csupp(true);
    }
    for (opcode, changes) in crate::nvm::SUPPORTED {
        log.iocs[usize::from(opcode.0)] = CommandEffects::new().with_csupp(true).with_lbcc(*changes);
    }
    log
}
