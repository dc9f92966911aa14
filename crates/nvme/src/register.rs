//! Controller registers (Base 2.0 section 3.1.3, 3.1.4) and where the doorbells are.
//!
//! Fields stand in the manual's order, least significant bit first. Registers are read and written only with
//! naturally aligned 32-bit accesses, or 64-bit ones where the register is that wide.

use crate::open_enum::{dword, open_enum};

mod cmb;
pub mod offset;
mod pmr;

pub use cmb::{BufferSize, CmbLoc, CmbMsc, CmbSts, CmbSz, ElasticityBufferSize, SustainedWriteThroughput};
pub use pmr::{PmrCap, PmrCtl, PmrMscl, PmrSts};

/// What to write to NSSR for an NVM Subsystem Reset: "NVMe" in ASCII, big end first.
pub const NSSR_MAGIC: u32 = 0x4e56_4d65;

/// What to write to NSSD for a normal NVM Subsystem Shutdown: "Nrml".
pub const NSSD_NORMAL: u32 = 0x4e72_6d6c;

/// What to write to NSSD for an abrupt NVM Subsystem Shutdown: "Abpt".
pub const NSSD_ABRUPT: u32 = 0x4162_7074;

/// What a 32-bit read returns once the function no longer answers.
pub const GONE: u32 = u32::MAX;

/// The unit of CAP.TO, CRTO.CRWMT and CRTO.CRIMT, in milliseconds.
pub const TIMEOUT_UNIT_MS: u32 = 500;

dword! {
    /// Controller Capabilities (CAP, offset 0h, read only).
    pub struct Cap: u64 {
        /// 15:0, Maximum Queue Entries Supported, zero-based entries; at least 1.
        pub mqes_z: u16,
        /// 16, Contiguous Queues Required.
        pub cqr: bool,
        /// 18:17, Arbitration Mechanism Supported besides round robin: bit 0 weighted with urgent, bit 1 vendor.
        #[bits(2)]
        pub ams: u8,
        #[bits(5)]
        __: u8,
        /// 31:24, Timeout: worst case wait for CSTS.RDY to change, in 500 ms.
        pub to: u8,
        /// 35:32, Doorbell Stride: doorbells are `4 << dstrd` bytes apart.
        #[bits(4)]
        pub dstrd: u8,
        /// 36, NVM Subsystem Reset Supported.
        pub nssrs: bool,
        /// 44:37, Command Sets Supported: bit 0 NVM, bit 6 one or more I/O command sets, bit 7 admin only.
        pub css: u8,
        /// 45, Boot Partition Support.
        pub bps: bool,
        /// 47:46, Controller Power Scope.
        #[bits(2)]
        pub cps: u8,
        /// 51:48, Memory Page Size Minimum, `2^(12 + n)` bytes.
        #[bits(4)]
        pub mpsmin: u8,
        /// 55:52, Memory Page Size Maximum, `2^(12 + n)` bytes.
        #[bits(4)]
        pub mpsmax: u8,
        /// 56, Persistent Memory Region Supported.
        pub pmrs: bool,
        /// 57, Controller Memory Buffer Supported.
        pub cmbs: bool,
        /// 58, NVM Subsystem Shutdown Supported.
        pub nsss: bool,
        /// 59, Controller Ready With Media Support: CRTO.CRWMT is valid.
        pub crwms: bool,
        /// 60, Controller Ready Independent of Media Support: CRTO.CRIMT is valid.
        pub crims: bool,
        #[bits(3)]
        __: u8,
    }
}

impl Cap {
    /// Most entries an I/O queue may have; a queue of `n` entries holds `n - 1` commands.
    pub const fn max_queue_entries(&self) -> u32 {
        self.mqes_z() as u32 + 1
    }

    /// Bytes from one doorbell to the next.
    pub const fn doorbell_stride(&self) -> u32 {
        4 << self.dstrd()
    }

    /// Smallest memory page the controller takes, in bytes.
    pub const fn min_page_size(&self) -> u64 {
        1 << (12 + self.mpsmin())
    }

