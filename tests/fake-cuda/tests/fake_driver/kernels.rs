// UNSAFETY: these tests launch kernels, over memory of their own.
#![expect(unsafe_code, reason = "launches over memory that the tests hold")]
//! `crates/gpu`: kernels that run, that are told to stop, and that do what they must not.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fake_cuda::harness::{FakeDriver, unless_absent};
use warpbell_gpu::{Function, Gpu, GpuError, LaunchConfig, Running, Watchdog, WatchdogReport};
use warpbell_hw::{CopyDirection, RemoteCopy, RemoteMemory, Window};
use warpbell_kernels::image::Format;
use warpbell_kernels::toolchain::{CudaImage, Variant};
use zerocopy::{Immutable, IntoBytes};

use crate::rules::{cuda, start};

/// `mode` 0: every thread adds 1 to its word. 1: waits until the flag is set. 2: synchronises lanes that are not its own.
const SOURCE: &str = "#include <warpbell/warpbell.cuh>
struct job { uint64_t words, flag; uint32_t mode, pad; };
WARPBELL_KERNEL(fake_driver_job, job) {
    using namespace warpbell;
    const u32 thread = port::block_index() * port::block_threads() + port::thread_index();
    u32* const word = reinterpret_cast<u32*>(args.words) + thread;
    if (args.mode == 1) {
        while (port::load_relaxed_sys(reinterpret_cast<const u32*>(args.flag)) == 0) port::pause();
    }
    if (args.mode == 2) port::sync(~(1u << port::lane()));
    port::store_relaxed_sys(word, port::load_relaxed_sys(word) + 1u);
}
";

#[repr(C)]
#[derive(Clone, Copy, Default, IntoBytes, Immutable)]
pub(crate) struct Job {
    pub(crate) words: u64,
    pub(crate) flag: u64,
    pub(crate) mode: u32,
    pub(crate) pad: u32,
}

pub(crate) fn launch(kernel: &Function, config: &LaunchConfig, args: &[u8]) -> Result<Running, GpuError> {
    // SAFETY: our own kernels, over memory that each test holds, or that the fake driver refuses.
    unsafe { kernel.launch(config, args) }
}

/// The kernel's source. The CPU's code of it is compiled once for all tests.
fn source() -> Variant {
    let cache = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("fake_driver-kernels");
    std::fs::create_dir_all(&cache).expect("a folder for the module");
    Variant::text("fake_driver_job.cu", SOURCE).cache(&cache)
}

/// The fake driver with the CPU's code of the kernel.
pub(crate) fn fake_driver(options: &str) -> FakeDriver {
    let module = source().quick().build().expect("the CPU's code of the kernel");
    FakeDriver::new(&format!("modules={},{options}", module.display()))
}

pub(crate) fn function(gpu: &Arc<Gpu>) -> Function {
    declaring(gpu, "")
}

fn declaring(gpu: &Arc<Gpu>, variables: &str) -> Function {
    let ptx = format!(
        ".version 9.0\n.target sm_75\n.address_size 64\n\
         .visible .entry fake_driver_job(\n.param .align 8 .b8 fake_driver_job_param_0[24]\n)\n.maxntid 256, 1, 1\n\
         {{\n{variables}\nret;\n}}"
    );
    let module = gpu.load("fake_driver_job", ptx.as_bytes()).expect("PTX that the fake driver reads");
    module.function("fake_driver_job").expect("the only kernel")
}

pub(crate) fn config(grid: u32, block: u32) -> LaunchConfig {
    LaunchConfig::new(grid, block)
}

/// Compiled for a GPU by NVRTC; without it the test is skipped.
fn compiled(capability: u32) -> Option<CudaImage> {
    unless_absent("the kernel of these tests", source().cuda(capability).map_err(Into::into))
}

