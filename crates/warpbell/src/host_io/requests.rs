//! Requests of the host over one queue of its own: split into commands, kept in flight up to a depth, and returned when
//! they have ended. Whoever owns it says when to push and reap: no thread, no waiting, no lock.

use std::collections::VecDeque;
use std::time::Duration;

use slab::Slab;
use warpbell_driver::{Completion, IoQueueOptions, Outcome};
use warpbell_hw::Nsid;

use super::DataPointers;
use super::request::{IoEnd, IoMemory, IoOp, IoOutcome, IoRequest, Piece, RANGE_BYTES};
use crate::queues::memory::Memory;
use crate::{Buffer, Error, HostQueue, HostQueueSpec, Ssd};

/// The most bytes of one command: larger ones gain nothing, and hold up others.
const PIECE_BYTES: u64 = 1 << 20;

/// The most bytes of a command of an SSD that reads or writes.
pub(crate) fn command_bytes(memory: &Memory) -> u64 {
    let most = memory.controller().max_transfer_bytes().unwrap_or(u64::MAX);
    most.min(DataPointers::max_bytes(memory.data_pointer())).min(PIECE_BYTES)
}

warpbell_base::options! {
    /// How a queue of requests is driven.
    #[derive(Clone, Debug)]
    pub struct RequestQueueSpec {
        /// The namespace.
        pub nsid: Nsid,
        /// Commands in flight at most.
        pub depth: u32,
        /// Ring entries: more than `depth`.
        pub entries: u32,
        /// The longest that one command may take.
        pub timeout: Duration,
    } no new
}

impl RequestQueueSpec {
    /// So many commands in flight, with as many entries as they need, and 30 s for each.
    pub fn new(nsid: Nsid, depth: u32) -> RequestQueueSpec {
        let entries = depth.saturating_add(1).checked_next_power_of_two().unwrap_or(u32::MAX);
        RequestQueueSpec { nsid, depth, entries, timeout: Duration::from_secs(30) }
    }
}

/// A request of which commands are in flight, or to come.
struct Live<M, T> {
    request: IoRequest<M, T>,
    /// Blocks of which commands were pushed.
    pushed: u64,
    /// All its commands are pushed, or one failed.
    complete: bool,
    in_flight: u32,
    outcome: IoOutcome,
}

impl<M, T> Live<M, T> {
    /// The first failure counts. No more commands are pushed.
    fn fail(&mut self, outcome: IoOutcome) {
        self.complete = true;
        if self.outcome == IoOutcome::Done {
            self.outcome = outcome;
        }
    }

    fn end(self) -> IoEnd<M, T> {
        let IoRequest { op, lba, blocks, memory, tag, .. } = self.request;
        IoEnd { op, lba, blocks, outcome: self.outcome, memory: Some(memory), tag }
    }
}

/// Requests over one queue of the host's. `M` keeps memory, `T` names a request for its owner.
pub struct RequestQueue<M: IoMemory, T> {
    /// There while there is something to do.
    queue: Option<HostQueue>,
    memory: Memory,
    name: String,
    spec: RequestQueueSpec,
    block: u64,
    /// The most blocks of a read or a write, and of a command that writes zeroes.
    piece_blocks: u64,
    zero_blocks: u64,
    /// The most blocks of a command that deallocates.
    deallocate_blocks: u64,
    requests: Slab<Live<M, T>>,
    /// Requests of which commands are still to be pushed.
    waiting: VecDeque<usize>,
    /// The request of the command in each slot.
    slots: Vec<Option<usize>>,
    in_flight: u32,
    /// Ranges of commands that deallocate, one for each slot, and how commands point to them.
    ranges: Option<(Buffer, DataPointers)>,
}

impl<M: IoMemory, T> RequestQueue<M, T> {
    /// Its queue is made with the first request, or by [`make_ready`](Self::make_ready).
    pub fn new(ssd: &Ssd, spec: RequestQueueSpec) -> Result<RequestQueue<M, T>, Error> {
        let block = u64::from(ssd.namespace(Some(spec.nsid))?.block_size);
        Ok(RequestQueue::over(ssd.memory().clone(), ssd.name().to_string(), spec, block))
    }

