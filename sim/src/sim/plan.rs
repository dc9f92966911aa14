//! What one seed means: everything that a run is made of, as numbers that can be set one by one.

mod recovery;

use std::fmt;
use std::time::Duration;

use warpbell::{OpenOptions, RingPlacement, Sharing};
use warpbell_base::mix64;
use warpbell_driver::DoorbellBuffer;
use warpbell_nvme::command::QueuePriority;
use warpbell_softctl::test_hooks::{Defect, with_defect};
use warpbell_softctl::{
    CompletionOrder, DoorbellBufferMode, FaultPlan, NamespaceConfig, Profile, SoftConfig,
};

use super::kernel::{self, MOST_BLOCKS, Op};
use crate::case::{Draw, Schedule};
use crate::sim::faults::{Fault, Kinds};

macro_rules! settings {
    ($($(#[$doc:meta])* $name:ident,)*) => {
        /// The settings of a run.
        #[derive(Clone, Debug, Default, PartialEq, Eq)]
        pub struct Plan {
            /// Where everything comes from.
            pub seed: u64,
            $($(#[$doc])* pub $name: u64,)*
        }

        impl Plan {
            /// Names of the settings.
            pub const SETTINGS: &'static [&'static str] = &[$(stringify!($name)),*];

            /// A setting by its name.
            pub fn get(&self, name: &str) -> Option<u64> {
                match name { $(stringify!($name) => Some(self.$name),)* _ => None }
            }

            /// Changes a setting by its name; false if there is none.
            pub fn set(&mut self, name: &str, value: u64) -> bool {
                match name { $(stringify!($name) => self.$name = value,)* _ => return false }
                true
            }
        }
    };
}

settings! {
    /// 0: a warp owns a queue, 1: warps share.
    shared,
    /// Queue pairs of the kernels.
    queues,
    /// Warps over all queues.
    warps,
    /// Lanes of each warp that have commands.
    lanes,
    /// Warps of a block of threads.
    block_warps,
    /// Ring entries.
    entries,
    /// Command identifiers of a lane.
    tokens,
    /// Where the 64-bit counters start.
    start,
    /// Whether the controller offers SGLs.
    sgl,
    /// log2 of a block's bytes.
    block_shift,
    /// Blocks that commands collide on.
    blocks,
    /// CAP.DSTRD.
    stride,
    /// Completions held back to be shuffled.
    shuffle,
    /// Lanes are interleaved at random.
    random,
    /// A lane is pre-empted at one in so many hooks.
    preempt,
    /// Stores of a lane that may be held back.
    store_buffer,
    /// Lanes that submit together.
    batch,
    /// Commands that a lane keeps in flight.
    depth,
    /// Commands of a lane, in each kernel.
    commands,
    /// Kernels, one after the other, on the same queues.
    kernels,
    /// Of 16 commands, so many are reads.
    reads,
    /// Of 16 commands, so many are flushes.
    flushes,
    /// Most blocks of a command.
    most_blocks,
    /// Flags of the kernel.
    flags,
    /// One command in so many is given up at once; 0: none.
    abandon,
    /// One command in so many leaves the namespace; 0: none.
    stray,
    /// Timeout of a wait in microseconds.
    timeout,
    /// Timeout of a submission in microseconds.
    submit_timeout,
    /// Which of the drawn faults are injected, as a mask.
    faults,
    /// Commands of the host's own queue.
    client,
    /// Its ring entries.
    client_entries,
    /// Admin commands that are sent while kernels run.
    admin,
    /// Declare a queue lost in this round; 0: never.
    lose,
    /// Replace it by a queue of the host while kernels may still use the old one.
    replace,
    /// Rounds after which the controller does nothing for a while; 0: never.
    stall,
    /// For so many microseconds.
    stall_for,
    /// Doorbells go through memory (Doorbell Buffer Config).
    dbbuf,
    /// Warps have the highest identifiers that there are.
    high,
    /// Reset the controller before contents are read back, though nothing asks for it.
    reset,
    /// Command identifiers have 32 bits.
    wide,
    /// Submission rings lie in the controller memory buffer.
    cmb,
    /// 0: round robin; else weighted, with queues of the kernels of priority 0 (urgent) to 3 (low), less one.
    weighted,
    /// Completions are posted in the order of submission.
    ordered,
    /// How long commands take: 1: as an Optane-like SSD's, 2: as a TLC-like one's.
    profile,
    /// Namespaces; commands go to the last.
    namespaces,
    /// A mistake of the controller: 1: Flush does nothing, 2: some writes are lost; never drawn.
    defect,
    /// The library recovers while kernels run, and these go over to new queues.
    recovery,
    /// Tries of a command at most.
    tries,
    /// Lost commands are asked for again on the new queue.
    ask_again,
    /// What the library calls retryable is asked for again.
    retry,
    /// Timeout of the wait for a successor in microseconds.
    switch_to_successor,
    /// Waits for a successor that may fail before a warp ends.
    patience,
    /// Replacements of each queue that memory is had for.
    replacement_queues,
    /// Timeout of each admin command of the recovery in microseconds.
    step,
    /// Controller resets that the recovery may try.
    resets,
    /// Rounds between two passes of the recovery.
    look,
    /// The kernels' lease ends where the blocks do that commands begin in.
    lease,
}

/// Most faults of a plan.
pub const MOST_FAULTS: u64 = 6;
/// Most of one without recovery.
const MOST_PLAIN_FAULTS: u64 = 3;
const STARTS: [u64; 8] = [0, 0, 0, 1, (1 << 16) - 2, (1 << 32) - 2, 1 << 62, u64::MAX];
const DEADLINES: [u64; 3] = [50_000, 100_000, 400_000];

impl Plan {
    /// The plan of a seed.
    pub fn draw(seed: u64) -> Plan {
        let mut draw = Draw::new(seed ^ 0x0051_ac75);
        let mut one = |choices: &[u64]| choices[draw.below(choices.len() as u64) as usize];
        let shared = one(&[0, 1, 1, 1]);
        let queues = one(&[1, 1, 1, 2, 3]);
        let warps = if shared == 0 { queues } else { queues * one(&[1, 2, 2, 3, 4]) };
        let entries = one(&[2, 2, 4, 4, 8, 16, 64]);
        let start = one(&STARTS);
        let random = one(&[0, 1, 1, 1, 1, 1]);
        let lanes = one(&[1, 2, 4, 8, 32]);
        let timeout = one(&DEADLINES);
        let mut plan = Plan {
            seed,
            shared,
            queues,
            warps,
            lanes,
            block_warps: if warps % 2 == 0 { one(&[1, 2]) } else { 1 },
            entries,
            tokens: one(&[1, 2, 4, 4, 4]),
            start: if start == u64::MAX { entries - 1 } else { start },
            sgl: one(&[0, 1]),
            block_shift: one(&[9, 9, 12]),
            blocks: one(&[1, 2, 4, 8]),
            stride: one(&[0, 0, 1, 2, 4]),
            shuffle: one(&[0, 2, 4, 8, 64]),
            random,
            preempt: one(&[2, 4, 8, 32]),
            store_buffer: random * one(&[0, 0, 4, 16, 16]),
            batch: one(&[1, 5, 32, 32]),
            depth: one(&[1, 1, 2, 3, 4]),
            // About a hundred commands, whatever the shape.
            commands: one(&[1, 2, 3, 4, 6, 8]).min(1 + 160 / (warps * lanes)),
            kernels: one(&[1, 1, 2]),
            reads: one(&[4, 8, 12]),
            flushes: one(&[0, 1, 3]),
            most_blocks: one(&[1, 1, 2, 3, 4]),
            flags: one(&[0, 1, 1, 4, 5]),
            abandon: one(&[0, 0, 0, 0, 0, 0, 0, 16]),
            stray: one(&[0, 0, 0, 16]),
            timeout,
            submit_timeout: timeout / one(&[1, 1, 2]),
            faults: (1 << one(&[0, 0, 1, 1, 2, 3])) - 1,
            client: one(&[0, 0, 4, 12]),
            client_entries: one(&[2, 4, 16]),
            admin: one(&[0, 1, 4]),
            lose: one(&[0, 0, 0, 0, 0, 0, 0, 0, 1]) * one(&[1, 50, 400]),
            replace: one(&[0, 1]),
            stall: one(&[0, 0, 0, 0, 0, 0, 1, 60, 300]),
            stall_for: timeout * one(&[1, 3, 9]) / 4,
            dbbuf: one(&[0, 0, 0, 1]),
            high: one(&[0; 63]) + u64::from(seed % 64 == 63),
            reset: one(&[0, 0, 0, 1]),
            wide: one(&[0, 0, 0, 0, 0, 0, 0, 1]),
            cmb: one(&[0, 0, 0, 1]),
            weighted: one(&[0, 0, 0, 0, 1, 2, 3, 4]),
            ordered: one(&[0, 0, 0, 0, 0, 0, 0, 1]),
            profile: one(&[0, 0, 0, 0, 0, 0, 1, 2]),
            namespaces: one(&[1, 1, 1, 2]),
            tries: 1,
            ..Plan::default()
        };
        if plan.entries > 32 && plan.batch == 32 && one(&[0, 1, 1]) == 0 {
            plan.flags |= u64::from(kernel::WHOLE_BATCHES);
        }
        if plan.high != 0 {
            plan.reach_high();
        }
        plan.tell_wide_apart();
        plan
    }

    /// Records of faults have the lower 16 bits of an identifier, which tell the commands of one warp apart.
    fn tell_wide_apart(&mut self) {
        if self.wide != 0 && self.faults != 0 {
            (self.warps, self.block_warps) = (self.queues, 1);
        }
    }

    /// A shape in which the last lane of the last warp slot runs out of identifiers.
    fn reach_high(&mut self) {
        self.shared = 1;
        (self.kernels, self.queues, self.warps, self.block_warps, self.lanes) = (1, 1, 1, 1, 32);
        (self.entries, self.tokens, self.depth, self.commands, self.batch) = (64, 32, 32, 34, 32);
    }

    /// Warps that the queues are made for, and the number of the first that runs.
    pub fn warp_numbers(&self) -> (u64, u64) {
        if self.high * self.shared == 0 {
            (self.warps, 0)
        } else {
            (64 * self.queues, 64 * self.queues - self.warps)
        }
    }

    /// The faults that were drawn and not taken out.
    pub fn faults(&self) -> Vec<Fault> {
        let mut draw = Draw::new(self.seed ^ 0xfa17);
        let (most, kinds) = match self.recovery {
            0 => (MOST_PLAIN_FAULTS, Kinds::Plain),
            _ => (MOST_FAULTS, Kinds::Recovery),
        };
        let all: Vec<Fault> = (0..most).map(|_| Fault::draw(&mut draw, kinds)).collect();
        let drawn = all.into_iter().enumerate().filter(|(i, _)| self.faults >> i & 1 != 0).map(|(_, f)| f);
        // Half of a wide identifier lies in a dword that a torn entry lacks: it is another command's then.
        drawn.filter(|fault| self.wide == 0 || fault.kind() != "torn").collect()
    }

    /// Who uses a queue.
    pub fn sharing(&self) -> Sharing {
        if self.shared == 0 { Sharing::Exclusive } else { Sharing::Shared }
    }

    /// The namespace that commands go to.
    pub fn nsid(&self) -> u32 {
        self.namespaces as u32
    }

    /// How the device is opened.
    pub fn open_options(&self) -> OpenOptions {
        OpenOptions::new()
            .queues(Some(self.queues as u16 * if self.recovery == 0 { 1 } else { 4 } + 4))
            .recovery(self.recovery_policy())
            .doorbell_buffer(if self.dbbuf == 0 { DoorbellBuffer::Off } else { DoorbellBuffer::On })
            .weighted_round_robin(self.weighted != 0)
            .wide_cids(self.wide != 0)
            .rings(if self.cmb == 0 { RingPlacement::Host } else { RingPlacement::Cmb })
    }

    /// Priority of the kernels' queues.
    pub fn priority(&self) -> QueuePriority {
        match self.weighted {
            2 => QueuePriority::HIGH,
            3 => QueuePriority::MEDIUM,
            4 => QueuePriority::LOW,
            _ => QueuePriority::URGENT,
        }
    }

    /// Bytes of a block.
    pub fn block_bytes(&self) -> usize {
        1 << self.block_shift
    }

    /// Commands that the kernels would carry out.
    pub fn total(&self) -> u64 {
        self.kernels * self.warps * self.lanes * self.commands
    }

    /// Timeout of a wait.
    pub fn wait_limit(&self) -> Duration {
        Duration::from_micros(self.timeout)
    }

    /// Timeout of a submission.
    pub fn submit_limit(&self) -> Duration {
        Duration::from_micros(self.submit_timeout)
    }

    /// How lanes are interleaved.
    pub fn schedule(&self) -> Schedule {
        Schedule {
            random: self.random != 0,
            store_buffer: self.store_buffer as u32,
            preempt_one_in: self.preempt as u32,
        }
    }

    /// The controller.
    pub fn soft_config(&self) -> anyhow::Result<SoftConfig> {
        let bytes = (self.blocks + MOST_BLOCKS as u64) << self.block_shift;
        let text: String = self.faults().iter().map(Fault::toml).collect();
        let namespace = NamespaceConfig::memory(bytes, 1 << self.block_shift);
        let profile = match self.profile {
            0 => None,
            1 => Some(Profile::optane()),
            _ => Some(Profile::tlc()),
        };
        let order = match self.shuffle {
            window if self.ordered != 0 => CompletionOrder::Submission { window: window as usize },
            0 => CompletionOrder::Immediate,
            window => CompletionOrder::Shuffled { window: window as usize },
        };
        let doorbells = if self.dbbuf == 0 { DoorbellBufferMode::Off } else { DoorbellBufferMode::On };
        let config = SoftConfig::new()
            .namespaces(vec![namespace; self.namespaces as usize])
            .queue_pairs(if self.recovery == 0 { 16 } else { 32 })
            .max_entries(256)
            .sgl(self.sgl != 0)
            .stride(self.stride as u8)
            .weighted_round_robin(self.weighted != 0)
            .wide_cids(self.wide != 0)
            .controller_memory(self.cmb << 20)
            .profile(profile)
            .order(order)
            .faults(FaultPlan::from_toml(&text)?.seed(self.seed))
            .seed(self.seed | 1)
            .doorbell_buffer(doorbells)
            .poison_fetched(true)
            // 100 ms, 200 ms, 500 ms.
            .retry_delays(if self.recovery == 0 { [0; 3] } else { [1, 2, 5] });
        let defect = match self.defect {
            0 => None,
            1 => Some(Defect::IdleFlush),
            _ => Some(Defect::LostWrites),
        };
        Ok(with_defect(config, defect))
    }

    /// Command `index` of a lane. It depends on nothing but the seed, these numbers and the mix, so that taking
    /// others out changes it not.
    pub fn op(&self, kernel: u64, warp: u64, lane: u64, index: u64) -> Op {
        let id = ((kernel * 64 + warp) * 32 + lane) * 64 + index;
        // Kernels beyond the last prove that everything works.
        let proof = kernel >= self.kernels;
        if lane >= self.lanes || index >= self.commands || proof && index > 0 {
            return Op::default();
        }
        let mut op = self.mixed(id, 1);
        if proof {
            return op;
        }
        let stray = mix64(id ^ self.seed.rotate_left(9));
        if self.stray != 0 && op.opcode != kernel::FLUSH && stray.is_multiple_of(self.stray) {
            op.lba = self.blocks + MOST_BLOCKS as u64 - u64::from(op.blocks) + 1 + stray % 7;
        }
        if self.abandon != 0 && (stray >> 20).is_multiple_of(self.abandon) {
            op.flags |= kernel::ABANDON;
        }
        op
    }

    /// Command `index` of the host's own queue.
    pub fn client_op(&self, index: u64) -> Op {
        Op { blocks: 1, ..self.mixed(index, 2) }
    }

    /// What block `lba` holds at first.
    pub fn initial(&self, lba: u64) -> u64 {
        value_of(3, lba)
    }

    /// Whether a command stays inside the namespace.
    pub fn inside(&self, op: &Op) -> bool {
        op.lba + u64::from(op.blocks) <= self.blocks + MOST_BLOCKS as u64
    }

    fn mixed(&self, id: u64, who: u64) -> Op {
        let mut draw = Draw::new(self.seed ^ mix64(id ^ who << 56));
        let kind = draw.below(16);
        let opcode = match kind {
            kind if kind < self.reads => kernel::READ,
            kind if kind < self.reads + self.flushes => kernel::FLUSH,
            _ => kernel::WRITE,
        };
        let fua = opcode == kernel::WRITE && draw.below(8) == 0;
        Op {
            value: value_of(who, id << 3),
            lba: draw.below(self.blocks),
            blocks: if opcode == kernel::FLUSH { 0 } else { 1 + draw.below(self.most_blocks) as u32 },
            opcode,
            flags: if fua { kernel::FUA } else { 0 },
            pad: 0,
        }
    }
}

/// Values are unique: who wrote, and which of his commands.
fn value_of(who: u64, id: u64) -> u64 {
    who << 60 | 0x00ab_0000_0000_0000 | id
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {}{}:", self.seed, if self.recovery == 0 { "" } else { " with recovery" })?;
        for name in Plan::SETTINGS {
            write!(f, " {name}={}", self.get(name).unwrap_or_default())?;
        }
        self.faults().iter().try_for_each(|fault| write!(f, "\n  fault: {fault}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_always_means_the_same_and_another_one_something_else() {
        assert_eq!(Plan::draw(7), Plan::draw(7));
        assert_ne!(Plan::draw(7), Plan::draw(8));
    }

    #[test]
    fn every_plan_is_one_that_can_be_run() {
        for seed in 0..500 {
            let plan = Plan::draw(seed);
            assert!(plan.commands > 0 && plan.total() <= 1100, "{plan}");
            assert_eq!(plan.warps % plan.block_warps, 0, "{plan}");
            assert!(plan.shared != 0 || plan.warps == plan.queues, "{plan}");
            plan.soft_config().expect("a configuration").validate().expect("a valid one");
        }
    }

    #[test]
    fn no_two_commands_write_the_same_value() {
        let plan =
            Plan { kernels: 2, warps: 4, lanes: 32, commands: 6, blocks: 8, most_blocks: 4, ..Plan::draw(3) };
        let mut seen = std::collections::HashSet::new();
        for id in 0..plan.total() {
            let (index, rest) = (id % 6, id / 6);
            let op = plan.op(rest / 128, rest / 32 % 4, rest % 32, index);
            let values = (0..u64::from(op.blocks)).map(|block| op.value + block);
            assert!(op.opcode != kernel::WRITE || values.into_iter().all(|value| seen.insert(value)));
        }
        assert!(!seen.is_empty());
    }

    #[test]
    fn taking_commands_out_changes_no_other() {
        let plan = Plan::draw(11);
        let less = Plan { lanes: 1, commands: 1, warps: 1, queues: 1, ..plan.clone() };
        assert_eq!(plan.op(0, 0, 0, 0), less.op(0, 0, 0, 0));
    }
}
