//! What opcodes compute.

use crate::after;

/// `operation` on `a`, `b` and `c`, which its registers have in their own width; the result in 64 bits.
fn computed(operation: &str, [a, b, c]: [u64; 3]) -> u64 {
    let load = "ld.u64 %rd1, [%words];\nld.u64 %rd2, [%words+8];\nld.u64 %rd3, [%words+16];\n\
        cvt.u32.u64 %r1, %rd1;\ncvt.u32.u64 %r2, %rd2;\ncvt.u32.u64 %r3, %rd3;\n\
        cvt.u16.u64 %rs1, %rd1;\ncvt.u16.u64 %rs2, %rd2;\n\
        mov.b32 %f1, %r1;\nmov.b32 %f2, %r2;\nmov.b32 %f3, %r3;\n\
        mov.b64 %fd1, %rd1;\nmov.b64 %fd2, %rd2;\nsetp.ne.u64 %p1, %rd3, 0;\n";
    let store = match operation.split_whitespace().nth(1).unwrap() {
        "%r0," => "st.u32 [%words], %r0;\nmov.u64 %rd4, 0;\nst.u32 [%words+4], %rd4;",
        "%rs0," => "cvt.u64.u16 %rd0, %rs0;\nst.u64 [%words], %rd0;",
        "%p0," => "selp.b64 %rd0, 1, 0, %p0;\nst.u64 [%words], %rd0;",
        "%f0," => "mov.b32 %r0, %f0;\ncvt.u64.u32 %rd0, %r0;\nst.u64 [%words], %rd0;",
        _ => "st.u64 [%words], %rd0;",
    };
    after(&format!("{load}{operation};\n{store}"), &[a, b, c])[0]
}

#[track_caller]
fn gives(operation: &str, of: [u64; 3], wanted: u64) {
    assert_eq!(computed(operation, of), wanted, "{operation} of {of:x?}");
}

const ALL: u64 = u64::MAX;
const ONES: u64 = 0xffff_ffff;

#[test]
fn integers_wrap_and_keep_their_width() {
    gives("add.s32 %r0, %r1, %r2", [ONES, 1, 0], 0);
    gives("add.s32 %r0, %r1, -1", [0, 0, 0], ONES);
    gives("add.s64 %rd0, %rd1, -1", [0, 0, 0], ALL);
    gives("sub.s32 %r0, %r1, %r2", [0, 1, 0], ONES);
    gives("add.s16 %rs0, %rs1, -1", [0, 0, 0], 0xffff);
    gives("mul.lo.s32 %r0, %r1, %r2", [0x1_0001, 0x1_0000, 0], 0x1_0000);
    gives("mul.hi.u32 %r0, %r1, %r2", [ONES, ONES, 0], ONES - 1);
    gives("mul.hi.s32 %r0, %r1, %r2", [ONES, 1, 0], ONES);
    gives("mul.hi.u64 %rd0, %rd1, %rd2", [ALL, ALL, 0], ALL - 1);
    gives("mul.hi.s64 %rd0, %rd1, %rd2", [ALL, ALL, 0], 0);
    gives("mul.wide.u32 %rd0, %r1, %r2", [ONES, ONES, 0], 0xffff_fffe_0000_0001);
    gives("mul.wide.s32 %rd0, %r1, -1", [5, 0, 0], ALL - 4);
    gives("mad.lo.s32 %r0, %r1, %r2, %r3", [3, 4, 5], 17);
    gives("mad.wide.u32 %rd0, %r1, %r2, %rd3", [ONES, 2, 1], 0x1_ffff_ffff);
    gives("div.s32 %r0, %r1, %r2", [ONES, 2, 0], 0);
    gives("rem.u32 %r0, %r1, %r2", [ONES, 16, 0], 15);
    gives("div.u32 %r0, %r1, %r2", [1, 0, 0], ONES);
    gives("min.s32 %r0, %r1, %r2", [ONES, 1, 0], ONES);
    gives("min.u32 %r0, %r1, %r2", [ONES, 1, 0], 1);
    gives("max.u64 %rd0, %rd1, %rd2", [ALL, 1, 0], ALL);
    gives("neg.s32 %r0, %r1", [1, 0, 0], ONES);
    gives("abs.s32 %r0, %r1", [ONES, 0, 0], 1);
}

