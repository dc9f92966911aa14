//! Each public header compiles by itself, without a warning, in every language that it is for.

use std::path::Path;

use warpbell_kernels::{EXECUTOR, HEADERS, SOURCES, toolchain};

use crate::common;

const STRICT: [&str; 5] = ["-std=c++20", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];

/// Headers for users: `warpbell/NAME`, not what lies in `impl/`.
fn public() -> impl Iterator<Item = &'static str> {
    HEADERS.iter().map(|(name, _)| *name).filter(|name| name.matches('/').count() == 1)
}

/// Headers that C programs include.
fn for_c() -> [&'static str; 5] {
    [
        "warpbell/abi.h",
        "warpbell/abi_table.h",
        "warpbell/warpbell_device.h",
        "simt/module.h",
        "simt/counters.h",
    ]
}

fn include(header: &str) -> String {
    // Twice: guards are part of the promise.
    format!("#include <{header}>\n#include <{header}>\n")
}

#[test]
fn public_headers_are_cpp() {
    for compiler in common::cpp_compilers("headers as C++") {
        for header in public() {
            common::expect_compiles(&compiler, &STRICT, "alone.cpp", &include(header));
        }
    }
}

#[test]
fn all_public_headers_live_together_in_any_order() {
    let backwards: Vec<_> = public().collect();
    let text: String = backwards.iter().rev().map(|header| include(header)).collect();
    for compiler in common::cpp_compilers("headers together as C++") {
        common::expect_compiles(&compiler, &STRICT, "together.cpp", &text);
    }
}

#[test]
fn shared_headers_are_c99() {
    let flags = ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-fsyntax-only"];
    for compiler in ["gcc", "cc", "clang", "clang-19"].map(Path::new).into_iter().filter(|c| common::runs(c))
    {
        for header in for_c() {
            // ISO C does not want an empty translation unit.
            common::expect_compiles(compiler, &flags, "alone.c", &(include(header) + "int one;\n"));
        }
    }
}

#[test]
fn public_headers_are_cuda() {
    let Some(nvcc) = toolchain::nvcc() else { return common::skip_without_nvcc("headers under nvcc") };
    // Each alone for the oldest, all together for the newest: conditions on the architecture are in one of them.
    let together: String = public().map(include).collect();
    let alone = public().map(|header| ("compute_75", include(header)));
    for (arch, text) in alone.chain([("compute_120", together)]) {
        let flags = ["-std=c++20", "-ptx", "-Werror", "all-warnings", "-arch", arch];
        common::expect_compiles(&nvcc, &flags, "alone.cu", &text);
    }
}

#[test]
fn our_own_sources_compile_without_warnings() {
    let sources = EXECUTOR.iter().map(|(name, _)| (*name).to_owned());
    let place = |name: &str| ["bench", "checks", "proof"].map(|folder| format!("{folder}/{name}"));
    let there = |name: &String| common::root().join(name).is_file();
    let sources = sources.chain(SOURCES.iter().flat_map(|(name, _)| place(name)).filter(there));
    let sources: Vec<_> = sources.filter(|name| name.ends_with(".cpp") || name.ends_with(".cu")).collect();
    for compiler in common::cpp_compilers("our sources as C++") {
        for name in &sources {
            let text = format!("#include \"{}\"\n", common::root().join(name).display());
            common::expect_compiles(&compiler, &STRICT, "source.cpp", &text);
        }
    }
}
