//! How fast the controller is, seen from a client that does nothing else: one thread drives a queue by hand, one poller
//! serves it. Random reads of 512 bytes over a filled memory namespace.
//!
//! `cargo run --release -p warpbell-softctl --example spin -- [size, for example 1g] [seconds per depth] [client
//! processor] [poller processor] [depths, for example 1,32,128]`

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

#[path = "../tests/client/mod.rs"]
mod client;

use client::{Client, Pair};
use warpbell_hw::DmaBuffer;
use warpbell_nvme::command;
use warpbell_softctl::SoftConfig;

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let argument = |index: usize, default: &str| arguments.get(index).cloned().unwrap_or(default.to_owned());
    let seconds: f64 = argument(1, "1").parse().expect("seconds must be a number");
    let processor =
        |index, default| argument(index, default).parse::<usize>().expect("a processor is a number");
    let (client_cpu, poller_cpu) = (processor(2, "0"), processor(3, "1"));
    pin(client_cpu);
    let settings = format!("size={},pin={poller_cpu}", argument(0, "1g"));
    let config = SoftConfig::parse(&settings).expect("settings");
    let mut client = Client::threaded(config);
    let blocks = fill(&client);
    println!("ping-pong of one cache line: {:.0} ns a round trip", ping_pong(client_cpu, poller_cpu));
    for depth in argument(4, "1,32,128").split(',') {
        let depth: u32 = depth.parse().expect("a depth is a number");
        let mut pair = client.pair(1, (depth + 1).next_power_of_two());
        let (mean, best) = rate(&client, &mut pair, depth, blocks, seconds);
        let (mean, best, each) = (mean / 1e3, best / 1e3, 1e9 / best);
        println!(
            "depth {depth:4}: {mean:7.0} k IOPS; best 2 ms: {best:7.0} k IOPS, {each:5.0} ns between completions"
        );
        client.admin_ok(warpbell_nvme::queue_command::delete_io_sq(1));
        client.admin_ok(warpbell_nvme::queue_command::delete_io_cq(1));
    }
    client.assert_clean();
}

fn pin(cpu: usize) {
    let mut set = rustix::thread::CpuSet::new();
    set.set(cpu);
    if let Err(error) = rustix::thread::sched_setaffinity(None, &set) {
        println!("cannot pin to processor {cpu}: {error}");
    }
}

/// Writes every block once; memory that was never written would all be one page of zeros.
fn fill(client: &Client) -> u64 {
    let data: Vec<u8> = (0..1 << 20).map(|i| i as u8).collect();
    let mut lba = 0;
    while client.device.poke(1, lba, &data).is_ok() {
        lba += (data.len() / 512) as u64;
    }
    lba
}

/// Reads at `depth` for a while. Commands a second: on average, and in the best slice of 2 ms, which on a busy machine
/// is closer to what an idle one does.
fn rate(client: &Client, pair: &mut Pair, depth: u32, blocks: u64, seconds: f64) -> (f64, f64) {
    let buffer =
        DmaBuffer::host(warpbell_hw::Device::dma(&*client.device), depth as usize * 512).expect("buffer");
    let base = buffer.iova().0;
    let mut random = 0x9e37_79b9_7f4a_7c15u64;
    let mut submit = |pair: &mut Pair, slot: u16| {
        random ^= random << 13;
        random ^= random >> 7;
        random ^= random << 17;
        let sqe = command::read(1, ((u128::from(random) * u128::from(blocks)) >> 64) as u64, 0)
            .with_prp(base + u64::from(slot) * 512, 0);
        pair.push(&sqe.with_cid(slot));
    };
    (0..depth as u16).for_each(|slot| submit(pair, slot));
    pair.ring();
    let (mut done, mut idle, start) = (0u64, 0u32, Instant::now());
    let (mut slice, mut before, mut best) = (start, 0, 0.0f64);
    loop {
        let mut reaped = 0;
        while reaped < 32
            && let Some(entry) = pair.cq.poll(pair.head)
        {
            assert!(entry.status().is_ok());
            pair.head += 1;
            reaped += 1;
            submit(pair, entry.cid);
        }
        if reaped == 0 {
            idle += 1;
            if idle % 65536 != 0 {
                continue;
            }
        } else {
            pair.ring();
            pair.cq_doorbell.ring((pair.head % u64::from(pair.entries)) as u32);
        }
        if (done + reaped) / 1024 != done / 1024 || reaped == 0 {
            let now = Instant::now();
            let time = (now - slice).as_secs_f64();
            if time > 2e-3 {
                best = best.max((done - before) as f64 / time);
                (slice, before) = (now, done);
            }
            if (now - start).as_secs_f64() > seconds {
                break;
            }
        }
        done += reaped;
    }
    let mean = done as f64 / start.elapsed().as_secs_f64();
    for _ in 0..depth {
        pair.wait(&client.device);
    }
    (mean, best)
}

/// Nanoseconds for a cache line to go to another processor and back.
fn ping_pong(here: usize, there: usize) -> f64 {
    const ROUNDS: u64 = 200_000;
    let ball = Arc::new(AtomicU64::new(0));
    let other = ball.clone();
    let thread = std::thread::spawn(move || {
        pin(there);
        for round in 0..ROUNDS {
            while other.load(Ordering::Acquire) != 2 * round + 1 {
                std::hint::spin_loop();
            }
            other.store(2 * round + 2, Ordering::Release);
        }
    });
    pin(here);
    let (mut best, mut start) = (u128::MAX, Instant::now());
    for round in 0..ROUNDS {
        if round % 1000 == 0 {
            let time = start.elapsed().as_nanos();
            best = if round == 0 { best } else { best.min(time) };
            start = Instant::now();
        }
        ball.store(2 * round + 1, Ordering::Release);
        while ball.load(Ordering::Acquire) != 2 * round + 2 {
            std::hint::spin_loop();
        }
    }
    drop(thread.join());
    best as f64 / 1000.0
}
