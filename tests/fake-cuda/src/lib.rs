// UNSAFETY: exports functions under the driver's names.
#![expect(unsafe_code, reason = "a shared library in the place of the CUDA driver's")]
//! A fake CUDA driver: `crates/ptx-driver` as a `libcuda.so.1`, for tests on machines without a GPU. `docs/testing.md` says
//! what it shows and what it cannot.
//!
//! `harness` gives processes the fake driver as their driver.

pub mod harness;

/// Functions that jump to those of `crates/ptx-driver`, whose names nobody but a loader may see: a program that has both
/// that crate and CUDA's own driver must not mix them up.
macro_rules! exports {
    ($($file:ident { $($name:ident)+ })*) => {
        $($(
            #[unsafe(no_mangle)]
            #[unsafe(naked)]
            extern "C" fn $name() {
                #[cfg(target_arch = "x86_64")]
                core::arch::naked_asm!("jmp {}", sym warpbell_ptx_driver::api::$file::$name);
                #[cfg(target_arch = "aarch64")]
                core::arch::naked_asm!("b {}", sym warpbell_ptx_driver::api::$file::$name);
            }
        )+)*

        /// What is exported.
        #[cfg(test)]
        const EXPORTED: &[&str] = &[$($(stringify!($name)),+),*];
    };
}

exports! {
    device {
        cuInit cuDriverGetVersion cuGetExportTable cuDeviceGetCount cuDeviceGet cuDeviceGetName
        cuDeviceGetUuid_v2 cuDeviceGetPCIBusId cuDeviceGetAttribute cuDeviceTotalMem_v2
        cuDevicePrimaryCtxRetain cuDevicePrimaryCtxRelease_v2 cuCtxGetCurrent cuCtxPushCurrent_v2
        cuCtxPopCurrent_v2 cuFlushGPUDirectRDMAWrites cuGetErrorName cuGetErrorString
    }
    host {
        cuMemHostRegister_v2 cuMemHostUnregister cuMemHostGetDevicePointer_v2
    }
    launch {
        cuLaunchKernelEx
    }
    memory {
        cuMemAlloc_v2 cuMemFree_v2 cuMemGetInfo_v2 cuMemcpyHtoDAsync_v2 cuMemcpyDtoHAsync_v2 cuMemsetD8Async
        cuPointerGetAttribute cuMemGetAddressRange_v2 cuPointerSetAttribute cuMemGetHandleForAddressRange
    }
    module {
        cuModuleLoadDataEx cuModuleUnload cuModuleGetFunction cuFuncLoad cuFuncGetAttribute cuFuncSetAttribute
        cuFuncGetParamInfo cuOccupancyMaxActiveBlocksPerMultiprocessor
    }
    stream {
        cuStreamCreate cuStreamDestroy_v2 cuStreamSynchronize cuEventCreate cuEventDestroy_v2 cuEventRecord
        cuEventQuery cuEventElapsedTime cuEventElapsedTime_v2
    }
    gdrdrv {
        fake_gdrdrv_open fake_gdrdrv_ioctl
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn each_function_of_the_driver_is_exported() {
        let missing = warpbell_ptx_driver::api::names();
        let missing: Vec<_> = missing.iter().filter(|name| !super::EXPORTED.contains(name)).collect();
        assert!(missing.is_empty(), "{missing:?}");
    }
}
