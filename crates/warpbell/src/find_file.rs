//! Files of an SSD by their path, for programs that kernels read them with.

use std::path::PathBuf;

use warpbell_files::manifest::{Identity, Manifest};
use warpbell_files::{FileMap, OpenOptions as FileSystemOptions, Partition, Source, partition, read_file};
use warpbell_hw::Nsid;

use crate::{Error, Ssd, SsdSource};

warpbell_base::options! {
    /// Where a file is looked for.
    #[derive(Clone, Debug, Default)]
    pub struct FileOptions {
        /// The namespace; `None`: the first usable one.
        pub nsid: Option<Nsid>,
        /// The partition that has the file system, by its number, PARTUUID or label; `None`: there is no partition table.
        pub partition: Option<String>,
        /// Where files lie is in this manifest, in place of the file system; it has the partition, too.
        pub manifest: Option<PathBuf>,
        /// Read a file system that was not unmounted: what its journal has is missing.
        pub allow_dirty: bool,
    }
}

impl Ssd {
    /// Where the bytes of a file lie in a namespace of this SSD. It is read by the host's own queue.
    ///
    /// # Errors
    /// A path that leads to no file; file systems that are not read, and what is damaged, by name; a stale manifest.
    pub fn find_file(&self, path: &str, options: &FileOptions) -> Result<FileMap, Error> {
        let source = SsdSource::new(self, options.nsid)?;
        if let Some(manifest) = &options.manifest {
            if options.partition.is_some() || options.allow_dirty {
                return Err(Error::Argument {
                    object: "manifest",
                    value: manifest.display().to_string(),
                    limit: "it has the partition, and is of what was unmounted: leave out partition and allow_dirty"
                        .to_owned(),
                });
            }
            let id = source.id();
            let identity = Identity { serial: id.serial, nsid: id.nsid };
            let files = Manifest::load(manifest)?.open(&source, Some(&identity))?;
            return Ok(warpbell_files::FileSystem::file(&files, path)?);
        }
        let (start, bytes) = match &options.partition {
            None => (0, source.bytes()),
            Some(name) => part(&source, name)?,
        };
        let space = Partition::new(source, start, bytes)?;
        let options = FileSystemOptions::new().allow_dirty(options.allow_dirty);
        let map = warpbell_files::open(&space, &options)?.file(path)?;
        Ok(map.moved(start)?)
    }

    /// Fills `into` with a file's bytes from `offset` on, by the host's own queue; holes are zeroes.
    ///
    /// # Errors
    /// A range that the file does not have, a file that was not found in a namespace of this SSD, and what the SSD says.
    pub fn read_file(&self, map: &FileMap, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let nsid = map.namespace().map(|namespace| Nsid(namespace.nsid));
        let source = SsdSource::new(self, nsid)?;
        map.check(&source.id())?;
        Ok(read_file(&source, map, offset, into)?)
    }
}

/// First byte and length of a partition.
fn part(source: &SsdSource<'_>, name: &str) -> Result<(u64, u64), Error> {
    let (found, warnings) = partition::chosen(source, name)?;
    for warning in warnings {
        tracing::warn!(device = %source.ssd().name(), "{warning}");
    }
    Ok((found.start, found.bytes))
}
