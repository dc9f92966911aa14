//! Features whose value is a data buffer.

use core::mem::{offset_of, size_of};

use crate::open_enum::dword;

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

impl HostBehavior {
    /// The structure with these fields.
    pub const fn new(acre: u8, etdas: u8, lbafee: u8) -> Self {
        Self { acre, etdas, lbafee, _rsvd3: [0; 509] }
    }

    /// Whether every reserved byte is zero.
    pub fn reserved_is_zero(&self) -> bool {
        self._rsvd3 == [0; 509]
    }
}

impl Default for HostBehavior {
    fn default() -> Self {
        Self::new(0, 0, 0)
    }
}

dword! {
    /// Autonomous Power State Transition (0Ch): its dword.
    pub struct ApstEnable: u32 {
        /// 0, Autonomous Power State Transition Enable.
        pub apste: bool,
        #[bits(31)]
        __: u32,
    }
}

dword! {
    /// One power state's entry in the data of Autonomous Power State Transition.
    pub struct ApstEntry: u64 {
        #[bits(3)]
        __: u8,
        /// 7:3, Idle Transition Power State: the non-operational state to go to.
        #[bits(5)]
        pub itps: u8,
        /// 31:8, Idle Time Prior to Transition, in milliseconds; 0 disables the transition.
        #[bits(24)]
        pub itpt: u32,
        __: u32,
    }
}

/// The data of Autonomous Power State Transition (0Ch), 256 bytes: one entry for each power state.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct ApstTable(pub [ApstEntry; 32]);

const _: () = assert!(size_of::<ApstTable>() == 256);
