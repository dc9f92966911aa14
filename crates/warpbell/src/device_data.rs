//! Data and rings in a GPU's memory, as a controller reaches it.

use std::fmt;
use std::sync::Arc;

use warpbell_gpu::routes::{self, FileMapping, MappedMemory, SpaceKind};
use warpbell_gpu::{DeviceMemory, Gpu};
use warpbell_hw::{Device, DeviceKind, DmaAccess, DmaBuffer, DmaError, Iova, RemoteBuffer, RemoteMemory};

use crate::Error;

/// Memory of a GPU that a controller reaches, until the value is dropped.
#[derive(Debug)]
pub(crate) struct DeviceData {
    /// Goes before the memory does.
    mapping: Mapping,
    memory: DeviceMemory,
}

#[derive(Debug)]
enum Mapping {
    /// The controller copies.
    Copied(RemoteBuffer),
    /// The SSD reaches it by its dma-buf.
    File(FileMapping),
    /// The SSD reaches it through the GPU's BAR, which this route mapped.
    Bar(DmaBuffer, routes::MemoryRoute),
}

/// The way that data or entries take to a GPU's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceRoute {
    /// A controller in this process copies, and completes a command when its copies have ended.
    Copied,
    /// The SSD writes there itself, by this route.
    Peer(routes::MemoryRoute),
}

impl fmt::Display for DeviceRoute {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DeviceRoute::Copied => f.write_str("copied by the controller"),
            DeviceRoute::Peer(route) => route.fmt(f),
        }
    }
}

impl DeviceData {
    /// At least `bytes` zeroed bytes of `gpu`'s memory, by the first way that works. Where none does, the error has the
    /// reason of each, and names the option (`data`, `rings`) that has another place for them.
    pub(crate) fn new(
        gpu: &Arc<Gpu>,
        device: &dyn Device,
        kind: SpaceKind,
        bytes: usize,
        option: &'static str,
    ) -> Result<DeviceData, Error> {
        let page = device.dma().limits().page_size as usize;
        let memory = gpu.allocate(bytes.max(1).next_multiple_of(page))?;
        DeviceData::of(memory, device, kind, option)
    }

    /// The same of memory that is there; its contents stay.
    pub(crate) fn of(
        memory: DeviceMemory,
        device: &dyn Device,
        kind: SpaceKind,
        option: &'static str,
    ) -> Result<DeviceData, Error> {
        let remote: Arc<dyn RemoteMemory> = Arc::new(memory.clone());
        let mapping = match RemoteBuffer::map(device.dma(), remote, DmaAccess::READ_WRITE) {
            Ok(mapping) => Mapping::Copied(mapping),
            Err(DmaError::Unsupported { reason }) if device.info().kind == DeviceKind::Software => {
                return Err(none(&memory, device, option, &reason));
            }
            Err(DmaError::Unsupported { .. }) => peer(&memory, device, kind, option)?,
            Err(error) => return Err(error.into()),
        };
        Ok(DeviceData { mapping, memory })
    }

    /// Where the controller sees the first byte.
    pub(crate) fn iova(&self) -> Iova {
        match &self.mapping {
            Mapping::Copied(mapping) => mapping.iova(),
            Mapping::File(mapping) => mapping.iova(),
            Mapping::Bar(mapping, _) => mapping.iova(),
        }
    }

    pub(crate) fn memory(&self) -> &DeviceMemory {
        &self.memory
    }

    pub(crate) fn route(&self) -> DeviceRoute {
        match &self.mapping {
            Mapping::Copied(_) => DeviceRoute::Copied,
            Mapping::File(_) => DeviceRoute::Peer(routes::MemoryRoute::Iommufd),
            Mapping::Bar(_, route) => DeviceRoute::Peer(*route),
        }
    }
}

/// The ways by which an SSD itself writes to a GPU.
fn peer(memory: &DeviceMemory, device: &dyn Device, kind: SpaceKind, option: &str) -> Result<Mapping, Error> {
    let space = device.dma();
    // No need to try what takes VFIO's spaces alone.
    if kind == SpaceKind::Other {
        return Err(none(memory, device, option, unreachable(device.info().kind)));
    }
    let (mapped, probes) = routes::map_memory(memory, &space, kind);
    match mapped {
        Some(MappedMemory::File(mapping)) => Ok(Mapping::File(mapping)),
        Some(MappedMemory::Window(window)) => {
            let mapping = DmaBuffer::map(space, window, DmaAccess::READ_WRITE)?;
            let route = probes.last().expect("the way that worked is the last").route;
            Ok(Mapping::Bar(mapping, route))
        }
        None => {
            let tried: Vec<String> =
                probes.iter().filter(|probe| probe.outcome.is_err()).map(ToString::to_string).collect();
            Err(none(memory, device, option, &tried.join("; ")))
        }
    }
}

fn none(memory: &DeviceMemory, device: &dyn Device, option: &str, why: &str) -> Error {
    Error::Missing {
        what: format!("a way for {} to the memory of {}", device.info().name, memory.gpu().info().name),
        remedy: format!("{why}; --{option} host works always"),
    }
}

/// Why no way leads from a space that is none of VFIO's.
fn unreachable(kind: DeviceKind) -> &'static str {
    match kind {
        DeviceKind::Software | DeviceKind::VfioUser => {
            "it is a controller of another process, which reaches memory of the host alone"
        }
        DeviceKind::Pcie => "it was opened without an IOMMU, and every way goes through type1 or iommufd",
    }
}
