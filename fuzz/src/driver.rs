//! The driver against a controller that the input makes up: registers, completions, identify pages, log pages, events
//! and resets. The driver does not panic, comes back from every call within its limits, says what went wrong, and gives
//! back no memory that the controller may still use.

mod answers;
mod calls;
mod controller;
mod device;
mod space;

use std::sync::Arc;
use std::time::Duration;

use warpbell_driver as driver;
use warpbell_driver::{ControllerOptions, DoorbellBuffer, DriverError, QueueSpec, Waiting};
use warpbell_hw::{Clock, PciId};
use warpbell_nvme::command;
use warpbell_nvme::identify::{IdentifyNamespace, LbaFormat};
use warpbell_nvme::register::{Cap, Vs};

use crate::choices::Choices;

use calls::Calls;
use controller::Controller;
use device::FuzzDevice;
use space::Space;

/// The longest that a change of CC may take: CAP.TO at its largest, or RTD3E for a shutdown.
const CHANGE: Duration = Duration::from_secs(4400);
/// For what a call does besides.
const SLACK: Duration = Duration::from_secs(1);

/// The driver, in the hands of the input.
pub fn driver(input: &[u8]) {
    let mut choices = Choices::new(input);
    let room = if choices.one_in(8) { choices.below(12) as usize } else { usize::MAX };
    let space = Space::new(room);
    let options = options(&mut choices);
    let (controller, plain) = controller(choices, space.clone());
    let device = FuzzDevice::new(controller, space.clone());
    let bench = Bench { device: device.clone(), timeout: options.admin_timeout };
    // As a reset does, it waits for a controller that is still to become ready.
    let opened =
        bench.call_within("open", CHANGE, || driver::Controller::open(device.clone(), options.clone()));
    if let Some(controller) = opened {
        Calls::new(&bench, controller).run();
    }
    bench.check("the end");
    if plain && room == usize::MAX {
        bench.recovers();
    }
    space.close();
}

/// What watches over the driver's calls.
struct Bench {
    device: Arc<FuzzDevice>,
    timeout: Duration,
}

impl Bench {
    /// Calls the driver. An error is told, and there is an end to it.
    fn call<T>(&self, what: &str, call: impl FnOnce() -> Result<T, DriverError>) -> Option<T> {
        self.call_within(what, Duration::ZERO, call)
    }

    /// The same for a call that was given a limit of its own.
    fn call_within<T>(
        &self,
        what: &str,
        limit: Duration,
        call: impl FnOnce() -> Result<T, DriverError>,
    ) -> Option<T> {
        let result = self.timed(what, limit, call);
        let told = result.inspect_err(|error| {
            let text = error.to_string();
            assert!(text.starts_with("fuzz: ") && text.len() > 10, "{what}: an error that says {text:?}");
        });
        self.check(what);
        told.ok()
    }

    /// Calls the driver, which may take `more` than its commands do.
    fn timed<T>(&self, what: &str, more: Duration, call: impl FnOnce() -> T) -> T {
        self.device.begin();
        let (before, counts) = (self.device.now(), self.device.controller.lock().counts);
        let result = call();
        let (commands, changes) = self.device.controller.lock().counts.since(counts);
        let limit = (self.timeout + SLACK) * (commands + 1) + CHANGE * changes + SLACK + more;
        let took = self.device.now() - before;
        assert!(
            took <= limit + took / 100,
            "{what}: took {took:?}, with {commands} commands at most {limit:?}"
        );
        result
    }

    /// No rule was broken.
    fn check(&self, what: &str) {
        if let Some(broken) = self.device.space.broken() {
            panic!("{what}: {broken}");
        }
    }

