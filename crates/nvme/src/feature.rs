//! Features (Base 2.0 section 5.27.1): what Set Features takes in CDW11 and Get Features gives in DW0.

use crate::open_enum::{dword, open_enum};

open_enum! {
    /// Feature identifiers.
    pub enum FeatureId: u8 {
        ARBITRATION = 0x01, "Arbitration";
        POWER_MANAGEMENT = 0x02, "Power Management";
        LBA_RANGE_TYPE = 0x03, "LBA Range Type";
        TEMPERATURE_THRESHOLD = 0x04, "Temperature Threshold";
        ERROR_RECOVERY = 0x05, "Error Recovery";
        VOLATILE_WRITE_CACHE = 0x06, "Volatile Write Cache";
        NUMBER_OF_QUEUES = 0x07, "Number of Queues";
        INTERRUPT_COALESCING = 0x08, "Interrupt Coalescing";
        INTERRUPT_VECTOR_CONFIG = 0x09, "Interrupt Vector Configuration";
        WRITE_ATOMICITY = 0x0a, "Write Atomicity Normal";
        ASYNC_EVENT_CONFIG = 0x0b, "Asynchronous Event Configuration";
        AUTONOMOUS_POWER_STATE_TRANSITION = 0x0c, "Autonomous Power State Transition";
        HOST_MEMORY_BUFFER = 0x0d, "Host Memory Buffer";
        TIMESTAMP = 0x0e, "Timestamp";
        KEEP_ALIVE_TIMER = 0x0f, "Keep Alive Timer";
        HOST_CONTROLLED_THERMAL_MANAGEMENT = 0x10, "Host Controlled Thermal Management";
        NON_OPERATIONAL_POWER_STATE_CONFIG = 0x11, "Non-Operational Power State Config";
        READ_RECOVERY_LEVEL_CONFIG = 0x12, "Read Recovery Level Config";
        PREDICTABLE_LATENCY_MODE_CONFIG = 0x13, "Predictable Latency Mode Config";
        PREDICTABLE_LATENCY_MODE_WINDOW = 0x14, "Predictable Latency Mode Window";
        LBA_STATUS_INFORMATION_REPORT_INTERVAL = 0x15, "LBA Status Information Report Interval";
        HOST_BEHAVIOR_SUPPORT = 0x16, "Host Behavior Support";
        SANITIZE_CONFIG = 0x17, "Sanitize Config";
        ENDURANCE_GROUP_EVENT_CONFIG = 0x18, "Endurance Group Event Configuration";
        IO_COMMAND_SET_PROFILE = 0x19, "I/O Command Set Profile";
        SPINUP_CONTROL = 0x1a, "Spinup Control";
        ENHANCED_CONTROLLER_METADATA = 0x7d, "Enhanced Controller Metadata";
        CONTROLLER_METADATA = 0x7e, "Controller Metadata";
        NAMESPACE_METADATA = 0x7f, "Namespace Metadata";
        SOFTWARE_PROGRESS_MARKER = 0x80, "Software Progress Marker";
        HOST_IDENTIFIER = 0x81, "Host Identifier";
        RESERVATION_NOTIFICATION_MASK = 0x82, "Reservation Notification Mask";
        RESERVATION_PERSISTENCE = 0x83, "Reservation Persistence";
        NAMESPACE_WRITE_PROTECTION_CONFIG = 0x84, "Namespace Write Protection Config";
    }
}

open_enum! {
    /// Select field of Get Features.
    pub enum FeatureSelect: u8 {
        CURRENT = 0b000, "Current";
        DEFAULT = 0b001, "Default";
        SAVED = 0b010, "Saved";
        SUPPORTED_CAPABILITIES = 0b011, "Supported Capabilities";
    }
}

dword! {
    /// Completion DW0 of Get Features with [`FeatureSelect::SUPPORTED_CAPABILITIES`].
    pub struct FeatureCapabilities: u32 {
        /// 0, Saveable.
        pub saveable: bool,
        /// 1, Namespace Specific.
        pub namespace_specific: bool,
        /// 2, Changeable.
        pub changeable: bool,
        #[bits(29)]
        __: u32,
    }
}

dword! {
    /// Number of Queues (07h), as asked for and, in completion DW0, as allocated.
    ///
    /// A controller may allocate more than was asked for. FFFFh is not a legal value of either field.
    pub struct NumberOfQueues: u32 {
        /// 15:0, Number of I/O Submission Queues, zero-based.
        pub nsqr_z: u16,
        /// 31:16, Number of I/O Completion Queues, zero-based.
        pub ncqr_z: u16,
    }
}

impl NumberOfQueues {
    /// I/O submission queues.
    pub const fn submission_queues(&self) -> u32 {
        self.nsqr_z() as u32 + 1
    }

    /// I/O completion queues.
    pub const fn completion_queues(&self) -> u32 {
        self.ncqr_z() as u32 + 1
    }
}

dword! {
    /// Arbitration (01h).
    pub struct Arbitration: u32 {
        /// 2:0, Arbitration Burst, `2^n` commands; 7 means no limit.
        #[bits(3)]
        pub ab: u8,
        #[bits(5)]
        __: u8,
        /// 15:8, Low Priority Weight, zero-based commands.
        pub lpw_z: u8,
        /// 23:16, Medium Priority Weight, zero-based commands.
        pub mpw_z: u8,
        /// 31:24, High Priority Weight, zero-based commands.
        pub hpw_z: u8,
    }
}

