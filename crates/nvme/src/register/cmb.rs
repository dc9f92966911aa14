//! Registers of the Controller Memory Buffer.

use crate::open_enum::dword;

dword! {
    /// Controller Memory Buffer Location (CMBLOC, offset 38h, read only). Valid once CMBMSC.CRE is set.
    pub struct CmbLoc: u32 {
        /// 2:0, Base Indicator Register: which BAR holds the buffer.
        #[bits(3)]
        pub bir: u8,
        /// 3, Queue Mixed Memory Support: not all queues need lie in the buffer.
        pub cqmms: bool,
        /// 4, Queue Physically Discontiguous Support.
        pub cqpds: bool,
        /// 5, Data Pointer Mixed Locations Support.
        pub cdpmls: bool,
        /// 6, Data Pointer and Command Independent Locations Support.
        pub cdpcils: bool,
        /// 7, Data Metadata Mixed Memory Support.
        pub cdmmms: bool,
        /// 8, Queue Dword Alignment.
        pub cqda: bool,
        #[bits(3)]
        __: u8,
        /// 31:12, Offset of the buffer in the BAR, in units of CMBSZ.SZU.
        #[bits(20)]
        pub ofst: u32,
    }
}

dword! {
    /// Controller Memory Buffer Size (CMBSZ, offset 3Ch, read only). Valid once CMBMSC.CRE is set.
    pub struct CmbSz: u32 {
        /// 0, Submission Queue Support.
        pub sqs: bool,
        /// 1, Completion Queue Support.
        pub cqs: bool,
        /// 2, PRP and SGL List Support.
        pub lists: bool,
        /// 3, Read Data Support: the controller may put read data there.
        pub rds: bool,
        /// 4, Write Data Support: the controller may take write data from there.
        pub wds: bool,
        #[bits(3)]
        __: u8,
        /// 11:8, Size Units, `4096 * 16^n` bytes.
        #[bits(4)]
        pub szu: u8,
        /// 31:12, Size, in units of SZU.
        #[bits(20)]
        pub sz: u32,
    }
}

impl CmbSz {
    /// Bytes per unit of SZ and of CMBLOC.OFST, or `None` for a reserved SZU.
    pub const fn unit_bytes(&self) -> Option<u64> {
        if self.szu() <= 6 { Some(4096 << (4 * self.szu())) } else { None }
    }

    /// Size of the buffer in bytes, or `None` for a reserved SZU.
    pub const fn bytes(&self) -> Option<u64> {
        match self.unit_bytes() {
            Some(unit) => Some(unit * self.sz() as u64),
            None => None,
        }
    }

    /// Byte offset of the buffer in its BAR, or `None` for a reserved SZU.
    pub const fn offset_bytes(&self, location: CmbLoc) -> Option<u64> {
        match self.unit_bytes() {
            Some(unit) => Some(unit * location.ofst() as u64),
            None => None,
        }
    }
}

dword! {
    /// Controller Memory Buffer Memory Space Control (CMBMSC, offset 50h).
    pub struct CmbMsc: u64 {
        /// 0, Capabilities Registers Enabled: CMBLOC and CMBSZ are valid.
        pub cre: bool,
        /// 1, Controller Memory Space Enable: addresses from CBA on reach the buffer.
        pub cmse: bool,
        #[bits(10)]
        __: u16,
        /// 63:12, Controller Base Address, in 4 KiB.
        #[bits(52)]
        pub cba: u64,
    }
}

impl CmbMsc {
    /// The base address in bytes.
    pub const fn base_address(&self) -> u64 {
        self.cba() << 12
    }
}

dword! {
    /// Controller Memory Buffer Status (CMBSTS, offset 58h, read only).
    pub struct CmbSts: u32 {
        /// 0, Controller Base Address Invalid.
        pub cbai: bool,
        #[bits(31)]
        __: u32,
    }
}

dword! {
    /// Elasticity Buffer Size (CMBEBS, offset 5Ch, and PMREBS, offset E0Ch; read only).
    pub struct ElasticityBufferSize: u32 {
        /// 3:0, Size Units: bytes, or 1024 times more for each step up to GiB.
        #[bits(4)]
        pub szu: BufferSize,
        /// 4, Read Bypass Behavior: reads that miss the buffer need not wait for its writes.
        pub rbb: bool,
        #[bits(3)]
        __: u8,
        /// 31:8, Elasticity buffer size, in units of SZU.
        #[bits(24)]
        pub wbz: u32,
    }
}

dword! {
    /// Sustained Write Throughput (CMBSWTP, offset 60h, and PMRSWTP, offset E10h; read only).
    pub struct SustainedWriteThroughput: u32 {
        /// 3:0, Throughput Units: bytes per second, or 1024 times more for each step up to GiB per second.
        #[bits(4)]
        pub swtu: BufferSize,
        #[bits(4)]
        __: u8,
        /// 31:8, Throughput, in units of SWTU.
        #[bits(24)]
        pub swtv: u32,
    }
}

crate::open_enum::open_enum! {
    /// A unit of [`ElasticityBufferSize`] and of [`SustainedWriteThroughput`].
    pub enum BufferSize: u8 {
        BYTES = 0, "B";
        KIB = 1, "KiB";
        MIB = 2, "MiB";
        GIB = 3, "GiB";
    }
}