    /// The same for an SSD of this name, of which queues have the memory.
    pub(crate) fn over(
        memory: Memory,
        name: String,
        spec: RequestQueueSpec,
        block: u64,
    ) -> RequestQueue<M, T> {
        let blocks = |bytes: u64| (bytes / block).clamp(1, 1 << 16);
        let limits = memory.controller().command_limits();
        // Without a limit of its own for zeroes, a controller takes what it takes of data.
        let most = limits.zeroes_bytes.or(memory.controller().max_transfer_bytes()).unwrap_or(u64::MAX);
        let (piece_blocks, zero_blocks) = (blocks(command_bytes(&memory)), blocks(most));
        let deallocate_blocks = limits.deallocate_blocks().into();
        let (requests, waiting, slots) = (Slab::new(), VecDeque::new(), Vec::new());
        let (queue, ranges, in_flight) = (None, None, 0);
        RequestQueue {
            queue,
            memory,
            name,
            spec,
            block,
            piece_blocks,
            zero_blocks,
            deallocate_blocks,
            requests,
            waiting,
            slots,
            in_flight,
            ranges,
        }
    }

    /// The SSD's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How it is driven.
    pub fn spec(&self) -> &RequestQueueSpec {
        &self.spec
    }

    /// Bytes of a block.
    pub fn block(&self) -> u64 {
        self.block
    }

    /// Requests that have not ended.
    pub fn len(&self) -> usize {
        self.requests.len()
    }

    /// Whether all have ended.
    pub fn is_empty(&self) -> bool {
        self.requests.is_empty()
    }

