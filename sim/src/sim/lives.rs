//! The lives of queues: every object that kernels may attach to, from its publication until nobody can hold it. What is
//! known of them is read from the pages that host and kernels share, turn by turn, not asked of whoever writes them.

use std::mem::offset_of;
use std::ops::Range;
use std::time::Duration;

use warpbell_kernels::abi;
use warpbell_nvme::AdminOpcode;

use super::wire::Seen;
use crate::memory::peek;

/// One queue object.
#[derive(Clone, Debug)]
pub(super) struct Life {
    /// Which of the attachment's queues it is, or was.
    pub(super) index: usize,
    pub(super) queue: abi::QueueRef,
    /// When the controller was asked to make it: from then on faults may hit it.
    pub(super) made: Duration,
    /// When kernels could attach.
    pub(super) from: Duration,
    /// When it was declared lost.
    pub(super) lost: Option<Duration>,
    /// When it was declared dead: no successor comes.
    pub(super) dead: Option<Duration>,
    /// When its successor was published.
    pub(super) replaced: Option<Duration>,
    /// When the controller had forgotten it.
    pub(super) gone: Option<Duration>,
    /// Where its reference lies, if it is a successor: a queue that nobody had come to is replaced in place.
    reference: Option<u64>,
    /// Addresses of its hazard slots.
    hazards: Range<u64>,
    /// What lanes held when they acted last.
    held: Held,
    /// Its memory is another's, or nobody's: there is nothing to be read there.
    over: bool,
}

/// How many lanes have which kind of hazard slot.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Held {
    /// They may touch rings, words, state and doorbells.
    pub(super) taken: usize,
    /// They look at the host's page.
    pub(super) waiting: usize,
}

impl Life {
    fn new(index: usize, queue: abi::QueueRef, from: Duration, wire: &Seen) -> Life {
        let creations = wire.of(AdminOpcode::CREATE_IO_CQ).filter(|sent| u32::from(sent.qid()) == queue.qid);
        let made = creations.map(|sent| sent.at).max().unwrap_or(from);
        let first: u64 = peek(queue.host + offset_of!(abi::QueueHost, hazards) as u64);
        let hazards = first..first + if first == 0 { 0 } else { lanes(&queue) * 4 };
        let (lost, dead, replaced, gone) = (None, None, None, None);
        Life {
            index,
            queue,
            made,
            from,
            lost,
            dead,
            replaced,
            gone,
            reference: None,
            hazards,
            held: Held::default(),
            over: false,
        }
    }

    pub(super) fn qid(&self) -> u16 {
        self.queue.qid as u16
    }

    /// What kernels were told about it.
    fn told(&self) -> [bool; 3] {
        [self.lost, self.dead, self.replaced].map(|when| when.is_some())
    }

    /// What kernels call it in their records.
    pub(super) fn name(&self) -> u32 {
        self.queue.qid & 0xffff | self.queue.epoch << 16
    }

    /// What lanes hold of it now.
    pub(super) fn held(&self) -> Held {
        let mut held = Held::default();
        if !self.over {
            for hazard in words(&self.hazards).map(peek::<u32>) {
                held.taken += usize::from(hazard == abi::HAZARD_TAKEN);
                held.waiting += usize::from(hazard == abi::HAZARD_WAITING);
            }
        }
        held
    }

    /// What kernels counted on it: completions without an owner, commands that completed late, wrong SQ heads.
    pub(super) fn counts(&self) -> Option<[u64; 3]> {
        let sum = |lanes: [u32; 32]| lanes.into_iter().map(u64::from).sum();
        let of = |state: abi::QueueState| [sum(state.spurious), sum(state.late), state.sqhd_mismatch.into()];
        (!self.over).then(|| of(peek(self.queue.state)))
    }

