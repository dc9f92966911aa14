//! A small client that drives rings by hand, and can break every rule while it does.
#![expect(clippy::unwrap_used, reason = "a client of tests panics when something is wrong")]
#![expect(dead_code, reason = "each test binary uses its own part of the client")]

pub mod faults;
pub mod features;
pub mod namespaces;
pub mod pages;
pub mod remote;

use std::sync::Arc;
use std::time::Duration;

use warpbell_hw::{
    CqRing, Device, DmaBuffer, DmaSpace, Doorbell, DoorbellKind, Qid, Registers, SqRing, Window,
};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::feature::{FeatureId, NumberOfQueues};
use warpbell_nvme::opcode::DataTransfer;
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::register::{Aqa, Cc, Csts, Shn, Shst, offset};
use warpbell_nvme::{Cqe, Status};
use warpbell_softctl::{Rule, SoftConfig, SoftDevice};
use zerocopy::FromBytes;

/// Entries of the admin queues.
pub const ADMIN_ENTRIES: u32 = 16;
/// How long anything may take, in the device's time.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue pair and the client's counters.
pub struct Pair {
    pub qid: u16,
    pub entries: u32,
    pub sq: SqRing,
    pub cq: CqRing,
    pub sq_memory: DmaBuffer,
    pub cq_memory: DmaBuffer,
    pub sq_doorbell: Doorbell,
    pub cq_doorbell: Doorbell,
    pub tail: u32,
    pub head: u64,
}

impl Pair {
    pub fn new(device: &SoftDevice, qid: u16, entries: u32) -> Pair {
        Pair::mapped_by(device, device.dma(), qid, entries)
    }

    /// With rings in memory that `space` maps.
    pub fn mapped_by(device: &SoftDevice, space: Arc<dyn DmaSpace>, qid: u16, entries: u32) -> Pair {
        let sq_memory = DmaBuffer::host(space.clone(), entries as usize * 64).unwrap();
        let cq_memory = DmaBuffer::host(space, entries as usize * 16).unwrap();
        let doorbell = |kind| device.doorbells().doorbell(Qid(qid), kind).unwrap();
        Pair {
            qid,
            entries,
            sq: SqRing::new(sq_memory.window().clone(), entries),
            cq: CqRing::new(cq_memory.window().clone(), entries),
            sq_memory,
            cq_memory,
            sq_doorbell: doorbell(DoorbellKind::SqTail),
            cq_doorbell: doorbell(DoorbellKind::CqHead),
            tail: 0,
            head: 0,
        }
    }

    /// Writes an entry; `ring` shows it to the controller.
    pub fn push(&mut self, sqe: &Sqe) {
        self.sq.write(self.tail, sqe);
        self.tail = self.tail.wrapping_add(1);
    }

    pub fn ring(&self) {
        self.sq_doorbell.ring(self.tail % self.entries);
    }

    /// Takes a completion and frees its slot.
    pub fn poll(&mut self) -> Option<Cqe> {
        let entry = self.cq.poll(self.head)?;
        self.head += 1;
        self.cq_doorbell.ring((self.head % u64::from(self.entries)) as u32);
        Some(entry)
    }

    pub fn wait(&mut self, device: &SoftDevice) -> Cqe {
        let deadline = device.clock().now() + PATIENCE;
        loop {
            if let Some(entry) = self.poll() {
                return entry;
            }
            assert!(device.clock().now() < deadline, "queue {} got no completion in time", self.qid);
            device.clock().pause(Duration::ZERO);
        }
    }

    pub fn run(&mut self, device: &SoftDevice, sqe: &Sqe) -> Cqe {
        self.push(sqe);
        self.ring();
        self.wait(device)
    }
}

/// A client with an admin queue.
pub struct Client {
    pub device: Arc<SoftDevice>,
    pub admin: Pair,
    pub buffer: DmaBuffer,
    next_cid: u16,
}

/// The configuration in CC that everyone uses.
pub fn configuration() -> Cc {
    Cc::new().with_iosqes(6).with_iocqes(4)
}

pub fn csts(device: &SoftDevice) -> Csts {
    Csts::from_bits(device.registers().read32(offset::CSTS))
}

/// Waits until CSTS is as wanted.
pub fn wait_csts(device: &SoftDevice, wanted: impl Fn(Csts) -> bool) {
    let deadline = device.clock().now() + PATIENCE;
    while !wanted(csts(device)) {
        assert!(device.clock().now() < deadline, "CSTS stays {:?}", csts(device));
        device.clock().pause(Duration::from_micros(10));
    }
}

pub fn set_admin_queue(device: &SoftDevice, admin: &Pair) {
    let registers: &dyn Registers = device.registers();
    let entries_z = (admin.entries - 1) as u16;
    registers.write32(offset::AQA, Aqa::new().with_asqs_z(entries_z).with_acqs_z(entries_z).into_bits());
    registers.write64(offset::ASQ, admin.sq_memory.iova().0);
    registers.write64(offset::ACQ, admin.cq_memory.iova().0);
}

impl Client {
    /// Enables a controller.
    pub fn start(device: Arc<SoftDevice>) -> Client {
        let space = device.dma();
        Client::start_in(device, space)
    }

