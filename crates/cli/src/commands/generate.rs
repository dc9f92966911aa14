//! `gen`: files of synthetic data for programs.

use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::{Value, json};
use tempfile::NamedTempFile;
use warpbell_data::{Header, Kind, generate, layout};

use crate::args::{GenArgs, GenTo, Global, Output};
use crate::exit::{Ending, INTERRUPTED};
use crate::progress::{Goal, watch};
use crate::{out, units};

/// Runs the command.
pub fn run(args: &GenArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let (kind, to) = args.parts();
    let planned = layout(&kind, to.seed).map_err(Ending::usage)?;
    refuse_to_overwrite(to)?;
    let mut file = beside(&to.file).map_err(|error| unwritable(&to.file, &error))?;
    let header = write(&kind, to, planned.bytes(), &mut file, &stop)?;
    let kept = if to.force { file.persist(&to.file) } else { file.persist_noclobber(&to.file) };
    kept.map_err(|error| unwritable(&to.file, &error.error))?;
    match global.output() {
        Output::Normal => out::text(&text(&to.file, &header)),
        Output::Json => out::json(&document(&to.file, &header)),
    }
}

fn refuse_to_overwrite(to: &GenTo) -> Result<(), Ending> {
    // Of a link itself: one that leads nowhere is there, too.
    let Ok(there) = std::fs::symlink_metadata(&to.file) else { return Ok(()) };
    let file = to.file.display();
    match (there.is_file(), to.force) {
        (true, true) => Ok(()),
        (true, false) => {
            Err(Ending::usage(format!("{file}: there is a file of this name; --force writes in its place")))
        }
        // A file would take the place of a device, or of a link and not of what it leads to.
        (false, _) => Err(Ending::usage(format!("{file}: this is no regular file, and is not replaced"))),
    }
}

/// A file that gets its name when it is whole.
fn beside(path: &Path) -> io::Result<NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut builder = tempfile::Builder::new();
    // As of any new file: the user's mask takes from it.
    let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o666);
    builder.permissions(permissions).prefix(".warpbell-gen-").tempfile_in(folder.unwrap_or(Path::new(".")))
}

fn write(
    kind: &Kind,
    to: &GenTo,
    bytes: u64,
    file: &mut NamedTempFile,
    stop: &AtomicBool,
) -> Result<Header, Ending> {
    let done = AtomicU64::new(0);
    let mut out = BufWriter::with_capacity(1 << 18, Watched { file, done: &done, stop });
    let made = watch("gen", Goal::Bytes(bytes), &|| (0, done.load(Ordering::Relaxed)), || {
        generate(kind, to.seed, &mut out)
    });
    made.map_err(|error| {
        let file = to.file.display();
        match stop.load(Ordering::Relaxed) {
            true => Ending::new(INTERRUPTED, format!("interrupted: {file} was not written")),
            false => Ending::failed(format!("{file}: {error}")),
        }
    })
}

fn unwritable(path: &Path, error: &io::Error) -> Ending {
    // Without the name of the file beside it, which nobody gave.
    let text = error.to_string();
    let plain = io::Error::new(error.kind(), text.split(" at path ").next().unwrap_or_default().to_owned());
    Ending::file(path.display(), &plain)
}

/// Counts what is written, and ends when it is asked to.
struct Watched<'a> {
    file: &'a mut NamedTempFile,
    done: &'a AtomicU64,
    stop: &'a AtomicBool,
}

impl Write for Watched<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("interrupted"));
        }
        let len = self.file.write(bytes)?;
        self.done.fetch_add(len as u64, Ordering::Relaxed);
        Ok(len)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

fn text(path: &Path, header: &Header) -> String {
    let (file, bytes) = (path.display(), header.bytes());
    let size = match units::bytes(bytes) {
        short if short == format!("{bytes}B") => format!("{bytes} bytes"),
        short => format!("{bytes} bytes ({short})"),
    };
    let mut text = format!("{file}: {}, seed {}, {size}\n", header.kind(), header.seed());
    for (name, value) in header.parameters() {
        text += &format!("  {name} = {value}\n");
    }
    for (name, section) in header.sections() {
        text += &format!("  section {name}: {} bytes from byte {} on\n", section.bytes, section.offset);
    }
    text
}

fn document(path: &Path, header: &Header) -> Value {
    let parameters: serde_json::Map<String, Value> =
        header.parameters().map(|(name, value)| (name.to_owned(), value.into())).collect();
    let sections: Vec<Value> = header
        .sections()
        .map(|(name, section)| json!({ "name": name, "offset": section.offset, "bytes": section.bytes }))
        .collect();
    json!({
        "schema": "warpbell.gen/1",
        "warpbell": env!("CARGO_PKG_VERSION"),
        "file": path.display().to_string(),
        "kind": header.kind(),
        "seed": header.seed(),
        "bytes": header.bytes(),
        "parameters": parameters,
        "sections": sections,
    })
}
