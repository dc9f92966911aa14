//! The driver's functions, looked up once, each on its own.
//!
//! cudarc gives types, constants and signatures. Its own calls are not used: they panic where a symbol is missing, and
//! they take the driver's reply for a Rust enum, which a newer driver may answer outside of.

// UNSAFETY: calls the functions of a library by pointers to them.
#![expect(unsafe_code, reason = "functions of a library loaded at run time")]

use std::ffi::{CStr, c_char, c_int, c_uchar, c_uint, c_ulonglong, c_void};
use std::sync::OnceLock;

use cudarc::driver::sys as cuda;
use cudarc::driver::sys::{
    CUcontext, CUdevice, CUdevice_attribute, CUdeviceptr, CUevent, CUfunction, CUfunction_attribute,
    CUjit_option, CUlaunchConfig, CUmemRangeHandleType, CUmodule, CUpointer_attribute, CUresult, CUstream,
    CUuuid,
};
use libloading::Library;

use super::failure::Failure;
use crate::GpuError;

/// Where the driver is looked for. The toolkit ships a stub named `libcuda.so` that can do nothing, so that comes last.
const NAMES: [&str; 2] = ["libcuda.so.1", "libcuda.so"];

macro_rules! functions {
    (
        checked { $($name:ident($($arg:ident: $type:ty),*);)* }
        unchecked { $($other:ident($($other_arg:ident: $other_type:ty),*);)* }
    ) => {
        /// The driver's functions that the library has.
        #[expect(non_snake_case, reason = "the driver's own names")]
        pub(crate) struct Functions {
            /// They are in this program, which has no GPU.
            are_of_ptx: bool,
            $($name: Option<unsafe extern "C" fn($($type),*) -> u32>,)*
            $($other: Option<unsafe extern "C" fn($($other_type),*) -> u32>,)*
        }

        #[expect(non_snake_case, reason = "the driver's own names")]
        impl Functions {
            fn find(driver: &Driver) -> Functions {
                Functions {
                    are_of_ptx: !matches!(driver, Driver::Library(_)),
                    $($name: driver.symbol(concat!(stringify!($name), "\0")),)*
                    $($other: driver.symbol(concat!(stringify!($other), "\0")),)*
                }
            }
            $(
                /// The call of that name.
                ///
                /// # Safety
                /// As CUDA's documentation of the call says.
                #[inline]
                pub(crate) unsafe fn $name(&'static self, $($arg: $type),*) -> Result<(), Failure> {
                    let function = self.$name.ok_or(Failure::Missing(stringify!($name)))?;
                    // SAFETY: the signature is the driver's, checked against cudarc's below; the rest is the caller's.
                    Failure::check(stringify!($name), unsafe { function($($arg),*) }, self)
                }
            )*
            $(
                /// The call of that name.
                ///
                /// # Safety
                /// As CUDA's documentation of the call says.
                pub(crate) unsafe fn $other(&'static self, $($other_arg: $other_type),*) -> Result<(), Failure> {
                    let function = self.$other.ok_or(Failure::Missing(stringify!($other)))?;
                    // SAFETY: the signature is cuda.h's; the rest is the caller's.
                    Failure::check(stringify!($other), unsafe { function($($other_arg),*) }, self)
                }
            )*
        }

        // The compiler compares each signature with the one that cudarc made from cuda.h.
        $(const _: unsafe fn($($type),*) -> CUresult = cuda::$name;)*
    };
}

