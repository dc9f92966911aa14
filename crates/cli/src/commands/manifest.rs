//! `files capture` and `files check`: manifests of files that Linux has mounted.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use serde_json::json;
use warpbell::{Ssd, SsdSource};
use warpbell_files::manifest::{CaptureOptions, Checksum, Identity, Manifest, capture as capture_files};
use warpbell_files::{Error, Source};
use warpbell_hw::Nsid;

use crate::args::{CaptureArgs, Form, Global, ManifestCheckArgs, Output};
use crate::exit::{Ending, FAILED, INTERRUPTED, REFUSED, explained};
use crate::open::{Access, open};
use crate::outputs::Outputs;
use crate::progress::{Goal, Tally, watch};
use crate::{out, units};

/// Name and version of the form of the result of a check.
const CHECK_SCHEMA: &str = "warpbell.files-check/1";

/// Runs `files capture`.
pub fn capture(args: &CaptureArgs, global: &Global, stop: &AtomicBool) -> Result<(), Ending> {
    if global.form == Form::Normal {
        return Err(Ending::usage(
            "no place for the manifest: name a file, as -o m.json, or -o json for standard output",
        ));
    }
    args.paths.iter().try_for_each(|path| refuse_device(path))?;
    let options = CaptureOptions::new(args.checksum).skip_refused(args.skip_refused);
    let tally = Tally::new("capture");
    let found = capture_files(&args.paths, &options, &mut |progress| {
        tally.show(progress.files, progress.bytes);
        !stop.load(Ordering::Relaxed)
    });
    drop(tally);
    let manifest = found.map_err(|error| match stop.load(Ordering::Relaxed) {
        true => Ending::new(INTERRUPTED, "interrupted: no manifest was written"),
        false => ending(&error),
    })?;
    for refused in &manifest.refused {
        eprintln!("left out: {}: {}", refused.path, refused.reason);
    }
    let text = manifest.to_json().map_err(|error| ending(&error))?;
    match &global.form {
        Form::File(path) => {
            captured(&args.paths, &manifest)?.claim("--output", path)?;
            refuse_others(path)?;
            save(path, &text).map_err(|error| Ending::file(path.display(), &error))?;
            out::text(&summary(path, &manifest))
        }
        _ => out::text(&text),
    }
}

/// Refuses what the manifest would take the place of, and is no file: a device, or a link and not what it leads to.
fn refuse_others(path: &Path) -> Result<(), Ending> {
    match path.symlink_metadata() {
        Ok(there) if !there.is_file() => Err(Ending::usage(format!(
            "--output {}: this is no regular file, and is not replaced",
            path.display()
        ))),
        _ => Ok(()),
    }
}

/// Refuses a device, as the other commands of `files` take one.
fn refuse_device(path: &Path) -> Result<(), Ending> {
    let named = path.to_str().is_some_and(|text| text.starts_with("soft:") || text.starts_with("vfio-user:"));
    if path.exists() || !named {
        return Ok(());
    }
    let shown = path.display();
    Err(Ending::usage(format!(
        "{shown}: capture takes files and folders that this kernel has mounted, no device"
    )))
}

/// The files that were captured: the manifest replaces none of them.
fn captured(paths: &[PathBuf], manifest: &Manifest) -> Result<Outputs, Ending> {
    let mut outputs = Outputs::new();
    // All are of one file system.
    let system = paths.first().map(|first| first.metadata().map(|found| found.dev())).transpose();
    let system = system.map_err(|error| Ending::file("the captured files", &error))?.unwrap_or_default();
    manifest.files.iter().for_each(|file| outputs.keep_numbered("a captured file", (system, file.inode)));
    Ok(outputs)
}

/// Writes all of it or nothing: a manifest of before is kept until then.
fn save(path: &Path, text: &str) -> std::io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut file = tempfile::Builder::new().prefix(".warpbell-manifest").tempfile_in(folder)?;
    file.write_all(text.as_bytes())?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

fn summary(path: &Path, manifest: &Manifest) -> String {
    let bytes: u64 = manifest.files.iter().map(|file| file.size).sum();
    let extents: usize = manifest.files.iter().map(|file| file.extents.len()).sum();
    let (id, device) = (&manifest.file_system, &manifest.device);
    let part = manifest.partition.map_or(String::new(), |part| format!(", partition {}", part.number));
    let serial = device.serial.as_ref().map_or(String::new(), |serial| format!(", serial number {serial}"));
    format!(
        "{}: {} files, {} in {extents} extents, of {} {} on {}{part}{serial}; {} left out\n\
         The manifest holds until the file system is written again: unmount it, then hand the SSD to warpbell bind.\n",
        path.display(),
        manifest.files.len(),
        units::bytes(bytes),
        id.kind,
        id.uuid,
        device.name,
        manifest.refused.len(),
    )
}

