//! Files and folders of this machine.

use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use super::{Failure, Item, Known, Message, Out, PIECE, Place};
use crate::Error;

/// A file, or all files of a folder. With a `/` at its end the folder's own name is left out.
pub fn find(source: &str) -> Result<Vec<Item>, Error> {
    let path = Path::new(source);
    let meta = fs::metadata(path).map_err(|error| failed(path, error))?;
    let name = match path.file_name() {
        Some(_) if meta.is_dir() && source.ends_with('/') => String::new(),
        Some(name) => text(path, name)?,
        // `.` and the like have no name of their own.
        None => String::new(),
    };
    let mut items = Vec::new();
    if meta.is_dir() {
        folder(path, &name, &mut items)?;
    } else {
        items.push(item(path, name, &meta)?);
    }
    Ok(items)
}

fn folder(path: &Path, name: &str, items: &mut Vec<Item>) -> Result<(), Error> {
    let entries = fs::read_dir(path).map_err(|error| failed(path, error))?;
    for entry in entries {
        let entry = entry.map_err(|error| failed(path, error))?;
        let inner = entry.path();
        let last = text(&inner, &entry.file_name())?;
        let name = if name.is_empty() { last } else { format!("{name}/{last}") };
        let kind = entry.file_type().map_err(|error| failed(&inner, error))?;
        if kind.is_dir() {
            folder(&inner, &name, items)?;
            continue;
        }
        // Links to files are followed; those to folders might lead in a circle.
        let meta = fs::metadata(&inner).map_err(|error| failed(&inner, error))?;
        if meta.is_dir() {
            let reason =
                "a symbolic link to a folder is not followed; name that folder as a source of its own";
            return Err(Error::refused(inner.display().to_string(), reason));
        }
        items.push(item(&inner, name, &meta)?);
    }
    Ok(())
}

fn item(path: &Path, name: String, meta: &fs::Metadata) -> Result<Item, Error> {
    if !meta.is_file() {
        let reason = "it is neither a file nor a folder";
        return Err(Error::refused(path.display().to_string(), reason));
    }
    let place = Place::File(path.to_owned());
    Ok(Item { name, size: meta.len(), origin: String::new(), place })
}

fn text(path: &Path, name: &std::ffi::OsStr) -> Result<String, Error> {
    let reason = "its name is not UTF-8, as names of a catalogue are";
    let text = name.to_str().ok_or_else(|| Error::refused(path.display().to_string(), reason))?;
    Ok(text.to_owned())
}

/// Reads a file, unless it is there already. Of a file as long as the one there the checksum is found first.
pub fn read(path: &Path, index: usize, size: u64, known: &Known, out: &Out<'_>) -> Result<(), Failure> {
    if let Some((there, crc, _)) = known
        && *there == size
    {
        let mut found = 0;
        pieces(path, size, |data, _| {
            found = crc32c::crc32c_append(found, &data);
            if out.stop.load(std::sync::atomic::Ordering::Relaxed) { Err(Failure::Gone) } else { Ok(()) }
        })?;
        if found == *crc {
            return Ok(out.send(Message::Same(index))?);
        }
    }
    pieces(path, size, |data, last| Ok(out.send(Message::Piece { index, data, last })?))
}

/// The contents in pieces. The last comes when the file has ended where it should.
fn pieces(
    path: &Path,
    size: u64,
    mut each: impl FnMut(Vec<u8>, bool) -> Result<(), Failure>,
) -> Result<(), Failure> {
    let mut file = File::open(path).map_err(|error| failed(path, error))?;
    let before = Stamp::of(&file).map_err(|error| failed(path, error))?;
    let mut left = size;
    loop {
        let mut data = vec![0; left.min(PIECE as u64) as usize];
        match file.read_exact(&mut data) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(cut(path, size).into());
            }
            read => read.map_err(|error| failed(path, error))?,
        }
        left -= data.len() as u64;
        if left == 0 && file.read(&mut [0]).map_err(|error| failed(path, error))? > 0 {
            return Err(cut(path, size).into());
        }
        if left == 0 {
            // Before the last piece is handed on: without it the file does not come in.
            let after = Stamp::of(&file).map_err(|error| failed(path, error))?;
            before
                .compare(&after)
                .map_err(|changed| Error::refused(path.display().to_string(), changed.to_string()))?;
            return each(data, true);
        }
        each(data, false)?;
    }
}

