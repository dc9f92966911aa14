//! What a kernel may not do, and how that is told.

use std::sync::atomic::{AtomicBool, Ordering};

use warpbell_ptx::{Check, Error, Finding, Launch, Memory, Module, Region};

use crate::{Words, module, run};

#[track_caller]
fn found(body: &str, words: &Words) -> Finding {
    match run(&module("", body).unwrap(), 1, words) {
        Err(Error::Found(finding)) => *finding,
        other => panic!("{body}: {other:?}"),
    }
}

/// Words of which none was written, but for the last.
struct Fresh(Words);

impl Memory for Fresh {
    fn region(&self, address: u64) -> Option<Region> {
        self.0.region(address).map(|region| region.fresh(7))
    }
}

#[test]
fn memory_of_the_gpu_that_was_never_written_is_told() {
    let read = "ld.relaxed.sys.u32 %r1, [%words+12];";
    for (body, what) in [
        (read, Some("4 bytes at ")),
        ("ld.v2.u64 {%rd1, %rd2}, [%words];", Some("16 bytes at ")),
        ("atom.add.u64 %rd1, [%words+8], 1;", Some("8 bytes at ")),
        // The last was written by the host, the second by the kernel.
        ("ld.v2.u64 {%rd1, %rd2}, [%words+16];", None),
        ("atom.add.u64 %rd1, [%words+24], 1;", None),
        (&format!("st.u64 [%words+8], 1;\n{read}"), None),
        (&format!("atom.exch.b64 %rd1, [%words+24], 1;\nst.u64 [%words+8], %rd1;\n{read}"), None),
    ] {
        for weak in [false, true] {
            let words = Words::of(&[0, 0, 0, 5]);
            let at = words.address(0).next_multiple_of(16);
            (0..3).for_each(|word| {
                words.word(word).store(Region::unwritten(7, words.address(word)), Ordering::Relaxed);
            });
            assert_eq!(at, words.address(0), "vectors need it");
            let module = module("", body).unwrap();
            let launch = Launch::new(&module, "k").arguments(&at.to_le_bytes()).weak(weak);
            let ran = launch.run(&Fresh(words), &AtomicBool::new(false));
            match (what, ran) {
                (None, ran) => assert!(ran.unwrap().ended, "{body}"),
                (Some(what), Err(Error::Found(found))) => {
                    assert_eq!(found.check, Check::Uninitialized, "{body}");
                    assert!(found.what.starts_with(what) && found.what.contains("global memory"), "{found}");
                }
                (_, ran) => panic!("{body}: {ran:?}"),
            }
        }
    }
}

#[test]
fn accesses_outside_of_every_allocation_are_found() {
    let words = Words::of(&[0, 0]);
    for body in [
        "ld.u64 %rd1, [%words+16];",
        "st.global.u32 [%words+-4], 1;",
        "mov.u64 %rd1, 0;\natom.add.u32 %r1, [%rd1], 1;",
        ".local .align 8 .b8 own[16];\nst.local.u64 [own+16], 1;",
        "ld.shared.u32 %r1, [0];",
        "ld.param.u32 %r1, [address+8];",
    ] {
        assert_eq!(found(body, &words).check, Check::Bounds, "{body}");
    }
}

#[test]
fn misaligned_accesses_are_found() {
    let words = Words::of(&[0; 4]);
    for body in [
        "ld.u32 %r1, [%words+2];",
        "mov.u32 %r1, 1;\nst.v2.u32 [%words+4], {%r1, %r1};",
        "red.add.u64 [%words+4], 1;",
    ] {
        assert_eq!(found(body, &words).check, Check::Alignment, "{body}");
    }
}

#[test]
fn a_doorbell_is_rung_by_mmio_alone() {
    let words = Words::with_device(&[0, 0]);
    run(&module("", "st.mmio.relaxed.sys.global.u32 [%words+8], 3;").unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [0, 3]);
    for body in
        ["st.global.u32 [%words+8], 3;", "st.relaxed.sys.u32 [%words+8], 3;", "red.add.u32 [%words+8], 1;"]
    {
        assert_eq!(found(body, &words).check, Check::Doorbell, "{body}");
    }
}

