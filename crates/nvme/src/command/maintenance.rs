//! Admin commands that change what a subsystem holds: format, sanitize, namespaces, firmware, self-test.

use super::{Sqe, dword, open_enum};
use crate::opcode::AdminOpcode;

dword! {
    /// CDW10 of Format NVM.
    pub struct FormatNvmCdw10: u32 {
        /// 3:0, LBA Format, lower bits.
        #[bits(4)]
        pub lbafl: u8,
        /// 4, Metadata Settings: 1 puts metadata at the end of each block, 0 in a separate buffer.
        pub mset: bool,
        /// 7:5, Protection Information: 0 none, else type 1 to 3.
        #[bits(3)]
        pub pi: u8,
        /// 8, Protection Information Location: first bytes of the metadata instead of the last.
        pub pil: bool,
        /// 11:9, Secure Erase Settings.
        #[bits(3)]
        pub ses: SecureErase,
        /// 13:12, LBA Format, upper bits.
        #[bits(2)]
        pub lbafu: u8,
        #[bits(18)]
        __: u32,
    }
}

impl FormatNvmCdw10 {
    /// The index of the LBA format, 0 to 63.
    pub const fn lba_format(&self) -> u8 {
        self.lbafl() | self.lbafu() << 4
    }

    /// The same dword with another LBA format, of which six bits count.
    pub const fn with_lba_format(self, index: u8) -> Self {
        self.with_lbafl(index & 0xf).with_lbafu(index >> 4 & 3)
    }
}

open_enum! {
    /// Values of [`FormatNvmCdw10::ses`].
    pub enum SecureErase: u8 {
        NONE = 0b000, "No secure erase";
        USER_DATA = 0b001, "User data erase";
        CRYPTOGRAPHIC = 0b010, "Cryptographic erase";
    }
}

/// Format NVM.
pub const fn format_nvm(nsid: u32, cdw10: FormatNvmCdw10) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::FORMAT_NVM.0, nsid);
    sqe.cdw10 = cdw10.into_bits();
    sqe
}

dword! {
    /// CDW10 of Sanitize.
    pub struct SanitizeCdw10: u32 {
        /// 2:0, Sanitize Action.
        #[bits(3)]
        pub sanact: SanitizeAction,
        /// 3, Allow Unrestricted Sanitize Exit.
        pub ause: bool,
        /// 7:4, Overwrite Pass Count: 0 means 16.
        #[bits(4)]
        pub owpass: u8,
        /// 8, Overwrite Invert Pattern Between Passes.
        pub oipbp: bool,
        /// 9, No Deallocate After Sanitize.
        pub ndas: bool,
        #[bits(22)]
        __: u32,
    }
}

open_enum! {
    /// Values of [`SanitizeCdw10::sanact`].
    pub enum SanitizeAction: u8 {
        EXIT_FAILURE_MODE = 0b001, "Exit failure mode";
        BLOCK_ERASE = 0b010, "Block erase";
        OVERWRITE = 0b011, "Overwrite";
        CRYPTO_ERASE = 0b100, "Crypto erase";
    }
}

/// Sanitize the whole NVM subsystem; `overwrite_pattern` counts for [`SanitizeAction::OVERWRITE`] only.
pub const fn sanitize(cdw10: SanitizeCdw10, overwrite_pattern: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::SANITIZE.0, 0);
    sqe.cdw10 = cdw10.into_bits();
    sqe.cdw11 = overwrite_pattern;
    sqe
}

open_enum! {
    /// CDW10 bits 3:0 of Namespace Management.
    pub enum NsManagementSelect: u8 {
        CREATE = 0x0, "Create";
        DELETE = 0x1, "Delete";
    }
}

/// Namespace Management.
pub const fn ns_management(nsid: u32, sel: NsManagementSelect) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::NS_MANAGEMENT.0, nsid);
    sqe.cdw10 = (sel.0 & 0xf) as u32;
    sqe
}

open_enum! {
    /// CDW10 bits 3:0 of Namespace Attachment.
    pub enum NsAttachmentSelect: u8 {
        ATTACH = 0x0, "Controller attach";
        DETACH = 0x1, "Controller detach";
    }
}

/// Namespace Attachment; the data is a controller list.
pub const fn ns_attachment(nsid: u32, sel: NsAttachmentSelect) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::NS_ATTACHMENT.0, nsid);
    sqe.cdw10 = (sel.0 & 0xf) as u32;
    sqe
}

dword! {
    /// CDW10 of Firmware Commit.
    pub struct FirmwareCommitCdw10: u32 {
        /// 2:0, Firmware Slot; 0 lets the controller choose.
        #[bits(3)]
        pub fs: u8,
        /// 5:3, Commit Action.
        #[bits(3)]
        pub ca: CommitAction,
        #[bits(25)]
        __: u32,
        /// 31, Boot Partition ID.
        pub bpid: bool,
    }
}

open_enum! {
    /// Values of [`FirmwareCommitCdw10::ca`].
    pub enum CommitAction: u8 {
        REPLACE = 0b000, "Replace, do not activate";
        REPLACE_ACTIVATE_AT_RESET = 0b001, "Replace, activate at the next Controller Level Reset";
        ACTIVATE_AT_RESET = 0b010, "Activate at the next Controller Level Reset";
        ACTIVATE_NOW = 0b011, "Replace, activate immediately";
        REPLACE_BOOT_PARTITION = 0b110, "Replace boot partition";
        ACTIVATE_BOOT_PARTITION = 0b111, "Mark boot partition active";
    }
}

/// Firmware Commit.
pub const fn firmware_commit(cdw10: FirmwareCommitCdw10) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::FIRMWARE_COMMIT.0, 0);
    sqe.cdw10 = cdw10.into_bits();
    sqe
}

/// Firmware Image Download: `numd_z + 1` dwords to dword `offset` of the image.
pub const fn firmware_image_download(numd_z: u32, offset: u32) -> Sqe {
    let mut sqe = Sqe::new(AdminOpcode::FIRMWARE_IMAGE_DOWNLOAD.0, 0);
    sqe.cdw10 = numd_z;
    sqe.cdw11 = offset;
    sqe
}
