//! Where rings and data lie: in host memory, in the controller, in memory of another function, or in a GPU's.

mod named;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use warpbell_gpu::Gpu;
use warpbell_hw::{Pool, PoolFull, PoolPart, Window};
use warpbell_vfio::Bdf;

use crate::{Error, OrderDomain};

pub use named::placements;

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

/// Where rings go, as users write it: one place for both, or `sq=PLACE,cq=PLACE`. Completion rings are never in the
/// controller memory buffer: `cmb` is `sq=cmb,cq=host`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RingPlaces {
    /// Submission rings.
    pub sq: Place,
    /// Completion rings.
    pub cq: Place,
}

/// Places of rings of no known form.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingPlacesError {
    /// Neither a place nor two.
    #[error(
        "'{0}': expected host, cmb, hbm, bar:BDF/N with a PCI address and a number from 0 to 5, such as \
         bar:0000:01:00.0/2, or one for each as sq=PLACE,cq=PLACE, such as sq=cmb,cq=hbm"
    )]
    Form(String),
    /// One kind of rings has no place.
    #[error("'{text}': {missing}=PLACE is missing, such as {text},{missing}=host")]
    Half {
        /// What was given.
        text: String,
        /// `sq` or `cq`.
        missing: &'static str,
    },
    /// One kind of rings has two places.
    #[error("'{text}': {kind}= is given twice: sq=PLACE,cq=PLACE has a place for each")]
    Twice {
        /// What was given.
        text: String,
        /// `sq` or `cq`.
        kind: &'static str,
    },
    /// One of the places is none.
    #[error("'{text}': {source}")]
    Place {
        /// What was given.
        text: String,
        /// Which, and what a place is.
        source: PlaceError,
    },
    /// Completion rings in the controller memory buffer.
    #[error(
        "'{0}': the controller memory buffer takes submission rings only: cq=host, cq=hbm or cq=bar:BDF/N"
    )]
    Completions(String),
}

impl FromStr for RingPlaces {
    type Err = RingPlacesError;

    fn from_str(text: &str) -> Result<RingPlaces, RingPlacesError> {
        let form = || RingPlacesError::Form(text.to_owned());
        if !text.contains("q=") {
            let both = text.parse().map_err(|_| form())?;
            let cq = if both == Place::Cmb { Place::Host } else { both };
            return Ok(RingPlaces { sq: both, cq });
        }
        let (mut sq, mut cq) = (None, None);
        for part in text.split(',') {
            let (kind, place) = part.split_once('=').ok_or_else(form)?;
            let (kind, slot) = match kind {
                "sq" => ("sq", &mut sq),
                "cq" => ("cq", &mut cq),
                _ => return Err(form()),
            };
            let place =
                place.parse().map_err(|source| RingPlacesError::Place { text: text.to_owned(), source })?;
            if slot.replace(place).is_some() {
                return Err(RingPlacesError::Twice { text: text.to_owned(), kind });
            }
        }
        let half = |missing| RingPlacesError::Half { text: text.to_owned(), missing };
        let places = RingPlaces { sq: sq.ok_or_else(|| half("sq"))?, cq: cq.ok_or_else(|| half("cq"))? };
        if places.cq == Place::Cmb {
            return Err(RingPlacesError::Completions(text.to_owned()));
        }
        Ok(places)
    }
}

impl fmt::Display for RingPlaces {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.sq, self.cq) {
            (Place::Cmb, Place::Host) => f.write_str("cmb"),
            (sq, cq) if sq == cq => sq.fmt(f),
            (sq, cq) => write!(f, "sq={sq},cq={cq}"),
        }
    }
}

impl RingPlaces {
    /// The same with what is behind each place, as `find` knows it: the same for the same place.
    pub fn find<E>(self, mut find: impl FnMut(Place) -> Result<RingPlace, E>) -> Result<RingPlacement, E> {
        let sq = find(self.sq)?;
        let cq = if self.cq == self.sq { sq.clone() } else { find(self.cq)? };
        Ok(RingPlacement::Pair { sq, cq })
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
    /// Both of kernels' queues in this GPU's memory, where kernels of that GPU run. Those of the host's own queues in
    /// host memory.
    Hbm(Arc<Gpu>),
    /// Each by itself.
    Pair {
        /// Submission rings.
        sq: RingPlace,
        /// Completion rings; never in the controller memory buffer.
        cq: RingPlace,
    },
}

/// Where one kind of rings lies.
#[derive(Clone, Debug, Default)]
pub enum RingPlace {
    /// In host memory.
    #[default]
    Host,
    /// In the controller memory buffer.
    Cmb,
    /// In foreign memory.
    Foreign(Arc<ForeignMemory>),
    /// In this GPU's memory; of the host's own queues, in host memory.
    Hbm(Arc<Gpu>),
}

impl RingPlace {
    /// The words for reports.
    pub fn name(&self) -> String {
        match self {
            RingPlace::Host => "host".to_owned(),
            RingPlace::Cmb => "cmb".to_owned(),
            RingPlace::Foreign(memory) => memory.name.clone(),
            RingPlace::Hbm(gpu) => format!("hbm of {}", gpu.info().target()),
        }
    }

