//! The status codes by table (Base 2.0 figures 94 to 98, NVM command set 1.0 figures 17 and 18).

use super::{Status, StatusCodeType};

macro_rules! codes {
    ($( $sct:ident { $( $CODE:ident = $sc:literal, $name:literal; )* } )*) => {
        impl Status {
            $( $(
                #[doc = concat!($name, " (", stringify!($sct), ", ", stringify!($sc), ").")]
                pub const $CODE: Self = Self::new(StatusCodeType::$sct, $sc);
            )* )*

            /// Every status with a name, by type and code.
            pub const KNOWN: &'static [Self] = &[$( $(Self::$CODE),* ),*];

            /// The specification's name, or `None` for a reserved or vendor specific status.
            pub const fn name(self) -> Option<&'static str> {
                match (self.sct(), self.sc()) {
                    $( $( (StatusCodeType::$sct, $sc) => Some($name), )* )*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    GENERIC {
        SUCCESS = 0x00, "Successful Completion";
        INVALID_OPCODE = 0x01, "Invalid Command Opcode";
        INVALID_FIELD = 0x02, "Invalid Field in Command";
        CID_CONFLICT = 0x03, "Command ID Conflict";
        DATA_TRANSFER_ERROR = 0x04, "Data Transfer Error";
        POWER_LOSS_ABORT = 0x05, "Commands Aborted due to Power Loss Notification";
        INTERNAL_ERROR = 0x06, "Internal Error";
        ABORT_REQUESTED = 0x07, "Command Abort Requested";
        ABORTED_SQ_DELETION = 0x08, "Command Aborted due to SQ Deletion";
        ABORTED_FAILED_FUSED = 0x09, "Command Aborted due to Failed Fused Command";
        ABORTED_MISSING_FUSED = 0x0a, "Command Aborted due to Missing Fused Command";
        INVALID_NAMESPACE_OR_FORMAT = 0x0b, "Invalid Namespace or Format";
        COMMAND_SEQUENCE_ERROR = 0x0c, "Command Sequence Error";
        INVALID_SGL_SEGMENT_DESCRIPTOR = 0x0d, "Invalid SGL Segment Descriptor";
        INVALID_SGL_DESCRIPTOR_COUNT = 0x0e, "Invalid Number of SGL Descriptors";
        INVALID_SGL_DATA_LENGTH = 0x0f, "Data SGL Length Invalid";
        INVALID_SGL_METADATA_LENGTH = 0x10, "Metadata SGL Length Invalid";
        INVALID_SGL_DESCRIPTOR_TYPE = 0x11, "SGL Descriptor Type Invalid";
        INVALID_CMB_USE = 0x12, "Invalid Use of Controller Memory Buffer";
        INVALID_PRP_OFFSET = 0x13, "PRP Offset Invalid";
        ATOMIC_WRITE_UNIT_EXCEEDED = 0x14, "Atomic Write Unit Exceeded";
        OPERATION_DENIED = 0x15, "Operation Denied";
        INVALID_SGL_OFFSET = 0x16, "SGL Offset Invalid";
        HOST_ID_INCONSISTENT = 0x18, "Host Identifier Inconsistent Format";
        KEEP_ALIVE_EXPIRED = 0x19, "Keep Alive Timer Expired";
        KEEP_ALIVE_INVALID = 0x1a, "Keep Alive Timeout Invalid";
        ABORTED_PREEMPT = 0x1b, "Command Aborted due to Preempt and Abort";
        SANITIZE_FAILED = 0x1c, "Sanitize Failed";
        SANITIZE_IN_PROGRESS = 0x1d, "Sanitize In Progress";
        INVALID_SGL_DATA_BLOCK_GRANULARITY = 0x1e, "SGL Data Block Granularity Invalid";
        NOT_SUPPORTED_FOR_CMB_QUEUE = 0x1f, "Command Not Supported for Queue in CMB";
        NAMESPACE_WRITE_PROTECTED = 0x20, "Namespace is Write Protected";
        COMMAND_INTERRUPTED = 0x21, "Command Interrupted";
        TRANSIENT_TRANSPORT_ERROR = 0x22, "Transient Transport Error";
        PROHIBITED_BY_LOCKDOWN = 0x23, "Command Prohibited by Command and Feature Lockdown";
        ADMIN_MEDIA_NOT_READY = 0x24, "Admin Command Media Not Ready";
        LBA_OUT_OF_RANGE = 0x80, "LBA Out of Range";
        CAPACITY_EXCEEDED = 0x81, "Capacity Exceeded";
        NAMESPACE_NOT_READY = 0x82, "Namespace Not Ready";
        RESERVATION_CONFLICT = 0x83, "Reservation Conflict";
        FORMAT_IN_PROGRESS = 0x84, "Format In Progress";
        INVALID_VALUE_SIZE = 0x85, "Invalid Value Size";
        INVALID_KEY_SIZE = 0x86, "Invalid Key Size";
        KV_KEY_DOES_NOT_EXIST = 0x87, "KV Key Does Not Exist";
        UNRECOVERED_ERROR = 0x88, "Unrecovered Error";
        KEY_EXISTS = 0x89, "Key Exists";
    }
    COMMAND_SPECIFIC {
        INVALID_CQ = 0x00, "Completion Queue Invalid";
        INVALID_QUEUE_IDENTIFIER = 0x01, "Invalid Queue Identifier";
        INVALID_QUEUE_SIZE = 0x02, "Invalid Queue Size";
        ABORT_LIMIT_EXCEEDED = 0x03, "Abort Command Limit Exceeded";
        AER_LIMIT_EXCEEDED = 0x05, "Asynchronous Event Request Limit Exceeded";
        INVALID_FIRMWARE_SLOT = 0x06, "Invalid Firmware Slot";
        INVALID_FIRMWARE_IMAGE = 0x07, "Invalid Firmware Image";
        INVALID_INTERRUPT_VECTOR = 0x08, "Invalid Interrupt Vector";
        INVALID_LOG_PAGE = 0x09, "Invalid Log Page";
        INVALID_FORMAT = 0x0a, "Invalid Format";
        FIRMWARE_NEEDS_CONVENTIONAL_RESET = 0x0b, "Firmware Activation Requires Conventional Reset";
        INVALID_QUEUE_DELETION = 0x0c, "Invalid Queue Deletion";
        FEATURE_NOT_SAVEABLE = 0x0d, "Feature Identifier Not Saveable";
        FEATURE_NOT_CHANGEABLE = 0x0e, "Feature Not Changeable";
        FEATURE_NOT_NAMESPACE_SPECIFIC = 0x0f, "Feature Not Namespace Specific";
        FIRMWARE_NEEDS_SUBSYSTEM_RESET = 0x10, "Firmware Activation Requires NVM Subsystem Reset";
        FIRMWARE_NEEDS_CONTROLLER_RESET = 0x11, "Firmware Activation Requires Controller Level Reset";
        FIRMWARE_NEEDS_MAX_TIME_VIOLATION = 0x12, "Firmware Activation Requires Maximum Time Violation";
        FIRMWARE_ACTIVATION_PROHIBITED = 0x13, "Firmware Activation Prohibited";
        OVERLAPPING_RANGE = 0x14, "Overlapping Range";
        NAMESPACE_INSUFFICIENT_CAPACITY = 0x15, "Namespace Insufficient Capacity";
        NAMESPACE_IDENTIFIER_UNAVAILABLE = 0x16, "Namespace Identifier Unavailable";
        NAMESPACE_ALREADY_ATTACHED = 0x18, "Namespace Already Attached";
        NAMESPACE_IS_PRIVATE = 0x19, "Namespace Is Private";
        NAMESPACE_NOT_ATTACHED = 0x1a, "Namespace Not Attached";
        THIN_PROVISIONING_NOT_SUPPORTED = 0x1b, "Thin Provisioning Not Supported";
        INVALID_CONTROLLER_LIST = 0x1c, "Controller List Invalid";
        SELF_TEST_IN_PROGRESS = 0x1d, "Device Self-test In Progress";
        BOOT_PARTITION_WRITE_PROHIBITED = 0x1e, "Boot Partition Write Prohibited";
        INVALID_CONTROLLER_IDENTIFIER = 0x1f, "Invalid Controller Identifier";
        INVALID_SECONDARY_CONTROLLER_STATE = 0x20, "Invalid Secondary Controller State";
        INVALID_CONTROLLER_RESOURCE_COUNT = 0x21, "Invalid Number of Controller Resources";
        INVALID_RESOURCE_IDENTIFIER = 0x22, "Invalid Resource Identifier";
        SANITIZE_PROHIBITED_BY_PMR = 0x23, "Sanitize Prohibited While Persistent Memory Region is Enabled";
        INVALID_ANA_GROUP_IDENTIFIER = 0x24, "ANA Group Identifier Invalid";
        ANA_ATTACH_FAILED = 0x25, "ANA Attach Failed";
        INSUFFICIENT_CAPACITY = 0x26, "Insufficient Capacity";
        NAMESPACE_ATTACHMENT_LIMIT_EXCEEDED = 0x27, "Namespace Attachment Limit Exceeded";
        PROHIBITION_NOT_SUPPORTED = 0x28, "Prohibition of Command Execution Not Supported";
        IO_COMMAND_SET_NOT_SUPPORTED = 0x29, "I/O Command Set Not Supported";
        IO_COMMAND_SET_NOT_ENABLED = 0x2a, "I/O Command Set Not Enabled";
        IO_COMMAND_SET_COMBINATION_REJECTED = 0x2b, "I/O Command Set Combination Rejected";
        INVALID_IO_COMMAND_SET = 0x2c, "Invalid I/O Command Set";
        IDENTIFIER_UNAVAILABLE = 0x2d, "Identifier Unavailable";
        CONFLICTING_ATTRIBUTES = 0x80, "Conflicting Attributes";
        INVALID_PROTECTION_INFORMATION = 0x81, "Invalid Protection Information";
        WRITE_TO_READ_ONLY_RANGE = 0x82, "Attempted Write to Read Only Range";
        COMMAND_SIZE_LIMIT_EXCEEDED = 0x83, "Command Size Limit Exceeded";
        ZONED_BOUNDARY_ERROR = 0xb8, "Zoned Boundary Error";
        ZONE_IS_FULL = 0xb9, "Zone Is Full";
        ZONE_IS_READ_ONLY = 0xba, "Zone Is Read Only";
        ZONE_IS_OFFLINE = 0xbb, "Zone Is Offline";
        ZONE_INVALID_WRITE = 0xbc, "Zone Invalid Write";
        TOO_MANY_ACTIVE_ZONES = 0xbd, "Too Many Active Zones";
        TOO_MANY_OPEN_ZONES = 0xbe, "Too Many Open Zones";
        INVALID_ZONE_STATE_TRANSITION = 0xbf, "Invalid Zone State Transition";
    }
    MEDIA {
        WRITE_FAULT = 0x80, "Write Fault";
        UNRECOVERED_READ = 0x81, "Unrecovered Read Error";
        GUARD_CHECK = 0x82, "End-to-end Guard Check Error";
        APPLICATION_TAG_CHECK = 0x83, "End-to-end Application Tag Check Error";
        REFERENCE_TAG_CHECK = 0x84, "End-to-end Reference Tag Check Error";
        COMPARE_FAILURE = 0x85, "Compare Failure";
        ACCESS_DENIED = 0x86, "Access Denied";
        DEALLOCATED_OR_UNWRITTEN = 0x87, "Deallocated or Unwritten Logical Block";
        STORAGE_TAG_CHECK = 0x88, "End-to-End Storage Tag Check Error";
    }
    PATH {
        INTERNAL_PATH_ERROR = 0x00, "Internal Path Error";
        ANA_PERSISTENT_LOSS = 0x01, "Asymmetric Access Persistent Loss";
        ANA_INACCESSIBLE = 0x02, "Asymmetric Access Inaccessible";
        ANA_TRANSITION = 0x03, "Asymmetric Access Transition";
        CONTROLLER_PATHING_ERROR = 0x60, "Controller Pathing Error";
        HOST_PATHING_ERROR = 0x70, "Host Pathing Error";
        ABORTED_BY_HOST = 0x71, "Command Aborted By Host";
    }
}
