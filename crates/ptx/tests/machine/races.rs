//! Accesses that nothing orders are found, and those that something orders are not.
//!
//! Block 0 writes `x` and the flag `y`, block 1 waits for the flag and reads `x`: as in `litmus.rs`, for one thread each.

use warpbell_ptx::{Check, Error, Finding, Gpu, Launch, Module};

use crate::{Words, module};

#[test]
fn races_of_shared_memory_alone_are_looked_for_where_that_is_asked_for() {
    let both = "mov.u32 %r1, %tid.x;\ncvt.u64.u32 %rd1, %r1;";
    for (of, store) in
        [("shared", "mov.u32 %r2, room;\nst.shared.u64 [%r2], %rd1;"), ("global", "st.u64 [%words], %rd1;")]
    {
        let module = module(".shared .align 8 .b8 room[8];", &format!("{both}\n{store}")).unwrap();
        let words = Words::of(&[0]);
        let launch = Launch::new(&module, "k").block([2, 1, 1]).arguments(&words.address(0).to_le_bytes());
        let finds = |launch: Launch<'_>| launch.run(&words, &false.into()).is_err();
        assert!(finds(launch.clone().races(true)), "{of}");
        assert_eq!(finds(launch.clone().shared_races(true)), of == "shared", "{of}");
        // Neither undoes the other, whichever is said first.
        assert!(finds(launch.clone().shared_races(true).races(true)), "{of}");
        assert!(finds(launch.clone().races(true).shared_races(true)), "{of}");
        assert!(finds(launch.clone().races(true).shared_races(false)), "{of}");
        assert_eq!(finds(launch.shared_races(true).races(false)), of == "shared", "{of}");
    }
}

/// The first finding of a few seeds, with memory as it is and weak.
fn found(module: &Module, grid: u32, block: u32, words: &Words) -> Option<Finding> {
    let runs = (0..20).flat_map(|seed| [(seed, false), (seed, true)]);
    runs.into_iter().find_map(|(seed, weak)| {
        let launch = Launch::new(module, "k").grid([grid, 1, 1]).block([block, 1, 1]).resident(grid);
        let launch = launch.arguments(&words.address(0).to_le_bytes()).seed(seed).weak(weak).races(true);
        match launch.run(words, &false.into()) {
            Ok(_) => None,
            Err(Error::Found(finding)) => Some(*finding),
            Err(other) => panic!("{other}"),
        }
    })
}

fn of_blocks(writer: &str, reader: &str) -> Option<Finding> {
    let named = |text: &str| text.replace("[x]", "[%words]").replace("[y]", "[%words+32]");
    let body = format!(
        "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $reader;\n{}\nret;\n$reader:\n{}",
        named(writer),
        named(reader)
    );
    // Each run has a flag of its own: it is put back by who saw it.
    found(&module("", &body).unwrap(), 2, 1, &Words::of(&[0; 8]))
}

/// Until the flag is seen, by this load; then it is put back.
fn until(load: &str) -> String {
    format!("$again: {load}\nsetp.eq.u64 %p2, %rd1, 0;\n@%p2 bra $again;\nst.relaxed.sys.u64 [y], 0;")
}

#[track_caller]
fn race(writer: &str, reader: &str) {
    let finding =
        of_blocks(writer, reader).unwrap_or_else(|| panic!("{writer} / {reader}: nothing was found"));
    assert!(finding.check == Check::Race && finding.what.contains("nothing orders"), "{finding}");
}

#[track_caller]
fn order(writer: &str, reader: &str) {
    let found = of_blocks(writer, reader);
    assert!(found.is_none(), "{writer} / {reader}: {}", found.unwrap());
}