#[test]
fn shifts_end_at_the_width() {
    gives("shl.b32 %r0, %r1, %r2", [ONES, 31, 0], 0x8000_0000);
    gives("shl.b32 %r0, %r1, %r2", [ONES, 32, 0], 0);
    gives("shl.b64 %rd0, %rd1, %r2", [ALL, 63, 0], 1 << 63);
    gives("shl.b64 %rd0, %rd1, %r2", [ALL, 64, 0], 0);
    gives("shr.u32 %r0, %r1, %r2", [ONES, 31, 0], 1);
    gives("shr.u32 %r0, %r1, %r2", [ONES, 33, 0], 0);
    gives("shr.u64 %rd0, %rd1, %r2", [ALL, 64, 0], 0);
    gives("shr.s32 %r0, %r1, %r2", [0x8000_0000, 40, 0], ONES);
    gives("shr.s64 %rd0, %rd1, %r2", [1 << 63, 4, 0], 0xf8 << 56);
    gives("shr.u16 %rs0, %rs1, %r2", [0x8001, 1, 0], 0x4000);
    gives("shf.l.wrap.b32 %r0, %r1, %r2, %r3", [0x8000_0001, 2, 1], 5);
    gives("shf.l.wrap.b32 %r0, %r1, %r2, %r3", [1, 2, 32], 2);
    gives("shf.r.wrap.b32 %r0, %r1, %r2, %r3", [0x8000_0001, 3, 1], 0xc000_0000);
    gives("shf.l.clamp.b32 %r0, %r1, %r2, %r3", [1, 2, 40], 1);
    gives("shf.r.clamp.b32 %r0, %r1, %r2, %r3", [1, 2, 40], 2);
}

#[test]
fn bits_are_found_counted_and_moved() {
    gives("popc.b64 %r0, %rd1", [ALL, 0, 0], 64);
    gives("clz.b32 %r0, %r1", [1, 0, 0], 31);
    gives("clz.b64 %r0, %rd1", [0, 0, 0], 64);
    gives("brev.b32 %r0, %r1", [1, 0, 0], 0x8000_0000);
    gives("bfind.u32 %r0, %r1", [0x10, 0, 0], 4);
    gives("bfind.shiftamt.u32 %r0, %r1", [0x10, 0, 0], 27);
    gives("bfind.u32 %r0, %r1", [0, 0, 0], ONES);
    gives("bfind.s32 %r0, %r1", [ONES - 16, 0, 0], 4);
    gives("not.b32 %r0, %r1", [1, 0, 0], ONES - 1);
    gives("cnot.b32 %r0, %r1", [0, 0, 0], 1);
    gives("bfe.u32 %r0, %r1, 4, 8", [0xabcd, 0, 0], 0xbc);
    gives("bfe.s32 %r0, %r1, 4, 8", [0xabcd, 0, 0], 0xffff_ffbc);
    gives("bfe.s64 %rd0, %rd1, 60, 8", [1 << 63, 0, 0], ALL - 7);
    gives("bfe.u32 %r0, %r1, 4, 0", [ONES, 0, 0], 0);
    gives("bfi.b32 %r0, %r1, %r2, 8, 4", [5, ONES, 0], 0xffff_f5ff);
    gives("bfi.b64 %rd0, %rd1, %rd2, 60, 8", [ALL, 0, 0], 0xf << 60);
    gives("bfi.b32 %r0, %r1, %r2, 40, 4", [5, 7, 0], 7);
    gives("prmt.b32 %r0, %r1, %r2, 0x7531", [0x3322_1100, 0x7766_5544, 0], 0x7755_3311);
    gives("prmt.b32 %r0, %r1, %r2, 0x8888", [0x80, 0, 0], ONES);
    gives("szext.clamp.u32 %r0, %r1, %r2", [ONES, 4, 0], 15);
    gives("szext.clamp.s32 %r0, %r1, %r2", [8, 4, 0], 0xffff_fff8);
    gives("szext.clamp.u32 %r0, %r1, %r2", [ONES, 99, 0], ONES);
    gives("szext.wrap.u32 %r0, %r1, %r2", [ONES, 33, 0], 1);
    gives("bmsk.clamp.b32 %r0, %r1, %r2", [4, 4, 0], 0xf0);
    gives("lop3.b32 %r0, %r1, %r2, %r3, 0x80", [6, 5, 4], 4);
    gives("lop3.b32 %r0, %r1, %r2, %r3, 0xfe", [1, 2, 4], 7);
    gives("and.b16 %rs0, %rs1, -2", [0xffff, 0, 0], 0xfffe);
}

