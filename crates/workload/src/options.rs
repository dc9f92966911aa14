//! What a benchmark run is asked to do, in fio's words.

use std::time::Duration;

use serde::Serialize;

use crate::size::ByteSize;

/// An enumeration whose values users write and read in lower case.
macro_rules! words {
    ($(#[$doc:meta])* $name:ident { $($(#[$vdoc:meta])* $variant:ident = $word:literal),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$vdoc])* $variant),+ }

        impl $name {
            /// Every value.
            pub const ALL: &'static [$name] = &[$($name::$variant),+];

            /// The value's word.
            pub const fn word(self) -> &'static str {
                match self { $($name::$variant => $word),+ }
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
                Self::ALL.iter().copied().find(|value| value.word() == text).ok_or_else(|| WordError {
                    value: text.to_owned(),
                    words: Self::ALL.iter().map(|value| value.word()).collect::<Vec<_>>().join(", "),
                })
            }
        }
    };
}

/// A word that is not one of those allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("'{value}': expected one of {words}")]
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

/// One run, as asked for. [`crate::Job::resolve`] checks it against a device.
#[derive(Clone, Debug, PartialEq)]
pub struct BenchOptions {
    /// Access pattern.
    pub rw: Access,
    /// Reads in percent, for `randrw`.
    pub rwmixread: Option<u8>,
    /// Bytes per I/O.
    pub bs: ByteSize,
    /// Outstanding commands per queue.
    pub iodepth: u32,
    /// Queue pairs.
    pub queues: u16,
    /// Warps over all queues; `None`: as many as the sharing mode suggests.
    pub warps: Option<u32>,
    /// How warps share queues.
    pub sharing: Sharing,
    /// Who submits.
    pub api: Api,
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
    /// Seed of addresses, directions and contents.
    pub seed: u64,
    /// Whether and how data is checked.
    pub verify: Option<Verify>,
    /// The namespace.
    pub nsid: u32,
    /// The longest that one command may take.
    pub deadline: Duration,
    /// Threads that drive host queues, or run kernels on the CPU target; `None`: one processor less
    /// than there are.
    pub threads: Option<usize>,
    /// Processors for these threads, used in turn; empty: the system places them.
    pub cpus: Vec<usize>,
}

impl Default for BenchOptions {
    fn default() -> Self {
        BenchOptions {
            rw: Access::RandRead,
            rwmixread: None,
            bs: ByteSize(4096),
            iodepth: 32,
            queues: 1,
            warps: None,
            sharing: Sharing::Exclusive,
            api: Api::Io,
            runtime: None,
            io_limit: None,
            size: None,
            offset: ByteSize(0),
            ramp: Duration::ZERO,
            seed: 1,
            verify: None,
            nsid: 1,
            deadline: Duration::from_secs(10),
            threads: None,
            cpus: Vec::new(),
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