#[test]
fn a_message_by_release_and_acquire_is_in_order() {
    let read = |load: &str| format!("{}\nld.u64 %rd2, [x];", until(load));
    let (release, acquire) = ("st.u64 [x], 1;\nst.release.gpu.u64 [y], 1;", "ld.acquire.gpu.u64 %rd1, [y];");
    order(release, &read(acquire));
    let fence = "fence.acq_rel.gpu;";
    let fenced = format!("st.u64 [x], 1;\n{fence}\nst.relaxed.gpu.u64 [y], 1;");
    order(&fenced, &read(acquire));
    order(release, &format!("{}\n{fence}\nld.u64 %rd2, [x];", until("ld.relaxed.gpu.u64 %rd1, [y];")));
    order(
        "st.u64 [x], 1;\natom.release.gpu.exch.b64 %rd9, [y], 1;",
        &read("atom.acquire.gpu.or.b64 %rd1, [y], 0;"),
    );
    // Strong accesses of one size are no race, whatever their order.
    order("st.relaxed.gpu.u64 [x], 1;", "ld.relaxed.gpu.u64 %rd2, [x];");
    order("ld.u64 %rd2, [x];", "ld.u64 %rd2, [x];");
    order("st.u32 [%words], 1;", "ld.u32 %r2, [%words+4];");
}

#[test]
fn a_message_without_one_of_them_is_a_race() {
    let read = |load: &str| format!("{}\nld.u64 %rd2, [x];", until(load));
    let (release, acquire) = ("st.u64 [x], 1;\nst.release.gpu.u64 [y], 1;", "ld.acquire.gpu.u64 %rd1, [y];");
    race("st.u64 [x], 1;\nst.relaxed.gpu.u64 [y], 1;", &read(acquire));
    race(release, &read("ld.relaxed.gpu.u64 %rd1, [y];"));
    race(release, &read("ld.acquire.cta.u64 %rd1, [y];"));
    race("st.u64 [x], 1;\nst.release.cta.u64 [y], 1;", &read(acquire));
    race("st.u64 [x], 1;\nfence.acq_rel.cta;\nst.relaxed.gpu.u64 [y], 1;", &read(acquire));
    race("st.u64 [x], 1;", "ld.relaxed.gpu.u64 %rd2, [x];");
    race("st.relaxed.cta.u64 [x], 1;", "ld.relaxed.gpu.u64 %rd2, [x];");
    race("st.relaxed.gpu.u64 [x], 1;", "ld.relaxed.gpu.u32 %r2, [%words];");
}

#[test]
fn a_race_in_shared_memory_names_both_lines() {
    let body = |barrier: &str| {
        format!(
            "mov.u32 %r1, %tid.x;\nshl.b32 %r2, %r1, 3;\nmov.u32 %r3, room;\nadd.u32 %r4, %r3, %r2;\nmov.u64 %rd1, 1;\n\
             st.shared.u64 [%r4], %rd1;\nbar.sync 0;\nst.shared.u64 [%r4], 2;\n{barrier}\nxor.b32 %r5, %r2, 256;\nadd.u32 %r6, %r3, %r5;\nld.shared.u64 %rd2, [%r6];"
        )
    };
    let run = |barrier: &str| {
        let module = module(".shared .align 8 .b8 room[512];", &body(barrier)).unwrap();
        found(&module, 1, 64, &Words::of(&[0]))
    };
    assert_eq!(run("bar.sync 0;"), None);
    for barrier in ["", "bar.warp.sync -1;"] {
        let finding = run(barrier).unwrap();
        assert_eq!(finding.check, Check::Race, "{finding}");
        let lines = [finding.ptx.2.as_str(), finding.what.as_str()].concat();
        assert!(
            lines.contains("st.shared.u64 [%r4], 2") && lines.contains("ld.shared.u64 %rd2"),
            "{finding}"
        );
    }
    let neighbours = body("bar.warp.sync -1;").replace("256", "8");
    let module = module(".shared .align 8 .b8 room[512];", &neighbours).unwrap();
    assert_eq!(found(&module, 1, 64, &Words::of(&[0])), None);
}

