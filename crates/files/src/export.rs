//! Taking files out of a catalogue, and checking them.

use std::io::{ErrorKind, Read, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use crate::catalogue::File;
use crate::{Error, Source, read_file};

/// Bytes that are read at once.
const PIECE: u64 = 1 << 20;

/// Reads a file and gives its pieces to `each`, for as long as that asks for more.
///
/// # Errors
/// Its contents contradict the CRC-32C that the catalogue has. Those pieces were given all the same.
pub fn read_checked(
    source: &dyn Source,
    (name, file): (&str, &File),
    mut each: impl FnMut(&[u8]) -> Result<ControlFlow<()>, Error>,
) -> Result<ControlFlow<()>, Error> {
    let map = file.map()?;
    let mut bytes = vec![0; PIECE.min(file.size) as usize];
    let (mut at, mut crc) = (0, 0);
    while at < file.size {
        let piece = &mut bytes[..PIECE.min(file.size - at) as usize];
        read_file(source, &map, at, piece)?;
        crc = crc32c::crc32c_append(crc, piece);
        if each(piece)?.is_break() {
            return Ok(ControlFlow::Break(()));
        }
        at += piece.len() as u64;
    }
    if crc != file.crc {
        let reason = format!(
            "its {} bytes have CRC-32C {crc:08x}, and the catalogue says {:08x}",
            file.size, file.crc
        );
        return Err(Error::damaged(name, reason));
    }
    Ok(ControlFlow::Continue(()))
}

/// Nothing is read any more once `stop` is set.
fn going_on(stop: &AtomicBool) -> ControlFlow<()> {
    if stop.load(Ordering::Relaxed) { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
}

/// Reads all `files`, and returns what is wrong with those that are damaged. Ends early when `stop` is set.
///
/// # Errors
/// The SSD failed, other than by an error of its medium in a file.
pub fn verify(
    source: &dyn Source,
    files: &[(&str, &File)],
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Vec<(String, Error)>, Error> {
    let mut damaged = Vec::new();
    for (name, file) in files {
        let count = |piece: &[u8]| {
            done.fetch_add(piece.len() as u64, Ordering::Relaxed);
            Ok(going_on(stop))
        };
        match read_checked(source, (name, file), count) {
            Ok(ControlFlow::Continue(())) => {}
            Ok(ControlFlow::Break(())) => break,
            Err(error @ (Error::Damaged { .. } | Error::Io { .. })) => {
                damaged.push(((*name).to_owned(), error))
            }
            Err(error) => return Err(error),
        }
    }
    Ok(damaged)
}

/// What an export did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exported {
    /// Files that were written.
    pub written: usize,
    /// Their bytes.
    pub bytes: u64,
    /// Files that were there with the same contents.
    pub same: usize,
    /// Whether it ended before all were there, as it was asked to stop.
    pub stopped: bool,
}

/// A file, and where it is to be.
struct Outgoing<'a> {
    name: &'a str,
    file: &'a File,
    path: PathBuf,
    /// It is there, with the same contents.
    same: bool,
}

/// Where a file goes: its name without `above`, in folder `to`.
pub fn target(to: &Path, above: &str, name: &str) -> PathBuf {
    to.join(name.strip_prefix(above).unwrap_or(name).trim_start_matches('/'))
}

/// Writes `files` into folder `to`, under their names without `above`. Each appears whole, or not at all. Those that are
/// there with the same contents are left as they are; whatever else has such a name is replaced if `force` says so.
///
/// # Errors
/// Something else is there: nothing was written. A file is damaged, or cannot be written.
pub fn export(
    source: &dyn Source,
    files: &[(&str, &File)],
    (to, above): (&Path, &str),
    force: bool,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Exported, Error> {
    let mut exported = Exported::default();
    let mut outgoing = Vec::with_capacity(files.len());
    for (name, file) in files {
        if going_on(stop).is_break() {
            return Ok(Exported { stopped: true, ..exported });
        }
        let path = target(to, above, name);
        let same = is_there(&path, file, force)?;
        outgoing.push(Outgoing { name, file, path, same });
    }
    for each in &outgoing {
        if each.same {
            exported.same += 1;
            done.fetch_add(each.file.size, Ordering::Relaxed);
        } else if write(source, each, force, done, stop)?.is_break() {
            exported.stopped = true;
            break;
        } else {
            exported.written += 1;
            exported.bytes += each.file.size;
        }
    }
    Ok(exported)
}

/// Whether `path` is a file of the same contents.
///
/// # Errors
/// It is something else, which `force` does not permit to replace.
fn is_there(path: &Path, file: &File, force: bool) -> Result<bool, Error> {
    let refused = |what: &str| match force {
        true => Ok(false),
        false => Err(Error::refused(path.display().to_string(), format!("{what}; --force replaces it"))),
    };
    let meta = match std::fs::symlink_metadata(path) {
        Ok(meta) => meta,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
        Err(error) => return Err(Error::file("reading", path, error)),
    };
    if !meta.is_file() {
        return refused("it is there, and is no file");
    }
    if meta.len() != file.size {
        return refused(&format!("it is there with {} bytes, and would get {}", meta.len(), file.size));
    }
    match crc_of(path).map_err(|error| Error::file("reading", path, error))? == file.crc {
        true => Ok(true),
        false => refused("it is there with other contents"),
    }
}

fn crc_of(path: &Path) -> std::io::Result<u32> {
    let mut from = std::fs::File::open(path)?;
    let (mut bytes, mut crc) = (vec![0; PIECE as usize], 0);
    loop {
        match from.read(&mut bytes)? {
            0 => return Ok(crc),
            count => crc = crc32c::crc32c_append(crc, &bytes[..count]),
        }
    }
}

/// Writes a file beside its place, and puts it there when it is whole.
fn write(
    source: &dyn Source,
    Outgoing { name, file, path, .. }: &Outgoing<'_>,
    force: bool,
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<ControlFlow<()>, Error> {
    let failed = |error: std::io::Error| Error::file("writing", path, error);
    let folder = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut part = tempfile::Builder::new().prefix(".warpbell-").tempfile_in(folder).map_err(failed)?;
    let whole = read_checked(source, (name, file), |piece| {
        done.fetch_add(piece.len() as u64, Ordering::Relaxed);
        part.write_all(piece).map_err(failed)?;
        Ok(going_on(stop))
    })?;
    if whole.is_break() {
        return Ok(whole);
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o644);
    part.as_file().set_permissions(mode).map_err(failed)?;
    let put = if force { part.persist(path) } else { part.persist_noclobber(path) };
    match put {
        Ok(_) => Ok(whole),
        Err(error) if !force && error.error.kind() == ErrorKind::AlreadyExists => {
            let reason = "it came while files were written; --force replaces it";
            Err(Error::refused(path.display().to_string(), reason))
        }
        Err(error) => Err(failed(error.error)),
    }
}
