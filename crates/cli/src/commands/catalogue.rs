//! `files import`, `export`, `verify`, `rm`: files that a catalogue on a bare SSD has.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use warpbell::{Named, Ssd, SsdSource};
use warpbell_files::catalogue::{File, FormatOptions, Writer};
use warpbell_files::export::Exported;
use warpbell_files::import::{Counts, End, ImportOptions};
use warpbell_files::{Catalogue, Error, OpenOptions};

use crate::args::{DeviceArgs, ExportArgs, Global, ImportArgs, Output, RemoveArgs, VerifyArgs};
use crate::exit::{Ending, FAILED, INTERRUPTED, explained};
use crate::open::{Access, open_named};
use crate::outputs::Outputs;
use crate::part::of;
use crate::progress::{Goal, watch};
use crate::{out, units};

/// Names and versions of the forms of the documents.
const IMPORT_SCHEMA: &str = "warpbell.files-import/1";
const EXPORT_SCHEMA: &str = "warpbell.files-export/1";
const VERIFY_SCHEMA: &str = "warpbell.files-verify/1";
const RM_SCHEMA: &str = "warpbell.files-rm/1";

/// Prints a result: `text`, or the document.
fn print(global: &Global, text: &str, mut document: serde_json::Value, schema: &str) -> Result<(), Ending> {
    match global.output() {
        Output::Normal => out::text(text),
        Output::Json => {
            document["schema"] = schema.into();
            document["warpbell"] = env!("CARGO_PKG_VERSION").into();
            out::json(&document)
        }
    }
}

/// Runs `import`.
pub fn import(args: &ImportArgs, global: &Global, stop: &AtomicBool) -> Result<(), Ending> {
    let named: Named = args.device.parse().map_err(Ending::usage)?;
    let folder = named.path.as_deref().unwrap_or_default().trim_matches('/');
    let options = ImportOptions::new().batch_files(args.commit_files).check_etag(!args.no_etag_check);
    // Sources that are wrong are found before the device is touched.
    let planned = warpbell_files::import::plan(&args.sources, folder, stop).map_err(of_source)?;
    let Some(items) = planned else {
        return Err(Ending::new(INTERRUPTED, "interrupted before anything was written"));
    };
    let total = items.iter().map(|item| item.size).sum();
    let device = DeviceArgs::of_host(named.clone(), args.allow_write.clone(), args.fault.clone());
    let ssd = open_named(&device, &named.device, Access::Write { nsid: args.nsid })?;
    let source = SsdSource::new(&ssd, Some(args.nsid))?;
    let mut writer = writer(&source, args).map_err(|error| of(&ssd, error))?;
    let counts = Counts::default();
    let done = || (0, counts.bytes.load(Ordering::Relaxed));
    let ended = watch("import", Goal::Bytes(total), &done, || {
        warpbell_files::import::import(&mut writer, &items, &options, &counts, stop)
    });
    let (written, same) = (counts.written.load(Ordering::Relaxed), counts.same.load(Ordering::Relaxed));
    let there = format!("{written} files of {} written, {same} were there", items.len());
    let end = ended.map_err(|error| of(&ssd, error).and(&format!("{there}; run it again to go on")))?;
    let device = ssd.name().to_string();
    say_imported(&writer, (&device, &there), (&counts, end == End::Done), global)?;
    match end {
        End::Done => Ok(()),
        End::Stopped => Err(Ending::new(INTERRUPTED, "interrupted; run it again to go on")),
    }
}

/// Says what an import has done.
fn say_imported(
    writer: &Writer<'_>,
    (device, there): (&str, &str),
    (counts, complete): (&Counts, bool),
    global: &Global,
) -> Result<(), Ending> {
    let catalogue = writer.catalogue();
    let (count, free) = (catalogue.files().len(), writer.free_bytes());
    let unchecked = counts.unchecked.load(Ordering::Relaxed);
    let without =
        if unchecked == 0 { String::new() } else { format!("; {unchecked} objects without a checksum") };
    let text = format!(
        "{there}{without}; {count} files in generation {}, {} free\n",
        catalogue.generation(),
        units::bytes(free)
    );
    let document = json!({
        "device": device,
        "uuid": catalogue.uuid(),
        "generation": catalogue.generation(),
        "complete": complete,
        "written": counts.written.load(Ordering::Relaxed),
        "same": counts.same.load(Ordering::Relaxed),
        "without_checksum": unchecked,
        "bytes": counts.bytes.load(Ordering::Relaxed),
        "commits": counts.commits.load(Ordering::Relaxed),
        "files": count,
        "free_bytes": free,
    });
    print(global, &text, document, IMPORT_SCHEMA)
}