#[test]
fn a_value_of_the_host_orders_all_that_was_released_to_it() {
    // Block 0 hands `x` to the host; block 1 learns it from what the host stored long ago.
    let writer = "st.u64 [x], 1;\nfence.acq_rel.sys;\nst.relaxed.sys.u64 [%words+48], 1;";
    let wait = "nanosleep.u32 20;\n".repeat(40);
    let of_host = format!("{wait}ld.acquire.sys.u64 %rd1, [%words+56];\nld.u64 %rd2, [x];");
    let body = format!("mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\n@%p1 bra $reader;\n{writer}\nret;\n$reader:\n{of_host}")
        .replace("[x]", "[%words]");
    assert_eq!(found(&module("", &body).unwrap(), 2, 1, &Words::of(&[0, 0, 0, 0, 0, 0, 0, 5])), None);
}

#[test]
fn a_doorbell_has_one_writer_at_a_time() {
    // What is said is counted in the second word.
    let ring = "atom.add.u32 %r1, [%words+8], 1;\nadd.u32 %r1, %r1, 1;\nst.mmio.relaxed.sys.global.u32 [%words+16], %r1;";
    let finding = found(&module("", ring).unwrap(), 2, 1, &Words::with_device(&[0; 3])).unwrap();
    assert!(finding.check == Check::Doorbell && finding.what.contains("nothing orders"), "{finding}");
    let locked = format!(
        "$lock: atom.acquire.gpu.cas.b64 %rd1, [%words], 0, 1;\nsetp.ne.u64 %p1, %rd1, 0;\n@%p1 bra $lock;\n{ring}\n\
         st.release.gpu.u64 [%words], 0;"
    );
    assert_eq!(found(&module("", &locked).unwrap(), 2, 1, &Words::with_device(&[0; 3])), None);
}

#[test]
fn grids_that_run_at_once_race_too() {
    let store = module(
        "",
        "mov.u64 %rd1, %words;\n$again: st.u64 [%rd1], 1;\nld.relaxed.gpu.u64 %rd2, [%words+64];\n\
        setp.eq.u64 %p1, %rd2, 0;\n@%p1 bra $again;",
    )
    .unwrap();
    let load = module("", "st.relaxed.gpu.u64 [%words+64], 1;\nld.u64 %rd2, [%words];").unwrap();
    let (words, gpu) = (Words::of(&[0; 16]), Gpu::new());
    let run = |module| {
        let launch = Launch::new(module, "k").arguments(&words.address(0).to_le_bytes());
        launch.races(true).gpu(&gpu).run(&words, &false.into())
    };
    let (one, other) = std::thread::scope(|scope| {
        let one = scope.spawn(|| run(&store));
        // The first grid has stored.
        while words.values()[0] == 0 {
            std::thread::yield_now();
        }
        let other = run(&load);
        (one.join().unwrap(), other)
    });
    let said = [one, other].into_iter().find_map(Result::err).unwrap().to_string();
    assert!(said.contains("of another grid"), "{said}");
}

/// Copies from `%rd7`, a multiple of 16 bytes, to `[%r2]` of shared memory, which each lane has written, and fenced.
fn of_copies(threads: u32, body: &str) -> Option<Finding> {
    let begin = "mov.u32 %r9, %tid.x;\nshl.b32 %r10, %r9, 4;\nmov.u32 %r2, room;\nadd.u32 %r2, %r2, %r10;\n\
        mov.u64 %rd9, 5;\nst.shared.v2.u64 [%r2], {%rd9, %rd9};\nmov.u32 %r1, barrier;\nsetp.ne.u32 %p9, %r9, 0;\n\
        @%p9 bra $made;\nmbarrier.init.shared::cta.b64 [%r1], 1;\nmbarrier.init.shared::cta.b64 [%r1+8], 1;\n\
        $made: fence.proxy.async;\nbar.sync 0;\nand.b64 %rd7, %words, 8;\nadd.u64 %rd7, %words, %rd7;";
    let outside = ".shared .align 16 .b8 room[1024];\n.shared .align 8 .b8 barrier[16];";
    found(&module(outside, &format!("{begin}\n{body}")).unwrap(), 1, threads, &Words::of(&[7; 12]))
}

