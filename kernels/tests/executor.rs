// UNSAFETY: these tests launch kernels of their own, over memory of their own.
#![expect(unsafe_code, reason = "launches over memory that the tests hold")]
//! Kernels on the CPU target, through the Rust interface. Tier S.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use warpbell_kernels::cpu::{
    Access, AccessCosts, Counters, Hooks, Idle, Launch, Module, State, Threads, resident_limit, run_stepped,
    run_threads, spawn_threads,
};
use warpbell_kernels::toolchain::Variant;
use warpbell_kernels::{Error, abi};

/// Kernels that need no controller. Arguments: addresses of words that they write.
const KERNELS: &str = r#"
#include <warpbell/warpbell.cuh>
using namespace warpbell;

struct toy_args { uint64_t words; uint64_t doorbell; };

// Every lane adds its number, many times, and so meets the others.
WARPBELL_KERNEL(add, toy_args) {
    auto* words = reinterpret_cast<port::u32*>(args.words);
    for (int i = 0; i < 100; ++i) { port::add_relaxed_gpu(words, port::lane()); port::sync(~0u); }
}
// The order in which lanes got here.
WARPBELL_KERNEL(order, toy_args) {
    auto* words = reinterpret_cast<port::u32*>(args.words);
    for (;;) {
        const port::u32 place = port::load_relaxed_sys(words);
        if (port::cas_relaxed_sys(words, place, place + 1) == place) { words[1 + place] = port::lane(); return; }
    }
}
// Nothing at all.
WARPBELL_KERNEL(nothing, toy_args) { (void)args; }
// Every thread counts.
WARPBELL_KERNEL(count, toy_args) { port::add_relaxed_gpu(reinterpret_cast<port::u32*>(args.words), 1u); }
// Blocks wait for each other.
WARPBELL_KERNEL(gather, toy_args) {
    auto* words = reinterpret_cast<port::u32*>(args.words);
    if (port::thread_index() == 0) { port::add_relaxed_gpu(words, 1u); }
    while (port::load_relaxed_sys(words) < port::grid_blocks()) { port::pause(); }
}
// Half of the warp waits for lanes that wait for something else.
WARPBELL_KERNEL(stuck, toy_args) {
    if (port::lane() < 16) { port::sync(~0u); } else { port::ballot(~0u, true); }
}
// A mask without the lane itself.
WARPBELL_KERNEL(wrong, toy_args) { port::sync(1u << ((port::lane() + 1) & 31u)); }
// Polls until the host writes.
WARPBELL_KERNEL(wait, toy_args) {
    auto* words = reinterpret_cast<port::u32*>(args.words);
    while (port::load_relaxed_sys(words) == 0) { port::pause(); }
    if (port::lane() == 0) { words[1] = 7; }
}
// The third warp of a block polls until the host writes; the others wait for it in the block's barrier.
WARPBELL_KERNEL(meet, toy_args) {
    auto* words = reinterpret_cast<port::u32*>(args.words);
    while (port::thread_index() >= 64 && port::load_relaxed_sys(words) == 0) { port::pause(); }
    port::sync_block();
    if (port::thread_index() == 0) { words[1] = 7; }
}
// A word in the block's memory and, after a fence, one of everybody's.
WARPBELL_KERNEL(keep, toy_args) {
    if (port::lane() == 0) {
        port::store_relaxed_any(static_cast<port::u32*>(port::block_memory()), 5);
        port::fence_block();
        port::store_relaxed_gpu(reinterpret_cast<port::u32*>(args.words), 6);
    }
}
// One doorbell with the time in it.
WARPBELL_KERNEL(ring, toy_args) {
    if (port::lane() == 0) {
        const port::u64 now = port::clock_ns();
        port::store_sq_doorbell(reinterpret_cast<port::u32*>(args.doorbell), static_cast<port::u32>(now));
    }
}
"#;

fn toys() -> Module {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    let variant = Variant::text("toys.cu", KERNELS).cache(&cache).quick();
    // SAFETY: the kernels above.
    unsafe { variant.load() }.unwrap()
}

/// Words that kernels write.
struct Words(Vec<AtomicU64>);

impl Words {
    fn new(words: usize) -> Words {
        Words((0..words.div_ceil(2)).map(|_| AtomicU64::new(0)).collect())
    }

    fn get(&self, index: usize) -> u32 {
        (self.0[index / 2].load(Ordering::Acquire) >> (32 * (index % 2))) as u32
    }

