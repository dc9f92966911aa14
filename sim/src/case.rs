//! One run of the kernel `queue_test`: what is run, on what, and under which schedule.

use std::time::Duration;

use warpbell::{AttachOptions, DataPlacement, ForeignMemory, OpenOptions, RingPlacement, Sharing, Target};
use warpbell_base::{SplitMix64, mix64};
use warpbell_driver::DoorbellBuffer;
use warpbell_hw::{Nsid, Window};
use warpbell_kernels::abi;
use warpbell_softctl::{CompletionOrder, DoorbellBufferMode, NamespaceConfig, SoftConfig};

/// What the kernel's commands do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Read random blocks and check them.
    Read,
    /// Write each block once.
    Write,
    /// Write a block, then read it back.
    WriteRead,
    /// Flush.
    Flush,
}

impl Mode {
    /// The kernel's number for it.
    pub fn code(self) -> u32 {
        match self {
            Mode::Read => abi::TEST_READ,
            Mode::Write => abi::TEST_WRITE,
            Mode::WriteRead => abi::TEST_WRITE_READ,
            Mode::Flush => abi::TEST_FLUSH,
        }
    }
}

/// Where completions and data lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Places {
    /// Both in host memory.
    #[default]
    Together,
    /// Rings in memory of another function.
    RingsApart,
    /// Data in memory of another function.
    DataApart,
}

/// How lanes are interleaved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Schedule {
    /// Lanes run in an order drawn from the seed; else one after the other until they block.
    pub random: bool,
    /// Weak memory: so many stores of a lane may be held back. 0: stores go straight through.
    pub store_buffer: u32,
    /// A lane loses the processor at one in so many accesses; 0: the executor's default.
    pub preempt_one_in: u32,
}

/// One run. `Case::new` gives a small one; the fields are there to be changed.
#[derive(Clone, Debug)]
pub struct Case {
    /// For messages.
    pub name: String,
    /// Where the kernel runs.
    pub target: Target,
    /// Of everything that is drawn.
    pub seed: u64,
    /// Who uses a queue.
    pub sharing: Sharing,
    /// Queue pairs.
    pub queues: u32,
    /// Warps over all queues.
    pub warps: u32,
    /// Warps of a block of threads.
    pub warps_per_block: u32,
    /// Entries of each ring.
    pub entries: u32,
    /// Command identifiers of a lane.
    pub tokens: u32,
    /// Where counters start.
    pub start: u64,
    /// Commands of each lane.
    pub commands: u32,
    /// Lanes that submit together.
    pub batch: u32,
    /// Commands a lane keeps in flight at most.
    pub async_depth: u32,
    /// What they do.
    pub mode: Mode,
    /// Ask again with each consumed token.
    pub stale_tokens: bool,
    /// Reads stay within so many blocks.
    pub read_range: u64,
    /// The namespace.
    pub nsid: u32,
    /// Bytes of a block.
    pub block_size: u32,
    /// Whether the controller offers SGLs.
    pub sgl: bool,
    /// Timeout of a wait.
    pub timeout: Duration,
    /// Timeout of a submission; zero: the same.
    pub submit_timeout: Duration,
    /// Whether the host replaces queues that are lost.
    pub recovery: bool,
    /// How lanes are interleaved.
    pub schedule: Schedule,
    /// Commands that the controller holds back to complete them in random order; 0: in order.
    pub shuffle: usize,
    /// Whether doorbells go through memory (Doorbell Buffer Config).
    pub dbbuf: bool,
    /// CAP.DSTRD.
    pub stride: u8,
    /// 32-bit command identifiers.
    pub wide: bool,
    /// Submission rings in the controller memory buffer, which the controller must have.
    pub cmb: bool,
    /// Where completions and data lie, but for that.
    pub places: Places,
}

