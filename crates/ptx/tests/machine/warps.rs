//! Where lanes meet.

use warpbell_ptx::{Check, Error, Finding};

use crate::{Words, module, run};

/// Each thread's `%rd1` after a body that has its lane in `%r1` and its number in `%r2`.
fn each(threads: u32, body: &str) -> Vec<u64> {
    let words = Words::of(&vec![0; threads as usize]);
    run(&module("", &around(body)).unwrap(), threads, &words).unwrap();
    words.values()
}

fn around(body: &str) -> String {
    format!(
        "mov.u32 %r1, %laneid;\nmov.u32 %r2, %tid.x;\n{body}\nmul.wide.u32 %rd20, %r2, 8;\n\
         add.u64 %rd20, %words, %rd20;\nst.u64 [%rd20], %rd1;"
    )
}

#[track_caller]
fn found(threads: u32, body: &str) -> Finding {
    let words = Words::of(&vec![0; threads as usize]);
    match run(&module("", &around(body)).unwrap(), threads, &words) {
        Err(Error::Found(finding)) => *finding,
        other => panic!("{other:?}"),
    }
}

#[test]
fn shuffles_take_from_the_lane_that_they_name() {
    let of = |how: &str| {
        format!(
            "shfl.sync.{how}, -1;\nselp.b32 %r4, 256, 0, %p1;\nor.b32 %r3, %r3, %r4;\ncvt.u64.u32 %rd1, %r3;"
        )
    };
    let lane = |from: u64| 256 | from;
    assert_eq!(each(32, &of("idx.b32 %r3|%p1, %r1, 5, 31")), [lane(5); 32]);
    let down = each(32, &of("down.b32 %r3|%p1, %r1, 4, 31"));
    assert_eq!((down[0], down[27], down[28]), (lane(4), lane(31), 28));
    let up = each(32, &of("up.b32 %r3|%p1, %r1, 4, 0"));
    assert_eq!((up[31], up[4], up[3]), (lane(27), lane(0), 3));
    let across = each(32, &of("bfly.b32 %r3|%p1, %r1, 16, 31"));
    assert_eq!((across[0], across[31]), (lane(16), lane(15)));
    // Segments of eight: the mask of the segments stands above the clamp.
    let segments = each(32, &of(&format!("idx.b32 %r3|%p1, %r1, 2, {}", 24 << 8 | 31)));
    assert_eq!((segments[0], segments[9], segments[31]), (lane(2), lane(10), lane(26)));
}

#[test]
fn votes_and_matches_see_the_lanes_of_their_mask() {
    let ballot = "setp.lt.u32 %p1, %r1, 3;\nvote.sync.ballot.b32 %r3, %p1, -1;\ncvt.u64.u32 %rd1, %r3;";
    assert_eq!(each(32, ballot), [7; 32]);
    let all = "setp.lt.u32 %p1, %r1, 32;\nvote.sync.all.pred %p2, %p1, -1;\nvote.sync.any.pred %p3, !%p1, -1;\n\
        selp.b64 %rd1, 1, 0, %p2;\nselp.b64 %rd2, 2, 0, %p3;\nor.b64 %rd1, %rd1, %rd2;";
    assert_eq!(each(32, all), [1; 32]);
    let matches = "and.b32 %r3, %r1, 1;\nmatch.any.sync.b32 %r4, %r3, -1;\ncvt.u64.u32 %rd1, %r4;";
    let wanted = |lane: usize| if lane.is_multiple_of(2) { 0x5555_5555 } else { 0xaaaa_aaaa };
    assert_eq!(each(32, matches), (0..32).map(wanted).collect::<Vec<u64>>());
    let reduced = "redux.sync.max.s32 %r3, %r1, -1;\ncvt.u64.u32 %rd1, %r3;";
    assert_eq!(each(32, reduced), [31; 32]);
}

