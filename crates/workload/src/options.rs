//! What a benchmark run is asked to do, in fio's words.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use warpbell_driver::Coalescing;

use crate::distribution::Distribution;
use crate::job::NamedFile;
use crate::opening::Opening;
use crate::size::ByteSize;
use crate::trace::SsdReplay;
use warpbell_hw::Nsid;

/// An enumeration whose values users write and read in lower case. Further words of a value are read, never written.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal $(| $alias:literal)*),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
        pub enum $name { $($(#[$vdoc])* #[serde(rename = $word $(, alias = $alias)*)] $variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The value's word.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
            }

            /// Every word that is read: its own, then its further ones.
            pub(crate) const fn words(self) -> &'static [&'static str] {
                match self { $($name::$variant => &[$word $(, $alias)*]),+ }
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.word())
            }
        }

        impl std::str::FromStr for $name {
            type Err = WordError;
            fn from_str(text: &str) -> Result<Self, WordError> {
                Self::ALL.iter().copied().find(|value| value.words().contains(&text)).ok_or_else(|| WordError {
                    value: text.to_owned(),
                    words: one_of(Self::ALL.iter().flat_map(|value| value.words()).copied().collect()),
                })
            }
        }
    };
}

/// What is expected, in words.
fn one_of(words: Vec<&str>) -> String {
    match words[..] {
        [word] => word.to_owned(),
        _ => format!("one of {}", words.join(", ")),
    }
}

/// A word that is not one of those allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{value}': expected {words}")]
pub struct WordError {
    value: String,
    words: String,
}

words! {
    /// The access pattern.
    Access {
        /// Sequential reads.
        Read = "read",
        /// Sequential writes.
        Write = "write",
        /// Random reads.
        RandRead = "randread",
        /// Random writes.
        RandWrite = "randwrite",
        /// Random reads and writes, mixed by `--rwmixread`.
        RandRw = "randrw",
    }
}

words! {
    /// Who reads the volumes of an experiment.
    VolumeApi {
        /// The host, by queues of its own.
        Host = "host",
        /// Kernels, by `volume.cuh`.
        Volume = "volume",
    }
}

words! {
    /// How the warps of kernels find queues and replicas: the mappings of `volume.cuh`.
    VolumePolicy {
        /// Warp after warp.
        RoundRobin = "round-robin",
        /// By hashes of row and chunk.
        Hashed = "hashed",
        /// All warps of a block alike.
        ByCta = "by-cta",
        /// The replica that the host says is nearest: here the first.
        Nearest = "nearest",
    }
}

impl VolumePolicy {
    /// The kernel that has it.
    pub(crate) const fn kernel(self) -> &'static str {
        match self {
            VolumePolicy::RoundRobin => "bench_volume",
            VolumePolicy::Hashed => "bench_volume_hashed",
            VolumePolicy::ByCta => "bench_volume_by_cta",
            VolumePolicy::Nearest => "bench_volume_nearest",
        }
    }
}

impl Access {
    /// Whether any command writes.
    pub fn writes(self) -> bool {
        !matches!(self, Access::Read | Access::RandRead)
    }

    /// Whether addresses are drawn at random.
    pub fn random(self) -> bool {
        !matches!(self, Access::Read | Access::Write)
    }

    /// Percentage of reads, where only `randrw` has a choice.
    pub fn read_percent(self, mix: u8) -> u8 {
        match self {
            Access::Read | Access::RandRead => 100,
            Access::Write | Access::RandWrite => 0,
            Access::RandRw => mix,
        }
    }
}

words! {
    /// Who submits commands, through which interface.
    Api {
        /// The Rust driver, without kernels.
        Host = "host",
        /// A kernel over `queue.cuh`: one command per lane, posted and reaped by hand.
        Raw = "raw",
        /// A kernel over `io.cuh`: `read_each` and `write_each`.
        Io = "io",
        /// A kernel over `agent.cuh`: some warps do the I/O of the others.
        Agent = "agent",
        /// A kernel over `batch.cuh`: the threads of a block send their I/Os together.
        Batch = "batch",
        /// Kernels over `array.cuh`: words of an array over a page cache.
        Array = "array",
    }
}

