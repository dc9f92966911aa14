//! Rings in remote memory: entries come and go by copies, whose bytes have no order among themselves.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::time::Duration;

use warpbell_hw::{CqRing, Device, DmaBuffer, Doorbell, DoorbellKind, Lba, Nsid, Qid, SqRing, Window};
use warpbell_nvme::command::{self, Sqe};
use warpbell_nvme::queue_command::{self, QueuePriority};
use warpbell_nvme::register::offset;
use warpbell_nvme::{Cqe, Status};
use warpbell_softctl::FaultPlan;
use zerocopy::IntoBytes;

use crate::client::remote::Double;
use crate::client::{Client, configuration, memory, wait_csts};
use crate::{REMOTE, Rig, both, both_with, pattern};

/// Bytes of a command's data.
const DATA: usize = 512;
/// Where submission rings, completion rings and data begin in remote memory.
const SQS: usize = 0;
const CQS: usize = 1 << 20;
const AREA: usize = 2 << 20;

/// A ring, wherever it lies.
enum Place {
    Host(DmaBuffer),
    Remote { base: usize, iova: u64 },
}

impl Place {
    fn new(rig: &Rig, remote: bool, base: usize, len: usize) -> Place {
        if remote {
            rig.remote.set(base, &vec![0; len]);
            return Place::Remote { base, iova: rig.at(base) };
        }
        Place::Host(DmaBuffer::host(rig.device().dma(), len).unwrap())
    }

    fn iova(&self) -> u64 {
        match self {
            Place::Host(buffer) => buffer.iova().0,
            Place::Remote { iova, .. } => *iova,
        }
    }
}

/// A queue pair that a kernel could have: it reads and writes remote memory by itself, at any time.
struct Queue {
    qid: u16,
    entries: u32,
    sq: Place,
    cq: Place,
    doorbells: [Doorbell; 2],
    tail: u32,
    head: u64,
}

impl Queue {
    fn new(rig: &mut Rig, qid: u16, entries: u32, (sq, cq): (bool, bool)) -> Queue {
        let place = |remote, base: usize, slot| {
            Place::new(rig, remote, base + usize::from(qid) * 0x1_0000, entries as usize * slot)
        };
        let (sq, cq) = (place(sq, SQS, SqRing::SLOT), place(cq, CQS, CqRing::SLOT));
        let doorbell = |kind| rig.device().doorbells().doorbell(Qid(qid), kind).unwrap();
        let doorbells = [doorbell(DoorbellKind::SqTail), doorbell(DoorbellKind::CqHead)];
        let queue = Queue { qid, entries, sq, cq, doorbells, tail: 0, head: 0 };
        let size_z = (entries - 1) as u16;
        rig.client.admin_ok(queue_command::create_io_cq(qid, size_z, queue.cq.iova(), None));
        let (at, priority) = (queue.sq.iova(), QueuePriority::URGENT);
        rig.client.admin_ok(queue_command::create_io_sq(qid, size_z, at, qid, priority));
        queue
    }

    fn push(&mut self, rig: &Rig, sqe: &Sqe) {
        let at = (self.tail % self.entries) as usize * SqRing::SLOT;
        match &self.sq {
            Place::Host(buffer) => SqRing::new(buffer.window().clone(), self.entries).write(self.tail, sqe),
            Place::Remote { base, .. } => rig.remote.set(base + at, sqe.as_bytes()),
        }
        self.tail += 1;
    }

    fn ring(&self) {
        self.doorbells[0].ring(self.tail % self.entries);
    }

    /// The completion that is next, as it is there at this moment.
    fn look(&self, rig: &Rig) -> Option<Cqe> {
        let window = match &self.cq {
            Place::Host(buffer) => buffer.window().clone(),
            Place::Remote { base, .. } => {
                let seen = Window::host(self.entries as usize * CqRing::SLOT).unwrap();
                seen.write(0, &rig.remote.bytes(*base, seen.len().min(self.entries as usize * 16))).unwrap();
                seen
            }
        };
        CqRing::new(window, self.entries).poll(self.head)
    }

    fn poll(&mut self, rig: &Rig) -> Option<Cqe> {
        let entry = self.look(rig)?;
        self.head += 1;
        self.doorbells[1].ring((self.head % u64::from(self.entries)) as u32);
        Some(entry)
    }

    fn wait(&mut self, rig: &Rig) -> Cqe {
        let clock = rig.device().clock();
        let deadline = clock.now() + Duration::from_secs(60);
        loop {
            if let Some(entry) = self.poll(rig) {
                return entry;
            }
            assert!(clock.now() < deadline, "queue {} got no completion in time", self.qid);
            clock.pause(Duration::ZERO);
        }
    }

    fn delete(self, rig: &mut Rig) {
        rig.client.admin_ok(queue_command::delete_io_sq(self.qid));
        rig.client.admin_ok(queue_command::delete_io_cq(self.qid));
    }
}