    /// With a controller that is well again everything works, whatever was before.
    fn recovers(&self) {
        self.device.controller.lock().heal();
        self.device.begin();
        let options = ControllerOptions::new().queues(2).admin_entries(8);
        let controller = driver::Controller::open(self.device.clone(), options);
        let controller = controller.unwrap_or_else(|error| panic!("not opened again: {error}"));
        let pair = controller
            .create_queue_pair(QueueSpec::new(4))
            .unwrap_or_else(|error| panic!("no queue: {error}"));
        let mut queue = driver::IoQueue::new(pair, Default::default()).expect("a new pair is idle");
        for _ in 0..9 {
            let done = queue.execute(&command::flush(1));
            assert!(done.as_ref().is_ok_and(|done| done.is_ok()), "a flush of a good controller: {done:?}");
        }
        let deleted = controller.delete_queue_pair(queue.into_pair());
        deleted.unwrap_or_else(|error| panic!("a queue was not deleted: {error}"));
        controller.shutdown().unwrap_or_else(|error| panic!("not shut down: {error}"));
        self.check("after recovery");
    }
}

fn options(choices: &mut Choices) -> ControllerOptions {
    ControllerOptions::new()
        .queues(choices.below(6) as u16 + u16::from(!choices.one_in(16)))
        .min_queues(choices.below(3) as u16)
        .admin_entries(choices.pick(&[8, 2, 4, 64, 16, 8, 3, 4096]))
        .admin_timeout(Duration::from_millis(choices.pick(&[10, 1, 50, 0, 1000])))
        .admin_retries(3)
        .admin_waiting(choices.pick(&[Waiting::Auto, Waiting::Auto, Waiting::Poll, Waiting::Interrupt]))
        .async_events(choices.pick(&[2, 0, 1, 4, 300]))
        .weighted_round_robin(choices.one_in(5))
        .doorbell_buffer(choices.pick(&[DoorbellBuffer::Auto, DoorbellBuffer::Off, DoorbellBuffer::On]))
        .wide_cids(choices.one_in(8))
        .ready_poll_delay(Duration::from_micros(if choices.one_in(4) { 700 } else { 0 }))
        .shutdown_timeout(Duration::from_millis(100))
}

/// The controller, and whether there is nothing about it that a driver could refuse.
fn controller(choices: Choices, space: Arc<Space>) -> (Controller, bool) {
    let mut it = Controller::new(choices, space);
    it.identify.sqes.set_min(6);
    it.identify.sqes.set_max(6);
    it.identify.cqes.set_min(4);
    it.identify.cqes.set_max(4);
    it.identify.mdts = it.choices.pick(&[5, 0, 1, 9, 255]);
    it.identify.aerl_z = it.choices.pick(&[3, 0, 255]);
    it.identify.elpe_z = it.choices.pick(&[63, 0, 255]);
    it.identify.acl_z = 3;
    it.identify.lpa.set_extended_data(it.choices.one_in(2));
    it.identify.oacs.set_dbbuf(it.choices.one_in(3));
    it.identify.fwug = it.choices.pick(&[0, 1, 255, 3]);
    it.identify.nn = 4;
    for nsid in 1..=it.choices.below(4) {
        let mut data = Box::new(IdentifyNamespace::zeroed());
        let blocks = it.choices.number(100_000);
        (data.nsze, data.ncap) = (blocks, blocks);
        data.lbaf[0] = LbaFormat::new().with_lbads(it.choices.pick(&[9, 12, 0, 16, 17, 63]));
        it.namespaces.insert(nsid, data);
    }
    it.vectors = it.choices.pick(&[4, 0, 1, 2048]);
    it.has_memory = it.choices.one_in(4);
    it.cap = it.cap.with_cmbs(it.has_memory).with_nssrs(it.choices.one_in(2));
    let plain = !it.choices.one_in(4);
    if !plain {
        it.cap = Cap::from_bits(it.cap.into_bits() ^ 1 << it.choices.below(64) ^ 1 << it.choices.below(64));
        let (major, minor) = (it.choices.below(3) as u16, it.choices.byte() % 5);
        it.version = Vs::from_parts(major, minor, 0);
        it.grant = it.choices.u16();
        it.pci_id = Some(PciId { vendor: it.choices.u16(), device: it.choices.u16() });
        it.identify.nn = it.choices.u32();
    }
    if it.choices.one_in(2) {
        it.disturb();
    }
    (it, plain)
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.device.space.close();
    }
}
