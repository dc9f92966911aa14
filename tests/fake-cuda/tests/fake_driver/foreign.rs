//! Device memory that somebody else has.
// UNSAFETY: takes memory over that the test keeps.
#![expect(unsafe_code, reason = "the promise that memory stays is an unsafe one")]

use std::sync::Arc;

use fake_cuda::harness::FakeDriver;
use warpbell_gpu::{DeviceMemory, Gpu, GpuError};
use warpbell_hw::Window;

const PAGE: usize = 64 << 10;

/// What is at `address`, for as long as the test keeps it.
fn foreign(gpu: &Arc<Gpu>, address: u64, len: usize) -> Result<DeviceMemory, GpuError> {
    // SAFETY: no test frees what it asks for before the value has gone.
    unsafe { gpu.foreign(address, len, None) }
}

#[test]
fn memory_of_others_is_used_in_place_and_left_to_them() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let whole = gpu.allocate(4 * PAGE).unwrap();
        let part = foreign(&gpu, whole.address() + PAGE as u64, 2 * PAGE).unwrap();
        assert_eq!((part.address(), part.len()), (whole.address() + PAGE as u64, 2 * PAGE));
        part.write(5, b"theirs").unwrap();
        let mut bytes = [0; 6];
        whole.read(PAGE + 5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"theirs");
        assert!(part.read(2 * PAGE, &mut bytes).is_err(), "it ends where it was said to");
        let mapped = part.map().unwrap();
        assert_eq!(mapped.to_vec(5, 6).unwrap(), b"theirs", "other devices reach that part");
        drop((mapped, part));
        whole.read(PAGE + 5, &mut bytes).unwrap();
        assert_eq!(&bytes, b"theirs", "it was not freed");
    });
    log.assert_clean();
}

#[test]
fn memory_that_cannot_be_taken_over_is_refused_by_name() {
    let log = FakeDriver::new("devices=2").child(|| {
        let [gpu, other] = [0, 1].map(|ordinal| Gpu::open(ordinal).unwrap());
        let whole = gpu.allocate(2 * PAGE).unwrap();
        let host = Window::host(4 * PAGE).unwrap();
        let _registered = gpu.register(&host).unwrap();
        let (at, of_host) = (whole.address(), (host.as_ptr() as u64).next_multiple_of(PAGE as u64));
        for (gpu, address, len, reason) in [
            (&gpu, at + 4096, PAGE, "both must be multiples of 65536 bytes"),
            (&gpu, at, 100, "both must be multiples of 65536 bytes"),
            (&gpu, at, 0, "both must be multiples of 65536 bytes"),
            (&gpu, at + PAGE as u64, 16 * PAGE, "its allocation has"),
            (&gpu, of_host, PAGE, "host memory: register it as such"),
            (&gpu, 0x10_0000, PAGE, "no memory that CUDA knows"),
            (&other, at, PAGE, "memory of cuda:0, not of cuda:1"),
        ] {
            let error = foreign(gpu, address, len).unwrap_err();
            assert!(matches!(error, GpuError::Foreign { .. }), "{error}");
            let ordinal = gpu.info().ordinal;
            let object = format!("cuda:{ordinal}: {len} bytes at {address:#x}: ");
            let error = error.to_string();
            assert!(error.starts_with(&object) && error.contains(reason), "{error}");
        }
    });
    log.assert_clean();
}

#[test]
fn memory_that_is_not_exported_is_refused_when_a_device_is_to_reach_it() {
    let log = FakeDriver::new("dma-buf=absent").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let whole = gpu.allocate(PAGE).unwrap();
        let error = foreign(&gpu, whole.address(), PAGE).unwrap().map().unwrap_err().to_string();
        assert!(error.contains("its memory cannot be exported as a dma-buf"), "{error}");
    });
    log.assert_clean();
}
