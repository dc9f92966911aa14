//! What one command costs on the way from doorbell to completion, on one thread: `cargo test --release -p
//! warpbell-softctl --lib -- --ignored --nocapture cost`. Best of many short runs, so that a busy machine matters little.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use warpbell_hw::{DmaAccess, DmaSource, DmaSpace, SqRing, Window};
use warpbell_nvme::command;

use crate::config::{NamespaceConfig, SoftConfig};
use crate::core::Core;
use crate::queue::{Cq, Sq};

/// Nanoseconds a command in batches of `batch`, over a namespace of `bytes`.
fn cost(bytes: u64, batch: u32, blocks: u16) -> f64 {
    let namespaces = vec![NamespaceConfig::memory(bytes, 512)];
    let core = Core::alone(SoftConfig { namespaces, ..SoftConfig::default() }, false).unwrap();
    let data = vec![1; 256 << 10];
    let namespace = core.subsystem.state().namespaces[&1].namespace.clone();
    (0..bytes).step_by(data.len()).for_each(|at| namespace.write(at, &data).unwrap());
    let [sq, cq, buffer] =
        [128 * 64, 128 * 16, 128 * 512 * usize::from(blocks)].map(|len| Window::host(len).unwrap());
    let base = core.space.map(DmaSource::Memory(&buffer), DmaAccess::READ_WRITE).unwrap().0;
    let (tail_word, head_word) = (core.doorbells.word(2).unwrap(), core.doorbells.word(3).unwrap());
    let ring = SqRing::new(sq.clone(), 128);
    let cell = Arc::new(&core.poll_groups[0]);
    let mut poll_group = cell.lock();
    poll_group.add_cq(Cq::new(1, 128, cq, head_word.clone(), None));
    assert!(poll_group.add_sq(Sq::new(1, 128, sq, tail_word.clone()), 1));
    let (mut tail, mut random, mut best) = (0u32, 1u64, f64::MAX);
    for _ in 0..2000 {
        let mut spent = 0;
        for _ in 0..16 {
            for slot in 0..batch {
                random = random.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                let lba = ((u128::from(random) * u128::from(bytes / 512 - u64::from(blocks))) >> 64) as u64;
                let at = base + u64::from(slot) * 512 * u64::from(blocks);
                let sqe = command::read(1, lba, blocks - 1)
                    .with_sgl(warpbell_nvme::data::SglDescriptor::data_block(at, 512 * u32::from(blocks)));
                ring.write(tail, &sqe.with_cid(slot as u16));
                tail = tail.wrapping_add(1);
            }
            head_word.store_u32(0, (tail - batch) % 128, Ordering::Release);
            tail_word.store_u32(0, tail % 128, Ordering::Release);
            let start = Instant::now();
            while poll_group.pass() {}
            spent += start.elapsed().as_nanos();
        }
        best = best.min(spent as f64 / f64::from(16 * batch));
    }
    best
}

#[test]
#[ignore = "a measurement"]
fn cost_of_a_command() {
    for bytes in [256 << 10, 16 << 20, 1 << 30] {
        for (batch, blocks) in [(1, 1), (8, 1), (32, 1), (96, 1), (32, 8)] {
            let each = cost(bytes, batch, blocks);
            println!("{:5} KiB, {batch:2} at a time, {blocks} blocks: {each:6.1} ns", bytes >> 10);
        }
    }
}
