//! The driver's errors that this crate tells apart, as numbers: a newer driver may return others.

use cudarc::driver::sys::CUresult;

macro_rules! codes {
    ($($name:ident = $result:ident;)*) => {
        $(pub(crate) const $name: u32 = CUresult::$result as u32;)*
    };
}

codes! {
    INVALID_VALUE = CUDA_ERROR_INVALID_VALUE;
    OUT_OF_MEMORY = CUDA_ERROR_OUT_OF_MEMORY;
    STUB_LIBRARY = CUDA_ERROR_STUB_LIBRARY;
    NEWER_DRIVER = CUDA_ERROR_CALL_REQUIRES_NEWER_DRIVER;
    DEVICE_UNAVAILABLE = CUDA_ERROR_DEVICE_UNAVAILABLE;
    NO_DEVICE = CUDA_ERROR_NO_DEVICE;
    INVALID_DEVICE = CUDA_ERROR_INVALID_DEVICE;
    NO_BINARY = CUDA_ERROR_NO_BINARY_FOR_GPU;
    ECC_UNCORRECTABLE = CUDA_ERROR_ECC_UNCORRECTABLE;
    INVALID_PTX = CUDA_ERROR_INVALID_PTX;
    NVLINK_UNCORRECTABLE = CUDA_ERROR_NVLINK_UNCORRECTABLE;
    NO_COMPILER = CUDA_ERROR_JIT_COMPILER_NOT_FOUND;
    PTX_VERSION = CUDA_ERROR_UNSUPPORTED_PTX_VERSION;
    COMPILER_DISABLED = CUDA_ERROR_JIT_COMPILATION_DISABLED;
    CONTAINED = CUDA_ERROR_CONTAINED;
    NOT_FOUND = CUDA_ERROR_NOT_FOUND;
    NOT_READY = CUDA_ERROR_NOT_READY;
    ILLEGAL_ADDRESS = CUDA_ERROR_ILLEGAL_ADDRESS;
    OUT_OF_RESOURCES = CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
    LAUNCH_TIMEOUT = CUDA_ERROR_LAUNCH_TIMEOUT;
    CONTEXT_IS_DESTROYED = CUDA_ERROR_CONTEXT_IS_DESTROYED;
    ASSERT = CUDA_ERROR_ASSERT;
    ALREADY_REGISTERED = CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
    HARDWARE_STACK = CUDA_ERROR_HARDWARE_STACK_ERROR;
    ILLEGAL_INSTRUCTION = CUDA_ERROR_ILLEGAL_INSTRUCTION;
    MISALIGNED_ADDRESS = CUDA_ERROR_MISALIGNED_ADDRESS;
    INVALID_ADDRESS_SPACE = CUDA_ERROR_INVALID_ADDRESS_SPACE;
    INVALID_PC = CUDA_ERROR_INVALID_PC;
    LAUNCH_FAILED = CUDA_ERROR_LAUNCH_FAILED;
    COOPERATIVE_TOO_LARGE = CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
    NOT_PERMITTED = CUDA_ERROR_NOT_PERMITTED;
    NOT_SUPPORTED = CUDA_ERROR_NOT_SUPPORTED;
    SYSTEM_NOT_READY = CUDA_ERROR_SYSTEM_NOT_READY;
    DRIVER_MISMATCH = CUDA_ERROR_SYSTEM_DRIVER_MISMATCH;
    COMPAT_NOT_SUPPORTED = CUDA_ERROR_COMPAT_NOT_SUPPORTED_ON_DEVICE;
    UNKNOWN = CUDA_ERROR_UNKNOWN;
}

/// After these, every later call on the context fails with the same one. Only a new process gets a new context.
const STICKY: [u32; 13] = [
    ECC_UNCORRECTABLE,
    NVLINK_UNCORRECTABLE,
    CONTAINED,
    ILLEGAL_ADDRESS,
    LAUNCH_TIMEOUT,
    CONTEXT_IS_DESTROYED,
    ASSERT,
    HARDWARE_STACK,
    ILLEGAL_INSTRUCTION,
    MISALIGNED_ADDRESS,
    INVALID_ADDRESS_SPACE,
    INVALID_PC,
    LAUNCH_FAILED,
];

/// The driver has no compiler for an image's PTX.
pub(crate) fn is_of_ptx(code: u32) -> bool {
    [PTX_VERSION, INVALID_PTX, NO_COMPILER, COMPILER_DISABLED].contains(&code)
}

/// Something is missing on the machine, or too old.
const MISSING: [u32; 16] = [
    STUB_LIBRARY,
    NEWER_DRIVER,
    DEVICE_UNAVAILABLE,
    NO_DEVICE,
    INVALID_DEVICE,
    NO_BINARY,
    NO_COMPILER,
    PTX_VERSION,
    COMPILER_DISABLED,
    NOT_PERMITTED,
    NOT_SUPPORTED,
    SYSTEM_NOT_READY,
    DRIVER_MISMATCH,
    COMPAT_NOT_SUPPORTED,
    INSUFFICIENT_DRIVER,
    OPERATING_SYSTEM,
];