    /// Commands that were given up, and whose completion has not come. No kernel runs.
    pub(super) fn unresolved(&self) -> Vec<u16> {
        let mut cids = Vec::new();
        if self.over {
            return cids;
        }
        let (state, shift) = (peek::<abi::QueueState>(self.queue.state), self.queue.cq_shift);
        let head = state.head;
        // The warp of an exclusive queue tells nobody how far it is: there the host waits in vain.
        let shared = self.queue.sharing == abi::SHARING_SHARED;
        let come = (0..1u64 << shift)
            .filter(|_| shared)
            .take_while(|ahead| posted(self.queue.cq, shift, head, *ahead));
        let entry = |ahead: u64| peek::<u64>(self.queue.cq + ((head + ahead) & ((1 << shift) - 1)) * 16 + 8);
        let come: Vec<u16> = come.map(|ahead| (entry(ahead) >> 32) as u16).collect();
        for lane in 0..lanes(&self.queue) {
            let mask: u32 = peek(self.queue.quarantine + 4 * lane);
            for k in (0..32).filter(|k| mask >> k & 1 != 0) {
                let word: u32 = peek(self.queue.words + 4 * (lane << self.queue.token_shift | k));
                let cid = (lane << (self.queue.local_bits - 5) | k) as u16;
                if word & abi::SLOT_PENDING != 0 && !come.contains(&cid) {
                    cids.push(cid);
                }
            }
        }
        cids
    }

    /// What whoever has taken a hazard slot may touch.
    fn touched(&self) -> [Range<u64>; 5] {
        let queue = &self.queue;
        let of = |first: u64, bytes: u64| first..first + bytes;
        [
            of(queue.sq, 64 << queue.sq_shift),
            of(queue.cq, 16 << queue.cq_shift),
            of(queue.state, size_of::<abi::QueueState>() as u64),
            of(queue.words, (lanes(queue) * 4) << queue.token_shift),
            of(queue.quarantine, lanes(queue) * 4),
        ]
    }

    /// What whoever waits looks at.
    fn page(&self) -> Range<u64> {
        self.queue.host..self.queue.host + size_of::<abi::QueueHost>() as u64
    }

    /// How many lanes that hold this one another one could disturb.
    fn disturbed_by(&self, new: &Life) -> usize {
        let overlap = |one: &Range<u64>, other: &Range<u64>| one.start < other.end && other.start < one.end;
        let its = new.touched();
        let same = self.queue.sq_doorbell == new.queue.sq_doorbell
            || self.touched().iter().any(|own| its.iter().any(|other| overlap(own, other)));
        let taken = if same { self.held.taken } else { 0 };
        let page = self.page() == new.page();
        if page { taken.max(self.held.taken + self.held.waiting) } else { taken }
    }
}

fn lanes(queue: &abi::QueueRef) -> u64 {
    u64::from(queue.warp_slots) * 32
}

fn words(range: &Range<u64>) -> impl Iterator<Item = u64> + use<> {
    (range.start..range.end).step_by(4)
}

/// All of them, and what was wrong with any.
#[derive(Debug, Default)]
pub(super) struct Lives {
    pub(super) all: Vec<Life>,
    /// Rules that were broken, and when.
    pub(super) wrong: Vec<String>,
    /// Admin commands, and resets, that were looked at.
    looked: (usize, usize),
}

/// What has changed since the last pass.
#[derive(Debug, Default)]
pub(super) struct News {
    /// Successors: which of the attachment's queues they are, and where their counters stand.
    pub(super) born: Vec<(usize, abi::QueueRef, u64)>,
    /// Queues that the controller has forgotten.
    pub(super) gone: Vec<abi::QueueRef>,
    /// Kernels were told something.
    pub(super) told: bool,
}

impl Lives {
    /// Queues of a new attachment.
    pub(super) fn begin(&mut self, queues: &[abi::QueueRef], now: Duration, wire: &Seen) {
        self.looked = (wire.commands.len(), wire.disabled.len());
        let life = |(index, queue): (usize, &abi::QueueRef)| Life::new(index, *queue, now, wire);
        self.all.extend(queues.iter().enumerate().map(life));
    }