/// Loads what NVRTC made of the kernel for a GPU of this compute capability, and runs it.
fn run_compiled(capability: u32) {
    let gpu = Gpu::open(0).expect("the fake driver takes it");
    let image = compiled(capability).expect("the fake driver takes it");
    assert_eq!(image.format, Format::Cubin, "NVRTC knows the architecture");
    let function = gpu
        .load("fake_driver_job", &image.bytes)
        .expect("the fake driver takes it")
        .function("fake_driver_job")
        .expect("the fake driver takes it");
    let of = function.attributes();
    assert_eq!((function.argument_size(), of.max_threads), (Some(24), 256));
    assert_eq!((of.binary_version, of.local_bytes, of.shared_bytes), (capability, 0, 0));
    assert!((4..64).contains(&of.registers), "{of:?}");
    let memory = gpu.allocate(128).expect("the fake driver takes it");
    let job = Job { words: memory.address(), ..Job::default() };
    launch(&function, &config(1, 32), job.as_bytes())
        .expect("the fake driver takes it")
        .join()
        .expect("the fake driver takes it");
    let mut words = [0u32; 32];
    memory.read(0, words.as_mut_bytes()).expect("the fake driver takes it");
    assert_eq!(words, [1; 32]);
}

#[test]
fn machine_code_for_turing_loads_and_runs() {
    let Some(_) = compiled(75) else { return };
    fake_driver("capability=7.5").child(|| run_compiled(75)).assert_clean();
}

#[test]
fn machine_code_for_hopper_loads_and_runs() {
    let Some(_) = compiled(90) else { return };
    fake_driver("capability=9.0").child(|| run_compiled(90)).assert_clean();
}

#[test]
fn machine_code_for_another_gpu_is_refused() {
    let Some(_) = compiled(90) else { return };
    let log = fake_driver("capability=8.0").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let error = gpu.load("mine", &compiled(90).unwrap().bytes).map(drop).unwrap_err();
        assert!(error.to_string().contains("CUDA_ERROR_NO_BINARY_FOR_GPU"), "{error}");
        assert!(error.to_string().contains("sm_90 does not run on sm_80"), "{error}");
    });
    log.assert_clean();
}

/// How a kernel failed. An error may come with any call after the launch, and so before that is back.
fn failure(function: &Function, job: &Job) -> GpuError {
    let outcome = launch(function, &config(1, 32), job.as_bytes()).and_then(Running::join);
    outcome.expect_err("a kernel that does what it must not")
}

#[test]
fn a_kernel_writes_device_memory_and_registered_host_memory() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let function = function(&gpu);
        assert_eq!((function.argument_size(), function.attributes().max_threads), (Some(24), 256));
        let memory = gpu.allocate(4 * 128).unwrap();
        let job = Job { words: memory.address(), ..Job::default() };
        let running = launch(&function, &config(2, 64), job.as_bytes()).unwrap();
        assert!(running.join().unwrap() > Duration::ZERO);
        let mut words = [0u32; 128];
        memory.read(0, words.as_mut_bytes()).unwrap();
        assert_eq!(words, [1; 128]);
        let window = Window::host(4096).unwrap();
        window.store_u32(4, 41, Ordering::Relaxed);
        let registered = gpu.register(&window).unwrap();
        let job = Job { words: registered.address(), ..job };
        launch(&function, &config(1, 32), job.as_bytes()).unwrap().join().unwrap();
        let seen = [0, 4, 124, 128].map(|at| window.load_u32(at, Ordering::Relaxed));
        assert_eq!(seen, [1, 42, 1, 0]);
    });
    log.assert_clean();
}

#[test]
fn copies_go_on_while_a_kernel_waits_for_the_host() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (function, memory, flag) =
            (function(&gpu), gpu.allocate(1 << 16).unwrap(), Window::host(4096).unwrap());
        let registered = gpu.register(&flag).unwrap();
        let job = Job { words: memory.address(), flag: registered.address(), mode: 1, pad: 0 };
        let running = launch(&function, &config(1, 32), job.as_bytes()).unwrap();
        memory.write(4096, &[5; 100]).unwrap();
        assert!(!running.is_finished().unwrap());
        assert!(!running.wait(Duration::from_millis(20)).unwrap());
        flag.store_u32(0, 1, Ordering::Release);
        running.join().unwrap();
    });
    log.assert_clean();
}