impl Arbitration {
    /// Commands of one arbitration burst, or `None` for no limit.
    pub const fn burst(&self) -> Option<u32> {
        if self.ab() == 7 { None } else { Some(1 << self.ab()) }
    }

    /// Commands of low, medium and high priority per round.
    pub const fn weights(&self) -> [u32; 3] {
        [self.lpw_z() as u32 + 1, self.mpw_z() as u32 + 1, self.hpw_z() as u32 + 1]
    }
}

dword! {
    /// Power Management (02h).
    pub struct PowerManagement: u32 {
        /// 4:0, Power State.
        #[bits(5)]
        pub ps: u8,
        /// 7:5, Workload Hint.
        #[bits(3)]
        pub wh: u8,
        #[bits(24)]
        __: u32,
    }
}

dword! {
    /// Temperature Threshold (04h).
    pub struct TemperatureThreshold: u32 {
        /// 15:0, Temperature Threshold, in kelvin.
        pub tmpth: u16,
        /// 19:16, Threshold Temperature Select: 0 composite, 1 to 8 sensors, Fh all.
        #[bits(4)]
        pub tmpsel: u8,
        /// 21:20, Threshold Type Select: 0 over, 1 under.
        #[bits(2)]
        pub thsel: u8,
        #[bits(10)]
        __: u16,
    }
}

dword! {
    /// Error Recovery (05h), per namespace.
    pub struct ErrorRecovery: u32 {
        /// 15:0, Time Limited Error Recovery, in 100 ms; 0 means no limit.
        pub tler: u16,
        /// 16, Deallocated or Unwritten Logical Block Error Enable.
        pub dulbe: bool,
        #[bits(15)]
        __: u16,
    }
}

dword! {
    /// Volatile Write Cache (06h).
    pub struct VolatileWriteCache: u32 {
        /// 0, Volatile Write Cache Enable.
        pub wce: bool,
        #[bits(31)]
        __: u32,
    }
}

dword! {
    /// Interrupt Coalescing (08h).
    pub struct InterruptCoalescing: u32 {
        /// 7:0, Aggregation Threshold, zero-based completions.
        pub thr_z: u8,
        /// 15:8, Aggregation Time, in 100 us; 0 means no delay.
        pub time: u8,
        __: u16,
    }
}

impl InterruptCoalescing {
    /// Completions to gather before an interrupt.
    pub const fn threshold(&self) -> u32 {
        self.thr_z() as u32 + 1
    }
}

dword! {
    /// Interrupt Vector Configuration (09h).
    pub struct InterruptVectorConfig: u32 {
        /// 15:0, Interrupt Vector.
        pub iv: u16,
        /// 16, Coalescing Disable.
        pub cd: bool,
        #[bits(15)]
        __: u16,
    }
}

dword! {
    /// Write Atomicity Normal (0Ah).
    pub struct WriteAtomicity: u32 {
        /// 0, Disable Normal: only AWUPF and NAWUPF hold, not AWUN and NAWUN.
        pub dn: bool,
        #[bits(31)]
        __: u32,
    }
}

dword! {
    /// Asynchronous Event Configuration (0Bh): which events may complete a request.
    pub struct AsyncEventConfig: u32 {
        /// 7:0, SMART / Health Critical Warnings, by bit of the log page's field.
        pub smart: u8,
        /// 8, Namespace Attribute Notices.
        pub namespace_attribute: bool,
        /// 9, Firmware Activation Notices.
        pub firmware_activation: bool,
        /// 10, Telemetry Log Notices.
        pub telemetry_log: bool,
        /// 11, Asymmetric Namespace Access Change Notices.
        pub ana_change: bool,
        /// 12, Predictable Latency Event Aggregate Log Change Notices.
        pub predictable_latency: bool,
        /// 13, LBA Status Information Alert Notices.
        pub lba_status: bool,
        /// 14, Endurance Group Event Aggregate Log Change Notices.
        pub endurance_group: bool,
        /// 15, Normal NVM Subsystem Shutdown.
        pub subsystem_shutdown: bool,
        #[bits(11)]
        __: u16,
        /// 27, Zone Descriptor Changed Notices.
        pub zone_descriptor: bool,
        #[bits(3)]
        __: u8,
        /// 31, Discovery Log Page Change Notices.
        pub discovery_log: bool,
    }
}

dword! {
    /// Timestamp (0Eh): the 8-byte data of the feature.
    pub struct Timestamp: u64 {
        /// 47:0, Timestamp, in milliseconds since 1970-01-01 UTC or since reset, as the origin says.
        #[bits(48)]
        pub timestamp: u64,
        /// 48, Synch: the clock may have stopped at times.
        pub synch: bool,
        /// 51:49, Timestamp Origin: 0 cleared at reset, 1 set by the host.
        #[bits(3)]
        pub origin: u8,
        #[bits(12)]
        __: u16,
    }
}

dword! {
    /// Keep Alive Timer (0Fh).
    pub struct KeepAliveTimer: u32 {
        /// 31:0, Keep Alive Timeout, in milliseconds; 0 disables the timer.
        pub kato: u32,
    }
}

mod data;
pub use data::{ApstEnable, ApstEntry, ApstTable, HostBehavior};
