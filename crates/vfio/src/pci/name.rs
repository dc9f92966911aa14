//! Names of PCI functions: addresses, serial numbers, and nodes of the kernel's driver.

use std::fmt;
use std::str::FromStr;

use super::{Bdf, Function, PciError, Sysfs, functions};

/// What a user types to say which function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// `0000:41:00.0` or `41:00.0`.
    Bdf(Bdf),
    /// `sn:SERIAL`.
    Serial(String),
    /// `/dev/nvme0` or `/dev/nvme0n1`, while the kernel's driver owns the function.
    Node(String),
}

/// A name of no known form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("device '{0}': expected a PCI address such as 0000:41:00.0, sn:SERIAL or /dev/nvmeN")]
pub struct NameError(String);

impl FromStr for Name {
    type Err = NameError;

    fn from_str(text: &str) -> Result<Name, NameError> {
        if let Some(serial) = text.strip_prefix("sn:").filter(|serial| !serial.is_empty()) {
            return Ok(Name::Serial(serial.to_owned()));
        }
        if let Some(node) = text.strip_prefix("/dev/").filter(|node| !node.is_empty()) {
            return Ok(Name::Node(node.to_owned()));
        }
        text.parse().map(Name::Bdf).map_err(|()| NameError(text.to_owned()))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Name::Bdf(bdf) => bdf.fmt(f),
            Name::Serial(serial) => write!(f, "sn:{serial}"),
            Name::Node(node) => write!(f, "/dev/{node}"),
        }
    }
}

impl Name {
    /// The function of this name. An address is taken at its word.
    pub fn resolve(&self, sysfs: &Sysfs) -> Result<Bdf, PciError> {
        match self {
            Name::Bdf(bdf) => Ok(*bdf),
            Name::Serial(serial) => Ok(find_by_serial(sysfs, serial)?.bdf),
            Name::Node(node) => {
                let owns = |function: &Function| owns(function, node);
                only(self, functions(sysfs).into_iter().filter(owns).collect(), || {
                    "no controller or namespace of the kernel's nvme driver has this name; a function that another driver \
                     owns is named by its PCI address (see warpbell list)"
                        .to_owned()
                })
                .map(|function| function.bdf)
            }
        }
    }
}

/// Whether `node` is a controller or namespace of the function.
fn owns(function: &Function, node: &str) -> bool {
    let generic = node.strip_prefix("ng").map(|rest| format!("nvme{rest}"));
    let node = generic.as_deref().unwrap_or(node);
    function.controllers.iter().any(|controller| controller.name == node)
        || function.namespaces.iter().any(|namespace| namespace.name == node)
}

/// The NVMe function whose controller has this serial number, among those that a kernel driver owns and those whose
/// serial number was noted when `warpbell bind` bound them.
pub fn find_by_serial(sysfs: &Sysfs, serial: &str) -> Result<Function, PciError> {
    let all = functions(sysfs);
    let silent: Vec<String> =
        all.iter().filter(|f| f.serial().is_none()).map(|f| f.bdf.to_string()).collect();
    let found = all.into_iter().filter(|function| function.serial() == Some(serial)).collect();
    only(&Name::Serial(serial.to_owned()), found, || match silent.is_empty() {
        true => "no NVMe function of this machine has this serial number (see warpbell list)".to_owned(),
        false => format!(
            "no NVMe function is known to have this serial number; it is not known of {}, which no nvme driver owns and \
             which warpbell bind did not bind: name it by its PCI address",
            silent.join(" and ")
        ),
    })
}

/// The only one of `found`.
fn only(name: &Name, found: Vec<Function>, none: impl Fn() -> String) -> Result<Function, PciError> {
    let mut found = found.into_iter();
    match (found.next(), found.next()) {
        (Some(one), None) => Ok(one),
        (Some(one), Some(other)) => Err(PciError::Unresolved {
            name: name.to_string(),
            reason: format!("{} and {} both have it; name one by its PCI address", one.bdf, other.bdf),
        }),
        (None, _) => Err(PciError::Unresolved { name: name.to_string(), reason: none() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::fake::Fake;

    fn resolve(fake: &Fake, name: &str) -> Result<String, String> {
        let name: Name = name.parse().unwrap();
        name.resolve(&fake.sysfs()).map(|bdf| bdf.to_string()).map_err(|error| error.to_string())
    }

    #[test]
    fn names_lead_to_functions() {
        let fake = Fake::new();
        fake.ssd("0000:41:00.0", 0, "S64X");
        fake.ssd("0000:01:00.0", 1, "S65X");
        for (name, bdf) in [
            ("41:00.0", "0000:41:00.0"),
            ("sn:S65X", "0000:01:00.0"),
            ("/dev/nvme0", "0000:41:00.0"),
            ("/dev/nvme1n1", "0000:01:00.0"),
            ("/dev/ng1n1", "0000:01:00.0"),
        ] {
            assert_eq!(resolve(&fake, name).as_deref(), Ok(bdf), "{name}");
        }
        assert!(resolve(&fake, "sn:S66X").unwrap_err().contains("sn:S66X"));
        assert!(resolve(&fake, "/dev/nvme7").unwrap_err().contains("PCI address"));
        for name in ["", "sn:", "/dev/", "nvme0", "41:00"] {
            assert!(name.parse::<Name>().unwrap_err().to_string().contains(&format!("'{name}'")));
        }
    }

    #[test]
    fn a_serial_number_that_cannot_be_known_is_said_to_be_so() {
        let fake = Fake::new();
        fake.ssd("0000:41:00.0", 0, "S64X");
        fake.set_driver("0000:41:00.0", Some("vfio-pci"));
        let error = resolve(&fake, "sn:S64X").unwrap_err();
        assert!(error.contains("0000:41:00.0") && error.contains("PCI address"), "{error}");
    }

    #[test]
    fn two_paths_to_one_serial_number_are_ambiguous() {
        let fake = Fake::new();
        fake.ssd("0000:41:00.0", 0, "S64X");
        fake.ssd("0000:42:00.0", 1, "S64X");
        let error = resolve(&fake, "sn:S64X").unwrap_err();
        assert!(error.contains("0000:41:00.0 and 0000:42:00.0"), "{error}");
    }
}
