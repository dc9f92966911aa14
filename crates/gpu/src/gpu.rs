//! One GPU.

use std::sync::Arc;

use cudarc::driver::sys::CUdevice_attribute as Attribute;
use parking_lot::Mutex;
use warpbell_hw::Window;

use crate::ordering::{FlushPolicy, WriteOrdering};
use crate::staging::Staging;
use crate::sys::{self, Context, Device};
use crate::{DeviceMemory, GpuError, Module, Registered};

/// One GPU and its primary context: the one that everything in a process shares, the CUDA runtime included.
pub struct Gpu {
    /// Since the first allocation.
    staging: Mutex<Option<Staging>>,
    context: Arc<Context>,
    info: GpuInfo,
    ordering: WriteOrdering,
    flush: FlushPolicy,
}

/// What a GPU is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuInfo {
    /// Its number in this process; `CUDA_VISIBLE_DEVICES` changes it.
    pub ordinal: u32,
    /// It is no GPU, but the PTX machine.
    pub is_ptx: bool,
    /// The name of the product.
    pub name: String,
    /// Identifies the piece of hardware: `GPU-` and 32 hexadecimal digits in groups, as nvidia-smi writes it.
    pub uuid: String,
    /// Domain, bus, device and function, as Linux writes them.
    pub pci_address: String,
    /// Compute capability: major and minor.
    pub capability: (u32, u32),
    /// Multiprocessors (SMs).
    pub multiprocessors: u32,
    /// Bytes of memory.
    pub memory: u64,
    /// CUDA version of the driver: major and minor. PTX of a newer CUDA is refused.
    pub driver: (u32, u32),
    /// All blocks of a launch can be made to run at the same time.
    pub cooperative: bool,
    /// Memory can be exported as a dma-buf.
    pub dma_buf: bool,
}

impl std::fmt::Debug for Gpu {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("Gpu").field(&self.info).finish()
    }
}

impl Gpu {
    /// GPUs that the driver shows to this process.
    pub fn count() -> Result<u32, GpuError> {
        sys::device_count()
    }

    /// GPU `ordinal`, ready for use. Opened twice, both share one context.
    pub fn open(ordinal: u32) -> Result<Arc<Gpu>, GpuError> {
        Gpu::of(Device::get(ordinal)?)
    }

    /// Options of the PTX machine, before it is opened first: `capability=9.0,multiprocessors=2,memory=1g,bar=256m,weak=SEED,
    /// races=yes`. They go before those of the environment variable `WARPBELL_PTX`. Later on they must be the same, or none.
    #[cfg(feature = "ptx")]
    pub fn set_ptx_options(options: &str) -> Result<(), GpuError> {
        sys::set_ptx_options(options)
    }

    /// A device that is no GPU: host memory, and kernels whose PTX runs on the PTX machine with its checks.
    #[cfg(feature = "ptx")]
    pub fn open_ptx() -> Result<Arc<Gpu>, GpuError> {
        Gpu::of(Device::ptx()?)
    }

    fn of(device: Device) -> Result<Arc<Gpu>, GpuError> {
        let info = GpuInfo::of(&device)?;
        let ordering = WriteOrdering::of(&device)?;
        let flush = FlushPolicy::of(&device, ordering)?;
        let context = Context::retain(device)?;
        tracing::debug!(?info, ?ordering, ?flush, "GPU opened");
        Ok(Arc::new(Gpu { staging: Mutex::default(), context, info, ordering, flush }))
    }

    /// One copy at a time goes through it.
    pub(crate) fn stage<R>(&self, copy: impl FnOnce(&Staging) -> Result<R, GpuError>) -> Result<R, GpuError> {
        let mut staging = self.staging.lock();
        match &mut *staging {
            Some(staging) => copy(staging),
            none => copy(none.insert(Staging::new(&self.context)?)),
        }
    }

    /// What it is.
    pub fn info(&self) -> &GpuInfo {
        &self.info
    }

    /// `len` zeroed bytes of device memory, aligned to 64 KiB.
    pub fn allocate(self: &Arc<Self>, len: usize) -> Result<DeviceMemory, GpuError> {
        // Before there are kernels: to register memory may take their end.
        self.stage(|_| Ok(()))?;
        DeviceMemory::new(self.clone(), len)
    }

    /// Makes host memory visible to kernels: all of the memory that `window` lies in, once, however often it is
    /// registered.
    pub fn register(self: &Arc<Self>, window: &Window) -> Result<Registered, GpuError> {
        Registered::host(self.clone(), window)
    }