/// Every way for rings to lie, but both in host memory.
const PLACES: [(bool, bool); 3] = [(true, true), (true, false), (false, true)];

/// Reads of one block each, several at a time, over several laps: each completion is whole when it is seen, and its data
/// is there.
fn serve(rig: &mut Rig, queue: &mut Queue, commands: u16) {
    let data = pattern(9, DATA * 64);
    rig.device().poke(Nsid(1), Lba(0), &data).unwrap();
    let mut out: BTreeMap<u16, (usize, usize)> = BTreeMap::new();
    let (mut next, mut done) = (0, 0);
    while done < commands {
        let burst = (1 + next % 5).min(commands - next).min(queue.entries as u16 - 1 - out.len() as u16);
        for _ in 0..burst {
            let (cid, lba) = (next ^ 0x5a5a, u64::from(next % 64));
            let free = |place: &usize| out.values().all(|(_, taken)| taken != place);
            let place = (0..16).find(free).unwrap();
            rig.remote.set(AREA + place * DATA, &[0xee; DATA]);
            let sqe = rig.sgl(command::read(1, lba, 0), AREA + place * DATA, DATA);
            queue.push(rig, &sqe.with_cid(cid));
            out.insert(cid, (lba as usize, place));
            next += 1;
        }
        if burst > 0 {
            queue.ring();
        }
        let entry = queue.wait(rig);
        assert_eq!((entry.sqid, entry.dw0, entry.status()), (queue.qid, 0, Status::SUCCESS), "{entry:?}");
        let (lba, place) = out.remove(&entry.cid).unwrap_or_else(|| panic!("{entry:?} was seen torn"));
        assert!(
            rig.remote.bytes(AREA + place * DATA, DATA) == data[lba * DATA..][..DATA],
            "data is there when its completion is seen"
        );
        done += 1;
    }
}

#[test]
fn queues_in_remote_memory_serve_commands_over_many_laps() {
    for places in PLACES {
        for mut rig in both() {
            let mut queue = Queue::new(&mut rig, 2, 16, places);
            serve(&mut rig, &mut queue, 300);
            assert!(rig.device().statistics().remote_copies > 300, "entries are copied, too");
            queue.delete(&mut rig);
            rig.client.assert_clean();
        }
    }
}

#[test]
fn no_completion_is_seen_half_written_or_before_its_data() {
    for mut rig in both() {
        rig.remote.knobs().shred.store(true, Ordering::SeqCst);
        let mut queue = Queue::new(&mut rig, 2, 8, (true, true));
        serve(&mut rig, &mut queue, 60);
        queue.delete(&mut rig);
        rig.client.assert_clean();
    }
}

#[test]
fn several_queues_on_several_threads_lie_in_one_remote_memory() {
    let config = memory(1 << 20, 512).pollers(2);
    for mut rig in both_with(&config) {
        let mut queues: Vec<Queue> =
            (2..6).map(|qid| Queue::new(&mut rig, qid, 8, PLACES[usize::from(qid) % 3])).collect();
        for round in 0..20u16 {
            for queue in &mut queues {
                let sqe = rig.sgl(command::read(1, 0, 0), AREA + usize::from(queue.qid) * DATA, DATA);
                (0..5).for_each(|at| queue.push(&rig, &sqe.with_cid(round * 8 + at)));
                queue.ring();
            }
            for queue in &mut queues {
                let mut cids: Vec<u16> = (0..5).map(|_| queue.wait(&rig).cid).collect();
                cids.sort_unstable();
                assert_eq!(cids, (round * 8..round * 8 + 5).collect::<Vec<_>>());
            }
        }
        queues.into_iter().for_each(|queue| queue.delete(&mut rig));
        rig.client.assert_clean();
    }
}

#[test]
fn commands_of_a_deleted_queue_have_their_completions_when_it_is_gone() {
    let faults = FaultPlan::from_toml("[[fault]]\nkind='hang'\ncount=3").unwrap();
    for mut rig in both_with(&memory(1 << 20, 512).faults(faults)) {
        let mut queue = Queue::new(&mut rig, 2, 8, (true, true));
        (1..4).for_each(|cid| queue.push(&rig, &command::flush(1).with_cid(cid)));
        queue.ring();
        while rig.device().faults().len() < 3 {
            rig.device().clock().pause(Duration::from_micros(10));
        }
        rig.client.admin_ok(queue_command::delete_io_sq(2));
        let mut cids: Vec<u16> = (0..3)
            .map(|_| {
                let entry = queue.look(&rig).expect("all are in the ring by now");
                queue.head += 1;
                assert!(entry.status().same_code(Status::ABORTED_SQ_DELETION), "{entry:?}");
                entry.cid
            })
            .collect();
        cids.sort_unstable();
        assert_eq!(cids, [1, 2, 3]);
        rig.client.admin_ok(queue_command::delete_io_cq(2));
    }
}

