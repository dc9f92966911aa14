//! Jumps, predicates, calls and special registers.

use warpbell_ptx::{Check, Error};

use crate::{Words, after, module, run};

#[test]
fn a_loop_ends_where_its_predicate_says() {
    let body = "ld.u64 %rd1, [%words];\nmov.u64 %rd2, 0;\n$again:\nadd.u64 %rd2, %rd2, %rd1;\nsub.u64 %rd1, %rd1, 1;\n\
        setp.ne.u64 %p1, %rd1, 0;\n@%p1 bra $again;\n@!%p1 st.u64 [%words], %rd2;\n@%p1 st.u64 [%words], 0;";
    assert_eq!(after(body, &[10]), [55]);
}

#[test]
fn a_table_of_targets_is_indexed() {
    let body = "ld.u32 %r1, [%words];\n$table: .branchtargets $zero, $one, $two;\nbrx.idx %r1, $table;\n\
        $zero: mov.u64 %rd1, 100;\nbra.uni $end;\n$one: mov.u64 %rd1, 101;\nbra.uni $end;\n$two: mov.u64 %rd1, 102;\n\
        $end: st.u64 [%words], %rd1;";
    for (index, wanted) in [(0, 100), (1, 101), (2, 102)] {
        assert_eq!(after(body, &[index]), [wanted]);
    }
}

#[test]
fn names_of_an_inner_scope_end_with_it() {
    let body = "mov.u64 %rd1, 1;\n{\n.reg .b64 %rd1;\nmov.u64 %rd1, 2;\n$here:\n{\n.reg .pred q;\nsetp.eq.u64 q, %rd1, 2;\n\
        @q bra $out;\n}\n$out: st.u64 [%words+8], %rd1;\n}\nst.u64 [%words], %rd1;";
    assert_eq!(after(body, &[0, 0]), [1, 2]);
}

const FUNCTIONS: &str = ".func (.param .b64 result) sum(.param .b64 a, .param .align 8 .b8 pair[16])\n{\n.reg .b64 %x<8>;\n\
    .local .align 8 .b8 room[64];\nld.param.u64 %x1, [a];\nld.param.u64 %x2, [pair];\nld.param.u64 %x3, [pair+8];\n\
    add.u64 %x4, %x2, %x3;\nst.local.u64 [room+8], %x4;\nld.local.u64 %x5, [room+8];\nadd.u64 %x5, %x5, %x1;\n\
    st.param.b64 [result], %x5;\nret;\n}\n";

#[test]
fn a_call_gives_parameters_and_takes_its_result() {
    let body = "ld.u64 %rd1, [%words];\n{\n.param .b64 first;\n.param .align 8 .b8 second[16];\n.param .b64 got;\n\
        st.param.b64 [first], %rd1;\nst.param.b64 [second], 20;\nst.param.b64 [second+8], 300;\n\
        call.uni (got), sum, (first, second);\nld.param.b64 %rd2, [got];\n}\nst.u64 [%words], %rd2;";
    let words = Words::of(&[1]);
    run(&module(FUNCTIONS, body).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [321]);
}

#[test]
fn calls_without_end_are_found() {
    let endless = ".func deeper()\n{\ncall.uni deeper;\nret;\n}\n";
    let Error::Found(finding) =
        run(&module(endless, "call.uni deeper;").unwrap(), 1, &Words::of(&[0])).unwrap_err()
    else {
        panic!("nothing was found");
    };
    assert_eq!((finding.check, finding.ptx.2.as_str()), (Check::Stack, "call.uni deeper;"));
}

#[test]
fn threads_know_where_they_are() {
    let body = "mov.u32 %r1, %tid.x;\nmov.u32 %r2, %laneid;\nmov.u32 %r3, %warpid;\nmov.u32 %r4, %ntid.x;\n\
        mov.u32 %r5, %lanemask_lt;\nshl.b32 %r6, %r3, 8;\nor.b32 %r6, %r6, %r2;\nshl.b32 %r7, %r4, 16;\n\
        or.b32 %r6, %r6, %r7;\nmov.b64 %rd1, {%r6, %r5};\nmul.wide.u32 %rd2, %r1, 8;\nadd.u64 %rd3, %words, %rd2;\n\
        st.u64 [%rd3], %rd1;";
    let words = Words::of(&[0; 40]);
    run(&module("", body).unwrap(), 40, &words).unwrap();
    let lane = |thread: u64| thread % 32;
    let wanted = |thread: u64| ((1 << lane(thread)) - 1) << 32 | 40 << 16 | (thread / 32) << 8 | lane(thread);
    assert_eq!(words.values(), (0..40).map(wanted).collect::<Vec<u64>>());
}

#[test]
fn a_module_has_its_variables() {
    let outside = ".global .align 8 .u64 counter = 5;\n.const .align 4 .b32 table[3] = {7, 8, 9};\n\
        .global .align 8 .u64 pointer = generic(counter);\n.global .align 1 .b8 bytes[4] = {1, 2, 3, 255};";
    let body = "ld.global.u64 %rd1, [counter];\nld.const.u32 %r1, [table+8];\nld.global.u64 %rd2, [pointer];\n\
        ld.u64 %rd3, [%rd2];\nadd.u64 %rd1, %rd1, %rd3;\ncvt.u64.u32 %rd4, %r1;\nadd.u64 %rd1, %rd1, %rd4;\n\
        ld.global.s8 %r2, [bytes+3];\ncvt.s64.s32 %rd5, %r2;\nadd.s64 %rd1, %rd1, %rd5;\nst.u64 [%words], %rd1;\n\
        st.global.u64 [counter], 6;";
    let (words, module) = (Words::of(&[0]), module(outside, body).unwrap());
    run(&module, 1, &words).unwrap();
    assert_eq!(words.values(), [5 + 5 + 9 - 1]);
    // What a kernel wrote stays for the next launch.
    run(&module, 1, &words).unwrap();
    assert_eq!(words.values(), [6 + 6 + 9 - 1]);
    assert_eq!(module.global("counter").map(|(_, bytes)| bytes), Some(8));
    assert_eq!(module.global("no"), None);
}
