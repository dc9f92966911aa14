//! `crates/gpu`: devices, memory, registration, images.

use std::sync::atomic::Ordering;

use fake_cuda::harness::{self, FakeDriver};
use warpbell_gpu::{FlushPolicy, Gpu, GpuError, WriteOrdering};
use warpbell_hw::{HostMemory, Window, WordMemory};

#[test]
fn a_gpu_says_what_it_is_and_the_fake_that_it_is_none() {
    let log = FakeDriver::new("devices=2,capability=8.6,multiprocessors=5").child(|| {
        assert_eq!(Gpu::count().unwrap(), 2);
        let gpu = Gpu::open(1).unwrap();
        let info = gpu.info();
        assert_eq!(info.name, "fake CUDA driver (no GPU)");
        assert_eq!((info.ordinal, info.capability, info.multiprocessors), (1, (8, 6), 5));
        assert_eq!(info.pci_address, "ffff:ff:01.0", "in lower case, as Linux has it");
        assert_eq!((info.memory, info.driver), (1 << 30, (13, 0)));
        assert!(info.cooperative && info.dma_buf);
        let error = Gpu::open(2).unwrap_err();
        assert!(
            matches!(error, GpuError::NoDevice { ordinal: 2, count: 2 }) && error.is_missing_requirement()
        );
    });
    log.assert_clean();
}

#[test]
fn device_memory_is_zeroed_aligned_and_copied() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let free = gpu.free_memory().unwrap();
        let memory = gpu.allocate(100_000).unwrap();
        assert_eq!((memory.len(), memory.address() % (64 << 10)), (100_000, 0));
        assert!(gpu.free_memory().unwrap() <= free - 100_000);
        let mut bytes = vec![1; 100_000];
        memory.read(0, &mut bytes).unwrap();
        assert!(bytes.iter().all(|byte| *byte == 0), "fresh memory is filled with something else");
        memory.write(99_990, &[7; 10]).unwrap();
        memory.fill(0, 3, 9).unwrap();
        memory.read(99_989, &mut bytes[..11]).unwrap();
        assert_eq!(bytes[..11], [0, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7]);
        memory.read(0, &mut bytes[..4]).unwrap();
        assert_eq!(bytes[..4], [9, 9, 9, 0]);
        for outside in
            [memory.read(99_999, &mut bytes[..2]), memory.write(100_000, &[1]), memory.fill(1, 100_000, 0)]
        {
            assert!(outside.unwrap_err().to_string().contains("outside 100000 bytes"));
        }
        assert!(gpu.allocate(0).is_err());
        drop(memory);
        assert_eq!(gpu.free_memory().unwrap(), free);
    });
    log.assert_clean();
}

#[test]
fn threads_share_a_gpu_without_a_context_of_their_own() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        std::thread::scope(|scope| {
            for number in 0..4u8 {
                let gpu = gpu.clone();
                scope.spawn(move || {
                    let memory = gpu.allocate(4096).unwrap();
                    memory.fill(0, 4096, number).unwrap();
                    let mut bytes = [0xff; 16];
                    memory.read(4080, &mut bytes).unwrap();
                    assert_eq!(bytes, [number; 16]);
                });
            }
        });
    });
    log.assert_clean();
}

#[test]
fn host_memory_is_registered_once_however_often_it_is_used() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let window = Window::host(16384).unwrap();
        let whole = gpu.register(&window).unwrap();
        let part = gpu.register(&window.slice(8200, 100).unwrap()).unwrap();
        assert_eq!(part.address(), whole.address() + 8200);
        assert_ne!(whole.address(), window.as_ptr() as u64, "a device's address is not the host's pointer");
        drop(whole);
        let again = gpu.register(&window).unwrap();
        assert_eq!(again.address() + 8200, part.address(), "still the first registration");
    });
    log.assert_clean();
    assert_eq!((log.calls("cuMemHostRegister_v2"), log.calls("cuMemHostUnregister")), (1, 1));
}

#[test]
fn two_gpus_share_a_registration_and_the_context_that_made_it_outlives_it() {
    let log = FakeDriver::new("devices=2").child(|| {
        let window = Window::host(4096).unwrap();
        let (first, second) = (Gpu::open(0).unwrap(), Gpu::open(1).unwrap());
        let one = first.register(&window).unwrap();
        let two = second.register(&window).unwrap();
        assert_eq!(one.address(), two.address());
        drop((one, first));
        let memory = second.allocate(64).unwrap();
        memory.fill(0, 64, 1).unwrap();
        drop((two, second));
    });
    log.assert_clean();
}

#[test]
fn bar_pages_are_touched_and_registered_as_io_memory() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let bar = Window::whole(WordMemory::new(HostMemory::new(16384).unwrap()));
        let doorbells = gpu.register_io(&bar.slice(0x1000, 0x1800).unwrap()).unwrap();
        assert_ne!(doorbells.address(), 0);
        let text = gpu.register(&bar).unwrap_err().to_string();
        assert!(text.contains("I/O memory"), "{text}");
        let host = Window::host(4096).unwrap();
        host.store_u32(0, 1, Ordering::Relaxed);
        assert!(gpu.register_io(&host).unwrap_err().to_string().contains("ordinary memory"));
    });
    log.assert_clean();
    assert_eq!(log.calls("cuMemHostRegister_v2"), 1);
}