#[test]
fn conversions_extend_cut_and_round() {
    gives("cvt.s64.s32 %rd0, %r1", [ONES, 0, 0], ALL);
    gives("cvt.u64.u32 %rd0, %r1", [ONES, 0, 0], ONES);
    gives("cvt.u32.u64 %r0, %rd1", [ALL, 0, 0], ONES);
    gives("cvt.s32.s8 %r0, %r1", [0x180, 0, 0], 0xffff_ff80);
    gives("cvt.u32.u8 %r0, %r1", [0x180, 0, 0], 0x80);
    gives("cvt.s64.s16 %rd0, %rs1", [0x8000, 0, 0], ALL - 0x7fff);
    gives("cvt.u32.u16 %r0, %rs1", [0x1_8000, 0, 0], 0x8000);
    gives("cvt.rn.f32.u32 %f0, %r1", [3, 0, 0], u64::from(3_f32.to_bits()));
    gives("cvt.rn.f32.s32 %f0, %r1", [ONES, 0, 0], u64::from((-1_f32).to_bits()));
    gives("cvt.rzi.s32.f32 %r0, %f1", [u64::from((-2.7_f32).to_bits()), 0, 0], ONES - 1);
    gives("cvt.rzi.u32.f32 %r0, %f1", [u64::from((-2.7_f32).to_bits()), 0, 0], 0);
    // PTX ISA 9.0, section 9.7.9.21: NaN is zero from 32 bits to 32 alone.
    let nan = u64::from(f32::NAN.to_bits());
    gives("cvt.rzi.s32.f32 %r0, %f1", [nan, 0, 0], 0);
    gives("cvt.rzi.s64.f32 %rd0, %f1", [nan, 0, 0], 1 << 63);
    gives("cvt.rzi.u64.f64 %rd0, %fd1", [f64::NAN.to_bits(), 0, 0], 1 << 63);
    gives("cvt.rzi.s32.f64 %r0, %fd1", [f64::NAN.to_bits(), 0, 0], 1 << 31);
    gives("cvt.rzi.s64.f64 %rd0, %fd1", [(-2.7_f64).to_bits(), 0, 0], ALL - 1);
    gives("cvt.rn.f32.f64 %f0, %fd1", [2.5_f64.to_bits(), 0, 0], u64::from(2.5_f32.to_bits()));
}

