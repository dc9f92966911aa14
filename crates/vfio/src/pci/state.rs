//! What is noted when a function is bound, under `/run`: gone with the next boot, as the binding itself.

use serde::{Deserialize, Serialize};

use super::{Bdf, Function, Sysfs};

/// A function as it was before it was bound: nothing else tells its serial number or its driver afterwards.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Binding {
    /// The driver that owned it.
    pub driver: Option<String>,
    /// The `driver_override` that was set.
    pub driver_override: Option<String>,
    /// Vendor ID; the note is for no other device at this address.
    pub vendor: u16,
    /// Device ID.
    pub device: u16,
    /// Model number.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Bytes of all namespaces.
    pub size_bytes: Option<u64>,
    /// Bytes of a block of the first namespace.
    pub block_size_bytes: Option<u32>,
}

impl Binding {
    /// The file for the function at `bdf`.
    pub fn path(bdf: Bdf) -> String {
        format!("/run/warpbell/bindings/{bdf}.json")
    }

    /// The function as it is before `driver` shall take it. Where binding broke off before, what the note of that says
    /// about the time before still counts.
    pub(super) fn of(function: &Function, driver: &str) -> Binding {
        let before = function.binding.clone().unwrap_or_default();
        let overridden = function.driver_override.clone().filter(|name| name != driver);
        Binding {
            driver: function.driver.clone().or(before.driver),
            driver_override: overridden.or(before.driver_override),
            vendor: function.vendor,
            device: function.device,
            model: function.model().map(str::to_owned),
            serial: function.serial().map(str::to_owned),
            size_bytes: function.size_bytes(),
            block_size_bytes: function.block_size_bytes(),
        }
    }

    /// The note for `bdf`; nothing where there is none, or one that says nothing.
    pub(super) fn load(sysfs: &Sysfs, bdf: Bdf) -> Option<Binding> {
        serde_json::from_str(&sysfs.text(Binding::path(bdf))?).ok()
    }

    /// The note as a file's contents.
    pub(super) fn contents(&self) -> String {
        let text = serde_json::to_string(self).expect("a struct of strings and numbers is JSON");
        text + "\n"
    }
}
