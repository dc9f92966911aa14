//! Byte offsets of the controller registers from the start of BAR0.

/// Controller Capabilities, 64 bits.
pub const CAP: u32 = 0x00;
/// Version, 32 bits.
pub const VS: u32 = 0x08;
/// Interrupt Mask Set, 32 bits; undefined with MSI-X.
pub const INTMS: u32 = 0x0c;
/// Interrupt Mask Clear, 32 bits; undefined with MSI-X.
pub const INTMC: u32 = 0x10;
/// Controller Configuration, 32 bits.
pub const CC: u32 = 0x14;
/// Controller Status, 32 bits.
pub const CSTS: u32 = 0x1c;
/// NVM Subsystem Reset, 32 bits.
pub const NSSR: u32 = 0x20;
/// Admin Queue Attributes, 32 bits.
pub const AQA: u32 = 0x24;
/// Admin Submission Queue Base Address, 64 bits.
pub const ASQ: u32 = 0x28;
/// Admin Completion Queue Base Address, 64 bits.
pub const ACQ: u32 = 0x30;
/// Controller Memory Buffer Location, 32 bits.
pub const CMBLOC: u32 = 0x38;
/// Controller Memory Buffer Size, 32 bits.
pub const CMBSZ: u32 = 0x3c;
/// Boot Partition Information, 32 bits.
pub const BPINFO: u32 = 0x40;
/// Boot Partition Read Select, 32 bits.
pub const BPRSEL: u32 = 0x44;
/// Boot Partition Memory Buffer Location, 64 bits.
pub const BPMBL: u32 = 0x48;
/// Controller Memory Buffer Memory Space Control, 64 bits.
pub const CMBMSC: u32 = 0x50;
/// Controller Memory Buffer Status, 32 bits.
pub const CMBSTS: u32 = 0x58;
/// Controller Memory Buffer Elasticity Buffer Size, 32 bits.
pub const CMBEBS: u32 = 0x5c;
/// Controller Memory Buffer Sustained Write Throughput, 32 bits.
pub const CMBSWTP: u32 = 0x60;
/// NVM Subsystem Shutdown, 32 bits.
pub const NSSD: u32 = 0x64;
/// Controller Ready Timeouts, 32 bits.
pub const CRTO: u32 = 0x68;
/// Persistent Memory Region Capabilities, 32 bits.
pub const PMRCAP: u32 = 0xe00;
/// Persistent Memory Region Control, 32 bits.
pub const PMRCTL: u32 = 0xe04;
/// Persistent Memory Region Status, 32 bits.
pub const PMRSTS: u32 = 0xe08;
/// Persistent Memory Region Elasticity Buffer Size, 32 bits.
pub const PMREBS: u32 = 0xe0c;
/// Persistent Memory Region Sustained Write Throughput, 32 bits.
pub const PMRSWTP: u32 = 0xe10;
/// Persistent Memory Region Controller Memory Space Control Lower, 32 bits.
pub const PMRMSCL: u32 = 0xe14;
/// Persistent Memory Region Controller Memory Space Control Upper, 32 bits.
pub const PMRMSCU: u32 = 0xe18;
/// Start of the doorbells; the first is the tail of the Admin Submission Queue.
pub const DOORBELLS: u32 = 0x1000;