    fn launch(&self, module: &Module, kernel: &str) -> Launch {
        let address = self.0.as_ptr() as u64;
        let args: Vec<u8> = [address, address].iter().flat_map(|word| word.to_ne_bytes()).collect();
        // SAFETY: the kernels write to these words alone, which outlive them in each test.
        unsafe { Launch::with_bytes(module, kernel, &args) }.unwrap()
    }
}

fn to_the_end(launch: &Launch) -> Result<Counters, Error> {
    run_stepped(launch, 64, |_| ControlFlow::Continue(()))
}

#[test]
fn a_kernel_runs_to_its_end_and_is_counted() {
    let words = Words::new(2);
    let counters = to_the_end(&words.launch(&toys(), "add").grid(2).block(64)).unwrap();
    assert_eq!(words.get(0), 4 * 100 * (31 * 32 / 2));
    assert_eq!(counters.rmw, 4 * 32 * 100);
    assert_eq!(counters.collectives, 4 * 100);
    assert_eq!((counters.sqes, counters.doorbells), (0, 0));
}

#[test]
fn threads_share_the_blocks() {
    let words = Words::new(2);
    let threads = Threads::new().workers(2);
    let report = run_threads(&words.launch(&toys(), "add").grid(5).block(32), &threads).unwrap();
    assert_eq!(words.get(0), 5 * 100 * (31 * 32 / 2));
    assert_eq!(report.threads.len(), 2);
    assert_eq!(report.threads.iter().map(|thread| thread.counters.rmw).sum::<u64>(), report.counters.rmw);
    assert!(report.cpu_time() > std::time::Duration::ZERO);
}

#[test]
fn blocks_that_need_not_meet_take_turns_and_little_memory() {
    let words = Words::new(2);
    let launch = words.launch(&toys(), "nothing").grid(30_000);
    // A first run loads what any run takes.
    to_the_end(&launch.clone().grid(1)).unwrap();
    let before = resident_bytes();
    let mut worker = launch.worker().unwrap();
    let mut most = 0;
    while !worker.finished().unwrap() {
        worker.step(4096);
        most = most.max(resident_bytes());
    }
    assert_eq!(words.get(0), 0);
    let grown = most.saturating_sub(before);
    assert!(grown < 64 << 20, "30,000 empty blocks take {} MiB", grown >> 20);
    // All of them, by many lanes each, on two threads.
    let words = Words::new(2);
    let threads = Threads::new().workers(2);
    run_threads(&words.launch(&toys(), "count").grid(3_000).block(128), &threads).unwrap();
    assert_eq!(words.get(0), 3_000 * 128);
}

/// Bytes of memory that this process has now.
fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * rustix::param::page_size() as u64
}

#[test]
fn blocks_that_are_to_meet_have_a_limit_which_is_named_before_they_start() {
    let words = Words::new(2);
    let met = words.launch(&toys(), "gather").cooperative(true);
    run_threads(&met.clone().grid(200).block(64), &Threads::new().workers(3)).unwrap();
    assert_eq!(words.get(0), 200);
    let most = resident_limit(32);
    assert_eq!((most, resident_limit(1), resident_limit(33), resident_limit(1024)), (8448, 8448, 4224, 264));
    let refused = |launch: &Launch, workers| {
        let threads = Threads::new().workers(workers);
        let error = spawn_threads(launch, &threads).map(drop).unwrap_err();
        assert!(matches!(error, Error::TooManyBlocks { .. }), "{error}");
        error.to_string()
    };
    let said = "kernel gather: 8449 blocks of 32 threads at the same time: at most 8448 on target cpu";
    assert_eq!(refused(&met.clone().grid(most + 1), 2), said);
    assert_eq!(met.clone().grid(most + 1).worker().map(drop).unwrap_err().to_string(), said);
    assert!(refused(&met.clone().grid(9).resident_blocks(4), 2).ends_with("at most 8 on target cpu"));
    // Blocks that have been given less room do without those that wait.
    let words = Words::new(2);
    let mut alone = words.launch(&toys(), "gather").grid(9).resident_blocks(8).worker().unwrap();
    for _ in 0..3 {
        assert_eq!(*alone.step(1 << 16), State::Idle);
    }
    assert_eq!(words.get(0), 8);
}

#[test]
fn a_seed_decides_the_order() {
    let module = toys();
    let order = |seed| {
        let words = Words::new(34);
        let counters = to_the_end(&words.launch(&module, "order").seed(seed).preempt_one_in(4)).unwrap();
        ((1..33).map(|index| words.get(index)).collect::<Vec<_>>(), counters)
    };
    assert_eq!(order(0).0, (0..32).collect::<Vec<_>>());
    let orders: Vec<_> = (1..9).map(order).collect();
    assert_eq!(orders, (1..9).map(order).collect::<Vec<_>>());
    assert!(orders.windows(2).any(|pair| pair[0].0 != pair[1].0));
}

