//! What Identify returns (Base 2.0 section 5.17, NVM command set 1.0 section 4.1.5).

use crate::open_enum::{dword, open_enum};

mod ascii;
mod controller;
mod controller_bits;
mod list;
mod namespace;
mod power;

pub use ascii::{ascii, pad_ascii};
pub use controller::{IdentifyController, IdentifyNvmController};
pub use controller_bits::{
    Cmic, ControllerType, Ctratt, EntrySizes, Fna, Frmw, Lpa, Oacs, Oaes, Oncs, Sanicap, SglSupport, Sgls,
    Vwc,
};
pub use list::{
    ControllerList, NamespaceList, NsIdDescriptor, NsIdDescriptorHeader, NsIdDescriptors, NsIdType,
    ns_id_descriptors,
};
pub use namespace::{
    ExtendedLbaFormat, Flbas, IdentifyNamespace, IdentifyNamespaceIndependent, IdentifyNvmNamespace,
    LbaFormat, NsFeat,
};
pub use power::{PowerStateDescriptor, PowerStateFlags};

/// Bytes of every structure that Identify returns.
pub const IDENTIFY_SIZE: usize = 4096;

open_enum! {
    /// Controller or Namespace Structure: what Identify asks for.
    pub enum Cns: u8 {
        NAMESPACE = 0x00, "Identify Namespace";
        CONTROLLER = 0x01, "Identify Controller";
        ACTIVE_NAMESPACES = 0x02, "Active Namespace ID list";
        NAMESPACE_DESCRIPTORS = 0x03, "Namespace Identification Descriptor list";
        NVM_SET_LIST = 0x04, "NVM Set List";
        CSI_NAMESPACE = 0x05, "I/O Command Set specific Identify Namespace";
        CSI_CONTROLLER = 0x06, "I/O Command Set specific Identify Controller";
        CSI_ACTIVE_NAMESPACES = 0x07, "I/O Command Set specific Active Namespace ID list";
        INDEPENDENT_NAMESPACE = 0x08, "I/O Command Set Independent Identify Namespace";
        ALLOCATED_NAMESPACES = 0x10, "Allocated Namespace ID list";
        ALLOCATED_NAMESPACE = 0x11, "Identify Namespace for an allocated Namespace ID";
        ATTACHED_CONTROLLERS = 0x12, "Controller List of controllers attached to a namespace";
        CONTROLLERS = 0x13, "Controller List of the NVM subsystem";
        PRIMARY_CONTROLLER_CAPABILITIES = 0x14, "Primary Controller Capabilities";
        SECONDARY_CONTROLLERS = 0x15, "Secondary Controller List";
        NAMESPACE_GRANULARITY = 0x16, "Namespace Granularity List";
        UUID_LIST = 0x17, "UUID List";
        DOMAIN_LIST = 0x18, "Domain List";
        ENDURANCE_GROUP_LIST = 0x19, "Endurance Group List";
        CSI_ALLOCATED_NAMESPACES = 0x1a, "I/O Command Set specific Allocated Namespace ID list";
        CSI_ALLOCATED_NAMESPACE = 0x1b, "I/O Command Set specific Identify Namespace for an allocated ID";
        IO_COMMAND_SETS = 0x1c, "I/O Command Set data structure";
    }
}

open_enum! {
    /// Command Set Identifier.
    pub enum Csi: u8 {
        NVM = 0x00, "NVM Command Set";
        KEY_VALUE = 0x01, "Key Value Command Set";
        ZONED = 0x02, "Zoned Namespace Command Set";
    }
}

dword! {
    /// One combination of I/O command sets in the structure of [`Cns::IO_COMMAND_SETS`], which has 512 of them.
    pub struct IoCommandSetVector: u64 {
        /// 0, NVM Command Set.
        pub nvm: bool,
        /// 1, Key Value Command Set.
        pub key_value: bool,
        /// 2, Zoned Namespace Command Set.
        pub zoned: bool,
        #[bits(61)]
        __: u64,
    }
}