words! {
    /// Which page leaves a cache for another.
    Policy {
        /// In turn, but for pages that were used since their last turn.
        Clock = "clock",
        /// In turn.
        Fifo = "fifo",
        /// Of eight drawn pages the one used longest ago.
        Lru = "lru",
    }
}

words! {
    /// A protocol of the laboratory: how kernels submit and learn of completions (`docs/protocols.md`).
    Protocol {
        /// The library's: one ticket for a warp, which rings in its turn; one warp polls and collects for all.
        Turns = "turns",
        /// The same by the calls of one thread: each lane takes a ticket, and waits, for itself.
        TurnsAlone = "turns-alone",
        /// After BaM. A ticket for each thread; whoever has the lock sweeps the marks of the others.
        Marks = "marks" | "bam",
        /// The same with an identifier for each thread, in place of one counter for all.
        MarksOwn = "marks-own",
        /// After xNVMe. A block of threads submits and waits together, by position.
        Lockstep = "lockstep" | "xnvme",
        /// After AGILE. Slots are handed out one after the other; a warp of its own polls completions.
        Service = "service" | "agile",
    }
}

words! {
    /// How host queues learn of completions. Kernels poll.
    Completion {
        /// The thread polls.
        Poll = "poll",
        /// The thread sleeps until the controller interrupts.
        Interrupt = "interrupt",
    }
}

words! {
    /// How warps share queue pairs.
    Sharing {
        /// One warp owns a pair; no atomic read-modify-write.
        Exclusive = "exclusive",
        /// Any warp of a queue submits to it.
        Shared = "shared",
    }
}

words! {
    /// How data is checked.
    Verify {
        /// Each block's CRC-32C against what was written there.
        Crc32c = "crc32c",
    }
}

words! {
    /// When doorbells go through memory that the controller polls (Doorbell Buffer Config).
    Dbbuf {
        /// Where the controller offers it.
        Auto = "auto",
        /// Always; opening fails where it cannot be had.
        On = "on",
        /// Never.
        Off = "off",
    }
}

words! {
    /// How a trace is written.
    TraceForm {
        /// Chrome's trace events, for viewers.
        Chrome = "chrome",
        /// Every event as it was written.
        Json = "json",
    }
}

words! {
    /// What kind of trace is replayed.
    ReplayFormat {
        /// As the file begins.
        Auto = "auto",
        /// A trace of `bench --trace`, in either form.
        Warpbell = "warpbell",
        /// An I/O log of fio's, version 2 or 3.
        Fio = "fio",
        /// The CSV of the block traces of MSR Cambridge.
        Msr = "msr",
    }
}

words! {
    /// When the commands of a replay are submitted.
    ReplayTiming {
        /// As soon as there is room.
        Asap = "asap",
        /// Not before the time, from the start, at which they were recorded.
        Recorded = "recorded",
    }
}

