// UNSAFETY: loads shared objects that these tests compiled, or spoilt.
#![expect(unsafe_code, reason = "code of a shared object is trusted as the program's own is")]
//! Modules by the C++ compiler.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use warpbell_kernels::cpu::{self, Kernel, Launch, Module};
use warpbell_kernels::toolchain::{self, CompileError, Variant};
use warpbell_kernels::{Error, abi};

const ONE_KERNEL: &str = "#include <warpbell/warpbell.cuh>
struct none { uint64_t zero; };
WARPBELL_KERNEL(mine, none) { (void)args.zero; }
";

fn load(path: &Path) -> Result<Module, Error> {
    // SAFETY: the test's own object, whose initialisers are the executor's.
    unsafe { Module::load(path) }
}

/// Compiled and loaded.
pub fn loaded(variant: &Variant) -> Result<Module, Error> {
    // SAFETY: the test's own source.
    unsafe { variant.load() }
}

#[test]
fn a_kernel_of_ones_own_is_compiled_once() {
    let cache = tempfile::tempdir().unwrap();
    let variant = Variant::text("mine.cu", ONE_KERNEL).cache(cache.path()).quick();
    let first = variant.build().unwrap();
    let made = fs::metadata(&first).unwrap().modified().unwrap();
    let begin = Instant::now();
    assert_eq!(variant.build().unwrap(), first);
    assert_eq!(fs::metadata(&first).unwrap().modified().unwrap(), made);
    println!("cached in {:?}", begin.elapsed());
    assert_eq!(fs::read_dir(cache.path()).unwrap().count(), 2, "the module, the executor, and nothing else");
    let module = loaded(&variant).unwrap();
    assert_eq!(module.kernels().iter().map(|kernel| kernel.name()).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(module.kernel("mine").unwrap().args_size(), 8);
}

#[test]
fn a_damaged_result_is_compiled_again() {
    let cache = tempfile::tempdir().unwrap();
    let variant = Variant::text("mine.cu", ONE_KERNEL).cache(cache.path()).quick();
    let module = variant.build().unwrap();
    for entry in fs::read_dir(cache.path()).unwrap().flatten() {
        let mut bytes = fs::read(entry.path()).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        fs::write(entry.path(), bytes).unwrap();
    }
    assert_eq!(variant.build().unwrap(), module);
    assert_eq!(loaded(&variant).unwrap().kernels().len(), 1);
}

#[test]
fn headers_of_the_users_belong_to_what_is_compiled() {
    let cache = tempfile::tempdir().unwrap();
    let text =
        format!("#include \"mine/size.cuh\"\n{ONE_KERNEL}").replace("uint64_t zero", "uint64_t zero[SIZE]");
    let variant = |size: &str| {
        let variant = Variant::text("mine.cu", &text).cache(cache.path()).quick();
        variant.header("mine/size.cuh", "#include \"more.cuh\"\n").header("mine/more.cuh", size)
    };
    for (header, bytes) in [("#define SIZE 2\n", 16), ("#define SIZE 3\n", 24)] {
        let module = loaded(&variant(header)).unwrap();
        assert_eq!(module.kernel("mine").unwrap().args_size(), bytes);
    }
    let error = loaded(&variant("int wrong = ;\n")).unwrap_err().to_string();
    assert!(error.contains("mine/more.cuh:1:"), "{error}");
}

#[test]
fn several_may_compile_the_same_at_the_same_time() {
    let cache = tempfile::tempdir().unwrap();
    let build = || Variant::text("mine.cu", ONE_KERNEL).cache(cache.path()).quick().build().unwrap();
    let modules: Vec<_> = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..3).map(|_| scope.spawn(build)).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    assert!(modules.iter().all(|module| *module == modules[0]));
    assert_eq!(
        fs::read_dir(cache.path()).unwrap().count(),
        2,
        "one module, one executor, and nothing half done"
    );
    assert_eq!(load(&modules[0]).unwrap().kernels().len(), 1);
}

#[test]
fn a_kernel_that_is_defined_twice_or_with_other_headers_is_refused() {
    let cache = tempfile::tempdir().unwrap();
    let load = |more: &str| {
        let variant = Variant::text("mine.cu", &format!("{ONE_KERNEL}{more}")).cache(cache.path()).quick();
        loaded(&variant).unwrap_err().to_string()
    };
    let twice = "static wb_simt_listed again(\"mine\", mine_untyped, sizeof(none), WARPBELL_ABI_VERSION);";
    assert_eq!(load(twice), "kernel 'mine': module mine.cu has two of that name; rename one");
    let old = "static wb_simt_listed old(\"old\", mine_untyped, sizeof(none), 77);";
    assert!(
        load(old).starts_with("kernel 'old' of module mine.cu: compiled with interface version 77, but ")
    );
}

