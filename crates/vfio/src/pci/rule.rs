//! The udev rule that binds a function again after each boot.

use std::path::Path;

use super::{Function, VFIO_PCI};

/// The file of the rule for the disk with this serial number, which stays its own when its address changes. 99 puts it
/// behind the rules that learn a disk's properties.
pub(super) fn path(serial: &str) -> String {
    format!("/etc/udev/rules.d/99-warpbell-{serial}.rules")
}

/// Whether udev would take the serial number for itself, neither as a pattern nor as the end of a string.
pub(super) fn is_plain(serial: &str) -> bool {
    !serial.is_empty() && serial.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte))
}

/// The rule: when the disk with this serial number comes up, it is bound with all the checks of `warpbell bind`.
/// Addresses may change from boot to boot, so the disk is found by its serial number.
pub(super) fn contents(
    function: &Function,
    serial: &str,
    program: &Path,
    driver: &str,
    uid: Option<u32>,
    allow_signed: bool,
) -> String {
    let mut command = format!("{} bind sn:{serial}", program.display());
    if driver != VFIO_PCI {
        command += &format!(" --driver {driver}");
    }
    if let Some(uid) = uid {
        command += &format!(" --user {uid}");
    }
    if allow_signed {
        command += &format!(" --allow-signed={serial}");
    }
    // Outside of udev's own process, which has the disk open while its rules run.
    format!(
        "# Written by `warpbell bind --persist` for {}; `warpbell unbind` removes it.\n\
         ACTION==\"add\", SUBSYSTEM==\"block\", ENV{{DEVTYPE}}==\"disk\", ATTRS{{serial}}==\"{serial}\", \
         RUN+=\"/usr/bin/systemd-run --no-block --collect {command}\"\n",
        function.bdf
    )
}
