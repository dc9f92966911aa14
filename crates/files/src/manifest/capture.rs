//! Captures files of a mounted file system.

use std::fs::{File, Metadata};
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{Advice, AtFlags, OFlags, SeekFrom, StatxAttributes, StatxFlags};
use rustix::io::Errno;

use super::extents::{ExtentError, Limits, ask, placed};
use super::place::{Mount, Place};
use super::stamp::{Stamp, Superblock};
use super::{CapturedFile, Checksum, Link, Manifest, Refused, SCHEMA, Sum};
use crate::{Error, Image};

warpbell_base::options! {
    /// How files are captured.
    #[derive(Clone, Copy, Debug)]
    pub struct CaptureOptions {
        /// The checksum of each file; any but none reads them all.
        pub checksum: Checksum,
        /// Leave out what cannot be captured, and list it. Otherwise the first of it ends the capture.
        pub skip_refused: bool,
    } no new
}

impl CaptureOptions {
    /// With these checksums; what is refused ends the capture.
    pub fn new(checksum: Checksum) -> CaptureOptions {
        CaptureOptions { checksum, skip_refused: false }
    }
}

/// How far a capture got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// Files that were captured, or refused.
    pub files: u64,
    /// Bytes that were read for checksums.
    pub bytes: u64,
}

/// Captures `paths`, files and folders of one mounted file system. `watch` hears how far it got, and whether to go on is
/// its answer.
///
/// # Errors
/// File systems other than ext4 and XFS; disks that are no disks; files that change meanwhile; and, unless they are
/// skipped, files that cannot be read without the kernel.
pub fn capture(
    paths: &[PathBuf],
    options: &CaptureOptions,
    watch: &mut dyn FnMut(Progress) -> bool,
) -> Result<Manifest, Error> {
    let first = paths.first().ok_or_else(|| Error::refused("PATHS", "none was given"))?;
    let mut work = Capture::begin(first, options, watch)?;
    for path in paths {
        let path = path.canonicalize().map_err(failed("finding", path))?;
        let meta = path.symlink_metadata().map_err(failed("reading the inode of", &path))?;
        if meta.dev() != work.dev {
            let reason =
                format!("it is in another file system than {}: a manifest is of one", first.display());
            return Err(Error::refused(path.display().to_string(), reason));
        }
        work.visit(path)?;
    }
    work.finish()
}

/// A capture at work.
struct Capture<'a> {
    options: &'a CaptureOptions,
    watch: &'a mut dyn FnMut(Progress) -> bool,
    progress: Progress,
    /// The root of what is captured, open.
    root: File,
    dev: u64,
    place: Place,
    mountinfo: String,
    files: Vec<(PathBuf, CapturedFile)>,
    links: Vec<Link>,
    refused: Vec<Refused>,
}

