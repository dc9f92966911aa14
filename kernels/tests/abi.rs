//! `abi.h` as compilers see it, against its Rust mirror. Tier U.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod common;

use std::fmt::Write as _;

use warpbell_kernels::abi::{CONSTANTS, STRUCTS};
use warpbell_kernels::cpu::Module;
use warpbell_kernels::{HEADERS, toolchain};

/// A program that compiles only where sizes, offsets and constants are those of the mirror.
fn assertions() -> String {
    let mut text = String::from("#include <warpbell/abi_table.h>\n");
    for layout in STRUCTS {
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
    for (name, value) in CONSTANTS {
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
    let ours = [
        "abi",
        "abi_bench",
        "abi_cache",
        "abi_check",
        "abi_lab",
        "abi_resident",
        "abi_stream",
        "abi_trace",
        "abi_volume",
    ];
    let ours = ours.map(|name| format!("warpbell/{name}.h"));
    let headers: Vec<_> = HEADERS.iter().filter(|(name, _)| ours.iter().any(|own| own == name)).collect();
    assert_eq!(headers.len(), ours.len());
    let lines = || headers.iter().flat_map(|(_, text)| text.lines());
    let defined = lines().filter_map(|line| line.strip_prefix("#define WARPBELL_"));
    let defined = defined.filter_map(|rest| rest.split_once(' ')).map(|(name, _)| format!("WARPBELL_{name}"));
    for name in defined {
        assert!(CONSTANTS.iter().any(|(known, _)| *known == name), "{name} is not in abi::CONSTANTS");
    }
    let structs = lines().filter_map(|line| line.strip_prefix("typedef struct ")?.strip_suffix(" {"));
    for name in structs {
        assert!(STRUCTS.iter().any(|layout| layout.name == name), "{name} is not in abi::STRUCTS");
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