    /// The attachment is about to go.
    pub(super) fn end(&mut self) {
        self.all.iter_mut().for_each(|life| life.over = true);
    }

    /// Those that kernels may still attach to, or wait on.
    pub(super) fn current(&self) -> impl Iterator<Item = &Life> {
        self.all.iter().filter(|life| !life.over && life.replaced.is_none())
    }

    /// Kernels have acted.
    pub(super) fn take_hazards(&mut self) {
        let lost = self.all.iter_mut().filter(|life| life.lost.is_some() && !life.over);
        lost.for_each(|life| life.held = life.held());
    }

    /// One look at everything, before anybody acts on it. `forgotten`: when the controller last had no queues at all.
    pub(super) fn look(&mut self, now: Duration, wire: &Seen, forgotten: Option<Duration>) -> News {
        let mut news = News::default();
        for life in self.all.iter_mut().filter(|life| life.gone.is_none()) {
            let deleted = deleted(wire, life);
            let reset = forgotten.filter(|at| *at >= life.from);
            life.gone = [deleted, reset].into_iter().flatten().min();
            news.gone.extend(life.gone.map(|_| life.queue));
        }
        for index in 0..self.all.len() {
            let before = self.all[index].told();
            news.born.extend(self.look_at(index, now, wire));
            news.told |= self.all[index].told() != before;
        }
        self.look_at_commands(wire);
        self.look_at_resets(wire);
        news
    }

    /// Before the controller is reset, everybody is told that his queue is lost.
    fn look_at_resets(&mut self, wire: &Seen) {
        let living = self.all.iter().filter(|life| !life.over && life.lost.is_none());
        if wire.disabled.len() > self.looked.1 {
            let text = |life: &Life| format!("queue {} was not declared lost before a reset", life.queue.qid);
            self.wrong.extend(living.map(text));
        }
        self.looked.1 = wire.disabled.len();
    }

    fn look_at(&mut self, index: usize, now: Duration, wire: &Seen) -> Option<(usize, abi::QueueRef, u64)> {
        let life = &mut self.all[index];
        if life.over || life.replaced.is_some() {
            return None;
        }
        let field = |offset: usize| life.queue.host + offset as u64;
        let state: u32 = peek(field(offset_of!(abi::QueueHost, state)));
        let successor: u64 = peek(field(offset_of!(abi::QueueHost, successor)));
        if state != abi::QUEUE_RUNNING {
            life.lost.get_or_insert(now);
        }
        if state == abi::QUEUE_DEAD {
            life.dead.get_or_insert(now);
        }
        let renewed = |at: &u64| peek::<abi::QueueRef>(*at).epoch != life.queue.epoch;
        let in_place = life.reference.filter(|at| life.lost.is_some() && renewed(at));
        let successor = Some(successor).filter(|at| *at != 0).or(in_place)?;
        life.replaced = Some(now);
        let (qid, lost, gone) = (life.queue.qid, life.lost, life.gone);
        if lost.is_none() {
            self.wrong.push(format!("queue {qid} has a successor and is not declared lost"));
        }
        if gone.is_none() {
            let text = "has a successor, and the controller was not made to forget it: its commands may still \
                        touch memory";
            self.wrong.push(format!("queue {qid} {text}"));
        }
        let queue: abi::QueueRef = peek(successor);
        let of = self.all[index].index;
        let new = Life { reference: Some(successor), ..Life::new(of, queue, now, wire) };
        self.check_birth(index, &new);
        self.all.push(new);
        Some((of, queue, peek::<abi::QueueState>(queue.state).head))
    }