    /// The GPU in whose memory it is.
    pub fn gpu(&self) -> Option<&Arc<Gpu>> {
        match self {
            RingPlace::Hbm(gpu) => Some(gpu),
            _ => None,
        }
    }
}

impl RingPlacement {
    /// Where submission rings lie.
    pub fn sq(&self) -> RingPlace {
        match self {
            RingPlacement::Host => RingPlace::Host,
            RingPlacement::Cmb => RingPlace::Cmb,
            RingPlacement::Foreign(memory) => RingPlace::Foreign(memory.clone()),
            RingPlacement::Hbm(gpu) => RingPlace::Hbm(gpu.clone()),
            RingPlacement::Pair { sq, .. } => sq.clone(),
        }
    }

    /// Where completion rings lie.
    pub fn cq(&self) -> RingPlace {
        match self {
            RingPlacement::Cmb => RingPlace::Host,
            RingPlacement::Pair { cq, .. } => cq.clone(),
            both => both.sq(),
        }
    }

    /// The words for reports: what it became.
    pub fn name(&self) -> String {
        let (sq, cq) = (self.sq().name(), self.cq().name());
        if sq == cq { sq } else { format!("{sq} (SQ), {cq} (CQ)") }
    }

    /// Where the host's own queues have theirs.
    pub(crate) fn of_the_host(&self) -> RingPlacement {
        let place = |place| if matches!(place, RingPlace::Hbm(_)) { RingPlace::Host } else { place };
        RingPlacement::Pair { sq: place(self.sq()), cq: place(self.cq()) }
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
            DataPlacement::Hbm(gpu) => format!("hbm of {}", gpu.info().target()),
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
    fn places_of_rings_round_trip() {
        for text in ["host", "cmb", "hbm", "bar:0000:01:00.0/2", "sq=cmb,cq=hbm", "sq=host,cq=hbm"] {
            assert_eq!(text.parse::<RingPlaces>().unwrap().to_string(), text);
        }
        for (text, same) in
            [("cq=hbm,sq=host", "sq=host,cq=hbm"), ("sq=cmb,cq=host", "cmb"), ("sq=hbm,cq=hbm", "hbm")]
        {
            assert_eq!(text.parse::<RingPlaces>().unwrap().to_string(), same);
        }
        let refused = |text: &str| text.parse::<RingPlaces>().unwrap_err().to_string();
        for text in ["", "gpu", "hbm,cmb", "sq=hbm,cq=host,", "sq=hbm,rq=host"] {
            let error = refused(text);
            let words = format!("'{text}': expected host, cmb, hbm, bar:BDF/N with a PCI address");
            assert!(error.starts_with(&words), "{error}");
        }
        for (text, words) in [
            ("sq=cmb", "'sq=cmb': cq=PLACE is missing, such as sq=cmb,cq=host"),
            ("cq=hbm", "'cq=hbm': sq=PLACE is missing, such as cq=hbm,sq=host"),
            ("sq=cmb,sq=hbm", "'sq=cmb,sq=hbm': sq= is given twice"),
            ("sq=gpu,cq=host", "'sq=gpu,cq=host': 'gpu': expected host, cmb, hbm, or bar:BDF/N"),
            (
                "sq=host,cq=bar:0000:01:00.0/9",
                "'bar:0000:01:00.0/9': expected host, cmb, hbm, or bar:BDF/N with",
            ),
        ] {
            assert!(refused(text).contains(words), "{}", refused(text));
        }
        let error = "sq=host,cq=cmb".parse::<RingPlaces>().unwrap_err().to_string();
        assert!(error.contains("takes submission rings only"), "{error}");
    }

    #[test]
    fn rings_of_each_kind_have_their_own_place() {
        let memory = ForeignMemory::new("a BAR", Window::host(4096).unwrap());
        let places: RingPlaces = "sq=cmb,cq=bar:0000:01:00.0/2".parse().unwrap();
        let rings = places.find(|place| -> Result<RingPlace, PlaceError> {
            Ok(if place == Place::Cmb { RingPlace::Cmb } else { RingPlace::Foreign(memory.clone()) })
        });
        let rings = rings.unwrap();
        assert_eq!(rings.name(), "cmb (SQ), a BAR (CQ)");
        assert_eq!(RingPlacement::Cmb.name(), "cmb (SQ), host (CQ)");
        assert_eq!(Domains::of(&rings, &DataPlacement::Foreign(memory)), Domains::One);
        assert_eq!(Domains::of(&rings, &DataPlacement::Host), Domains::Two);
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
