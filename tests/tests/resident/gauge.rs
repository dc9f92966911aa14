//! Kernel `gauge`: figures that others are judged by.

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warpbell_hw::Window;
use warpbell_kernels::abi::{self, GaugeArgs, GaugeResult, Mailbox};
use warpbell_kernels::cpu::{Launch, Module, Threads, spawn_threads};
use warpbell_sim::cpu_launch;
use zerocopy::IntoBytes;

/// Word and answer, each on a line of its own; the mailbox; results.
struct Gauge {
    memory: Window,
}

const ANSWER: usize = 128;
const MAILBOX: usize = 256;
const RESULTS: usize = 512;

impl Gauge {
    fn new() -> Gauge {
        let memory = Window::host(4096).unwrap();
        memory.write(MAILBOX, Mailbox::new().as_bytes()).unwrap();
        Gauge { memory }
    }

    fn launch(&self, mode: u32, rounds: u64, grid: u32) -> Launch {
        let base = self.memory.as_ptr() as u64;
        let args = GaugeArgs {
            word: base,
            answer: base + ANSWER as u64,
            results: base + RESULTS as u64,
            mailbox: base + MAILBOX as u64,
            rounds,
            mode,
            ..GaugeArgs::new()
        };
        cpu_launch(&Module::builtin().unwrap(), "gauge", &args).unwrap().grid(grid)
    }

    fn run(&self, mode: u32, rounds: u64, grid: u32) -> Vec<GaugeResult> {
        let running = spawn_threads(&self.launch(mode, rounds, grid), &Threads::default()).unwrap();
        running.join().unwrap();
        self.results(grid)
    }

    fn results(&self, warps: u32) -> Vec<GaugeResult> {
        let one = |warp: u32| {
            let mut result = GaugeResult::new();
            let at = RESULTS + warp as usize * size_of::<GaugeResult>();
            self.memory.read(at, result.as_mut_bytes()).unwrap();
            result
        };
        (0..warps).map(one).collect()
    }
}

#[test]
fn each_warp_does_its_rounds() {
    for mode in [abi::GAUGE_PAUSE, abi::GAUGE_CLOCK, abi::GAUGE_LOAD] {
        for result in Gauge::new().run(mode, 1000, 2) {
            assert_eq!((result.rounds, result.retries), (1000, 0));
            assert!(result.end_ns > result.start_ns);
        }
    }
}

#[test]
fn the_word_moves_by_one_for_each_exchange() {
    let gauge = Gauge::new();
    let results = gauge.run(abi::GAUGE_CAS, 500, 4);
    assert!(results.iter().all(|result| result.rounds == 500));
    assert_eq!(gauge.memory.load_u64(0, Ordering::Acquire), 2000);
}

#[test]
fn two_blocks_play_ping_pong() {
    let gauge = Gauge::new();
    let results = gauge.run(abi::GAUGE_BOTH, 200, 2);
    assert!(results.iter().all(|result| result.rounds == 200));
    assert_eq!(gauge.memory.load_u32(0, Ordering::Acquire), 200);
    assert_eq!(gauge.memory.load_u32(ANSWER, Ordering::Acquire), 200);
}

#[test]
fn a_kernel_and_the_host_play_ping_pong() {
    let gauge = Gauge::new();
    let running = spawn_threads(&gauge.launch(abi::GAUGE_PING, 50, 1), &Threads::default()).unwrap();
    let begin = Instant::now();
    for round in 1..=50 {
        while gauge.memory.load_u32(0, Ordering::Acquire) != round {
            assert!(begin.elapsed() < Duration::from_secs(60), "round {round} does not come");
            std::thread::yield_now();
        }
        gauge.memory.store_u32(ANSWER, round, Ordering::Release);
    }
    running.join().unwrap();
    assert_eq!(gauge.results(1)[0].rounds, 50);
}

#[test]
fn a_wait_ends_when_asked_to() {
    let gauge = Gauge::new();
    let running = spawn_threads(&gauge.launch(abi::GAUGE_PONG, 5, 1), &Threads::default()).unwrap();
    let stop = MAILBOX + std::mem::offset_of!(Mailbox, stop);
    gauge.memory.store_u32(stop, 1, Ordering::Release);
    running.join().unwrap();
    assert_eq!(gauge.results(1)[0].rounds, 0);
}
