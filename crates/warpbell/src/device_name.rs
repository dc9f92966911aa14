//! Names of devices: what a user types to say which SSD.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use warpbell_vfio::{Bdf, pci};

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
    /// `/dev/nvme0` or `/dev/nvme0n1`: a PCI function that the kernel's driver owns.
    Node(String),
    /// `resident:OPTIONS`: the GPU-resident controller, which only `warpbell bench` has clients for.
    Resident(String),
}

/// A name that is none of the known forms.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "device '{name}': {reason}; expected soft:size=BYTES, soft:file=PATH, vfio-user:SOCKET, sn:SERIAL, /dev/nvmeN, or a \
     PCI address such as 0000:41:00.0"
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
        if let Some(node) = name.strip_prefix("/dev/") {
            return filled(node, "nothing behind /dev/").map(DeviceName::Node);
        }
        if let Some(rest) = name.strip_prefix("resident:") {
            return Ok(DeviceName::Resident(rest.to_owned()));
        }
        name.parse().map(DeviceName::Pci).map_err(|()| error("unknown form"))
    }
}

impl DeviceName {
    /// The name as that of a PCI function, if it is one.
    pub fn function(&self) -> Option<pci::Name> {
        match self {
            DeviceName::Pci(bdf) => Some(pci::Name::Bdf(*bdf)),
            DeviceName::Serial(serial) => Some(pci::Name::Serial(serial.clone())),
            DeviceName::Node(node) => Some(pci::Name::Node(node.clone())),
            DeviceName::Soft(_) | DeviceName::VfioUser(_) | DeviceName::Resident(_) => None,
        }
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceName::Soft(options) => write!(f, "soft:{options}"),
            DeviceName::VfioUser(path) => write!(f, "vfio-user:{}", path.display()),
            DeviceName::Pci(bdf) => bdf.fmt(f),
            DeviceName::Serial(serial) => write!(f, "sn:{serial}"),
            DeviceName::Node(node) => write!(f, "/dev/{node}"),
            DeviceName::Resident(options) => write!(f, "resident:{options}"),
        }
    }
}

/// A device, or a file of the file system on it: `soft:file=disk.img#/a.bin`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Named {
    /// The device.
    pub device: DeviceName,
    /// The file's path in the file system: what stands behind the first `#`, where a `/` follows it.
    pub path: Option<String>,
}

impl FromStr for Named {
    type Err = DeviceNameError;

    fn from_str(text: &str) -> Result<Named, DeviceNameError> {
        match text.find("#/") {
            None => Ok(Named { device: text.parse()?, path: None }),
            Some(at) => Ok(Named { device: text[..at].parse()?, path: Some(text[at + 1..].to_owned()) }),
        }
    }
}

impl fmt::Display for Named {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.device.fmt(f)?;
        self.path.as_ref().map_or(Ok(()), |path| write!(f, "#{path}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for name in [
            "soft:size=1g",
            "vfio-user:/run/x.sock",
            "sn:S64X",
            "/dev/nvme0n1",
            "0000:41:00.0",
            "10de:0a:1f.7",
            "resident:",
            "resident:delay=10us",
        ] {
            assert_eq!(name.parse::<DeviceName>().unwrap().to_string(), name);
        }
        assert_eq!("41:00.0".parse::<DeviceName>().unwrap().to_string(), "0000:41:00.0");
    }

    #[test]
    fn bad_names_are_repeated_with_a_reason() {
        for name in [
            "",
            "soft:",
            "vfio-user:",
            "sn:",
            "/dev/",
            "nvme0",
            "0000:41:20.0",
            "0000:41:00.8",
            "41:0.0",
            "+1:00.0",
        ] {
            let text = name.parse::<DeviceName>().unwrap_err().to_string();
            assert!(text.starts_with(&format!("device '{name}': ")), "{text}");
        }
    }

    #[test]
    fn a_file_is_named_behind_the_first_mark() {
        for (text, path) in [
            ("soft:file=a#b.img", None),
            ("soft:file=a.img#/", Some("/")),
            ("soft:file=a.img#/b#/c", Some("/b#/c")),
            ("0000:41:00.0#/b", Some("/b")),
        ] {
            let named: Named = text.parse().unwrap();
            assert_eq!((named.path.as_deref(), named.to_string()), (path, text.to_owned()));
        }
        assert!("nvme#/b".parse::<Named>().unwrap_err().to_string().starts_with("device 'nvme': "));
    }
}
