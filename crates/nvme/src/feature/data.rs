//! Features whose value is a data buffer.

use core::mem::{offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Host Behavior Support (16h), 512 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct HostBehavior {
    /// Advanced Command Retry Enable: 1 lets the controller fill in the retry delay of a status.
    pub acre: u8,
    /// Extended Telemetry Data Area 4 Supported.
    pub etdas: u8,
    /// LBA Format Extension Enable: 1 makes formats 16 to 63 usable.
    pub lbafee: u8,
    _rsvd3: [u8; 509],
}

const _: () = assert!(size_of::<HostBehavior>() == 512);
const _: () = assert!(offset_of!(HostBehavior, lbafee) == 2);

impl Default for HostBehavior {
    fn default() -> Self {
        Self { acre: 0, etdas: 0, lbafee: 0, _rsvd3: [0; 509] }
    }
}
