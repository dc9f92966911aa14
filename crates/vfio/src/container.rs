//! Groups and type1 containers: one way to a device and its DMA space.
//!
//! All type1 devices of a process share one container, and with it one DMA space, unless a device asks for its own:
//! a buffer that was mapped once is then reached by every SSD at the same address, and counts once against the limit
//! of locked memory. The price is that an SSD which goes astray reaches the buffers of the others.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::io::Errno;
use vfio_bindings::bindings::vfio as abi;
use warpbell_hw::{ResetError, ResetKind};

use crate::device::{Attached, Ownership};
use crate::info::{Type1Info, dependents};
use crate::pci::{self, Function, Sysfs};
use crate::space::{AddressSpace, IommuLimits};
use crate::sys::{self, SysError};
use crate::{Bdf, VfioError, bridges};

/// The space that devices of this process share, while one of them is open or something is mapped there.
static SHARED: Mutex<Weak<Space>> = Mutex::new(Weak::new());

type Space = AddressSpace<Container>;

/// A container and its groups.
pub(crate) struct Container {
    file: OwnedFd,
    groups: Mutex<BTreeMap<u32, Group>>,
}

struct Group {
    file: OwnedFd,
    /// Open devices of the group. The kernel would open one twice.
    devices: BTreeSet<Bdf>,
}

/// A device's share in its group.
struct Membership {
    space: Arc<Space>,
    bdf: Bdf,
    group: u32,
}

/// Opens a function through its group, in the shared container or one of its own.
pub(crate) fn attach(sysfs: &Sysfs, function: &Function, own_space: bool) -> Result<Attached, VfioError> {
    let bdf = function.bdf;
    let group = function.group.as_ref().filter(|group| !group.no_iommu).ok_or(VfioError::NoGroup { bdf })?;
    if own_space {
        return enter(&found(sysfs, bdf, group)?, bdf, group.number);
    }
    let mut shared = SHARED.lock();
    if let Some(space) = shared.upgrade()
        && join(&space, sysfs, bdf, group)?
    {
        return enter(&space, bdf, group.number);
    }
    let space = found(sysfs, bdf, group)?;
    *shared = Arc::downgrade(&space);
    enter(&space, bdf, group.number)
}

/// A new container, with the function's group.
fn found(sysfs: &Sysfs, bdf: Bdf, group: &pci::Group) -> Result<Arc<Space>, VfioError> {
    let container = Container::open(bdf)?;
    let file = container.add_group(bdf, group)?;
    let kind = abi::VFIO_TYPE1v2_IOMMU;
    sys::group::set_iommu(container.file.as_fd(), kind).map_err(|error| join_error(bdf, error))?;
    let limits = container.limits(bdf)?;
    container.groups.lock().insert(group.number, Group { file, devices: BTreeSet::new() });
    let space = Arc::new(AddressSpace::new(container, &limits));
    space.narrow(&limits, bridges::windows(sysfs, bdf));
    Ok(space)
}

/// Adds the function's group to a container, unless it is there already. False if the container has no group any
/// more: it has forgotten its IOMMU then.
fn join(space: &Arc<Space>, sysfs: &Sysfs, bdf: Bdf, group: &pci::Group) -> Result<bool, VfioError> {
    let container = space.iommu();
    let mut groups = container.groups.lock();
    if groups.is_empty() {
        return Ok(false);
    }
    if let Entry::Vacant(slot) = groups.entry(group.number) {
        let file = container.add_group(bdf, group)?;
        slot.insert(Group { file, devices: BTreeSet::new() });
        space.narrow(&container.limits(bdf)?, bridges::windows(sysfs, bdf));
    }
    Ok(true)
}

/// Opens the function in its group.
fn enter(space: &Arc<Space>, bdf: Bdf, group: u32) -> Result<Attached, VfioError> {
    let mut groups = space.iommu().groups.lock();
    let entry = groups.entry(group);
    let Entry::Occupied(mut entry) = entry else {
        return Err(VfioError::Missing {
            bdf,
            what: format!("IOMMU group {group} was closed at the same time"),
            remedy: "open the device again".to_owned(),
        });
    };
    if !entry.get_mut().devices.insert(bdf) {
        return Err(VfioError::InUse { bdf });
    }
    // From here on the membership takes back what was done.
    let membership = Membership { space: space.clone(), bdf, group };
    let device = sys::group::device(entry.get().file.as_fd(), &bdf.to_string());
    drop(groups);
    let device = device.map_err(VfioError::call(bdf))?;
    Ok(Attached { device, space: space.clone(), ownership: Box::new(membership) })
}