#[test]
fn a_finding_names_both_lines_and_the_thread() {
    let body = ".loc 1 42 7\nst.u32 [%words+64], %r1;";
    let module = module(".file 1 \"/src/kernel.cu\"", body).unwrap();
    let words = Words::of(&[0]);
    let Err(Error::Found(finding)) = run(&module, 1, &words) else { panic!("nothing was found") };
    assert_eq!((finding.source.clone(), finding.thread), (Some(("/src/kernel.cu".to_owned(), 42)), 0));
    let told = finding.to_string();
    for part in [
        "test.ptx:",
        "st.u32 [%words+64], %r1;",
        "from /src/kernel.cu:42",
        "(check Uninitialized, kernel k, block 0, thread 0)",
    ] {
        assert!(told.contains(part), "{part}: {told}");
    }
}

#[test]
fn a_doorbell_gets_four_bytes_that_say_something_new() {
    let halves = "mov.u16 %rs1, 3;\nst.mmio.relaxed.sys.global.u16 [%words+8], %rs1;";
    assert_eq!(found(halves, &Words::with_device(&[0, 0])).check, Check::Doorbell);
    let ring = "st.mmio.relaxed.sys.global.u32 [%words+8], 3;";
    // With another store between, as of a doorbell in memory, the controller may have to be told again.
    let again = module("", &format!("{ring}\nst.u64 [%words], 1;\n{ring}")).unwrap();
    run(&again, 1, &Words::with_device(&[0, 0])).unwrap();
    let twice = found(&format!("{ring}\n{ring}"), &Words::with_device(&[0, 0]));
    assert!(twice.check == Check::Doorbell && twice.what.contains("gets 3 twice"), "{twice}");
}

#[test]
fn reads_of_what_was_never_written_are_found() {
    let words = Words::of(&[1, 2]);
    for body in [
        "st.u64 [%words], %rd5;",
        "ld.u64 %rd1, [%words];\nsetp.eq.u64 %p1, %rd1, 7;\n@%p1 mov.u32 %r5, 3;\nst.u32 [%words], %r5;",
        "ld.u64 %rd1, [%words];\nsetp.eq.u64 %p1, %rd1, 1;\n@%p1 bra $over;\nmov.u64 %rd2, 3;\n$over: add.u64 %rd3, %rd2, 1;",
        "@%p3 bra $over;\n$over: mov.u32 %r1, 0;",
        ".local .align 8 .b8 own[16];\nst.local.u64 [own], 1;\nld.local.u64 %rd1, [own+8];",
        ".local .align 16 .b8 own[32];\nst.local.u64 [own], 1;\nld.local.v2.u64 {%rd1, %rd2}, [own+16];",
    ] {
        assert_eq!(found(body, &words).check, Check::Uninitialized, "{body}");
    }
    let said = found("mov.u32 %r4, %r7;", &words).what;
    assert_eq!(said, "register %r7 is read, and nothing was written there");
    let shared =
        module(".shared .align 8 .b8 room[16];", "st.shared.u32 [room+4], 1;\nld.shared.u32 %r1, [room];")
            .unwrap();
    let Err(Error::Found(finding)) = run(&shared, 1, &words) else { panic!("nothing was found") };
    assert_eq!(finding.check, Check::Uninitialized);
}

