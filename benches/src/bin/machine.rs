//! What this machine can do at best, to judge Warpbell's figures by: how fast two pinned threads hand a word to and fro,
//! and how fast one of them copies memory. Best of three. Arguments: the two cores, `0 1` unless given.
//! `scripts/bench-speed` runs it.

use std::hint::spin_loop;
use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use core_affinity::CoreId;
use crossbeam::utils::CachePadded;
use warpbell_workload::calibrate::copy_time;

const ROUNDS: u64 = 1_000_000;
const COPY_BYTES: usize = 64 << 20;
const COPIES: u32 = 16;

fn main() -> io::Result<()> {
    let mut named = std::env::args().skip(1).map_while(|text| text.parse().ok());
    let (first, second) = (named.next().unwrap_or(0), named.next().unwrap_or(1));
    let cores = core_affinity::get_core_ids().unwrap_or_default();
    let core = |id| cores.iter().copied().find(|core| core.id == id);
    match (core(first), core(second)) {
        (Some(first), Some(second)) if first.id != second.id => print_ping_pong(first, second)?,
        _ => {
            let mut out = io::stdout();
            writeln!(out, "ping-pong: not measured: it takes two cores, and {first} and {second} are not")?;
        }
    }
    if let Some(first) = core(first) {
        core_affinity::set_for_current(first);
    }
    print_copy()
}

fn print_ping_pong(first: CoreId, second: CoreId) -> io::Result<()> {
    let time = best_of_three(|| ping_pong(first, second));
    let (rate, round_ns) = (ROUNDS as f64 / time.as_secs_f64(), time.as_nanos() as f64 / ROUNDS as f64);
    let mut out = io::stdout();
    writeln!(out, "ping-pong: {:.2} M round trips/s ({round_ns:.0} ns each), two pinned threads", rate / 1e6)
}

fn print_copy() -> io::Result<()> {
    let time = best_of_three(|| copy_time(COPY_BYTES, COPIES));
    let rate = f64::from(COPIES) * COPY_BYTES as f64 / time.as_secs_f64();
    let (gb, gib) = (rate / 1e9, rate / f64::from(1u32 << 30));
    writeln!(
        io::stdout(),
        "memcpy: {gb:.1} GB/s ({gib:.1} GiB/s) copied, one pinned thread, {} MiB blocks",
        COPY_BYTES >> 20
    )
}

fn best_of_three(mut measure: impl FnMut() -> Duration) -> Duration {
    let times = [measure(), measure(), measure()];
    times.into_iter().min().unwrap_or_default()
}

/// One thread counts up in `ping`, the other answers in `pong`: two cache lines, one writer each, as for a
/// doorbell and a completion.
fn ping_pong(first: CoreId, second: CoreId) -> Duration {
    let (ping, pong) = (CachePadded::new(AtomicU64::new(0)), CachePadded::new(AtomicU64::new(0)));
    std::thread::scope(|scope| {
        scope.spawn(|| {
            core_affinity::set_for_current(second);
            for round in 1..=ROUNDS {
                await_value(&ping, round);
                pong.store(round, Ordering::Release);
            }
        });
        core_affinity::set_for_current(first);
        let begin = Instant::now();
        for round in 1..=ROUNDS {
            ping.store(round, Ordering::Release);
            await_value(&pong, round);
        }
        begin.elapsed()
    })
}

fn await_value(word: &AtomicU64, value: u64) {
    while word.load(Ordering::Acquire) != value {
        spin_loop();
    }
}
