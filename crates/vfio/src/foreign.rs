//! Memory of other PCI functions, for rings and data: a BAR of a GPU, or of anything else that has memory there.

use std::fs::{self, OpenOptions};
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;

use warpbell_hw::Window;

use crate::config_bits::Command;
use crate::pci::{self, Function, Sysfs};
use crate::sys::Mapping;
use crate::{Bdf, VfioError, bridges};

/// A BAR of another function, as memory of this process.
///
/// The window is mapped for an SSD like any other, and only by type1: it takes the bus addresses from this process's
/// page table, once. Nothing tells it, or the SSD, if the other function is reset, unbound or unplugged later. So the
/// order on the way out is: queues deleted or controller disabled, then the mapping for the SSD, then the window, then
/// the owner of the memory. [`DmaBuffer`](warpbell_hw::DmaBuffer) keeps the window for as long as it is mapped; that
/// the function stays is up to the program that knows its owner.
pub struct ForeignMemory;

impl ForeignMemory {
    /// Maps BAR `bar` of `bdf`, which must be memory and decoded; write-combining where the BAR allows it. What a kernel
    /// driver owns is refused, and so are an NVMe controller's registers: they would be overwritten.
    pub fn open(bdf: Bdf, bar: u8) -> Result<Window, VfioError> {
        open(&Sysfs::system(), bdf, bar)
    }
}

fn open(sysfs: &Sysfs, bdf: Bdf, bar: u8) -> Result<Window, VfioError> {
    let function = pci::function(sysfs, bdf).ok_or(VfioError::NoFunction { bdf })?;
    if let Some(owner) = owner(&function, bar) {
        return Err(VfioError::Owned { bdf, bar, owner });
    }
    let folder = sysfs.path(function.folder());
    let refused = |reason| VfioError::Bar { bdf, bar, reason };
    let range = bridges::bar(sysfs, bdf, bar).ok_or_else(|| refused("is no memory BAR".to_owned()))?;
    if !decodes_memory(&folder).map_err(|source| VfioError::Config { bdf, offset: 4, source })? {
        let enable = folder.join("enable");
        let reason = format!("memory decode is off: echo 1 > {} while it has no driver", enable.display());
        return Err(refused(reason));
    }
    let combining = folder.join(format!("resource{bar}_wc"));
    let path = if combining.exists() { combining } else { folder.join(format!("resource{bar}")) };
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|source| {
        let remedy = "this needs root".to_owned();
        VfioError::Open { bdf, path: path.clone(), source, remedy }
    })?;
    let len = range.end - range.start;
    let mapping = Mapping::new(file.as_fd(), 0, len as usize).map_err(|error| {
        refused(format!(
            "{}: {error}; a kernel with IO_STRICT_DEVMEM refuses BARs that a driver has claimed: boot with iomem=relaxed",
            path.display()
        ))
    })?;
    Ok(Window::whole(Arc::new(mapping)))
}

/// Who would not survive that the BAR is overwritten.
fn owner(function: &Function, bar: u8) -> Option<String> {
    let lent = |driver: &str| function.is_on_vfio() || driver == "pci-stub";
    match function.driver.as_deref().filter(|driver| !lent(driver)) {
        Some(driver) => Some(format!("driver {driver}")),
        None if function.is_nvme() && bar == 0 => {
            Some("an NVMe controller, whose registers lie there".to_owned())
        }
        None => None,
    }
}

fn decodes_memory(folder: &Path) -> std::io::Result<bool> {
    let mut command = [0; 2];
    fs::File::open(folder.join("config"))?.read_exact_at(&mut command, 4)?;
    Ok(Command::from_bits_retain(u16::from_le_bytes(command)).contains(Command::MEMORY))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;

    /// A function with a BAR 2 of two pages, which is a file.
    fn fake(command: u8) -> (tempfile::TempDir, Sysfs, Bdf) {
        let root = tempfile::tempdir().unwrap();
        let folder = root.path().join("sys/bus/pci/devices/0000:03:00.0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("class"), "0x050000\n").unwrap();
        let none = "0x0 0x0 0x0\n";
        fs::write(folder.join("resource"), format!("{none}{none}0x38000000 0x38001fff 0x14220c\n")).unwrap();
        fs::write(folder.join("config"), [0, 0, 0, 0, command, 0]).unwrap();
        fs::File::create(folder.join("resource2")).unwrap().set_len(8192).unwrap();
        let sysfs = Sysfs::at(root.path());
        (root, sysfs, "0000:03:00.0".parse().unwrap())
    }

    #[test]
    fn a_bar_is_memory_by_words() {
        let (root, sysfs, bdf) = fake(2);
        let window = open(&sysfs, bdf, 2).unwrap();
        assert_eq!(
            (window.len(), window.memory().is_ordinary(), window.memory().file().is_some()),
            (8192, false, false)
        );
        window.store_u32(4096, 0xabcd, Ordering::Relaxed);
        let file = fs::read(root.path().join("sys/bus/pci/devices/0000:03:00.0/resource2")).unwrap();
        assert_eq!(file[4096..4100], [0xcd, 0xab, 0, 0]);
    }

    #[test]
    fn what_cannot_be_mapped_is_named() {
        let (_root, sysfs, bdf) = fake(0);
        let text = |bdf, bar| open(&sysfs, bdf, bar).unwrap_err().to_string();
        assert!(text(bdf, 2).contains("0000:03:00.0: BAR 2: memory decode is off"), "{}", text(bdf, 2));
        assert!(text(bdf, 0).contains("BAR 0: is no memory BAR"));
        assert!(text("0000:04:00.0".parse().unwrap(), 0).contains("no such PCI function"));
    }

    #[test]
    fn what_others_use_is_not_overwritten() {
        let (root, sysfs, bdf) = fake(2);
        let folder = root.path().join("sys/bus/pci/devices/0000:03:00.0");
        let bound = |driver: &str| {
            let _ = fs::remove_file(folder.join("driver"));
            std::os::unix::fs::symlink(format!("../../drivers/{driver}"), folder.join("driver")).unwrap();
        };
        bound("nvme");
        let error = open(&sysfs, bdf, 2).unwrap_err();
        assert!(matches!(&error, VfioError::Owned { owner, .. } if owner == "driver nvme"), "{error}");
        assert!(error.to_string().contains("0000:03:00.0: BAR 2 belongs to driver nvme"), "{error}");
        bound("vfio-pci");
        assert_eq!(open(&sysfs, bdf, 2).unwrap().len(), 8192);
        fs::write(folder.join("class"), "0x010802\n").unwrap();
        assert!(matches!(open(&sysfs, bdf, 0), Err(VfioError::Owned { .. })), "registers");
        assert_eq!(open(&sysfs, bdf, 2).unwrap().len(), 8192, "a controller memory buffer");
    }
}
