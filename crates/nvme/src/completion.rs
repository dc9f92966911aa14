//! Completion queue entries.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::open_enum::dword;
use crate::status::Status;

/// A completion queue entry, 16 bytes: Base 2.0 figure 90.
///
/// The phase bit is in the second quadword, with everything but the result: load that one first, then the rest.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Cqe {
    /// Dword 0: the result, specific to the command.
    pub dw0: u32,
    /// Dword 1: specific to the command.
    pub dw1: u32,
    /// Dword 2 bits 15:0, Submission Queue Head: the controller has fetched every entry before it.
    pub sqhd: u16,
    /// Dword 2 bits 31:16, Submission Queue Identifier.
    pub sqid: u16,
    /// Dword 3 bits 15:0, Command Identifier.
    pub cid: u16,
    /// Dword 3 bits 31:16, phase bit and status.
    pub status: StatusField,
}

const _: () = assert!(size_of::<Cqe>() == 16);
const _: () = assert!(offset_of!(Cqe, sqhd) == 8);
const _: () = assert!(offset_of!(Cqe, cid) == 12);
const _: () = assert!(offset_of!(Cqe, status) == 14);

dword! {
    /// Bits 31:16 of completion dword 3.
    pub struct StatusField: u16 {
        /// 0 (16 of the dword), Phase Tag.
        pub phase: bool,
        /// 8:1 (24:17), Status Code.
        pub sc: u8,
        /// 11:9 (27:25), Status Code Type.
        #[bits(3)]
        pub sct: u8,
        /// 13:12 (29:28), Command Retry Delay: 0 at once, else CRDT1 to CRDT3.
        #[bits(2)]
        pub crd: u8,
        /// 14 (30), More: the Error Information log has more.
        pub m: bool,
        /// 15 (31), Do Not Retry.
        pub dnr: bool,
    }
}

impl StatusField {
    /// The field that carries `status` and `phase`.
    pub const fn from_status(status: Status, phase: bool) -> Self {
        Self::from_bits(status.into_bits() << 1 | phase as u16)
    }

    /// The status without the phase bit.
    pub const fn status(&self) -> Status {
        Status::from_bits(self.into_bits() >> 1)
    }
}

impl Cqe {
    /// All zeros, as a completion queue is before its first use.
    pub const fn zeroed() -> Self {
        Self { dw0: 0, dw1: 0, sqhd: 0, sqid: 0, cid: 0, status: StatusField::new() }
    }

    /// The completion of command `cid` of submission queue `sqid`, with a zero result.
    pub const fn new(sqid: u16, sqhd: u16, cid: u16, status: Status, phase: bool) -> Self {
        Self { dw0: 0, dw1: 0, sqhd, sqid, cid, status: StatusField::from_status(status, phase) }
    }

    /// The same completion with `dw0` as its result.
    pub const fn with_dw0(mut self, dw0: u32) -> Self {
        self.dw0 = dw0;
        self
    }

    /// The same completion with another phase bit.
    pub const fn with_phase(mut self, phase: bool) -> Self {
        self.status.set_phase(phase);
        self
    }

    /// The phase bit.
    pub const fn phase(&self) -> bool {
        self.status.phase()
    }

    /// The status without the phase bit.
    pub const fn status(&self) -> Status {
        self.status.status()
    }

    /// The first quadword: DW0, and DW1 << 32.
    pub const fn lo(&self) -> u64 {
        self.dw0 as u64 | (self.dw1 as u64) << 32
    }

    /// The second quadword: DW2, and DW3 << 32; the phase is [`PHASE_BIT`].
    pub const fn hi(&self) -> u64 {
        self.sqhd as u64
            | (self.sqid as u64) << 16
            | (self.cid as u64) << 32
            | (self.status.into_bits() as u64) << 48
    }

    /// The entry made of two quadwords.
    pub const fn from_qwords(lo: u64, hi: u64) -> Self {
        Self {
            dw0: lo as u32,
            dw1: (lo >> 32) as u32,
            sqhd: hi as u16,
            sqid: (hi >> 16) as u16,
            cid: (hi >> 32) as u16,
            status: StatusField::from_bits((hi >> 48) as u16),
        }
    }
}

/// The phase bit as a mask on [`Cqe::hi`].
pub const PHASE_BIT: u64 = 1 << 48;
