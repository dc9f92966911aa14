//! A user's own file of kernels, which includes nothing but the device library, in every language that it is for.

use warpbell_kernels::toolchain;

use crate::common;
use crate::cpu::loaded;
use crate::nvrtc::compile;

/// The file of the example: what a newcomer copies first.
pub const FIRST_KERNEL: &str = include_str!("../../../examples/first_kernel.cu");

#[test]
fn the_first_kernel_is_short_and_includes_the_library_alone() {
    let lines = FIRST_KERNEL.lines().filter(|line| !line.trim().is_empty() && !line.starts_with("//"));
    assert!(lines.count() <= 12);
    let includes: Vec<_> = FIRST_KERNEL.lines().filter(|line| line.contains("#include")).collect();
    assert_eq!(includes, ["#include <warpbell/warpbell.cuh>"]);
}

#[test]
fn it_compiles_as_cpp_by_every_compiler_here() {
    for compiler in common::cpp_compilers("the first kernel as C++") {
        let flags = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
        common::expect_compiles(&compiler, &flags, "first_kernel.cpp", FIRST_KERNEL);
    }
}

#[test]
fn it_compiles_by_nvcc_for_old_and_new_gpus() {
    let Some(nvcc) = toolchain::nvcc() else { return common::skip_without_nvcc("the first kernel by nvcc") };
    for arch in ["sm_75", "sm_120"] {
        let flags = ["-std=c++20", "-cubin", "-Werror", "all-warnings", "-arch", arch];
        common::expect_compiles(&nvcc, &flags, "first_kernel.cu", FIRST_KERNEL);
    }
}

#[test]
fn it_is_the_same_kernel_by_nvrtc_and_on_the_cpu_target() {
    let cache = tempfile::tempdir().unwrap();
    let variant = toolchain::Variant::text("first_kernel.cu", FIRST_KERNEL).cache(cache.path()).quick();
    let module = loaded(&variant).unwrap();
    let Some(image) = compile("the first kernel by NVRTC", &variant, 90) else { return };
    let image = image.unwrap();
    let on_gpu: Vec<_> =
        image.kernels.iter().map(|kernel| (&*kernel.name, u64::from(kernel.args_size))).collect();
    let on_cpu: Vec<_> = module.kernels().iter().map(|kernel| (kernel.name(), kernel.args_size())).collect();
    assert_eq!(on_gpu, on_cpu);
}

/// A kernel whose groups are CUDA's.
const COOPERATIVE: &str = include_str!("cooperative.cu");

#[test]
fn cooperative_groups_make_the_calls_of_each_layer() {
    let Some(nvcc) = toolchain::nvcc() else { return common::skip_without_nvcc("cooperative groups") };
    // Only whether it compiles: without optimization that takes a tenth of the time.
    let flags = ["-std=c++17", "-ptx", "-Xcicc", "-O0", "-arch", "sm_75"];
    common::expect_compiles(&nvcc, &flags, "cooperative.cu", COOPERATIVE);
    for (group, taken) in [
        ("BLOCK", "the group of this call is lanes of one warp: "),
        (
            "LARGE_TILE",
            "the group of this call is a block, this_block() or thread_block, or lanes of one warp: ",
        ),
    ] {
        let define = format!("-DREFUSED_{group}");
        let flags = [&flags[..], &[define.as_str()]].concat();
        let said = common::compile(&nvcc, &flags, "cooperative.cu", COOPERATIVE).unwrap_err();
        assert!(said.contains(taken), "{group}: {said}");
    }
}