functions! {
    checked {
        cuInit(flags: c_uint);
        cuDriverGetVersion(version: *mut c_int);
        cuDeviceGetCount(count: *mut c_int);
        cuDeviceGet(device: *mut CUdevice, ordinal: c_int);
        cuDeviceGetName(name: *mut c_char, len: c_int, device: CUdevice);
        cuDeviceGetUuid_v2(uuid: *mut CUuuid, device: CUdevice);
        cuDeviceGetPCIBusId(text: *mut c_char, len: c_int, device: CUdevice);
        cuDeviceGetAttribute(value: *mut c_int, attribute: CUdevice_attribute, device: CUdevice);
        cuDeviceTotalMem_v2(bytes: *mut usize, device: CUdevice);
        cuDevicePrimaryCtxRetain(context: *mut CUcontext, device: CUdevice);
        cuDevicePrimaryCtxRelease_v2(device: CUdevice);
        cuCtxGetCurrent(context: *mut CUcontext);
        cuCtxPushCurrent_v2(context: CUcontext);
        cuCtxPopCurrent_v2(context: *mut CUcontext);
        cuMemAlloc_v2(address: *mut CUdeviceptr, len: usize);
        cuMemFree_v2(address: CUdeviceptr);
        cuMemGetInfo_v2(free: *mut usize, total: *mut usize);
        cuMemcpyHtoDAsync_v2(to: CUdeviceptr, from: *const c_void, len: usize, stream: CUstream);
        cuMemcpyDtoHAsync_v2(to: *mut c_void, from: CUdeviceptr, len: usize, stream: CUstream);
        cuMemsetD8Async(to: CUdeviceptr, value: c_uchar, len: usize, stream: CUstream);
        cuMemHostRegister_v2(start: *mut c_void, len: usize, flags: c_uint);
        cuMemHostUnregister(start: *mut c_void);
        cuMemHostGetDevicePointer_v2(address: *mut CUdeviceptr, host: *mut c_void, flags: c_uint);
        cuMemGetHandleForAddressRange(
            handle: *mut c_void,
            address: CUdeviceptr,
            len: usize,
            kind: CUmemRangeHandleType,
            flags: c_ulonglong
        );
        cuMemGetAddressRange_v2(base: *mut CUdeviceptr, len: *mut usize, address: CUdeviceptr);
        cuPointerGetAttribute(value: *mut c_void, attribute: CUpointer_attribute, address: CUdeviceptr);
        cuPointerSetAttribute(value: *const c_void, attribute: CUpointer_attribute, address: CUdeviceptr);
        cuFlushGPUDirectRDMAWrites(
            target: cuda::CUflushGPUDirectRDMAWritesTarget,
            scope: cuda::CUflushGPUDirectRDMAWritesScope
        );
        cuModuleLoadDataEx(
            module: *mut CUmodule,
            image: *const c_void,
            count: c_uint,
            options: *mut CUjit_option,
            values: *mut *mut c_void
        );
        cuModuleUnload(module: CUmodule);
        cuModuleGetFunction(function: *mut CUfunction, module: CUmodule, name: *const c_char);
        cuFuncGetAttribute(value: *mut c_int, attribute: CUfunction_attribute, function: CUfunction);
        cuFuncSetAttribute(function: CUfunction, attribute: CUfunction_attribute, value: c_int);
        cuFuncGetParamInfo(function: CUfunction, index: usize, offset: *mut usize, size: *mut usize);
        cuFuncLoad(function: CUfunction);
        cuOccupancyMaxActiveBlocksPerMultiprocessor(
            blocks: *mut c_int,
            function: CUfunction,
            threads: c_int,
            shared: usize
        );
        cuLaunchKernelEx(
            config: *const CUlaunchConfig,
            function: CUfunction,
            arguments: *mut *mut c_void,
            extra: *mut *mut c_void
        );
        cuStreamCreate(stream: *mut CUstream, flags: c_uint);
        cuStreamDestroy_v2(stream: CUstream);
        cuStreamSynchronize(stream: CUstream);
        cuEventCreate(event: *mut CUevent, flags: c_uint);
        cuEventDestroy_v2(event: CUevent);
        cuEventRecord(event: CUevent, stream: CUstream);
        cuEventQuery(event: CUevent);
        cuEventElapsedTime_v2(milliseconds: *mut f32, start: CUevent, end: CUevent);
    }
    unchecked {
        // Of drivers before 12.8, which have no second version.
        cuEventElapsedTime(milliseconds: *mut f32, start: CUevent, end: CUevent);
        // With a number in place of the enum: any that a driver returns.
        cuGetErrorName(code: c_uint, text: *mut *const c_char);
        cuGetErrorString(code: c_uint, text: *mut *const c_char);
    }
}

/// Where functions are looked up.
enum Driver {
    Library(Library),
    /// In this program: no GPU, and the PTX machine for kernels.
    #[cfg(feature = "ptx")]
    Ptx,
}

impl Driver {
    /// The function whose name ends in zero, as a function pointer of its type.
    fn symbol<T: Copy>(&self, name: &str) -> Option<T> {
        match self {
            Driver::Library(library) => {
                // SAFETY: `functions!` asks for each name with the signature of that name.
                let found = unsafe { library.get::<T>(name) };
                found.ok().map(|symbol| *symbol)
            }
            #[cfg(feature = "ptx")]
            Driver::Ptx => {
                let found = warpbell_ptx_driver::api::function(name.trim_end_matches('\0'))?;
                const { assert!(size_of::<T>() == size_of::<*const ()>(), "a function pointer") };
                // SAFETY: `functions!` asks for each name with the signature of that name, which that crate wrote from cuda.h;
                // `T` is a pointer to such a function.
                Some(unsafe { std::mem::transmute_copy::<*const (), T>(&found) })
            }
        }
    }
}

