//! What goes wrong while functions are looked for, bound and unbound.

use std::io;

use super::Bdf;

/// Why something could not be done to a PCI function.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PciError {
    /// There is no such function.
    #[error("{bdf}: there is no PCI function at this address (see warpbell list)")]
    Absent {
        /// The address.
        bdf: Bdf,
    },
    /// A name that leads to no function, or to several.
    #[error("{name}: {reason}")]
    Unresolved {
        /// The name.
        name: String,
        /// Why.
        reason: String,
    },
    /// A step failed.
    #[error("{bdf}: {step}: {source}{}", remedy(source))]
    Step {
        /// The function.
        bdf: Bdf,
        /// The step, as a shell would do it.
        step: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// A step was done, but the wanted driver did not take the function.
    #[error("{bdf}: driver {wanted} did not take the function; it is with {} (see dmesg)", found.as_deref().unwrap_or("no driver"))]
    NotTaken {
        /// The function.
        bdf: Bdf,
        /// The driver that should have taken it.
        wanted: String,
        /// The driver that has it.
        found: Option<String>,
    },
    /// No driver took it.
    #[error(
        "{bdf}: no driver took the function after it was probed; is the nvme module loaded (modprobe nvme)?"
    )]
    NoDriver {
        /// The function.
        bdf: Bdf,
    },
    /// The driver has it, but programs cannot reach it.
    #[error("{bdf}: {nodes} did not appear within {seconds} s: is /dev a devtmpfs, or udev running?")]
    NoNode {
        /// The function.
        bdf: Bdf,
        /// The nodes waited for.
        nodes: String,
        /// How long.
        seconds: u64,
    },
    /// Binding failed, and the function is again as it was.
    #[error("{cause}; nothing is left of it, the function is with {}", driver.as_deref().unwrap_or("no driver"))]
    RolledBack {
        /// What failed.
        cause: Box<PciError>,
        /// The driver that has it.
        driver: Option<String>,
    },
    /// Binding failed, and so did undoing it.
    #[error("{cause}; rolling back failed too: {second}")]
    NotRolledBack {
        /// What failed.
        cause: Box<PciError>,
        /// What failed then.
        second: Box<PciError>,
    },
}

/// What a user may do about it.
fn remedy(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => "; run as root, or as a user who may write this file",
        _ => "",
    }
}
