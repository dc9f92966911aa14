//! From a device's name to the device.

use std::path::Path;
use std::sync::Arc;

use warpbell_gpu::routes::SpaceKind;
use warpbell_hw::{Device, Window};
use warpbell_softctl::{SoftConfig, SoftDevice, StoreConfig};
use warpbell_vfio::pci::{Name, Sysfs, find_by_serial};
use warpbell_vfio::user::UserDevice;
use warpbell_vfio::{Backend, Bdf, ForeignMemory, PciDevice};

use crate::{DeviceName, Error, OpenOptions, same_file};

/// An open device, and what is known of it besides.
pub(crate) struct Opened {
    pub(crate) device: Arc<dyn Device>,
    /// The soft controller that it is.
    pub(crate) soft: Option<Arc<SoftDevice>>,
    /// The PCI function that it is, and how it was reached.
    pub(crate) pci: Option<Arc<PciDevice>>,
}

impl Opened {
    /// What kind of space its memory is mapped in.
    pub(crate) fn space(&self) -> SpaceKind {
        self.pci.as_deref().map_or(SpaceKind::Other, space_of)
    }

    /// Whether it reaches only memory that is mapped for it.
    pub(crate) fn is_translated(&self) -> bool {
        self.pci.as_deref().is_none_or(|pci| pci.route().backend != Backend::NoIommu)
    }
}

/// What kind of space the memory of a PCI function is mapped in, as [`warpbell_gpu::routes`] want to know it.
pub fn space_of(pci: &PciDevice) -> SpaceKind {
    match pci.route().backend {
        Backend::Type1 => SpaceKind::Type1,
        Backend::Iommufd => SpaceKind::Iommufd,
        Backend::NoIommu => SpaceKind::Other,
    }
}

/// Opens the device of that name. Its controller is not touched yet.
pub(crate) fn device(name: &DeviceName, options: &OpenOptions) -> Result<Opened, Error> {
    match name {
        DeviceName::Soft(text) => soft(text, options),
        DeviceName::Pci(bdf) => pci(*bdf, options),
        DeviceName::Serial(serial) => pci(find_by_serial(&Sysfs::system(), serial)?.bdf, options),
        DeviceName::Node(node) => pci(Name::Node(node.clone()).resolve(&Sysfs::system())?, options),
        DeviceName::VfioUser(socket) => {
            without_faults(name, options)?;
            Ok(Opened { device: UserDevice::connect(socket, &options.vfio_user)?, soft: None, pci: None })
        }
        DeviceName::Resident(_) => Err(Error::Argument {
            object: "device",
            value: name.to_string(),
            limit: "lives in a launch of `warpbell bench`, and holds no data; use another device".to_owned(),
        }),
    }
}

fn soft(text: &str, options: &OpenOptions) -> Result<Opened, Error> {
    let mut config = SoftConfig::parse(text)?;
    config.name = Some(format!("soft:{text}"));
    allow_writes(&mut config, &options.allow_write);
    if let Some(faults) = &options.faults {
        config.faults = faults.clone();
    }
    let make = if config.virtual_time { SoftDevice::stepped } else { SoftDevice::threaded };
    let soft = make(config.numbered())?;
    Ok(Opened { device: soft.clone(), soft: Some(soft), pci: None })
}

fn pci(bdf: Bdf, options: &OpenOptions) -> Result<Opened, Error> {
    without_faults(&DeviceName::Pci(bdf), options)?;
    let pci = PciDevice::open(bdf, &options.pci)?;
    Ok(Opened { device: pci.clone(), soft: None, pci: Some(pci) })
}

/// Others than soft controllers have faults of their own only.
fn without_faults(name: &DeviceName, options: &OpenOptions) -> Result<(), Error> {
    match options.faults {
        None => Ok(()),
        Some(_) => Err(Error::Argument {
            object: "faults",
            value: name.to_string(),
            limit: "only software controllers in this process (soft:...) inject them".to_owned(),
        }),
    }
}

/// BAR `bar` of another function.
pub(crate) fn foreign(bdf: Bdf, bar: u8) -> Result<Window, Error> {
    Ok(ForeignMemory::open(bdf, bar)?)
}

/// Makes the file-backed namespaces writable whose path was named.
fn allow_writes(config: &mut SoftConfig, allowed: &[String]) {
    for namespace in &mut config.namespaces {
        if let StoreConfig::File { path, writable } = &mut namespace.store {
            *writable |= allowed.iter().any(|name| same_file(path, Path::new(name)));
        }
    }
}
