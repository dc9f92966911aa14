//! Which device, and what may be done to it.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use warpbell::driver::DoorbellBuffer;
use warpbell::{DeviceName, RingPlacement, Target};

use crate::exit::Ending;

/// Which device, and what may be done to it.
#[derive(Clone, Debug, Args)]
pub struct DeviceArgs {
    /// The device: soft:size=1g, soft:file=PATH
    #[arg(value_name = "DEVICE", conflicts_with = "device")]
    pub positional: Option<DeviceName>,
    /// The device, as an option
    #[arg(short, long, value_name = "DEVICE")]
    pub device: Option<DeviceName>,
    /// Where kernels run: cpu or cuda:N
    #[arg(long, default_value = "cpu")]
    pub target: Target,
    /// Permit writes to the device with this path, serial number or PCI address
    #[arg(long, value_name = "PATH|SERIAL|BDF", require_equals = true)]
    pub allow_write: Option<String>,
    /// Faults for the software controller to inject, as TOML
    #[arg(long, value_name = "PLAN")]
    pub fault: Option<PathBuf>,
    /// Doorbells in memory that the controller polls (Doorbell Buffer Config): auto, on or off
    #[arg(long, value_name = "WHEN", value_enum, default_value_t = Dbbuf::Auto, hide_short_help = true)]
    pub dbbuf: Dbbuf,
    /// Where rings lie: host, or cmb (submission rings in the controller memory buffer)
    #[arg(long, value_name = "PLACE", value_enum, default_value_t = Rings::Host, hide_short_help = true)]
    pub rings: Rings,
    /// 32-bit command identifiers (experimental; soft:...,wide_cids=on offers them)
    #[arg(long, hide_short_help = true)]
    pub wide_cids: bool,
}

/// Where rings lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Rings {
    /// In host memory.
    Host,
    /// Submission rings in the controller memory buffer.
    Cmb,
}

impl From<Rings> for RingPlacement {
    fn from(rings: Rings) -> RingPlacement {
        match rings {
            Rings::Host => RingPlacement::Host,
            Rings::Cmb => RingPlacement::Cmb,
        }
    }
}

/// When doorbells go through memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Dbbuf {
    /// Where the controller offers it.
    Auto,
    /// Always; opening fails where it cannot be had.
    On,
    /// Never.
    Off,
}

impl From<Dbbuf> for DoorbellBuffer {
    fn from(dbbuf: Dbbuf) -> DoorbellBuffer {
        match dbbuf {
            Dbbuf::Auto => DoorbellBuffer::Auto,
            Dbbuf::On => DoorbellBuffer::On,
            Dbbuf::Off => DoorbellBuffer::Off,
        }
    }
}

impl DeviceArgs {
    /// The device's name.
    pub fn name(&self) -> Result<&DeviceName, Ending> {
        let missing = "no device: name one, such as soft:size=1g or soft:file=PATH";
        self.device.as_ref().or(self.positional.as_ref()).ok_or_else(|| Ending::usage(missing))
    }
}
