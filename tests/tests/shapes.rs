// UNSAFETY: gives the PTX machine memory that the test keeps.
#![expect(unsafe_code, reason = "the kernel works in the memory of the test")]
//! Tier P: threads of blocks of several dimensions are numbered as CUDA numbers them. What nvcc makes of the device library,
//! on the PTX machine.

use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::{env, fs};

use warpbell_kernels::toolchain;
use warpbell_ptx::{Launch, Memory, Module, Region};

/// Each thread notes its rank and the block's size, as a batch has them and as CUDA has them, and its lane.
const SHAPE: &str = r#"
#include <cooperative_groups.h>
#include <warpbell/warpbell.cuh>
extern "C" __global__ void shape(unsigned long long* out) {
    const auto group = cooperative_groups::this_thread_block();
    const auto block = wb::detail::block_or_warp(group);
    const unsigned long long warp = wb::detail::warp_rank_of(block), lane = wb::port::lane();
    out[group.thread_rank()] = block.thread_rank() | block.size() << 8 | group.size() << 16 | warp << 32 | lane << 40;
}
"#;

struct Words(Vec<AtomicU64>);

impl Memory for Words {
    fn region(&self, address: u64) -> Option<Region> {
        let from = self.0.as_ptr() as u64;
        // SAFETY: the words outlive the run, and are atomics.
        (address >= from).then(|| unsafe { Region::new(from, from + self.0.len() as u64 * 8, false) })
    }
}

fn ptx(nvcc: &Path) -> String {
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("shape.cu"), SHAPE).expect("a source");
    let flags = ["-std=c++20", "-ptx", "-arch", "sm_90", "shape.cu", "-o", "shape.ptx", "-I"];
    let include = Path::new(env!("CARGO_MANIFEST_DIR")).join("../kernels/include");
    let made = Command::new(nvcc).current_dir(folder.path()).args(flags).arg(include).status();
    assert!(made.expect("nvcc").success());
    fs::read_to_string(folder.path().join("shape.ptx")).expect("PTX")
}

#[test]
fn threads_of_a_block_of_three_dimensions_are_numbered_as_cuda_does() {
    let Some(nvcc) = toolchain::nvcc() else {
        let required = env::var_os("WARPBELL_REQUIRE_CUDA").is_some_and(|value| value == "1");
        assert!(!required, "WARPBELL_REQUIRE_CUDA=1, but there is no nvcc");
        return println!("skipped: blocks of three dimensions: no nvcc (scripts/cuda-setup installs one)");
    };
    let module = Module::load("shape.ptx", &ptx(&nvcc)).expect("PTX");
    for shape in [[4, 3, 8], [1, 8, 12], [32, 3, 1], [96, 1, 1]] {
        let words = Words((0..96).map(|_| AtomicU64::new(0)).collect());
        let address = words.0.as_ptr() as u64;
        let launch = Launch::new(&module, "shape").block(shape).arguments(&address.to_le_bytes());
        assert!(launch.run(&words, &AtomicBool::new(false)).expect("a run").ended);
        for (thread, word) in (0..).zip(&words.0) {
            let expected = thread | 96 << 8 | 96 << 16 | (thread / 32) << 32 | (thread % 32) << 40;
            assert_eq!(word.load(Ordering::Relaxed), expected, "thread {thread} of {shape:?}");
        }
    }
}
