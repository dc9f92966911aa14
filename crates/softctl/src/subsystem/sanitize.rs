//! Sanitize operations (Base 2.0, 8.21): the whole subsystem, in the background, a piece at a time.
//!
//! While one is in progress, and after one failed, controllers serve no I/O command. Each piece takes a little time
//! on the subsystem's clock, and is done by whichever controller's admin side comes by first.

use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_nvme::Status;
use warpbell_nvme::command::{
    AsyncEvent, AsyncEventType, AsyncIoCommandSetInfo, SanitizeAction, SanitizeCdw10,
};
use warpbell_nvme::log::{LogPageId, SanitizeStatus, SanitizeStatusLog};

use super::{State, Subsystem};
use crate::engine::{Refused, never};
use crate::error::SoftError;
use crate::store::{Namespace, StoreError};

/// How long a piece takes.
const PIECE_TIME: Duration = Duration::from_micros(20);
/// Bytes of a piece, at least and at most.
const PIECE: (u64, u64) = (64 << 10, 64 << 20);
/// Pieces of a namespace, if its size allows.
const PIECES: u64 = 64;
/// Estimated seconds of every kind of operation.
const ESTIMATE: u32 = 1;

/// What the last sanitize operation came to.
#[derive(Debug)]
enum Outcome {
    Never,
    Completed,
    InProgress(Operation),
    Failed,
    /// It failed, and the host has left failure mode since.
    Excused,
}

/// The state of sanitizing.
#[derive(Debug)]
pub(crate) struct Sanitize {
    outcome: Outcome,
    /// CDW10 of the last operation.
    command: SanitizeCdw10,
    /// Overwrite passes that it completed.
    passes: u8,
    /// What clients had written when there was no user data; `None` if there has been some ever since.
    clean_at: Option<u64>,
    /// The next operation fails when it is half done.
    fails: bool,
}

/// An operation in progress.
#[derive(Debug)]
struct Operation {
    pieces: Vec<Piece>,
    /// The pass at hand, and what each writes; none writes anything in an erase.
    pass: usize,
    patterns: Vec<Option<u32>>,
    /// Pieces of this pass that are done.
    done: usize,
    due: Duration,
}

/// Bytes of one namespace.
#[derive(Debug)]
struct Piece {
    nsid: u32,
    offset: u64,
    len: u64,
}

impl Sanitize {
    /// `clean` says that no user data exists yet.
    pub(super) fn new(clean: bool) -> Sanitize {
        Sanitize {
            outcome: Outcome::Never,
            command: SanitizeCdw10::new(),
            passes: 0,
            clean_at: clean.then_some(0),
            fails: false,
        }
    }

    /// Why commands are refused now.
    pub(crate) fn refusal(&self) -> Option<Status> {
        match &self.outcome {
            Outcome::InProgress(_) => Some(Status::SANITIZE_IN_PROGRESS),
            Outcome::Failed => Some(Status::SANITIZE_FAILED),
            Outcome::Never | Outcome::Completed | Outcome::Excused => None,
        }
    }

    /// When the next piece is due.
    pub(super) fn due(&self) -> Option<Duration> {
        match &self.outcome {
            Outcome::InProgress(operation) => Some(operation.due),
            _ => None,
        }
    }

    /// Whether a Sanitize command may do what it asks (Base 2.0, 5.24).
    fn admit(&self, command: SanitizeCdw10) -> Result<(), Refused> {
        match &self.outcome {
            Outcome::InProgress(_) => Err(Status::SANITIZE_IN_PROGRESS),
            // After a failure in restricted mode, only another restricted operation helps.
            Outcome::Failed if !self.command.ause() => {
                let again = command.sanact() != SanitizeAction::EXIT_FAILURE_MODE && !command.ause();
                if again { Ok(()) } else { Err(never(Status::SANITIZE_FAILED)) }
            }
            _ => Ok(()),
        }
    }

