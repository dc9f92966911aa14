//! The CPU target: kernels and executor as one static library.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::{env, fs};

use crate::find;
use crate::sources::Sources;

const PACKAGE_HINT: &str = "install one (Debian and Ubuntu: g++; Fedora: gcc-c++) and build again";

pub fn build(sources: &Sources, out: &Path) {
    println!("cargo:rustc-check-cfg=cfg(warpbell_cpu)");
    let [dashed, plain] = of_target();
    for name in [&dashed, &plain, "WARPBELL_CXX", "CXX", "WARPBELL_SANITIZE", "WARPBELL_CPU_TARGET"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let cross = [dashed, plain].into_iter().find_map(env::var_os).map(PathBuf::from);
    // Where the result runs, that one is not: modules are compiled by what is found there.
    let named = |compiler: &Path| {
        if cross.is_some() { String::new() } else { compiler.display().to_string() }
    };
    match cross.clone().map_or_else(compiler, Ok) {
        Ok(compiler) => {
            compile(sources, out, &compiler);
            println!("cargo:rustc-cfg=warpbell_cpu");
            println!("cargo:rustc-env=WARPBELL_CPU_COMPILER={}", named(&compiler));
        }
        Err(reason) => {
            println!("cargo:warning=the CPU target is left out: {reason}");
            println!("cargo:rustc-env=WARPBELL_CPU_COMPILER=");
            println!("cargo:rustc-env=WARPBELL_CPU_MISSING={reason}");
        }
    }
    let sanitizer = env::var("WARPBELL_SANITIZE").unwrap_or_default();
    println!("cargo:rustc-env=WARPBELL_CPU_SANITIZER={sanitizer}");
}

/// The variables that name a compiler for this target alone, as crate `cc` has them: tools that link for other
/// systems set them, such as cargo-zigbuild.
fn of_target() -> [String; 2] {
    let target = env::var("TARGET").expect("cargo sets TARGET");
    [format!("CXX_{target}"), format!("CXX_{}", target.replace('-', "_"))]
}

/// The first compiler that knows C++20, or why there is none.
fn compiler() -> Result<PathBuf, String> {
    if env::var_os("WARPBELL_CPU_TARGET").is_some_and(|target| target == "none") {
        return Err("it was built with WARPBELL_CPU_TARGET=none; build again without".to_owned());
    }
    let candidates = find::cxx_candidates();
    let mut failures = Vec::new();
    for candidate in &candidates {
        match probe(candidate) {
            Ok(()) => return Ok(candidate.clone()),
            Err(error) => failures.push(format!("{}: {error}", candidate.display())),
        }
    }
    if failures.is_empty() {
        return Err(format!("no C++ compiler was found; {PACKAGE_HINT}"));
    }
    Err(format!("no C++ compiler here compiles C++20 ({}); {PACKAGE_HINT}", failures.join("; ")))
}

/// Whether a C++20 program with the standard library compiles.
fn probe(compiler: &Path) -> Result<(), String> {
    let mut command = Command::new(compiler);
    command.args(["-std=c++20", "-fsyntax-only", "-x", "c++", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| error.to_string())?;
    let program = b"#include <concepts>\n#include <cstdint>\nstatic_assert(std::same_as<int, int>);\n";
    let written = child.stdin.take().map(|mut stdin| stdin.write_all(program));
    let output = child.wait_with_output().map_err(|error| error.to_string())?;
    if output.status.success() && matches!(written, Some(Ok(()))) {
        return Ok(());
    }
    let text = String::from_utf8_lossy(&output.stderr);
    Err(text.lines().next().unwrap_or("it fails without a message").to_owned())
}

fn compile(sources: &Sources, out: &Path, compiler: &Path) {
    let mut build = cc::Build::new();
    build.cpp(true).std("c++20").compiler(compiler).opt_level(3).warnings(false).cargo_metadata(false);
    build.include(sources.root.join("include")).include(&sources.root);
    build.includes(sources.folders());
    // Each switch of stacks saves what is live: a register more is one less to save.
    build.force_frame_pointer(false);
    build.flag("-pthread").flag("-xc++");
    // Every x86-64 processor since 2008 counts bits by an instruction; the executor refuses to run on another.
    if env::var("CARGO_CFG_TARGET_ARCH").as_deref() == Ok("x86_64") {
        build.flag("-mpopcnt");
    }
    match env::var("WARPBELL_SANITIZE").as_deref() {
        Ok("") | Err(_) => {}
        Ok(kind @ ("thread" | "address")) => {
            build.opt_level(1).flag("-gline-tables-only").flag(format!("-fsanitize={kind}"));
        }
        Ok(other) => panic!("WARPBELL_SANITIZE={other}: expected thread or address"),
    }
    let executor = sources.executor.iter().filter(|file| file.name.ends_with(".cpp"));
    let kernels = sources.kernels.iter().filter(|file| file.name.ends_with(".cu"));
    build.files(executor.chain(kernels).map(|file| &file.path));
    build_once(&build, sources, out);
    println!("cargo:rustc-link-search=native={}", out.display());
    println!("cargo:rustc-link-lib=static=warpbell_cpu");
    println!("cargo:rustc-link-lib={}", if cfg!(target_os = "macos") { "c++" } else { "stdc++" });
}

/// Compiles, unless the library of these very sources, flags and compiler is there.
fn build_once(build: &cc::Build, sources: &Sources, out: &Path) {
    let tool = build.get_compiler();
    let version =
        Command::new(tool.path()).arg("--version").output().map(|output| output.stdout).unwrap_or_default();
    let command = format!("{:?} {}", tool.to_command(), String::from_utf8_lossy(&version));
    let key = sources.cpu_hash().text(&command).hex();
    let stamp = out.join("warpbell_cpu.key");
    let built =
        out.join("libwarpbell_cpu.a").is_file() && fs::read_to_string(&stamp).is_ok_and(|old| old == key);
    if built {
        return;
    }
    let objects = build.try_compile_intermediates();
    let objects = objects.unwrap_or_else(|error| panic!("the CPU target does not compile: {error}"));
    archive(tool.path(), &objects, out);
    crate::sources::write_if_changed(&stamp, key.as_bytes());
}

/// The library, as one object: kernels list themselves, so nothing names them, and a linker that takes from a library
/// only what is named would leave them out.
fn archive(compiler: &Path, objects: &[PathBuf], out: &Path) {
    let whole = out.join("warpbell_cpu.o");
    let output = Command::new(compiler).args(["-r", "-nostdlib", "-o"]).arg(&whole).args(objects).output();
    let output = output.unwrap_or_else(|error| panic!("{}: {error}", compiler.display()));
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the CPU target does not link: {text}");
    let mut library = cc::Build::new();
    let made = library.cargo_metadata(false).object(&whole).try_compile("warpbell_cpu");
    made.unwrap_or_else(|error| panic!("the CPU target does not make a library: {error}"));
}