/// What a write to a file changes, times in seconds and nanoseconds.
#[derive(Debug, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What somebody did to a file while it was read.
#[derive(Debug, thiserror::Error)]
enum Changed {
    #[error("{WHILE_READ}: size {from} → {to}; {AGAIN}")]
    Size { from: u64, to: u64 },
    #[error("{WHILE_READ}: written at {} → {}; {AGAIN}", time(*from), time(*to))]
    Written { from: (i64, i64), to: (i64, i64) },
    #[error("{WHILE_READ}: its inode changed at {} → {}; {AGAIN}", time(*from), time(*to))]
    Inode { from: (i64, i64), to: (i64, i64) },
}

const WHILE_READ: &str = "it changed while it was read";
const AGAIN: &str = "import it again when nobody writes it";

fn time((seconds, nanoseconds): (i64, i64)) -> String {
    format!("{seconds}.{nanoseconds:09}")
}

impl Stamp {
    fn of(file: &File) -> std::io::Result<Stamp> {
        let meta = file.metadata()?;
        Ok(Stamp {
            inode: meta.ino(),
            size: meta.len(),
            modified: (meta.mtime(), meta.mtime_nsec()),
            changed: (meta.ctime(), meta.ctime_nsec()),
        })
    }

    /// Which of it has changed.
    fn compare(&self, after: &Stamp) -> Result<(), Changed> {
        if self.size != after.size {
            Err(Changed::Size { from: self.size, to: after.size })
        } else if self.modified != after.modified {
            Err(Changed::Written { from: self.modified, to: after.modified })
        } else if self != after {
            Err(Changed::Inode { from: self.changed, to: after.changed })
        } else {
            Ok(())
        }
    }
}

fn cut(path: &Path, size: u64) -> Error {
    let reason = format!("it had {size} bytes, and has not any more: it is written while it is read");
    Error::refused(path.display().to_string(), reason)
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::absent(path.display().to_string(), error.to_string()),
        _ => Error::file("reading", path, error),
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::FileExt;

    use super::*;

    /// What reading a file says to whose first piece `change` is done.
    fn read_while(change: impl Fn(&File)) -> Result<u64, String> {
        let file = tempfile::NamedTempFile::new().unwrap();
        file.as_file().set_len(3 << 20).unwrap();
        let mut seen = 0;
        let read = pieces(file.path(), 3 << 20, |data, _| {
            if seen == 0 {
                // The clock of files ticks by a few milliseconds.
                std::thread::sleep(std::time::Duration::from_millis(30));
                change(file.as_file());
            }
            seen += data.len() as u64;
            Ok(())
        });
        match read {
            Ok(()) => Ok(seen),
            Err(Failure::Source(error)) => {
                assert!(seen < 3 << 20, "its last piece was handed on");
                Err(error.to_string())
            }
            Err(Failure::Gone) => panic!("nobody has gone"),
        }
    }

    #[test]
    fn a_file_that_is_written_while_it_is_read_is_refused() {
        assert_eq!(read_while(|_| ()), Ok(3 << 20));
        // As long as before, behind and before what was read.
        for at in [0, 2 << 20] {
            let line = read_while(|file| file.write_all_at(b"new", at).unwrap()).unwrap_err();
            assert!(line.contains("it changed while it was read: written at"), "{line}");
        }
        let line = read_while(|file| file.set_len(2 << 20).unwrap()).unwrap_err();
        assert!(line.contains("it had 3145728 bytes, and has not any more"), "{line}");
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o600);
        let line = read_while(|file| file.set_permissions(Clone::clone(&mode)).unwrap()).unwrap_err();
        assert!(line.contains("its inode changed at"), "{line}");
    }
}
