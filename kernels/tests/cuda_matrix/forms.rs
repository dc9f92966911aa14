//! What each access of port.cuh becomes in machine code: the protocol's costs rest on these.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::path::Path;

use warpbell_kernels::costs::{ARCHITECTURES, compile};
use warpbell_kernels::toolchain;

use crate::skip::skip_without_nvcc;

/// An access, the instructions that it must become on sm_90, and what must not be among them.
struct Form {
    name: &'static str,
    code: &'static str,
    becomes: &'static [&'static str],
    without: &'static [&'static str],
}

const NO_ORDER: &[&str] = &["MEMBAR", "CCTL", "ERRBAR"];

const FORMS: &[Form] = &[
    Form {
        name: "doorbell",
        code: "port::store_sq_doorbell(a.words, a.value);",
        becomes: &["STG.E.MMIO.SYS"],
        without: NO_ORDER,
    },
    Form {
        name: "poll_of_a_ring",
        code: "a.words[1] = port::load_relaxed_sys(a.words);",
        becomes: &["LDG.E.STRONG.SYS"],
        without: NO_ORDER,
    },
    Form {
        name: "poll_of_a_completion",
        code: "a.longs[1] = port::load_relaxed_sys(a.longs);",
        becomes: &["LDG.E.64.STRONG.SYS"],
        without: NO_ORDER,
    },
    Form {
        name: "poll_of_a_word",
        code: "a.words[1] = port::load_relaxed_gpu(a.words);",
        becomes: &["LDG.E.STRONG.GPU"],
        without: NO_ORDER,
    },
    Form {
        name: "acquire",
        code: "a.longs[1] = port::load_acquire_gpu(a.longs);",
        becomes: &["LDG.E.64.STRONG.GPU", "CCTL.IVALL"],
        without: &["MEMBAR"],
    },
    Form {
        name: "release",
        code: "port::store_release_gpu(a.longs, a.value);",
        becomes: &["MEMBAR.ALL.GPU", "ERRBAR", "STG.E.64.STRONG.GPU"],
        without: &["MEMBAR.SC", "MEMBAR.ALL.SYS", "CCTL"],
    },
    Form {
        name: "release_to_the_host",
        code: "port::store_release_sys(a.words, a.value);",
        becomes: &["MEMBAR.ALL.SYS", "ERRBAR", "STG.E.STRONG.SYS"],
        without: &["MEMBAR.SC", "CCTL"],
    },
    Form {
        name: "fence_of_the_system",
        code: "port::fence_sys();",
        becomes: &["MEMBAR.ALL.SYS", "ERRBAR", "CCTL.IVALL"],
        without: &["MEMBAR.SC"],
    },
    Form {
        name: "fence_of_the_gpu",
        code: "port::fence_gpu();",
        becomes: &["MEMBAR.ALL.GPU", "ERRBAR", "CCTL.IVALL"],
        without: &["MEMBAR.SC", "MEMBAR.ALL.SYS"],
    },
    // Dearer: only shadow doorbells need a store ordered before a load.
    Form {
        name: "fence_store_before_load",
        code: "port::fence_sc_sys();",
        becomes: &["MEMBAR.SC.SYS"],
        without: &["MEMBAR.ALL"],
    },
    Form {
        name: "entry",
        code: "port::store_quad(a.words, a.value, a.value, a.value, a.value);",
        becomes: &["STG.E.128"],
        without: NO_ORDER,
    },
    Form {
        name: "ticket",
        code: "a.longs[1] = port::cas_relaxed_gpu(a.longs, a.value, a.value + 1u);",
        becomes: &["ATOMG.E.CAS.64.STRONG.GPU"],
        without: NO_ORDER,
    },
    Form {
        name: "publication_by_cas",
        code: "a.longs[1] = port::cas_acq_rel_gpu(a.longs, a.value, a.value + 1u);",
        becomes: &["MEMBAR.ALL.GPU", "ATOMG.E.CAS.64.STRONG.GPU"],
        without: &["MEMBAR.ALL.SYS", "MEMBAR.SC"],
    },
    Form {
        name: "close",
        code: "port::or_relaxed_gpu(a.longs, a.value);",
        becomes: &["REDG.E.OR.64.STRONG.GPU"],
        without: NO_ORDER,
    },
];

fn source() -> String {
    let kernel = |form: &Form| {
        format!("extern \"C\" __global__ void {}(const args a) {{ {} }}\n", form.name, form.code)
    };
    let head = "#include <warpbell/warpbell.cuh>\nusing namespace wb;\nstruct args { u32* words; u64* longs; u32 value; };\n";
    head.to_owned() + &FORMS.iter().map(kernel).collect::<String>()
}

#[test]
fn each_access_becomes_what_the_protocol_counts_on() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("machine code of each access") };
    let functions = compile(&nvcc, "forms.cu", &source(), 90, &[]).unwrap().functions;
    for form in FORMS {
        let function = functions.iter().find(|function| function.name == form.name).unwrap();
        let mut code = function.mnemonics.iter().map(String::as_str);
        for wanted in form.becomes {
            assert!(
                code.any(|found| found == *wanted),
                "{}: {wanted} in {:?}",
                form.name,
                function.mnemonics
            );
        }
        let unwanted = |found: &&String| form.without.iter().any(|start| found.starts_with(start));
        assert_eq!(function.mnemonics.iter().find(unwanted), None, "{}", form.name);
    }
}

#[test]
fn no_architecture_needs_a_fence_to_poll_or_to_ring() {
    let Some(nvcc) = toolchain::nvcc() else { return skip_without_nvcc("accesses on each architecture") };
    for arch in ARCHITECTURES {
        polls_and_doorbells_are_bare(&nvcc, arch);
    }
}

fn polls_and_doorbells_are_bare(nvcc: &Path, arch: u32) {
    let functions = compile(nvcc, "forms.cu", &source(), arch, &[]).unwrap().functions;
    for form in FORMS.iter().filter(|form| form.without == NO_ORDER) {
        let function = functions.iter().find(|function| function.name == form.name).unwrap();
        let orders = |found: &&String| NO_ORDER.iter().any(|start| found.starts_with(start));
        assert_eq!(function.mnemonics.iter().find(orders), None, "{} on sm_{arch}", form.name);
        assert!(!function.mnemonics.is_empty(), "{} on sm_{arch}", form.name);
    }
    let doorbell = functions.iter().find(|function| function.name == "doorbell").unwrap();
    let stores = doorbell.mnemonics.iter().filter(|found| found.starts_with("STG")).count();
    assert_eq!(stores, 1, "one store rings on sm_{arch}: {:?}", doorbell.mnemonics);
}
