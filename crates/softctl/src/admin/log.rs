//! Get Log Page (Base 2.0, 5.16).

use std::collections::VecDeque;

use parking_lot::Mutex;
use warpbell_nvme::command::NSID_ALL;
use warpbell_nvme::completion::StatusField;
use warpbell_nvme::identify::Csi;
use warpbell_nvme::log::{
    ChangedNamespaceList, CommandEffects, CommandsSupportedAndEffects, ErrorLogEntry, GetLogPageCdw10,
    GetLogPageCdw11, GetLogPageCdw12, GetLogPageCdw13, GetLogPageCdw14, LogPageId, ParameterErrorLocation,
    log_page_bytes, log_page_offset,
};
use warpbell_nvme::{AdminOpcode, Status};
use zerocopy::IntoBytes;

use crate::control::Control;
use crate::core::Core;
use crate::engine::{Command, Engine, Refused, field, never};
use crate::transfer::Direction;

/// Entries of the Error Information page.
pub(crate) const ERROR_ENTRIES: usize = 64;
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
        let mut entry = ErrorLogEntry::default();
        entry.sqid = command.sqid;
        entry.cid = command.sqe.cid();
        entry.status = StatusField::from_status(status, false);
        entry.parameter_error_location = ParameterErrorLocation::from_bits(engine.location.get());
        entry.command_specific = engine.specific.get();
        entry.lba = if command.sqid == 0 { 0 } else { command.sqe.slba() };
        entry.nsid = command.sqe.nsid;
        self.push(entry);
    }

    /// Notes an error of the controller that no command is to blame for.
    #[cold]
    pub(crate) fn note_internal(&self, status: Status) {
        let mut entry = ErrorLogEntry::default();
        (entry.sqid, entry.cid) = (u16::MAX, u16::MAX);
        entry.status = StatusField::from_status(status, false);
        entry.parameter_error_location = ParameterErrorLocation::from_bits(field::NONE);
        self.push(entry);
    }

    fn push(&self, mut entry: ErrorLogEntry) {
        let mut inner = self.inner.lock();
        inner.count += 1;
        entry.error_count = inner.count;
        if inner.entries.len() == ERROR_ENTRIES {
            inner.entries.pop_front();
        }
        inner.entries.push_back(entry);
    }

    pub(super) fn count(&self) -> u64 {
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
        let reserved = [("LSP", u32::from(fields.lsp())), ("LSI", sqe.cdw11 >> 16)];
        control.engine.check_reserved(command, &reserved);
        let page = control.engine.about(field::CDW10, || self.log_page(control, fields.lid(), sqe.nsid))?;
        let last = GetLogPageCdw14::from_bits(sqe.cdw14);
        if last.ot() || fields.lid() == LogPageId::COMMAND_EFFECTS && last.csi() != Csi::NVM {
            return Err(control.engine.blame(field::CDW14, Status::INVALID_FIELD));
        }
        if !offset.is_multiple_of(4) || offset > page.len() as u64 {
            return Err(control.engine.blame(field::CDW12, Status::INVALID_FIELD));
        }
        control.engine.map_limited(command, bytes, Direction::ToClient)?;
        let rest = &page[offset as usize..];
        let sent = rest.len().min(bytes as usize);
        control.engine.send(0, &rest[..sent])?;
        // Behind the end of a page there are zeros, as many as the client has memory for.
        let zeros = [0; 4096];
        for at in (sent..bytes as usize).step_by(zeros.len()) {
            control.engine.send(at, &zeros[..zeros.len().min(bytes as usize - at)])?;
        }
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
            LogPageId::FIRMWARE_SLOT => Ok(self.subsystem.state().firmware.log().as_bytes().to_vec()),
            LogPageId::CHANGED_NAMESPACE_LIST => Ok(self.changed_namespaces().as_bytes().to_vec()),
            LogPageId::SANITIZE_STATUS => {
                let written = self.subsystem.written();
                Ok(self.subsystem.state().sanitize.log(written).as_bytes().to_vec())
            }
            LogPageId::COMMAND_EFFECTS => Ok(self.effects().as_bytes().to_vec()),
            _ => Err(never(Status::INVALID_LOG_PAGE)),
        }
    }
}

fn supported_pages() -> Vec<u8> {
    let mut page = vec![0; 1024];
    for id in PAGES {
        page[usize::from(id.0) * 4] = 1;
    }
    page
}

impl Core {
    fn effects(&self) -> CommandsSupportedAndEffects {
        let mut log = CommandsSupportedAndEffects::zeroed();
        for (opcode, effects) in super::SUPPORTED {
            log.acs[usize::from(opcode.0)] = effects.with_csupp(true);
        }
        let dbbuf = CommandEffects::new().with_csupp(self.offers_doorbell_buffer());
        log.acs[usize::from(AdminOpcode::DBBUF_CONFIG.0)] = dbbuf;
        let has = |opcode| !self.config.optional.lacks(opcode);
        for (opcode, changes) in crate::nvm::SUPPORTED.iter().filter(|(opcode, _)| has(*opcode)) {
            log.iocs[usize::from(opcode.0)] = CommandEffects::new().with_csupp(true).with_lbcc(*changes);
        }
        log
    }
}
