//! What the tests share.

use std::sync::Arc;
use std::time::Duration;

use warpbell_driver::{Completion, Controller, ControllerOptions, IoQueue, IoQueueOptions, QueueSpec};
use warpbell_hw::{Device, DmaBuffer};
use warpbell_softctl::{CompletionOrder, NamespaceConfig, SoftConfig, SoftDevice};

/// How long a thread may take for anything before a test fails instead of hanging.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A small controller with one memory namespace.
pub fn config() -> SoftConfig {
    SoftConfig::new().namespaces(vec![NamespaceConfig::memory(1 << 20, 512)])
}

/// The same with completions in random order.
pub fn shuffled(seed: u64) -> SoftConfig {
    let order = CompletionOrder::Shuffled { window: 64 };
    config().order(order).seed(seed).poison_fetched(true)
}

/// Runs a test on both kinds of controller. Afterwards nothing may be left: no violation, no mapping.
pub fn on_both(config: &SoftConfig, test: impl Fn(&Arc<SoftDevice>)) {
    let stepped = SoftDevice::stepped(config.clone()).unwrap();
    test(&stepped);
    assert_clean(&stepped);
    // Poisoning would race with a client that writes its next entry.
    let config = config.clone().poison_fetched(false);
    let threaded = SoftDevice::threaded(config).unwrap();
    test(&threaded);
    assert_clean(&threaded);
}

pub fn assert_clean(device: &SoftDevice) {
    let violations: Vec<String> = device.violations().iter().map(ToString::to_string).collect();
    assert!(violations.is_empty(), "{violations:#?}");
}

pub fn open(device: &Arc<SoftDevice>) -> Controller {
    open_with(device, 64)
}

pub fn open_with(device: &Arc<SoftDevice>, queues: u16) -> Controller {
    Controller::open(device.clone(), ControllerOptions::new().queues(queues)).unwrap()
}

pub fn io_queue(controller: &Controller, entries: u32) -> IoQueue {
    let pair = controller.create_queue_pair(QueueSpec::new(entries)).unwrap();
    IoQueue::new(pair, IoQueueOptions::new().timeout(PATIENCE)).unwrap()
}

pub fn buffer(device: &Arc<SoftDevice>, bytes: usize) -> DmaBuffer {
    DmaBuffer::host(device.dma(), bytes).unwrap()
}

/// The next completion, waited for. A queue that makes no progress fails the test.
pub fn next(device: &SoftDevice, queue: &mut IoQueue) -> Completion {
    let end = device.clock().now() + 3 * PATIENCE;
    loop {
        match queue.pop() {
            Some(completion) => return completion,
            None => queue.pause(Duration::ZERO),
        }
        assert!(device.clock().now() < end, "no progress: {queue:?}");
    }
}