    /// The log page; `written` is what clients have written so far.
    pub(crate) fn log(&self, written: u64) -> SanitizeStatusLog {
        let mut log = SanitizeStatusLog::zeroed();
        (log.sprog, log.scdw10) = (u16::MAX, self.command.into_bits());
        let outcome = match &self.outcome {
            Outcome::Never => 0,
            Outcome::Completed => 1,
            Outcome::InProgress(operation) => {
                log.sprog = operation.progress();
                2
            }
            Outcome::Failed | Outcome::Excused => 3,
        };
        log.sstat = SanitizeStatus::new()
            .with_outcome(outcome)
            .with_passes(self.passes)
            .with_gde(self.clean_at == Some(written));
        (log.eto, log.etbe, log.etce) = (ESTIMATE, ESTIMATE, ESTIMATE);
        (log.etond, log.etbend, log.etcend) = (ESTIMATE, ESTIMATE, ESTIMATE);
        log
    }
}

impl Operation {
    fn new(pieces: Vec<Piece>, command: SanitizeCdw10, pattern: u32, due: Duration) -> Operation {
        let overwrite = command.sanact() == SanitizeAction::OVERWRITE;
        let passes = match command.owpass() {
            _ if !overwrite => 1,
            0 => 16,
            passes => passes,
        };
        let inverted = |pass: u8| command.oipbp() && pass % 2 == 1;
        let write = |pass| if inverted(pass) { !pattern } else { pattern };
        let patterns = (0..passes).map(|pass| overwrite.then(|| write(pass))).collect();
        Operation { pieces, pass: 0, patterns, done: 0, due }
    }

    fn progress(&self) -> u16 {
        let all = (self.pieces.len() * self.patterns.len()).max(1);
        let done = self.pass * self.pieces.len() + self.done;
        (done * 65535 / all) as u16
    }
}

fn pieces_of(namespace: &Namespace) -> impl Iterator<Item = Piece> {
    let (nsid, bytes) = (namespace.nsid, namespace.stored());
    let len = (bytes / PIECES).clamp(PIECE.0, PIECE.1).next_multiple_of(PIECE.0);
    (0..bytes.div_ceil(len)).map(move |index| {
        let offset = index * len;
        Piece { nsid, offset, len: len.min(bytes - offset) }
    })
}

/// Writes a pattern, whose first byte in memory is its lowest.
fn overwrite(namespace: &Namespace, piece: &Piece, pattern: u32) -> Result<(), StoreError> {
    let block = pattern.to_le_bytes().repeat(16 << 10);
    let mut done = 0;
    while done < piece.len {
        let len = (piece.len - done).min(block.len() as u64);
        namespace.overwrite(piece.offset + done, &block[..len as usize])?;
        done += len;
    }
    Ok(())
}

impl State {
    /// Begins an operation, or leaves failure mode.
    fn begin_sanitize(&mut self, command: SanitizeCdw10, pattern: u32, now: Duration) -> Result<(), Refused> {
        self.sanitize.admit(command)?;
        if command.sanact() == SanitizeAction::EXIT_FAILURE_MODE {
            if matches!(self.sanitize.outcome, Outcome::Failed) {
                self.sanitize.outcome = Outcome::Excused;
            }
            return Ok(());
        }
        if self.firmware.awaits_reset() {
            return Err(never(Status::FIRMWARE_NEEDS_CONTROLLER_RESET));
        }
        if self.namespaces.values().any(|one| !one.namespace.writable) {
            return Err(never(Status::NAMESPACE_WRITE_PROTECTED));
        }
        // What a loss of power would bring back is user data too, and to be forgotten first.
        self.namespaces.values().for_each(|one| one.namespace.forget_durable());
        let pieces = self.namespaces.values().flat_map(|one| pieces_of(&one.namespace)).collect();
        let operation = Operation::new(pieces, command, pattern, now + PIECE_TIME);
        self.sanitize.outcome = Outcome::InProgress(operation);
        (self.sanitize.command, self.sanitize.passes) = (command, 0);
        Ok(())
    }