/// What the CUDA runtime calls an insufficient driver; a compatibility library returns it from the driver's calls too.
const INSUFFICIENT_DRIVER: u32 = 35;
/// A call of the operating system failed: devices that a container lacks, for one.
pub(crate) const OPERATING_SYSTEM: u32 = CUresult::CUDA_ERROR_OPERATING_SYSTEM as u32;

pub(crate) fn is_sticky(code: u32) -> bool {
    STICKY.contains(&code)
}

pub(crate) fn is_missing(code: u32) -> bool {
    MISSING.contains(&code)
}

/// What registration of a BAR needs.
const IO_MEMORY: &str = "BAR pages are registered for administrators only: run as root (CAP_SYS_ADMIN), or load the NVIDIA \
     driver with NVreg_RegistryDwords=\"PeerMappingOverride=1\"; kernels from 6.12 on need driver 570.86.15 or newer; without \
     it a CPU thread forwards doorbells";

const LOST: &str = "the GPU's context is lost, and every later call of this process fails: end it; compute-sanitizer names \
     the access of the kernel";

/// The same where no GPU and no driver of NVIDIA's are to blame.
pub(crate) fn remedy_on_ptx(code: u32) -> &'static str {
    match code {
        OUT_OF_MEMORY => "the target ptx:memory=SIZE has more, as with WARPBELL_PTX=memory=SIZE",
        INVALID_PTX => "the PTX machine does not run it",
        NO_BINARY => "the PTX machine runs PTX, which `nvcc -ptx -lineinfo` makes",
        code if is_sticky(code) => "the target is lost, and every later call of this process fails: end it",
        _ => "",
    }
}

/// What to do about an error; empty where there is nothing to be said.
pub(crate) fn remedy(call: &str, code: u32) -> &'static str {
    match (call, code) {
        ("cuMemHostRegister_v2", NOT_PERMITTED) => IO_MEMORY,
        ("cuMemHostRegister_v2", INVALID_VALUE) => {
            "the pages cannot be registered as they are: each must be mapped and present; BAR pages also need a driver that \
             knows the kernel (570.86.15 or newer from Linux 6.12 on)"
        }
        (_, OUT_OF_MEMORY) => "nvidia-smi shows how much memory of the GPU is free, and who has the rest",
        (_, STUB_LIBRARY) => {
            "this is the toolkit's stub library: take its folder (stubs) out of LD_LIBRARY_PATH"
        }
        (_, INSUFFICIENT_DRIVER | NEWER_DRIVER) => "update the NVIDIA driver to 580 or newer",
        (_, DEVICE_UNAVAILABLE) => {
            "another process has the GPU for itself: nvidia-smi -q -d COMPUTE shows its mode"
        }
        (_, NO_DEVICE) => {
            "nvidia-smi -L lists GPUs; in a container, /dev/nvidia0 and /dev/nvidiactl must be there; without a GPU: --target \
             cpu"
        }
        (_, NO_BINARY) => {
            "there is code for other architectures only: compile for this GPU, or take PTX along"
        }
        (_, INVALID_PTX) => "the compiler's log says where",
        (_, NO_COMPILER) => {
            "libnvidia-ptxjitcompiler.so.1 of the driver is missing: install the complete driver, or load a cubin"
        }
        (_, PTX_VERSION) => {
            "the PTX is newer than the driver: update it (PTX 9.0 of CUDA 13.0 needs driver 580), or load a cubin for this GPU"
        }
        (_, COMPILER_DISABLED) => "CUDA_DISABLE_PTX_JIT is set: unset it, or load a cubin for this GPU",
        (_, OPERATING_SYSTEM) => "a device file of the driver may be missing: ls -l /dev/nvidia*",
        (_, OUT_OF_RESOURCES) => "fewer threads per block, or less shared memory",
        (_, ALREADY_REGISTERED) => "another part of this process has registered these pages",
        (_, COOPERATIVE_TOO_LARGE) => "a cooperative launch must fit on the GPU at once: fewer blocks",
        (_, NOT_PERMITTED) => "run as root, or with CAP_SYS_ADMIN",
        (_, SYSTEM_NOT_READY) => "the GPUs' fabric is not up: systemctl status nvidia-fabricmanager",
        (_, DRIVER_MISMATCH) => "library and kernel module of the driver differ: reload nvidia.ko, or reboot",
        (_, UNKNOWN) => "dmesg | grep NVRM may say more; nvidia-modprobe -u -c=0 loads nvidia-uvm",
        (_, code) if is_sticky(code) => LOST,
        _ => "",
    }
}
