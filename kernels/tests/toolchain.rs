//! Variants of the device source. Bed U.

use std::fs;
use std::time::Instant;

use warpbell_kernels::cpu::{Kernel, Module};
use warpbell_kernels::toolchain::{Variant, VariantError};
use warpbell_kernels::{Error, abi};

const ONE_KERNEL: &str = "#include <warpbell/warpbell.cuh>
struct none { uint64_t zero; };
WARPBELL_KERNEL(mine, none) { (void)args.zero; }
static const wb_simt_kernel_entry entries[] = {{\"mine\", mine, sizeof(none)}};
WB_SIMT_EXPORT(entries)
";

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
    let module = variant.load().unwrap();
    assert_eq!(module.kernels().iter().map(|kernel| kernel.name()).collect::<Vec<_>>(), ["mine"]);
    assert_eq!(module.kernel("mine").unwrap().args_size(), 8);
}

#[test]
fn definitions_make_another_module() {
    let cache = tempfile::tempdir().unwrap();
    let variant = Variant::text("mine.cu", ONE_KERNEL).cache(cache.path()).quick();
    assert_ne!(variant.clone().mutate("NO_TURN").build().unwrap(), variant.build().unwrap());
    let error = variant.define("none=").build().unwrap_err();
    assert!(error.to_string().starts_with("mine.cu -Dnone= does not compile:"), "{error}");
}

#[test]
fn our_own_kernels_with_a_rule_switched_off_have_the_same_interface() {
    let cache = tempfile::tempdir().unwrap();
    let mutant = Variant::ours().mutate("NO_TURN").quick().cache(cache.path()).load().unwrap();
    let builtin = Module::builtin().unwrap();
    let kernels = |module: &Module| module.kernels().iter().map(describe).collect::<Vec<_>>();
    assert_eq!(kernels(&mutant), kernels(&builtin));
    // One file alone is enough for most tests, and compiled sooner; the executor is compiled already.
    let one =
        Variant::ours().only("queue_test").mutate("NO_TURN").quick().cache(cache.path()).load().unwrap();
    assert_eq!(kernels(&one), [describe(builtin.kernel("queue_test").unwrap())]);
    let none = Variant::ours().only("quue_test").cache(cache.path()).build().unwrap_err().to_string();
    assert!(none.starts_with("kernel file 'quue_test': there are bench, "), "{none}");
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
    assert!(matches!(error, VariantError::Compile { .. }));
    assert!(error.to_string().contains("broken.cu:2:"), "{error}");
    let missing = Variant::file(&cache.path().join("missing.cu")).unwrap_err().to_string();
    assert!(missing.contains("missing.cu: No such file"), "{missing}");
}

#[test]
fn a_file_that_is_no_module_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("text.so");
    fs::write(&path, "not a module").unwrap();
    let error = Module::load(&path).unwrap_err();
    assert!(matches!(error, Error::Load { .. }));
    assert!(error.to_string().contains("text.so"), "{error}");
}

#[test]
fn a_module_of_another_abi_is_refused_with_both_numbers() {
    let cache = tempfile::tempdir().unwrap();
    let table = "#include <warpbell/abi_table.h>
        extern \"C\" const warpbell_abi_row mine_too[] __asm__(\"warpbell_abi_table\");
        extern \"C\" const warpbell_abi_row mine_too[] = {{\"warpbell_queue_state\", \"\", 8, 99}, {0, 0, 0, 0}};";
    let other = Variant::text("mine.cu", &format!("{ONE_KERNEL}{table}")).cache(cache.path()).quick();
    let error = other.define("warpbell_abi_table=hidden_table").load().unwrap_err();
    assert!(matches!(error, Error::Abi { .. }), "{error}");
    let expected = format!(
        "abi: struct warpbell_queue_state: offset 8, size 99 in the kernels, but offset 8, size {} in this program",
        size_of::<abi::QueueState>()
    );
    assert!(error.to_string().ends_with(&expected), "{error}");
}

#[test]
fn a_module_of_another_executor_is_refused_with_both_versions() {
    let cache = tempfile::tempdir().unwrap();
    let source = "#include <simt/module.h>
        extern \"C\" const wb_simt_module* wb_simt_module_v1() {
            static const wb_simt_module module = {77, sizeof(wb_simt_module), 0, 0, 0, 0, 0, 0, 0, 0};
            return &module;
        }";
    let error = Variant::text("old.cu", source).cache(cache.path()).quick().load().unwrap_err().to_string();
    let said = error.split("executor interface ").nth(1).unwrap();
    let (found, ours) = said.split_once(", but this program has ").unwrap();
    assert!(found.starts_with("version 77 of ") && found.ends_with(" bytes"), "{error}");
    assert!(ours.starts_with("version 2 of ") && ours.ends_with(" bytes"), "{error}");
}