impl Case {
    /// One exclusive warp, 4 entries, 2 reads per lane, everything in order.
    pub fn new(name: impl Into<String>) -> Case {
        Case {
            name: name.into(),
            target: Target::Cpu,
            seed: 1,
            sharing: Sharing::Exclusive,
            queues: 1,
            warps: 1,
            warps_per_block: 1,
            entries: 4,
            tokens: 4,
            start: 0,
            commands: 2,
            batch: 32,
            async_depth: 1,
            mode: Mode::Read,
            stale_tokens: false,
            read_range: u64::MAX,
            nsid: 1,
            block_size: 512,
            sgl: true,
            timeout: Duration::from_secs(10),
            submit_timeout: Duration::ZERO,
            recovery: true,
            schedule: Schedule::default(),
            shuffle: 0,
            dbbuf: false,
            stride: 0,
            wide: false,
            cmb: false,
            places: Places::Together,
        }
    }

    /// `warps` warps on one shared queue.
    pub fn shared(name: impl Into<String>, warps: u32) -> Case {
        Case { sharing: Sharing::Shared, warps, ..Case::new(name) }
    }

    /// The same with another seed.
    pub fn seeded(&self, seed: u64) -> Case {
        Case { seed, ..self.clone() }
    }

    /// Commands of all lanes.
    pub fn total(&self) -> u64 {
        u64::from(self.warps) * 32 * u64::from(self.commands)
    }

    /// Blocks of the namespace: enough for one block per command, unless reads are to stay within fewer.
    pub fn blocks(&self) -> u64 {
        let limit = if self.mode == Mode::Read { self.read_range } else { u64::MAX };
        self.total().max(64).min(limit)
    }

    /// The controller for it.
    pub fn soft_config(&self) -> SoftConfig {
        let bytes = self.blocks() * u64::from(self.block_size);
        SoftConfig::new()
            .namespaces(vec![NamespaceConfig::memory(bytes, self.block_size)])
            .sgl(self.sgl)
            .stride(self.stride)
            .wide_cids(self.wide)
            .doorbell_buffer(if self.dbbuf { DoorbellBufferMode::On } else { DoorbellBufferMode::Off })
            .order(match self.shuffle {
                0 => CompletionOrder::Immediate,
                window => CompletionOrder::Shuffled { window },
            })
            .seed(self.seed)
    }

    /// How the device is opened for it.
    pub fn open_options(&self) -> OpenOptions {
        let doorbell_buffer = if self.dbbuf { DoorbellBuffer::On } else { DoorbellBuffer::Off };
        let apart = || ForeignMemory::new("bar:fake", Window::host(4 << 20).expect("memory"));
        OpenOptions::new()
            .queues(Some(self.queues as u16))
            .doorbell_buffer(doorbell_buffer)
            .wide_cids(self.wide)
            .rings(match self.places {
                Places::RingsApart => RingPlacement::Foreign(apart()),
                _ if self.cmb => RingPlacement::Cmb,
                _ => RingPlacement::Host,
            })
            .data(match self.places {
                Places::DataApart => DataPlacement::Foreign(apart()),
                _ => DataPlacement::Host,
            })
    }

    /// The queues for it.
    pub fn attach_options(&self) -> AttachOptions {
        AttachOptions::new()
            .target(self.target)
            .nsid(Some(Nsid(self.nsid)))
            .queues(self.queues)
            .warps(self.warps)
            .iodepth(self.entries - 1)
            .commands_per_lane(Some(self.tokens))
            .sharing(self.sharing)
            .timeout(self.timeout)
            .start(self.start)
            .recovery(self.recovery)
    }
}

/// The seeds of a randomised test: `WARPBELL_SEEDS` of them, or `default`. From 1: 0 means "no randomness".
pub fn seeds(default: u64) -> impl Iterator<Item = u64> {
    let count = std::env::var("WARPBELL_SEEDS").ok().and_then(|text| text.parse().ok());
    1..=count.unwrap_or(default)
}

/// A small generator for choices of the simulation itself.
#[derive(Clone, Debug)]
pub struct Draw(SplitMix64);

impl Draw {
    /// The stream `seed`.
    pub fn new(seed: u64) -> Draw {
        Draw(SplitMix64::from_state(mix64(seed ^ 0x5eed)))
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.0.next_u64() % limit
    }
}
