//! What is tried exhaustively: so many warps, entries and commands.

use std::collections::BTreeSet;
use std::mem::offset_of;

use warpbell_kernels::abi::{self, Plain};
use warpbell_kernels::cpu::Module;
use zerocopy::IntoBytes;

use super::alike;
use super::arena::Arena;
use super::device::{Device, POISON, Rings};
use super::model::Model;
use super::search::{Budget, Report, Search};
use super::symmetry::{Names, Symmetry};
use crate::cpu_launch_bytes;

/// The bounds of one check. `Scope::shared` and `Scope::exclusive` give small ones; the fields are there to be changed.
#[derive(Clone, Debug)]
pub struct Scope {
    /// Warps, each of one lane.
    pub warps: u32,
    /// Entries of each ring.
    pub entries: u32,
    /// Commands of each warp.
    pub commands: u32,
    /// Commands that a warp submits before it waits for the first.
    pub async_depth: u32,
    /// `SHARING_*`.
    pub sharing: u32,
    /// The CQ doorbell is rung when so many completions are unreported.
    pub cq_doorbell_batch: u32,
    /// A doorbell is rung at least at each multiple of `1 << ring_shift`.
    pub ring_shift: u32,
    /// How often all deadlines may pass.
    pub leaps: u64,
    /// Whether a warp asks again with each consumed token.
    pub stale_tokens: bool,
    /// Where counters start.
    pub start: u64,
    /// Whether moves that make no difference are tried in one order only, and warps count as alike.
    pub reduce: bool,
}

impl Scope {
    /// `warps` warps on one queue of `entries` entries, with `commands` commands each.
    pub fn shared(warps: u32, entries: u32, commands: u32) -> Scope {
        Scope {
            warps,
            entries,
            commands,
            async_depth: 1,
            sharing: abi::SHARING_SHARED,
            cq_doorbell_batch: 1,
            ring_shift: 5,
            leaps: 0,
            stale_tokens: false,
            start: 0,
            reduce: true,
        }
    }

    /// One warp with a queue of its own, two commands at a time.
    pub fn exclusive(entries: u32, commands: u32) -> Scope {
        Scope { async_depth: 2, sharing: abi::SHARING_EXCLUSIVE, ..Scope::shared(1, entries, commands) }
    }

    /// The bounds in a few letters: W warps, D entries, C commands of a warp, K of them at a time.
    pub fn name(&self) -> String {
        let Scope { warps, entries, commands, async_depth, .. } = self;
        let sharing = if self.sharing == abi::SHARING_SHARED { "shared" } else { "exclusive" };
        let mut name = format!("{sharing} W{warps} D{entries} C{commands} K{async_depth}");
        if self.cq_doorbell_batch > 1 {
            name += &format!(", CQ doorbell every {}", self.cq_doorbell_batch);
        }
        if self.ring_shift < 5 {
            name += &format!(", SQ doorbell at multiples of {}", 1 << self.ring_shift);
        }
        if self.leaps > 0 {
            name += &format!(", deadlines pass {} times", self.leaps);
        }
        if self.start > 0 {
            name += &format!(", counters from {}", self.start);
        }
        name
    }

    fn total(&self) -> u32 {
        self.warps * self.commands
    }

    /// Base-2 logarithm of a lane's command identifiers. One more than are needed where some may be quarantined.
    fn token_shift(&self) -> u32 {
        (self.async_depth + u32::from(self.leaps > 0)).next_power_of_two().ilog2()
    }

    /// Tries everything that the kernel `exhaustive` of `module` can do.
    pub fn check(&self, module: &Module, budget: Budget) -> anyhow::Result<Report> {
        Ok(self.outcomes(module, budget)?.0)
    }

    /// The same; also returns what memory held at each of the ends, from the rings to the answers, whichever warp is
    /// which.
    pub fn outcomes(&self, module: &Module, budget: Budget) -> anyhow::Result<(Report, BTreeSet<Vec<u64>>)> {
        let layout = Layout::new(self)?;
        let symmetry = layout.symmetry(self);
        let end = End {
            scope: self.clone(),
            rings: layout.rings,
            records: layout.records,
            state: layout.state,
            words: layout.words,
        };
        let mut model = self.model(layout, module)?;
        let mut outcomes = BTreeSet::new();
        let report = Search::run(&mut model, budget, &mut |model| {
            outcomes.extend(symmetry.outcomes(&model.arena, |word| end.outcome(word)));
            end.judge(model)
        });
        Ok((report, outcomes))
    }

    fn model(&self, layout: Layout, module: &Module) -> anyhow::Result<Model> {
        let launch = cpu_launch_bytes(module, "exhaustive", layout.args(self).as_bytes())?.grid(self.warps);
        let symmetry = layout.symmetry(self);
        let device = Device::new(layout.rings, self.start);
        let model = Model::new(&launch, layout.arena, Some(device), self.leaps, self.reduce)?;
        Ok(if self.reduce && self.warps > 1 { model.with_symmetry(symmetry) } else { model })
    }