#[track_caller]
fn copy_race(threads: u32, body: &str) {
    let finding = of_copies(threads, body).unwrap_or_else(|| panic!("{body}: nothing was found"));
    assert!(finding.check == Check::Race && finding.what.contains("nothing orders"), "{body}: {finding}");
    assert!([finding.ptx.2.as_str(), &finding.what].concat().contains("cp.async"), "{body}: {finding}");
}

#[track_caller]
fn copy_order(threads: u32, body: &str) {
    let found = of_copies(threads, body);
    assert!(found.is_none(), "{body}: {}", found.unwrap());
}

const COPY: &str = "cp.async.ca.shared.global [%r2], [%rd7], 8;\ncp.async.commit_group;";
const WAIT: &str = "cp.async.wait_group 0;";
const READ: &str = "ld.shared.u64 %rd1, [%r2];";

#[test]
fn a_copy_that_nobody_waited_for_is_a_race() {
    copy_order(1, &format!("{COPY}\n{WAIT}\n{READ}"));
    copy_order(1, &format!("{COPY}\ncp.async.wait_all;\n{READ}\nst.u64 [%rd7], 1;\nst.shared.u64 [%r2], 1;"));
    copy_race(1, &format!("{COPY}\n{READ}\n{WAIT}"));
    copy_race(1, &format!("{COPY}\nst.shared.u64 [%r2], 1;\n{WAIT}"));
    // Its source: read by others, and written by nobody.
    copy_order(1, &format!("{COPY}\nld.u64 %rd1, [%rd7];\n{WAIT}"));
    copy_race(1, &format!("{COPY}\nst.u64 [%rd7], 1;\n{WAIT}"));
    copy_order(1, &format!("{COPY}\nst.u64 [%rd7+8], 1;\nld.shared.u64 %rd1, [%r2+8];\n{WAIT}"));
    // It was committed to no group, or to one that need not be done yet.
    copy_race(1, &format!("cp.async.ca.shared.global [%r2], [%rd7], 8;\n{WAIT}\n{READ}"));
    let other = "cp.async.ca.shared.global [%r2+16], [%rd7], 8;\ncp.async.commit_group;";
    copy_order(1, &format!("{COPY}\n{other}\ncp.async.wait_group 1;\n{READ}"));
    copy_race(1, &format!("{other}\n{COPY}\ncp.async.wait_group 1;\n{READ}"));
    // Two to one place are in no order.
    copy_race(1, &format!("{COPY}\n{COPY}\n{WAIT}"));
    copy_order(1, &format!("{COPY}\n{WAIT}\n{COPY}\n{WAIT}\n{READ}"));
}

#[test]
fn what_one_lane_waited_for_others_know_by_a_barrier() {
    let others = "xor.b32 %r3, %r2, 16;\nld.shared.u64 %rd1, [%r3];";
    copy_order(2, &format!("{COPY}\n{WAIT}\nbar.sync 0;\n{others}"));
    copy_race(2, &format!("{COPY}\n{WAIT}\n{others}"));
    copy_race(2, &format!("{COPY}\nbar.sync 0;\n{others}\n{WAIT}"));
    // Behind the barrier the other lane's part is copied anew.
    copy_race(2, &format!("{COPY}\n{WAIT}\nbar.sync 0;\n{others}\n{COPY}\n{WAIT}"));
    copy_order(2, &format!("{COPY}\n{WAIT}\nbar.sync 0;\n{others}\nbar.sync 0;\n{COPY}\n{WAIT}"));
}

/// What all lanes load of what one lane had copied.
const READ_ROOM: &str = "mov.u32 %r3, room;\nld.shared.u64 %rd1, [%r3];";