/// The catalogue that files go to: the one that is there, or a new one.
fn writer<'a>(source: &'a SsdSource<'_>, args: &ImportArgs) -> Result<Writer<'a>, Error> {
    let (unit, area_bytes) = (args.align.map(|it| it.0), args.catalogue_bytes.map(|it| it.0));
    if args.format {
        let found = warpbell_files::found(source)?;
        eprintln!("warning: {}: --format overwrites {found}", source.ssd().name());
    }
    if args.format || !Catalogue::is_on(source)? {
        return Writer::format(
            source,
            &FormatOptions::new().force(args.format).unit(unit).area_bytes(area_bytes),
        );
    }
    if let Some((object, value)) =
        unit.map(|it| ("--align", it)).or(area_bytes.map(|it| ("--catalogue-bytes", it)))
    {
        let limit =
            "the device has a catalogue, which keeps its own; --format makes a new one, without its files";
        return Err(Error::Argument { object, value: value.to_string(), limit: limit.to_owned() });
    }
    Writer::open(source)
}

/// A source that cannot be read.
fn of_source(error: Error) -> Ending {
    match error {
        Error::Absent { .. } | Error::Argument { .. } => Ending::usage(explained(&error)),
        _ => Ending::new(FAILED, explained(&error)),
    }
}

/// The device of a command that reads a catalogue, and what it names of it.
fn opened(device: &DeviceArgs, command: &str) -> Result<(Ssd, String), Ending> {
    device.refuse_kernels(command)?;
    let named = device.named()?;
    let ssd = open_named(device, &named.device, Access::Read)?;
    Ok((ssd, named.path.clone().unwrap_or_else(|| "/".to_owned())))
}

/// The catalogue of a device.
fn catalogue(source: &SsdSource<'_>, allow_dirty: bool) -> Result<Catalogue, Error> {
    if Catalogue::is_on(source)? {
        return Catalogue::open(source, &OpenOptions::new().allow_dirty(allow_dirty));
    }
    let reason = "there is none; warpbell files import makes one on a bare SSD";
    Err(Error::refused("catalogue", reason))
}

/// Runs `verify`.
pub fn verify(args: &VerifyArgs, global: &Global, stop: &AtomicBool) -> Result<(), Ending> {
    let (ssd, path) = opened(&args.device, "files verify")?;
    let source = SsdSource::new(&ssd, Some(args.nsid))?;
    let catalogue = catalogue(&source, args.allow_dirty).map_err(|error| of(&ssd, error))?;
    let files = catalogue.below(&path).map_err(|error| of(&ssd, error))?;
    let (total, done) = (bytes(&files), AtomicU64::new(0));
    let count = || (0, done.load(Ordering::Relaxed));
    let found = watch("verify", Goal::Bytes(total), &count, || {
        warpbell_files::export::verify(&source, &files, &done, stop)
    });
    let damaged = found.map_err(|error| of(&ssd, error))?;
    if stop.load(Ordering::Relaxed) {
        return Err(Ending::new(INTERRUPTED, "interrupted: not all files were read"));
    }
    let mut text = format!("{} files, {}: {} damaged\n", files.len(), units::bytes(total), damaged.len());
    for (_, error) in &damaged {
        text += &format!("{}\n", explained(error));
    }
    let each = |(name, error): &(String, Error)| json!({ "name": name, "reason": explained(error) });
    let document = json!({
        "device": ssd.name().to_string(),
        "uuid": catalogue.uuid(),
        "generation": catalogue.generation(),
        "files": files.len(),
        "bytes": total,
        "damaged": damaged.iter().map(each).collect::<Vec<_>>(),
    });
    print(global, &text, document, VERIFY_SCHEMA)?;
    match damaged.first() {
        None => Ok(()),
        Some((name, _)) => {
            let more = format!("{} of {} files are damaged, {name} first", damaged.len(), files.len());
            Err(Ending::failed(format!("{}: {more}", ssd.name())))
        }
    }
}