    /// What must be true of a successor when kernels first see it.
    fn check_birth(&mut self, of: usize, new: &Life) {
        let (old, qid) = (self.all[of].clone(), new.queue.qid);
        let mut wrong = Vec::new();
        if new.queue.epoch != old.queue.epoch + 1 {
            wrong.push(format!("epoch {} follows {}", new.queue.epoch, old.queue.epoch));
        }
        let layout = |queue: &abi::QueueRef| {
            (queue.warp_slots, queue.local_bits, queue.token_shift, queue.sharing, queue.sq_shift)
        };
        if layout(&new.queue) != layout(&old.queue) {
            wrong.push("its layout is not that of the queue that it replaces".to_owned());
        }
        let [_, cq, _, words_at, quarantine] = new.touched();
        // Hazard slots may be taken: whoever comes late takes one before he looks whether the queue is another by then.
        for (what, range) in [("completion slots", words_at), ("quarantine masks", quarantine)] {
            if words(&range).any(|at| peek::<u32>(at) != 0) {
                wrong.push(format!("its {what} are not zero"));
            }
        }
        let start = peek::<abi::QueueState>(new.queue.state).head;
        if (0..1u64 << new.queue.cq_shift).any(|at| posted(cq.start, new.queue.cq_shift, start, at)) {
            wrong.push("a completion lies in its ring".to_owned());
        }
        for other in self.all.iter_mut().filter(|other| !other.over) {
            let disturbed = other.disturbed_by(new);
            if disturbed != 0 {
                wrong.push(format!("it uses what {disturbed} lanes of queue {} hold", other.queue.qid));
            }
            other.over = other.page() == new.page();
        }
        self.wrong.extend(wrong.into_iter().map(|why| format!("successor queue {qid}: {why}")));
    }

    /// Kernels are told before a queue is deleted; an identifier is used again only when nobody can ring the doorbells of
    /// a queue that had it.
    fn look_at_commands(&mut self, wire: &Seen) {
        for command in &wire.commands[self.looked.0..] {
            let same = |life: &&Life| life.qid() == command.qid() && !life.over && life.from <= command.at;
            if command.opcode == AdminOpcode::DELETE_IO_SQ {
                let living =
                    self.all.iter().filter(same).any(|life| life.lost.is_none() && life.gone.is_none());
                if living {
                    self.wrong.push(format!("queue {} is deleted and was not declared lost", command.qid()));
                }
            }
            if command.opcode == AdminOpcode::ABORT {
                // Nobody has acted since it was sent.
                let (qid, cid) = (command.qid(), command.aborted_cid());
                if self
                    .all
                    .iter()
                    .filter(same)
                    .any(|life| life.gone.is_none() && !life.unresolved().contains(&cid))
                {
                    self.wrong
                        .push(format!("command {cid:#06x} of queue {qid} is aborted, and is not given up"));
                }
            }
            if command.opcode != AdminOpcode::CREATE_IO_SQ {
                continue;
            }
            for life in self.all.iter().filter(same) {
                let held = life.held.taken;
                if held != 0 {
                    let text =
                        format!("queue {} is created while {held} lanes hold an earlier one", life.qid());
                    self.wrong.push(text);
                }
            }
        }
        self.looked.0 = wire.commands.len();
    }
}

/// Whether the entry that comes `ahead` of position `start` says that it was posted.
fn posted(cq: u64, shift: u32, start: u64, ahead: u64) -> bool {
    let index = start + ahead;
    let entry: u64 = peek(cq + (index & ((1 << shift) - 1)) * 16 + 8);
    (entry >> 48 ^ index >> shift) & 1 != 0
}

/// When both its queues were deleted.
fn deleted(wire: &Seen, life: &Life) -> Option<Duration> {
    let done = |opcode| {
        let of = wire.of(opcode).filter(|command| command.qid() == life.qid() && command.at >= life.from);
        of.filter_map(|command| command.succeeded()).min()
    };
    Some(done(AdminOpcode::DELETE_IO_SQ)?.max(done(AdminOpcode::DELETE_IO_CQ)?))
}