    /// Whether warps are alike, on so many schedules drawn at random. Returns how many states were compared, or what
    /// differs.
    pub fn check_symmetry(&self, module: &Module, walks: u64) -> anyhow::Result<Result<usize, String>> {
        Ok(alike::check(&mut self.model(Layout::new(self)?, module)?, walks))
    }
}

/// Counters of the queue's state.
const FIELDS: [(&str, usize); 8] = [
    ("ticket", offset_of!(abi::QueueState, ticket)),
    ("turn", offset_of!(abi::QueueState, turn)),
    ("reap", offset_of!(abi::QueueState, reap)),
    ("head", offset_of!(abi::QueueState, head)),
    ("surplus", offset_of!(abi::QueueState, surplus)),
    ("exclusive tail", offset_of!(abi::QueueState, exclusive_tail)),
    ("exclusive head", offset_of!(abi::QueueState, exclusive_head)),
    ("exclusive told", offset_of!(abi::QueueState, exclusive_reported)),
];

/// Where everything lies.
struct Layout {
    arena: Arena,
    rings: Rings,
    state: usize,
    host: usize,
    words: usize,
    quarantine: usize,
    queue: usize,
    records: usize,
}

impl Layout {
    fn new(scope: &Scope) -> anyhow::Result<Layout> {
        let (entries, lanes) = (scope.entries as usize, scope.warps as usize * 32);
        let mut arena = Arena::default();
        let sq = arena.part("SQ", entries, 64);
        let cq = arena.part("CQ", entries, 16);
        let sq_doorbell = arena.part("SQ tail doorbell", 1, 4);
        let cq_doorbell = arena.part("CQ head doorbell", 1, 4);
        let state = arena.part("state", 1, size_of::<abi::QueueState>());
        for (name, field) in FIELDS {
            arena.field(name, state + field, 8);
        }
        let host = arena.part("host page", 1, size_of::<abi::QueueHost>());
        let words = arena.part("word", lanes << scope.token_shift(), 4);
        let quarantine = arena.part("quarantine", lanes, 4);
        let queue = arena.part("queue", 1, size_of::<abi::QueueRef>());
        let records = arena.part("answer", scope.total() as usize, 8);
        arena.keep(sq, entries * 64);
        arena.keep(cq, entries * 16);
        arena.keep(state + offset_of!(abi::QueueState, sqhd_mismatch), 4);
        // Of each warp there is lane 0 only.
        arena.keep(state + offset_of!(abi::QueueState, spurious), 4);
        arena.keep(state + offset_of!(abi::QueueState, late), 4);
        FIELDS.iter().for_each(|(_, field)| arena.keep(state + field, 8));
        arena.keep(host + offset_of!(abi::QueueHost, alarm), 4);
        for warp in 0..scope.warps as usize {
            arena.keep(words + ((warp * 32) << scope.token_shift()) * 4, 4 << scope.token_shift());
        }
        (0..scope.warps as usize).for_each(|warp| arena.keep(quarantine + warp * 32 * 4, 4));
        arena.keep(records, scope.total() as usize * 8);
        let rings = Rings {
            sq,
            cq,
            sq_doorbell,
            cq_doorbell,
            entries: u64::from(scope.entries),
            commands: scope.total(),
        };
        let layout = Layout { arena: arena.map()?, rings, state, host, words, quarantine, queue, records };
        layout.fill(scope);
        Ok(layout)
    }

    fn symmetry(&self, scope: &Scope) -> Symmetry {
        let (entries, lanes) = (scope.entries as usize, scope.warps as usize * 32);
        let names = Names {
            warps: scope.warps,
            commands: scope.commands,
            local_bits: 5 + scope.token_shift(),
            sq: (self.rings.sq, entries * 64),
            cq: (self.rings.cq, entries * 16),
            words: (self.words, (lanes << scope.token_shift()) * 4),
            quarantine: (self.quarantine, lanes * 4),
            records: (self.records, scope.total() as usize * 8),
        };
        Symmetry::new(names, &self.arena)
    }

