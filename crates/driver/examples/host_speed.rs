//! How fast the host's queue and the soft controller are together, on two cores.
//!
//! `cargo run --release -p warpbell-driver --example host_speed [-- soft device options]` reads single blocks at random
//! with 1, 32 and 128 commands outstanding and prints the best of three runs of a second each. The client runs
//! on core 0, the controller's poller on core 1; both spin, so other work on these cores shows at once.

use std::time::{Duration, Instant};

use warpbell_driver::{Controller, ControllerOptions, DriverError, IoQueue, IoQueueOptions, QueueSpec};
use warpbell_hw::DmaBuffer;
use warpbell_nvme::command::{self, Sqe};
use warpbell_softctl::{SoftConfig, SoftDevice};

const RUNS: usize = 3;
const RUN: Duration = Duration::from_secs(1);
/// Completions between two looks at the clock.
const LOOK: u64 = 1 << 14;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let options = std::env::args().nth(1).unwrap_or_else(|| "size=64m".to_owned());
    let config = SoftConfig { pin: Some(vec![1]), ..SoftConfig::parse(&options)? };
    let device = SoftDevice::threaded(config)?;
    core_affinity::set_for_current(core_affinity::CoreId { id: 0 });
    let controller = Controller::open(device.clone(), ControllerOptions::default())?;
    println!("{:>7} {:>8} {:>10} {:>9} {:>9}", "iodepth", "entries", "M IOPS", "SQ db/io", "CQ db/io");
    for depth in [1u32, 32, 128] {
        let pair = controller.create_queue_pair(QueueSpec::new((depth + 1).next_power_of_two()))?;
        let mut queue = IoQueue::new(pair, IoQueueOptions::default())?;
        let best = measure(&controller, &mut queue, depth)?;
        let (counters, entries) = (queue.counters(), queue.depth() + 1);
        let per_io = |count: u64| count as f64 / counters.sqes as f64;
        let (sq, cq) = (per_io(counters.sq_doorbells), per_io(counters.cq_doorbells));
        println!("{depth:>7} {entries:>8} {:>10.3} {sq:>9.4} {cq:>9.4}", best / 1e6);
        controller.delete_queue_pair(queue.into_pair())?;
    }
    controller.shutdown()?;
    let violations = device.violations();
    if violations.is_empty() { Ok(()) } else { Err(format!("{violations:?}").into()) }
}

/// The best rate, in commands per second.
fn measure(
    controller: &Controller,
    queue: &mut IoQueue,
    depth: u32,
) -> Result<f64, Box<dyn std::error::Error>> {
    let block = controller.namespaces()[0].block_size;
    let memory = DmaBuffer::host(controller.device().dma(), depth as usize * block as usize)?;
    let mut reads = Reads { controller, memory, random: 0x9e37_79b9_7f4a_7c15 };
    let mut best = 0.0f64;
    for _ in 0..RUNS {
        best = best.max(run(queue, depth, &mut reads)?);
    }
    Ok(best)
}

/// Makes random reads of one block.
struct Reads<'a> {
    controller: &'a Controller,
    memory: DmaBuffer,
    random: u64,
}

impl Reads<'_> {
    #[inline]
    fn next(&mut self, slot: u16) -> Sqe {
        // xorshift64, spread over the namespace without a division.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let namespace = &self.controller.namespaces()[0];
        let lba = (u128::from(self.random) * u128::from(namespace.blocks)) >> 64;
        let address = self.memory.iova().0 + u64::from(slot) * u64::from(namespace.block_size);
        command::read(namespace.nsid.0, lba as u64, 0).with_prp(address, 0)
    }
}

fn run(queue: &mut IoQueue, depth: u32, reads: &mut Reads<'_>) -> Result<f64, DriverError> {
    let (start, mut done, mut next_look) = (Instant::now(), 0u64, LOOK);
    for _ in 0..depth {
        queue.push_with(|token| reads.next(token.slot));
    }
    queue.ring();
    while done < next_look || start.elapsed() < RUN {
        next_look = if done < next_look { next_look } else { done + LOOK };
        let before = done;
        while let Some(completion) = queue.pop() {
            assert!(completion.is_ok(), "{completion:?}");
            done += 1;
            queue.push_with(|token| reads.next(token.slot));
        }
        queue.ring();
        if done == before {
            std::hint::spin_loop();
        }
    }
    while queue.outstanding() > 0 {
        done += u64::from(queue.pop().is_some());
    }
    Ok(done as f64 / start.elapsed().as_secs_f64())
}