    /// Whether commands are still to be pushed.
    pub fn is_waiting(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// One more request, behind the others. [`push`](Self::push) begins it.
    pub fn add(&mut self, request: IoRequest<M, T>) {
        let (pushed, in_flight, outcome, complete) = (0, 0, IoOutcome::Done, false);
        let index = self.requests.insert(Live { request, pushed, complete, in_flight, outcome });
        self.waiting.push_back(index);
    }

    /// Makes the queue, if there is none.
    pub fn make_ready(&mut self) -> Result<(), Error> {
        if self.queue.is_some() {
            return Ok(());
        }
        let spec = HostQueueSpec::new(self.spec.entries, IoQueueOptions::new().timeout(self.spec.timeout));
        // Slots are at most as many as entries.
        let buffer = self.memory.buffer(self.spec.entries as usize * RANGE_BYTES)?;
        let data = DataPointers::new(buffer.as_ref(), self.memory.data_pointer());
        let queue = HostQueue::new(&self.memory, self.spec.nsid, spec, buffer.clone())?;
        self.slots = vec![None; queue.depth() as usize];
        (self.ranges, self.queue) = (Some((buffer, data)), Some(queue));
        Ok(())
    }

    /// All requests of which commands are still to be pushed, taken back: where no queue could be made for them.
    pub fn take_waiting(&mut self) -> Vec<IoRequest<M, T>> {
        let waiting = std::mem::take(&mut self.waiting);
        waiting.into_iter().map(|index| self.requests.remove(index).request).collect()
    }

    /// Ends all requests of which commands are still to be pushed: where no queue could be made for them.
    pub fn fail_waiting(&mut self, ended: &mut Vec<IoEnd<M, T>>) {
        for index in std::mem::take(&mut self.waiting) {
            let mut live = self.requests.remove(index);
            live.fail(IoOutcome::QueueGone);
            ended.push(live.end());
        }
    }

    /// Deletes the queue. Requests that have not ended are gone with it; their memory is kept if the controller may still
    /// use it.
    pub fn close(mut self) -> Result<(), Error> {
        self.end_queue(None, &mut Vec::new())
    }

    /// Looks at the clock, and whether the controller still knows the queue: else its requests end. To be called now and
    /// then while nothing moves, and before requests begin on an idle queue.
    pub fn check(&mut self, ended: &mut Vec<IoEnd<M, T>>) {
        let retired = self.queue.as_mut().is_some_and(|queue| {
            queue.check_deadlines();
            queue.is_retired()
        });
        if retired {
            self.give_up(None, ended);
        }
    }

    /// The same for an idle queue, without the clock: a reset takes the queue away.
    pub fn check_idle(&mut self, ended: &mut Vec<IoEnd<M, T>>) {
        if self.in_flight == 0 && self.queue.as_ref().is_some_and(|queue| queue.is_retired()) {
            self.give_up(None, ended);
        }
    }

    /// Lets the time pass in which its SSD answers, where that is virtual; else lets other threads run.
    pub fn pause(&mut self) {
        if let Some(queue) = &mut self.queue {
            queue.pause(Duration::ZERO);
        }
    }

    /// Pushes commands as long as there is room, if there is a queue. Whether there were some.
    pub fn push(&mut self) -> bool {
        let before = self.in_flight;
        while let Some(index) = self.waiting.front().copied() {
            let live = &self.requests[index];
            if live.complete {
                self.waiting.pop_front();
                continue;
            }
            let most = if live.request.op == IoOp::Flush { 1 } else { self.spec.depth };
            if self.in_flight >= most || !self.push_one(index) {
                break;
            }
        }
        if let Some(queue) = &mut self.queue {
            queue.ring();
        }
        self.in_flight != before
    }

    /// Pushes the next command of a request; false: there is no room.
    fn push_one(&mut self, index: usize) -> bool {
        let (Some(queue), Some(ranges)) = (&mut self.queue, &self.ranges) else { return false };
        let live = &mut self.requests[index];
        let most = match live.request.op {
            IoOp::Read | IoOp::Write => self.piece_blocks,
            IoOp::WriteZeroes => self.zero_blocks,
            IoOp::Deallocate => self.deallocate_blocks,
            IoOp::Flush => 0,
        };
        let piece = Piece {
            at: live.pushed,
            blocks: most.min(live.request.blocks - live.pushed),
            block: self.block,
            nsid: self.spec.nsid,
        };
        let request = &live.request;
        let Some(token) = queue.push_with(|token| piece.command(request, ranges, token.slot)) else {
            return false;
        };
        live.pushed += piece.blocks;
        live.complete = live.pushed >= live.request.blocks;
        live.in_flight += 1;
        self.slots[usize::from(token.slot)] = Some(index);
        self.in_flight += 1;
        true
    }

    /// Takes completions until `most` requests have ended. Whether there were some.
    pub fn reap(&mut self, most: usize, ended: &mut Vec<IoEnd<M, T>>) -> bool {
        let mut any = false;
        while ended.len() < most
            && let Some(completion) = self.queue.as_mut().and_then(|queue| queue.pop())
        {
            any = true;
            self.complete(completion, ended);
        }
        any
    }

    fn complete(&mut self, completion: Completion, ended: &mut Vec<IoEnd<M, T>>) {
        let Some(index) = self.slots[usize::from(completion.token.slot)].take() else { return };
        self.in_flight -= 1;
        let live = &mut self.requests[index];
        live.in_flight -= 1;
        match completion.outcome {
            Outcome::Completed(status) if status.is_ok() => {}
            Outcome::Completed(status) => live.fail(IoOutcome::Status(status)),
            Outcome::TimedOut => {
                live.fail(IoOutcome::TimedOut);
                return self.give_up(Some(index), ended);
            }
        }
        if live.in_flight == 0 && live.complete {
            self.end(index, ended);
        }
    }

    fn end(&mut self, index: usize, ended: &mut Vec<IoEnd<M, T>>) {
        // One that failed before all of it was pushed may still wait.
        if self.waiting.front() == Some(&index) {
            self.waiting.pop_front();
        }
        ended.push(self.requests.remove(index).end());
    }

    /// After a command without an answer, which may still use its memory, and after a reset: the queue goes, and all that
    /// is on it.
    fn give_up(&mut self, first: Option<usize>, ended: &mut Vec<IoEnd<M, T>>) {
        if let Err(error) = self.end_queue(first, ended) {
            tracing::warn!(ssd = self.name, %error, "a host queue was not deleted");
        }
    }

    fn end_queue(&mut self, first: Option<usize>, ended: &mut Vec<IoEnd<M, T>>) -> Result<(), Error> {
        let mut on_it: Vec<usize> =
            first.into_iter().chain(self.slots.iter_mut().filter_map(Option::take)).collect();
        on_it.sort_unstable();
        on_it.dedup();
        let mut gone = Vec::new();
        for index in on_it {
            self.requests[index].fail(IoOutcome::QueueGone);
            self.end(index, &mut gone);
        }
        (self.in_flight, self.ranges) = (0, None);
        let deleted = self.queue.take().map_or(Ok(()), HostQueue::delete);
        if deleted.is_err() && !self.memory.is_let_go() {
            // The controller may still write to their memory.
            let kept: Vec<_> = gone.iter_mut().filter_map(|end| end.memory.take()).map(M::keep).collect();
            self.memory.controller().keep_until_disabled(kept);
        }
        ended.append(&mut gone);
        deleted
    }
}

impl<M: IoMemory, T> Drop for RequestQueue<M, T> {
    /// What is in flight may move data until the queue is deleted.
    fn drop(&mut self) {
        self.give_up(None, &mut Vec::new());
    }
}

#[cfg(test)]
mod tests {
    use std::any::Any;
    use std::sync::Arc;

