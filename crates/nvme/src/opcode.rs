//! Opcodes. Bits 1:0 of one tell the direction of its data.

use crate::open_enum::open_enum;

open_enum! {
    /// Opcodes of the Admin command set (Base 2.0 figure 138, NVM command set 1.0).
    pub enum AdminOpcode: u8 {
        DELETE_IO_SQ = 0x00, "Delete I/O Submission Queue";
        CREATE_IO_SQ = 0x01, "Create I/O Submission Queue";
        GET_LOG_PAGE = 0x02, "Get Log Page";
        DELETE_IO_CQ = 0x04, "Delete I/O Completion Queue";
        CREATE_IO_CQ = 0x05, "Create I/O Completion Queue";
        IDENTIFY = 0x06, "Identify";
        ABORT = 0x08, "Abort";
        SET_FEATURES = 0x09, "Set Features";
        GET_FEATURES = 0x0a, "Get Features";
        ASYNC_EVENT_REQUEST = 0x0c, "Asynchronous Event Request";
        NS_MANAGEMENT = 0x0d, "Namespace Management";
        FIRMWARE_COMMIT = 0x10, "Firmware Commit";
        FIRMWARE_IMAGE_DOWNLOAD = 0x11, "Firmware Image Download";
        DEVICE_SELF_TEST = 0x14, "Device Self-test";
        NS_ATTACHMENT = 0x15, "Namespace Attachment";
        KEEP_ALIVE = 0x18, "Keep Alive";
        DIRECTIVE_SEND = 0x19, "Directive Send";
        DIRECTIVE_RECEIVE = 0x1a, "Directive Receive";
        VIRTUALIZATION_MANAGEMENT = 0x1c, "Virtualization Management";
        NVME_MI_SEND = 0x1d, "NVMe-MI Send";
        NVME_MI_RECEIVE = 0x1e, "NVMe-MI Receive";
        CAPACITY_MANAGEMENT = 0x20, "Capacity Management";
        LOCKDOWN = 0x24, "Lockdown";
        DBBUF_CONFIG = 0x7c, "Doorbell Buffer Config";
        FABRICS = 0x7f, "Fabrics Commands";
        FORMAT_NVM = 0x80, "Format NVM";
        SECURITY_SEND = 0x81, "Security Send";
        SECURITY_RECEIVE = 0x82, "Security Receive";
        SANITIZE = 0x84, "Sanitize";
        GET_LBA_STATUS = 0x86, "Get LBA Status";
    }
}

open_enum! {
    /// Opcodes of the NVM command set (1.0 figure 16).
    pub enum NvmOpcode: u8 {
        FLUSH = 0x00, "Flush";
        WRITE = 0x01, "Write";
        READ = 0x02, "Read";
        WRITE_UNCORRECTABLE = 0x04, "Write Uncorrectable";
        COMPARE = 0x05, "Compare";
        WRITE_ZEROES = 0x08, "Write Zeroes";
        DATASET_MANAGEMENT = 0x09, "Dataset Management";
        VERIFY = 0x0c, "Verify";
        RESERVATION_REGISTER = 0x0d, "Reservation Register";
        RESERVATION_REPORT = 0x0e, "Reservation Report";
        RESERVATION_ACQUIRE = 0x11, "Reservation Acquire";
        RESERVATION_RELEASE = 0x15, "Reservation Release";
        COPY = 0x19, "Copy";
    }
}

open_enum! {
    /// Data transfer direction: bits 1:0 of every opcode.
    pub enum DataTransfer: u8 {
        NONE = 0b00, "No data";
        HOST_TO_CONTROLLER = 0b01, "Host to controller";
        CONTROLLER_TO_HOST = 0b10, "Controller to host";
        BIDIRECTIONAL = 0b11, "Bidirectional";
    }
}

impl DataTransfer {
    /// The direction that opcode `opc` says.
    pub const fn of(opc: u8) -> Self {
        Self(opc & 0b11)
    }
}

impl AdminOpcode {
    /// First vendor specific opcode.
    pub const VENDOR_FIRST: Self = Self(0xc0);

    /// The direction of the command's data.
    pub const fn data_transfer(self) -> DataTransfer {
        DataTransfer::of(self.0)
    }
}

impl NvmOpcode {
    /// First vendor specific opcode.
    pub const VENDOR_FIRST: Self = Self(0x80);

    /// The direction of the command's data.
    pub const fn data_transfer(self) -> DataTransfer {
        DataTransfer::of(self.0)
    }
}
