//! Where rings and data lie, as a C program names it.

use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpbell::{Bdf, DataPlacement, ForeignMemory, Place, RingPlacement, Target};

use crate::error::{Answer, Failure};

/// BARs of other functions that are in use: SSDs that name the same one share it.
static BARS: Mutex<Vec<(Bdf, u8, Weak<ForeignMemory>)>> = Mutex::new(Vec::new());

/// Where rings go.
pub(crate) fn rings(place: &str) -> Answer<RingPlacement> {
    match parse("rings", place)? {
        Place::Host => Ok(RingPlacement::Host),
        Place::Cmb => Ok(RingPlacement::Cmb),
        Place::Bar(bdf, bar) => Ok(RingPlacement::Foreign(foreign(bdf, bar)?)),
        Place::Hbm => refused("rings", place, "rings of SSDs lie in host memory, \"cmb\" or \"bar:BDF/N\""),
    }
}

/// Where data goes; `gpu` is the one whose memory `hbm` is.
pub(crate) fn data(place: &str, gpu: Option<Target>) -> Answer<DataPlacement> {
    match (parse("data", place)?, gpu) {
        (Place::Host, None) => Ok(DataPlacement::Host),
        (Place::Bar(bdf, bar), None) => Ok(DataPlacement::Foreign(foreign(bdf, bar)?)),
        (Place::Hbm, Some(target)) => match target.open()?.gpu() {
            Some(gpu) => Ok(DataPlacement::Hbm(gpu.clone())),
            None => {
                refused("gpu", &target.to_string(), "it has no memory of its own; name one as \"cuda:N\"")
            }
        },
        (Place::Hbm, None) => refused("data", place, "of which GPU? Name it in `gpu`, as \"cuda:N\""),
        (Place::Cmb, _) => refused("data", place, "controller memory takes submission rings only"),
        (_, Some(target)) => refused("gpu", &target.to_string(), "it goes with data \"hbm\" only"),
    }
}

fn parse(what: &str, place: &str) -> Answer<Place> {
    place.parse().map_err(|error| Failure::invalid(format!("{what} {error}")))
}

fn refused<T>(what: &str, value: &str, reason: &str) -> Answer<T> {
    Err(Failure::invalid(format!("{what} '{value}': {reason}")))
}

fn foreign(bdf: Bdf, bar: u8) -> Answer<Arc<ForeignMemory>> {
    let mut bars = BARS.lock();
    bars.retain(|(_, _, memory)| memory.strong_count() > 0);
    let known = bars.iter().find(|known| (known.0, known.1) == (bdf, bar));
    if let Some(memory) = known.and_then(|(_, _, memory)| memory.upgrade()) {
        return Ok(memory);
    }
    let memory = ForeignMemory::bar(bdf, bar)?;
    bars.push((bdf, bar, Arc::downgrade(&memory)));
    Ok(memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_that_cannot_be_are_refused_by_name() {
        let ring = |place| rings(place).unwrap_err().text;
        let data_of = |place, gpu| data(place, gpu).unwrap_err().text;
        assert!(ring("attic").starts_with("rings 'attic': expected host, cmb, hbm, or bar:BDF/N"));
        assert!(ring("hbm").starts_with("rings 'hbm': rings of SSDs lie in host memory"));
        assert_eq!(data_of("cmb", None), "data 'cmb': controller memory takes submission rings only");
        assert!(data_of("hbm", None).starts_with("data 'hbm': of which GPU?"));
        assert!(data_of("hbm", Some(Target::Cpu)).starts_with("gpu 'cpu': it has no memory of its own"));
        assert_eq!(data_of("host", Some(Target::Cpu)), "gpu 'cpu': it goes with data \"hbm\" only");
        assert!(matches!(rings("cmb"), Ok(RingPlacement::Cmb)));
        assert!(matches!(data("host", None), Ok(DataPlacement::Host)));
    }
}