#[test]
fn what_may_wait_for_a_kernel_is_told() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (function, memory, flag) =
            (function(&gpu), gpu.allocate(1 << 16).unwrap(), Window::host(4096).unwrap());
        let registered = gpu.register(&flag).unwrap();
        let job = Job { words: memory.address(), flag: registered.address(), mode: 1, pad: 0 };
        let running = launch(&function, &config(1, 32), job.as_bytes()).unwrap();
        let late = (gpu.allocate(4096).unwrap(), gpu.register(&Window::host(4096).unwrap()).unwrap());
        flag.store_u32(0, 1, Ordering::Release);
        running.join().unwrap();
        drop(late);
    });
    let hazards = log.of("hazard");
    for wanted in ["cuMemAlloc_v2: memory is allocated", "cuMemHostRegister_v2: host memory is registered"] {
        assert!(hazards.contains(&format!("{wanted} while a kernel runs").as_str()), "{hazards:?}");
    }
    // A kernel that runs for ever must not stop an allocation.
    assert!(!hazards.iter().any(|hazard| hazard.contains("cuMemFree")), "{hazards:?}");
    assert!(log.of("violation").is_empty(), "{log:?}");
}

#[test]
fn a_watchdog_stops_a_kernel_that_looks_at_its_flag() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (function, memory, flag) =
            (function(&gpu), gpu.allocate(128).unwrap(), Window::host(4096).unwrap());
        let registered = gpu.register(&flag).unwrap();
        let job = Job { words: memory.address(), flag: registered.address(), mode: 1, pad: 0 };
        let running = launch(&function, &config(1, 32), job.as_bytes()).unwrap();
        let watchdog = Watchdog::start(
            flag.slice(0, 4).unwrap(),
            Duration::from_millis(20),
            Duration::from_secs(60),
            |report| assert_eq!(report, WatchdogReport::Stopped),
        );
        let watchdog = watchdog.unwrap();
        running.join().unwrap();
        assert_eq!(watchdog.end(), WatchdogReport::Stopped);
    });
    log.assert_clean();
}

#[test]
fn a_host_pointer_given_to_a_kernel_ends_the_context() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let function = function(&gpu);
        let window = Window::host(4096).unwrap();
        let _registered = gpu.register(&window).unwrap();
        let job = Job { words: window.as_ptr() as u64, ..Job::default() };
        let error = failure(&function, &job);
        assert!(
            error.is_context_lost() && error.to_string().contains("CUDA_ERROR_ILLEGAL_ADDRESS"),
            "{error}"
        );
        let later = gpu.allocate(64).unwrap_err().to_string();
        assert!(later.contains("the first failure was"), "{later}");
        assert!(gpu.first_fault().unwrap().contains("ILLEGAL_ADDRESS"));
    });
    assert!(log.of("kernel")[0].contains("no device memory, nor registered host memory"), "{log:?}");
    assert!(log.of("violation").is_empty(), "{log:?}");
}

#[test]
fn what_lies_behind_an_allocation_is_nobodys() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let function = function(&gpu);
        let memory = gpu.allocate(64 << 10).unwrap();
        // The driver's allocation is longer by what aligning it took, and the fake driver's is off by 512 bytes.
        let job = Job { words: memory.address() + (64 << 10) + 512 - 64, ..Job::default() };
        let error = failure(&function, &job);
        assert!(error.is_context_lost(), "the second half of the warp is outside: {error}");
    });
    assert_eq!(log.of("kernel").len(), 1, "{log:?}");
}

#[test]
fn a_kernel_that_cannot_go_on_is_an_error() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (function, memory) = (function(&gpu), gpu.allocate(128).unwrap());
        let job = Job { words: memory.address(), mode: 2, ..Job::default() };
        let error = failure(&function, &job);
        assert!(error.to_string().contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
    });
    assert!(log.of("kernel")[0].contains("fake_driver_job"), "{log:?}");
}

