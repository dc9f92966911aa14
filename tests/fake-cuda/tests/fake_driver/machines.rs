//! `crates/gpu` on machines that lack something: every one has its own words, and none a panic.

use fake_cuda::harness::{self, FakeDriver};
use warpbell_gpu::{Gpu, GpuError};
use warpbell_hw::{HostMemory, Window, WordMemory};

#[test]
fn a_driver_without_a_gpu_is_a_missing_requirement() {
    let log = FakeDriver::new("devices=0").child(|| {
        let error = Gpu::open(0).unwrap_err();
        assert!(error.is_missing_requirement(), "{error}");
        assert!(
            error.to_string().contains("CUDA_ERROR_NO_DEVICE") && error.to_string().contains("--target cpu")
        );
    });
    log.assert_clean();
}

#[test]
fn an_old_driver_refuses_our_ptx_and_says_which_is_needed() {
    let log = FakeDriver::new("driver=12040").child(|| {
        let gpu = Gpu::open(0).unwrap();
        assert_eq!(gpu.info().driver, (12, 4));
        let ptx = b".version 9.0\n.target sm_75\n.address_size 64\n.entry digest() { ret; }";
        let error = gpu.load("digest", ptx).map(drop).unwrap_err();
        assert!(error.is_missing_requirement(), "{error}");
        let text = error.to_string();
        for words in ["CUDA_ERROR_UNSUPPORTED_PTX_VERSION", "driver 580", "unsupported .version 9.0"] {
            assert!(text.contains(words), "{text}");
        }
    });
    log.assert_clean();
}

#[test]
fn a_missing_function_is_an_error_where_it_is_needed() {
    let log = FakeDriver::new("").without("cuMemHostRegister_v2").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let error = gpu.register(&Window::host(4096).unwrap()).unwrap_err();
        assert!(matches!(error, GpuError::MissingSymbol { symbol: "cuMemHostRegister_v2", .. }), "{error}");
        assert!(error.is_missing_requirement());
    });
    log.assert_clean();
}

#[test]
fn a_driver_without_new_functions_works_all_the_same() {
    if harness::kernels("digest", 90).is_none() {
        return;
    }
    let older = FakeDriver::new("")
        .without("cuEventElapsedTime_v2")
        .without("cuFuncLoad")
        .without("cuFuncGetParamInfo");
    let log = older.child(|| {
        let gpu = Gpu::open(0).unwrap();
        let image = harness::kernels("digest", 90).unwrap();
        let function = gpu.load("digest", &image.bytes).unwrap().function("digest").unwrap();
        assert_eq!(function.argument_size(), None);
    });
    log.assert_clean();
}

#[test]
fn memory_that_runs_out_is_told_with_the_size() {
    let log = FakeDriver::new("memory=1048576").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let half = gpu.allocate(1 << 19).unwrap();
        let error = gpu.allocate(1 << 20).unwrap_err().to_string();
        assert!(
            error.contains("1048576 bytes of memory") && error.contains("CUDA_ERROR_OUT_OF_MEMORY"),
            "{error}"
        );
        drop(half);
        gpu.allocate(1 << 19).unwrap();
    });
    log.assert_clean();
}

#[test]
fn a_second_allocation_that_fails_leaves_nothing_behind() {
    let log = FakeDriver::new("fail-alloc=2").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let first = gpu.allocate(4096).unwrap();
        assert!(gpu.allocate(4096).is_err());
        drop(first);
    });
    log.assert_clean();
}

#[test]
fn memory_that_cannot_be_exported_is_told_apart_from_files_that_cannot_be_mapped() {
    let log = FakeDriver::new("dma-buf=absent").child(|| {
        let gpu = Gpu::open(0).unwrap();
        assert!(!gpu.info().dma_buf);
        let error = gpu.allocate(4096).unwrap().dma_buf().unwrap_err().to_string();
        assert!(error.contains("cannot be exported as a dma-buf"), "{error}");
    });
    log.assert_clean();
}

#[test]
fn a_dma_buf_that_cannot_be_mapped_says_what_it_needs() {
    let log = FakeDriver::new("dma-buf=opaque").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let memory = gpu.allocate(4096).unwrap();
        memory.dma_buf().unwrap();
        let error = memory.map().unwrap_err().to_string();
        assert!(error.contains("mmap of the dma-buf"), "{error}");
    });
    log.assert_clean();
}

#[test]
fn a_coherent_machine_exports_memory_for_devices_on_pcie() {
    let log = FakeDriver::new("coherent=yes").child(|| {
        Gpu::open(0).unwrap().allocate(4096).unwrap().dma_buf().unwrap();
    });
    log.assert_clean();
}

#[test]
fn a_small_bar_refuses_what_does_not_fit() {
    let log = FakeDriver::new("bar=1048576").child(|| {
        let gpu = Gpu::open(0).unwrap();
        gpu.allocate(1 << 20).unwrap().dma_buf().unwrap();
        let error = gpu.allocate(1 << 21).unwrap().dma_buf().unwrap_err().to_string();
        assert!(error.contains("dma-buf of 2097152 bytes"), "{error}");
    });
    log.assert_clean();
}

#[test]
fn bar_pages_that_only_administrators_register_say_so() {
    let log = FakeDriver::new("io-memory=no").child(|| {
        let gpu = Gpu::open(0).unwrap();
        let bar = Window::whole(WordMemory::new(HostMemory::new(4096).unwrap()));
        let error = gpu.register_io(&bar).unwrap_err();
        let text = error.to_string();
        assert!(error.is_missing_requirement(), "{text}");
        for words in ["CUDA_ERROR_NOT_PERMITTED", "CAP_SYS_ADMIN", "PeerMappingOverride"] {
            assert!(text.contains(words), "{text}");
        }
    });
    log.assert_clean();
}
