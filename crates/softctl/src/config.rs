//! What a soft controller is made of.

use std::fmt;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use warpbell_base::Time;
use warpbell_nvme::register::Vs;

use crate::cmb::UNIT;
use crate::fault::{FaultError, FaultKind, FaultPlan};
use crate::optional::OptionalCommands;
use crate::power::PowerState;
use crate::profile::{Profile, ProfileError};
use crate::subsystem::Health;
use crate::test_hooks::Defect;
use crate::version::{self, VERSION};

/// Bytes of the namespace of [`SoftConfig::default`].
const DEFAULT_BYTES: u64 = 64 << 20;

/// Most entries of an I/O queue.
pub const MAX_ENTRIES: u32 = 65536;
/// Widest doorbell stride that is offered: doorbells `4 << 4` bytes apart.
pub const MAX_STRIDE: u8 = 4;
/// Largest MDTS: `2^20` pages hold more than the longest possible command.
pub const MAX_MDTS: u8 = 20;
/// Largest controller memory buffer, in bytes.
pub const MAX_CONTROLLER_MEMORY: u64 = 1 << 30;
/// Most polling threads.
pub const MAX_POLLERS: usize = 256;
/// Most completions that [`CompletionOrder::Shuffled`] holds back.
pub const MAX_WINDOW: usize = 65536;
/// Most namespaces.
pub const MAX_NAMESPACES: usize = 1024;

/// Most bytes of a namespace in memory, and of all that clients create.
const MAX_BYTES: u64 = 1 << 46;
/// Namespaces that clients may create if nothing else is said.
const MORE_NAMESPACES: usize = 16;

warpbell_base::options! {
    /// A soft controller's configuration.
    #[derive(Clone, Debug)]
    pub struct SoftConfig {
        /// The namespaces, from NSID 1 on.
        pub namespaces: Vec<NamespaceConfig>,
        /// Bytes of memory that clients may make into more namespaces.
        pub capacity: u64,
        /// The largest valid NSID; `None` for as many as there are, and 16 more if there is `capacity`.
        pub max_namespaces: Option<u32>,
        /// Most I/O queue pairs that Number of Queues grants, 1 to 65535.
        pub queue_pairs: u16,
        /// Grants exactly so many, whatever was asked for.
        pub grant: Option<u16>,
        /// Most entries of an I/O queue (CAP.MQES + 1), 2 to 65536.
        pub max_entries: u32,
        /// MDTS: a command moves at most `4096 << mdts` bytes; 0 means no limit.
        pub mdts: u8,
        /// Whether commands may use SGLs.
        pub sgl: bool,
        /// The version that the controller claims (VS); it does what version 2.0 says all the same.
        pub version: Vs,
        /// Which optional commands there are, and their limits.
        pub optional: OptionalCommands,
        /// CAP.DSTRD: doorbells are `4 << stride` bytes apart, 0 to 4.
        pub stride: u8,
        /// Doorbell Buffer Config (OACS bit 8).
        pub doorbell_buffer: DoorbellBufferMode,
        /// Weighted round robin with urgent priority class (CAP.AMS), for clients that ask for it in CC.AMS.
        pub weighted_round_robin: bool,
        /// Offer 32-bit command identifiers. Experimental: Identify Controller says so.
        pub wide_cids: bool,
        /// Bytes of the controller memory buffer, a multiple of 4096 up to 1 GiB; 0: none. It takes submission queues.
        pub controller_memory: u64,
        /// Polling threads of a threaded controller, 1 to 256.
        pub pollers: usize,
        /// The longest that a poller sleeps which has I/O queues and nothing to do: what a client's first command after
        /// a while may wait for.
        pub longest_nap: Duration,
        /// Processors for the pollers, used in turn; `None` leaves placement to the system.
        pub pin: Option<Vec<usize>>,
        /// Faults to inject.
        pub faults: FaultPlan,
        /// How long commands take; `None`: as long as this program needs.
        pub profile: Option<Profile>,
        /// I/O commands that a profile is working on at once, at most; the others wait in their queues. `None`: no limit.
        pub slots: Option<u32>,
        /// Power states, from state 0 on, at most 32; none or one: there is no choice.
        pub power_states: Vec<PowerState>,
        /// CRDT1 to CRDT3, in 100 ms: the delays that the Command Retry Delay of a status stands for.
        pub retry_delays: [u16; 3],
        /// How long a shutdown takes (RTD3E), in whole microseconds; zero: as long as this program needs.
        pub shutdown_time: Duration,
        /// What SMART / Health Information says of the media at first.
        pub health: Health,
        /// Asks whoever opens the device by name for a stepped controller, in virtual time.
        pub virtual_time: bool,
        /// What kernels on the CPU target take of the virtual time.
        pub client: ClientModel,
        /// Where the rings of a charged client lie; `None`: in host memory.
        pub client_rings: Option<ClientRings>,
        /// Whether a loss of power takes back what was not flushed. It does so, too, if a fault of the plan is one.
        pub volatile_cache: bool,
        /// In which order commands complete.
        pub order: CompletionOrder,
        /// Seed of every choice that the controller makes.
        pub seed: u64,
        /// A mistake that the controller is to make, for tests that must notice.
        pub(crate) defect: Option<Defect>,
        /// Overwrite each fetched entry with FFh, so that fetching it again shows (stepped mode only).
        pub poison_fetched: bool,
        /// What messages call the controller; `None`: `soft:` and its serial number.
        pub name: Option<String>,
        /// Serial number, up to 20 printable ASCII characters.
        pub serial: String,
        /// Whether `serial` was chosen, or made of a file's path; else [`SoftConfig::numbered`] makes one.
        pub serial_is_own: bool,
        /// Model number, up to 40 printable ASCII characters.
        pub model: String,
        /// Firmware revision, up to 8 printable ASCII characters.
        pub firmware: String,
    }
}