#[test]
fn a_launch_that_cannot_be_is_refused_before_it_runs() {
    let log = fake_driver("multiprocessors=2").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (function, memory) = (function(&gpu), gpu.allocate(1 << 20).unwrap());
        let job = Job { words: memory.address(), ..Job::default() };
        let error =
            |config: &LaunchConfig, args: &[u8]| launch(&function, config, args).unwrap_err().to_string();
        assert!(error(&config(1, 257), job.as_bytes()).contains("at most 256 threads"));
        assert!(error(&config(1, 32), &job.as_bytes()[..16]).contains("has 24 bytes, and 16 were given"));
        let each = function.blocks_per_multiprocessor(256, 0).unwrap();
        let all = config(each * 2, 256).cooperative(true);
        launch(&function, &all, job.as_bytes()).unwrap().join().unwrap();
        let more = all.grid(each * 2 + 1);
        assert!(error(&more, job.as_bytes()).contains(&format!("only {} fit", each * 2)));
        let shared = config(1, 32).shared_bytes(100 << 10);
        launch(&function, &shared, job.as_bytes()).unwrap().join().unwrap();
        let too_much = shared.shared_bytes(1 << 20);
        assert!(error(&too_much, job.as_bytes()).contains("shared memory"));
    });
    log.assert_clean();
}

/// Beyond 48 KiB a block, static and dynamic, the driver must be asked first: for a launch, and for how many fit.
#[test]
fn shared_memory_is_asked_for_before_blocks_are_counted() {
    let log = fake_driver("multiprocessors=2").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let memory = gpu.allocate(1 << 20).unwrap();
        let job = Job { words: memory.address(), ..Job::default() };
        let large = config(4, 32).shared_bytes(100 << 10).cooperative(true);
        launch(&function(&gpu), &large, job.as_bytes()).unwrap().join().unwrap();
        assert_eq!(function(&gpu).blocks_per_multiprocessor(32, 100 << 10).unwrap(), 2);
        let fixed = declaring(&gpu, ".shared .align 4 .b8 area[40960];");
        assert_eq!(fixed.attributes().shared_bytes, 40960);
        let both = config(1, 32).shared_bytes(16 << 10);
        launch(&fixed, &both, job.as_bytes()).unwrap().join().unwrap();
        let more = both.shared_bytes(200 << 10);
        let error = launch(&fixed, &more, job.as_bytes()).unwrap_err().to_string();
        assert!(
            error.contains("204800 bytes of dynamic shared memory") && error.contains("191488"),
            "{error}"
        );
    });
    log.assert_clean();
}

#[test]
fn what_a_kernel_uses_lives_until_it_has_ended() {
    let log = fake_driver("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let (function, flag) = (function(&gpu), Window::host(4096).unwrap());
        let registered = gpu.register(&flag).unwrap();
        let memory = gpu.allocate(128).unwrap();
        let job = Job { words: memory.address(), flag: registered.address(), mode: 1, pad: 0 };
        let keep = config(1, 32).keep(vec![Arc::new(memory), Arc::new(registered)]);
        let running = launch(&function, &keep, job.as_bytes()).unwrap();
        drop((keep, function, gpu));
        let late = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            flag.store_u32(0, 1, Ordering::Release);
        });
        drop(running);
        late.join().unwrap();
    });
    log.assert_clean();
}

