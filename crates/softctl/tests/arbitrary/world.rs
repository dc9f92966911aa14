//! One controller and everything that its client knows and does.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use rand::seq::IteratorRandom;
use warpbell_hw::{Device, DmaAccess, ResetKind};
use warpbell_nvme::command::{CreateIoSqCdw11, DeleteQueueCdw10, QueueIdSize, Sqe};
use warpbell_nvme::register::{Aqa, Cap, Cc, Csts, NSSR_MAGIC, Shn, Shst, offset};
use warpbell_nvme::{AdminOpcode, Cqe};
use warpbell_softctl::{Rule, SoftConfig, SoftDevice, Violation};

use super::memory::Memory;
use super::queues::{Completion, Queues, Submission};
use super::random::Random;

/// Counters of a whole run.
#[derive(Debug, Default)]
pub struct Tally {
    pub commands: u64,
    pub completions: u64,
    pub failed: u64,
    pub refused_doorbells: u64,
    pub resets: u64,
    pub fatal: u64,
    pub unmapped: u64,
}

pub struct World {
    pub device: Arc<SoftDevice>,
    pub random: Random,
    pub memory: Memory,
    pub queues: Queues,
    pub sgl: bool,
    pub queue_pairs: u16,
    pub max_entries: u32,
    pub block_sizes: Vec<u32>,
    /// How seldom the client does what no client should, 0 to 9.
    pub calm: u32,
    pub tally: Tally,
    poison: bool,
    /// Whether to print what happens.
    history: bool,
    /// Whether the controller breaks rules by itself, as its fault plan says: then nothing is expected of completions.
    pub faulty: bool,
    /// Pages of shadow doorbells, if the client has just configured them.
    shadowed: Option<[u64; 2]>,
    /// Why a fatal status would be no surprise, until the next reset.
    excuse: Option<&'static str>,
    next_cid: u16,
}

impl World {
    pub fn new(config: SoftConfig, mut random: Random, history: bool) -> World {
        let block_sizes = config.namespaces.iter().map(|namespace| namespace.block_size).collect();
        let (sgl, queue_pairs, poison) = (config.sgl, config.queue_pairs, config.poison_fetched);
        let max_entries = config.max_entries;
        let device = SoftDevice::stepped(config).expect("a valid configuration");
        let calm = random.random_range(0..10);
        let memory = Memory::new(&device);
        let (queues, tally) = Default::default();
        let (excuse, next_cid) = (None, 0);
        World {
            device,
            random,
            memory,
            queues,
            sgl,
            queue_pairs,
            max_entries,
            block_sizes,
            calm,
            tally,
            poison,
            history,
            faulty: false,
            shadowed: None,
            excuse,
            next_cid,
        }
    }

    /// Prints what happens, where one episode is replayed.
    pub fn note(&self, what: impl FnOnce() -> String) {
        if self.history {
            println!("{:12.6} ms  {}", self.device.clock().now().as_secs_f64() * 1e3, what());
        }
    }

    pub fn cid(&mut self) -> u16 {
        self.next_cid = (self.next_cid + 1) % 0xff00;
        self.next_cid
    }

    pub fn csts(&self) -> Csts {
        Csts::from_bits(self.device.registers().read32(offset::CSTS))
    }

    fn cc(&self) -> Cc {
        Cc::from_bits(self.device.registers().read32(offset::CC))
    }

    /// Whether the controller is to answer commands.
    pub fn running(&self) -> bool {
        let csts = self.csts();
        self.cc().en() && csts.rdy() && !csts.cfs() && csts.shst() == Shst::NORMAL_OPERATION
    }

    /// Writes client memory that is no queue's.
    pub fn write(&mut self, iova: u64, bytes: &[u8]) {
        if !self.queues.touches(iova, bytes.len()) {
            self.memory.write(iova, bytes);
        }
    }

