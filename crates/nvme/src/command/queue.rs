//! Commands about queues: create, delete, abort, doorbell buffers.

use super::{Sqe, dword, open_enum};
use crate::opcode::AdminOpcode;

dword! {
    /// CDW10 of Create I/O Submission Queue and Create I/O Completion Queue.
    pub struct QueueIdSize: u32 {
        /// 15:0, Queue Identifier, 1 or more.
        pub qid: u16,
        /// 31:16, Queue Size, zero-based entries; at least 1 and at most CAP.MQES.
        pub qsize_z: u16,
    }
}

impl QueueIdSize {
    /// Entries of the queue, one more than it can hold.
    pub const fn entries(&self) -> u32 {
        self.qsize_z() as u32 + 1
    }
}

dword! {
    /// CDW11 of Create I/O Completion Queue.
    pub struct CreateIoCqCdw11: u32 {
        /// 0, Physically Contiguous.
        pub pc: bool,
        /// 1, Interrupts Enabled.
        pub ien: bool,
        #[bits(14)]
        __: u16,
        /// 31:16, Interrupt Vector.
        pub iv: u16,
    }
}

dword! {
    /// CDW11 of Create I/O Submission Queue.
    pub struct CreateIoSqCdw11: u32 {
        /// 0, Physically Contiguous.
        pub pc: bool,
        /// 2:1, Queue Priority; zero unless weighted round robin is selected.
        #[bits(2)]
        pub qprio: QueuePriority,
        #[bits(13)]
        __: u16,
        /// 31:16, Completion Queue Identifier, of a queue that exists.
        pub cqid: u16,
    }
}

open_enum! {
    /// Values of [`CreateIoSqCdw11::qprio`].
    pub enum QueuePriority: u8 {
        URGENT = 0b00, "Urgent";
        HIGH = 0b01, "High";
        MEDIUM = 0b10, "Medium";
        LOW = 0b11, "Low";
    }
}

dword! {
    /// CDW10 of Delete I/O Submission Queue and Delete I/O Completion Queue.
    pub struct DeleteQueueCdw10: u32 {
        /// 15:0, Queue Identifier.
        pub qid: u16,
        __: u16,
    }
}

dword! {
    /// CDW10 of Abort.
    pub struct AbortCdw10: u32 {
        /// 15:0, Submission Queue Identifier of the command to abort.
        pub sqid: u16,
        /// 31:16, Command Identifier of the command to abort.
        pub cid: u16,
    }
}

dword! {
    /// Completion DW0 of Abort.
    pub struct AbortResult: u32 {
        /// 0, set when the command was not aborted.
        pub not_aborted: bool,
        #[bits(31)]
        __: u32,
    }
}

/// Create I/O Completion Queue at `base`, physically contiguous; `vector` enables interrupts.
pub const fn create_io_cq(qid: u16, qsize_z: u16, base: u64, vector: Option<u16>) -> Sqe {
    let cdw11 = match vector {
        Some(iv) => CreateIoCqCdw11::new().with_ien(true).with_iv(iv),
        None => CreateIoCqCdw11::new(),
    };
    let mut sqe = Sqe::new(AdminOpcode::CREATE_IO_CQ.0, 0).with_prp(base, 0);
    sqe.cdw10 = QueueIdSize::new().with_qid(qid).with_qsize_z(qsize_z).into_bits();
    sqe.cdw11 = cdw11.with_pc(true).into_bits();
    sqe
}

/// Create I/O Submission Queue at `base`, physically contiguous, completing into `cqid`.
pub const fn create_io_sq(qid: u16, qsize_z: u16, base: u64, cqid: u16, qprio: QueuePriority) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::CREATE_IO_SQ.0, 0).with_prp(base, 0);
    sqe.cdw10 = QueueIdSize::new().with_qid(qid).with_qsize_z(qsize_z).into_bits();
    sqe.cdw11 = CreateIoSqCdw11::new().with_pc(true).with_qprio(qprio).with_cqid(cqid).into_bits();
    sqe
}

/// Delete I/O Submission Queue. Its memory stays in use until this command completes.
pub const fn delete_io_sq(qid: u16) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::DELETE_IO_SQ.0, 0);
    sqe.cdw10 = DeleteQueueCdw10::new().with_qid(qid).into_bits();
    sqe
}

/// Delete I/O Completion Queue, after every submission queue that completes into it.
pub const fn delete_io_cq(qid: u16) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::DELETE_IO_CQ.0, 0);
    sqe.cdw10 = DeleteQueueCdw10::new().with_qid(qid).into_bits();
    sqe
}

/// Abort command `cid` of submission queue `sqid`, best effort; [`AbortResult`] tells what came of it.
pub const fn abort(sqid: u16, cid: u16) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::ABORT.0, 0);
    sqe.cdw10 = AbortCdw10::new().with_sqid(sqid).with_cid(cid).into_bits();
    sqe
}

/// Asynchronous Event Request; it completes with an [`AsyncEvent`](super::AsyncEvent) in DW0, or never.
pub const fn async_event_request() -> Sqe {
    Sqe::new(AdminOpcode::ASYNC_EVENT_REQUEST.0, 0)
}

/// Doorbell Buffer Config: one page of shadow doorbells and one of event indices, both page aligned.
pub const fn dbbuf_config(shadow_doorbells: u64, event_indices: u64) -> Sqe {
    Sqe::new(AdminOpcode::DBBUF_CONFIG.0, 0).with_prp(shadow_doorbells, event_indices)
}

/// Keep Alive.
pub const fn keep_alive() -> Sqe {
    Sqe::new(AdminOpcode::KEEP_ALIVE.0, 0)
}