/// One namespace.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct NamespaceConfig {
    /// Bytes of a logical block: 512 or 4096.
    pub block_size: u32,
    /// Where the blocks are.
    pub store: StoreConfig,
}

/// Where a namespace keeps its blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StoreConfig {
    /// Memory of this process, zero at first.
    Memory {
        /// Length in bytes; a last block that is not full is zero at its end.
        bytes: u64,
    },
    /// A file or block device, at the length that it has when the controller starts.
    File {
        /// Its path.
        path: PathBuf,
        /// Whether clients may write to it.
        writable: bool,
    },
}

/// Whether clients may keep doorbells in their memory, for the controller to poll.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DoorbellBufferMode {
    /// The command is not supported.
    Off,
    /// As the specification says.
    On,
}

/// What kernels take of the virtual time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientModel {
    /// Nothing: time passes while all of them wait.
    Free,
    /// What a GPU of this kind takes for each access.
    H200,
}

/// Where the rings lie of a client whose accesses take time: what a poll of them costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientRings {
    /// In host memory, behind PCIe.
    Host,
    /// In the GPU's memory.
    Hbm,
}

/// In which order fetched commands complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompletionOrder {
    /// Each as soon as it was fetched.
    Immediate,
    /// Up to `window` are held back, and one of them, by the seed, completes next.
    Shuffled {
        /// Commands held back per poller, 1 to 65536.
        window: usize,
    },
    /// They are executed as by [`CompletionOrder::Shuffled`], or as they come if `window` is 0, but the completions of
    /// each submission queue are posted in the order of submission. Experimental: Identify Controller says so.
    Submission {
        /// Commands held back per poller, 0 to 65536.
        window: usize,
    },
}

impl Default for SoftConfig {
    fn default() -> SoftConfig {
        SoftConfig {
            namespaces: vec![NamespaceConfig::memory(DEFAULT_BYTES, 512)],
            capacity: 0,
            max_namespaces: None,
            queue_pairs: 64,
            grant: None,
            max_entries: MAX_ENTRIES,
            mdts: 5,
            sgl: true,
            version: VERSION,
            optional: OptionalCommands::new(),
            stride: 0,
            doorbell_buffer: DoorbellBufferMode::Off,
            weighted_round_robin: false,
            wide_cids: false,
            controller_memory: 0,
            pollers: 1,
            longest_nap: Duration::from_millis(1),
            pin: None,
            faults: FaultPlan::default(),
            profile: None,
            slots: None,
            power_states: Vec::new(),
            retry_delays: [0; 3],
            shutdown_time: Duration::ZERO,
            health: Health::default(),
            virtual_time: false,
            client: ClientModel::Free,
            client_rings: None,
            volatile_cache: false,
            order: CompletionOrder::Immediate,
            seed: 1,
            defect: None,
            poison_fetched: false,
            name: None,
            serial: "WARPBELL0001".to_owned(),
            serial_is_own: false,
            model: "Warpbell soft controller".to_owned(),
            firmware: env!("CARGO_PKG_VERSION").to_owned(),
        }
    }
}

impl fmt::Display for ClientModel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientModel::Free => "free",
            ClientModel::H200 => "h200",
        })
    }
}

