//! Status of a completed command.

use core::fmt;

mod code;
mod retry;
mod text;

pub use retry::Retry;

use crate::open_enum::open_enum;

open_enum! {
    /// Status Code Type: which table the status code is in.
    pub enum StatusCodeType: u8 {
        GENERIC = 0x0, "Generic Command Status";
        COMMAND_SPECIFIC = 0x1, "Command Specific Status";
        MEDIA = 0x2, "Media and Data Integrity Errors";
        PATH = 0x3, "Path Related Status";
        VENDOR_SPECIFIC = 0x7, "Vendor Specific";
    }
}

/// The status of a completion without its phase bit: bits 31:17 of dword 3.
///
/// Bits 7:0 are the Status Code, 10:8 the Status Code Type, 12:11 the Command Retry Delay, 13 More and 14 Do Not
/// Retry. The constants have the code and type only, so compare a received status with
/// [`same_code`](Self::same_code), which ignores the rest.
#[repr(transparent)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct Status(u16);

const _: () = assert!(size_of::<Status>() == 2);

const CODE_MASK: u16 = 0x07ff;
const CRD_SHIFT: u32 = 11;
const MORE: u16 = 1 << 13;
const DNR: u16 = 1 << 14;

impl Status {
    /// Status `sc` of type `sct` (of which three bits count), without More and Do Not Retry.
    pub const fn new(sct: StatusCodeType, sc: u8) -> Self {
        Self(((sct.0 & 7) as u16) << 8 | sc as u16)
    }

    /// Wraps the 15 bits; the sixteenth is dropped.
    pub const fn from_bits(bits: u16) -> Self {
        Self(bits & 0x7fff)
    }

    /// The 15 bits.
    pub const fn into_bits(self) -> u16 {
        self.0
    }

    /// Whether the command succeeded.
    pub const fn is_ok(self) -> bool {
        self.code() == 0
    }

    /// Status Code.
    pub const fn sc(self) -> u8 {
        self.0 as u8
    }

    /// Status Code Type.
    pub const fn sct(self) -> StatusCodeType {
        StatusCodeType((self.0 >> 8) as u8 & 7)
    }

    /// Status Code Type and Status Code: bits 10:0.
    pub const fn code(self) -> u16 {
        self.0 & CODE_MASK
    }

    /// Whether both have the same code and type, whatever their other bits.
    pub const fn same_code(self, other: Self) -> bool {
        self.code() == other.code()
    }

    /// Command Retry Delay: 0 for none, else which of CRDT1 to CRDT3 of Identify Controller to wait.
    pub const fn crd(self) -> u8 {
        (self.0 >> CRD_SHIFT) as u8 & 3
    }

    /// The same status with another Command Retry Delay, of which two bits count.
    pub const fn with_crd(self, crd: u8) -> Self {
        Self(self.0 & !(3 << CRD_SHIFT) | ((crd & 3) as u16) << CRD_SHIFT)
    }

    /// More: the Error Information log page has more about this command.
    pub const fn more(self) -> bool {
        self.0 & MORE != 0
    }

    /// The same status with More set or clear.
    pub const fn with_more(self, more: bool) -> Self {
        if more { Self(self.0 | MORE) } else { Self(self.0 & !MORE) }
    }

    /// Do Not Retry: the same command would fail again.
    pub const fn dnr(self) -> bool {
        self.0 & DNR != 0
    }

    /// The same status with Do Not Retry set or clear.
    pub const fn with_dnr(self, dnr: bool) -> Self {
        if dnr { Self(self.0 | DNR) } else { Self(self.0 & !DNR) }
    }

    /// Whether the command failed but may succeed if submitted again, after the delay that [`crd`](Self::crd) says.
    pub const fn retryable(self) -> bool {
        !self.is_ok() && !self.dnr()
    }
}

/// `LBA Out of Range (SCT 0h, SC 80h, DNR)`.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name().unwrap_or("Unknown Status"))?;
        write!(f, " (SCT {:X}h, SC {:02X}h", self.sct().0, self.sc())?;
        if self.crd() != 0 {
            write!(f, ", CRD {}", self.crd())?;
        }
        if self.more() {
            f.write_str(", M")?;
        }
        if self.dnr() {
            f.write_str(", DNR")?;
        }
        f.write_str(")")
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Status({:#06x}: {self})", self.0)
    }
}
