//! Names of devices: what a user types to say which SSD.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

/// A PCI function: `domain:bus:device.function`, written in full.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Bdf {
    /// PCI segment.
    pub domain: u16,
    /// Bus number.
    pub bus: u8,
    /// Device number, 0 to 31.
    pub device: u8,
    /// Function number, 0 to 7.
    pub function: u8,
}

/// Which SSD.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeviceName {
    /// `soft:OPTIONS`: the soft controller in this process; the options are those of `SoftConfig::parse`.
    Soft(String),
    /// `vfio-user:SOCKET`: a controller in another process.
    VfioUser(PathBuf),
    /// A PCI function, by its full or short address.
    Pci(Bdf),
    /// `sn:SERIAL`: a PCI function, by its controller's serial number.
    Serial(String),
}

/// A name that is none of the known forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "device '{name}': {reason}; expected soft:size=BYTES, soft:file=PATH, vfio-user:SOCKET, sn:SERIAL or a PCI \
     address such as 0000:41:00.0"
)]
pub struct DeviceNameError {
    name: String,
    reason: &'static str,
}

impl FromStr for DeviceName {
    type Err = DeviceNameError;

    fn from_str(name: &str) -> Result<DeviceName, DeviceNameError> {
        let error = |reason| DeviceNameError { name: name.to_owned(), reason };
        let filled =
            |rest: &str, reason| if rest.is_empty() { Err(error(reason)) } else { Ok(rest.to_owned()) };
        if let Some(rest) = name.strip_prefix("soft:") {
            return filled(rest, "nothing behind soft:").map(DeviceName::Soft);
        }
        if let Some(rest) = name.strip_prefix("vfio-user:") {
            return filled(rest, "no socket path").map(|path| DeviceName::VfioUser(path.into()));
        }
        if let Some(rest) = name.strip_prefix("sn:") {
            return filled(rest, "no serial number").map(DeviceName::Serial);
        }
        name.parse().map(DeviceName::Pci).map_err(|()| error("unknown form"))
    }
}

impl FromStr for Bdf {
    type Err = ();

    /// Takes `dddd:bb:dd.f` and `bb:dd.f` (domain 0), all in hexadecimal.
    fn from_str(text: &str) -> Result<Bdf, ()> {
        let (rest, function) = text.rsplit_once('.').ok_or(())?;
        let (rest, device) = rest.rsplit_once(':').ok_or(())?;
        let (domain, bus) = rest.rsplit_once(':').unwrap_or(("0000", rest));
        let hex = |digits: &str, width: usize| {
            let well_formed = digits.len() == width && digits.bytes().all(|b| b.is_ascii_hexdigit());
            if well_formed { u16::from_str_radix(digits, 16).map_err(|_| ()) } else { Err(()) }
        };
        let (device, function) = (hex(device, 2)? as u8, hex(function, 1)? as u8);
        if device > 31 || function > 7 {
            return Err(());
        }
        Ok(Bdf { domain: hex(domain, 4)?, bus: hex(bus, 2)? as u8, device, function })
    }
}

impl fmt::Display for Bdf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:04x}:{:02x}:{:02x}.{}", self.domain, self.bus, self.device, self.function)
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Soft(options) => write!(f, "soft:{options}"),
            DeviceName::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
            DeviceName::Pci(bdf) => bdf.fmt(f),
            DeviceName::Serial(serial) => write!(f, "sn:{serial}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in ["soft:size=1g", "vfio-user:/run/x.sock", "sn:S64X", "0000:41:00.0", "10de:0a:1f.7"] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("41:00.0".parse::<DeviceName>().unwrap().to_string(), "0000:41:00.0");
    }

    #[test]
    fn bad_names_are_repeated_with_a_reason() {
        for name in
            ["", "soft:", "vfio-user:", "sn:", "nvme0", "0000:41:20.0", "0000:41:00.8", "41:0.0", "+1:00.0"]
        {
            let text = name.parse::<DeviceName>().unwrap_err().to_string();
            assert!(text.starts_with(&format!("device '{name}': ")), "{text}");
        }
    }
}