#[test]
fn halves_of_a_warp_meet_apart() {
    let body = "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra $low;\nvote.sync.ballot.b32 %r3, 1, 0xffff0000;\nbra.uni $end;\n\
        $low: vote.sync.ballot.b32 %r3, 1, 0x0000ffff;\n$end: cvt.u64.u32 %rd1, %r3;"
        .replace("ballot.b32 %r3, 1", "ballot.b32 %r3, %p2");
    let values = each(32, &format!("setp.eq.u32 %p2, 0, 0;\n{body}"));
    assert_eq!((values[0], values[31]), (0xffff, 0xffff_0000));
}

#[test]
fn a_block_waits_for_all_its_warps() {
    let outside = ".shared .align 4 .b8 places[512];";
    let body = "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 2;\nmov.u32 %r3, places;\nadd.u32 %r4, %r3, %r2;\n\
        st.shared.u32 [%r4], %r1;\nbar.sync 0;\nxor.b32 %r5, %r2, 508;\nadd.u32 %r6, %r3, %r5;\nld.shared.u32 %r7, [%r6];\n\
        cvt.u64.u32 %rd1, %r7;\nmul.wide.u32 %rd20, %r1, 8;\nadd.u64 %rd20, %words, %rd20;\nst.u64 [%rd20], %rd1;";
    let words = Words::of(&[0; 128]);
    run(&module(outside, body).unwrap(), 128, &words).unwrap();
    assert_eq!(words.values(), (0..128).rev().collect::<Vec<u64>>());
}

#[test]
fn threads_that_ended_are_not_waited_for() {
    let body = "setp.gt.u32 %p1, %r2, 31;\n@%p1 bra $end;\nbar.sync 0;\nmov.u64 %rd1, 1;\n$end:";
    let values = each(64, &format!("mov.u64 %rd1, 0;\n{body}"));
    assert_eq!(values.iter().sum::<u64>(), 32);
}

#[test]
fn a_mask_has_the_lane_itself() {
    let own = found(32, "setp.eq.u32 %p1, %r1, 9;\n@%p1 bar.warp.sync 0xff;\nmov.u64 %rd1, 0;");
    assert_eq!((own.check, own.thread), (Check::Mask, 9));
}

/// PTX ISA 9.0, section 9.7.9.6: the threads of the mask that have not ended are waited for.
#[test]
fn lanes_that_ended_or_were_never_there_are_not_waited_for() {
    assert_eq!(each(16, "bar.warp.sync -1;\nmov.u64 %rd1, 1;"), [1; 16]);
    // The upper half ends at once, or long after the others wait.
    for wait in ["", &"nanosleep.u32 20;\n".repeat(200)] {
        let ends =
            format!("mov.u64 %rd1, 7;\nsetp.lt.u32 %p1, %r1, 16;\n@%p1 bra $goes;\n{wait}ret;\n$goes:");
        let votes = "setp.ge.u32 %p2, %r1, 0;\nvote.sync.ballot.b32 %r3, %p2, -1;\nvote.sync.all.pred %p3, %p2, -1;\n\
             selp.b32 %r4, 1048576, 0, %p3;\nor.b32 %r3, %r3, %r4;\ncvt.u64.u32 %rd1, %r3;";
        let values = each(32, &format!("{ends}\n{votes}"));
        assert_eq!(values[..16], [0x10_ffff; 16]);
        assert_eq!(values[16..], [0; 16], "they wrote nothing");
    }
}

#[test]
fn a_shuffle_from_a_lane_that_does_not_take_part_is_refused() {
    let finding = found(
        32,
        "setp.gt.u32 %p1, %r1, 7;\n@%p1 bra $end;\nshfl.sync.idx.b32 %r3, %r1, 9, 31, 0xff;\n$end: mov.u64 %rd1, 0;",
    );
    assert_eq!(finding.check, Check::Mask);
    assert!(finding.what.contains("from lane 9"), "{}", finding.what);
}

