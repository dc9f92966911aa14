//! Queues of the host beside those of kernels.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;

use warpbell::{HostQueue, Ssd, Target};
use warpbell_driver::IoQueueOptions;
use warpbell_hw::Nsid;
use warpbell_nvme::command;
use warpbell_workload::{Access, Api, BenchOptions, ByteSize, Control, Verify, bench, resolve};

/// A block is written and read back over each queue.
fn used(queues: &mut [HostQueue], block: u32) {
    for (index, queue) in (1u8..).zip(queues.iter_mut()) {
        let (at, lba) = (queue.buffer().as_ref().iova, 512 + u64::from(index));
        let window = queue.buffer().window().expect("host memory").clone();
        window.fill(0, block as usize, index).expect("fills");
        assert!(queue.execute(&command::write(1, lba, 0).with_prp(at, 0)).expect("a write").is_ok());
        window.fill(0, block as usize, 0).expect("fills");
        assert!(queue.execute(&command::read(1, lba, 0).with_prp(at, 0)).expect("a read").is_ok());
        assert_eq!(window.to_vec(0, block as usize).expect("reads"), vec![index; block as usize]);
    }
}

/// Verified I/O to bytes that the host leaves alone.
fn eight_of_kernels() -> BenchOptions {
    BenchOptions {
        rw: Access::RandRw,
        rwmixread: Some(50),
        bs: ByteSize(4096),
        iodepth: 64,
        queues: 8,
        api: Api::Raw,
        io_limit: Some(ByteSize(4 << 20)),
        size: Some(ByteSize(8 << 20)),
        offset: ByteSize(8 << 20),
        verify: Some(Verify::Crc32c),
        nsid: Nsid(1),
        threads: Some(1),
        ..BenchOptions::default()
    }
}

/// Eight queues of the host, each with a buffer, and eight of kernels work at the same time. It writes to the first 16 MiB.
pub fn host_queues_and_those_of_kernels(ssd: &Arc<Ssd>) {
    let block = ssd.namespaces()[0].block_size;
    let queue = || {
        let buffer = ssd.buffer(256 << 10).expect("a buffer");
        ssd.host_queue(128, IoQueueOptions::default(), buffer).expect("a host queue")
    };
    let mut queues: Vec<HostQueue> = (0..8).map(|_| queue()).collect();
    used(&mut queues, block);
    let job = resolve(ssd, &eight_of_kernels()).expect("a job");
    let (ended, rounds) = (AtomicBool::new(false), AtomicUsize::new(0));
    let run = thread::scope(|scope| {
        scope.spawn(|| {
            while !ended.load(Ordering::Acquire) {
                used(&mut queues, block);
                rounds.fetch_add(1, Ordering::Relaxed);
            }
        });
        let run = bench(ssd, Target::Cpu, &job, &Control::new());
        ended.store(true, Ordering::Release);
        run.expect("runs")
    });
    assert_eq!((run.errors, run.verify.expect("verified").mismatches), (0, 0));
    assert!(rounds.into_inner() > 1, "host queues worked meanwhile");
}