#[test]
fn floating_point_is_ieee() {
    let bits = |value: f32| u64::from(value.to_bits());
    gives("add.f32 %f0, %f1, %f2", [bits(1.5), bits(2.25), 0], bits(3.75));
    gives("mul.f32 %f0, %f1, %f2", [bits(1.5), bits(-2.0), 0], bits(-3.0));
    gives("fma.rn.f32 %f0, %f1, %f2, %f3", [bits(2.0), bits(3.0), bits(1.0)], bits(7.0));
    gives("div.rn.f32 %f0, %f1, %f2", [bits(1.0), bits(0.0), 0], bits(f32::INFINITY));
    gives("neg.f32 %f0, %f1", [bits(1.0), 0, 0], bits(-1.0));
    gives("setp.lt.f32 %p0, %f1, %f2", [bits(f32::NAN), bits(1.0), 0], 0);
    gives("setp.ltu.f32 %p0, %f1, %f2", [bits(f32::NAN), bits(1.0), 0], 1);
    gives("setp.neu.f32 %p0, %f1, %f2", [bits(f32::NAN), bits(1.0), 0], 1);
    gives("setp.gt.f64 %p0, %fd1, %fd2", [2_f64.to_bits(), 1_f64.to_bits(), 0], 1);
}

#[test]
fn comparisons_know_the_sign() {
    gives("setp.lt.s32 %p0, %r1, %r2", [ONES, 0, 0], 1);
    gives("setp.lt.u32 %p0, %r1, %r2", [ONES, 0, 0], 0);
    gives("setp.ge.s64 %p0, %rd1, %rd2", [ALL, 0, 0], 0);
    gives("setp.eq.s32 %p0, %r1, -1", [ONES, 0, 0], 1);
    gives("setp.ne.s16 %p0, %rs1, -1", [0xffff, 0, 0], 0);
    gives("setp.hi.u64 %p0, %rd1, %rd2", [ALL, 1, 0], 1);
    gives("setp.eq.and.u32 %p0, %r1, %r2, %p1", [4, 4, 0], 0);
    gives("setp.eq.and.u32 %p0, %r1, %r2, !%p1", [4, 4, 0], 1);
    gives("setp.ne.or.u32 %p0, %r1, %r2, %p1", [4, 4, 9], 1);
    gives("selp.b32 %r0, -1, %r2, %p1", [0, 4, 9], ONES);
    gives("selp.b32 %r0, %r1, %r2, %p1", [3, 4, 0], 4);
}

#[test]
fn both_results_of_a_comparison_are_set() {
    let body = "ld.u64 %rd1, [%words];\nsetp.eq.u64 %p1|%p2, %rd1, 7;\nselp.b64 %rd2, 1, 0, %p1;\n\
        selp.b64 %rd3, 1, 0, %p2;\nst.v2.u64 [%words], {%rd2, %rd3};";
    // Vectors are aligned to all of themselves.
    let body =
        body.replace("st.v2.u64 [%words], {%rd2, %rd3};", "st.u64 [%words], %rd2;\nst.u64 [%words+8], %rd3;");
    assert_eq!(after(&body, &[7, 9]), [1, 0]);
    assert_eq!(after(&body, &[8, 9]), [0, 1]);
}

#[test]
fn vectors_of_registers_are_packed_and_unpacked() {
    let body = "ld.u64 %rd1, [%words];\nmov.b64 {%r1, %r2}, %rd1;\nmov.b64 %rd2, {%r2, %r1};\nst.u64 [%words], %rd2;\n\
        mov.b32 {%rs1, %rs2}, %r1;\nmov.b32 %r3, {%rs2, -1};\ncvt.u64.u32 %rd3, %r3;\nst.u64 [%words+8], %rd3;";
    assert_eq!(after(body, &[0x1111_2222_3333_4444, 0]), [0x3333_4444_1111_2222, 0xffff_3333]);
}

#[test]
fn the_short_clock_has_the_lower_half_of_the_long_one() {
    let body = "mov.u32 %r2, 4000;\n$again: sub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra $again;\n\
        mov.u64 %rd1, %clock64;\nmov.u32 %r1, %clock;\nmov.b64 %rd2, {%r1, %r2};\nst.u64 [%words], %rd1;\n\
        st.u64 [%words+8], %rd2;";
    let values = after(body, &[0; 2]);
    assert!(values[0] >> 32 == 1 && values[1] < 1 << 20, "{values:?}");
}
