//! A thread of the host plays a device, whose time no seed chooses: what it finds missing is held back for long enough.

use std::sync::atomic::{AtomicBool, Ordering, fence};

use warpbell_ptx::Launch;

use crate::{Words, module};

/// Rounds of a kernel.
const ROUNDS: usize = 20;
/// Where its shadow, the device's event, and what the kernel loaded lie, in words.
const SHADOW: usize = 0;
const EVENT: usize = 8;
const LOADED: usize = 16;

/// Doorbells in memory with an event index (NVMe Base 2.0, annex B.5), in short: the kernel stores the number of the round in
/// the shadow, and loads the event; the device stores the next number in the event, and loads the shadow. Between rounds the
/// kernel waits until the device has done so three times, but not for ever. Whether in any round neither saw the other's store.
fn both_miss(between: &str, seed: u64) -> bool {
    let body = format!(
        "mov.u32 %r1, 1;\nadd.u64 %rd4, %words, {};\n$round: cvt.u64.u32 %rd1, %r1;\nst.relaxed.sys.u64 [%words], %rd1;\n\
         {between}\nld.relaxed.sys.u64 %rd2, [%words+{}];\nst.u64 [%rd4], %rd2;\nadd.u64 %rd4, %rd4, 8;\nmov.u32 %r2, 20000;\n\
         add.u64 %rd5, %rd2, 3;\n$pause: ld.relaxed.sys.u64 %rd3, [%words+{}];\nsetp.ge.u64 %p1, %rd3, %rd5;\n\
         @%p1 bra $paused;\nsub.u32 %r2, %r2, 1;\nsetp.ne.u32 %p1, %r2, 0;\n@%p1 bra $pause;\n$paused:\n\
         add.u32 %r1, %r1, 1;\nsetp.le.u32 %p1, %r1, {ROUNDS};\n@%p1 bra $round;",
        LOADED * 8,
        EVENT * 8,
        EVENT * 8,
    );
    let (module, words) = (module("", &body).unwrap(), Words::of(&[0; LOADED + ROUNDS]));
    let launch = Launch::new(&module, "k").arguments(&words.address(0).to_le_bytes()).seed(seed).weak(true);
    let ended = AtomicBool::new(false);
    // Of each event what the device saw in the shadow behind it.
    let seen = std::thread::scope(|scope| {
        let device = scope.spawn(|| {
            let mut seen = vec![0];
            while !ended.load(Ordering::Relaxed) {
                words.word(EVENT).store(seen.len() as u64, Ordering::Relaxed);
                fence(Ordering::SeqCst);
                seen.push(words.word(SHADOW).load(Ordering::Relaxed));
                std::thread::yield_now();
            }
            seen
        });
        let ran = launch.run(&words, &false.into());
        ended.store(true, Ordering::Relaxed);
        assert!(ran.unwrap().ended);
        device.join().unwrap()
    });
    let loaded = &words.values()[LOADED..];
    // The first event that the kernel's load did not see.
    let missed =
        |(round, event): (usize, &u64)| seen.get(*event as usize + 1).is_some_and(|at| *at <= round as u64);
    loaded.iter().enumerate().any(missed)
}

#[test]
fn a_device_finds_the_store_missing_that_no_fence_keeps_before_a_load() {
    for seed in 0..5 {
        for fence in ["", "fence.acq_rel.sys;", "fence.sc.gpu;", "fence.sc.cta;"] {
            assert!(both_miss(fence, seed), "seed {seed}: one always saw the other, with '{fence}' between");
        }
        assert!(!both_miss("fence.sc.sys;", seed), "seed {seed}: neither saw the other");
    }
}