impl<'a> Capture<'a> {
    fn begin(
        first: &Path,
        options: &'a CaptureOptions,
        watch: &'a mut dyn FnMut(Progress) -> bool,
    ) -> Result<Capture<'a>, Error> {
        let root = open(first)?;
        refuse_others(&root, first)?;
        let dev = root.metadata().map_err(failed("reading the inode of", first))?.dev();
        let place = Place::of(Path::new("/sys"), rustix::fs::major(dev), rustix::fs::minor(dev))?;
        let list = Path::new("/proc/self/mountinfo");
        let mountinfo = std::fs::read_to_string(list).map_err(failed("reading", list))?;
        rustix::fs::syncfs(&root).map_err(|error| failed("syncing", first)(error.into()))?;
        let (files, links, refused) = (Vec::new(), Vec::new(), Vec::new());
        let progress = Progress::default();
        Ok(Capture { options, watch, progress, root, dev, place, mountinfo, files, links, refused })
    }

    /// A path within the file system.
    fn inside(&self, path: &Path) -> Option<String> {
        let (major, minor) = (rustix::fs::major(self.dev), rustix::fs::minor(self.dev));
        Mount::of(&self.mountinfo, major, minor, path)?.inside(path)
    }

    /// Leaves `path` out, or ends.
    fn refuse(&mut self, path: &Path, reason: String) -> Result<(), Error> {
        let name = path.display().to_string();
        if self.options.skip_refused {
            self.refused.push(Refused { path: name, reason });
            return Ok(());
        }
        Err(Error::refused(name, format!("{reason}; --skip-refused lists it and goes on")))
    }

    /// All that is at `path` and below.
    fn visit(&mut self, path: PathBuf) -> Result<(), Error> {
        let mut left = vec![path];
        while let Some(path) = left.pop() {
            let meta = path.symlink_metadata().map_err(failed("reading the inode of", &path))?;
            let kind = meta.file_type();
            if meta.dev() != self.dev {
                self.refuse(&path, "another file system is mounted there".to_owned())?;
            } else if kind.is_dir() {
                let mut names = Vec::new();
                for entry in std::fs::read_dir(&path).map_err(failed("reading", &path))? {
                    names.push(entry.map_err(failed("reading", &path))?.path());
                }
                names.sort_unstable_by(|one, other| other.cmp(one));
                left.extend(names);
            } else if kind.is_symlink() {
                self.link(&path)?;
            } else if kind.is_file() {
                self.file(&path)?;
            } else {
                let what = if kind.is_fifo() { "a pipe" } else { "a socket or a device" };
                self.refuse(&path, format!("{what}, no file"))?;
            }
        }
        Ok(())
    }

    fn link(&mut self, path: &Path) -> Result<(), Error> {
        let Ok(target) = path.canonicalize() else {
            return self.refuse(path, "a symbolic link that leads nowhere".to_owned());
        };
        let same = target.symlink_metadata().is_ok_and(|meta| meta.dev() == self.dev);
        match (self.inside(path), self.inside(&target)) {
            (Some(path), Some(target)) if same => self.links.push(Link { path, target }),
            _ => {
                let reason = format!("a symbolic link out of the file system, to {}", target.display());
                self.refuse(path, reason)?;
            }
        }
        Ok(())
    }

    fn file(&mut self, path: &Path) -> Result<(), Error> {
        let Some(inside) = self.inside(path) else {
            return self.refuse(path, "its name is no UTF-8, or hidden by another mount".to_owned());
        };
        let captured = self.captured(path, inside)?;
        self.step(1, 0)?;
        match captured {
            Ok(file) => self.files.push((path.to_owned(), file)),
            Err(reason) => self.refuse(path, reason.to_string())?,
        }
        Ok(())
    }

    fn step(&mut self, files: u64, bytes: u64) -> Result<(), Error> {
        self.progress.files += files;
        self.progress.bytes += bytes;
        match (self.watch)(self.progress) {
            true => Ok(()),
            false => Err(Error::refused("capture", "interrupted")),
        }
    }

    /// The checksum of a file by the kernel's own reads; what it says to be a hole is not read.
    fn sum(&mut self, file: &File, size: u64, path: &Path) -> Result<Option<String>, Error> {
        let mut sum = Sum::new(self.options.checksum);
        let (mut chunk, mut next) = (vec![0; 1 << 20], 0);
        while next < size && self.options.checksum != Checksum::None {
            let data = match rustix::fs::seek(file, SeekFrom::Data(next)) {
                Err(Errno::NXIO) => size,
                found => found.map_err(|error| failed("reading", path)(error.into()))?.min(size),
            };
            sum.add_zeroes(data - next);
            let end = match data < size {
                true => rustix::fs::seek(file, SeekFrom::Hole(data))
                    .map_err(|error| failed("reading", path)(error.into()))?
                    .min(size),
                false => size,
            };
            next = data;
            while next < end {
                let most = (end - next).min(chunk.len() as u64) as usize;
                file.read_exact_at(&mut chunk[..most], next).map_err(failed("reading", path))?;
                sum.add(&chunk[..most]);
                next += most as u64;
                self.step(0, most as u64)?;
            }
        }
        Ok(sum.finish())
    }

    /// One file, or why it cannot be captured.
    fn captured(&mut self, path: &Path, inside: String) -> Result<Result<CapturedFile, Uncapturable>, Error> {
        let file = open(path)?;
        let meta = |file: &File| file.metadata().map_err(failed("reading the inode of", path));
        let before = meta(&file)?;
        if let Some(reason) = hidden(&file, path)? {
            return Ok(Err(reason));
        }
        let checksum = self.sum(&file, before.len(), path)?;
        let told = match ask(&file) {
            Ok(told) => told,
            Err(error) => return Ok(Err(Uncapturable::Unmapped(error))),
        };
        if let Some(reason) = changed(&before, &meta(&file)?) {
            return Ok(Err(reason));
        }
        let (start, bytes) = self.place.span();
        let limits = Limits { size: before.len(), start, bytes, block_size: self.place.device.block_size };
        Ok(placed(&told, limits).map_err(Uncapturable::Extent).map(|placed| CapturedFile {
            path: inside,
            size: before.len(),
            inode: before.ino(),
            modified: (before.mtime(), before.mtime_nsec() as u32),
            changed: (before.ctime(), before.ctime_nsec() as u32),
            shared: placed.shared,
            checksum,
            extents: placed.extents,
        }))
    }

    /// The stamp, once all files are known, and are still what they were.
    fn finish(mut self) -> Result<Manifest, Error> {
        let files = std::mem::take(&mut self.files);
        let mut kept = Vec::with_capacity(files.len());
        for (path, file) in files {
            let meta = path.symlink_metadata().map_err(failed("reading the inode of", &path))?;
            let now = (meta.len(), meta.ino(), (meta.ctime(), meta.ctime_nsec() as u32));
            if now == (file.size, file.inode, file.changed) {
                kept.push(file);
            } else {
                self.refuse(&path, "it changed after it was captured".to_owned())?;
            }
        }
        kept.sort_by(|one, other| one.path.cmp(&other.path));
        kept.dedup_by(|one, other| one.path == other.path);
        self.links.sort_by(|one, other| one.path.cmp(&other.path));
        self.links.dedup();
        let (superblock, stamp) = self.stamp()?;
        let manifest = Manifest {
            schema: SCHEMA.to_owned(),
            warpbell: env!("CARGO_PKG_VERSION").to_owned(),
            device: self.place.device,
            partition: self.place.partition,
            file_system: superblock.id().clone(),
            stamp,
            checksum: self.options.checksum,
            files: kept,
            links: self.links,
            refused: self.refused,
        };
        manifest.validate()?;
        Ok(manifest)
    }

    /// The superblock, and the generation of the file system now.
    fn stamp(&self) -> Result<(Superblock, Stamp), Error> {
        let node = Path::new("/dev").join(&self.place.node);
        let device = File::open(&node).map_err(failed("opening", &node))?;
        let seen = device.metadata().map_err(failed("reading the inode of", &node))?;
        if !seen.file_type().is_block_device() || seen.rdev() != self.dev {
            let reason = "it is not the device that the file system is mounted from";
            return Err(Error::refused(node.display().to_string(), reason));
        }
        rustix::fs::syncfs(&self.root).map_err(|error| failed("syncing", &node)(error.into()))?;
        // XFS goes around this cache: what it has of the log may be old.
        rustix::fs::fadvise(&device, 0, None, Advice::DontNeed)
            .map_err(|error| failed("dropping the cache of", &node)(error.into()))?;
        let source = Image::sized(device, self.place.span().1, self.place.device.block_size);
        let superblock = Superblock::read(&source, 0)?;
        let mut stamp = superblock.stamp(&source)?;
        if let Stamp::Ext4(stamp) = &mut stamp {
            // The superblock has these as of the last time that it was written: the kernel counts on.
            let counted = rustix::fs::fstatvfs(&self.root)
                .map_err(|error| failed("counting free blocks of", &node)(error.into()))?;
            (stamp.free_blocks, stamp.free_inodes) = (counted.f_bfree, counted.f_ffree);
        }
        Ok((superblock, stamp))
    }
}