    /// Enables a controller, with rings and buffer in memory that `space` maps.
    pub fn start_in(device: Arc<SoftDevice>, space: Arc<dyn DmaSpace>) -> Client {
        let admin = Pair::mapped_by(&device, space.clone(), 0, ADMIN_ENTRIES);
        set_admin_queue(&device, &admin);
        device.registers().write32(offset::CC, configuration().with_en(true).into_bits());
        wait_csts(&device, |csts| csts.rdy() || csts.cfs());
        assert!(!csts(&device).cfs(), "{:?}", device.violations());
        let buffer = DmaBuffer::host(space, 1 << 20).unwrap();
        Client { device, admin, buffer, next_cid: 1 }
    }

    pub fn stepped(config: SoftConfig) -> Client {
        Client::start(SoftDevice::stepped(config).unwrap())
    }

    pub fn threaded(config: SoftConfig) -> Client {
        Client::start(SoftDevice::threaded(config).unwrap())
    }

    /// Both ways to run a controller.
    pub fn both(config: &SoftConfig) -> [Client; 2] {
        [Client::stepped(config.clone()), Client::threaded(config.clone())]
    }

    pub fn cid(&mut self) -> u16 {
        self.next_cid = self.next_cid % 0xfff0 + 1;
        self.next_cid
    }

    /// Runs an admin command with a fresh identifier.
    pub fn admin(&mut self, sqe: Sqe) -> Cqe {
        let cid = self.cid();
        let entry = self.admin.run(&self.device, &sqe.with_cid(cid));
        assert_eq!(entry.cid, cid);
        entry
    }

    pub fn admin_ok(&mut self, sqe: Sqe) -> Cqe {
        let entry = self.admin(sqe);
        assert!(entry.status().is_ok(), "opcode {:#x}: {}", sqe.opcode(), entry.status());
        entry
    }

    /// Runs an admin command that returns data in the buffer's first page.
    pub fn admin_data(&mut self, sqe: Sqe) -> Vec<u8> {
        self.buffer.window().fill(0, 4096, 0xee).unwrap();
        let iova = self.buffer.iova().0;
        self.admin_ok(sqe.with_prp(iova, 0));
        self.buffer.window().to_vec(0, 4096).unwrap()
    }

    pub fn number_of_queues(&mut self, pairs: u16) -> NumberOfQueues {
        let value = NumberOfQueues::new().with_nsqr_z(pairs - 1).with_ncqr_z(pairs - 1);
        let sqe = command::set_features(FeatureId::NUMBER_OF_QUEUES, value.into_bits(), 0);
        NumberOfQueues::from_bits(self.admin_ok(sqe).dw0)
    }

    /// Creates a queue pair.
    pub fn pair(&mut self, qid: u16, entries: u32) -> Pair {
        let pair = Pair::new(&self.device, qid, entries);
        self.create(&pair);
        pair
    }

    pub fn create(&mut self, pair: &Pair) {
        let (qid, size_z) = (pair.qid, (pair.entries - 1) as u16);
        self.admin_ok(queue_command::create_io_cq(qid, size_z, pair.cq_memory.iova().0, None));
        self.admin_ok(queue_command::create_io_sq(
            qid,
            size_z,
            pair.sq_memory.iova().0,
            qid,
            QueuePriority::URGENT,
        ));
    }

    /// Runs an I/O command with data at byte `at` of the buffer, through PRP1 or one SGL descriptor.
    pub fn io(&mut self, pair: &mut Pair, sqe: Sqe, at: usize) -> Status {
        let cid = self.cid();
        let mut sqe = sqe.with_cid(cid);
        if DataTransfer::of(sqe.opcode()) != DataTransfer::NONE {
            sqe.set_prp(self.buffer.iova().0 + at as u64, 0);
        }
        let entry = pair.run(&self.device, &sqe);
        assert_eq!((entry.cid, entry.sqid), (cid, pair.qid));
        entry.status()
    }

    pub fn fill(&self, at: usize, bytes: &[u8]) {
        self.buffer.window().write(at, bytes).unwrap();
    }

    pub fn bytes(&self, at: usize, len: usize) -> Vec<u8> {
        self.buffer.window().to_vec(at, len).unwrap()
    }

    /// The rules broken so far.
    pub fn broken(&self) -> Vec<Rule> {
        self.device.violations().into_iter().map(|violation| violation.rule).collect()
    }

    pub fn assert_clean(&self) {
        assert!(self.device.violations().is_empty(), "{:#?}", self.device.violations());
    }

    /// Lets the controller do what it can.
    pub fn settle(&self) {
        for _ in 0..10_000 {
            if !self.device.step() {
                break;
            }
        }
    }
}

/// Shuts an enabled controller down, and waits until it is.
pub fn shut_down(device: &SoftDevice, how: Shn) {
    device.registers().write32(offset::CC, configuration().with_en(true).with_shn(how).into_bits());
    wait_csts(device, |csts| csts.shst() == Shst::COMPLETE);
}

/// The structure that data begins with.
pub fn parsed<T: FromBytes>(bytes: &[u8]) -> T {
    T::read_from_prefix(bytes).expect("a whole structure").0
}

/// Runs an admin command that must fail with `status`, for good.
pub fn expect(client: &mut Client, sqe: Sqe, status: Status) {
    let got = client.admin(sqe).status();
    assert!(got.same_code(status) && got.dnr(), "opcode {:#x}: {got}, expected {status}", sqe.opcode());
}

/// A window that no device sees.
pub fn private(len: usize) -> Window {
    Window::host(len).unwrap()
}

/// A configuration with one namespace in memory.
pub fn memory(bytes: u64, block_size: u32) -> SoftConfig {
    SoftConfig::new().namespaces(vec![warpbell_softctl::NamespaceConfig::memory(bytes, block_size)])
}