#[test]
fn what_was_written_on_the_way_is_not_found() {
    let words = Words::of(&[1, 2]);
    let loops = "mov.u32 %r1, 0;\n$again: setp.eq.u32 %p1, %r1, 0;\n@%p1 mov.u32 %r2, 5;\nst.u32 [%words], %r2;\n\
        add.u32 %r1, %r1, 1;\nsetp.lt.u32 %p2, %r1, 3;\n@%p2 bra $again;\nld.u64 %rd9, [%words+8];\n\
        setp.eq.u64 %p3, %rd9, 2;\n@%p3 bra $set;\nbra.uni $end;\n$set: mov.u64 %rd5, 4;\n$end: st.u64 [%words], %rd5;";
    run(&module("", loops).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [4, 2]);
    // Padding, which is stored with the fields of a struct; alone, or elsewhere, it would be found.
    let own = ".local .align 16 .b8 own[16];\nmov.u64 %rd1, 9;\n";
    let padded = format!(
        "{own}st.local.v2.u64 [own], {{%rd1, %rd7}};\nld.local.u64 %rd2, [own];\nst.u64 [%words], %rd2;"
    );
    run(&module("", &padded).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [9, 2]);
    // The same by the generic address that nvcc keeps of it.
    let generic = format!(
        ".reg .b64 %SP;\n{own}mov.u64 %rd3, own;\ncvta.local.u64 %SP, %rd3;\nst.v2.u64 [%SP], {{%rd1, %rd7}};\n\
         ld.u64 %rd2, [%SP];\nst.u64 [%words], %rd2;"
    );
    run(&module("", &generic).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [9, 2]);
    for alone in ["st.local.u64 [own], %rd7;", "st.v2.u64 [%words], {%rd1, %rd7};"] {
        assert_eq!(found(&format!("{own}{alone}"), &words).check, Check::Uninitialized, "{alone}");
    }
    // A compiler loads padding with what lies beside it.
    let padded = ".local .align 16 .b8 own[16];\nst.local.u64 [own], 1;\nld.local.v2.u64 {%rd1, %rd2}, [own];\n\
        st.u64 [%words], %rd1;";
    run(&module("", padded).unwrap(), 1, &words).unwrap();
    assert_eq!(words.values(), [1, 2]);
    // A frame is new at each call.
    let outside = ".func inside() {\n.reg .b32 %own;\n.reg .pred %is;\nmov.u32 %own, 1;\nsetp.eq.u32 %is, %own, 0;\n@%is trap;\nret;\n}";
    run(&module(outside, "call inside;\ncall inside;").unwrap(), 1, &words).unwrap();
}

#[test]
fn memory_that_is_read_only_for_the_kernel_is_not_written() {
    let words = Words::of(&[1, 2]);
    for body in [
        "st.u64 [%words], 5;\nld.global.nc.u64 %rd1, [%words];",
        "ld.global.nc.u32 %r1, [%words+4];\nred.add.u64 [%words], 1;",
    ] {
        assert_eq!(found(body, &words).check, Check::ReadOnly, "{body}");
    }
    let apart =
        "ld.global.nc.u32 %r1, [%words];\nst.u32 [%words+4], 1;\nld.global.nc.v2.u32 {%r1, %r2}, [%words+8];";
    run(&module("", apart).unwrap(), 1, &words).unwrap();
}

#[test]
fn a_trap_ends_the_run() {
    assert_eq!(found("trap;", &Words::of(&[0])).check, Check::Trap);
}

#[test]
fn a_launch_that_cannot_be_is_refused() {
    let (module, words) = (module("", "").unwrap(), Words::of(&[0]));
    let refused = |launch: Launch<'_>| launch.run(&words, &false.into()).unwrap_err().to_string();
    let one = || Launch::new(&module, "k").arguments(&[0; 8]);
    for (launch, part) in [
        (Launch::new(&module, "other").arguments(&[0; 8]), "test.ptx has no such kernel"),
        (one().arguments(&[0; 4]), "4 bytes of arguments: it has 8"),
        (one().block([2048, 1, 1]), "1 to 1024"),
        (one().grid([0, 1, 1]), "[0, 1, 1] blocks"),
    ] {
        let said = refused(launch);
        assert!(said.contains(part), "{said}");
    }
}

