//! NVIDIA's kernel driver.

use std::fmt;

use warpbell_vfio::pci::Sysfs;

/// NVIDIA's kernel driver, as `/proc/driver/nvidia` shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Nvidia {
    /// Its version, such as `580.65.06`.
    pub version: String,
    /// Whether it is the open kernel module.
    pub open: bool,
    /// Whether users who are not administrators may register BAR pages (`PeerMappingOverride=1`); nothing where its
    /// parameters could not be read.
    pub peer_mapping_override: Option<bool>,
    /// gdrdrv, where it is loaded.
    pub gdrdrv: Option<Gdrdrv>,
}

/// The kernel module of GDRCopy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Gdrdrv {
    /// Its version, where it says one.
    pub version: Option<String>,
    /// Whether it has registered its device (`/proc/devices`), behind `/dev/gdrdrv`.
    pub registered: bool,
}

impl Gdrdrv {
    fn read(sysfs: &Sysfs) -> Option<Gdrdrv> {
        let module = "/sys/module/gdrdrv";
        let devices = sysfs.text("/proc/devices").unwrap_or_default();
        let registered = devices.lines().any(|line| line.split_whitespace().nth(1) == Some("gdrdrv"));
        (registered || sysfs.exists(module))
            .then(|| Gdrdrv { version: sysfs.text(format!("{module}/version")), registered })
    }

    /// Whether it can be spoken to: its device is there, and its version, where it says one, is 2.0 or newer, but not 3.
    pub fn is_usable(&self) -> bool {
        let major = self.version.as_deref().map(|version| version.split('.').next() == Some("2"));
        self.registered && major.unwrap_or(true)
    }
}

impl Nvidia {
    pub(super) fn read(sysfs: &Sysfs) -> Option<Nvidia> {
        let text = sysfs.text("/proc/driver/nvidia/version")?;
        let line = text.lines().find(|line| line.starts_with("NVRM version:"))?;
        let is_version = |word: &&str| {
            word.contains('.') && word.split('.').all(|part| part.bytes().all(|b| b.is_ascii_digit()))
        };
        let version = line.split_whitespace().find(is_version)?.to_owned();
        let parameters = sysfs.text("/proc/driver/nvidia/params");
        let overridden = |text: String| text.replace(' ', "").contains("PeerMappingOverride=1");
        Some(Nvidia {
            version,
            open: line.contains("Open Kernel Module"),
            peer_mapping_override: parameters.map(overridden),
            gdrdrv: Gdrdrv::read(sysfs),
        })
    }

    /// Whether its version is `wanted`, such as `[580]` or `[570, 86, 15]`, or newer.
    pub fn is_at_least(&self, wanted: &[u32]) -> bool {
        let has: Vec<u32> = self.version.split('.').filter_map(|part| part.parse().ok()).collect();
        has.as_slice() >= wanted
    }
}

/// As reports name it.
impl fmt::Display for Gdrdrv {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.version.as_deref().unwrap_or("of unknown version"))?;
        f.write_str(if self.registered { ", with its device" } else { ", but without its device" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_compare_by_their_numbers() {
        let nvidia = Nvidia { version: "580.65.06".to_owned(), ..Nvidia::default() };
        assert!(nvidia.is_at_least(&[580]) && nvidia.is_at_least(&[570, 86, 15]));
        assert!(nvidia.is_at_least(&[580, 65, 6]));
        assert!(!nvidia.is_at_least(&[580, 65, 7]) && !nvidia.is_at_least(&[610, 43, 2]));
    }
}
