//! Going the way to a function: the first backend that the machine has.

use crate::device::Attached;
use crate::pci::{self, Function, Sysfs};
use crate::{Backend, Bdf, PciOptions, Refusal, Route, VfioError, cdev, container, noiommu};

/// Opens a function that is bound to a VFIO driver.
///
/// Where the machine lacks what a backend needs, the next is tried. Whatever else goes wrong ends the search: it would
/// go wrong on the next way too, with less to say about it.
pub(crate) fn attach(sysfs: &Sysfs, bdf: Bdf, options: &PciOptions) -> Result<(Attached, Route), VfioError> {
    let function = pci::function(sysfs, bdf).ok_or(VfioError::NoFunction { bdf })?;
    check(&function)?;
    let candidates = options.iommu.candidates();
    let mut refused = Vec::new();
    for backend in candidates.iter().copied() {
        match by(backend, sysfs, &function, options) {
            Ok(attached) => return Ok((attached, Route { backend, refused })),
            Err(error) if error.is_missing_requirement() && candidates.len() > 1 => {
                refused.push(Refusal { backend, reason: error.to_string() });
            }
            Err(error) => return Err(error),
        }
    }
    Err(VfioError::NoRoute { bdf, refused })
}

fn by(
    backend: Backend,
    sysfs: &Sysfs,
    function: &Function,
    options: &PciOptions,
) -> Result<Attached, VfioError> {
    match backend {
        Backend::Type1 => container::attach(sysfs, function, options.own_dma_space),
        Backend::Iommufd => cdev::attach(sysfs, function, options.own_dma_space),
        Backend::NoIommu => noiommu::attach(sysfs, function),
    }
}

fn check(function: &Function) -> Result<(), VfioError> {
    let bdf = function.bdf;
    if !function.is_nvme() {
        return Err(VfioError::NotNvme { bdf, class: function.class });
    }
    if !function.is_on_vfio() {
        return Err(VfioError::NotBound { bdf, driver: function.driver.clone() });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_function_must_be_an_nvme_controller_on_vfio_pci() {
        let root = tempfile::tempdir().unwrap();
        let (sysfs, bdf) = (Sysfs::at(root.path()), "0000:01:00.0".parse().unwrap());
        let text = || attach(&sysfs, bdf, &PciOptions::default()).err().unwrap().to_string();
        assert!(text().contains("no such PCI function"));
        let folder = root.path().join("sys/bus/pci/devices/0000:01:00.0");
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("class"), "0x030000\n").unwrap();
        assert!(text().contains("class 0x030000"), "{}", text());
        fs::write(folder.join("class"), "0x010802\n").unwrap();
        assert!(
            text().contains("bound to no driver, not to vfio-pci; run `warpbell bind 0000:01:00.0`"),
            "{}",
            text()
        );
        symlink("../../drivers/nvme", folder.join("driver")).unwrap();
        assert!(text().contains("bound to nvme"));
        fs::remove_file(folder.join("driver")).unwrap();
        symlink("../../drivers/vfio-pci", folder.join("driver")).unwrap();
        assert!(text().contains("type1: 0000:01:00.0: no IOMMU group"), "{}", text());
    }
}
