//! Submission queue entries: the common layout, and one builder per command.
//!
//! A builder fills the opcode, the namespace and the command dwords, all by value, and leaves the command
//! identifier and (but for queue creation) the data pointer at zero:
//!
//! ```
//! use warpbell_nvme::command::{self, Sqe};
//! let sqe: Sqe = command::read(1, 0x1000, 7).with_prp(0x2000_0000, 0).with_cid(42);
//! assert_eq!((sqe.slba(), sqe.blocks()), (0x1000, 8));
//! ```

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::data::SglDescriptor;
use crate::open_enum::{dword, open_enum};

pub mod admin;
pub mod event;
pub mod maintenance;
pub mod nvm;
pub mod queue;

pub use admin::*;
pub use event::*;
pub use maintenance::*;
pub use nvm::*;
pub use queue::*;

/// A submission queue entry, 64 bytes: the common format of Base 2.0 figure 87.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct Sqe {
    /// Command Dword 0.
    pub cdw0: Cdw0,
    /// Namespace Identifier; 0 where unused, FFFFFFFFh for all.
    pub nsid: u32,
    /// Command Dword 2.
    pub cdw2: u32,
    /// Command Dword 3.
    pub cdw3: u32,
    /// Metadata Pointer.
    pub mptr: u64,
    /// Data Pointer: PRP1 and PRP2, or one SGL descriptor, as PSDT says.
    pub dptr: [u64; 2],
    /// Command Dword 10.
    pub cdw10: u32,
    /// Command Dword 11.
    pub cdw11: u32,
    /// Command Dword 12.
    pub cdw12: u32,
    /// Command Dword 13.
    pub cdw13: u32,
    /// Command Dword 14.
    pub cdw14: u32,
    /// Command Dword 15.
    pub cdw15: u32,
}

const _: () = assert!(size_of::<Sqe>() == 64);
const _: () = assert!(offset_of!(Sqe, nsid) == 4);
const _: () = assert!(offset_of!(Sqe, mptr) == 16);
const _: () = assert!(offset_of!(Sqe, dptr) == 24);
const _: () = assert!(offset_of!(Sqe, cdw10) == 40);
const _: () = assert!(offset_of!(Sqe, cdw15) == 60);

/// The namespace identifier that means every namespace.
pub const NSID_ALL: u32 = u32::MAX;

dword! {
    /// Command Dword 0.
    pub struct Cdw0: u32 {
        /// 7:0, Opcode.
        pub opc: u8,
        /// 9:8, Fused Operation.
        #[bits(2)]
        pub fuse: Fuse,
        #[bits(4)]
        __: u8,
        /// 15:14, PRP or SGL for Data Transfer.
        #[bits(2)]
        pub psdt: Psdt,
        /// 31:16, Command Identifier, unique among the outstanding commands of its queue; avoid FFFFh.
        pub cid: u16,
    }
}

open_enum! {
    /// Values of [`Cdw0::fuse`].
    pub enum Fuse: u8 {
        NORMAL = 0b00, "Normal operation";
        FIRST = 0b01, "Fused operation, first command";
        SECOND = 0b10, "Fused operation, second command";
    }
}

open_enum! {
    /// Values of [`Cdw0::psdt`].
    pub enum Psdt: u8 {
        PRP = 0b00, "PRPs";
        SGL_CONTIGUOUS_METADATA = 0b01, "SGL, metadata in one contiguous buffer";
        SGL_SGL_METADATA = 0b10, "SGL, metadata through an SGL segment";
    }
}

impl Sqe {
    /// All zeros.
    pub const fn zeroed() -> Self {
        Self {
            cdw0: Cdw0::new(),
            nsid: 0,
            cdw2: 0,
            cdw3: 0,
            mptr: 0,
            dptr: [0; 2],
            cdw10: 0,
            cdw11: 0,
            cdw12: 0,
            cdw13: 0,
            cdw14: 0,
            cdw15: 0,
        }
    }

    /// A command with opcode `opc` for namespace `nsid`, the rest zero.
    pub const fn new(opc: u8, nsid: u32) -> Self {
        let mut sqe = Self::zeroed();
        sqe.cdw0 = Cdw0::new().with_opc(opc);
        sqe.nsid = nsid;
        sqe
    }

    /// The opcode; which set it belongs to depends on the queue.
    pub const fn opcode(&self) -> u8 {
        self.cdw0.opc()
    }

    /// The command identifier.
    pub const fn cid(&self) -> u16 {
        self.cdw0.cid()
    }

    /// The same command with another identifier.
    pub const fn with_cid(mut self, cid: u16) -> Self {
        self.cdw0.set_cid(cid);
        self
    }

    /// The first PRP entry, as the data pointer reads when PSDT is [`Psdt::PRP`].
    pub const fn prp1(&self) -> u64 {
        self.dptr[0]
    }

    /// The second PRP entry: zero, the second page, or the address of a PRP list.
    pub const fn prp2(&self) -> u64 {
        self.dptr[1]
    }

    /// Points the command at data through PRPs and sets PSDT accordingly.
    pub const fn set_prp(&mut self, prp1: u64, prp2: u64) {
        self.cdw0.set_psdt(Psdt::PRP);
        self.dptr = [prp1, prp2];
    }

    /// [`set_prp`](Self::set_prp) by value.
    pub const fn with_prp(mut self, prp1: u64, prp2: u64) -> Self {
        self.set_prp(prp1, prp2);
        self
    }

    /// The data pointer read as an SGL descriptor, as it is when PSDT is not [`Psdt::PRP`].
    pub const fn sgl(&self) -> SglDescriptor {
        SglDescriptor::from_qwords(self.dptr)
    }

    /// Points the command at data through one SGL descriptor and sets PSDT accordingly.
    pub const fn set_sgl(&mut self, descriptor: SglDescriptor) {
        self.cdw0.set_psdt(Psdt::SGL_CONTIGUOUS_METADATA);
        self.dptr = descriptor.into_qwords();
    }

    /// [`set_sgl`](Self::set_sgl) by value.
    pub const fn with_sgl(mut self, descriptor: SglDescriptor) -> Self {
        self.set_sgl(descriptor);
        self
    }
}