/// Refuses to write in the place of the device's own file, which is being read.
fn refuse_image(args: &ExportArgs, files: &[(&str, &File)], above: &str) -> Result<(), Ending> {
    let mut outputs = Outputs::new();
    args.device.devices().try_for_each(|name| outputs.keep_device(name))?;
    let target = |name: &str| warpbell_files::export::target(&args.to, above, name);
    files.iter().try_for_each(|(name, _)| outputs.refuse("--to", &target(name)))
}

/// Runs `export`.
pub fn export(args: &ExportArgs, global: &Global, stop: &AtomicBool) -> Result<(), Ending> {
    let (ssd, path) = opened(&args.device, "files export")?;
    let source = SsdSource::new(&ssd, Some(args.nsid))?;
    let catalogue = catalogue(&source, args.allow_dirty).map_err(|error| of(&ssd, error))?;
    let files = catalogue.below(&path).map_err(|error| of(&ssd, error))?;
    // What is named keeps its own name, and not those of the folders above it.
    let above = path.trim_matches('/').rsplit_once('/').map_or("", |(above, _)| above);
    refuse_image(args, &files, above)?;
    let (total, done) = (bytes(&files), AtomicU64::new(0));
    let count = || (0, done.load(Ordering::Relaxed));
    let exported = watch("export", Goal::Bytes(total), &count, || {
        let to = (args.to.as_path(), above);
        warpbell_files::export::export(&source, &files, to, args.force, &done, stop)
    });
    let Exported { written, bytes, same, stopped } = exported.map_err(|error| of(&ssd, error))?;
    let to = args.to.display().to_string();
    let text = format!("{written} files, {}, to {to}; {same} were there\n", units::bytes(bytes));
    let document = json!({
        "device": ssd.name().to_string(),
        "files": written,
        "same": same,
        "complete": !stopped,
        "bytes": bytes,
        "to": to,
    });
    print(global, &text, document, EXPORT_SCHEMA)?;
    if stopped {
        return Err(Ending::new(INTERRUPTED, "interrupted; the files that are there are whole"));
    }
    Ok(())
}

fn bytes(files: &[(&str, &File)]) -> u64 {
    files.iter().map(|(_, file)| file.size).sum()
}

/// Runs `rm`.
pub fn remove(args: &RemoveArgs, global: &Global) -> Result<(), Ending> {
    args.device.refuse_kernels("files rm")?;
    let (device, paths) = args.device.paths()?;
    let ssd = open_named(&args.device, device, Access::Write { nsid: args.nsid })?;
    let source = SsdSource::new(&ssd, Some(args.nsid))?;
    let removed = remove_all(&source, &paths, args.recursive).map_err(|error| of(&ssd, error))?;
    let (count, free) = removed;
    let text = format!("{count} files removed, {} free\n", units::bytes(free));
    let document = json!({ "device": ssd.name().to_string(), "removed": count, "free_bytes": free });
    print(global, &text, document, RM_SCHEMA)
}

/// Removes what `paths` name: all of it, or nothing.
fn remove_all(source: &SsdSource<'_>, paths: &[&str], recursive: bool) -> Result<(usize, u64), Error> {
    catalogue(source, false)?;
    let mut writer = Writer::open(source)?;
    let mut names = std::collections::BTreeSet::new();
    for path in paths {
        let name = path.trim_matches('/');
        if writer.catalogue().get(name).is_none() && !recursive {
            writer.catalogue().below(path)?;
            let reason = "it is a folder; -r removes it with all that is in it";
            return Err(Error::refused(*path, reason));
        }
        names.extend(writer.catalogue().below(path)?.into_iter().map(|(name, _)| name.to_owned()));
    }
    names.iter().try_for_each(|name| writer.remove(name))?;
    writer.commit()?;
    Ok((names.len(), writer.free_bytes()))
}