/// One run, as asked for. [`crate::Job::resolve`] checks it against a device.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchOptions {
    /// Access pattern.
    pub rw: Access,
    /// Reads in percent, for `randrw`.
    pub rwmixread: Option<u8>,
    /// How random addresses are drawn.
    pub random_distribution: Distribution,
    /// Bytes per I/O.
    pub bs: ByteSize,
    /// Outstanding commands per queue.
    pub iodepth: u32,
    /// Queue pairs.
    pub queues: u16,
    /// Warps over all queues; `None`: as many as the sharing mode suggests.
    pub warps: Option<u32>,
    /// Agent warps over all queues, with `Api::Agent`; `None`: as few as the depth allows.
    pub agents: Option<u32>,
    /// Threads of a block, with `Api::Batch`; `None`: [`crate::DEFAULT_BLOCK`].
    pub block: Option<u32>,
    /// Memory of the page cache, with `Api::Array`; `None`: [`crate::DEFAULT_CACHE`].
    pub cache: Option<ByteSize>,
    /// Its policy; `None`: clock.
    pub policy: Option<Policy>,
    /// How many of a hundred pages are to be found in it; `None`: pages are drawn from the whole range.
    pub hit_rate: Option<u8>,
    /// Pages that a warp wants at once; `None`: one for each lane.
    pub spread: Option<u32>,
    /// How warps share queues.
    pub sharing: Sharing,
    /// Who submits.
    pub api: Api,
    /// The protocol of the laboratory to use instead of `api`'s loop.
    pub protocol: Option<Protocol>,
    /// How many lanes of a warp must be able to begin an I/O before any does; `None`: each begins its own at once.
    pub gather: Option<u32>,
    /// How host queues learn of completions.
    pub completion: Completion,
    /// How the controller gathers interrupts for them meanwhile; `None`: as it does.
    pub coalescing: Option<Coalescing>,
    /// How long to run; `None`: until the I/O limit.
    pub runtime: Option<Duration>,
    /// Bytes to transfer before the run ends.
    pub io_limit: Option<ByteSize>,
    /// Bytes of the namespace to use, from `offset` on.
    pub size: Option<ByteSize>,
    /// First byte of the namespace to use.
    pub offset: ByteSize,
    /// Time before measuring starts.
    pub ramp: Duration,
    /// Time between two counts of what is done; `None`: a second, or a tenth of the runtime.
    pub interval: Option<Duration>,
    /// Seed of addresses, directions and contents.
    pub seed: u64,
    /// Whether and how data is checked.
    pub verify: Option<Verify>,
    /// The namespace.
    pub nsid: Nsid,
    /// The longest that one command may take.
    pub timeout: Duration,
    /// How often a command that failed may be submitted once more.
    pub retries: u32,
    /// Whether queues and a controller that do not answer are recovered while the run goes on.
    pub recover: bool,
    /// Threads that drive host queues, or run kernels on the CPU target; `None`: one processor less
    /// than there are.
    pub threads: Option<usize>,
    /// Processors for these threads, used in turn; empty: the system places them.
    pub cpus: Vec<usize>,
    /// Events of each warp that a trace of the run keeps; `None`: no trace.
    pub trace_events: Option<u32>,
    /// Commands to submit instead of those of `rw`: queues, warps and depth are the recording's.
    pub replay: Option<Arc<SsdReplay>>,
    /// The file that is read, in the place of the namespace: `offset` and `size` are of it.
    pub file: Option<Arc<NamedFile>>,
    /// How the SSD is to be opened before.
    pub opening: Opening,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions {
            rw: Access::RandRead,
            rwmixread: None,
            random_distribution: Distribution::Random,
            bs: ByteSize(4096),
            iodepth: 32,
            queues: 1,
            warps: None,
            agents: None,
            block: None,
            cache: None,
            policy: None,
            hit_rate: None,
            spread: None,
            sharing: Sharing::Exclusive,
            api: Api::Io,
            protocol: None,
            gather: None,
            completion: Completion::Poll,
            coalescing: None,
            runtime: None,
            io_limit: None,
            size: None,
            offset: ByteSize(0),
            ramp: Duration::ZERO,
            interval: None,
            seed: 1,
            verify: None,
            nsid: Nsid(1),
            timeout: Duration::from_secs(10),
            retries: 0,
            recover: true,
            threads: None,
            cpus: Vec::new(),
            trace_events: None,
            replay: None,
            file: None,
            opening: Opening::default(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_round_trip() {
        for &access in Access::ALL {
            assert_eq!(access.to_string().parse(), Ok(access));
            assert_eq!(serde_json::to_value(access).unwrap(), access.word());
        }
        assert_eq!(
            "trim".parse::<Access>().unwrap_err().to_string(),
            "'trim': expected one of read, write, randread, randwrite, randrw"
        );
    }

    #[test]
    fn directions() {
        assert!(!Access::Read.writes() && Access::RandRw.writes());
        assert!(!Access::Write.random() && Access::RandWrite.random());
        assert_eq!(Access::RandRw.read_percent(70), 70);
        assert_eq!(Access::RandWrite.read_percent(70), 0);
    }
}
