//! Whether a program may open a function through VFIO now, and why not.

use rustix::fs::{Access, access};

use super::{Bdf, Function, Snapshot, Sysfs, Use};

/// What keeps a program from opening a function.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Obstacle {
    /// Something uses its namespaces.
    #[error("in use")]
    InUse,
    /// It is not with a VFIO driver.
    #[error("warpbell bind {0}")]
    NotBound(Bdf),
    /// Another function of its IOMMU group is with another driver.
    #[error("{bdf} of its IOMMU group is with {driver}")]
    Mate {
        /// The other function.
        bdf: Bdf,
        /// Its driver; `-`: none.
        driver: String,
    },
    /// Another process has it.
    #[error("open in process {pid} ({command})")]
    Open {
        /// The process.
        pid: u32,
        /// What it runs.
        command: String,
    },
    /// The kernel offers no node for it.
    #[error("it has no node under /dev/vfio")]
    NoNode,
    /// Its node is another user's.
    #[error("no permission for {node}: warpbell bind --user USER as root")]
    Permission {
        /// The node.
        node: String,
    },
}

/// Whether this user may open `function` through VFIO now: `Err` says what is in the way. `uses` are those of its
/// namespaces.
pub fn usable(sysfs: &Sysfs, function: &Function, uses: &[Use], now: &Snapshot) -> Result<(), Obstacle> {
    if !uses.is_empty() {
        return Err(Obstacle::InUse);
    }
    if !function.is_on_vfio() {
        return Err(Obstacle::NotBound(function.bdf));
    }
    let mates = function.group.iter().flat_map(|group| &group.mates);
    if let Some(mate) = mates.into_iter().find(|mate| !mate.is_harmless()) {
        let driver = mate.driver.as_deref().unwrap_or("-").to_owned();
        return Err(Obstacle::Mate { bdf: mate.bdf, driver });
    }
    let nodes = function.vfio_nodes();
    if let Some(by) = nodes.iter().find_map(|node| now.opener(node, None)) {
        return Err(Obstacle::Open { pid: by.pid, command: by.command.clone() });
    }
    let nodes: Vec<String> = nodes.into_iter().filter(|node| sysfs.exists(node)).collect();
    let may_open = |node: &String| access(sysfs.path(node), Access::READ_OK | Access::WRITE_OK).is_ok();
    match nodes.as_slice() {
        [] => Err(Obstacle::NoNode),
        nodes if nodes.iter().any(may_open) => Ok(()),
        [node, ..] => Err(Obstacle::Permission { node: node.clone() }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pci::fake::Fake;

    const BDF: &str = "0000:41:00.0";

    fn judged(fake: &Fake, uses: &[Use]) -> Result<(), String> {
        let sysfs = fake.sysfs();
        usable(&sysfs, &fake.function(BDF), uses, &Snapshot::take(&sysfs)).map_err(|error| error.to_string())
    }

    #[test]
    fn each_obstacle_is_named_until_none_is_left() {
        let fake = Fake::new();
        fake.ssd(BDF, 0, "S64X");
        assert_eq!(judged(&fake, &[Use::Swap { device: String::new() }]), Err("in use".to_owned()));
        assert_eq!(judged(&fake, &[]), Err("warpbell bind 0000:41:00.0".to_owned()));
        fake.set_driver(BDF, Some("vfio-pci"));
        assert!(judged(&fake, &[]).unwrap_err().contains("/dev/vfio"));
        fake.write("/dev/vfio/57", "");
        assert_eq!(judged(&fake, &[]), Ok(()));
        fake.open(9, "warpbell", "/dev/vfio/57");
        assert_eq!(judged(&fake, &[]), Err("open in process 9 (warpbell)".to_owned()));
        fake.mate(BDF, "0000:41:00.1", Some("nvidia"));
        assert!(judged(&fake, &[]).unwrap_err().contains("0000:41:00.1"));
    }
}
