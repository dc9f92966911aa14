// UNSAFETY: these tests launch kernels of their own, over memory of their own.
#![expect(unsafe_code, reason = "launches over memory that the tests hold")]
//! Kernels on a real driver: they are PTX, for which a fake driver has no code to run. Where there is no GPU, each test
//! says that it was skipped.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use warpbell_gpu::{Function, Gpu, LaunchConfig, Module, Registered, Watchdog, WatchdogReport};
use warpbell_hw::{BASE_PAGE, Window};

/// Two little kernels. Each takes one struct of 16 bytes: an address and a number.
const PTX: &str = r".version 7.0
.target sm_75
.address_size 64

// Each thread stores the number to its place.
.visible .entry store(.param .align 8 .b8 args[16])
{
    .reg .b32 %r<6>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [args];
    ld.param.u32 %r1, [args+8];
    mov.u32 %r2, %ctaid.x;
    mov.u32 %r3, %ntid.x;
    mov.u32 %r4, %tid.x;
    mad.lo.s32 %r5, %r2, %r3, %r4;
    mul.wide.u32 %rd2, %r5, 4;
    add.s64 %rd3, %rd1, %rd2;
    st.u32 [%rd3], %r1;
    ret;
}

// Waits until the word at the address has the number.
.visible .entry spin(.param .align 8 .b8 args[16])
{
    .reg .b32 %r<3>;
    .reg .b64 %rd<2>;
    .reg .pred %p<2>;
    ld.param.u64 %rd1, [args];
    ld.param.u32 %r1, [args+8];
poll:
    ld.volatile.u32 %r2, [%rd1];
    setp.ne.u32 %p1, %r2, %r1;
    @%p1 bra poll;
    ret;
}
";
/// Tells a second process of this program what it is for.
const SECOND: &str = "WARPBELL_GPU_TEST_SECOND";

/// The first GPU and the kernels, if there is a driver.
fn loaded(test: &str) -> Option<(Arc<Gpu>, Module)> {
    let loaded = Gpu::open(0).and_then(|gpu| Ok((gpu.clone(), gpu.load("kernels", PTX.as_bytes())?)));
    match loaded {
        Ok(fixture) => Some(fixture),
        Err(error) => {
            println!("skipped: {test}: {error}");
            assert!(error.is_missing_requirement(), "{error}");
            None
        }
    }
}

/// The same, if it is a GPU.
fn fixture(test: &str) -> Option<(Arc<Gpu>, Module)> {
    let (gpu, module) = loaded(test)?;
    if gpu.info().name.contains("no GPU") {
        println!("skipped: {test}: {}", gpu.info().name);
        return None;
    }
    Some((gpu, module))
}

fn args(address: u64, number: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&address.to_ne_bytes());
    bytes[8..12].copy_from_slice(&number.to_ne_bytes());
    bytes
}

fn launch(
    kernel: &Function,
    config: &LaunchConfig,
    args: &[u8],
) -> Result<warpbell_gpu::Running, warpbell_gpu::GpuError> {
    // SAFETY: the kernels of PTX touch what their first argument names: memory that each test holds, or none at all
    // where it is to fail.
    unsafe { kernel.launch(config, args) }
}

fn shape(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig::new(grid, block)
}

#[test]
fn a_kernel_stores_where_its_argument_says() {
    let Some((gpu, module)) = fixture("a_kernel_stores_where_its_argument_says") else { return };
    let store = module.function("store").unwrap();
    assert_eq!(store.argument_size(), Some(16));
    assert!(store.attributes().registers > 0 && store.attributes().local_bytes == 0, "{store:?}");
    let memory = Arc::new(gpu.allocate(4 * 64 * 4).unwrap());
    let host = Window::host(BASE_PAGE).unwrap();
    let registered = gpu.register(&host).unwrap();
    let first = shape(4, 64).keep(vec![memory.clone()]);
    let running = launch(&store, &first, &args(memory.address(), 0x1234_5678)).unwrap();
    let cooperative = shape(2, 32).cooperative(true);
    let second = launch(&store, &cooperative, &args(registered.address(), 77)).unwrap();
    assert!(running.join().unwrap() < Duration::from_secs(10));
    second.join().unwrap();
    let mut bytes = vec![0; memory.len()];
    memory.read(0, &mut bytes).unwrap();
    assert!(bytes.chunks(4).all(|word| word == 0x1234_5678u32.to_ne_bytes()));
    let words: Vec<u32> =
        (0..65).map(|at| host.load_u32(at * 4, std::sync::atomic::Ordering::Acquire)).collect();
    assert_eq!((&words[..64], words[64]), (&[77; 64][..], 0));
}