    /// Lets the controller do one thing, and reads what it posted.
    pub fn step(&mut self) -> bool {
        let worked = self.device.step() || self.leap();
        if worked {
            self.poll();
            if self.faulty && !self.queues.submission.is_empty() && !self.csts().rdy() && self.csts().nssro()
            {
                // It reset itself.
                self.forget();
            }
            self.play_with_shadows();
            if self.csts().cfs() && !self.csts().gone() {
                assert!(self.is_excused(), "CSTS.CFS is set, and nothing that the client did explains it");
                self.tally.fatal += 1;
                self.reset();
            }
        }
        worked
    }

    /// Whether a fatal status is what the client asked for: a bad configuration, or a keep alive timer that ran out.
    fn is_excused(&self) -> bool {
        let silent = |violation: &Violation| violation.rule == Rule::KeepAliveExpired;
        self.faulty || self.excuse.is_some() || self.device.violations().iter().any(silent)
    }

    /// Reads all completions; those of the admin queue last, because they tell about other queues.
    pub fn poll(&mut self) {
        let cqids: Vec<u16> = self.queues.completion.keys().rev().copied().collect();
        for cqid in cqids {
            while let Some(entry) = self.queues.completion.get_mut(&cqid).and_then(Completion::poll) {
                self.completed(cqid, &entry);
            }
        }
    }

    fn completed(&mut self, cqid: u16, entry: &Cqe) {
        let sqid = entry.sqid;
        self.note(|| format!("completion queue {cqid}: {entry:?} {}", entry.status()));
        if self.faulty {
            return self.completed_by_a_faulty_controller(entry);
        }
        let queue = self.queues.submission.get_mut(&sqid);
        let queue = queue.unwrap_or_else(|| panic!("completion queue {cqid}: a completion of queue {sqid}"));
        assert_eq!(queue.cqid, cqid, "queue {sqid} completes into the wrong queue");
        if queue.lost {
            return;
        }
        let sqe = queue.complete(entry);
        self.tally.completions += 1;
        if !entry.status().is_ok() {
            self.tally.failed += 1;
        } else if sqid == 0 {
            self.administered(&sqe);
        }
    }

