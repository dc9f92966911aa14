//! The examples of the device library's page under nvcc: whole kernels for each architecture of this run, and the examples that are
//! parts of one, in the frames in which they also run on the CPU target, for the oldest.

use std::path::Path;
use std::process::Command;

use warpbell_kernels::costs::ARCHITECTURES;
use warpbell_kernels::toolchain;

use crate::architectures::targets;
use crate::frames::{Framed, documented_blocks, documented_part, framed};
use crate::kept::{kept, key};
use crate::skip::skip_without_nvcc;

/// What nvcc makes of a source that may include `headers`; with warnings it makes nothing.
pub(crate) fn compiled(
    nvcc: &Path,
    what: &str,
    source: &str,
    arguments: &[&str],
    headers: &[(&str, &str)],
) -> Vec<u8> {
    let key = key(nvcc, arguments, ("example.cu", source), headers);
    let made = kept(key, || compile(nvcc, what, source, arguments));
    made.unwrap_or_else(|said| panic!("{what}:\n{source}\n{said}"))
}

fn compile(nvcc: &Path, what: &str, source: &str, arguments: &[&str]) -> Result<Vec<u8>, String> {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let (text, object) = (folder.path().join("example.cu"), folder.path().join("example.object"));
    std::fs::write(&text, source).expect("the folder may be written");
    let mut command = Command::new(nvcc);
    command.args(["-std=c++20", "-Werror", "all-warnings", "-I"]);
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("include"));
    command.args(arguments).arg("-o").arg(&object).arg(&text);
    let crashed = |how: &str| println!("{what}: nvcc {how}");
    let output = toolchain::run_compiler(&mut command, crashed).expect("nvcc starts");
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    Ok(std::fs::read(object).expect("nvcc wrote it"))
}

#[test]
fn every_documented_kernel_compiles() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("examples of the documentation") };
    assert!(documented_blocks("cuda").count() > 0);
    for text in documented_blocks("cuda") {
        assert!(text.contains("WARPBELL_KERNEL("), "not a kernel: {text}");
        let targets = targets(text);
        let mut arguments = vec!["-O3", "-fatbin", "--threads", "2"];
        arguments.extend(targets.iter().map(String::as_str));
        compiled(&nvcc, "a whole kernel", &format!("{text}\n"), &arguments, &[]);
    }
}

/// Compiles examples in their frame, all at once. The machine code is not looked at, and `ptxas` is told to take less
/// time for it: with all of its work this takes minutes.
fn examples_compile(frame: &str, marks: &[&str], before: &str, changes: &[(&str, &str)]) {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("examples of the documentation") };
    let Framed { source, kernels } = framed(frame, marks, before, &["shared"], changes);
    let oldest = format!("-arch=sm_{}", ARCHITECTURES[0]);
    let what = format!("examples of{frame} kernels");
    let object = compiled(&nvcc, &what, &source, &["-cubin", &oldest, "-Xptxas", "-O1"], &[]);
    for (kernel, text) in &kernels {
        let found = object.windows(kernel.len()).any(|bytes| bytes == kernel.as_bytes());
        assert!(found, "{kernel} is not in the object:\n{text}");
    }
    println!("{what}: {} compiled", kernels.len());
}

#[test]
fn every_example_of_a_request_compiles() {
    examples_compile("", &["", " retry", " lost", " lease"], "", &[("", "")]);
}

#[test]
fn every_example_of_a_volume_compiles_with_mappings_of_the_page() {
    let mappings = ["chunk_after_chunk", "second_queue_last_replica"];
    let own: String = mappings.map(|name| documented_part(&format!("struct {name}"))).concat();
    assert_eq!(documented_blocks("cuda part").count(), mappings.len(), "each part is in use");
    let [one, other] = mappings.map(|name| ("round_robin", name));
    examples_compile(" volume", &[""], &own, &[("", ""), one, other]);
}

#[test]
fn every_example_of_an_agent_compiles() {
    examples_compile(" agent", &[""], "", &[("", "")]);
}

#[test]
fn no_example_is_left_out() {
    let bodies = ["", " volume", " agent"].map(|frame| {
        let marks = ["", " retry", " lost", " lease"];
        marks.map(|mark| documented_blocks(&format!("cuda{frame} body{mark}")).count()).iter().sum::<usize>()
    });
    let frames = 3;
    let whole = documented_blocks("cuda").count() + documented_blocks("cuda part").count();
    let marked = crate::frames::PAGE.matches("\n```cuda").count();
    assert_eq!(
        bodies.iter().sum::<usize>() + whole + frames,
        marked,
        "a block of another mark is compiled by no test"
    );
}
