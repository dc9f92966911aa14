//! What options of an SSD ask for, and the SSD does not offer: an error when it is opened, not at the first queue.

use std::sync::Arc;

use warpbell_driver::{Controller, DriverError, NotOffered, Offer};
use warpbell_hw::{Device, DoorbellPath, DoorbellProxy};

use crate::{DeviceName, DoorbellChoice, Error, OpenOptions, RingPlace};

/// Refuses what is known not to be had as soon as the controller is enabled.
pub(crate) fn check(name: &DeviceName, controller: &Controller, options: &OpenOptions) -> Result<(), Error> {
    if matches!(options.rings.sq(), RingPlace::Cmb) {
        controller_memory(name, controller)?;
    }
    doorbell_proxy(controller.device(), options.doorbells).map(drop)
}

fn controller_memory(name: &DeviceName, controller: &Controller) -> Result<(), Error> {
    if !controller.capabilities().cmbs() {
        let setting =
            Setting { option: ("rings", "cmb"), soft: "cmb=1m", without: "--rings host goes without" };
        return Err(setting.refused(name, "a controller memory buffer", "CAP.CMBS is 0"));
    }
    if controller.device().controller_memory().is_some() {
        return Ok(());
    }
    Err(Error::Missing {
        what: format!("rings cmb: the controller memory buffer of {name}"),
        remedy: "this process does not see it; --rings host goes without".to_owned(),
    })
}

/// The same for what the driver was asked for when it enabled the controller.
pub(crate) fn named(name: &DeviceName, error: DriverError) -> Error {
    let DriverError::NotOffered(NotOffered { asked, .. }) = error else { return error.into() };
    let setting = match asked {
        Offer::DoorbellBuffer => {
            Setting { option: ("dbbuf", "on"), soft: "dbbuf=on", without: "--dbbuf auto goes without" }
        }
        Offer::WideCids => {
            Setting { option: ("wide-cids", "on"), soft: "wide_cids=on", without: "leave it out" }
        }
    };
    setting.refused(name, &asked.to_string(), asked.field())
}

/// An option that needs what only some controllers offer.
struct Setting {
    /// Its name and value.
    option: (&'static str, &'static str),
    /// By which setting a soft controller offers it.
    soft: &'static str,
    /// What to do without it.
    without: &'static str,
}

impl Setting {
    /// A soft controller offers what it is told to: another name is the remedy. Others are as they are.
    fn refused(&self, name: &DeviceName, what: &str, field: &str) -> Error {
        let (object, value) = self.option;
        let DeviceName::Soft(settings) = name else {
            return Error::Missing {
                what: format!("{object} {value}: {what} of {name}"),
                remedy: format!("{field}; {}", self.without),
            };
        };
        let (key, _) = self.soft.split_once('=').unwrap_or((self.soft, ""));
        let other = |piece: &&str| piece.trim().split('=').next() != Some(key);
        let kept: Vec<&str> = settings.split(',').filter(|piece| !piece.is_empty()).filter(other).collect();
        let offering = kept.into_iter().chain([self.soft]).collect::<Vec<_>>().join(",");
        let limit = format!("{name} does not offer {what} ({field}); soft:{offering} does");
        Error::Argument { object, value: value.to_owned(), limit }
    }
}

/// The proxy that forwards doorbells, where that was asked for; none where stores to the device's own page are as they
/// should be.
pub(crate) fn doorbell_proxy(
    device: &Arc<dyn Device>,
    choice: DoorbellChoice,
) -> Result<Option<Arc<DoorbellProxy>>, Error> {
    let impossible = |reason: &str| {
        let limit = format!("{}: {reason}", device.info().name);
        Error::Argument { object: "doorbells", value: choice.to_string(), limit }
    };
    match (choice, device.doorbells().path()) {
        (DoorbellChoice::Mapped, DoorbellPath::Forwarded) => {
            Err(impossible("its process has no page of doorbells to map; auto or forwarded takes them there"))
        }
        (DoorbellChoice::Forwarded, DoorbellPath::Mapped) => {
            let reason = "its doorbells are memory that the controller polls, and nothing forwards them; auto or mapped \
                          rings them";
            let proxy = device.forwarded_doorbells().ok_or_else(|| impossible(reason))?;
            Ok(Some(proxy.map_err(|error| impossible(&error.to_string()))?))
        }
        _ => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use warpbell_driver::DoorbellBuffer;

    use super::*;
    use crate::{RingPlacement, Ssd};

    fn refused(name: &str, options: &OpenOptions) -> (u8, String) {
        let error = Ssd::open(&name.parse().unwrap(), options).err().expect("refused");
        (error.exit_code(), error.to_string())
    }

    #[test]
    fn what_a_soft_controller_does_not_offer_is_refused_at_open_with_the_name_that_does() {
        let rings = OpenOptions::new().rings(RingPlacement::Cmb);
        let shadows = OpenOptions::new().doorbell_buffer(DoorbellBuffer::On);
        let wide = OpenOptions::new().wide_cids(true);
        for (options, name, words) in [
            (
                &rings,
                "soft:size=1m",
                "rings cmb: soft:size=1m does not offer a controller memory buffer (CAP.CMBS is 0); soft:size=1m,cmb=1m does",
            ),
            (&rings, "soft:size=1m,cmb=0", "; soft:size=1m,cmb=1m does"),
            (
                &shadows,
                "soft:size=1m",
                "dbbuf on: soft:size=1m does not offer Doorbell Buffer Config (OACS bit 8 is 0); soft:size=1m,dbbuf=on does",
            ),
            (&shadows, "soft:dbbuf=off,size=1m", "; soft:size=1m,dbbuf=on does"),
            (
                &wide,
                "soft:size=1m",
                "wide-cids on: soft:size=1m does not offer 32-bit command identifiers (byte 3080",
            ),
        ] {
            let (code, text) = refused(name, options);
            assert!(code == 2 && text.contains(words), "{code}: {text}");
        }
    }

    #[test]
    fn what_others_do_not_offer_is_missing_and_the_remedy_goes_without() {
        let name: DeviceName = "vfio-user:/x.sock".parse().unwrap();
        let setting =
            Setting { option: ("rings", "cmb"), soft: "cmb=1m", without: "--rings host goes without" };
        let error = setting.refused(&name, "a controller memory buffer", "CAP.CMBS is 0");
        assert_eq!(
            (error.exit_code(), error.to_string().as_str()),
            (
                4,
                "rings cmb: a controller memory buffer of vfio-user:/x.sock is not available: CAP.CMBS is 0; --rings host goes without"
            )
        );
    }

    #[test]
    fn doorbells_that_nothing_forwards_are_refused_at_open() {
        let (code, text) = refused("soft:size=1m", &OpenOptions::new().doorbells(DoorbellChoice::Forwarded));
        assert!(code == 2 && text.starts_with("doorbells forwarded: soft:size=1m: its doorbells"), "{text}");
        assert!(text.contains("nothing forwards them"), "{text}");
    }
}
