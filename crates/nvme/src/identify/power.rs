//! Power states (Base 2.0, 5.17.2.1, figure 276).

use core::mem::{offset_of, size_of};
use core::time::Duration;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::open_enum::dword;

/// A power state, 32 bytes.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
pub struct PowerStateDescriptor {
    /// Maximum Power, in the unit that [`flags`](Self::flags) says.
    pub mp: u16,
    _rsvd2: u8,
    /// Max Power Scale and Non-Operational State.
    pub flags: PowerStateFlags,
    /// Entry Latency, in microseconds.
    pub enlat: u32,
    /// Exit Latency, in microseconds.
    pub exlat: u32,
    /// Relative Read Throughput, bits 4:0; lower is better.
    pub rrt: u8,
    /// Relative Read Latency, bits 4:0; lower is better.
    pub rrl: u8,
    /// Relative Write Throughput, bits 4:0; lower is better.
    pub rwt: u8,
    /// Relative Write Latency, bits 4:0; lower is better.
    pub rwl: u8,
    /// Idle Power, in the unit of `ips`.
    pub idlp: u16,
    /// Idle Power Scale, bits 7:6: 0 not reported, 1 is 0.0001 W, 2 is 0.01 W.
    pub ips: u8,
    _rsvd19: u8,
    /// Active Power, in the unit of `apw_aps`.
    pub actp: u16,
    /// Active Power Workload, bits 2:0, and Active Power Scale, bits 7:6 as in `ips`.
    pub apw_aps: u8,
    _rsvd23: [u8; 9],
}

const _: () = assert!(size_of::<PowerStateDescriptor>() == 32);
const _: () = assert!(offset_of!(PowerStateDescriptor, enlat) == 4);
const _: () = assert!(offset_of!(PowerStateDescriptor, idlp) == 16);
const _: () = assert!(offset_of!(PowerStateDescriptor, actp) == 20);

dword! {
    /// Byte 3 of a power state.
    pub struct PowerStateFlags: u8 {
        /// 0, Max Power Scale: the unit is 0.0001 W instead of 0.01 W.
        pub mxps: bool,
        /// 1, Non-Operational State: I/O commands leave it.
        pub nops: bool,
        #[bits(6)]
        __: u8,
    }
}

impl PowerStateDescriptor {
    /// Maximum power in units of 0.1 mW; 0 means not reported.
    pub const fn max_power_tenth_mw(&self) -> u32 {
        self.mp as u32 * if self.flags.mxps() { 1 } else { 100 }
    }

    /// Whether I/O commands are executed in it; a controller leaves any other state for them.
    pub const fn is_operational(&self) -> bool {
        !self.flags.nops()
    }

    /// How long it may take to enter the state; zero means not reported.
    pub const fn entry_latency(&self) -> Duration {
        Duration::from_micros(self.enlat as u64)
    }

    /// How long it may take to leave the state; zero means not reported.
    pub const fn exit_latency(&self) -> Duration {
        Duration::from_micros(self.exlat as u64)
    }

    /// Idle power in units of 0.1 mW, if it is reported.
    pub const fn idle_power_tenth_mw(&self) -> Option<u32> {
        scaled(self.idlp, self.ips >> 6)
    }

    /// Average power at the workload of [`active_workload`](Self::active_workload), in units of 0.1 mW, if it is reported.
    pub const fn active_power_tenth_mw(&self) -> Option<u32> {
        scaled(self.actp, self.apw_aps >> 6)
    }

    /// Active Power Workload: 0 for none, else the number of a workload of the specification.
    pub const fn active_workload(&self) -> u8 {
        self.apw_aps & 7
    }
}

/// A power by its scale: 0 not reported, 1 is 0.0001 W, 2 is 0.01 W.
const fn scaled(power: u16, scale: u8) -> Option<u32> {
    match scale {
        1 => Some(power as u32),
        2 => Some(power as u32 * 100),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_read_bit_by_bit_as_the_figure_has_it() {
        let mut bytes = [0u8; 32];
        let mut set = |from: usize, bits: usize, value: u64| {
            (0..bits).filter(|bit| value >> bit & 1 != 0).for_each(|bit| {
                bytes[(from + bit) / 8] |= 1 << ((from + bit) % 8);
            });
        };
        set(0, 16, 499); // MP
        set(24, 1, 1); // MXPS
        set(25, 1, 1); // NOPS
        set(32, 32, 5_000); // ENLAT
        set(64, 32, 45_000); // EXLAT
        set(96, 5, 3); // RRT
        set(104, 5, 4); // RRL
        set(112, 5, 5); // RWT
        set(120, 5, 6); // RWL
        set(128, 16, 50); // IDLP
        set(150, 2, 1); // IPS
        set(160, 16, 77); // ACTP
        set(176, 3, 2); // APW
        set(182, 2, 2); // APS
        let state = PowerStateDescriptor::read_from_bytes(&bytes).expect("it has 32 bytes");
        assert_eq!((state.max_power_tenth_mw(), state.is_operational()), (499, false));
        assert_eq!(state.entry_latency(), Duration::from_millis(5));
        assert_eq!(state.exit_latency(), Duration::from_millis(45));
        assert_eq!((state.rrt, state.rrl, state.rwt, state.rwl), (3, 4, 5, 6));
        assert_eq!(state.idle_power_tenth_mw(), Some(50));
        assert_eq!((state.active_power_tenth_mw(), state.active_workload()), (Some(7_700), 2));
        assert_eq!(PowerStateDescriptor::default().idle_power_tenth_mw(), None);
        assert_eq!(PowerStateDescriptor { mp: 825, ..Default::default() }.max_power_tenth_mw(), 82_500);
    }
}
