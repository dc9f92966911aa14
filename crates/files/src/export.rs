//! Taking files out of a catalogue, and checking them.

use std::io::Write;
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

/// Writes `file` into folder `to`, under its name without `above`. It appears whole, or not at all; `None`: `stop` was set
/// before it was.
///
/// # Errors
/// The file is damaged, or cannot be written.
pub fn export(
    source: &dyn Source,
    (name, file): (&str, &File),
    (to, above): (&Path, &str),
    done: &AtomicU64,
    stop: &AtomicBool,
) -> Result<Option<PathBuf>, Error> {
    let inner = name.strip_prefix(above).unwrap_or(name).trim_start_matches('/');
    let path = to.join(inner);
    let failed = |error: std::io::Error| Error::file("writing", &path, error);
    let folder = path.parent().unwrap_or(to);
    std::fs::create_dir_all(folder).map_err(failed)?;
    let mut part = tempfile::Builder::new().prefix(".warpbell-").tempfile_in(folder).map_err(failed)?;
    let whole = read_checked(source, (name, file), |piece| {
        done.fetch_add(piece.len() as u64, Ordering::Relaxed);
        part.write_all(piece).map_err(failed)?;
        Ok(going_on(stop))
    })?;
    if whole.is_break() {
        return Ok(None);
    }
    use std::os::unix::fs::PermissionsExt;
    let mode = std::fs::Permissions::from_mode(0o644);
    part.as_file().set_permissions(mode).map_err(failed)?;
    part.persist(&path).map_err(|error| failed(error.error))?;
    Ok(Some(path))
}