#[test]
fn a_deadlock_is_reported_with_its_lanes() {
    let words = Words::new(2);
    let error = to_the_end(&words.launch(&toys(), "stuck")).unwrap_err();
    assert!(matches!(error, Error::Deadlock { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("kernel stuck: deadlock") && text.contains("ffffffff"), "{text}");
}

#[test]
fn misuse_is_reported() {
    let words = Words::new(2);
    let launch = words.launch(&toys(), "wrong");
    assert!(matches!(to_the_end(&launch), Err(Error::Fault { .. })));
    let threads = run_threads(&launch.grid(4), &Threads::new().workers(2));
    assert!(matches!(threads, Err(Error::Fault { .. })));
}

#[test]
fn a_final_state_stays() {
    let words = Words::new(2);
    let mut worker = words.launch(&toys(), "wrong").worker().unwrap();
    while !worker.step(1).is_final() {}
    let fault = worker.state().clone();
    assert!(matches!(fault, State::Fault(_)));
    assert_eq!(*worker.step(1), fault);
}

#[test]
fn a_kernel_that_only_polls_is_idle_and_can_be_dropped() {
    let words = Words::new(2);
    let launch = words.launch(&toys(), "wait");
    let mut worker = launch.worker().unwrap();
    for _ in 0..3 {
        assert_eq!(*worker.step(1 << 16), State::Idle);
    }
    drop(worker);
    let stopped = run_stepped(&launch, 16, |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(Error::Stopped { .. })));
    let running = spawn_threads(&launch, &Threads::new().idle(Idle::Spin)).unwrap();
    words.0[0].store(1, Ordering::Release);
    assert!(running.join().unwrap().counters.polls == 0);
    assert_eq!(words.get(1), 7);
}

#[test]
fn a_block_is_idle_whose_other_warps_wait_in_its_barrier() {
    let words = Words::new(2);
    let launch = words.launch(&toys(), "meet").block(96);
    let mut worker = launch.worker().unwrap();
    for _ in 0..3 {
        assert_eq!(*worker.step(1 << 16), State::Idle);
    }
    words.0[0].store(1, Ordering::Release);
    while !worker.finished().unwrap() {
        worker.step(1 << 16);
    }
    assert_eq!(words.get(1), 7);
}

#[test]
fn a_run_can_be_cancelled() {
    let words = Words::new(2);
    let running = spawn_threads(&words.launch(&toys(), "wait"), &Threads::default()).unwrap();
    assert!(!running.is_finished());
    running.cancel();
    assert!(matches!(running.join(), Err(Error::Stopped { .. })));
}

#[test]
fn hooks_see_doorbells_clock_and_memory() {
    let (rung, seen) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let words = Words::new(2);
    let hooks = Hooks::new().clock(|| 42);
    let hooks = hooks.doorbell({
        let rung = Arc::clone(&rung);
        move |_, value| rung.store(u64::from(value), Ordering::Relaxed)
    });
    let hooks = hooks.memory({
        let seen = Arc::clone(&seen);
        move |event| {
            if event.access == Access::Doorbell {
                seen.store(event.address, Ordering::Relaxed);
            }
        }
    });
    let counters = to_the_end(&words.launch(&toys(), "ring").hooks(hooks)).unwrap();
    assert_eq!(counters.sq_doorbells, 1);
    assert_eq!(rung.load(Ordering::Relaxed), 42);
    assert_eq!(seen.load(Ordering::Relaxed), words.0.as_ptr() as u64);
    assert_eq!(words.get(0), 0, "a hooked doorbell is no store");
}

#[test]
fn shared_memory_is_told_of_where_that_is_asked_for() {
    let seen_by = |observe: bool| {
        let seen = Arc::new(Mutex::new(Vec::new()));
        let hooks = Hooks::new().memory({
            let seen = Arc::clone(&seen);
            move |event| seen.lock().unwrap().push((event.access, event.address))
        });
        let words = Words::new(2);
        let launch = words.launch(&toys(), "keep").shared_bytes(128).observe_shared(observe);
        to_the_end(&launch.hooks(hooks)).unwrap();
        let elsewhere = (Access::Store, words.0.as_ptr() as u64);
        let seen = std::mem::take(&mut *seen.lock().unwrap());
        assert_eq!(seen.last(), Some(&elsewhere), "{observe}");
        seen.into_iter().map(|(access, _)| access).collect::<Vec<_>>()
    };
    assert_eq!(seen_by(false), [Access::Fence, Access::Store]);
    assert_eq!(seen_by(true), [Access::Store, Access::Fence, Access::Store]);
}

struct Sink(AtomicU64);

impl warpbell_hw::DoorbellSink for Sink {
    fn ring(&self, offset: usize, value: u32) {
        self.0.store((offset as u64) << 32 | u64::from(value), Ordering::Relaxed);
    }
}

#[test]
fn a_sink_takes_its_own_doorbells_only() {
    let words = Words::new(2);
    let base = words.0.as_ptr() as u64;
    let ring = |base: u64| {
        let sink = Arc::new(Sink(AtomicU64::new(0)));
        let hooks = Hooks::new().clock(|| 9).doorbell_sink(base, 4096, Arc::clone(&sink) as _);
        to_the_end(&words.launch(&toys(), "ring").hooks(hooks)).unwrap();
        sink.0.load(Ordering::Relaxed)
    };
    assert_eq!(ring(base - 8), 8 << 32 | 9);
    assert_eq!(words.get(0), 0);
    assert_eq!(ring(base + 8), 0);
    assert_eq!(words.get(0), 9);
}

/// What a lane that polls a word has cost once it found what somebody wrote at 5,000 ns: how late it is, and how often it
/// slept.
fn poll_with_costs(of_host: bool) -> (u64, u64) {
    let words = Arc::new(Words::new(2));
    let address = words.0.as_ptr() as u64;
    let host = if of_host { address..address + 8 } else { 0..0 };
    let (now, sleeps) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let (clock, passed, slept, written) = (now.clone(), now.clone(), sleeps.clone(), words.clone());
    let pass = move |until| {
        passed.store(until, Ordering::Relaxed);
        slept.fetch_add(1, Ordering::Relaxed);
        written.0[0].fetch_or(u64::from(until >= 5000), Ordering::Relaxed);
        until
    };
    let launch = words.launch(&toys(), "wait").block(1);
    let launch = launch.hooks(Hooks::new().clock(move || clock.load(Ordering::Relaxed)));
    to_the_end(&launch.client(AccessCosts::H200, vec![host], pass)).unwrap();
    assert_eq!(words.get(1), 7);
    (now.load(Ordering::Relaxed), sleeps.load(Ordering::Relaxed))
}

#[test]
fn a_poll_of_host_memory_takes_longer_than_one_of_the_gpus() {
    let costs = AccessCosts::H200;
    for (of_host, latency) in [(true, costs.load_host), (false, costs.load_gpu)] {
        let (end, sleeps) = poll_with_costs(of_host);
        let round = u64::from(costs.instructions + latency) + 20; // the pause
        let polls = (5000 + 20u64).div_ceil(round);
        assert_eq!(end, polls * round - 20);
        assert_eq!(sleeps, 2 * polls - 1, "a look and a pause each, and no pause after the last");
        assert_eq!(poll_with_costs(of_host), (end, sleeps), "virtual time repeats");
    }
}

#[test]
#[should_panic(expected = "the hook's own words")]
fn a_panic_in_a_hook_surfaces_where_the_worker_is_stepped() {
    let words = Words::new(2);
    let hooks = Hooks::new().doorbell(|_, _| panic!("the hook's own words"));
    let _ = to_the_end(&words.launch(&toys(), "ring").hooks(hooks));
}

#[test]
fn bad_launches_are_refused_with_the_numbers() {
    let module = Module::builtin().unwrap();
    // SAFETY: nothing runs.
    let launch = |kernel, args: &abi::QueueTestArgs| unsafe { Launch::new(&module, kernel, args) };
    let error = launch("bench", &abi::QueueTestArgs::new()).unwrap_err().to_string();
    let (found, expected) = (size_of::<abi::QueueTestArgs>(), size_of::<abi::BenchArgs>());
    assert_eq!(error, format!("kernel bench: arguments of {found} bytes, but it takes {expected}"));
    let error = launch("bunch", &abi::QueueTestArgs::new()).unwrap_err().to_string();
    assert!(
        error.starts_with("kernel 'bunch': module builtin has bench, bench_agent, bench_array_check, "),
        "{error}"
    );
    // SAFETY: nothing runs.
    let launch = unsafe { Launch::new(&module, "bench", &abi::BenchArgs::new()) };
    let error = launch.unwrap().block(1025).worker().err().unwrap().to_string();
    assert!(error.contains("1024"), "{error}");
}