    use warpbell_hw::Lba;
    use warpbell_nvme::NvmOpcode;
    use warpbell_softctl::FaultPlan;

    use super::*;
    use crate::OpenOptions;

    #[test]
    fn what_is_split_ends_once_and_before_a_flush_behind_it() {
        let ssd = Ssd::open(&"soft:size=4m,mdts=1".parse().unwrap(), &OpenOptions::new()).unwrap();
        let buffer = ssd.buffer(64 << 10).unwrap();
        let data = DataPointers::new(buffer.as_ref(), ssd.data_path().data_pointer);
        let spec = RequestQueueSpec::new(Nsid(1), 2).timeout(Duration::from_secs(60));
        let mut queue = RequestQueue::new(&ssd, spec).unwrap();
        for (tag, op) in [IoOp::Write, IoOp::Flush, IoOp::Read].into_iter().enumerate() {
            let blocks = if op == IoOp::Flush { 0 } else { 128 };
            let data = (op != IoOp::Flush).then_some((data, 0));
            queue.add(IoRequest { op, lba: Lba(9), blocks, data, memory: buffer.clone(), tag });
        }
        queue.make_ready().unwrap();
        let mut ended = vec![];
        while !queue.is_empty() {
            queue.push();
            queue.reap(usize::MAX, &mut ended);
        }
        let told: Vec<_> = ended.iter().map(|end| (end.tag, end.outcome, end.blocks)).collect();
        assert_eq!(told[0], (0, IoOutcome::Done, 128));
        assert!(told.len() == 3 && told.iter().all(|end| end.1 == IoOutcome::Done));
        queue.close().unwrap();
    }

    /// Runs requests of this kind, each of so many blocks; the commands that it took.
    fn commands(name: &str, op: IoOp, opcode: NvmOpcode, blocks: u64) -> u64 {
        let ssd = Ssd::open(&name.parse().unwrap(), &OpenOptions::new()).unwrap();
        let mut queue = RequestQueue::new(&ssd, RequestQueueSpec::new(Nsid(1), 4)).unwrap();
        queue.add(IoRequest { op, lba: Lba(3), blocks, data: None, memory: None::<Buffer>, tag: () });
        queue.make_ready().unwrap();
        let mut ended = vec![];
        while ended.is_empty() {
            queue.push();
            queue.reap(usize::MAX, &mut ended);
        }
        assert_eq!(ended[0].outcome, IoOutcome::Done, "{name}");
        queue.close().unwrap();
        let soft = ssd.soft().unwrap();
        assert!(soft.violations().is_empty(), "{name}: {:?}", soft.violations());
        soft.statistics().commands(opcode)
    }