#[test]
fn definitions_make_another_module() {
    let cache = tempfile::tempdir().unwrap();
    let variant = Variant::text("mine.cu", ONE_KERNEL).cache(cache.path()).quick();
    assert_ne!(variant.clone().define("MINE").build().unwrap(), variant.build().unwrap());
    let error = loaded(&variant.clone().mutate("NONE")).unwrap_err().to_string();
    assert_eq!(
        error,
        "rule NONE: module mine.cu -DWARPBELL_SWITCHES without NONE: the module has no such rule"
    );
    let error = variant.define("none=").build().unwrap_err();
    assert!(error.to_string().starts_with("mine.cu -Dnone= does not compile:"), "{error}");
}

#[test]
fn our_own_kernels_with_a_rule_switched_off_have_the_same_interface() {
    let cache = tempfile::tempdir().unwrap();
    let mutant = loaded(&Variant::ours().mutate("NO_TURN").quick().cache(cache.path())).unwrap();
    let builtin = Module::builtin().unwrap();
    let kernels = |module: &Module| module.kernels().iter().map(describe).collect::<Vec<_>>();
    assert_eq!(kernels(&mutant), kernels(&builtin));
    // One file alone is enough for most tests, and compiled sooner; the executor is compiled already.
    let one =
        loaded(&Variant::ours().only("queue_test").mutate("NO_TURN").quick().cache(cache.path())).unwrap();
    assert_eq!(kernels(&one), [describe(builtin.kernel("queue_test").unwrap())]);
    let none = Variant::ours().only("quue_test").cache(cache.path()).build().unwrap_err().to_string();
    assert!(none.starts_with("kernel file 'quue_test': there are ring, bench, "), "{none}");
}

#[test]
fn one_module_serves_for_all_rules_one_at_a_time() {
    let cache = tempfile::tempdir().unwrap();
    let without = |rule: &str| Variant::text("mine.cu", ONE_KERNEL).mutate(rule).cache(cache.path()).quick();
    drop(loaded(&without("NO_LOCK")).unwrap());
    let first = loaded(&without("NO_TURN")).unwrap();
    assert_eq!(modules(cache.path()), 1);
    let twice = loaded(&without("NO_TURN")).unwrap_err().to_string();
    assert!(twice.ends_with("another module of this process is without it"), "{twice}");
    drop(first);
    loaded(&without("NO_TURN")).unwrap();
    // What others are made from at compile time is a module of its own.
    without("CACHE_PINS_CUT").build().unwrap();
    assert_eq!(modules(cache.path()), 2);
}

fn modules(cache: &Path) -> usize {
    let files = fs::read_dir(cache).expect("the cache's folder");
    let names = files.map(|file| file.expect("a file of it").file_name().into_string().expect("a name"));
    names.filter(|name| name.starts_with("module-")).count()
}

#[test]
fn only_what_is_loaded_can_be_without_a_rule() {
    let variant = Variant::text("mine.cu", ONE_KERNEL).mutate("NO_TURN");
    assert_eq!(
        variant.build().unwrap_err().to_string(),
        "rule 'NO_TURN': a shared object has every rule: load the variant"
    );
    assert_eq!(
        variant.cuda(90).unwrap_err().to_string(),
        "rule 'NO_TURN': rules are switched off on the CPU target alone"
    );
}

fn describe(kernel: &Kernel) -> (String, u64) {
    (kernel.name().to_owned(), kernel.args_size())
}

#[test]
fn an_error_in_the_source_is_shown_with_the_users_file_and_line() {
    let cache = tempfile::tempdir().unwrap();
    let source = cache.path().join("broken.cu");
    fs::write(&source, "#include <warpbell/warpbell.cuh>\nint wrong = ;\n").unwrap();
    let error = Variant::file(&source).unwrap().cache(cache.path()).build().unwrap_err();
    assert!(matches!(error, CompileError::Compile { .. }));
    assert!(error.to_string().contains("broken.cu:2:"), "{error}");
    let missing = Variant::file(&cache.path().join("missing.cu")).unwrap_err().to_string();
    assert!(missing.contains("missing.cu: No such file"), "{missing}");
}

#[test]
fn a_file_that_is_no_module_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.so");
    fs::write(&path, "not a module").unwrap();
    let error = load(&path).unwrap_err();
    assert!(matches!(error, Error::Load { .. }));
    assert!(error.to_string().contains("text.so"), "{error}");
}