impl fmt::Display for ClientRings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ClientRings::Host => "host",
            ClientRings::Hbm => "hbm",
        })
    }
}

impl NamespaceConfig {
    /// A namespace in memory.
    pub fn memory(bytes: u64, block_size: u32) -> NamespaceConfig {
        NamespaceConfig { block_size, store: StoreConfig::Memory { bytes } }
    }

    /// A namespace over a file.
    pub fn file(path: impl Into<PathBuf>, block_size: u32, writable: bool) -> NamespaceConfig {
        NamespaceConfig { block_size, store: StoreConfig::File { path: path.into(), writable } }
    }
}

/// Why a configuration is refused: which setting, its value, and what it may be.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SoftConfigError {
    /// A value that the setting does not take.
    #[error("soft device setting {key}={value}: {limit}")]
    Value {
        /// The setting.
        key: String,
        /// The value given.
        value: String,
        /// What it may be.
        limit: String,
    },
    /// No such setting.
    #[error("soft device setting {key:?} is unknown; known: {known}")]
    Unknown {
        /// The name given.
        key: String,
        /// The names there are.
        known: String,
    },
    /// A setting without `=value`.
    #[error("soft device setting {text:?} has no value: write key=value")]
    NoValue {
        /// The text given.
        text: String,
    },
    /// A setting given twice.
    #[error("soft device setting {key} is given twice: {first} and {second}")]
    Twice {
        /// The setting.
        key: String,
        /// Its first value.
        first: String,
        /// Its second value.
        second: String,
    },
    /// Neither `size=` nor `file=`.
    #[error("soft device has no namespace: give size=BYTES (for example size=1g) or file=PATH")]
    NoNamespace,
    /// The fault plan is wrong.
    #[error(transparent)]
    Fault(#[from] FaultError),
    /// The profile is wrong.
    #[error(transparent)]
    Profile(#[from] ProfileError),
}

impl SoftConfigError {
    pub(crate) fn value(key: &str, value: impl ToString, limit: impl Into<String>) -> SoftConfigError {
        SoftConfigError::Value { key: key.to_owned(), value: value.to_string(), limit: limit.into() }
    }
}

fn within<T: PartialOrd + ToString>(key: &str, value: T, low: T, high: T) -> Result<(), SoftConfigError> {
    if value < low || value > high {
        let limit = format!("must be {} to {}", low.to_string(), high.to_string());
        return Err(SoftConfigError::value(key, value, limit));
    }
    Ok(())
}

fn text(key: &str, value: &str, most: usize) -> Result<(), SoftConfigError> {
    if value.len() > most || !value.bytes().all(|b| (0x20..=0x7e).contains(&b)) {
        let limit = format!("must be at most {most} printable ASCII characters");
        return Err(SoftConfigError::value(key, format!("{value:?}"), limit));
    }
    Ok(())
}

/// Refuses a processor that this process may not run on.
fn usable(cpu: usize) -> Result<(), SoftConfigError> {
    let all = warpbell_hw::usable_processors().map_err(|error| {
        SoftConfigError::value("pin", cpu, format!("cannot ask which processors there are: {error}"))
    })?;
    if all.contains(&cpu) {
        return Ok(());
    }
    let (first, last) = (all.first().copied().unwrap_or(0), all.last().copied().unwrap_or(0));
    let limit = format!("must be a processor that this process may run on, from {first} to {last}");
    Err(SoftConfigError::value("pin", cpu, limit))
}

impl SoftConfig {
    /// With a serial number that no other controller of this process has, unless it has one of its own.
    #[must_use]
    pub fn numbered(self) -> SoftConfig {
        static NEXT: AtomicU32 = AtomicU32::new(1);
        if self.serial_is_own {
            return self;
        }
        let serial = format!("WARPBELL{:04}", NEXT.fetch_add(1, Ordering::Relaxed));
        SoftConfig { serial, serial_is_own: true, ..self }
    }

    /// Checks every setting against its limit.
    pub fn validate(&self) -> Result<(), SoftConfigError> {
        if self.namespaces.is_empty() {
            return Err(SoftConfigError::NoNamespace);
        }
        within("namespaces", self.namespaces.len(), 1, MAX_NAMESPACES)?;
        self.namespaces.iter().try_for_each(NamespaceConfig::validate)?;
        version::check(self.version)?;
        self.validate_numbers()?;
        self.validate_pins()?;
        self.validate_client()?;
        self.faults.validate()?;
        self.profile.as_ref().map_or(Ok(()), Profile::validate)?;
        crate::power::check(&self.power_states)?;
        self.validate_times()?;
        text("serial", &self.serial, 20)?;
        text("model", &self.model, 40)?;
        text("firmware", &self.firmware, 8)
    }

    fn validate_numbers(&self) -> Result<(), SoftConfigError> {
        within("capacity", self.capacity, 0, MAX_BYTES)?;
        if let Some(most) = self.max_namespaces {
            within("max_namespaces", most, self.namespaces.len() as u32, MAX_NAMESPACES as u32)?;
        }
        within("queues", self.queue_pairs, 1, u16::MAX)?;
        if let Some(grant) = self.grant {
            within("grant", grant, 1, u16::MAX)?;
        }
        within("entries", self.max_entries, 2, MAX_ENTRIES)?;
        within("mdts", self.mdts, 0, MAX_MDTS)?;
        within("wzsl", self.optional.wzsl, 0, MAX_MDTS)?;
        within("stride", self.stride, 0, MAX_STRIDE)?;
        within("pollers", self.pollers, 1, MAX_POLLERS)?;
        if let CompletionOrder::Shuffled { window } = self.order {
            within("order=shuffled window", window, 1, MAX_WINDOW)?;
        }
        if let CompletionOrder::Submission { window } = self.order {
            within("order=submission window", window, 0, MAX_WINDOW)?;
        }
        within("cmb", self.controller_memory, 0, MAX_CONTROLLER_MEMORY)?;
        if !self.controller_memory.is_multiple_of(UNIT) {
            let limit = format!("must be a multiple of {UNIT} bytes");
            return Err(SoftConfigError::value("cmb", self.controller_memory, limit));
        }
        Ok(())
    }

    fn validate_times(&self) -> Result<(), SoftConfigError> {
        if self.faults.has_retry_delay() && self.retry_delays == [0; 3] {
            let limit =
                "must be given where a fault has a retry delay (crd), for example crdt=100ms+500ms+2s";
            return Err(SoftConfigError::value("crdt", "(none)", limit));
        }
        let longest = Duration::from_micros(u32::MAX.into());
        if self.shutdown_time > longest || !self.shutdown_time.subsec_nanos().is_multiple_of(1000) {
            let limit = format!("must be whole microseconds, at most {}", Time(longest));
            return Err(SoftConfigError::value("rtd3e", Time(self.shutdown_time), limit));
        }
        Ok(())
    }

    fn validate_client(&self) -> Result<(), SoftConfigError> {
        match (self.client, self.client_rings) {
            (ClientModel::Free, Some(rings)) => {
                let limit = "needs a client whose accesses take time: client=h200";
                Err(SoftConfigError::value("rings", rings, limit))
            }
            (ClientModel::H200, _) if !self.virtual_time => {
                let limit = "needs virtual time, which its accesses take: time=virtual";
                Err(SoftConfigError::value("client", self.client, limit))
            }
            _ => Ok(()),
        }
    }

    fn validate_pins(&self) -> Result<(), SoftConfigError> {
        match &self.pin {
            Some(pins) if pins.is_empty() => {
                Err(SoftConfigError::value("pin", "", "must name at least one processor, for example 0+1"))
            }
            Some(pins) => pins.iter().try_for_each(|cpu| usable(*cpu)),
            None => Ok(()),
        }
    }

    /// The largest valid NSID.
    pub(crate) fn last_nsid(&self) -> u32 {
        let count = self.namespaces.len();
        let more = if self.capacity > 0 { MORE_NAMESPACES } else { 0 };
        self.max_namespaces.unwrap_or((count + more).min(MAX_NAMESPACES) as u32)
    }

    /// Whether there are several power states.
    pub(crate) fn has_power_states(&self) -> bool {
        self.power_states.len() > 1
    }

    /// Whether writes that were not flushed can be lost.
    pub(crate) fn loses_writes(&self) -> bool {
        self.volatile_cache || self.faults.has(FaultKind::PowerLoss)
    }

    /// The highest queue identifier that may ever be used.
    pub(crate) fn highest_qid(&self) -> u16 {
        self.queue_pairs.max(self.grant.unwrap_or(0))
    }
}

impl NamespaceConfig {
    fn validate(&self) -> Result<(), SoftConfigError> {
        if !matches!(self.block_size, 512 | 4096) {
            return Err(SoftConfigError::value("block", self.block_size, "must be 512 or 4096 bytes"));
        }
        if let StoreConfig::Memory { bytes } = self.store {
            within("size", bytes, 1, MAX_BYTES)?;
        }
        Ok(())
    }
}
