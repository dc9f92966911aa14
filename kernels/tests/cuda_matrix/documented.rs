//! Every whole kernel of the device library's documentation, for each architecture. Examples that are parts of one are
//! run on the CPU target only.

use std::process::Command;

use warpbell_kernels::costs::ARCHITECTURES;
use warpbell_kernels::toolchain;

use crate::skip::skip_without_nvcc;

/// Kernels of the page; what is marked as part of one is not.
fn examples() -> impl Iterator<Item = &'static str> {
    let page = include_str!("../../../docs/device-library.md");
    page.split("```cuda\n").skip(1).filter_map(|rest| rest.split("```").next())
}

#[test]
fn every_documented_kernel_compiles_for_every_architecture() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("examples of the documentation") };
    let folder = tempfile::tempdir().unwrap();
    let include = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("include");
    assert!(examples().count() > 0);
    for (number, text) in examples().enumerate() {
        assert!(text.contains("WARPBELL_KERNEL("), "not a kernel: {text}");
        let source = folder.path().join(format!("example{number}.cu"));
        std::fs::write(&source, text).unwrap();
        let mut command = Command::new(&nvcc);
        command.args(["-std=c++20", "-O3", "-fatbin", "-Werror", "all-warnings", "--threads", "2", "-I"]);
        command.arg(&include).arg("-o").arg(source.with_extension("fatbin")).arg(&source);
        for arch in ARCHITECTURES {
            command.args(["-gencode", &format!("arch=compute_{arch},code=sm_{arch}")]);
        }
        let crashed = |what: &str| println!("example {number}: nvcc {what}");
        let output = toolchain::run_compiler(&mut command, crashed).unwrap();
        assert!(output.status.success(), "{text}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
