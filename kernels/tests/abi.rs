//! `abi.h` as compilers see it, against its Rust mirror. Tier U.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;

use warpbell_kernels::abi::{
    BENCH_CONSTANTS, BENCH_STRUCTS, CHECK_CONSTANTS, CHECK_STRUCTS, CONSTANTS, Constant, Layout, STRUCTS,
};
use warpbell_kernels::cpu::Module;
use warpbell_kernels::{HEADERS, SOURCES, toolchain};

fn structs_of_all() -> impl Iterator<Item = &'static Layout> {
    STRUCTS.iter().chain(BENCH_STRUCTS).chain(CHECK_STRUCTS)
}

fn constants_of_all() -> impl Iterator<Item = &'static Constant> {
    CONSTANTS.iter().chain(BENCH_CONSTANTS).chain(CHECK_CONSTANTS)
}

/// A program that compiles only where sizes, offsets and constants are those of the mirror.
fn assertions() -> String {
    let mut text = String::from("#include <abi_bench_table.h>\n#include <abi_check_table.h>\n");
    for layout in structs_of_all() {
        let name = layout.name;
        writeln!(text, "static_assert(sizeof({name}) == {}, \"{name}\");", layout.size).unwrap();
        writeln!(text, "static_assert(alignof({name}) == {}, \"{name}\");", layout.align).unwrap();
        for field in layout.fields {
            let (field, offset, size) = (field.name, field.offset, field.size);
            writeln!(
                text,
                "static_assert(__builtin_offsetof({name}, {field}) == {offset}, \"{name}.{field}\");"
            )
            .unwrap();
            writeln!(text, "static_assert(sizeof((({name}*)0)->{field}) == {size}, \"{name}.{field}\");")
                .unwrap();
        }
    }
    for (name, value) in constants_of_all() {
        writeln!(text, "static_assert({name} == {value}ull, \"{name}\");").unwrap();
    }
    text
}

#[test]
fn the_builtin_module_agrees_with_the_mirror() {
    assert_eq!(Module::builtin().unwrap().name(), "builtin");
}

#[test]
fn every_constant_and_struct_of_the_header_is_mirrored() {
    let ours = ["abi", "abi_cache", "abi_file", "abi_stream", "abi_trace", "abi_volume"];
    let ours = ours.map(|name| format!("warpbell/{name}.h"));
    let of_tools = ["abi_bench.h", "abi_check.h", "abi_lab.h", "abi_resident.h"];
    let files = HEADERS.iter().chain(SOURCES);
    let is_ours = |name: &str| ours.iter().any(|own| own == name) || of_tools.contains(&name);
    let headers: Vec<_> = files.filter(|(name, _)| is_ours(name)).collect();
    assert_eq!(headers.len(), ours.len() + of_tools.len());
    let lines = || headers.iter().flat_map(|(_, text)| text.lines());
    let defined = lines().filter_map(|line| line.strip_prefix("#define WARPBELL_"));
    let defined = defined.filter_map(|rest| rest.split_once(' ')).map(|(name, _)| format!("WARPBELL_{name}"));
    for name in defined {
        assert!(constants_of_all().any(|(known, _)| *known == name), "{name} is not mirrored in abi");
    }
    let structs = lines().filter_map(|line| line.strip_prefix("typedef struct ")?.strip_suffix(" {"));
    for name in structs {
        assert!(structs_of_all().any(|layout| layout.name == name), "{name} is not mirrored in abi");
    }
}

#[test]
fn cpp_compilers_agree_with_the_mirror() {
    let compilers = common::cpp_compilers("abi.h as C++");
    assert!(!compilers.is_empty());
    for compiler in compilers {
        common::expect_compiles(&compiler, &["-std=c++20", "-fsyntax-only"], "abi_mirror.cpp", &assertions());
    }
}

#[test]
fn nvcc_agrees_with_the_mirror() {
    let Some(nvcc) = toolchain::nvcc() else { return common::skip_without_nvcc("abi.h under nvcc") };
    for arch in ["sm_75", "sm_120"] {
        common::expect_compiles(
            &nvcc,
            &["-std=c++20", "-cubin", "-arch", arch],
            "abi_mirror.cu",
            &assertions(),
        );
    }
}
