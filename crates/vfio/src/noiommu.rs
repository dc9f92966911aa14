//! No-IOMMU mode: the device gets physical addresses, and may reach all memory of the machine.

use std::fs::{self, OpenOptions};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::io::Errno;
use vfio_bindings::bindings::vfio as abi;
use warpbell_hw::{ResetError, ResetKind};

use crate::device::{Attached, Ownership};
use crate::pci::{Function, Sysfs};
use crate::physical::{PAGEMAP, PhysicalSpace};
use crate::sys;
use crate::{Backend, Bdf, VfioError};

/// The kernel's permission.
const PARAMETER: &str = "/sys/module/vfio/parameters/enable_unsafe_noiommu_mode";

/// The container and the group of a function: its file works as long as they are open.
struct Held {
    group: OwnedFd,
    _container: OwnedFd,
}

/// Opens a function without an IOMMU. Only for whom has asked for it by name.
pub(crate) fn attach(sysfs: &Sysfs, function: &Function) -> Result<Attached, VfioError> {
    let (bdf, node) = (function.bdf, node(sysfs, function)?);
    let needs_root = "no-IOMMU mode needs CAP_SYS_RAWIO and CAP_SYS_ADMIN: run it as root";
    let container =
        open(bdf, Path::new("/dev/vfio/vfio"), "load the kernel's VFIO modules: modprobe vfio-pci")?;
    let group = open(bdf, &node, &format!("{needs_root}, and end what else has the function open"))?;
    let call = VfioError::call(bdf);
    sys::group::set_container(group.as_fd(), container.as_fd()).map_err(&call)?;
    sys::group::set_iommu(container.as_fd(), abi::VFIO_NOIOMMU_IOMMU).map_err(&call)?;
    let device = sys::group::device(group.as_fd(), &bdf.to_string()).map_err(&call)?;
    let space = PhysicalSpace::new().map_err(|source| VfioError::Open {
        bdf,
        path: PAGEMAP.into(),
        source,
        remedy: needs_root.to_owned(),
    })?;
    tracing::warn!(%bdf, "{}", Backend::NoIommu.warning().unwrap_or_default());
    let ownership = Box::new(Held { group, _container: container });
    Ok(Attached { device, space: Arc::new(space), ownership })
}

/// The node of the function's group; or what keeps it from being there.
fn node(sysfs: &Sysfs, function: &Function) -> Result<PathBuf, VfioError> {
    let bdf = function.bdf;
    let allowed = fs::read_to_string(sysfs.path(PARAMETER));
    let (what, remedy) = match (&function.group, allowed.as_deref().map(str::trim)) {
        (Some(group), _) if group.no_iommu => return Ok(group.node().into()),
        (Some(group), _) => (
            format!(
                "an IOMMU translates for it (group {}), and no-IOMMU mode is for machines without one",
                group.number
            ),
            "use it with --iommu auto".to_owned(),
        ),
        (None, Ok("Y")) => (
            "it was bound to vfio-pci before no-IOMMU mode was allowed".to_owned(),
            format!("bind it again: warpbell unbind {bdf}, then warpbell bind {bdf}"),
        ),
        (None, Ok(_)) => (
            "the kernel does not allow no-IOMMU mode".to_owned(),
            format!("as root: echo 1 > {}, then warpbell bind {bdf}", PARAMETER),
        ),
        (None, Err(_)) => (
            "the kernel has no no-IOMMU mode (CONFIG_VFIO_NOIOMMU), or no VFIO".to_owned(),
            "turn the IOMMU on in the firmware and in the kernel instead, which is safer too".to_owned(),
        ),
    };
    Err(VfioError::Missing { bdf, what, remedy })
}

fn open(bdf: Bdf, path: &Path, remedy: &str) -> Result<OwnedFd, VfioError> {
    let file = OpenOptions::new().read(true).write(true).open(path);
    let failed = |source| VfioError::Open { bdf, path: path.to_owned(), source, remedy: remedy.to_owned() };
    Ok(file.map_err(failed)?.into())
}

impl Ownership for Held {
    fn hot_reset(&self, device: BorrowedFd<'_>) -> Result<(), ResetError> {
        let kind = ResetKind::Function;
        sys::device::hot_reset(device, &[self.group.as_fd()]).map_err(|error| match error.errno() {
            Some(Errno::NODEV | Errno::INVAL | Errno::PERM) => {
                let reason = "a reset of its bus is not there, or resets other functions too".to_owned();
                ResetError::Unavailable { kind, reason }
            }
            _ => ResetError::System { kind, source: error.source },
        })
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::pci;

    const SSD: &str = "0000:01:00.0";

    /// The node, or what stands in the way, for a function whose group has this name, or that has none, and with this
    /// in the kernel's parameter.
    fn found(group_name: Option<&str>, parameter: Option<&str>) -> Result<PathBuf, String> {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path.trim_start_matches('/'));
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        write(&format!("sys/bus/pci/devices/{SSD}/class"), "0x010802\n");
        if let Some(name) = group_name {
            let link = root.path().join(format!("sys/bus/pci/devices/{SSD}/iommu_group"));
            symlink("../../../../kernel/iommu_groups/7", link).unwrap();
            write("sys/kernel/iommu_groups/7/name", name);
        }
        if let Some(parameter) = parameter {
            write(PARAMETER, parameter);
        }
        let sysfs = Sysfs::at(root.path());
        let function = pci::function(&sysfs, SSD.parse().unwrap()).unwrap();
        node(&sysfs, &function).map_err(|error| error.to_string())
    }

    #[test]
    fn the_node_is_that_of_the_group_that_vfio_made() {
        assert_eq!(found(Some("vfio-noiommu\n"), Some("Y\n")), Ok("/dev/vfio/noiommu-7".into()));
    }

    #[test]
    fn what_stands_in_the_way_of_no_iommu_mode_is_told_with_the_way_out() {
        let refusal = |group, parameter| found(group, parameter).unwrap_err();
        assert!(refusal(Some(""), Some("Y\n")).contains("an IOMMU translates for it (group 7)"));
        let not_allowed = refusal(None, Some("N\n"));
        assert!(
            not_allowed.contains("echo 1 > ") && not_allowed.contains("warpbell bind 0000:01:00.0"),
            "{not_allowed}"
        );
        assert!(refusal(None, Some("Y\n")).contains("bind it again"));
        assert!(refusal(None, None).contains("CONFIG_VFIO_NOIOMMU"));
    }
}
