//! Loads, stores and atomics, by space and width.

use crate::{Words, after, module, run};

#[test]
fn narrow_loads_extend_by_their_sign() {
    let body = "ld.s8 %r1, [%words];\nld.u8 %r2, [%words];\nld.s16 %rs1, [%words];\nld.s32 %rd1, [%words];\n\
        cvt.u64.u32 %rd2, %r1;\ncvt.u64.u32 %rd3, %r2;\ncvt.u64.u16 %rd4, %rs1;\nst.u64 [%words], %rd2;\n\
        st.u64 [%words+8], %rd3;\nst.u64 [%words+16], %rd4;\nst.u64 [%words+24], %rd1;";
    let values = after(body, &[0x8000_80ff, 0, 0, 0]);
    assert_eq!(values, [0xffff_ffff, 0xff, 0x80ff, 0xffff_ffff_8000_80ff]);
}

#[test]
fn narrow_stores_leave_the_rest() {
    let body = "mov.u32 %r1, -1;\nst.u8 [%words+1], %r1;\nst.u16 [%words+4], %r1;\nst.u32 [%words+8], -2;";
    assert_eq!(after(body, &[0, 0]), [0xffff_0000_ff00, 0xffff_fffe]);
}

#[test]
fn vectors_go_element_by_element() {
    let body = "ld.v2.u32 {%r1, %r2}, [%words];\nst.v2.u32 [%words], {%r2, %r1};\nld.v2.u16 {%rs1, _}, [%words+8];\n\
        st.u16 [%words+14], %rs1;";
    assert_eq!(after(body, &[1 | 2 << 32, 7]), [2 | 1 << 32, 7 | 7 << 48]);
}

#[test]
fn generic_addresses_reach_every_space() {
    let outside = ".shared .align 8 .b8 room[64];";
    let body = ".local .align 8 .b8 own[16];\nmov.u64 %rd1, own;\ncvta.local.u64 %rd2, %rd1;\nst.u64 [%rd2+8], 5;\n\
        ld.local.u64 %rd3, [%rd1+8];\nmov.u64 %rd4, room;\ncvta.shared.u64 %rd5, %rd4;\nst.u64 [%rd5+16], 6;\n\
        ld.shared.u64 %rd6, [room+16];\ncvta.to.shared.u64 %rd7, %rd5;\nld.shared.u64 %rd8, [%rd7+16];\n\
        mov.b64 %rd9, address;\ncvta.param.u64 %rd10, %rd9;\nld.u64 %rd11, [%rd10];\nsub.u64 %rd11, %rd11, %words;\n\
        cvta.to.global.u64 %rd12, %words;\nst.global.u64 [%rd12], %rd3;\nst.u64 [%words+8], %rd6;\n\
        st.u64 [%words+16], %rd8;\nst.u64 [%words+24], %rd11;";
    let words = Words::of(&[9; 4]);
    run(&module(outside, body).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [5, 6, 6, 0]);
}

#[test]
fn atomics_give_what_was_there() {
    let body = "atom.add.u64 %rd1, [%words], 5;\natom.relaxed.sys.cas.b64 %rd2, [%words+8], 7, 8;\n\
        atom.cas.b64 %rd3, [%words+8], 7, 9;\natom.exch.b32 %r1, [%words+16], -1;\natom.min.s32 %r2, [%words+20], -3;\n\
        atom.inc.u32 %r3, [%words+24], 3;\nred.or.b32 [%words+28], 6;\nst.u64 [%words+32], %rd1;\n\
        st.u64 [%words+40], %rd2;\nst.u64 [%words+48], %rd3;\nst.u32 [%words+56], %r1;\nst.u32 [%words+60], %r2;";
    let values = after(body, &[1, 7, 2 | 4 << 32, 3 | 1 << 32, 0, 0, 0, 0]);
    assert_eq!(values[..4], [6, 8, 0xffff_fffd_ffff_ffff, 7 << 32]);
    assert_eq!(values[4..], [1, 7, 8, 2 | 4 << 32]);
}

#[test]
fn additions_of_many_threads_are_all_counted() {
    let words = Words::of(&[0, 0]);
    let body = "red.add.u64 [%words], 1;\nmov.u32 %r1, %tid.x;\ncvt.u64.u32 %rd1, %r1;\nred.relaxed.gpu.add.u64 [%words+8], %rd1;";
    run(&module("", body).unwrap(), 256, &words).unwrap();
    assert_eq!(words.values(), [256, 255 * 128]);
}

#[test]
fn shared_memory_of_the_launch_lies_behind_the_kernels_own() {
    let outside = ".shared .align 4 .b8 own[12];\n.extern .shared .align 16 .b8 more[];";
    let body = "mov.u32 %r1, more;\nmov.u32 %r2, %dynamic_smem_size;\ncvt.u64.u32 %rd1, %r1;\ncvt.u64.u32 %rd2, %r2;\n\
        st.u64 [%words], %rd1;\nst.u64 [%words+8], %rd2;\nst.shared.u32 [more+60], %r1;";
    let (words, module) = (Words::of(&[0, 0]), module(outside, body).unwrap());
    let launch = warpbell_ptx::Launch::new(&module, "k").arguments(&words.address(0).to_le_bytes());
    launch.dynamic_shared(64).run(&words, &false.into()).unwrap();
    assert_eq!(words.values(), [128, 64]);
}

#[test]
fn variables_lie_at_multiples_of_their_alignment() {
    let outside = ".global .align 1 .b8 first[3];\n.global .align 256 .b8 wide[8];\n.const .align 128 .b8 more[16];\n\
        .func inside(.param .align 64 .b8 given[64]) {\n.local .align 64 .b8 own[64];\n.reg .b64 %a;\nmov.u64 %a, own;\n\
        and.b64 %a, %a, 63;\n@%odd trap;\nret;\n}";
    let outside = outside
        .replace(".reg .b64 %a;", ".reg .b64 %a;\n.reg .pred %odd;")
        .replace("and.b64 %a, %a, 63;", "and.b64 %a, %a, 63;\nsetp.ne.u64 %odd, %a, 0;");
    let body = ".local .align 8 .b8 before[24];\n{ .param .align 64 .b8 to[64];\ncall inside, (to); }";
    let words = Words::of(&[0]);
    // Several, for their memory begins anywhere.
    for _ in 0..8 {
        let module = module(&outside, body).unwrap();
        for (name, align) in [("wide", 256), ("more", 128)] {
            assert!(module.global(name).unwrap().0.is_multiple_of(align), "{name}");
        }
        run(&module, 1, &words).unwrap();
    }
}
