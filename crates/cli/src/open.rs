//! Opens the device that the command line names, for as much as the command line permits.

use std::path::{Path, PathBuf};

use warpbell::soft::{FaultPlan, SoftConfig, StoreConfig};
use warpbell::{DeviceName, OpenOptions, Ssd, same_file};

use crate::args::DeviceArgs;
use crate::exit::{Ending, MISSING, REFUSED};

/// What a command does to the namespace that it opens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// It reads.
    Read,
    /// It also writes, to this namespace.
    Write {
        /// The namespace.
        nsid: u32,
    },
}

/// Opens the device of `args`.
pub fn open(args: &DeviceArgs, access: Access) -> Result<Ssd, Ending> {
    let name = args.name()?;
    if let Access::Write { nsid } = access {
        check_permission(name, args.allow_write.as_deref(), nsid)?;
    }
    let faults = args.fault.as_deref().map(FaultPlan::load).transpose().map_err(Ending::usage)?;
    let allow_write = match access {
        Access::Read => Vec::new(),
        Access::Write { .. } => args.allow_write.iter().cloned().collect(),
    };
    let doorbell_buffer = args.dbbuf.into();
    let options = OpenOptions {
        allow_write,
        faults,
        doorbell_buffer,
        wide_cids: args.wide_cids,
        rings: args.rings.into(),
        ..OpenOptions::default()
    };
    Ok(Ssd::open(name, &options)?)
}

/// A file is written only if its own path was typed; memory is nobody's data.
fn check_permission(name: &DeviceName, allowed: Option<&str>, nsid: u32) -> Result<(), Ending> {
    let Some(file) = file_behind(name, nsid)? else { return Ok(()) };
    let path = file.display();
    match allowed {
        Some(allowed) if same_file(&file, Path::new(allowed)) => Ok(()),
        Some(allowed) => Err(Ending::new(
            REFUSED,
            format!(
                "writing to {path} is not permitted: --allow-write={allowed} names something else, not {path}"
            ),
        )),
        None => Err(Ending::new(
            REFUSED,
            format!("writing to {path} is not permitted: name it in --allow-write={path} to permit it"),
        )),
    }
}

/// The file behind a namespace, if there is one.
fn file_behind(name: &DeviceName, nsid: u32) -> Result<Option<PathBuf>, Ending> {
    let DeviceName::Soft(text) = name else { return Ok(None) };
    let config = SoftConfig::parse(text).map_err(warpbell::Error::from)?;
    let index = (nsid as usize).checked_sub(1);
    let store = index.and_then(|index| config.namespaces.get(index)).map(|namespace| &namespace.store);
    Ok(match store {
        Some(StoreConfig::File { path, .. }) => Some(path.clone()),
        _ => None,
    })
}

impl From<warpbell::Error> for Ending {
    fn from(error: warpbell::Error) -> Ending {
        Ending::new(error.exit_code(), error)
    }
}

impl From<warpbell_workload::RunError> for Ending {
    fn from(error: warpbell_workload::RunError) -> Ending {
        use warpbell_workload::RunError;
        match error {
            RunError::Stream { source, .. } if source.kind() == std::io::ErrorKind::BrokenPipe => {
                Ending::from(source)
            }
            error => Ending::new(error.exit_code(), error),
        }
    }
}

/// Refuses a target that this build cannot run kernels on.
pub fn check_target(args: &DeviceArgs) -> Result<(), Ending> {
    match args.target {
        warpbell::Target::Cpu => Ok(()),
        target => Err(Ending::new(
            MISSING,
            format!("target {target} is not available: this version has no CUDA back end; use --target cpu"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_named_file_may_be_written() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("disk.img");
        std::fs::write(&path, [0; 512]).unwrap();
        let name: DeviceName = format!("soft:size=1m,file={}", path.display()).parse().unwrap();
        let twisted = format!(
            "{}/../{}/disk.img",
            directory.path().display(),
            directory.path().file_name().unwrap().to_str().unwrap()
        );
        assert!(check_permission(&name, None, 1).is_ok(), "memory needs none");
        assert!(check_permission(&name, None, 2).is_err());
        assert!(check_permission(&name, Some("disk.img"), 2).is_err());
        assert!(check_permission(&name, path.to_str(), 2).is_ok());
        assert!(check_permission(&name, Some(&twisted), 2).is_ok(), "the same file by another path");
    }
}
