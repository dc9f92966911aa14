//! Which way a tile takes into shared memory, on each architecture.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::fs;
use std::path::Path;
use std::process::Command;

use warpbell_kernels::costs::ARCHITECTURES;
use warpbell_kernels::{HEADERS, PROBES, toolchain};

use crate::skip::skip_without_nvcc;

/// The engine that copies in bulk, with what it completes on and the fence before it.
const BULK: [&str; 3] =
    ["cp.async.bulk.shared::cluster.global", "mbarrier.arrive.expect_tx", "fence.proxy.async"];
/// Copies of each thread that go on by themselves.
const PLAIN: [&str; 2] = ["cp.async.cg.shared.global", "cp.async.mbarrier.arrive"];

fn ptx(nvcc: &Path, folder: &Path, arch: u32) -> String {
    let to = folder.join(format!("stream.{arch}.ptx"));
    let mut command = Command::new(nvcc);
    command.current_dir(folder).args(["-std=c++20", "-O3", "-ptx", "-I", "include", "-arch"]);
    command.arg(format!("compute_{arch}")).arg("probes/stream.cu").arg("-o").arg(&to);
    let crashed = |what: &str| println!("stream.cu for compute_{arch}: nvcc {what}");
    let output = toolchain::run_compiler(&mut command, crashed).unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    fs::read_to_string(&to).unwrap()
}

#[test]
fn tiles_are_copied_by_the_engine_from_sm_90_on_and_by_asynchronous_copies_before() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("copies into shared memory") };
    let folder = tempfile::tempdir().unwrap();
    let headers = HEADERS.iter().map(|(name, text)| (format!("include/{name}"), text));
    for (name, text) in headers.chain(PROBES.iter().map(|(name, text)| (format!("probes/{name}"), text))) {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    for arch in ARCHITECTURES {
        let text = ptx(&nvcc, folder.path(), arch);
        for (words, wanted) in [(&BULK[..], arch >= 90), (&PLAIN[..], (80..90).contains(&arch))] {
            for word in words {
                assert_eq!(text.contains(*word), wanted, "{word} for compute_{arch}");
            }
        }
        // A fence for each place that makes a barrier known to the engine, and one before each copy: of what the SSD wrote.
        let [copies, barriers, fences] =
            [BULK[0], "mbarrier.init", BULK[2]].map(|word| text.matches(word).count());
        assert!(arch < 90 || fences >= copies + barriers, "{fences}, {copies}, {barriers} on compute_{arch}");
    }
}