#[test]
fn a_kernel_runs_in_blocks_of_the_size_that_it_requires() {
    let text = |directive: &str| {
        let head = ".version 9.0\n.target sm_90\n.address_size 64";
        Module::load("size.ptx", &format!("{head}\n.visible .entry k()\n{directive}\n{{ ret; }}"))
    };
    let run = |module: &Module, block: [u32; 3]| {
        Launch::new(module, "k").block(block).run(&Words::of(&[0]), &false.into())
    };
    let required = text(".reqntid 8, 4").unwrap();
    assert_eq!(required.required_block("k"), Some([8, 4, 1]));
    assert!(run(&required, [8, 4, 1]).is_ok());
    let said = run(&required, [32, 1, 1]).unwrap_err().to_string();
    assert!(said.contains("[32, 1, 1]") && said.contains("requires [8, 4, 1]"), "{said}");
    let most = text(".maxntid 16, 2\n.minnctapersm 1").unwrap();
    assert!(run(&most, [32, 1, 1]).is_ok());
    assert!(run(&most, [33, 1, 1]).unwrap_err().to_string().contains("1 to 32"));
    for directive in [".explicitcluster", ".reqnctapercluster 2, 1, 1", ".maxclusterrank 4"] {
        let said = text(directive).unwrap_err().to_string();
        assert!(said.starts_with("size.ptx:5:") && said.contains("clusters"), "{said}");
    }
    assert!(text(".nonsense 3").unwrap_err().to_string().contains("directive .nonsense"));
}

#[test]
fn a_run_can_be_stopped() {
    let module = module("", "$for_ever: bra.uni $for_ever;").unwrap();
    let words = Words::of(&[0]);
    let launch = Launch::new(&module, "k").arguments(&words.address(0).to_le_bytes());
    assert!(!launch.run(&words, &true.into()).unwrap().ended);
}

/// Block 0 stores each of these words late, block 1 polls them by turns until one is stored.
fn poll_of(words: &[usize], load: &str, seed: u64) -> Result<warpbell_ptx::Ran, Error> {
    let each = |text: &dyn Fn(usize) -> String| words.iter().map(|word| text(word * 64)).collect::<String>();
    let stores = each(&|at| format!("st.release.gpu.global.u64 [%words+{at}], 1;\n"));
    let loads = each(&|at| format!("{load} %rd2, [%words+{at}];\nor.b64 %rd1, %rd1, %rd2;\n"));
    let body = format!(
        "mov.u32 %r1, %ctaid.x;\nsetp.ne.u32 %p1, %r1, 0;\nmov.u64 %rd1, 0;\n@%p1 bra $poll;\nmov.u32 %r2, 300;\n\
         $late: nanosleep.u32 20;\nsub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p2, %r2, 0;\n@%p2 bra $late;\n\
         {stores}ret;\n$poll: {loads}setp.eq.u64 %p3, %rd1, 0;\n@%p3 bra $poll;"
    );
    let (module, words) = (module("", &body).unwrap(), Words::of(&[0; 32]));
    let launch = Launch::new(&module, "k").grid([2, 1, 1]).block([1, 1, 1]).resident(2);
    launch.arguments(&words.address(0).to_le_bytes()).seed(seed).weak(true).run(&words, &false.into())
}

#[test]
fn a_poll_by_weak_loads_is_found_and_one_by_relaxed_loads_ends() {
    // Of one word, and of several by turns.
    for words in [&[0][..], &[0, 1], &[0, 1, 2, 3]] {
        let mut stale = 0;
        for seed in 0..20 {
            match poll_of(words, "ld.global.u64", seed) {
                Err(Error::Found(finding)) => {
                    let said = finding.check == Check::Stale && finding.what.contains("10000 times");
                    assert!(said, "{finding}");
                    stale += 1;
                }
                other => assert!(other.is_ok_and(|ran| ran.ended), "seed {seed}"),
            }
            let ends = poll_of(words, "ld.relaxed.gpu.global.u64", seed).is_ok_and(|ran| ran.ended);
            assert!(ends, "seed {seed}");
        }
        assert!(stale > 0, "the poll of {words:?} ended for each seed");
    }
}