    fn put<T: Plain>(&self, offset: usize, value: &T) {
        let words: Vec<u64> = value
            .as_bytes()
            .chunks(8)
            .map(|bytes| bytes.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)))
            .collect();
        self.arena.write(offset, &words);
    }

    fn fill(&self, scope: &Scope) {
        let at = |offset: usize| self.arena.base() + offset as u64;
        let shift = scope.entries.ilog2();
        self.put(self.state, &abi::QueueState::starting_at(scope.start));
        self.put(self.host, &abi::QueueHost { quarantine: at(self.quarantine), ..abi::QueueHost::new() });
        self.put(
            self.queue,
            &abi::QueueRef {
                sq: at(self.rings.sq),
                cq: at(self.rings.cq),
                sq_doorbell: at(self.rings.sq_doorbell),
                cq_doorbell: at(self.rings.cq_doorbell),
                state: at(self.state),
                words: at(self.words),
                host: at(self.host),
                quarantine: at(self.quarantine),
                timeout_ns: 1_000_000,
                sq_shift: shift,
                cq_shift: shift,
                ring_shift: scope.ring_shift,
                cq_doorbell_batch: scope.cq_doorbell_batch,
                local_bits: 5 + scope.token_shift(),
                token_shift: scope.token_shift(),
                warp_slots: scope.warps,
                qid: 1,
                sharing: scope.sharing,
                ..abi::QueueRef::new()
            },
        );
        // Entries of the lap before, so that phases are right wherever the counters start.
        let lap = scope.start >> shift;
        // What nobody has written is no command of warp 0.
        self.arena.write(self.rings.sq, &vec![POISON; scope.entries as usize * 8]);
        for slot in 0..scope.entries as usize {
            let written = (slot as u64) < scope.start % u64::from(scope.entries);
            let phase = if written { lap + 1 } else { lap } & 1;
            self.arena.write(self.rings.cq + slot * 16, &[0, phase << 48]);
        }
    }

    fn args(&self, scope: &Scope) -> abi::QueueTestArgs {
        let at = |offset: usize| self.arena.base() + offset as u64;
        abi::QueueTestArgs {
            ns: abi::NamespaceRef {
                queues: at(self.queue),
                queue_count: 1,
                sharing: scope.sharing,
                warps: scope.warps,
                nsid: 1,
                ..abi::NamespaceRef::new()
            },
            records: at(self.records),
            commands: scope.commands,
            async_depth: scope.async_depth,
            flags: if scope.stale_tokens { abi::TEST_STALE_TOKEN } else { 0 },
            ..abi::QueueTestArgs::new()
        }
    }
}

/// What must hold when everybody has finished.
struct End {
    scope: Scope,
    rings: Rings,
    records: usize,
    state: usize,
    words: usize,
}

impl End {
    /// Completion entries, counters and answers, of memory that has this word at an offset.
    fn outcome(&self, word: &dyn Fn(usize) -> u64) -> Vec<u64> {
        let mut words: Vec<u64> = FIELDS.iter().map(|(_, at)| word(self.state + at)).collect();
        for (at, count) in
            [(self.rings.cq, self.rings.entries as usize * 2), (self.records, self.scope.total() as usize)]
        {
            words.extend((0..count).map(|index| word(at + index * 8)));
        }
        words
    }

    fn judge(&self, model: &Model) -> Result<(), String> {
        for number in 0..self.scope.total() {
            self.judge_command(model, number)?;
        }
        let field = |offset: usize| self.state + offset;
        let spurious = offset_of!(abi::QueueState, spurious);
        if let Some(lane) = (0..32).find(|lane| model.arena.half(field(spurious + lane * 4)) != 0) {
            return Err(format!("a completion that no pending command owned, in place {lane} of its batch"));
        }
        if model.arena.half(field(offset_of!(abi::QueueState, sqhd_mismatch))) != 0 {
            return Err("a completion whose SQ head lies outside what was submitted".into());
        }
        if self.scope.leaps == 0 { self.judge_queue(model) } else { Ok(()) }
    }

    fn judge_command(&self, model: &Model, number: u32) -> Result<(), String> {
        let record = model.arena.word(self.records + number as usize * 8);
        let (answers, status) = (record as u32, (record >> 32) as u32);
        if answers != 1 {
            return Err(format!("command {number} has {answers} answers"));
        }
        let fetched = model.device.as_ref().is_some_and(|device| device.was_fetched(number));
        let library = |code: u32| status == abi::STATUS_LIBRARY | code;
        let right = match fetched {
            true => {
                status == Device::status_of(number) || self.scope.leaps > 0 && library(abi::STATUS_TIMED_OUT)
            }
            false => {
                self.scope.leaps > 0 && (library(abi::STATUS_NOT_SUBMITTED) || library(abi::STATUS_NO_CID))
            }
        };
        let fetched = if fetched { "was fetched" } else { "was never fetched" };
        if right { Ok(()) } else { Err(format!("command {number}, which {fetched}: status {status:#x}")) }
    }

    /// Without deadlines nothing may be left over.
    fn judge_queue(&self, model: &Model) -> Result<(), String> {
        let end = self.scope.start + u64::from(self.scope.total());
        let field = |offset: usize| model.arena.word(self.state + offset);
        let shared = self.scope.sharing == abi::SHARING_SHARED;
        let (reserved, reaped, told) = match shared {
            true => (
                offset_of!(abi::QueueState, ticket),
                offset_of!(abi::QueueState, head),
                offset_of!(abi::QueueState, reap),
            ),
            false => (
                offset_of!(abi::QueueState, exclusive_tail),
                offset_of!(abi::QueueState, exclusive_head),
                offset_of!(abi::QueueState, exclusive_reported),
            ),
        };
        let (reserved, reaped, told) = (field(reserved), field(reaped), field(told));
        let unreported = reaped.wrapping_sub(told);
        if reserved != end || reaped != end || unreported >= u64::from(self.scope.cq_doorbell_batch) {
            return Err(format!("at the end {reserved} reserved, {reaped} reaped, {told} told, of {end}"));
        }
        let words = (self.scope.warps * 32) << self.scope.token_shift();
        match (0..words as usize)
            .find(|word| model.arena.half(self.words + word * 4) & abi::SLOT_PENDING != 0)
        {
            Some(word) => Err(format!("completion slot {word} is still armed")),
            None => Ok(()),
        }
    }
}
