//! What an Asynchronous Event Request completes with.

use super::{dword, open_enum};

dword! {
    /// Completion DW0 of Asynchronous Event Request. Reading the log page with RAE clear re-arms the event.
    pub struct AsyncEvent: u32 {
        /// 2:0, Asynchronous Event Type.
        #[bits(3)]
        pub event_type: AsyncEventType,
        #[bits(5)]
        __: u8,
        /// 15:8, Asynchronous Event Information; what it means depends on the type.
        pub info: u8,
        /// 23:16, Log Page Identifier that tells more.
        pub log_page: u8,
        __: u8,
    }
}

impl AsyncEvent {
    /// The name of the information, for the types that this crate knows.
    pub const fn info_name(&self) -> Option<&'static str> {
        match self.event_type() {
            AsyncEventType::ERROR => AsyncErrorInfo(self.info()).name(),
            AsyncEventType::SMART_HEALTH => AsyncHealthInfo(self.info()).name(),
            AsyncEventType::NOTICE => AsyncNoticeInfo(self.info()).name(),
            AsyncEventType::IMMEDIATE => AsyncImmediateInfo(self.info()).name(),
            AsyncEventType::IO_COMMAND_SET => AsyncIoCommandSetInfo(self.info()).name(),
            _ => None,
        }
    }
}

impl core::fmt::Display for AsyncEvent {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.info_name() {
            Some(info) => write!(f, "{}: {info}", self.event_type())?,
            None => write!(f, "{}: {:X}h", self.event_type(), self.info())?,
        }
        write!(f, " (log page {:02X}h)", self.log_page())
    }
}

open_enum! {
    /// Values of [`AsyncEvent::event_type`].
    pub enum AsyncEventType: u8 {
        ERROR = 0b000, "Error status";
        SMART_HEALTH = 0b001, "SMART / health status";
        NOTICE = 0b010, "Notice";
        IMMEDIATE = 0b011, "Immediate";
        IO_COMMAND_SET = 0b110, "I/O command specific status";
        VENDOR_SPECIFIC = 0b111, "Vendor specific";
    }
}

open_enum! {
    /// Values of [`AsyncEvent::info`] for [`AsyncEventType::ERROR`].
    pub enum AsyncErrorInfo: u8 {
        INVALID_DOORBELL_REGISTER = 0x00, "Write to invalid doorbell register";
        INVALID_DOORBELL_VALUE = 0x01, "Invalid doorbell write value";
        DIAGNOSTIC_FAILURE = 0x02, "Diagnostic failure";
        PERSISTENT_INTERNAL_ERROR = 0x03, "Persistent internal error";
        TRANSIENT_INTERNAL_ERROR = 0x04, "Transient internal error";
        FIRMWARE_IMAGE_LOAD_ERROR = 0x05, "Firmware image load error";
    }
}

open_enum! {
    /// Values of [`AsyncEvent::info`] for [`AsyncEventType::SMART_HEALTH`].
    pub enum AsyncHealthInfo: u8 {
        SUBSYSTEM_RELIABILITY = 0x00, "NVM subsystem reliability";
        TEMPERATURE_THRESHOLD = 0x01, "Temperature threshold";
        SPARE_BELOW_THRESHOLD = 0x02, "Spare below threshold";
    }
}

open_enum! {
    /// Values of [`AsyncEvent::info`] for [`AsyncEventType::NOTICE`].
    pub enum AsyncNoticeInfo: u8 {
        NAMESPACE_ATTRIBUTE_CHANGED = 0x00, "Namespace attribute changed";
        FIRMWARE_ACTIVATION_STARTING = 0x01, "Firmware activation starting";
        TELEMETRY_LOG_CHANGED = 0x02, "Telemetry log changed";
        ASYMMETRIC_NAMESPACE_ACCESS_CHANGE = 0x03, "Asymmetric namespace access change";
        PREDICTABLE_LATENCY_LOG_CHANGE = 0x04, "Predictable latency event aggregate log change";
        LBA_STATUS_INFORMATION_ALERT = 0x05, "LBA status information alert";
        ENDURANCE_GROUP_LOG_CHANGE = 0x06, "Endurance group event aggregate log page change";
        ZONE_DESCRIPTOR_CHANGED = 0xef, "Zone descriptor changed";
        DISCOVERY_LOG_CHANGE = 0xf0, "Discovery log page change";
    }
}

open_enum! {
    /// Values of [`AsyncEvent::info`] for [`AsyncEventType::IMMEDIATE`].
    pub enum AsyncImmediateInfo: u8 {
        NORMAL_SUBSYSTEM_SHUTDOWN = 0x00, "Normal NVM subsystem shutdown";
    }
}

open_enum! {
    /// Values of [`AsyncEvent::info`] for [`AsyncEventType::IO_COMMAND_SET`].
    pub enum AsyncIoCommandSetInfo: u8 {
        RESERVATION_LOG_AVAILABLE = 0x00, "Reservation log page available";
        SANITIZE_COMPLETED = 0x01, "Sanitize operation completed";
        SANITIZE_UNEXPECTED_DEALLOCATION = 0x02, "Sanitize operation completed with unexpected deallocation";
    }
}