/// File systems whose extents are no places on a disk, or not understood, by `f_type`.
fn refuse_others(root: &File, path: &Path) -> Result<(), Error> {
    let statfs = rustix::fs::fstatfs(root);
    let magic =
        statfs.map_err(|error| failed("asking for the file system of", path)(error.into()))?.f_type as u64;
    let reason = match magic & 0xFFFF_FFFF {
        0xEF53 | 0x5846_5342 => return Ok(()),
        0x9123_683E => "btrfs: its extents' addresses are those of its own volumes, not of a disk",
        0x794C_7630 => "an overlay: its files lie in the file systems below it; capture them there",
        0x2FC1_2FC1 => "ZFS: its blocks lie in pools of its own",
        0x0102_1994 => "tmpfs: its files lie in memory",
        0x6969 | 0xFF53_4D42 | 0xFE53_4D42 => "a network's: its files lie on another machine",
        0x6573_5546 => "FUSE: the kernel does not know where its files lie",
        other => {
            let reason = format!("file system of type {other:#x}: only ext4 and XFS are captured");
            return Err(Error::refused(path.display().to_string(), reason));
        }
    };
    Err(Error::refused(path.display().to_string(), format!("{reason}; only ext4 and XFS are captured")))
}

/// Opens without a trace in the inode, where that is allowed.
fn open(path: &Path) -> Result<File, Error> {
    let with = |flags: OFlags| {
        std::fs::OpenOptions::new()
            .read(true)
            .custom_flags((flags | OFlags::NONBLOCK).bits() as i32)
            .open(path)
    };
    match with(OFlags::NOATIME) {
        // Of others' files only root may hide that they were read.
        Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => with(OFlags::empty()),
        opened => opened,
    }
    .map_err(failed("opening", path))
}

/// Why one file cannot be captured.
#[derive(Debug, thiserror::Error)]
enum Uncapturable {
    #[error("it is {0}")]
    Encoded(&'static str),
    #[error("the kernel does not say where it lies (FIEMAP): {0}")]
    Unmapped(std::io::Error),
    #[error("it was written while it was captured: size {was} → {is}")]
    Changed { was: u64, is: u64 },
    #[error("{0}")]
    Extent(ExtentError),
}

fn hidden(file: &File, path: &Path) -> Result<Option<Uncapturable>, Error> {
    let statx = rustix::fs::statx(file, "", AtFlags::EMPTY_PATH, StatxFlags::BASIC_STATS);
    let has = statx.map_err(|error| failed("reading the inode of", path)(error.into()))?.stx_attributes;
    Ok([(StatxAttributes::ENCRYPTED, "encrypted"), (StatxAttributes::COMPRESSED, "compressed")]
        .iter()
        .find(|(attribute, _)| has.contains(*attribute))
        .map(|(_, how)| Uncapturable::Encoded(how)))
}

fn changed(before: &Metadata, after: &Metadata) -> Option<Uncapturable> {
    let of = |meta: &Metadata| (meta.mtime(), meta.mtime_nsec(), meta.ctime(), meta.ctime_nsec());
    let (was, is) = (before.len(), after.len());
    let same = was == is && of(before) == of(after);
    (!same).then_some(Uncapturable::Changed { was, is })
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Error {
    let path = path.display().to_string();
    move |source| Error::File { action, path, source }
}
