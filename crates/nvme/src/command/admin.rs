//! Admin commands that read or set state: Identify, features, log pages.

use super::{Sqe, dword};
use crate::feature::{FeatureId, FeatureSelect};
use crate::identify::Cns;
use crate::log::{GetLogPageCdw10, GetLogPageCdw11, LogPageId};
use crate::opcode::AdminOpcode;

dword! {
    /// CDW10 of Identify.
    pub struct IdentifyCdw10: u32 {
        /// 7:0, Controller or Namespace Structure.
        #[bits(8)]
        pub cns: Cns,
        __: u8,
        /// 31:16, Controller Identifier, for the structures that need one.
        pub cntid: u16,
    }
}

dword! {
    /// CDW11 of Identify.
    pub struct IdentifyCdw11: u32 {
        /// 15:0, CNS Specific Identifier.
        pub cnssid: u16,
        __: u8,
        /// 31:24, Command Set Identifier, for the structures of an I/O command set.
        #[bits(8)]
        pub csi: crate::identify::Csi,
    }
}

/// Identify: the 4096 bytes that `cns` names, about `nsid` where that matters.
pub const fn identify(cns: Cns, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::IDENTIFY.0, nsid);
    sqe.cdw10 = IdentifyCdw10::new().with_cns(cns).into_bits();
    sqe
}

dword! {
    /// CDW10 of Get Features.
    pub struct GetFeaturesCdw10: u32 {
        /// 7:0, Feature Identifier.
        #[bits(8)]
        pub fid: FeatureId,
        /// 10:8, Select.
        #[bits(3)]
        pub sel: FeatureSelect,
        #[bits(21)]
        __: u32,
    }
}

dword! {
    /// CDW10 of Set Features.
    pub struct SetFeaturesCdw10: u32 {
        /// 7:0, Feature Identifier.
        #[bits(8)]
        pub fid: FeatureId,
        #[bits(23)]
        __: u32,
        /// 31, Save: the value outlives power cycles and resets.
        pub sv: bool,
    }
}

/// Get Features; the value comes in completion DW0, or as data.
pub const fn get_features(fid: FeatureId, sel: FeatureSelect, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::GET_FEATURES.0, nsid);
    sqe.cdw10 = GetFeaturesCdw10::new().with_fid(fid).with_sel(sel).into_bits();
    sqe
}

/// Set Features with `cdw11` as the value, not saved.
pub const fn set_features(fid: FeatureId, cdw11: u32, nsid: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::SET_FEATURES.0, nsid);
    sqe.cdw10 = SetFeaturesCdw10::new().with_fid(fid).into_bits();
    sqe.cdw11 = cdw11;
    sqe
}

/// Get Log Page: `numd_z + 1` dwords from byte `offset` on; `rae` keeps the event that the page belongs to.
pub const fn get_log_page(lid: LogPageId, nsid: u32, numd_z: u32, offset: u64, rae: bool) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::GET_LOG_PAGE.0, nsid);
    sqe.cdw10 = GetLogPageCdw10::new().with_lid(lid).with_rae(rae).with_numdl_z(numd_z as u16).into_bits();
    sqe.cdw11 = GetLogPageCdw11::new().with_numdu_z((numd_z >> 16) as u16).into_bits();
    sqe.cdw12 = offset as u32;
    sqe.cdw13 = (offset >> 32) as u32;
    sqe
}