/// Copies that one lane begins.
fn leader(copies: &str) -> String {
    format!("@%p9 bra $begun;\n{copies}\n$begun:")
}

#[test]
fn a_bulk_copy_is_done_when_its_own_barrier_says_so() {
    let copy = |barrier: &str, to: &str| {
        format!(
            "mbarrier.arrive.expect_tx.shared::cta.b64 %rd2, [{barrier}], 16;\n\
             cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [{to}], [%rd7], 16, [{barrier}];"
        )
    };
    let wait = |barrier: &str, label: &str| {
        format!("{label}: mbarrier.try_wait.parity.shared::cta.b64 %p2, [{barrier}], 0;\n@!%p2 bra {label};")
    };
    let (one, other) = (copy("%r1", "%r2"), copy("%r1+8", "%r2+64"));
    let (of_one, of_other) = (wait("%r1", "$one"), wait("%r1+8", "$other"));
    copy_order(1, &format!("{one}\n{of_one}\n{READ}\nst.u64 [%rd7], 1;"));
    copy_race(1, &format!("{one}\n{READ}\n{of_one}"));
    copy_race(1, &format!("{one}\nst.u64 [%rd7], 1;\n{of_one}"));
    copy_order(1, &format!("{one}\n{other}\n{of_one}\n{READ}\n{of_other}"));
    // One lane begins, and all of them wait.
    copy_order(32, &format!("{}\n{of_one}\n{READ_ROOM}", leader(&one)));
    copy_race(32, &format!("{}\n{of_other}\n{READ_ROOM}\n{of_one}", leader(&format!("{one}\n{other}"))));
}

#[test]
fn a_bulk_copy_reads_shared_memory_until_it_was_waited_for() {
    let back = "cp.async.bulk.global.shared::cta.bulk_group [%rd7], [%r2], 16;\ncp.async.bulk.commit_group;";
    let wait = "cp.async.bulk.wait_group 0;";
    copy_order(1, &format!("{back}\n{wait}\nst.shared.u64 [%r2], 1;\nld.u64 %rd1, [%rd7];"));
    copy_race(1, &format!("{back}\nst.shared.u64 [%r2], 1;\n{wait}"));
    copy_race(1, &format!("{back}\nld.u64 %rd1, [%rd7];\n{wait}"));
    copy_order(1, &format!("{back}\n{READ}\n{wait}"));
}

#[test]
fn an_arrival_behind_copies_tells_that_they_are_done() {
    let behind = "cp.async.mbarrier.arrive.noinc.shared.b64 [%r1];";
    let copy = "cp.async.ca.shared.global [%r2], [%rd7], 8;";
    let wait = "$again: mbarrier.test_wait.parity.shared.b64 %p2, [%r1], 0;\n@!%p2 bra $again;";
    copy_order(32, &format!("{}\n{wait}\n{READ_ROOM}", leader(&format!("{copy}\n{behind}"))));
    copy_race(32, &format!("{}\n{wait}\n{READ_ROOM}", leader(&format!("{behind}\n{copy}"))));
}

#[test]
fn memory_that_a_copy_has_yet_to_write_is_not_initialized() {
    let body = "mov.u32 %r2, room;\nand.b64 %rd7, %words, 8;\nadd.u64 %rd7, %words, %rd7;\n\
        cp.async.ca.shared.global [%r2], [%rd7], 8;\nld.shared.u64 %rd1, [%r2];";
    let module = module(".shared .align 16 .b8 room[64];", body).unwrap();
    let words = Words::of(&[7; 4]);
    let launch = Launch::new(&module, "k").arguments(&words.address(0).to_le_bytes());
    let Err(Error::Found(finding)) = launch.run(&words, &false.into()) else { panic!("nothing was found") };
    assert_eq!(finding.check, Check::Uninitialized);
    assert!(finding.what.ends_with("a copy to there was not waited for"), "{finding}");
}
