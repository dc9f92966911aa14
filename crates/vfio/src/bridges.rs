//! Bus addresses: those of a function's BARs, and those that the bridges above it forward.

use std::fs;
use std::ops::Range;
use std::path::{Path, PathBuf};

use crate::Bdf;
use crate::pci::Sysfs;

/// Bus addresses that the bridges above a function forward downwards. An IOVA in there might reach a neighbour in
/// place of the IOMMU.
pub(crate) fn windows(sysfs: &Sysfs, bdf: Bdf) -> Vec<Range<u64>> {
    let Ok(path) = fs::canonicalize(folder(sysfs, bdf)) else { return Vec::new() };
    let bridges = path.ancestors().skip(1).take_while(|folder| is_function(folder));
    bridges.flat_map(|folder| resources(folder).into_iter().flatten()).collect()
}

/// Bus addresses of a BAR of memory; nothing where there is no such BAR.
pub fn bar(sysfs: &Sysfs, bdf: Bdf, bar: u8) -> Option<Range<u64>> {
    resources(&folder(sysfs, bdf)).into_iter().nth(bar.into()).flatten()
}

fn folder(sysfs: &Sysfs, bdf: Bdf) -> PathBuf {
    sysfs.path(format!("/sys/bus/pci/devices/{bdf}"))
}

fn is_function(folder: &Path) -> bool {
    folder.file_name().is_some_and(|name| name.to_string_lossy().parse::<Bdf>().is_ok())
}

/// The memory ranges of `resource`, a line each: first BARs and ROM, then what a bridge forwards.
fn resources(folder: &Path) -> Vec<Option<Range<u64>>> {
    let text = fs::read_to_string(folder.join("resource")).unwrap_or_default();
    text.lines().map(memory).collect()
}

/// First and last address, and flags.
fn memory(line: &str) -> Option<Range<u64>> {
    const MEMORY: u64 = 0x200;
    let hex = |text: &str| u64::from_str_radix(text.trim_start_matches("0x"), 16).ok();
    let mut fields = line.split_whitespace().map(hex);
    let (start, last, flags) = (fields.next()??, fields.next()??, fields.next()??);
    (flags & MEMORY != 0 && last > start && last < u64::MAX).then(|| start..last + 1)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn windows_are_the_memory_resources_of_bridges_only() {
        let root = tempfile::tempdir().unwrap();
        let port = root.path().join("sys/devices/pci0000:00/0000:00:02.0");
        let ssd = port.join("0000:01:00.0");
        fs::create_dir_all(&ssd).unwrap();
        fs::write(ssd.join("resource"), "0x00000000fe800000 0x00000000fe803fff 0x0000000000140204\n")
            .unwrap();
        let forwarded = "0x0000000000000000 0x0000000000000000 0x0000000000000000\n\
                         0x000000000000c000 0x000000000000cfff 0x0000000000000101\n\
                         0x00000000fe800000 0x00000000fe9fffff 0x0000000000000200\n\
                         0x0000380000000000 0x00003807ffffffff 0x000000000014220c\n";
        fs::write(port.join("resource"), forwarded).unwrap();
        let devices = root.path().join("sys/bus/pci/devices");
        fs::create_dir_all(&devices).unwrap();
        symlink(&ssd, devices.join("0000:01:00.0")).unwrap();
        let (sysfs, bdf) = (Sysfs::at(root.path()), "0000:01:00.0".parse().unwrap());
        assert_eq!(windows(&sysfs, bdf), [0xfe80_0000..0xfea0_0000, 0x3800_0000_0000..0x3808_0000_0000]);
        assert_eq!(bar(&sysfs, bdf, 0), Some(0xfe80_0000..0xfe80_4000));
        assert_eq!(bar(&sysfs, bdf, 1), None);
    }
}