    /// Does the piece that is due. True once the operation has ended.
    fn sanitize_piece(&mut self, now: Duration, shared: bool) -> bool {
        let Outcome::InProgress(operation) = &mut self.sanitize.outcome else { return true };
        if operation.due > now {
            return false;
        }
        operation.due = now + PIECE_TIME;
        let mut result = Ok(());
        if let Some(piece) = operation.pieces.get(operation.done) {
            operation.done += 1;
            let pattern = operation.patterns[operation.pass];
            if let (Some(pattern), Some(one)) = (pattern, self.namespaces.get(&piece.nsid)) {
                result = overwrite(&one.namespace, piece, pattern);
            }
        }
        let half = operation.done * 2 >= operation.pieces.len();
        let failed = result.is_err() || half && std::mem::take(&mut self.sanitize.fails);
        if let Err(error) = &result {
            tracing::error!(%error, "a sanitize operation failed");
        }
        if failed {
            self.sanitize.outcome = Outcome::Failed;
            return true;
        }
        if operation.done < operation.pieces.len() {
            return false;
        }
        (operation.done, operation.pass) = (0, operation.pass + 1);
        self.sanitize.passes += u8::from(self.sanitize.command.sanact() == SanitizeAction::OVERWRITE);
        if operation.pass < operation.patterns.len() {
            return false;
        }
        self.sanitize.outcome = match self.end_sanitize(shared) {
            Ok(()) => Outcome::Completed,
            Err(error) => {
                tracing::error!(%error, "a sanitize operation failed");
                Outcome::Failed
            }
        };
        true
    }

    /// What was erased, or overwritten and may be deallocated, reads as zero.
    fn end_sanitize(&mut self, shared: bool) -> Result<(), SoftError> {
        let command = self.sanitize.command;
        if command.sanact() == SanitizeAction::OVERWRITE && command.ndas() {
            return self.namespaces.values().try_for_each(|one| one.namespace.flushed());
        }
        self.namespaces.values_mut().try_for_each(|one| {
            one.namespace = one.namespace.erased(shared)?;
            Ok(())
        })
    }

    fn tell_sanitized(&self) {
        let event = AsyncEvent::new()
            .with_event_type(AsyncEventType::IO_COMMAND_SET)
            .with_info(AsyncIoCommandSetInfo::SANITIZE_COMPLETED.0)
            .with_log_page(LogPageId::SANITIZE_STATUS.0);
        self.tell_all(event);
    }
}

impl Subsystem {
    /// Begins a sanitize operation, or leaves failure mode.
    pub(crate) fn sanitize(&self, command: SanitizeCdw10, pattern: u32) -> Result<(), Refused> {
        let now = self.now();
        self.change(|state| state.begin_sanitize(command, pattern, now))?;
        self.busy.store(self.state().sanitize.due().is_some(), Ordering::Release);
        Ok(())
    }

    pub(crate) fn fail_next_sanitize(&self) {
        self.state().sanitize.fails = true;
    }

    /// Whether something goes on in the background.
    #[inline]
    pub(crate) fn is_busy(&self) -> bool {
        self.busy.load(Ordering::Relaxed)
    }

    /// When something is to be done in the background.
    pub(crate) fn due(&self) -> Option<Duration> {
        if !self.is_busy() {
            return None;
        }
        self.state().sanitize.due()
    }

    /// Does what is due in the background, unless another controller is changing something.
    pub(crate) fn work(&self) {
        let now = self.now();
        if self.due().is_none_or(|due| due > now) {
            return;
        }
        let Some(operation) = self.operations.try_lock() else { return };
        let result = self.alter(&operation, |state, written| {
            let ended = state.sanitize_piece(now, self.shared);
            if ended {
                self.busy.store(false, Ordering::Release);
                let good = matches!(state.sanitize.outcome, Outcome::Completed);
                state.sanitize.clean_at = good.then_some(written);
                state.tell_sanitized();
            }
            Ok(())
        });
        debug_assert!(result.is_ok(), "the change refuses nothing");
    }
}