    #[test]
    fn zeroes_and_ranges_have_limits_of_their_own() {
        let zeroes = |name| commands(name, IoOp::WriteZeroes, NvmOpcode::WRITE_ZEROES, 512);
        assert_eq!(zeroes("soft:size=4m"), 2, "as MDTS has it");
        assert_eq!(zeroes("soft:size=4m,wzsl=1"), 32);
        assert_eq!(zeroes("soft:size=4m,wzsl=6"), 1, "MDTS is of data");
        let ranges = |name| commands(name, IoOp::Deallocate, NvmOpcode::DATASET_MANAGEMENT, 512);
        assert_eq!(ranges("soft:size=4m,dmrl=1"), 1);
        assert_eq!(ranges("soft:size=4m,dmrsl=100"), 6);
        assert_eq!(ranges("soft:size=4m,dmrsl=100,dmsl=64"), 8);
    }

    /// Memory, and what counts the requests over it that are not over.
    struct Counted {
        _user: Arc<()>,
        memory: Arc<()>,
    }

    impl IoMemory for Counted {
        fn keep(self) -> Box<dyn Any + Send> {
            Box::new(self.memory)
        }
    }

    fn undeleting(half: &str) -> Ssd {
        let text = format!(
            "[[fault]]\nkind = \"fail\"\nadmin = \"delete_i/o_{half}_queue\"\nstatus = \"Internal Error\"\n\
             [[fault]]\nkind = \"drop\"\nopcode = \"read\"\nlba = 8\n"
        );
        let options = OpenOptions::new().faults(Some(FaultPlan::from_toml(&text).unwrap()));
        Ssd::open(&"soft:size=1m".parse().unwrap(), &options).unwrap()
    }

    #[test]
    fn memory_of_a_queue_that_was_not_deleted_is_kept_and_its_user_is_not() {
        for half in ["submission", "completion"] {
            let ssd = undeleting(half);
            let buffer = ssd.buffer(4096).unwrap();
            let data = Some((DataPointers::new(buffer.as_ref(), ssd.data_path().data_pointer), 0));
            let spec = RequestQueueSpec::new(Nsid(1), 4).timeout(Duration::from_millis(200));
            let mut queue = RequestQueue::new(&ssd, spec).unwrap();
            let (user, memory) = (Arc::new(()), Arc::new(()));
            let mut run = |lba| {
                let counted = Counted { _user: user.clone(), memory: memory.clone() };
                let (op, lba) = (IoOp::Read, Lba(lba));
                queue.add(IoRequest { op, lba, blocks: 1, data, memory: counted, tag: () });
                let mut ended = vec![];
                while ended.is_empty() {
                    queue.make_ready().unwrap();
                    queue.push();
                    queue.reap(usize::MAX, &mut ended);
                    queue.check(&mut ended);
                }
                ended.pop().unwrap()
            };
            let lost = run(8);
            assert!(lost.outcome == IoOutcome::TimedOut && lost.memory.is_none());
            assert_eq!((Arc::strong_count(&user), Arc::strong_count(&memory)), (1, 2));
            // Over another queue.
            assert_eq!(run(9).outcome, IoOutcome::Done);
            let text = queue.close().unwrap_err().to_string();
            assert!(text.contains(&format!("cannot delete the {half} queue of queue 2")), "{text}");
            let kernels = ssd.attach(&crate::AttachOptions::new()).unwrap();
            let text = kernels.close().unwrap_err().to_string();
            assert!(text.contains(&format!("cannot delete the {half} queue of queue 3")), "{text}");
            assert!(text.ends_with("which stay mapped until the SSD is closed"), "{text}");
            drop((ssd, buffer));
            assert_eq!(Arc::strong_count(&memory), 1, "the controller was disabled");
        }
    }
}