/// The driver's functions, after `cuInit`. What failed once fails the same way again: a driver does not appear while a
/// program runs.
pub(crate) fn functions() -> Result<&'static Functions, GpuError> {
    static LOADED: Loaded = OnceLock::new();
    told(LOADED.get_or_init(|| load(Driver::Library(open().map_err(Missing::Library)?))))
}

/// The functions of the driver that has the PTX machine for kernels, after its `cuInit`.
#[cfg(feature = "ptx")]
pub(crate) fn functions_of_ptx() -> Result<&'static Functions, GpuError> {
    static LOADED: Loaded = OnceLock::new();
    set_ptx_options("")?;
    told(LOADED.get_or_init(|| load(Driver::Ptx)))
}

/// Options of the PTX machine, by its target.
#[cfg(feature = "ptx")]
pub(crate) fn set_ptx_options(options: &str) -> Result<(), GpuError> {
    warpbell_ptx_driver::for_users(options)
        .map_err(|error| GpuError::Options { object: error.place, limit: error.wrong.to_string() })
}

type Loaded = OnceLock<Result<&'static Functions, Missing>>;

fn told(loaded: &Result<&'static Functions, Missing>) -> Result<&'static Functions, GpuError> {
    match loaded {
        Ok(functions) => Ok(functions),
        Err(Missing::Library(error)) => Err(GpuError::NoLibrary { reason: error.to_string() }),
        Err(Missing::Init(failure)) => Err(failure.error("the CUDA driver".to_owned())),
    }
}

/// What is missing for good.
enum Missing {
    Library(NoLibrary),
    Init(Failure),
}

fn load(driver: Driver) -> Result<&'static Functions, Missing> {
    // They are used for as long as the process lives.
    let functions: &'static Functions = Box::leak(Box::new(Functions::find(&driver)));
    std::mem::forget(driver);
    super::widen_connections();
    // SAFETY: takes no pointers; may be called by any thread.
    unsafe { functions.cuInit(0) }.map_err(Missing::Init)?;
    Ok(functions)
}

/// What the loader says to each of the names.
#[derive(Debug, thiserror::Error)]
#[error("{}", reasons.join("; "))]
struct NoLibrary {
    reasons: Vec<String>,
}

fn open() -> Result<Library, NoLibrary> {
    let mut reasons = Vec::new();
    for name in NAMES {
        // SAFETY: loading the CUDA driver's library runs its initialisers, which are meant for that.
        match unsafe { Library::new(name) } {
            Ok(library) => return Ok(library),
            Err(error) => {
                let said = std::error::Error::source(&error).map(ToString::to_string);
                reasons.push(said.unwrap_or_else(|| format!("{name}: {error}")));
            }
        }
    }
    Err(NoLibrary { reasons })
}

impl std::fmt::Debug for Functions {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Functions").finish_non_exhaustive()
    }
}

impl Functions {
    /// Whether kernels run on the PTX machine, and not on a GPU.
    pub(crate) fn are_of_ptx(&self) -> bool {
        self.are_of_ptx
    }

    /// The driver's name and text of an error.
    pub(crate) fn words(&'static self, code: u32) -> (String, String) {
        let text = |found: *const c_char| {
            if found.is_null() {
                return None;
            }
            // SAFETY: not null, and the driver returns texts that end in zero and live for ever.
            Some(unsafe { CStr::from_ptr(found) }.to_string_lossy().into_owned())
        };
        let (mut name, mut meaning) = (std::ptr::null(), std::ptr::null());
        // SAFETY: writes one pointer. An unknown code leaves it null.
        let named = unsafe { self.cuGetErrorName(code, &raw mut name) };
        // SAFETY: as above.
        let explained = unsafe { self.cuGetErrorString(code, &raw mut meaning) };
        let name = named.ok().and_then(|()| text(name)).unwrap_or_else(|| format!("error {code}"));
        let meaning = explained.ok().and_then(|()| text(meaning));
        (name, meaning.unwrap_or_else(|| "this driver has no text for it".to_owned()))
    }
}
