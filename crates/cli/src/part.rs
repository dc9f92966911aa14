//! Which part of a device is read: all of it, a partition, or a file of the file system there.

use warpbell::{Named, Ssd, SsdSource};
use warpbell_files::manifest::{Identity, Manifest};
use warpbell_files::{
    Error, FileMap, FileSystem, OpenOptions, Partition, Source, WritableFile, member_of_array, partition,
};
use warpbell_hw::Nsid;
use warpbell_workload::NamedFile;

use crate::args::PartArgs;
use crate::commands::manifest;
use crate::exit::{Ending, FAILED, REFUSED, USAGE, explained};

/// A namespace, or a partition of it.
pub struct Part<'a> {
    space: Partition<SsdSource<'a>>,
    options: OpenOptions,
    manifest: Option<(Manifest, Identity)>,
}

impl<'a> Part<'a> {
    /// What the options select of namespace `nsid`.
    pub fn new(ssd: &'a Ssd, nsid: Nsid, args: &PartArgs) -> Result<Part<'a>, Ending> {
        let source = SsdSource::new(ssd, Some(nsid))?;
        let (start, bytes) = match &args.partition {
            None => (0, source.bytes()),
            Some(name) => {
                let (found, warnings) = partition::chosen(&source, name).map_err(|error| of(ssd, error))?;
                for warning in warnings {
                    eprintln!("warning: {}: {warning}", ssd.name());
                }
                (found.start, found.bytes)
            }
        };
        let space = Partition::new(source, start, bytes).map_err(|error| of(ssd, error))?;
        let manifest = match &args.manifest {
            Some(path) => Some((manifest::load(path)?, manifest::identity(ssd, nsid))),
            None => None,
        };
        Ok(Part { space, options: OpenOptions::new().allow_dirty(args.allow_dirty), manifest })
    }

    /// What `ask` finds in the file system there.
    pub fn file_system<T>(&self, ask: impl FnOnce(&dyn FileSystem) -> Result<T, Error>) -> Result<T, Ending> {
        let found = match &self.manifest {
            // Its extents are those of the namespace, in whichever partition they are.
            Some((manifest, identity)) => {
                manifest.open(self.space.source(), Some(identity)).and_then(|files| ask(&files))
            }
            None => warpbell_files::open(&self.space, &self.options).and_then(|files| ask(&*files)),
        };
        found.map_err(|error| of(self.space.source().ssd(), error))
    }

    /// Where the bytes of a file lie in the namespace; without a path those of the whole part.
    pub fn map(&self, path: Option<&str>) -> Result<FileMap, Ending> {
        let map = match path {
            Some(path) => self.file_system(|files| files.file(path))?,
            None => FileMap::whole(self.space.bytes()).within(self.space.namespace()),
        };
        map.moved(self.space.start()).map_err(|error| of(self.space.source().ssd(), error))
    }
}

/// A file that the command line names, to overwrite what is written of it.
pub fn writable_file(
    ssd: &Ssd,
    named: &Named,
    (nsid, args): (Nsid, &PartArgs),
) -> Result<WritableFile, Ending> {
    let refuse = |flag: &str, why: &str| Err(Ending::usage(format!("{flag}: {why}")));
    if args.allow_dirty {
        return refuse("--allow-dirty", "a file system that was not unmounted is not written");
    }
    if args.manifest.is_some() {
        return refuse("--manifest", "it does not say which blocks may be written; ext4 does, without it");
    }
    let Some(path) = &named.path else {
        let why = "a whole partition is not written; name a file, as DEVICE#/path, or the device alone";
        return refuse("--partition", why);
    };
    let source = SsdSource::new(ssd, Some(nsid))?;
    if let Some(member) = member_of_array(&source).map_err(|error| of(ssd, error))? {
        let why = "a write to one member of an array damages the array";
        return Err(of(ssd, Error::refused(format!("{member} at the end"), why)));
    }
    let part = Part::new(ssd, nsid, args)?;
    let found = part.file_system(|files| files.writable(path))?;
    let writable = found.moved(part.space.start()).map_err(|error| of(ssd, error))?;
    ssd.delete_host_queues()?;
    Ok(writable)
}

/// What a command line names of a namespace; `None`: all of it.
pub fn named_file(
    ssd: &Ssd,
    named: &Named,
    (nsid, args): (Nsid, &PartArgs),
) -> Result<Option<NamedFile>, Ending> {
    let name = match (&named.path, &args.partition) {
        (Some(path), _) => path.clone(),
        (None, Some(partition)) => format!("partition {partition}"),
        (None, None) if args.manifest.is_some() => {
            return Err(Ending::usage(format!("--manifest: no file is named; name one, as {named}#/path")));
        }
        (None, None) if args.allow_dirty => {
            return Err(Ending::usage(format!(
                "--allow-dirty: {named} is not read by a file system; name a file, as {named}#/path"
            )));
        }
        (None, None) => return Ok(None),
    };
    let map = Part::new(ssd, nsid, args)?.map(named.path.as_deref())?;
    // The queue that found the file is not needed any more, and SSDs have few.
    ssd.delete_host_queues()?;
    Ok(Some(NamedFile { name, map, writable: None }))
}

/// What was wrong, and with which device.
pub fn of(ssd: &Ssd, error: Error) -> Ending {
    let code = match error {
        Error::Refused { .. } => REFUSED,
        Error::Absent { .. } | Error::Argument { .. } => USAGE,
        _ => FAILED,
    };
    Ending::new(code, format!("{}: {}", ssd.name(), explained(&error)))
}
