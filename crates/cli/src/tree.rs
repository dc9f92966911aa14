//! `--root`: this machine, a folder, or a captured machine.

use std::path::Path;

use warpbell_platform::{Capture, Unpacked};
use warpbell_vfio::pci::Sysfs;

use crate::exit::Ending;

/// Where the files of a machine are.
pub enum Tree {
    Folder(Sysfs),
    Captured(Unpacked),
}

impl Tree {
    /// The machine that `--root` names: a folder, or a captured machine.
    pub fn at(root: &Path) -> Result<Tree, Ending> {
        if root.is_file() {
            let unpacked = Capture::read(root).and_then(|capture| capture.unpack());
            return unpacked.map(Tree::Captured).map_err(|error| {
                Ending::usage(format!("--root {}: no captured machine: {error}", root.display()))
            });
        }
        let none = |why: String| {
            let remedy = "warpbell check --capture FILE makes one";
            Ending::usage(format!("--root {}: no captured machine: {why}; {remedy}", root.display()))
        };
        root.metadata().map_err(|error| none(error.to_string()))?;
        let sysfs = Sysfs::at(root);
        if !sysfs.is_system() && !sysfs.exists("/sys") {
            return Err(none("it has no sys".to_owned()));
        }
        Ok(Tree::Folder(sysfs))
    }

    /// Its files.
    pub fn sysfs(&self) -> &Sysfs {
        match self {
            Tree::Folder(sysfs) => sysfs,
            Tree::Captured(unpacked) => unpacked.sysfs(),
        }
    }
}