#[test]
fn stores_to_a_dead_registration_of_bar_pages_are_lost() {
    let log = FakeDriver::new("io-memory=dead").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let memory = HostMemory::new(8192).unwrap();
        let bar = Window::whole(WordMemory::new(memory.clone()));
        let doorbells = gpu.register_io(&bar.slice(0x1000, 0x1000).unwrap()).unwrap();
        assert_ne!(doorbells.address(), bar.as_ptr() as u64 + 0x1000, "kernels get other memory");
        let host = Window::host(4096).unwrap();
        host.store_u32(0, 7, Ordering::Relaxed);
        assert_ne!(gpu.register(&host).unwrap().address(), 0, "host memory is not affected");
    });
    log.assert_clean();
}

#[test]
fn exported_memory_is_the_same_memory() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let memory = gpu.allocate(8192).unwrap();
        memory.fill(0, 8192, 3).unwrap();
        let window = memory.map().unwrap();
        assert_eq!(window.load_u32(8188, Ordering::Relaxed), 0x0303_0303, "what was there before");
        window.store_u32(0, 0x0102_0304, Ordering::Relaxed);
        let mut bytes = [0; 4];
        memory.read(0, &mut bytes).unwrap();
        assert_eq!(bytes, [4, 3, 2, 1]);
        memory.write(4096, &[9; 4]).unwrap();
        assert_eq!(window.load_u32(4096, Ordering::Relaxed), 0x0909_0909);
        let again = memory.map().unwrap();
        assert_eq!(
            again.load_u32(4096, Ordering::Relaxed),
            0x0909_0909,
            "a second export is of the same pages"
        );
    });
    log.assert_clean();
    assert_eq!(log.calls("cuPointerSetAttribute"), 2, "SYNC_MEMOPS before each export");
}

#[test]
fn each_of_our_images_loads_where_it_should() {
    if harness::kernels("digest", 75).is_none() {
        return;
    }
    let log = FakeDriver::new("capability=7.5").child(|| {
        let gpu = Gpu::open(0).unwrap();
        for kernel in ["bench", "digest", "queue_test"] {
            let image = harness::kernels(kernel, 75).unwrap();
            let module = gpu.load(kernel, &image.bytes).unwrap();
            let function = module.function(kernel).unwrap();
            let builtin = warpbell_kernels::cpu::Module::builtin().unwrap();
            let size = builtin.kernel(kernel).unwrap().args_size();
            assert_eq!(function.argument_size(), Some(size as usize), "{kernel}");
            assert_eq!(function.attributes().ptx_version, 75);
            assert!(function.blocks_per_multiprocessor(128, 0).unwrap() > 0);
        }
        let newer = b".version 9.0\n.target sm_80\n.address_size 64\n.entry k() { ret; }";
        let error = gpu.load("newer", newer).map(drop).unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_INVALID_PTX") && error.contains("newer than sm_75"), "{error}");
    });
    log.assert_clean();
}

#[test]
fn images_that_are_wrong_are_refused_with_the_compilers_words() {
    let log = FakeDriver::new("").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let fine = ".version 9.0\n.target sm_75\n.address_size 64\n.entry here() { ret; }";
        let module = gpu.load("mine", fine.as_bytes()).unwrap();
        let error = module.function("there").map(drop).unwrap_err().to_string();
        assert!(
            error.contains("kernel there of module mine") && error.contains("no kernel of that name"),
            "{error}"
        );
        let broken = fine.replace("{ ret; }", "");
        let error = gpu.load("broken", broken.as_bytes()).map(drop).unwrap_err().to_string();
        assert!(error.contains("module broken") && error.contains("the end of the text"), "{error}");
        let error =
            gpu.load("elf", &std::fs::read("/proc/self/exe").unwrap()).map(drop).unwrap_err().to_string();
        assert!(error.contains("CUDA_ERROR_INVALID_IMAGE") && error.contains("machine"), "{error}");
        assert!(gpu.load("text", b"no image").map(drop).unwrap_err().to_string().contains("neither PTX"));
    });
    log.assert_clean();
}

#[test]
fn the_order_of_other_devices_writes_decides_what_is_flushed() {
    let log = FakeDriver::new("ordering=0,flush=1").child(|| {
        let gpu = Gpu::open(0).unwrap();
        assert_eq!((gpu.write_ordering(), gpu.flush_policy()), (WriteOrdering::None, FlushPolicy::HostCall));
        gpu.flush_remote_writes().unwrap();
    });
    log.assert_clean();
    assert_eq!(log.calls("cuFlushGPUDirectRDMAWrites"), 1);
}

#[test]
fn a_gpu_that_keeps_the_order_is_not_flushed() {
    let log = FakeDriver::new("ordering=100,flush=0").child(|| {
        let gpu = Gpu::open(0).unwrap();
        assert_eq!((gpu.write_ordering(), gpu.flush_policy()), (WriteOrdering::Owner, FlushPolicy::Nothing));
        gpu.flush_remote_writes().unwrap();
    });
    log.assert_clean();
    assert_eq!(log.calls("cuFlushGPUDirectRDMAWrites"), 0);
}