    /// Largest memory page the controller takes, in bytes.
    pub const fn max_page_size(&self) -> u64 {
        1 << (12 + self.mpsmax())
    }

    /// CAP.TO in milliseconds.
    pub const fn timeout_ms(&self) -> u32 {
        self.to() as u32 * TIMEOUT_UNIT_MS
    }

    /// Whether weighted round robin with urgent priority class is supported (AMS bit 0).
    pub const fn supports_wrr(&self) -> bool {
        self.ams() & 1 != 0
    }

    /// Whether the NVM command set is supported (CSS bit 0).
    pub const fn supports_nvm(&self) -> bool {
        self.css() & 1 != 0
    }

    /// Whether CC.CSS may be [`CommandSet::CSI`] (CSS bit 6).
    pub const fn supports_csi(&self) -> bool {
        self.css() & 1 << 6 != 0
    }

    /// Whether there is no I/O command set at all (CSS bit 7).
    pub const fn admin_only(&self) -> bool {
        self.css() & 1 << 7 != 0
    }
}

dword! {
    /// Version (VS, offset 8h, read only), and the same field in Identify Controller; displays as `2.0.0`.
    pub struct Vs: u32 {
        /// 7:0, Tertiary version.
        pub ter: u8,
        /// 15:8, Minor version.
        pub mnr: u8,
        /// 31:16, Major version.
        pub mjr: u16,
    }
}

impl Vs {
    /// The version `mjr.mnr.ter`.
    pub const fn from_parts(mjr: u16, mnr: u8, ter: u8) -> Self {
        Self::new().with_mjr(mjr).with_mnr(mnr).with_ter(ter)
    }

    /// Whether this version is `mjr.mnr` or later.
    pub const fn at_least(&self, mjr: u16, mnr: u8) -> bool {
        self.into_bits() >= Self::from_parts(mjr, mnr, 0).into_bits()
    }
}

impl core::fmt::Display for Vs {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "{}.{}.{}", self.mjr(), self.mnr(), self.ter())
    }
}

dword! {
    /// Controller Configuration (CC, offset 14h). Change nothing but EN and SHN while EN is set.
    pub struct Cc: u32 {
        /// 0, Enable.
        pub en: bool,
        #[bits(3)]
        __: u8,
        /// 6:4, I/O Command Set Selected.
        #[bits(3)]
        pub css: CommandSet,
        /// 10:7, Memory Page Size, `2^(12 + n)` bytes.
        #[bits(4)]
        pub mps: u8,
        /// 13:11, Arbitration Mechanism Selected.
        #[bits(3)]
        pub ams: ArbitrationMechanism,
        /// 15:14, Shutdown Notification.
        #[bits(2)]
        pub shn: Shn,
        /// 19:16, I/O Submission Queue Entry Size, `2^n` bytes: 6.
        #[bits(4)]
        pub iosqes: u8,
        /// 23:20, I/O Completion Queue Entry Size, `2^n` bytes: 4.
        #[bits(4)]
        pub iocqes: u8,
        /// 24, Controller Ready Independent of Media Enable.
        pub crime: bool,
        #[bits(7)]
        __: u8,
    }
}

impl Cc {
    /// Memory page size in bytes.
    pub const fn page_size(&self) -> u64 {
        1 << (12 + self.mps())
    }
}

dword! {
    /// Controller Status (CSTS, offset 1Ch). All ones means that the function is gone.
    pub struct Csts: u32 {
        /// 0, Ready.
        pub rdy: bool,
        /// 1, Controller Fatal Status.
        pub cfs: bool,
        /// 3:2, Shutdown Status.
        #[bits(2)]
        pub shst: Shst,
        /// 4, NVM Subsystem Reset Occurred; write 1 to clear.
        pub nssro: bool,
        /// 5, Processing Paused.
        pub pp: bool,
        /// 6, Shutdown Type: SHST reports an NVM Subsystem Shutdown.
        pub st: bool,
        #[bits(25)]
        __: u32,
    }
}

