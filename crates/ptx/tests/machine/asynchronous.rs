//! Asynchronous copies, and the barriers that count them.

use warpbell_ptx::{Check, Error, Launch};

use crate::{Words, module, run};

const ROOM: &str = ".shared .align 16 .b8 room[64];\n.shared .align 8 .b8 barrier[8];";

#[test]
fn a_bulk_copy_completes_its_barrier() {
    let body = "mov.u32 %r1, barrier;\nmov.u32 %r2, room;\nmbarrier.init.shared::cta.b64 [%r1], 1;\n\
        fence.proxy.async.shared::cta;\nmbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;\n\
        selp.b64 %rd1, 1, 0, %p1;\nmbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [%r1], 16;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%words], 16, [%r1];\n\
        $again: mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %rd2;\n@!%p2 bra $again;\n\
        mbarrier.test_wait.parity.shared::cta.b64 %p3, [%r1], 1;\nselp.b64 %rd3, 2, 0, %p3;\nor.b64 %rd1, %rd1, %rd3;\n\
        ld.shared.u64 %rd4, [%r2+8];\nst.u64 [%words+16], %rd4;\nst.u64 [%words+24], %rd1;";
    let words = Words::of(&[1, 2, 0, 9]);
    run(&module(ROOM, body).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [1, 2, 2, 0]);
}

#[test]
fn copies_of_older_gpus_are_there_when_they_were_waited_for() {
    let body = "mov.u32 %r2, room;\ncp.async.ca.shared.global [%r2], [%words], 8;\ncp.async.commit_group;\n\
        cp.async.wait_group 0;\nld.shared.u64 %rd1, [%r2];\nst.u64 [%words+8], %rd1;";
    let words = Words::of(&[77, 0]);
    run(&module(ROOM, body).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [77, 77]);
}

#[test]
fn a_barrier_that_was_not_made_ready_is_found() {
    for body in [
        "mov.u32 %r1, barrier;\nmbarrier.arrive.shared::cta.b64 %rd1, [%r1];",
        "mov.u32 %r1, barrier;\nmbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.inval.shared::cta.b64 [%r1];\n\
         mbarrier.test_wait.parity.shared::cta.b64 %p1, [%r1], 0;",
        "mov.u32 %r1, barrier;\nmbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.arrive.shared::cta.b64 %rd1, [%r1], 2;",
    ] {
        let found = run(&module(ROOM, body).unwrap(), 1, &Words::of(&[0])).unwrap_err();
        assert!(
            matches!(&found, Error::Found(finding) if finding.check == Check::Barrier),
            "{body}: {found}"
        );
    }
}

#[track_caller]
fn check_of(body: &str) -> Check {
    match run(&module(ROOM, body).unwrap(), 1, &Words::of(&[0; 8])).unwrap_err() {
        Error::Found(finding) => finding.check,
        other => panic!("{body}: {other}"),
    }
}

#[test]
fn copies_are_of_whole_units_at_multiples_of_them() {
    let made = "mov.u32 %r1, barrier;\nmov.u32 %r2, room;\nmbarrier.init.shared::cta.b64 [%r1], 1;\n\
        fence.proxy.async.shared::cta;\nand.b64 %rd7, %words, 8;\nadd.u64 %rd7, %words, %rd7;";
    for (to, from, size) in
        [("%r2+8", "%rd7", 16), ("%r2", "%rd7+8", 16), ("%r2", "%rd7", 24), ("%r2", "%rd7", 8)]
    {
        let copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes";
        let body = format!("{made}\n{copy} [{to}], [{from}], {size}, [%r1];");
        assert_eq!(check_of(&body), Check::Alignment, "{body}");
    }
    for copy in ["[%r2+4], [%rd7], 8", "[%r2], [%rd7+8], 16", "[%r2], [%rd7], 12"] {
        assert_eq!(
            check_of(&format!("{made}\ncp.async.ca.shared.global {copy};")),
            Check::Alignment,
            "{copy}"
        );
    }
}

#[test]
fn counts_of_a_barrier_end_below_two_to_the_twentieth() {
    let init = |count: u32| format!("mov.u32 %r1, barrier;\nmbarrier.init.shared::cta.b64 [%r1], {count};");
    let most = (1 << 20) - 1;
    run(&module(ROOM, &init(most)).unwrap(), 1, &Words::of(&[0])).unwrap();
    let expect =
        |bytes: u32| format!("{}\nmbarrier.expect_tx.relaxed.cta.shared::cta.b64 [%r1], {bytes};", init(1));
    run(&module(ROOM, &expect(most)).unwrap(), 1, &Words::of(&[0])).unwrap();
    for body in [init(0), init(most + 1), expect(most + 1)] {
        assert_eq!(check_of(&body), Check::Barrier, "{body}");
    }
}

