// UNSAFETY: calls the fake driver's C functions, as a careless program would.
#![expect(unsafe_code, reason = "foreign functions of the fake driver")]
//! What the fake driver finds, by calls that are wrong on purpose.

use std::ffi::c_void;

use fake_cuda::harness::FakeDriver;
use libloading::Library;
use warpbell_hw::{HostMemory, Memory};

const INVALID_VALUE: u32 = 1;
const NOT_INITIALIZED: u32 = 3;
const INVALID_CONTEXT: u32 = 201;
const INVALID_HANDLE: u32 = 400;
const ALREADY_REGISTERED: u32 = 712;
const NOT_REGISTERED: u32 = 713;

/// Calls a function of the driver by its name.
macro_rules! cuda {
    ($library:expr, $name:ident($($value:expr => $type:ty),*)) => {{
        // SAFETY: the signature is cuda.h's.
        let found = unsafe { $library.get::<unsafe extern "C" fn($($type),*) -> u32>(stringify!($name)) };
        let function = found.expect(stringify!($name));
        // SAFETY: pointers are to local variables; what else is wrong the fake driver must find out.
        unsafe { function($($value),*) }
    }};
}
pub(crate) use cuda;

fn load() -> Library {
    // SAFETY: it has no initialisers.
    unsafe { Library::new("libcuda.so.1") }.expect("the fake driver")
}

/// The driver with a context on this thread.
pub(crate) fn start() -> Library {
    let driver = load();
    let mut context = 0u64;
    assert_eq!(cuda!(driver, cuInit(0 => u32)), 0);
    assert_eq!(cuda!(driver, cuDevicePrimaryCtxRetain(&raw mut context => *mut u64, 0 => i32)), 0);
    assert_eq!(cuda!(driver, cuCtxPushCurrent_v2(context => u64)), 0);
    driver
}

#[test]
fn a_call_needs_the_driver_and_a_context() {
    let log = FakeDriver::new("").child(|| {
        let driver = load();
        let (mut count, mut address) = (0i32, 0u64);
        assert_eq!(cuda!(driver, cuDeviceGetCount(&raw mut count => *mut i32)), NOT_INITIALIZED);
        assert_eq!(cuda!(driver, cuInit(0 => u32)), 0);
        assert_eq!(cuda!(driver, cuDeviceGetCount(&raw mut count => *mut i32)), 0);
        assert_eq!(count, 1);
        assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut address => *mut u64, 64 => usize)), INVALID_CONTEXT);
        assert_eq!(cuda!(driver, cuDevicePrimaryCtxRelease_v2(0 => i32)), INVALID_CONTEXT);
    });
    assert_eq!(
        log.of("violation"),
        [
            "cuMemAlloc_v2: no context is current on this thread",
            "cuDevicePrimaryCtxRelease_v2: the primary context is not retained"
        ],
        "the first came before there was a log"
    );
}

#[test]
fn memory_is_freed_once_and_what_is_left_is_told() {
    let log = FakeDriver::new("").child(|| {
        let driver = start();
        let (mut one, mut two) = (0u64, 0u64);
        assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut one => *mut u64, 1 << 16 => usize)), 0);
        assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut two => *mut u64, 100 => usize)), 0);
        assert_ne!(one % 4096, 0, "nobody promises that memory begins with a page");
        assert_eq!(cuda!(driver, cuMemFree_v2(one + 8 => u64)), INVALID_VALUE, "not what was given");
        assert_eq!(cuda!(driver, cuMemFree_v2(one => u64)), 0);
        assert_eq!(cuda!(driver, cuMemFree_v2(one => u64)), INVALID_VALUE);
        assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut one => *mut u64, 0 => usize)), INVALID_VALUE);
    });
    assert_eq!(log.of("violation").len(), 3, "{log:?}");
    assert!(log.of("leak")[0].starts_with("100 bytes of device memory at 0x"), "{log:?}");
}