impl Csts {
    /// Whether the read came back as all ones, as it does when the function no longer answers.
    pub const fn gone(&self) -> bool {
        self.into_bits() == GONE
    }
}

dword! {
    /// Admin Queue Attributes (AQA, offset 24h).
    pub struct Aqa: u32 {
        /// 11:0, Admin Submission Queue Size, zero-based entries.
        #[bits(12)]
        pub asqs_z: u16,
        #[bits(4)]
        __: u8,
        /// 27:16, Admin Completion Queue Size, zero-based entries.
        #[bits(12)]
        pub acqs_z: u16,
        #[bits(4)]
        __: u8,
    }
}

impl Aqa {
    /// Entries of the Admin Submission Queue, 2 to 4096.
    pub const fn sq_entries(&self) -> u32 {
        self.asqs_z() as u32 + 1
    }

    /// Entries of the Admin Completion Queue, 2 to 4096.
    pub const fn cq_entries(&self) -> u32 {
        self.acqs_z() as u32 + 1
    }
}

dword! {
    /// Controller Ready Timeouts (CRTO, offset 68h, read only).
    pub struct Crto: u32 {
        /// 15:0, Controller Ready With Media Timeout, in 500 ms.
        pub crwmt: u16,
        /// 31:16, Controller Ready Independent of Media Timeout, in 500 ms.
        pub crimt: u16,
    }
}

impl Crto {
    /// CRWMT in milliseconds.
    pub const fn with_media_ms(&self) -> u32 {
        self.crwmt() as u32 * TIMEOUT_UNIT_MS
    }
}

open_enum! {
    /// Values of CC.SHN.
    pub enum Shn: u8 {
        NONE = 0b00, "No notification";
        NORMAL = 0b01, "Normal shutdown";
        ABRUPT = 0b10, "Abrupt shutdown";
    }
}

open_enum! {
    /// Values of CSTS.SHST.
    pub enum Shst: u8 {
        NORMAL_OPERATION = 0b00, "Normal operation";
        OCCURRING = 0b01, "Shutdown occurring";
        COMPLETE = 0b10, "Shutdown complete";
    }
}

open_enum! {
    /// Values of CC.AMS.
    pub enum ArbitrationMechanism: u8 {
        ROUND_ROBIN = 0b000, "Round robin";
        WEIGHTED_ROUND_ROBIN = 0b001, "Weighted round robin with urgent priority class";
        VENDOR_SPECIFIC = 0b111, "Vendor specific";
    }
}

open_enum! {
    /// Values of CC.CSS.
    pub enum CommandSet: u8 {
        NVM = 0b000, "NVM command set";
        CSI = 0b110, "All supported I/O command sets";
        ADMIN_ONLY = 0b111, "Admin command set only";
    }
}

/// Byte offset from the start of BAR0 of the tail doorbell of submission queue `qid`.
///
/// `dstrd` is CAP.DSTRD. With the widest strides the doorbells of high queue identifiers lie beyond 4 GiB; such an
/// offset has no 32-bit form and the result is then `u32::MAX`, which no BAR contains.
///
/// # Panics
///
/// If `dstrd` does not fit its four bits.
pub const fn sq_tail_doorbell(qid: u16, dstrd: u8) -> u32 {
    doorbell(2 * qid as u64, dstrd)
}

/// Byte offset from the start of BAR0 of the head doorbell of completion queue `qid`; see [`sq_tail_doorbell`].
pub const fn cq_head_doorbell(qid: u16, dstrd: u8) -> u32 {
    doorbell(2 * qid as u64 + 1, dstrd)
}

const fn doorbell(index: u64, dstrd: u8) -> u32 {
    assert!(dstrd < 16, "CAP.DSTRD has four bits");
    let at = offset::DOORBELLS as u64 + index * (4 << dstrd);
    if at > u32::MAX as u64 { u32::MAX } else { at as u32 }
}