#[test]
fn no_entry_is_overwritten_while_a_copy_of_it_is_in_flight() {
    for mut rig in both() {
        rig.remote.knobs().shred.store(true, Ordering::SeqCst);
        // A client sees an entry, and frees it, while the copy still reads the mirror.
        rig.remote.knobs().twice.store(true, Ordering::SeqCst);
        let mut queue = Queue::new(&mut rig, 2, 4, (false, true));
        serve(&mut rig, &mut queue, 120);
        queue.delete(&mut rig);
        rig.client.assert_clean();
    }
}

#[test]
fn a_torn_entry_in_remote_memory_is_made_whole() {
    // Torn for so long that this thread, too, gets a processor meanwhile.
    let faults = FaultPlan::from_toml("[[fault]]\nkind='torn'\nby='500ms'\ncount=1").unwrap();
    for mut rig in both_with(&memory(1 << 20, 512).faults(faults)) {
        let mut queue = Queue::new(&mut rig, 2, 8, (true, true));
        queue.push(&rig, &command::flush(1).with_cid(7));
        queue.ring();
        let clock = rig.device().clock();
        let until = clock.now() + Duration::from_secs(20);
        let seen = |queue: &Queue, sqid| {
            while queue.look(&rig).is_none_or(|entry| (entry.cid, entry.sqid) != (7, sqid)) {
                assert!(clock.now() < until, "{:?} instead of submission queue {sqid}", queue.look(&rig));
                clock.pause(Duration::ZERO);
            }
        };
        seen(&queue, 0);
        seen(&queue, 2);
    }
}

/// A queue with a command of identifier 1, of whose rings a copy is in flight for the next milliseconds.
fn in_flight_for_a_while(rig: &mut Rig) -> Queue {
    let mut queue = Queue::new(rig, 2, 8, (true, true));
    rig.remote.hold(true);
    queue.push(rig, &command::flush(1).with_cid(1));
    queue.ring();
    rig.expect_in_flight(1);
    rig.end_soon();
    queue
}

#[test]
fn no_entry_is_copied_after_its_memory_was_unmapped() {
    for mut rig in both() {
        let mut queue = in_flight_for_a_while(&mut rig);
        rig.device().dma().unmap(rig.mapped.iova(), REMOTE as u64).unwrap();
        rig.close();
        assert_eq!(rig.remote.in_flight(), 0);
        queue.push(&rig, &command::flush(1).with_cid(2));
        queue.ring();
        rig.device().clock().pause(Duration::from_millis(2));
        let rules = rig.client.broken();
        assert!(rules.contains(&warpbell_softctl::Rule::QueueMemoryUnmapped), "{rules:?}");
        queue.delete(&mut rig);
    }
}

#[test]
fn a_reset_ends_the_copies_of_rings() {
    for mut rig in both() {
        let queue = in_flight_for_a_while(&mut rig);
        rig.device().registers().write32(offset::CC, configuration().into_bits());
        wait_csts(rig.device(), |csts| !csts.rdy());
        rig.close();
        rig.device().clock().pause(Duration::from_millis(2));
        assert!(queue.look(&rig).is_none(), "its commands are forgotten");
    }
}

#[test]
fn a_ring_that_cannot_be_copied_is_left_alone_until_its_queue_is_made_again() {
    for mut rig in both() {
        let mut queue = Queue::new(&mut rig, 2, 8, (true, true));
        rig.remote.knobs().fail.store(1, Ordering::SeqCst);
        queue.push(&rig, &command::flush(1).with_cid(1));
        queue.ring();
        let clock = rig.device().clock();
        let until = clock.now() + Duration::from_millis(20);
        while clock.now() < until {
            assert!(queue.look(&rig).is_none());
            clock.pause(Duration::from_micros(50));
        }
        queue.delete(&mut rig);
        let mut queue = Queue::new(&mut rig, 2, 8, (true, true));
        queue.push(&rig, &command::flush(1).with_cid(2));
        queue.ring();
        assert_eq!(queue.wait(&rig).cid, 2);
    }
}

#[test]
fn more_rings_than_can_be_mirrored_are_refused() {
    let config = memory(1 << 20, 512).max_entries(65536);
    for client in Client::both(&config) {
        let remote = Double::for_device(client.device.is_stepped(), 16 << 20, 7);
        let mut rig = Rig::with(client, remote);
        // Each takes 2 MiB, and there are 8 for each thread.
        let mut create = |qid: u16| {
            let at = rig.at(usize::from(qid) << 20);
            rig.client.admin(queue_command::create_io_cq(qid, 65535, at, None)).status()
        };
        (2..6).for_each(|qid| assert!(create(qid).is_ok()));
        assert!(create(6).same_code(Status::INTERNAL_ERROR));
        rig.client.admin_ok(queue_command::delete_io_cq(3));
        let at = rig.at(6 << 20);
        rig.client.admin_ok(queue_command::create_io_cq(6, 65535, at, None));
    }
}
