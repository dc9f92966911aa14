//! Files and folders of this machine.

use std::fs::{self, File};
use std::io::Read;
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
    let mut left = size;
    loop {
        let mut data = vec![0; left.min(PIECE as u64) as usize];
        match file.read_exact(&mut data) {
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
                return Err(changed(path, size).into());
            }
            read => read.map_err(|error| failed(path, error))?,
        }
        left -= data.len() as u64;
        if left == 0 && file.read(&mut [0]).map_err(|error| failed(path, error))? > 0 {
            return Err(changed(path, size).into());
        }
        each(data, left == 0)?;
        if left == 0 {
            return Ok(());
        }
    }
}

fn changed(path: &Path, size: u64) -> Error {
    let reason = format!("it had {size} bytes, and has not any more: it is written while it is read");
    Error::refused(path.display().to_string(), reason)
}

fn failed(path: &Path, error: std::io::Error) -> Error {
    match error.kind() {
        std::io::ErrorKind::NotFound => Error::absent(path.display().to_string(), error.to_string()),
        _ => Error::file("reading", path, error),
    }
}
