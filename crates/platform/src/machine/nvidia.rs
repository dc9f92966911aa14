//! NVIDIA's kernel driver.

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
    /// Whether gdrdrv is loaded.
    pub gdrdrv: bool,
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
            gdrdrv: sysfs.exists("/sys/module/gdrdrv"),
        })
    }

    /// Whether its version is `wanted`, such as `[580]` or `[570, 86, 15]`, or newer.
    pub fn is_at_least(&self, wanted: &[u32]) -> bool {
        let has: Vec<u32> = self.version.split('.').filter_map(|part| part.parse().ok()).collect();
        has.as_slice() >= wanted
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
