//! `files`: what is in the file system of a device.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::{Value, json};
use warpbell_files::{Entry, EntryKind, FileMap};

use super::{catalogue, manifest};
use crate::args::{FilesArgs, FilesCommand, Global, Output};
use crate::exit::Ending;
use crate::open::{Access, open_named};
use crate::part::Part;
use crate::{out, units};

/// Name and version of the forms of the documents.
const LS_SCHEMA: &str = "warpbell.files-ls/1";
const STAT_SCHEMA: &str = "warpbell.files-stat/1";

/// Runs the command.
pub fn run(command: &FilesCommand, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    match command {
        FilesCommand::Ls(args) => ls(args, global),
        FilesCommand::Stat(args) => stat(args, global),
        FilesCommand::Capture(args) => manifest::capture(args, global, &stop),
        FilesCommand::Check(args) => manifest::check(args, global, stop),
        FilesCommand::Import(args) => catalogue::import(args, global, &stop),
        FilesCommand::Export(args) => catalogue::export(args, global, &stop),
        FilesCommand::Verify(args) => catalogue::verify(args, global, &stop),
        FilesCommand::Rm(args) => catalogue::remove(args, global),
    }
}

fn ls(args: &FilesArgs, global: &Global) -> Result<(), Ending> {
    args.device.refuse_kernels("files ls")?;
    let named = args.device.named()?;
    let ssd = open_named(&args.device, &named.device, Access::Read)?;
    let path = named.path.as_deref().unwrap_or("/");
    let part = Part::new(&ssd, args.nsid, &args.part)?;
    let (kind, mut entries) = part.file_system(|files| Ok((files.kind(), files.entries(path)?)))?;
    entries.sort_by(|one, other| one.name.cmp(&other.name));
    match global.output() {
        Output::Normal => out::text(&entries.iter().map(line).collect::<String>()),
        Output::Json => out::json(&json!({
            "schema": LS_SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "device": ssd.name().to_string(),
            "file_system": kind,
            "path": path,
            "entries": entries.iter().map(entry).collect::<Vec<Value>>(),
        })),
    }
}

/// One entry in a line. Names that would make several of it, or speak to the terminal, are written with escapes.
fn line(entry: &Entry) -> String {
    let name: String = entry.name.chars().map(shown).collect();
    format!("{:<9} {:>15}  {name}\n", word(entry.kind), entry.size)
}

fn shown(each: char) -> String {
    if each.is_control() || each == '\\' { each.escape_default().to_string() } else { each.to_string() }
}

fn entry(entry: &Entry) -> Value {
    json!({ "name": entry.name, "kind": word(entry.kind), "bytes": entry.size })
}

fn word(kind: EntryKind) -> &'static str {
    match kind {
        EntryKind::File => "file",
        EntryKind::Directory => "directory",
        EntryKind::Symlink => "symlink",
        EntryKind::Special => "special",
    }
}

fn stat(args: &FilesArgs, global: &Global) -> Result<(), Ending> {
    args.device.refuse_kernels("files stat")?;
    let named = args.device.named()?;
    let Some(path) = &named.path else {
        return Err(Ending::usage(format!("{named}: files stat takes a file, as {named}#/path")));
    };
    let ssd = open_named(&args.device, &named.device, Access::Read)?;
    let part = Part::new(&ssd, args.nsid, &args.part)?;
    let kind = part.file_system(|files| Ok(files.kind()))?;
    let map = part.map(Some(path))?;
    match global.output() {
        Output::Normal => out::text(&text(&format!("{named}: {kind}"), &map)),
        Output::Json => out::json(&json!({
            "schema": STAT_SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "device": ssd.name().to_string(),
            "nsid": args.nsid.get(),
            "file_system": kind,
            "path": path,
            "bytes": map.size(),
            "hole_bytes": hole_bytes(&map),
            "extents": extents(&map),
        })),
    }
}

fn text(title: &str, map: &FileMap) -> String {
    let (size, holes) = (map.size(), hole_bytes(map));
    let count = map.extents().len();
    let mut text = format!("{title}, {size} bytes ({}), {count} extents, ", units::bytes(size));
    text += &format!("{holes} bytes of holes\n{:>15} {:>15} {:>15}\n", "offset", "device byte", "bytes");
    for extent in map.extents() {
        text += &format!("{:>15} {:>15} {:>15}\n", extent.offset, extent.at, extent.bytes);
    }
    text
}

/// Bytes of the file that no extent holds.
fn hole_bytes(map: &FileMap) -> u64 {
    let held = |extent: &warpbell_files::Extent| extent.bytes.min(map.size() - extent.offset);
    map.size() - map.extents().iter().map(held).sum::<u64>()
}

/// The extents, by bytes of the namespace.
fn extents(map: &FileMap) -> Vec<Value> {
    let each = map.extents().iter();
    each.map(|extent| json!({ "offset": extent.offset, "at": extent.at, "bytes": extent.bytes })).collect()
}
