//! What can go wrong between a driver and its controller.

use std::sync::Arc;
use std::time::Duration;

use warpbell_base::Time;
use warpbell_hw::{
    AccessError, Cid, DmaError, DoorbellError, InterruptError, Iova, Nsid, PciId, Qid, ResetError,
};
use warpbell_nvme::opcode::AdminOpcode;
use warpbell_nvme::status::Status;

use crate::{ControllerState, NotOffered};

/// An error of the driver. Its text begins with the device's name and has the cause, so `source()` is `None`.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum DriverError {
    /// A register read as all ones: the function does not answer any more.
    #[error("{device}: register {register} reads as all ones: the device is gone")]
    Gone {
        /// The device's name.
        device: Arc<str>,
        /// The register that was read.
        register: &'static str,
    },
    /// CSTS.CFS is set.
    #[error("{device}: controller fatal status (CSTS {csts:#x}) while {doing}")]
    Fatal {
        /// The device's name.
        device: Arc<str>,
        /// What the driver was doing.
        doing: &'static str,
        /// The controller status register.
        csts: u32,
    },
    /// CSTS.RDY fell by itself: the controller was reset by someone else, or by itself, and has lost its queues.
    #[error(
        "{device}: not ready any more (CSTS {csts:#x}) while {doing}: it was reset, and its queues are lost"
    )]
    NotReady {
        /// The device's name.
        device: Arc<str>,
        /// What the driver was doing.
        doing: &'static str,
        /// The controller status register.
        csts: u32,
    },
    /// The controller did not change its state in time.
    #[error("{device}: {waiting_for} took longer than {} (CSTS {csts:#x})", Time(*limit))]
    StateTimeout {
        /// The device's name.
        device: Arc<str>,
        /// The change that did not come.
        waiting_for: &'static str,
        /// How long it was waited for.
        limit: Duration,
        /// The controller status register.
        csts: u32,
    },
    /// The controller's state does not allow it.
    #[error("{device}: cannot {doing}: the controller is {state}")]
    State {
        /// The device's name.
        device: Arc<str>,
        /// What was attempted.
        doing: &'static str,
        /// The state it is in.
        state: ControllerState,
    },
    /// The controller lacks something that this driver needs.
    #[error("{device}: {what} is {value}, this driver needs {need}")]
    Unsupported {
        /// The device's name.
        device: Arc<str>,
        /// The capability.
        what: &'static str,
        /// What the controller has.
        value: u64,
        /// What it would have to be.
        need: &'static str,
    },
    /// The options ask for something that the controller does not offer.
    #[error(transparent)]
    NotOffered(#[from] NotOffered),
    /// A command completed with an error.
    #[error("{device}: {command} (CDW10 {cdw10:#x}, NSID {:#x}) failed: {status}", nsid.get())]
    Command {
        /// The device's name.
        device: Arc<str>,
        /// The command.
        command: AdminOpcode,
        /// Its command dword 10.
        cdw10: u32,
        /// Its namespace.
        nsid: Nsid,
        /// How it completed.
        status: Status,
    },
    /// A command did not complete in time. Its identifier and buffer stay reserved until it does.
    #[error("{device}: {command} ({cid}) did not complete within {}", Time(*limit))]
    CommandTimeout {
        /// The device's name.
        device: Arc<str>,
        /// The command.
        command: AdminOpcode,
        /// Its identifier.
        cid: Cid,
        /// How long it was waited for.
        limit: Duration,
    },
    /// The controller was reset while the command was outstanding.
    #[error("{device}: {command} was lost: the controller was reset meanwhile")]
    CommandLost {
        /// The device's name.
        device: Arc<str>,
        /// The command.
        command: AdminOpcode,
    },
    /// Every slot of the admin queue is taken.
    #[error("{device}: {command} found the admin queue full: {outstanding} commands outstanding for {}",
        Time(*limit))]
    AdminQueueFull {
        /// The device's name.
        device: Arc<str>,
        /// The command.
        command: AdminOpcode,
        /// Commands outstanding.
        outstanding: usize,
        /// How long a slot was waited for.
        limit: Duration,
    },
    /// As many Abort commands are outstanding as the controller takes.
    #[error(
        "{device}: {outstanding} Aborts outstanding for {}, as many as this controller takes (ACL + 1): none of \
         them was answered", Time(*limit)
    )]
    AbortLimit {
        /// The device's name.
        device: Arc<str>,
        /// Aborts outstanding, timed out ones included.
        outstanding: u32,
        /// How long one of them was waited for.
        limit: Duration,
    },
    /// The time for something of several steps is over before its next step.
    #[error("{device}: {doing} took longer than {}", Time(*limit))]
    OutOfTime {
        /// The device's name.
        device: Arc<str>,
        /// What was being done.
        doing: &'static str,
        /// How long it might take.
        limit: Duration,
    },
    /// A power state that the controller does not have.
    #[error(
        "{device}: power state {state} with workload hint {workload}: it has {count} states, and hints go to 7"
    )]
    PowerState {
        /// The device's name.
        device: Arc<str>,
        /// The state asked for.
        state: u8,
        /// The workload hint.
        workload: u8,
        /// How many states there are.
        count: usize,
    },
    /// A function level reset failed.
    #[error("{device}: its function cannot be reset: {cause}")]
    FunctionReset {
        /// The device's name.
        device: Arc<str>,
        /// Why not.
        cause: ResetError,
    },
    /// More data than one command moves.
    #[error("{device}: {command} with {len} bytes of data: at most {limit}")]
    DataLength {
        /// The device's name.
        device: Arc<str>,
        /// The command.
        command: AdminOpcode,
        /// Bytes asked for.
        len: usize,
        /// The most bytes of one command.
        limit: usize,
    },
    /// A log page length that Get Log Page cannot express.
    #[error("{device}: {len} bytes of a log page: must be a multiple of 4 from 4 to {limit}")]
    LogLength {
        /// The device's name.
        device: Arc<str>,
        /// Bytes asked for.
        len: usize,
        /// The most bytes that this controller returns of a page.
        limit: usize,
    },
    /// A firmware image that is not whole dwords.
    #[error("{device}: a firmware image of {len} bytes: must be a multiple of 4 and not 0")]
    FirmwareLength {
        /// The device's name.
        device: Arc<str>,
        /// Bytes given.
        len: usize,
    },
    /// Fewer I/O queues than the user needs.
    #[error("{device}: {asked} I/O queue pairs asked for, {granted} granted, at least {needed} needed")]
    TooFewQueues {
        /// The device's name.
        device: Arc<str>,
        /// Pairs asked for.
        asked: u16,
        /// Pairs granted.
        granted: u32,
        /// Pairs needed.
        needed: u16,
    },
    /// A number of I/O queues that cannot be asked for.
    #[error("{device}: {asked} I/O queue pairs: must be from 1 to {limit}")]
    QueueCount {
        /// The device's name.
        device: Arc<str>,
        /// Pairs asked for.
        asked: u16,
        /// The most that can be asked for.
        limit: u16,
    },
    /// A queue size that the controller or the protocol does not allow.
    #[error("{device}: queue of {entries} entries: must be a power of two from 2 to {limit}")]
    QueueEntries {
        /// The device's name.
        device: Arc<str>,
        /// Entries asked for.
        entries: u32,
        /// The largest queue of this controller, in entries.
        limit: u32,
    },
    /// The doorbells of so many queues do not fit the pages of Doorbell Buffer Config.
    #[error(
        "{device}: a doorbell buffer for {queues} I/O queues at stride {stride} needs {need} bytes in a page of \
         {page}: ask for at most {most} queues"
    )]
    DoorbellBuffer {
        /// The device's name.
        device: Arc<str>,
        /// I/O queue pairs granted.
        queues: u32,
        /// CAP.DSTRD.
        stride: u8,
        /// Bytes that their entries take.
        need: u64,
        /// Bytes of a page.
        page: usize,
        /// I/O queue pairs that fit.
        most: u64,
    },
    /// A completion ring was to lie in the controller memory buffer.
    #[error(
        "{device}: a completion ring cannot lie in the controller memory buffer, which takes submission rings only: \
         put it in host memory"
    )]
    RingPlacement {
        /// The device's name.
        device: Arc<str>,
    },
    /// A submission ring does not fit the controller memory buffer.
    #[error(
        "{device}: a submission ring of {need} bytes does not fit the controller memory buffer: {used} of {size} \
         bytes are in use"
    )]
    ControllerMemory {
        /// The device's name.
        device: Arc<str>,
        /// Bytes of the ring.
        need: usize,
        /// Bytes in use.
        used: usize,
        /// Bytes of the buffer.
        size: usize,
    },
    /// No queue identifier is free.
    #[error("{device}: no free queue: {in_use} in use and {lost} lost of {granted} granted")]
    NoFreeQueue {
        /// The device's name.
        device: Arc<str>,
        /// Pairs the driver may use.
        granted: u16,
        /// Pairs in use.
        in_use: usize,
        /// Pairs whose deletion failed; a controller reset brings them back.
        lost: usize,
    },
    /// Ring memory that the controller cannot use.
    #[error(
        "{device}: {ring} ring memory of {len} bytes at {iova}: needs {need} bytes aligned to {alignment}"
    )]
    RingMemory {
        /// The device's name.
        device: Arc<str>,
        /// Which ring.
        ring: &'static str,
        /// Where it lies.
        iova: Iova,
        /// How long it is, in bytes.
        len: usize,
        /// How long it must be, in bytes.
        need: usize,
        /// How it must be aligned, in bytes.
        alignment: usize,
    },
    /// A ring that the host does not reach as it has to.
    #[error("{device}: {what}: {cause}")]
    Ring {
        /// The device's name.
        device: Arc<str>,
        /// Which ring, and what was attempted.
        what: String,
        /// Why not.
        cause: AccessError,
    },
    /// An interrupt vector that the function does not have.
    #[error("{device}: interrupt vector {vector}: the function has {count}")]
    Vector {
        /// The device's name.
        device: Arc<str>,
        /// The vector asked for.
        vector: u16,
        /// How many there are.
        count: u16,
    },
    /// Waiting by interrupt was asked for, and cannot be.
    #[error("{device}: cannot wait for interrupts: {reason}")]
    NoInterrupts {
        /// The device's name.
        device: Arc<str>,
        /// Why not.
        reason: String,
    },
    /// An interrupt vector could not be set up.
    #[error("{device}: no interrupts: {cause}")]
    Interrupt {
        /// The device's name.
        device: Arc<str>,
        /// Why not.
        cause: InterruptError,
    },
    /// A queue priority without weighted round robin.
    #[error("{device}: queue priority {priority}: needs weighted round robin arbitration, which is off")]
    Priority {
        /// The device's name.
        device: Arc<str>,
        /// The priority asked for.
        priority: warpbell_nvme::command::QueuePriority,
    },
    /// A queue pair could not be created.
    #[error("{device}: cannot create the {half} of {qid} with {entries} entries: {cause}")]
    CreateQueue {
        /// The device's name.
        device: Arc<str>,
        /// Which half.
        half: &'static str,
        /// Its identifier.
        qid: Qid,
        /// Its size.
        entries: u32,
        /// Why not.
        cause: Box<DriverError>,
    },
    /// A command on a queue that the controller has forgotten.
    #[error(
        "{device}: {qid} is gone, with its commands: the controller was reset, or the queue deleted; make it again"
    )]
    QueueRetired {
        /// The device's name.
        device: Arc<str>,
        /// The queue.
        qid: Qid,
    },
    /// A queue pair could not be deleted. Its memory stays mapped until another try succeeds or the controller is reset.
    #[error(
        "{device}: cannot delete the {half} of {qid}; its memory is kept until the controller is reset: {cause}"
    )]
    DeleteQueue {
        /// The device's name.
        device: Arc<str>,
        /// Which half.
        half: &'static str,
        /// Its identifier.
        qid: Qid,
        /// Why not.
        cause: Box<DriverError>,
    },
    /// A queue pair of another controller.
    #[error("{device}: {qid} belongs to {owner}")]
    ForeignQueue {
        /// The device's name.
        device: Arc<str>,
        /// The queue.
        qid: Qid,
        /// The device that it belongs to.
        owner: Arc<str>,
    },
    /// An operation on a queue that needs it idle.
    #[error("{device}: {qid}: {doing} needs an idle queue, {outstanding} commands are outstanding")]
    QueueBusy {
        /// The device's name.
        device: Arc<str>,
        /// The queue.
        qid: Qid,
        /// What was attempted.
        doing: &'static str,
        /// Commands outstanding, timed out ones included.
        outstanding: u32,
    },
    /// A queue whose rings do not stand at a known index.
    #[error("{device}: {qid} was not left idle: nothing can be submitted, it can only be deleted")]
    QueueIndex {
        /// The device's name.
        device: Arc<str>,
        /// The queue.
        qid: Qid,
    },
    /// An I/O command did not complete in time.
    #[error("{device}: {qid}: {cid} did not complete within {}", Time(*limit))]
    IoTimeout {
        /// The device's name.
        device: Arc<str>,
        /// The queue.
        qid: Qid,
        /// The command.
        cid: Cid,
        /// How long it was waited for.
        limit: Duration,
    },
    /// Memory lies where the controller cannot reach it.
    #[error("{device}: {what} ends at {end:#x}: this controller has addresses of {bits} bits")]
    Address {
        /// The device's name.
        device: Arc<str>,
        /// What lies there.
        what: &'static str,
        /// The first address behind it.
        end: u64,
        /// Bits of an address.
        bits: u32,
    },
    /// A controller that this driver cannot use.
    #[error("{device}: PCI function {id} cannot be used: {reason}")]
    Unusable {
        /// The device's name.
        device: Arc<str>,
        /// Vendor and device ID.
        id: PciId,
        /// Why not.
        reason: &'static str,
    },
    /// Memory could not be had or mapped.
    #[error("{device}: no DMA memory for {what}: {cause}")]
    Dma {
        /// The device's name.
        device: Arc<str>,
        /// What it was for.
        what: &'static str,
        /// Why not.
        cause: DmaError,
    },
    /// A doorbell cannot be reached.
    #[error("{device}: no doorbell: {cause}")]
    Doorbell {
        /// The device's name.
        device: Arc<str>,
        /// Why not.
        cause: DoorbellError,
    },
    /// A reset from outside failed after the controller got stuck.
    #[error("{device}: stuck ({stuck}), and its function cannot be reset: {cause}")]
    Reset {
        /// The device's name.
        device: Arc<str>,
        /// How it was stuck.
        stuck: Box<DriverError>,
        /// Why there was no reset.
        cause: ResetError,
    },
}

impl DriverError {
    /// The error that this one is about: that of a queue's command, where a queue could not be made or deleted.
    pub fn innermost(&self) -> &DriverError {
        let (Self::CreateQueue { cause, .. } | Self::DeleteQueue { cause, .. }) = self else { return self };
        cause.innermost()
    }

    /// The NVMe status, if a command completed with an error, however deep in the chain.
    pub fn status(&self) -> Option<Status> {
        if let Self::Command { status, .. } = self.innermost() { Some(*status) } else { None }
    }
}
