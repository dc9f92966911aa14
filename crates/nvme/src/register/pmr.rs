//! Registers of the Persistent Memory Region.

use crate::open_enum::dword;

dword! {
    /// Persistent Memory Region Capabilities (PMRCAP, offset E00h, read only).
    pub struct PmrCap: u32 {
        #[bits(3)]
        __: u8,
        /// 3, Read Data Support.
        pub rds: bool,
        /// 4, Write Data Support.
        pub wds: bool,
        /// 7:5, Base Indicator Register: which BAR holds the region.
        #[bits(3)]
        pub bir: u8,
        /// 9:8, Time Units of PMRTO: 0 is 500 ms, 1 is a minute.
        #[bits(2)]
        pub pmrtu: u8,
        /// 13:10, Write Barrier Mechanisms: bit 0 reading the region, bit 1 reading PMRSTS.
        #[bits(4)]
        pub pmrwbm: u8,
        #[bits(2)]
        __: u8,
        /// 23:16, Timeout for the region to become ready, in units of PMRTU.
        pub pmrto: u8,
        /// 24, Controller Memory Space Supported.
        pub cmss: bool,
        #[bits(7)]
        __: u8,
    }
}

dword! {
    /// Persistent Memory Region Control (PMRCTL, offset E04h).
    pub struct PmrCtl: u32 {
        /// 0, Enable.
        pub en: bool,
        #[bits(31)]
        __: u32,
    }
}

dword! {
    /// Persistent Memory Region Status (PMRSTS, offset E08h, read only).
    pub struct PmrSts: u32 {
        /// 7:0, Error; zero is none.
        pub err: u8,
        /// 8, Not Ready.
        pub nrdy: bool,
        /// 11:9, Health Status: 0 normal, 1 restore error, 2 read only, 3 unreliable.
        #[bits(3)]
        pub hsts: u8,
        /// 12, Controller Base Address Invalid.
        pub cbai: bool,
        #[bits(19)]
        __: u32,
    }
}

dword! {
    /// Persistent Memory Region Memory Space Control Lower (PMRMSCL, offset E14h).
    pub struct PmrMscl: u32 {
        #[bits(1)]
        __: u8,
        /// 1, Controller Memory Space Enable.
        pub cmse: bool,
        #[bits(10)]
        __: u16,
        /// 31:12, Controller Base Address bits 31:12; PMRMSCU holds bits 63:32.
        #[bits(20)]
        pub cba: u32,
    }
}
