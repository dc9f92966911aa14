//! What cannot be read, and what is not known.

use warpbell_ptx::{Entry, Error, Module};

use crate::module;

fn refused(body: &str) -> String {
    module("", body).map(drop).unwrap_err().to_string()
}

#[test]
fn what_is_no_ptx_is_refused_with_its_line() {
    assert_eq!(
        Module::load("a.ptx", "\n\nint main() {}").unwrap_err().to_string(),
        "a.ptx:3: no PTX at `int`, in `int main() {}`"
    );
    assert!(
        refused("mov.u32 %r1, ?;").starts_with("test.ptx:14: no PTX at `?`, in `mov.u32 %r1, ?;`"),
        "{}",
        refused("mov.u32 %r1, ?;")
    );
    let cut = Module::load("a.ptx", ".version 9.0\n.target sm_90\n.entry k() { ret").unwrap_err();
    assert!(matches!(&cut, Error::Syntax { line: 3, .. }), "{cut}");
}

#[test]
fn what_is_not_known_is_refused_by_its_name() {
    for (body, what) in [
        ("lg2.approx.f32 %f1, %f2;", "lg2.approx.f32"),
        ("add.e5m2 %r1, %r2, %r3;", "add.e5m2"),
        ("mov.u32 %r1, %nowhere;", "name %nowhere"),
        ("bra $nowhere;", "label $nowhere"),
        ("call.uni nothing;", "function nothing"),
        ("ld.hologram.u32 %r1, [%words];", "ld.hologram.u32"),
        ("ld.shared.b128 %rd1, [%words];", "ld.shared.b128"),
        ("mov.u32 %r99, 1;", "register %r99"),
        ("mov.u32 [%rd1+4], {%r1, 2};", "result [%rd1+4]"),
    ] {
        let said = format!("test.ptx:14: the PTX machine does not know {what}, in `{body}`");
        assert_eq!(refused(body), said, "{body}");
    }
}

#[test]
fn what_is_not_known_is_told_with_the_line_of_its_source() {
    // nvcc lists files at the end, behind what cannot be read.
    let head = ".version 9.0\n.target sm_90\n.address_size 64\n.entry one() {\n.loc 1 7 1\nret;\n}\n.entry k() {\n.reg .f32 %f<3>;\n";
    for (body, what) in
        [("lg2.approx.f32 %f1, %f2;", "does not know lg2.approx.f32"), ("mov.f32 %f1, ?;", "no PTX at `?`")]
    {
        for (loc, from) in [("", ""), (".loc 2 42 7\n", ", from /src/kernel.cu:42")] {
            let text =
                format!("{head}{loc}{body}\nret;\n}}\n.file 1 \"/src/one.cu\"\n.file 2 \"/src/kernel.cu\"\n");
            let said = Module::load("a.ptx", &text).unwrap_err().to_string();
            assert!(said.contains(what) && said.ends_with(&format!("in `{body}`{from}")), "{said}");
        }
    }
}

#[test]
fn a_kernel_tells_its_parameters() {
    let text = ".version 9.0\n.target sm_80, debug\n.address_size 64\n/* .entry no( */\n.visible .entry one(\n\
        .param .u8 a,\n.param .u64 .ptr .global .align 4 b,\n.param .align 16 .b8 c[20]\n)\n.maxntid 256, 1, 1\n.minnctapersm 1\n\
        { ret; }\n.entry two() { ret; }";
    let module = Module::load("a.ptx", text).unwrap();
    let wanted = Entry { parameters: vec![(0, 1), (8, 8), (16, 20)], most_threads: 256 };
    assert_eq!((module.entry("one"), module.arch()), (Some(&wanted), 80));
    let mut kernels: Vec<&str> = module.kernels().collect();
    kernels.sort_unstable();
    assert_eq!(kernels, ["one", "two"]);
}
