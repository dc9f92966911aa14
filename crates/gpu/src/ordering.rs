//! In which order a GPU's kernels see what other devices write to its memory.

use cudarc::driver::sys::{
    CUGPUDirectRDMAWritesOrdering, CUdevice_attribute, CUflushGPUDirectRDMAWritesOptions,
};

use crate::GpuError;
use crate::sys::Device;

/// For whom writes by other devices are in order without further ado
/// (`CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrdering {
    /// For nobody.
    None,
    /// For the GPU that owns the memory.
    Owner,
    /// For every CUDA device.
    AllDevices,
}

/// What the host must do between the completion of another device's write to a GPU's memory, which it has seen, and a
/// launch of kernels that use the data. Kernels that see completions themselves have rules of their own
/// (`warpbell::OrderPolicy`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlushPolicy {
    /// Nothing: the GPU keeps the order.
    Nothing,
    /// `cuFlushGPUDirectRDMAWrites` by the host ([`Gpu::flush_remote_writes`](crate::Gpu::flush_remote_writes)). A
    /// kernel cannot do it.
    HostCall,
    /// There is no way.
    Impossible,
}

impl WriteOrdering {
    pub(crate) fn of(device: &Device) -> Result<WriteOrdering, GpuError> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WRITES_ORDERING;
        Ok(WriteOrdering::from_value(device.attribute(attribute)?))
    }

    /// Values are ordered: what is at least that of the owner holds for the owner.
    fn from_value(value: i32) -> WriteOrdering {
        use CUGPUDirectRDMAWritesOrdering as Value;
        if value >= Value::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_ALL_DEVICES as i32 {
            WriteOrdering::AllDevices
        } else if value >= Value::CU_GPU_DIRECT_RDMA_WRITES_ORDERING_OWNER as i32 {
            WriteOrdering::Owner
        } else {
            WriteOrdering::None
        }
    }

    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            WriteOrdering::None => "other devices' writes to its memory are in no order of their own",
            WriteOrdering::Owner => "its kernels see other devices' writes to its memory in order",
            WriteOrdering::AllDevices => {
                "kernels of all GPUs see other devices' writes to its memory in order"
            }
        }
    }
}

impl FlushPolicy {
    pub(crate) fn of(device: &Device, ordering: WriteOrdering) -> Result<FlushPolicy, GpuError> {
        let attribute = CUdevice_attribute::CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_FLUSH_WRITES_OPTIONS;
        Ok(FlushPolicy::from_options(ordering, device.attribute(attribute)?))
    }

    fn from_options(ordering: WriteOrdering, options: i32) -> FlushPolicy {
        let host = CUflushGPUDirectRDMAWritesOptions::CU_FLUSH_GPU_DIRECT_RDMA_WRITES_OPTION_HOST as i32;
        match ordering {
            WriteOrdering::Owner | WriteOrdering::AllDevices => FlushPolicy::Nothing,
            WriteOrdering::None if options & host != 0 => FlushPolicy::HostCall,
            WriteOrdering::None => FlushPolicy::Impossible,
        }
    }

    /// The same in words.
    pub fn words(self) -> &'static str {
        match self {
            FlushPolicy::Nothing => {
                "nothing by the host; kernels that see completions in other memory read a register of the SSD first"
            }
            FlushPolicy::HostCall => {
                "the host must call cuFlushGPUDirectRDMAWrites between a completion and the use of its data; kernels that \
                 wait by themselves cannot have data there that an SSD writes"
            }
            FlushPolicy::Impossible => {
                "the GPU can neither order nor flush other devices' writes: data that an SSD writes cannot lie in its memory"
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_policy_follows_from_what_the_gpu_says() {
        let policy = |value, options| FlushPolicy::from_options(WriteOrdering::from_value(value), options);
        assert_eq!(policy(0, 0), FlushPolicy::Impossible);
        assert_eq!(
            policy(0, 2),
            FlushPolicy::Impossible,
            "stream operations are no way for a kernel or the host"
        );
        assert_eq!(policy(0, 1), FlushPolicy::HostCall);
        assert_eq!((policy(100, 0), policy(200, 3)), (FlushPolicy::Nothing, FlushPolicy::Nothing));
        assert_eq!(WriteOrdering::from_value(100), WriteOrdering::Owner);
        assert_eq!(WriteOrdering::from_value(200), WriteOrdering::AllDevices);
    }
}
