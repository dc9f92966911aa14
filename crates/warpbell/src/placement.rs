//! Where rings and data lie: in host memory, in the controller, in memory of another function, or in a GPU's.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use warpbell_gpu::Gpu;
use warpbell_hw::{Pool, PoolFull, PoolPart, Window};
use warpbell_vfio::Bdf;

use crate::{Error, OrderDomain};

/// A placement as users write it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Place {
    /// `host`: host memory.
    #[default]
    Host,
    /// `cmb`: the controller memory buffer.
    Cmb,
    /// `hbm`: the memory of the GPU that kernels run on.
    Hbm,
    /// `bar:BDF/N`: BAR N of another PCI function.
    Bar(Bdf, u8),
}

/// A placement of no known form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "'{0}': expected host, cmb, hbm, or bar:BDF/N with a PCI address and a number from 0 to 5, such as bar:0000:01:00.0/2"
)]
pub struct PlaceError(String);

impl FromStr for Place {
    type Err = PlaceError;

    fn from_str(text: &str) -> Result<Place, PlaceError> {
        let bar = |text: &str| {
            let (bdf, bar) = text.strip_prefix("bar:")?.rsplit_once('/')?;
            let bar = bar.parse().ok().filter(|bar| *bar <= 5)?;
            Some(Place::Bar(bdf.parse().ok()?, bar))
        };
        match text {
            "host" => Ok(Place::Host),
            "cmb" => Ok(Place::Cmb),
            "hbm" => Ok(Place::Hbm),
            _ => bar(text).ok_or_else(|| PlaceError(text.to_owned())),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Place::Host => f.write_str("host"),
            Place::Cmb => f.write_str("cmb"),
            Place::Hbm => f.write_str("hbm"),
            Place::Bar(bdf, bar) => write!(f, "bar:{bdf}/{bar}"),
        }
    }
}

/// Memory that is not the host's, such as a BAR of another function, for rings and data of any number of SSDs. Each SSD
/// maps it once as a whole; rings and buffers are parts of it.
///
/// The host and kernels on the CPU reach it by aligned words, which may be slow, and never take it for cached.
#[derive(Debug)]
pub struct ForeignMemory {
    name: String,
    pool: Arc<Pool>,
}

impl ForeignMemory {
    /// All of `window`, under this name in reports.
    pub fn new(name: impl Into<String>, window: Window) -> Arc<ForeignMemory> {
        Arc::new(ForeignMemory { name: name.into(), pool: Pool::new(window) })
    }

    /// BAR `bar` of another PCI function, which must be bound to vfio-pci or to no driver.
    pub fn bar(bdf: Bdf, bar: u8) -> Result<Arc<ForeignMemory>, Error> {
        crate::open::foreign(bdf, bar)
            .map(|window| ForeignMemory::new(Place::Bar(bdf, bar).to_string(), window))
    }

    /// The name in reports.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All of the memory.
    pub fn window(&self) -> &Window {
        self.pool.window()
    }

    pub(crate) fn take(&self, len: usize) -> Result<PoolPart, Error> {
        self.pool.take(len).map_err(|full: PoolFull| Error::Argument {
            object: "memory",
            value: self.name.clone(),
            limit: full.to_string(),
        })
    }
}

/// Where the rings of queues lie.
#[derive(Clone, Debug, Default)]
pub enum RingPlacement {
    /// In host memory.
    #[default]
    Host,
    /// Submission rings in the controller memory buffer, completion rings in host memory.
    Cmb,
    /// Both in foreign memory.
    Foreign(Arc<ForeignMemory>),
}

impl RingPlacement {
    /// The words for reports: what it became.
    pub fn name(&self) -> String {
        match self {
            RingPlacement::Host => "host".to_owned(),
            RingPlacement::Cmb => "cmb (SQ), host (CQ)".to_owned(),
            RingPlacement::Foreign(memory) => memory.name.clone(),
        }
    }
}

/// Where data lies.
#[derive(Clone, Debug, Default)]
pub enum DataPlacement {
    /// In host memory.
    #[default]
    Host,
    /// In foreign memory.
    Foreign(Arc<ForeignMemory>),
    /// Of kernels: in this GPU's memory, where kernels of that GPU run. Of the host's own queues: in host memory.
    Hbm(Arc<Gpu>),
}

impl DataPlacement {
    /// The words for reports.
    pub fn name(&self) -> String {
        match self {
            DataPlacement::Host => "host".to_owned(),
            DataPlacement::Foreign(memory) => memory.name.clone(),
            DataPlacement::Hbm(gpu) => format!("hbm of cuda:{}", gpu.info().ordinal),
        }
    }
}

/// Whether a completion can become visible before the data that it announces. A controller sends data first, but
/// writes to different memory may overtake each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Domains {
    /// Data and completions lie in the same memory, which takes writes in order.
    One,
    /// They do not. Whoever reaps reads a register of the controller behind the completions, whose answer comes after the
    /// controller's earlier writes ([`OrderPolicy`](crate::OrderPolicy)); where that is no help, queues are refused.
    Two,
    /// They do not, but the controller copies, and completes a command only when its copies have ended.
    Copied,
}

impl Domains {
    pub(crate) fn of(rings: &RingPlacement, data: &DataPlacement) -> Domains {
        let (completions, data) = OrderDomain::pair(rings, data);
        if completions == data { Domains::One } else { Domains::Two }
    }

    /// The words for reports.
    pub fn name(self) -> &'static str {
        match self {
            Domains::One => "one memory",
            Domains::Two => "two memories: flushed by whoever reaps",
            Domains::Copied => "two memories: completed when copied",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_round_trip() {
        for text in ["host", "cmb", "hbm", "bar:0000:01:00.0/2", "bar:10de:0a:1f.7/0"] {
            assert_eq!(text.parse::<Place>().unwrap().to_string(), text);
        }
        assert_eq!("bar:01:00.0/1".parse::<Place>().unwrap().to_string(), "bar:0000:01:00.0/1");
        for text in
            ["", "gpu", "bar:", "bar:0000:01:00.0", "bar:0000:01:00.0/6", "bar:0000:01:00.0/-1", "bar:x/1"]
        {
            let error = text.parse::<Place>().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("'{text}': expected host, cmb, hbm, or bar:BDF/N")),
                "{error}"
            );
        }
    }

    #[test]
    fn completions_and_data_in_different_memory_are_told() {
        let memory = || ForeignMemory::new("fake driver", Window::host(4096).unwrap());
        let (one, other) = (memory(), memory());
        let rings = |memory: &Arc<ForeignMemory>| RingPlacement::Foreign(memory.clone());
        let data = |memory: &Arc<ForeignMemory>| DataPlacement::Foreign(memory.clone());
        for (rings, data, domains) in [
            (RingPlacement::Host, DataPlacement::Host, Domains::One),
            (RingPlacement::Cmb, DataPlacement::Host, Domains::One),
            (rings(&one), data(&one), Domains::One),
            (rings(&one), data(&other), Domains::Two),
            (rings(&one), DataPlacement::Host, Domains::Two),
            (RingPlacement::Host, data(&one), Domains::Two),
            (RingPlacement::Cmb, data(&one), Domains::Two),
        ] {
            assert_eq!(Domains::of(&rings, &data), domains, "{rings:?} {data:?}");
        }
    }
}