    /// Makes pages of another function's BAR, such as doorbells, visible to kernels. Every page is touched before, as
    /// the driver takes pages that are present and nothing else.
    pub fn register_io(self: &Arc<Self>, window: &Window) -> Result<Registered, GpuError> {
        Registered::io(self.clone(), window)
    }

    /// Loads PTX text, a cubin or a fat binary. `name` is what errors call it.
    pub fn load(self: &Arc<Self>, name: &str, image: &[u8]) -> Result<Module, GpuError> {
        Module::load(self.clone(), name, image)
    }

    /// For whom the GPU keeps the order of what other devices write to its memory.
    pub fn write_ordering(&self) -> WriteOrdering {
        self.ordering
    }

    /// What must be done between the completion of a device's write to this GPU's memory and the use of the data.
    pub fn flush_policy(&self) -> FlushPolicy {
        self.flush
    }

    /// Does it, where the host can: see [`FlushPolicy`].
    pub fn flush_remote_writes(&self) -> Result<(), GpuError> {
        match self.flush {
            FlushPolicy::Nothing => Ok(()),
            FlushPolicy::HostCall => self.context.flush_remote_writes(),
            FlushPolicy::Impossible => Err(GpuError::refused(self.info.target(), self.flush.words())),
        }
    }

    /// Bytes of memory that are free at this moment.
    pub fn free_memory(&self) -> Result<u64, GpuError> {
        Ok(self.context.free_and_total()?.0)
    }

    /// What ended the context, if something did: every later call fails then, and only a new process helps.
    pub fn first_fault(&self) -> Option<&str> {
        self.context.first_fault()
    }

    pub(crate) fn context(&self) -> &Arc<Context> {
        &self.context
    }
}

impl std::fmt::Display for GpuInfo {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let ((major, minor), (cuda, update)) = (self.capability, self.driver);
        write!(
            f,
            "{}: {}, sm_{major}{minor}, {} multiprocessors, {} MiB, at {}, driver for CUDA {cuda}.{update}",
            self.target(),
            self.name,
            self.multiprocessors,
            self.memory >> 20,
            self.pci_address
        )
    }
}

impl GpuInfo {
    /// As targets name it: `cuda:N`, or `ptx`.
    pub fn target(&self) -> String {
        sys::name(self.is_ptx, self.ordinal)
    }

    fn of(device: &Device) -> Result<GpuInfo, GpuError> {
        let number = |attribute| device.attribute(attribute).map(|value| value.max(0) as u32);
        // A driver that does not know an attribute yet has not what it is about.
        let flag = |attribute| device.attribute(attribute).is_ok_and(|value| value != 0);
        Ok(GpuInfo {
            ordinal: device.ordinal(),
            is_ptx: device.is_ptx(),
            name: device.name()?,
            uuid: uuid_text(&device.uuid()?),
            pci_address: device.pci_address()?,
            capability: (
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                number(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            multiprocessors: number(Attribute::CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT)?,
            memory: device.memory()?,
            driver: device.driver_version()?,
            cooperative: flag(Attribute::CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH),
            dma_buf: flag(Attribute::CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED),
        })
    }
}

fn uuid_text(bytes: &[u8; 16]) -> String {
    let hex = |range: std::ops::Range<usize>| -> String {
        bytes[range].iter().map(|byte| format!("{byte:02x}")).collect()
    };
    format!("GPU-{}-{}-{}-{}-{}", hex(0..4), hex(4..6), hex(6..8), hex(8..10), hex(10..16))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_is_told_in_one_line() {
        let info = GpuInfo {
            ordinal: 1,
            is_ptx: false,
            name: "NVIDIA X".to_owned(),
            uuid: String::new(),
            pci_address: "0000:3b:00.0".to_owned(),
            capability: (9, 0),
            multiprocessors: 132,
            memory: 80 << 30,
            driver: (13, 0),
            cooperative: true,
            dma_buf: true,
        };
        let text =
            "cuda:1: NVIDIA X, sm_90, 132 multiprocessors, 81920 MiB, at 0000:3b:00.0, driver for CUDA 13.0";
        assert_eq!(info.to_string(), text);
    }

    #[test]
    fn a_uuid_is_written_as_nvidia_smi_does() {
        let bytes = std::array::from_fn(|at| at as u8 * 17);
        assert_eq!(uuid_text(&bytes), "GPU-00112233-4455-6677-8899-aabbccddeeff");
    }
}
