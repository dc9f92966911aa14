//! `digest`: the CRC-32C of a namespace's contents, read by a kernel.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use warpbell_workload::{Control, Digest, DigestOptions, Limits, NamedFile, digest, progress};

use crate::args::{DigestArgs, Global, Output};
use crate::exit::Ending;
use crate::open::{Access, open_named};
use crate::part::named_file;
use crate::progress::{Goal, watch};
use crate::{out, render, units};

/// The longest that one read may take.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Runs the command.
pub fn run(args: &DigestArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    // What is missing is said before a device is touched.
    let _target = args.device.target.open()?;
    let named = args.device.named()?;
    let ssd = open_named(&args.device, &named.device, Access::Read)?;
    let file = named_file(&ssd, named, (args.nsid, &args.part))?;
    let limits = Limits::of(&ssd, args.nsid)?;
    // One processor polls for the controller.
    let processors = std::thread::available_parallelism().map_or(1, |all| (all.get() - 1).max(1));
    let warps = u16::try_from(processors).unwrap_or(u16::MAX);
    let held = |file: &NamedFile| file.map.extents().iter().map(|extent| extent.bytes).sum();
    let whole = limits.blocks.saturating_mul(limits.block_size.into());
    let goal = Goal::Bytes(file.as_ref().map_or(whole, held));
    let options = DigestOptions { nsid: args.nsid, bs: args.bs, warps, timeout: TIMEOUT, file };
    let control = Control::with_stop(stop);
    let done = || progress([&ssd], &control);
    let result = watch("digest", goal, &done, || digest(&ssd, args.device.target, &options, &control))?;
    match global.output() {
        Output::Normal => out::text(&text(&result)),
        Output::Json => out::json(&result),
    }
}

fn text(digest: &Digest) -> String {
    let Digest { device, crc32c, bytes, blocks, runtime_ns, bytes_per_s, .. } = digest;
    let (time, rate) = (units::seconds(*runtime_ns), units::bandwidth(*bytes_per_s));
    let banner = render::banner(&digest.target, &digest.device_kind, false);
    let path = render::path(&digest.data_path);
    let name = digest.file.as_ref().map_or(String::new(), |file| format!(", {}", file.name));
    format!(
        "{banner}\n{path}{device}{name}: crc32c {crc32c}, {bytes} bytes ({blocks} blocks) in {time}, {rate}\n"
    )
}
