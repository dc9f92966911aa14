//! Counters: what the controller was asked to do, and what it cost.

use std::time::Duration;

use warpbell_nvme::NvmOpcode;

/// Counters since the device was opened, summed over all pollers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Statistics {
    /// I/O commands completed, by opcode.
    pub io_commands: [u64; 256],
    /// Admin commands completed, by opcode.
    pub admin_commands: [u64; 256],
    /// Bytes sent to the client by Read.
    pub bytes_read: u64,
    /// Bytes that Compare and Verify read.
    pub bytes_checked: u64,
    /// Bytes taken from the client by Write.
    pub bytes_written: u64,
    /// Blocks that Dataset Management has deallocated. Those that are being copied, and a part of the last block of a file,
    /// stay as they are, and are not among them.
    pub blocks_deallocated: u64,
    /// I/O commands completed with a status other than success.
    pub errors: u64,
    /// I/O commands completed with a media error status.
    pub media_errors: u64,
    /// Submission doorbell writes seen. In threaded mode: changes of value seen; repeated or quickly replaced
    /// values are invisible there.
    pub sq_doorbells: u64,
    /// Completion doorbell writes seen, likewise.
    pub cq_doorbells: u64,
    /// New values seen in shadow doorbells (Doorbell Buffer Config), which cost no doorbell write.
    pub shadow_updates: u64,
    /// Batches of copies from and to remote memory that were submitted to its engine.
    pub remote_batches: u64,
    /// Copies in them.
    pub remote_copies: u64,
    /// Bytes of these copies.
    pub remote_bytes: u64,
    /// Bytes of data for or from remote memory that went through staging memory, because the engine has not pinned their
    /// store or there is no pointer to it.
    pub staged_bytes: u64,
    /// Faults injected.
    pub faults: u64,
    /// Client violations.
    pub violations: u64,
    /// Interrupts signalled.
    pub interrupts: u64,
    /// Stepped mode: virtual time in which an I/O command was submitted and not completed. Threaded, the time of the
    /// pollers is what comes closest.
    pub busy: Duration,
    /// CPU time of all poller threads.
    pub poller_cpu: Duration,
}

impl Default for Statistics {
    fn default() -> Self {
        Statistics {
            io_commands: [0; 256],
            admin_commands: [0; 256],
            bytes_read: 0,
            bytes_checked: 0,
            bytes_written: 0,
            blocks_deallocated: 0,
            errors: 0,
            media_errors: 0,
            sq_doorbells: 0,
            cq_doorbells: 0,
            shadow_updates: 0,
            remote_batches: 0,
            remote_copies: 0,
            remote_bytes: 0,
            staged_bytes: 0,
            faults: 0,
            violations: 0,
            interrupts: 0,
            busy: Duration::ZERO,
            poller_cpu: Duration::ZERO,
        }
    }
}

impl Statistics {
    /// I/O commands completed with `opcode`.
    pub fn commands(&self, opcode: NvmOpcode) -> u64 {
        self.io_commands[usize::from(opcode.0)]
    }

    /// I/O commands completed that may have changed contents.
    pub(crate) fn content_changes(&self) -> u64 {
        crate::nvm::SUPPORTED.iter().filter(|(_, changes)| *changes).map(|(op, _)| self.commands(*op)).sum()
    }

    /// All I/O commands completed.
    pub fn total_commands(&self) -> u64 {
        self.io_commands.iter().sum()
    }

    /// Adds another set of counters to this one.
    pub(crate) fn add(&mut self, other: &Statistics) {
        for (sum, more) in self.io_commands.iter_mut().zip(&other.io_commands) {
            *sum += more;
        }
        for (sum, more) in self.admin_commands.iter_mut().zip(&other.admin_commands) {
            *sum += more;
        }
        self.bytes_read += other.bytes_read;
        self.bytes_checked += other.bytes_checked;
        self.bytes_written += other.bytes_written;
        self.blocks_deallocated += other.blocks_deallocated;
        self.errors += other.errors;
        self.media_errors += other.media_errors;
        self.sq_doorbells += other.sq_doorbells;
        self.cq_doorbells += other.cq_doorbells;
        self.shadow_updates += other.shadow_updates;
        self.remote_batches += other.remote_batches;
        self.remote_copies += other.remote_copies;
        self.remote_bytes += other.remote_bytes;
        self.staged_bytes += other.staged_bytes;
        self.faults += other.faults;
        self.violations += other.violations;
        self.interrupts += other.interrupts;
        self.busy += other.busy;
        self.poller_cpu += other.poller_cpu;
    }
}