#[test]
fn copies_stay_inside_what_there_is() {
    let log = FakeDriver::new("").child(|| {
        let driver = start();
        let (mut memory, mut stream, bytes) = (0u64, 0u64, [1u8; 256]);
        let from = bytes.as_ptr().cast::<c_void>();
        let copy = |to: u64, from: *const c_void, len: usize, stream: u64| {
            cuda!(driver, cuMemcpyHtoDAsync_v2(to => u64, from => *const c_void, len => usize, stream => u64))
        };
        assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut memory => *mut u64, 256 => usize)), 0);
        assert_eq!(cuda!(driver, cuStreamCreate(&raw mut stream => *mut u64, 0 => u32)), INVALID_VALUE);
        assert_eq!(cuda!(driver, cuStreamCreate(&raw mut stream => *mut u64, 1 => u32)), 0);
        assert_eq!(copy(memory, from, 256, stream), 0);
        assert_eq!(copy(memory + 1, from, 256, stream), INVALID_VALUE);
        assert_eq!(copy(bytes.as_ptr() as u64, from, 1, stream), INVALID_VALUE, "a host's address");
        assert_eq!(copy(memory, memory as *const c_void, 1, stream), INVALID_VALUE, "a device's address");
        assert_eq!(copy(memory, from, 256, stream + 1), INVALID_HANDLE);
        assert_eq!(copy(memory, from, 256, 0), INVALID_HANDLE, "the default stream waits for others");
        assert_eq!(cuda!(driver, cuStreamDestroy_v2(stream => u64)), 0);
        assert_eq!(cuda!(driver, cuStreamDestroy_v2(stream => u64)), INVALID_HANDLE);
        assert_eq!(cuda!(driver, cuMemFree_v2(memory => u64)), 0);
    });
    assert_eq!((log.of("violation").len(), log.of("leak").len()), (7, 0), "{log:?}");
}

#[test]
fn registrations_are_of_whole_pages_and_do_not_overlap() {
    let log = FakeDriver::new("").child(|| {
        let driver = start();
        let memory = HostMemory::new(16384).unwrap();
        let base = memory.base().as_ptr();
        let register = |offset: usize, len: usize, flags: u32| {
            let start = base.wrapping_add(offset).cast::<c_void>();
            cuda!(driver, cuMemHostRegister_v2(start => *mut c_void, len => usize, flags => u32))
        };
        let unregister = |offset: usize| {
            let start = base.wrapping_add(offset).cast::<c_void>();
            cuda!(driver, cuMemHostUnregister(start => *mut c_void))
        };
        assert_eq!(register(64, 4096, 3), INVALID_VALUE);
        assert_eq!(register(0, 64, 3), INVALID_VALUE);
        assert_eq!(register(0, 4096, 16), INVALID_VALUE, "an unknown flag");
        assert_eq!(register(0, 8192, 3), 0);
        assert_eq!(register(4096, 8192, 3), ALREADY_REGISTERED);
        let mut address = 0u64;
        let inside = base.wrapping_add(4096).cast::<c_void>();
        let result = cuda!(
            driver,
            cuMemHostGetDevicePointer_v2(&raw mut address => *mut u64, inside => *mut c_void, 0 => u32)
        );
        assert_eq!(result, INVALID_VALUE, "cuda.h speaks of what was registered, not of parts");
        assert_eq!(unregister(4096), NOT_REGISTERED);
        assert_eq!(unregister(0), 0);
        assert_eq!(unregister(0), NOT_REGISTERED);
        // I/O memory must have been touched; of these pages the last was not.
        assert_eq!(register(12288, 4096, 7), INVALID_VALUE);
        // SAFETY: inside the mapping.
        unsafe { base.wrapping_add(12288).read_volatile() };
        assert_eq!(register(12288, 4096, 7), 0);
        drop(memory);
        assert_eq!(unregister(12288), 0);
    });
    let violations = log.of("violation");
    assert_eq!(violations.len(), 9, "{log:?}");
    assert!(violations[7].contains("was not touched"), "{log:?}");
    assert!(violations[8].contains("unmapped while registered"), "{log:?}");
}

#[test]
fn a_context_that_was_released_is_gone_with_all_that_lived_in_it() {
    let log = FakeDriver::new("").child(|| {
        let driver = start();
        let mut memory = 0u64;
        assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut memory => *mut u64, 256 => usize)), 0);
        assert_eq!(cuda!(driver, cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
        assert_eq!(cuda!(driver, cuMemFree_v2(memory => u64)), 709, "the context is destroyed");
    });
    assert!(log.of("leak")[0].contains("with its context: 256 bytes"), "{log:?}");
    assert_eq!(log.of("violation"), ["cuMemFree_v2: the current context has ended"]);
}
