// UNSAFETY: calls the driver's C functions, as whoever owns a stream does, and launches kernels over memory of the test's.
#![expect(unsafe_code, reason = "a stream of somebody else's, and work on it")]
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
//! Launches on streams of somebody else's.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use libloading::Library;
use warpbell_gpu::{DeviceMemory, Function, Gpu, GpuError, Registered, Running};
use warpbell_hw::Window;
use zerocopy::IntoBytes;

use super::kernels::{Job, config, fake_driver, function, launch};
use super::rules::{cuda, start};

/// The memory of two kernels, and the flag of one that waits.
struct Setup {
    function: Function,
    words: DeviceMemory,
    beside: DeviceMemory,
    flag: Window,
    registered: Registered,
}

impl Setup {
    fn new(gpu: &Arc<Gpu>) -> Setup {
        let flag = Window::host(4096).unwrap();
        let [words, beside] = [(); 2].map(|()| gpu.allocate(128).unwrap());
        Setup { function: function(gpu), words, beside, registered: gpu.register(&flag).unwrap(), flag }
    }

    /// Every word gets one more; in mode 1 once the flag is set.
    fn add(&self, words: &DeviceMemory, mode: u32, stream: Option<u64>) -> Result<Running, GpuError> {
        let job = Job { words: words.address(), flag: self.registered.address(), mode, pad: 0 };
        launch(&self.function, &config(1, 32).stream(stream), job.as_bytes())
    }

    /// One that waits and one behind it, and a third that neither holds up. `behind` goes between the second and the flag.
    fn run(&self, stream: u64, behind: impl FnOnce()) {
        self.flag.store_u32(0, 0, Ordering::Release);
        let first = self.add(&self.words, 1, Some(stream)).unwrap();
        let second = self.add(&self.words, 0, Some(stream)).unwrap();
        behind();
        self.add(&self.beside, 0, None).unwrap().join().unwrap();
        assert!(!second.wait(Duration::from_millis(30)).unwrap(), "it waits for the first");
        self.flag.store_u32(0, 1, Ordering::Release);
        second.join().unwrap();
        assert!(first.is_finished().unwrap(), "the second began when it had ended");
        first.join().unwrap();
    }
}

/// Puts a value into each byte of the words, late: `copy-delay`.
fn fill(driver: &Library, words: &DeviceMemory, stream: u64) {
    let result = cuda!(driver, cuMemsetD8Async(words.address() => u64, 1 => u8, 128 => usize, stream => u64));
    assert_eq!(result, 0);
}

fn destroy(driver: &Library, stream: u64) {
    let mut context = 0u64;
    assert_eq!(cuda!(driver, cuStreamDestroy_v2(stream => u64)), 0);
    assert_eq!(cuda!(driver, cuCtxPopCurrent_v2(&raw mut context => *mut u64)), 0);
    assert_eq!(cuda!(driver, cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
}

#[test]
fn launches_on_a_stream_begin_after_what_is_there_and_before_what_comes() {
    let log = fake_driver("copy-delay=20000").child(|| {
        let (gpu, driver) = (Gpu::open(0).unwrap(), start());
        let (setup, seen, mut stream) = (Setup::new(&gpu), Window::host(4096).unwrap(), 0u64);
        let _pinned = gpu.register(&seen).unwrap();
        assert_eq!(cuda!(driver, cuStreamCreate(&raw mut stream => *mut u64, 1 => u32)), 0);
        fill(&driver, &setup.words, stream);
        setup.run(stream, || {
            let (to, from) = (seen.as_ptr().cast::<c_void>(), setup.words.address());
            let copied = cuda!(
                driver,
                cuMemcpyDtoHAsync_v2(to => *mut c_void, from => u64, 128 => usize, stream => u64)
            );
            assert_eq!(copied, 0);
        });
        assert_eq!(cuda!(driver, cuStreamSynchronize(stream => u64)), 0);
        assert_eq!(
            seen.load_u32(0, Ordering::Relaxed),
            0x0101_0103,
            "filled, then added to twice, then read"
        );
        destroy(&driver, stream);
    });
    log.assert_clean();
}

#[test]
fn the_default_streams_are_streams_too() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let setup = Setup::new(&gpu);
        for stream in [0, 1, 2] {
            setup.run(stream, || ());
        }
        let mut words = [0u32; 32];
        setup.words.read(0, words.as_mut_bytes()).unwrap();
        assert_eq!(words, [6; 32]);
        setup.flag.store_u32(0, 0, Ordering::Release);
        let waiting = setup.add(&setup.words, 1, Some(2)).unwrap();
        setup.add(&setup.words, 0, Some(1)).unwrap().join().unwrap();
        assert!(!waiting.is_finished().unwrap(), "a thread's default stream is not that of all");
        setup.flag.store_u32(0, 1, Ordering::Release);
        waiting.join().unwrap();
    });
    log.assert_clean();
}

#[test]
fn a_stream_that_is_none_is_named_and_nothing_is_left_behind() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let setup = Setup::new(&gpu);
        let error = setup.add(&setup.words, 0, Some(0x1234)).unwrap_err().to_string();
        assert!(error.starts_with("cuda:0: stream 0x1234: ") && error.contains("INVALID_HANDLE"), "{error}");
        setup.add(&setup.words, 0, None).unwrap().join().unwrap();
    });
    assert_eq!(log.of("violation"), ["cuEventRecord: 0x1234 is no stream, or no longer"]);
    assert!(log.of("leak").is_empty(), "{log:?}");
}
