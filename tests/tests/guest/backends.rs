//! What the scenes of the backends share: data through each of them, and the words of refusals.

use std::sync::Arc;

use warpbell::OpenOptions;
use warpbell_driver::{DoorbellBuffer, IoQueue, IoQueueOptions, Notification, Outcome, QueueSpec};
use warpbell_hw::{Device, DmaBuffer};
use warpbell_nvme::command;
use warpbell_tests::suite::{self, ResetOrder};
use warpbell_vfio::{Backend, Bdf, IommuChoice, PciDevice, PciOptions};

use crate::fixture;

const PAGE: usize = 4096;
/// Two pages.
const STEP: usize = 2 * PAGE;

pub fn device(bdf: Bdf, backend: Backend, own_dma_space: bool) -> Arc<PciDevice> {
    let options = PciOptions::new().iommu(IommuChoice::Only(backend)).own_dma_space(own_dma_space);
    let device = PciDevice::open(bdf, &options).unwrap_or_else(|error| panic!("{backend}: {error}"));
    assert_eq!(device.route().backend, backend);
    device
}

/// Why a function cannot be opened.
pub fn refusal(bdf: Bdf, iommu: IommuChoice) -> String {
    let opened = PciDevice::open(bdf, &PciOptions::new().iommu(iommu).own_dma_space(true));
    let text = opened.expect_err("refused").to_string();
    println!("{iommu}: {text}");
    text
}

/// The suite of the driver and the kernels, on one SSD.
pub fn suite_holds(bdf: Bdf, backend: Backend) {
    for doorbell_buffer in [DoorbellBuffer::Off, DoorbellBuffer::On] {
        let options = OpenOptions::new().doorbell_buffer(doorbell_buffer);
        let ssd = fixture::over(device(bdf, backend, false), &options);
        suite::kernels(&ssd, 1);
        suite::both_apis(&ssd, 1);
        suite::boundaries(&ssd, 1);
        suite::reset_under_load(&ssd, ResetOrder::AfterKernels);
        suite::works(&ssd);
    }
}

/// A queue whose rings take many pages, by interrupt.
pub struct Worker {
    ssd: Arc<warpbell::Ssd>,
    queue: IoQueue,
}

impl Worker {
    pub fn new(device: Arc<PciDevice>) -> Worker {
        let ssd = fixture::over(device, &OpenOptions::default());
        let spec = QueueSpec::new(1024).notification(Notification::Interrupt);
        let pair = ssd.controller().create_queue_pair(spec).expect("a pair");
        Worker { ssd, queue: IoQueue::new(pair, IoQueueOptions::default()).expect("a queue") }
    }

    /// Moves two pages between `iova` and 16 blocks.
    pub fn transfer(&mut self, write: bool, lba: usize, iova: u64) {
        let lba = lba as u64;
        let sqe = if write { command::write(1, lba, 15) } else { command::read(1, lba, 15) };
        let done = self.queue.execute(&sqe.with_prp(iova, iova + PAGE as u64)).expect("an answer");
        assert!(matches!(done.outcome, Outcome::Completed(status) if status.is_ok()), "{done:?}");
    }

    pub fn stop(self) {
        // A machine may be held up for a tenth of a second between a completion and its interrupt, but not often.
        let counters = self.queue.counters();
        assert!(counters.missed_interrupts * 32 <= counters.sleeps, "{counters:?}");
        self.ssd.controller().delete_queue_pair(self.queue.into_pair()).expect("deleted");
    }
}

pub fn pattern(ssd: usize, round: usize) -> Vec<u8> {
    (0..STEP).map(|index| (index * 7 + index / 251 + ssd * 31 + round * 57) as u8).collect()
}

/// Writes to all SSDs and reads back, in other order, into other memory. In a shared space all go through what is mapped
/// for the first of them.
pub fn data_comes_back(ssds: &[Bdf], backend: Backend, own_dma_space: bool) {
    const ROUNDS: usize = 64;
    let devices: Vec<_> = ssds.iter().map(|bdf| device(*bdf, backend, own_dma_space)).collect();
    let spaces: Vec<_> = devices.iter().map(|device| device.dma()).collect();
    let mut workers: Vec<Worker> = devices.into_iter().map(Worker::new).collect();
    for (number, worker) in workers.iter_mut().enumerate() {
        let space = &spaces[if own_dma_space { number } else { 0 }];
        let out = DmaBuffer::host(space.clone(), ROUNDS * STEP).expect("a buffer");
        let back = DmaBuffer::host(space.clone(), ROUNDS * STEP).expect("a buffer");
        let place = |round: usize| round * 16 + number * 4096;
        for round in 0..ROUNDS {
            out.window().write(round * STEP, &pattern(number, round)).expect("written");
            worker.transfer(true, place(round), out.iova().0 + (round * STEP) as u64);
        }
        for round in (0..ROUNDS).rev() {
            worker.transfer(false, place(round), back.iova().0 + (round * STEP) as u64);
            let got = back.window().to_vec(round * STEP, STEP).expect("read");
            assert!(got == pattern(number, round), "SSD {number}, round {round}");
        }
    }
    workers.into_iter().for_each(Worker::stop);
    println!("{backend}: {} SSDs, own space: {own_dma_space}", ssds.len());
}