    /// A completion that may be a duplicate, torn, or of a command that nobody sent: it is taken if it makes sense.
    fn completed_by_a_faulty_controller(&mut self, entry: &Cqe) {
        let Some(queue) = self.queues.submission.get_mut(&entry.sqid) else { return };
        let Some(sqe) = queue.complete_if_outstanding(entry) else { return };
        self.tally.completions += 1;
        let fields = QueueIdSize::from_bits(sqe.cdw10);
        let (qid, entries, base) = (fields.qid(), fields.entries(), sqe.prp1());
        if entry.sqid != 0 || !entry.status().is_ok() {
            self.tally.failed += u64::from(!entry.status().is_ok());
            return;
        }
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::CREATE_IO_CQ if self.memory.window(base, entries as usize * 16).is_some() => {
                let queue = self.new_completion(entries, base);
                self.queues.completion.insert(qid, queue);
            }
            AdminOpcode::CREATE_IO_SQ if self.memory.window(base, entries as usize * 64).is_some() => {
                let cqid = CreateIoSqCdw11::from_bits(sqe.cdw11).cqid();
                let queue = self.new_submission(qid, entries, cqid, base);
                self.queues.submission.insert(qid, queue);
            }
            AdminOpcode::DELETE_IO_SQ => drop(self.queues.submission.remove(&qid)),
            AdminOpcode::DELETE_IO_CQ => drop(self.queues.completion.remove(&qid)),
            _ => {}
        }
    }

    /// An admin command succeeded: what it means for the queues.
    fn administered(&mut self, sqe: &Sqe) {
        let fields = QueueIdSize::from_bits(sqe.cdw10);
        let (qid, entries, base) = (fields.qid(), fields.entries(), sqe.prp1());
        let deleted = DeleteQueueCdw10::from_bits(sqe.cdw10).qid();
        match AdminOpcode(sqe.opcode()) {
            AdminOpcode::CREATE_IO_CQ => {
                let queue = self.new_completion(entries, base);
                let old = self.queues.completion.insert(qid, queue);
                assert!(old.is_none(), "completion queue {qid} was created twice");
            }
            AdminOpcode::CREATE_IO_SQ => {
                let cqid = CreateIoSqCdw11::from_bits(sqe.cdw11).cqid();
                assert!(
                    self.queues.completion.contains_key(&cqid),
                    "queue {qid} into {cqid}, which is not there"
                );
                let queue = self.new_submission(qid, entries, cqid, base);
                let old = self.queues.submission.insert(qid, queue);
                assert!(old.is_none(), "submission queue {qid} was created twice");
            }
            AdminOpcode::DELETE_IO_SQ => {
                let old = self.queues.submission.remove(&deleted);
                assert!(old.is_some(), "submission queue {deleted} was deleted and did not exist");
            }
            AdminOpcode::DELETE_IO_CQ => {
                let users = self.queues.submission.values().filter(|queue| queue.cqid == deleted).count();
                assert_eq!(users, 0, "completion queue {deleted} was deleted under its users");
                let old = self.queues.completion.remove(&deleted);
                assert!(old.is_some(), "completion queue {deleted} was deleted and did not exist");
            }
            AdminOpcode::DBBUF_CONFIG => self.shadowed = Some([sqe.prp1(), sqe.prp2()]),
            _ => {}
        }
    }

    /// The controller reads doorbells from memory now: whatever is there, and for as long as it is mapped.
    pub fn play_with_shadows(&mut self) {
        let Some(pages) = self.shadowed.take() else { return };
        if self.poison {
            // Queues are made meanwhile of which the client does not hear.
            self.memory.poisoned_anywhere();
        }
        for round in 0..40 {
            let at = pages[0] + self.random.random_range(0..32) * 4;
            let value: u32 = self.random.random_range(0..16);
            self.memory.write(at, &value.to_le_bytes());
            let doorbell = self.random.random_range(0..32) * 4;
            self.device.doorbells().sink().expect("a stepped device has a sink").ring(doorbell, value);
            (0..4).for_each(|_| _ = self.device.step() || self.leap());
            let mapped = self.memory.mappings.iter().position(|mapping| {
                pages.iter().any(|page| (mapping.iova..mapping.iova + mapping.bytes() as u64).contains(page))
            });
            if let Some(index) = mapped
                && round == 20
            {
                self.memory.unmap(index);
            }
        }
        self.memory.check();
        self.reset();
    }

    fn new_completion(&mut self, entries: u32, base: u64) -> Completion {
        let ring = self.memory.window(base, entries as usize * 16);
        let ring = ring.expect("a completion queue lies in mapped memory");
        // Where one identifier was used twice the client may take memory for a ring that the controller cannot write.
        self.memory.write(base, &vec![0; ring.len()]);
        Completion::new(entries, base, ring)
    }

    fn new_submission(&mut self, qid: u16, entries: u32, cqid: u16, base: u64) -> Submission {
        let ring = self.memory.window(base, entries as usize * 64);
        let ring = ring.expect("a submission queue lies in mapped memory");
        if self.poison {
            self.memory.poisoned(base);
        }
        Submission::new(qid, entries, cqid, base, ring)
    }

    /// Writes a command into a queue, if there is room.
    pub fn push(&mut self, qid: u16, sqe: &Sqe) -> bool {
        let Some(queue) = self.queues.submission.get_mut(&qid) else { return false };
        if queue.lost || !queue.has_room() {
            return false;
        }
        let slot = queue.written;
        queue.written = (slot + 1) % queue.entries;
        let at = queue.base + u64::from(slot) * 64;
        let words: [u64; 8] = zerocopy::transmute!(*sqe);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.memory.write(at, &bytes);
        self.note(|| format!("queue {qid} slot {slot}: {words:x?}"));
        true
    }

    /// Rings a doorbell with any value; the model follows if the controller took it.
    pub fn ring(&mut self, offset: usize, value: u32) -> bool {
        let stride = 4 << Cap::from_bits(self.device.registers().read64(offset::CAP)).dstrd();
        let before = self.device.statistics().violations;
        self.device.doorbells().sink().expect("a stepped device has a sink").ring(offset, value);
        let taken = self.device.statistics().violations == before;
        let (qid, head) = ((offset / stride / 2) as u16, offset / stride % 2 == 1);
        self.note(|| format!("doorbell {offset:#x} (queue {qid}, head {head}) := {value}, taken {taken}"));
        if !taken {
            self.tally.refused_doorbells += 1;
            if head && let Some(queue) = self.queues.completion.get_mut(&qid) {
                queue.tainted = true;
            }
        } else if head {
            self.queues.completion.entry(qid).and_modify(|queue| queue.freed = value);
        } else if let Some(queue) = self.queues.submission.get_mut(&qid) {
            assert!(self.faulty || value < queue.entries, "queue {qid}: tail {value} was taken");
            let fresh = queue.accepted(value);
            self.tally.commands += fresh.len() as u64;
        }
        taken
    }

    fn doorbell(&self, qid: u16, kind: usize) -> usize {
        let stride = 4 << Cap::from_bits(self.device.registers().read64(offset::CAP)).dstrd();
        (2 * usize::from(qid) + kind) * stride
    }

    /// Shows what was written to a queue.
    pub fn submit(&mut self, qid: u16) {
        let Some(queue) = self.queues.submission.get(&qid) else { return };
        if queue.written != queue.rung {
            let (at, value) = (self.doorbell(qid, 0), queue.written);
            self.ring(at, value);
        }
    }

    /// Frees what was read from a completion queue.
    pub fn free(&mut self, qid: u16) {
        let Some(queue) = self.queues.completion.get(&qid) else { return };
        let (at, value) = (self.doorbell(qid, 1), queue.head());
        self.ring(at, value);
    }

    /// Every command of every queue was answered, but for those whose completion the client made impossible.
    pub fn check_answered(&self) {
        if self.faulty || self.excuse.is_some() {
            return;
        }
        for (qid, queue) in &self.queues.submission {
            let into = self.queues.completion.get(&queue.cqid);
            let stuck = queue.lost || into.is_none_or(|queue| queue.lost || queue.stuck());
            let unanswered = queue.unanswered();
            assert!(stuck || unanswered == 0, "queue {qid}: {unanswered} commands have no completion");
        }
    }

    pub fn any_submission(&mut self) -> u16 {
        self.queues.submission.keys().copied().choose(&mut self.random).unwrap_or(0)
    }

    pub fn any_completion(&mut self) -> u16 {
        self.queues.completion.keys().copied().choose(&mut self.random).unwrap_or(0)
    }

    /// Unmaps memory, now and then under a queue that lives.
    pub fn unmap(&mut self) {
        let Some(index) = (0..self.memory.mappings.len()).choose(&mut self.random) else { return };
        let (iova, len) = (self.memory.mappings[index].iova, self.memory.mappings[index].bytes());
        let used = self.queues.touches(iova, len);
        if used && self.random.random_range(0..20) > 0 {
            return;
        }
        self.queues.lose(iova, len);
        self.note(|| format!("unmap {iova:#x}+{len:#x}"));
        let blind = self.queues.submission.get(&0).is_some_and(|queue| queue.lost)
            || self.queues.completion.get(&0).is_some_and(|queue| queue.lost);
        self.memory.unmap(index);
        self.tally.unmapped += 1;
        if blind {
            // Nobody can know any more which queues there are.
            (0..20).for_each(|_| _ = self.device.step() || self.leap());
            self.reset();
        }
    }

    pub fn map(&mut self) {
        let pages = self.random.random_range(1..14);
        let access = match self.random.random_range(0..8) {
            0 => DmaAccess::READ,
            1 => DmaAccess::WRITE,
            _ => DmaAccess::READ_WRITE,
        };
        self.memory.map(&mut self.random, pages, access);
    }

    /// The queues are gone, and with them whatever was outstanding.
    pub fn forget(&mut self) {
        self.note(|| "reset".to_owned());
        self.queues.clear();
        self.excuse = None;
        self.tally.resets += 1;
    }

    /// Makes the controller forget everything, in one of the ways there are.
    pub fn reset(&mut self) {
        match self.random.random_range(0..3) {
            0 => self.device.reset().reset(ResetKind::Function).expect("a function reset"),
            1 => self.device.registers().write32(offset::NSSR, NSSR_MAGIC),
            _ => self.device.registers().write32(offset::CC, self.cc().with_en(false).into_bits()),
        }
        self.forget();
    }

    pub fn shut_down(&mut self) {
        let cc = self.cc().with_shn(if self.random.random() { Shn::NORMAL } else { Shn::ABRUPT });
        self.write_register(offset::CC, cc.into_bits());
        self.poll();
    }

    /// Writes a register, and follows what CC does.
    pub fn write_register(&mut self, at: u32, value: u32) {
        self.note(|| format!("register {at:#x} := {value:#x}"));
        let before = self.cc();
        if !before.en() && at == offset::CC && Cc::from_bits(value).en() {
            self.excuse = Some("the controller was enabled with whatever the registers held");
            self.adopt_admin_queue(value);
        }
        if before.en() && !Cc::from_bits(value).en() && at == offset::CC {
            self.forget();
        }
        self.device.registers().write32(at, value);
        if at == offset::NSSR && value == NSSR_MAGIC {
            self.forget();
        }
    }

    /// The admin queue will be where the registers say.
    fn adopt_admin_queue(&mut self, _cc: u32) {
        let registers = self.device.registers();
        let aqa = Aqa::from_bits(registers.read32(offset::AQA));
        let (asq, acq) = (registers.read64(offset::ASQ), registers.read64(offset::ACQ));
        let (sq_entries, cq_entries) = (aqa.sq_entries(), aqa.cq_entries());
        self.queues.clear();
        let mapped = self.memory.window(asq, sq_entries as usize * 64).is_some()
            && self.memory.window(acq, cq_entries as usize * 16).is_some();
        if mapped {
            let queue = self.new_submission(0, sq_entries, 0, asq);
            self.queues.submission.insert(0, queue);
            let queue = self.new_completion(cq_entries, acq);
            self.queues.completion.insert(0, queue);
        }
    }

    /// Enables the controller with fresh admin queues. False if there is no memory for them.
    pub fn enable(&mut self) -> bool {
        if self.csts().rdy() || self.cc().en() {
            self.tally.fatal += u64::from(self.csts().cfs());
            self.reset();
            self.settle_registers();
        }
        while self.memory.mappings.len() > 8 {
            let index = self.random.random_range(0..self.memory.mappings.len());
            self.memory.unmap(index);
        }
        let entries = self.random.random_range(2..=32u32);
        let sq = self.memory.map(&mut self.random, 1, DmaAccess::READ);
        let cq = self.memory.map(&mut self.random, 1, DmaAccess::WRITE);
        let (Some(sq), Some(cq)) = (sq, cq) else { return false };
        let registers = self.device.registers();
        let aqa = Aqa::new().with_asqs_z(entries as u16 - 1).with_acqs_z(entries as u16 - 1);
        registers.write32(offset::AQA, aqa.into_bits());
        registers.write64(offset::ASQ, sq);
        registers.write64(offset::ACQ, cq);
        let cc = Cc::new().with_iosqes(6).with_iocqes(4).with_en(true);
        self.write_register(offset::CC, cc.into_bits());
        self.settle_registers();
        self.excuse = None;
        assert!(self.running(), "the controller did not get ready: {:?} {:?}", self.csts(), self.cc());
        true
    }

    /// Where nothing can be done now: goes to the time when something can, and lets it happen.
    fn leap(&self) -> bool {
        // What was due may turn out to have to wait once more, as where media is busy.
        (0..64).any(|_| {
            let Some(event) = self.device.next_event() else { return false };
            self.device.advance(event.saturating_sub(self.device.clock().now()));
            self.device.step()
        })
    }

    /// Lets changes of CSTS happen.
    pub fn settle_registers(&mut self) {
        for _ in 0..64 {
            if !self.device.step() && !self.leap() {
                break;
            }
            self.poll();
        }
        self.device.advance(Duration::from_millis(1));
    }
}