impl Container {
    fn open(bdf: Bdf) -> Result<Container, VfioError> {
        let path = Path::new("/dev/vfio/vfio");
        let file = open(path).map_err(|source| {
            let remedy = match source.kind() {
                io::ErrorKind::NotFound => "load the kernel's VFIO modules: modprobe vfio-pci".to_owned(),
                _ => format!("let this user open it: chmod 666 {}", path.display()),
            };
            VfioError::Open { bdf, path: path.to_owned(), source, remedy }
        })?;
        let missing = |what: String| {
            let remedy = "load it: modprobe vfio_iommu_type1".to_owned();
            VfioError::Missing { bdf, what, remedy }
        };
        if sys::iommufd::is_iommufd(file.as_fd()) {
            let what =
                format!("{} is an iommufd in a container's clothes, which maps no BARs", path.display());
            let remedy =
                "use the kernel's own type1 container (CONFIG_VFIO_CONTAINER), or iommufd (--iommu iommufd)";
            return Err(VfioError::Missing { bdf, what, remedy: remedy.to_owned() });
        }
        let version = sys::group::api_version(file.as_fd()).map_err(VfioError::call(bdf))?;
        if version != abi::VFIO_API_VERSION {
            return Err(missing(format!("VFIO interface version {version}, not {}", abi::VFIO_API_VERSION)));
        }
        let type1 = sys::group::has_extension(file.as_fd(), abi::VFIO_TYPE1v2_IOMMU);
        if !type1.map_err(VfioError::call(bdf))? {
            return Err(missing("the kernel has no type1 IOMMU backend (VFIO_TYPE1v2_IOMMU)".to_owned()));
        }
        Ok(Container { file, groups: Mutex::default() })
    }

    pub(crate) fn file(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }

    /// Opens a group and puts it into the container.
    fn add_group(&self, bdf: Bdf, group: &pci::Group) -> Result<OwnedFd, VfioError> {
        let file = open_group(bdf, &group.node())?;
        let status = sys::group::status(file.as_fd()).map_err(VfioError::call(bdf))?;
        if status & abi::VFIO_GROUP_FLAGS_VIABLE == 0 {
            return Err(not_viable(bdf, group));
        }
        sys::group::set_container(file.as_fd(), self.file.as_fd()).map_err(|error| join_error(bdf, error))?;
        Ok(file)
    }

    /// What all groups together leave.
    fn limits(&self, bdf: Bdf) -> Result<IommuLimits, VfioError> {
        let bytes = sys::type1::info(self.file.as_fd()).map_err(VfioError::call(bdf))?;
        let info = Type1Info::parse(&bytes).map_err(|source| VfioError::Malformed { bdf, source })?;
        let limits = limits(&info);
        tracing::debug!(%bdf, ?limits, "type1 IOMMU");
        Ok(limits)
    }

    /// Lets a group go with its last device, so that others may have it; except that the last group stays while
    /// something is mapped: the mappings would go with it.
    fn leave(&self, bdf: Bdf, group: u32, mapped: usize) {
        let mut groups = self.groups.lock();
        let others = groups.len() > 1;
        if let Some(entry) = groups.get_mut(&group) {
            entry.devices.remove(&bdf);
            if entry.devices.is_empty() && (others || mapped == 0) {
                groups.remove(&group);
            }
        }
    }
}

impl Ownership for Membership {
    fn hot_reset(&self, device: BorrowedFd<'_>) -> Result<(), ResetError> {
        let kind = ResetKind::Function;
        let system = |error: SysError| ResetError::System { kind, source: error.into() };
        let unavailable = |reason: String| ResetError::Unavailable { kind, reason };
        let bytes = sys::device::hot_reset_info(device).map_err(|error| match error.errno() {
            Some(Errno::NODEV) => {
                unavailable("the function has neither a reset of its own nor one of its bus".to_owned())
            }
            _ => system(error),
        })?;
        let groups = self.space.iommu().groups.lock();
        let mut proofs = BTreeMap::new();
        for other in dependents(&bytes).map_err(|error| unavailable(error.to_string()))? {
            let Some(group) = groups.get(&other.group) else {
                return Err(unavailable(format!(
                    "a reset of the bus of {} resets {} too, whose IOMMU group {} is not open here",
                    self.bdf, other.bdf, other.group
                )));
            };
            proofs.insert(other.group, group.file.as_fd());
        }
        let proofs: Vec<BorrowedFd<'_>> = proofs.into_values().collect();
        sys::device::hot_reset(device, &proofs).map_err(system)
    }
}

impl Drop for Membership {
    fn drop(&mut self) {
        self.space.iommu().leave(self.bdf, self.group, self.space.mappings());
    }
}