/// Runs `files check`.
pub fn check(args: &ManifestCheckArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    args.device.refuse_kernels("files check")?;
    let manifest = load(&args.manifest)?;
    let ssd = open(&args.device, Access::Read)?;
    let nsid = nsid(&manifest, args.nsid);
    let source = SsdSource::new(&ssd, Some(nsid))?;
    let changes = manifest.changes(&source, Some(&identity(&ssd, nsid))).map_err(|error| ending(&error))?;
    let damaged = match changes.is_empty() {
        true => damaged(&manifest, &source, &stop)?,
        false => Vec::new(),
    };
    let good = changes.is_empty() && damaged.is_empty();
    let changes: Vec<String> = changes.iter().map(ToString::to_string).collect();
    match global.output() {
        Output::Normal => out::text(&text(&manifest, &changes, &damaged))?,
        Output::Json => out::json(&json!({
            "schema": CHECK_SCHEMA,
            "warpbell": env!("CARGO_PKG_VERSION"),
            "device": ssd.name().to_string(),
            "manifest": args.manifest,
            "files": manifest.files.len(),
            "checksum": manifest.checksum,
            "changes": changes,
            "damaged": damaged,
            "good": good,
        }))?,
    }
    if good { Ok(()) } else { Err(Ending::silent(FAILED)) }
}

/// What is wrong with files whose checksums the manifest has.
fn damaged(manifest: &Manifest, source: &dyn Source, stop: &AtomicBool) -> Result<Vec<String>, Ending> {
    if manifest.checksum == Checksum::None {
        return Ok(Vec::new());
    }
    let done = AtomicU64::new(0);
    let total: u64 = manifest.files.iter().map(|file| file.size).sum();
    let work = || {
        let mut damaged = Vec::new();
        for file in &manifest.files {
            let stopped = || stop.load(Ordering::Relaxed);
            let mut count = |bytes| {
                done.fetch_add(bytes, Ordering::Relaxed);
                !stopped()
            };
            let sum = manifest.sum(source, file, &mut count);
            if stopped() {
                return Err(Ending::new(INTERRUPTED, "interrupted before all files were read"));
            }
            let sum = sum.map_err(|error| ending(&error))?;
            let (was, is) = (file.checksum.as_deref().unwrap_or("none"), sum.as_deref().unwrap_or("none"));
            if was != is {
                damaged.push(format!("{}: checksum {was} → {is}", file.path));
            }
        }
        Ok(damaged)
    };
    // The source is one thread's own: this one's. The line on the terminal is another's.
    watch("check", Goal::Bytes(total), &|| (0, done.load(Ordering::Relaxed)), work)
}

fn text(manifest: &Manifest, changes: &[String], damaged: &[String]) -> String {
    let mut text: String = changes.iter().map(|change| format!("changed: {change}\n")).collect();
    text.extend(damaged.iter().map(|file| format!("damaged: {file}\n")));
    let files = manifest.files.len();
    text += &match (changes.is_empty(), damaged.len(), manifest.checksum) {
        (false, ..) => format!("stale: {} differences; capture the files anew\n", changes.len()),
        (_, 0, Checksum::None) => {
            format!("good: {files} files are where the manifest says; it has no checksums\n")
        }
        (_, 0, _) => format!("good: {files} files are where the manifest says, and equal their checksums\n"),
        (_, bad, _) => format!("damaged: {bad} of {files} files\n"),
    };
    text
}

/// A manifest that the command line names.
pub fn load(path: &Path) -> Result<Manifest, Ending> {
    Manifest::load(path).map_err(|error| match error {
        Error::File { source, .. } => Ending::file(path.display(), &source),
        error => Ending::usage(explained(&error)),
    })
}

/// The namespace that is meant: the one that was captured, unless another is asked for.
pub fn nsid(manifest: &Manifest, asked: Option<Nsid>) -> Nsid {
    asked.unwrap_or(Nsid(manifest.device.nsid.unwrap_or(1)))
}

/// What a manifest is compared with.
pub fn identity(ssd: &Ssd, nsid: Nsid) -> Identity {
    Identity { serial: ssd.identify().serial().trim().to_owned(), nsid: nsid.0 }
}

fn ending(error: &Error) -> Ending {
    let code = if matches!(error, Error::Refused { .. }) { REFUSED } else { FAILED };
    Ending::new(code, explained(error))
}