/// What a thread found in `%rd1`, over many seeds, with the first two words 77 and 78; `room` has 5 and 6 before.
fn seen(body: &str) -> std::collections::BTreeSet<u64> {
    let begin = "mov.u32 %r1, barrier;\nmov.u32 %r2, room;\nst.shared.u64 [%r2], 5;\nst.shared.u64 [%r2+8], 6;\n\
        mbarrier.init.shared::cta.b64 [%r1], 1;\nfence.proxy.async;\nand.b64 %rd7, %words, 8;\nadd.u64 %rd7, %words, %rd7;";
    let module = module(ROOM, &format!("{begin}\n{body}\nst.u64 [%words+40], %rd1;")).unwrap();
    let one = |seed| {
        // The copy's source is at a multiple of 16 bytes, which the first or the second word is.
        let words = Words::of(&[77, 77, 78, 78, 0, 0]);
        let launch = Launch::new(&module, "k").arguments(&words.address(0).to_le_bytes()).seed(seed);
        assert!(launch.run(&words, &false.into()).unwrap().ended);
        words.values()[5]
    };
    (0..400).map(one).collect()
}

const LOOK: &str = "nanosleep.u32 20;\nld.shared.u64 %rd1, [%r2];";

#[test]
fn a_copy_is_there_when_it_was_waited_for_and_no_sooner() {
    let copy = "cp.async.ca.shared.global [%r2], [%rd7], 8;\ncp.async.commit_group;";
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\n{LOOK}"))), [5, 77]);
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\ncp.async.wait_group 0;\n{LOOK}"))), [77]);
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\ncp.async.wait_all;\n{LOOK}"))), [77]);
    let two = "cp.async.ca.shared.global [%r2+16], [%rd7], 8;\ncp.async.commit_group;";
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\n{two}\ncp.async.wait_group 1;\n{LOOK}"))), [77]);
    assert_eq!(Vec::from_iter(seen(&format!("{two}\n{copy}\ncp.async.wait_group 1;\n{LOOK}"))), [5, 77]);
    assert_eq!(
        Vec::from_iter(seen(&format!(
            "cp.async.ca.shared.global [%r2], [%rd7], 8;\ncp.async.wait_group 0;\n{LOOK}"
        ))),
        [5, 77],
        "it is in no group"
    );
}

#[test]
fn a_bulk_copy_is_there_when_its_barrier_says_so() {
    let copy = "mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [%r1], 16;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd7], 16, [%r1];";
    let wait = "$again: mbarrier.try_wait.shared::cta.b64 %p2, [%r1], %rd2;\n@!%p2 bra $again;";
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\n{LOOK}\n{wait}"))), [5, 77]);
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\n{wait}\n{LOOK}"))), [77]);
}

#[test]
fn bulk_copies_need_a_fence_of_their_proxy() {
    let back = "cp.async.bulk.global.shared::cta.bulk_group [%rd7], [%r2], 16;\ncp.async.bulk.commit_group;\n\
        cp.async.bulk.wait_group 0;";
    let begin = "mov.u32 %r2, room;\nand.b64 %rd7, %words, 8;\nadd.u64 %rd7, %words, %rd7;\n\
        st.shared.u64 [%r2], 5;\nst.shared.u64 [%r2+8], 5;";
    assert_eq!(check_of(&format!("{begin}\n{back}")), Check::Proxy);
    let words = Words::of(&[0; 4]);
    run(&module(ROOM, &format!("{begin}\nfence.proxy.async;\n{back}")).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values().iter().filter(|word| **word == 5).count(), 2);
    let unfenced = "mov.u32 %r1, barrier;\nmov.u32 %r2, room;\nmbarrier.init.shared::cta.b64 [%r1], 1;\n\
        and.b64 %rd7, %words, 8;\nadd.u64 %rd7, %words, %rd7;\n\
        cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd7], 16, [%r1];";
    assert_eq!(check_of(unfenced), Check::Proxy);
}

#[test]
fn an_arrival_behind_copies_comes_when_they_are_done() {
    let copy = "cp.async.ca.shared.global [%r2], [%rd7], 8;";
    let wait = "$again: mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;\n@!%p2 bra $again;\nld.shared.u64 %rd1, [%r2];";
    let own = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];";
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\n{own}\n{wait}"))), [77]);
    // Counted, it is one more: the barrier awaits the thread, too.
    let more = "cp.async.mbarrier.arrive.shared.b64 [%r1];\nmbarrier.arrive.shared::cta.b64 %rd2, [%r1];";
    assert_eq!(Vec::from_iter(seen(&format!("{copy}\n{more}\n{wait}"))), [77]);
    // Copies of behind it are not waited for.
    assert_eq!(Vec::from_iter(seen(&format!("{own}\n{copy}\n{wait}"))), [5, 77]);
    assert_eq!(
        check_of("mov.u32 %r1, barrier;\ncp.async.mbarrier.arrive.noinc.shared.b64 [%r1];"),
        Check::Barrier
    );
}