/// Why a module without kernels is refused that has this executor interface, and these rows in its table.
fn load_module(interface: &str, rows: &str) -> Error {
    let folder = tempfile::tempdir().expect("a folder");
    let (source, module) = (folder.path().join("old.cpp"), folder.path().join("old.so"));
    let text = format!(
        "#include <simt/module.h>
        #include <warpbell/abi_table.h>
        extern \"C\" const warpbell_abi_row warpbell_abi_table[] = {{{rows}{{0, 0, 0, 0}}}};
        const wb_simt_module* wb_simt_module_v1() {{
            static const wb_simt_module module = {{{interface}, sizeof(wb_simt_module), 0, 0, 0, 0, 0, 0, 0}};
            return &module;
        }}"
    );
    fs::write(&source, text).expect("the source is written");
    let compiler = &toolchain::cxx_candidates()[0];
    let flags = ["-std=c++20", "-shared", "-fPIC", "-I", "include", "-I", ".", "-o"];
    let mut command = Command::new(compiler);
    command.current_dir(env!("CARGO_MANIFEST_DIR")).args(flags).arg(&module).arg(&source);
    let output = command.output().expect("the compiler runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    load(&module).expect_err("the module is refused")
}

#[test]
fn a_module_of_another_abi_is_refused_with_both_numbers() {
    let error = load_module("WB_SIMT_ABI_VERSION", "{\"warpbell_queue_state\", \"\", 8, 99}, ");
    assert!(matches!(error, Error::Abi { .. }), "{error}");
    let expected = format!(
        "abi: struct warpbell_queue_state: offset 8, size 99 in the kernels, but offset 8, size {} in this program",
        size_of::<abi::QueueState>()
    );
    assert!(error.to_string().ends_with(&expected), "{error}");
}

/// A kernel with another `abi.h` would read other fields of a queue.
#[test]
fn a_kernel_of_another_version_of_the_device_interface_is_refused_with_both_numbers() {
    let other = "#undef WARPBELL_ABI_VERSION\n#define WARPBELL_ABI_VERSION 99u\nstruct none";
    let text = ONE_KERNEL.replace("struct none", other);
    let error = loaded(&Variant::text("older.cu", &text).quick()).unwrap_err();
    assert!(matches!(error, Error::KernelVersion { found: 99, .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains("mine") && said.contains("99"), "{said}");
    assert!(said.contains(&abi::ABI_VERSION.to_string()), "{said}");
}

/// A user's kernel beside one of a later bench, which has a field more and another version of its interface.
#[test]
fn a_new_field_of_the_bench_refuses_no_program_of_a_user() {
    let version = |of: u32| format!("WARPBELL_BENCH_ABI_VERSION {of}u");
    let (now, end) = (version(abi::BENCH_ABI_VERSION), "} warpbell_digest_args;");
    let bench = include_str!("../../bench/abi_bench.h");
    assert!(bench.contains(&now) && bench.contains(end), "{now} and {end} in abi_bench.h");
    let later = bench.replace(&now, &version(abi::BENCH_ABI_VERSION + 1));
    let later = later.replace(end, &format!("    uint64_t newer;\n{end}"));
    let text = format!(
        "{ONE_KERNEL}#include \"later.h\"\nWARPBELL_KERNEL(digest, warpbell_digest_args) {{ (void)args.newer; }}\n"
    );
    let module = loaded(&Variant::text("mine.cu", &text).header("later.h", &later).quick()).unwrap();
    // SAFETY: the kernels touch their arguments alone.
    let launch = |kernel: &str, args: &[u8]| unsafe { Launch::with_bytes(&module, kernel, args) };
    let users = launch("mine", &[0; 8]).unwrap();
    cpu::spawn_threads(&users, &cpu::Threads::default()).unwrap().join().unwrap();
    // Who does not know the field cannot run the bench; nobody else is concerned.
    // SAFETY: as above.
    let refused = unsafe { Launch::new(&module, "digest", &abi::DigestArgs::new()) }.unwrap_err();
    let bytes = size_of::<abi::DigestArgs>();
    assert_eq!(
        refused.to_string(),
        format!("kernel digest: arguments of {bytes} bytes, but it takes {}", bytes + 8)
    );
}

#[test]
fn a_module_of_another_executor_is_refused_with_both_versions() {
    let error = load_module("77", "").to_string();
    let said = error.split("executor interface ").nth(1).unwrap();
    let (found, ours) = said.split_once(", but this program has ").unwrap();
    assert!(found.starts_with("version 77 of ") && found.ends_with(" bytes"), "{error}");
    let header = include_str!("../../simt/module.h");
    let version = header.split_once("WB_SIMT_ABI_VERSION ").unwrap().1.split('u').next().unwrap();
    assert!(ours.starts_with(&format!("version {version} of ")) && ours.ends_with(" bytes"), "{error}");
}