#[test]
fn lanes_that_wait_for_each_other_are_found() {
    let body = "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra $low;\nbar.warp.sync -1;\nbra.uni $end;\n\
        $low:\nvote.sync.ballot.b32 %r3, %p1, -1;\n$end: mov.u64 %rd1, 0;";
    let finding = found(32, body);
    assert_eq!(finding.check, Check::Deadlock);
    let line = |text: &str| 16 + body.lines().position(|line| line == text).unwrap();
    let (low, high) = ("vote.sync.ballot.b32 %r3, %p1, -1;", "bar.warp.sync -1;");
    let of = |lanes: &str, text: &str| {
        format!("warp 0, {lanes}: waiting at line {}, `{text}`, for lanes 0 to 31", line(text))
    };
    for group in [of("lanes 0 to 15", low), of("lanes 16 to 31", high)] {
        assert!(finding.what.contains(&group), "{group}: {}", finding.what);
    }
    let body = "setp.eq.u32 %p1, %r1, 9;\n@%p1 exit;\nsetp.eq.u32 %p2, %r1, 3;\n@%p2 bra $own;\nbar.sync 0;\nbra.uni $end;\n\
        $own:\nbar.warp.sync 0x408;\n$end:\nmov.u64 %rd1, 0;";
    let what = found(32, body).what;
    for part in [
        "lanes 0 to 2, 4 to 8 and 10 to 31: waiting at line",
        "for the rest of their warp to come to barrier 0",
        "lane 3: waiting at line",
        "for lanes 3 and 10 to come there",
        "lane 9: ended",
    ] {
        assert!(what.contains(part), "{part}: {what}");
    }
}

#[test]
fn a_barrier_counts_warps_of_which_some_lanes_are_missing() {
    // A block of 48 has two warps, which count 64.
    assert_eq!(each(48, "bar.sync 0, 64;\nmov.u64 %rd1, 1;"), [1; 48]);
    let found = found(48, "bar.sync 0, 96;\nmov.u64 %rd1, 1;");
    assert_eq!(found.check, Check::BlockBarrier);
    // Lanes that ended are part of their warp's arrival.
    let body = "mov.u64 %rd1, 0;\nand.b32 %r3, %r1, 1;\nsetp.ne.u32 %p1, %r3, 0;\n@%p1 bra $end;\n\
        bar.sync 3, 64;\nmov.u64 %rd1, 1;\n$end:";
    assert_eq!(each(64, body).iter().sum::<u64>(), 32);
}

#[test]
fn a_warp_arrives_when_all_its_lanes_did() {
    // The second warp waits for the first, whose lanes come by two ways: the last of them comes after it stored.
    let outside = ".shared .align 8 .b8 slot[8];";
    let body = around(
        "mov.u64 %rd1, 7;\nsetp.gt.u32 %p1, %r2, 31;\n@%p1 bra $second;\nsetp.ne.u32 %p2, %r2, 31;\n@%p2 bra $there;\n\
         nanosleep.u32 20;\nnanosleep.u32 20;\nnanosleep.u32 20;\nnanosleep.u32 20;\nst.shared.u64 [slot], %rd1;\n\
         $there: barrier.cta.arrive 1, 64;\nbra.uni $end;\n$second: bar.sync 1, 64;\nld.shared.u64 %rd1, [slot];\n$end:",
    );
    let words = Words::of(&[0; 64]);
    run(&module(outside, &body).unwrap(), 64, &words).unwrap();
    assert_eq!(words.values(), [7; 64]);
}

#[test]
fn an_aligned_barrier_is_one_instruction_for_a_warp() {
    let body = |barrier: &str| {
        format!(
            "setp.lt.u32 %p1, %r1, 16;\n@%p1 bra $low;\n{barrier};\nbra.uni $end;\n$low: {barrier};\n$end: mov.u64 %rd1, 1;"
        )
    };
    assert_eq!(each(32, &body("barrier.cta.sync 0")), [1; 32]);
    assert_eq!(found(32, &body("bar.sync 0")).check, Check::BlockBarrier);
    // The second warp, which would wait for nobody else, comes later.
    let counts = format!(
        "setp.lt.u32 %p1, %r2, 32;\nselp.b32 %r3, 64, 32, %p1;\n{}barrier.cta.sync 0, %r3;\nmov.u64 %rd1, 1;",
        "@!%p1 nanosleep.u32 20;\n".repeat(16)
    );
    let said = found(64, &counts);
    assert!(said.check == Check::BlockBarrier && said.what.contains("others"), "{said}");
}