#[test]
fn what_cannot_be_launched_is_named() {
    let Some((_, module)) = loaded("what_cannot_be_launched_is_named") else { return };
    let store = module.function("store").unwrap();
    let text = |config: LaunchConfig, args: &[u8]| launch(&store, &config, args).unwrap_err().to_string();
    assert!(text(shape(1, 32), &[0; 8]).contains("its argument has 16 bytes, and 8 were given"));
    assert!(text(shape(0, 32), &[0; 16]).contains("0 blocks of 32 threads"));
    assert!(text(shape(1, 4096), &[0; 16]).contains("1 blocks of 4096 threads"));
    let all = shape(1 << 20, 1024).cooperative(true);
    assert!(text(all, &[0; 16]).contains("at the same time: only"));
    let error = module.function("nothing").unwrap_err().to_string();
    assert_eq!(error, "cuda:0: kernel nothing of module kernels: the module has no kernel of that name");
}

/// Starts a kernel that spins until the flag is set.
fn spin(gpu: &Arc<Gpu>, spin: &Function) -> (Registered, warpbell_gpu::Running) {
    let window = Window::host(BASE_PAGE).expect("a page");
    let flag = gpu.register(&window).expect("registered");
    let config = shape(1, 32).keep(vec![Arc::new(flag.clone())]);
    let running = launch(spin, &config, &args(flag.address(), 1)).expect("started");
    (flag, running)
}

#[test]
fn a_watchdog_stops_a_kernel_that_looks() {
    let Some((gpu, module)) = fixture("a_watchdog_stops_a_kernel_that_looks") else { return };
    let memory = gpu.allocate(4096).unwrap();
    let (flag, running) = spin(&gpu, &module.function("spin").unwrap());
    // The host copies while a kernel runs.
    memory.write(0, b"meanwhile").unwrap();
    let mut bytes = [0; 9];
    memory.read(0, &mut bytes).unwrap();
    assert_eq!(&bytes, b"meanwhile");
    assert!(!running.wait(Duration::from_millis(20)).unwrap());
    let limit = Duration::from_millis(100);
    let watchdog = Watchdog::start(flag.window().clone(), limit, Duration::from_secs(60), |_| ()).unwrap();
    let took = running.join().unwrap();
    assert_eq!(watchdog.end(), WatchdogReport::Stopped);
    assert!(took >= Duration::from_millis(20), "{took:?}");
}

#[test]
fn after_a_fault_every_call_fails_and_says_what_was_first() {
    const NAME: &str = "after_a_fault_every_call_fails_and_says_what_was_first";
    if std::env::var_os(SECOND).is_none() {
        // It loses the context of its process.
        let second = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", NAME, "--nocapture"])
            .env(SECOND, "1")
            .status();
        assert!(second.unwrap().success());
        return;
    }
    let Some((gpu, module)) = fixture(NAME) else { return };
    let memory = gpu.allocate(4096).unwrap();
    let running = launch(&module.function("store").unwrap(), &shape(1, 32), &args(0x10, 1)).unwrap();
    let error = running.join().unwrap_err();
    assert!(error.is_context_lost() && !error.is_missing_requirement(), "{error}");
    assert!(error.to_string().contains("the GPU's context is lost"), "{error}");
    let later = memory.read(0, &mut [0]).unwrap_err();
    assert!(later.is_context_lost(), "{later}");
    assert!(later.to_string().contains("the first failure was: cuda:0: work on the device"), "{later}");
    assert!(gpu.first_fault().is_some());
}