fn open(path: &Path) -> io::Result<OwnedFd> {
    Ok(OpenOptions::new().read(true).write(true).open(path)?.into())
}

pub(crate) fn not_viable(bdf: Bdf, group: &pci::Group) -> VfioError {
    let driver = |mate: &pci::Mate| mate.driver.as_deref().unwrap_or("no driver").to_owned();
    let in_the_way = group.mates.iter().filter(|mate| !mate.is_harmless());
    let mates = in_the_way.map(|mate| format!("{} ({})", mate.bdf, driver(mate))).collect();
    VfioError::NotViable { bdf, group: group.number, mates }
}

fn open_group(bdf: Bdf, node: &str) -> Result<OwnedFd, VfioError> {
    let path = PathBuf::from(node);
    open(&path).map_err(|source| {
        let remedy = match source.kind() {
            io::ErrorKind::PermissionDenied => {
                format!("let this user open it: chown USER {}", path.display())
            }
            io::ErrorKind::ResourceBusy => {
                "another process has the group open; or this one with a DMA space of its own, or with a window into a BAR \
                 of a device that was dropped"
                    .to_owned()
            }
            _ => format!("bind the function to vfio-pci: warpbell bind {bdf}"),
        };
        VfioError::Open { bdf, path, source, remedy }
    })
}

/// Joining a container fails for few reasons.
fn join_error(bdf: Bdf, source: SysError) -> VfioError {
    let remedy = match source.errno() {
        Some(Errno::PERM) => {
            ": interrupt remapping is missing: turn it on in the firmware, or, if all devices and their users are \
             trusted, echo 1 > /sys/module/vfio_iommu_type1/parameters/allow_unsafe_interrupts"
        }
        Some(Errno::INVAL) => {
            ": its IOMMU does not fit what is mapped for other devices of this process: open it with a DMA space of \
             its own, or before anything is mapped"
        }
        Some(Errno::BUSY) => ": a function of its IOMMU group is in use by another driver or process",
        _ => "",
    };
    VfioError::Call { bdf, source, remedy: remedy.to_owned() }
}

/// What an old kernel does not say is taken to be what x86 machines had then.
fn limits(info: &Type1Info) -> IommuLimits {
    let ranges = match &info.ranges[..] {
        [] => vec![0..=0xfedf_ffff, 0xfef0_0000..=(1 << 39) - 1],
        ranges => ranges.to_vec(),
    };
    let page_size = 1 << info.page_sizes.trailing_zeros().clamp(12, 30);
    IommuLimits { ranges, page_size, available: info.available.unwrap_or(65535) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mates_in_the_way_of_a_group_are_named_with_their_drivers() {
        let mate = |bdf: &str, driver: Option<&str>| pci::Mate {
            bdf: bdf.parse().unwrap(),
            driver: driver.map(str::to_owned),
        };
        let mates = vec![
            mate("0000:01:00.1", Some("nvidia")),
            mate("0000:00:02.0", Some("pcieport")),
            mate("0000:01:00.2", None),
        ];
        let group = pci::Group { number: 7, no_iommu: false, mates };
        let text = not_viable("0000:01:00.0".parse().unwrap(), &group).to_string();
        assert!(
            text.contains("IOMMU group 7 is not viable: 0000:01:00.1 (nvidia) must be on vfio-pci"),
            "{text}"
        );
    }

    fn text(errno: Errno) -> String {
        join_error("0000:01:00.0".parse().unwrap(), SysError::new("VFIO_SET_IOMMU", errno)).to_string()
    }

    #[test]
    fn missing_interrupt_remapping_is_explained() {
        let text = text(Errno::PERM);
        assert!(text.starts_with("0000:01:00.0: VFIO_SET_IOMMU: Operation not permitted"), "{text}");
        assert!(
            text.contains("interrupt remapping is missing") && text.contains("allow_unsafe_interrupts"),
            "{text}"
        );
    }

    #[test]
    fn an_unknown_error_stands_for_itself() {
        assert_eq!(text(Errno::IO), "0000:01:00.0: VFIO_SET_IOMMU: Input/output error (os error 5)");
    }

    #[test]
    fn limits_of_old_and_new_kernels() {
        let old = limits(&Type1Info { page_sizes: 4096, ranges: Vec::new(), available: None });
        assert_eq!((old.page_size, old.available), (4096, 65535));
        assert!(!old.ranges.iter().any(|range| range.contains(&0xfee0_0000)), "the window of interrupts");
        let new = limits(&Type1Info { page_sizes: 0x4020_1000, ranges: vec![0..=9], available: Some(3) });
        assert_eq!(new, IommuLimits { ranges: vec![0..=9], page_size: 4096, available: 3 });
    }
}
