//! Where rings and data lie, as programs in C and Python name it.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpbell_gpu::Gpu;
use warpbell_vfio::Bdf;

use super::{DataPlacement, ForeignMemory, Place, RingPlace, RingPlacement, RingPlaces};
use crate::{Error, Target};

/// BARs of other functions that are in use: SSDs that name the same one share it.
static BARS: Mutex<Vec<(Bdf, u8, Weak<ForeignMemory>)>> = Mutex::new(Vec::new());

/// Where rings and data go, by the words that [`RingPlaces`] and [`Place`] are written in; `gpu` is the target whose memory
/// `hbm` is.
pub fn placements(
    rings: &str,
    data: &str,
    gpu: Option<Target>,
) -> Result<(RingPlacement, DataPlacement), Error> {
    let places: RingPlaces = parse("rings", rings)?;
    let place: Place = parse("data", data)?;
    if let (Some(target), false) = (gpu, [places.sq, places.cq, place].contains(&Place::Hbm)) {
        return refused("gpu", &target.to_string(), "it goes with rings or data \"hbm\" only");
    }
    let rings = places.find(|place| -> Result<RingPlace, Error> {
        Ok(match place {
            Place::Host => RingPlace::Host,
            Place::Cmb => RingPlace::Cmb,
            Place::Bar(bdf, bar) => RingPlace::Foreign(foreign(bdf, bar)?),
            Place::Hbm => RingPlace::Hbm(hbm("rings", rings, gpu)?),
        })
    })?;
    let data = match place {
        Place::Host => DataPlacement::Host,
        Place::Bar(bdf, bar) => DataPlacement::Foreign(foreign(bdf, bar)?),
        Place::Hbm => DataPlacement::Hbm(hbm("data", data, gpu)?),
        Place::Cmb => return refused("data", data, "controller memory takes submission rings only"),
    };
    Ok((rings, data))
}

fn hbm(what: &'static str, place: &str, gpu: Option<Target>) -> Result<Arc<Gpu>, Error> {
    let Some(target) = gpu else {
        return refused(what, place, "of which GPU? Name it in `gpu`, as \"cuda:N\" or \"ptx\"");
    };
    match target.open()?.gpu() {
        Some(gpu) => Ok(gpu.clone()),
        None => refused(
            "gpu",
            &target.to_string(),
            "it has no memory of its own; name one as \"cuda:N\" or \"ptx\"",
        ),
    }
}

fn parse<T: FromStr<Err: fmt::Display>>(option: &'static str, place: &str) -> Result<T, Error> {
    place.parse().map_err(|error: T::Err| Error::Placement { option, reason: error.to_string() })
}

fn refused<T>(option: &'static str, value: &str, reason: &str) -> Result<T, Error> {
    Err(Error::Placement { option, reason: format!("'{value}': {reason}") })
}

fn foreign(bdf: Bdf, bar: u8) -> Result<Arc<ForeignMemory>, Error> {
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
        let text = |rings, data, gpu| placements(rings, data, gpu).unwrap_err().to_string();
        assert!(
            text("attic", "host", None)
                .starts_with("rings 'attic': expected host, cmb, hbm, bar:BDF/N with a PCI address")
        );
        assert!(
            text("sq=hbm,cq=cmb", "host", None).starts_with("rings 'sq=hbm,cq=cmb': the controller memory")
        );
        for rings in ["hbm", "sq=cmb,cq=hbm"] {
            assert!(text(rings, "host", None).starts_with(&format!("rings '{rings}': of which GPU?")));
            let error = text(rings, "host", Some(Target::Cpu));
            assert!(error.starts_with("gpu 'cpu': it has no memory of its own"), "{error}");
        }
        assert_eq!(text("host", "cmb", None), "data 'cmb': controller memory takes submission rings only");
        assert!(text("host", "hbm", None).starts_with("data 'hbm': of which GPU?"));
        assert!(text("host", "hbm", Some(Target::Cpu)).starts_with("gpu 'cpu': it has no memory of its own"));
        let error = text("cmb", "host", Some(Target::Cpu));
        assert_eq!(error, "gpu 'cpu': it goes with rings or data \"hbm\" only");
        let (rings, data) = placements("cmb", "host", None).unwrap();
        assert!(matches!(
            (rings.sq(), rings.cq(), data),
            (RingPlace::Cmb, RingPlace::Host, DataPlacement::Host)
        ));
    }
}