/// A kernel of one thread adds 1 to a word that came from `cuMemAlloc`, and that it has written before or not.
fn adds_to_a_word(writes: bool) -> Result<(), GpuError> {
    let ptx = format!(
        ".version 9.0\n.target sm_75\n.address_size 64\n.file 1 \"mine.cu\"\n.visible .entry mine(.param .u64 word)\n\
         {{\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [word];\n{}.loc 1 7 3\nld.global.u64 %rd2, [%rd1];\n\
         add.u64 %rd2, %rd2, 1;\nst.global.u64 [%rd1], %rd2;\nret;\n}}",
        if writes { "st.global.u64 [%rd1], 41;\n" } else { "" },
    );
    let (driver, gpu) = (start(), Gpu::open(0)?);
    let mut address = 0_u64;
    // Not by `Gpu::allocate`, whose memory is zeroed.
    assert_eq!(cuda!(driver, cuMemAlloc_v2(&raw mut address => *mut u64, 64 => usize)), 0);
    launch(&gpu.load("mine", ptx.as_bytes())?.function("mine")?, &config(1, 1), address.as_bytes())?
        .join()?;
    assert_eq!(cuda!(driver, cuMemFree_v2(address => u64)), 0);
    assert_eq!(cuda!(driver, cuDevicePrimaryCtxRelease_v2(0 => i32)), 0);
    Ok(())
}

#[test]
fn memory_that_a_kernel_reads_before_anybody_wrote_it_is_found_by_line() {
    let log = FakeDriver::new("execute=ptx,init=yes").child(|| {
        let error = adds_to_a_word(false).expect_err("a read of what nobody wrote").to_string();
        assert!(error.contains("CUDA_ERROR_LAUNCH_FAILED"), "{error}");
    });
    let [said] = log.of("kernel")[..] else { panic!("{log:?}") };
    for part in
        ["check Uninitialized", "module.ptx:10", "ld.global.u64 %rd2, [%rd1]", "mine.cu:7", "kernel mine"]
    {
        assert!(said.contains(part), "no '{part}': {said}");
    }
}

#[test]
fn memory_that_a_kernel_wrote_before_it_reads_it_is_no_finding() {
    FakeDriver::new("execute=ptx,init=yes").child(|| adds_to_a_word(true).unwrap()).assert_clean();
}

#[test]
fn reads_of_memory_that_nobody_wrote_are_looked_for_with_init_alone() {
    FakeDriver::new("execute=ptx").child(|| adds_to_a_word(false).unwrap()).assert_clean();
}

#[test]
fn batches_of_copies_name_their_tags_when_the_data_is_there() {
    let log = fake_driver("copy-delay=2000").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let memory = gpu.allocate(8192).unwrap();
        let (from, to) = (Window::host(4096).unwrap(), Window::host(4096).unwrap());
        let _pinned = (memory.pin(&from).unwrap(), memory.pin(&to).unwrap());
        from.fill(0, 4096, 0x5a).unwrap();
        let mut queue = memory.queue().unwrap();
        let copy = |direction, at, host: &Window| RemoteCopy { direction, at, host: host.clone() };
        let mut run = |copies: [RemoteCopy; 2]| {
            copies.into_iter().zip([7, 8]).for_each(|(copy, tag)| queue.push(copy, tag).unwrap());
            assert!(queue.finished().is_none(), "nothing was submitted");
            queue.submit().unwrap();
            let mut tags: Vec<u64> = std::iter::from_fn(|| {
                std::thread::sleep(Duration::from_micros(100));
                Some(queue.finished())
            })
            .flatten()
            .take(2)
            .map(|(tag, result)| result.map(|()| tag).unwrap())
            .collect();
            tags.sort_unstable();
            assert_eq!(tags, [7, 8]);
        };
        let halves = |window: &Window| [window.slice(0, 2048).unwrap(), window.slice(2048, 2048).unwrap()];
        let [first, second] = halves(&from);
        run([copy(CopyDirection::ToRemote, 4096, &first), copy(CopyDirection::ToRemote, 6144, &second)]);
        let [first, second] = halves(&to);
        run([copy(CopyDirection::FromRemote, 4096, &first), copy(CopyDirection::FromRemote, 6144, &second)]);
        assert_eq!(to.to_vec(0, 4096).unwrap(), vec![0x5a; 4096]);
        assert!(queue.push(copy(CopyDirection::ToRemote, 8192, &from), 9).is_err(), "outside of the memory");
    });
    log.assert_clean();
}
