//! `read` and `write`: blocks to standard output, standard input to blocks.

use std::io::{Read, Seek, Write};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use serde_json::json;
use warpbell_workload::{
    Control, Extent, JobError, Limits, NamedFile, RunError, read_blocks, read_pieces, write_blocks,
    write_pieces,
};

use crate::args::{Global, Output, ReadArgs, WriteArgs};
use crate::exit::Ending;
use crate::open::{Access, because, open, open_file, open_named};
use crate::out;
use crate::part::{self, named_file, writable_file};
use crate::progress::{Goal, watch};
use warpbell::Named;
use warpbell_hw::Lba;

/// Runs `read`.
pub fn read(args: &ReadArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    if global.output() == Output::Json {
        return Err(Ending::usage("--output json: read puts the blocks themselves on standard output"));
    }
    args.device.refuse_kernels("read")?;
    let named = args.device.named()?;
    refuse_unlike(args, named)?;
    out::refuse_terminal("the bytes")?;
    let ssd = open_named(&args.device, &named.device, Access::Read)?;
    let control = Control::with_stop(stop);
    let mut stdout = std::io::stdout().lock();
    let copied = match named_file(&ssd, named, (args.nsid, &args.part))? {
        None => {
            let limits = Limits::of(&ssd, args.nsid)?;
            let (lba, count) = (args.lba.unwrap_or_default(), args.count.unwrap_or(1));
            let extent = Extent { nsid: args.nsid, lba: Lba(lba), count };
            let goal = Goal::Bytes(count.saturating_mul(limits.block_size.into()));
            watch("read", goal, &|| control.done(), || read_blocks(&ssd, extent, &mut stdout, &control))
        }
        Some(NamedFile { map, .. }) => {
            let offset = args.offset.map_or(0, |offset| offset.0);
            let bytes = args.bytes.map_or(map.size().saturating_sub(offset), |bytes| bytes.0);
            let read = || read_pieces(&ssd, args.nsid, (&map, offset, bytes), &mut stdout, &control);
            watch("read", Goal::Bytes(bytes), &|| control.done(), read)
        }
    };
    copied.map_err(|error| because(&ssd, error.into()))?;
    Ok(std::io::Write::flush(&mut stdout)?)
}

/// A namespace is read by blocks, a file and a partition by bytes.
fn refuse_unlike(args: &ReadArgs, named: &Named) -> Result<(), Ending> {
    let refuse = |flag: &str, why: &str| Err(Ending::usage(format!("{flag}: {named} {why}")));
    if named.path.is_some() || args.part.partition.is_some() {
        let why = "is read by bytes; use --offset and --bytes";
        return match (args.lba, args.count) {
            (Some(_), _) => refuse("--lba", why),
            (_, Some(_)) => refuse("--count", why),
            (None, None) => Ok(()),
        };
    }
    let hint = if named.to_string().contains('#') { ": its path begins with /" } else { "" };
    let why = &format!("is read by blocks; use --lba and --count, or name a file, as DEVICE#/path{hint}");
    match (args.offset, args.bytes, args.lba) {
        (Some(_), ..) => refuse("--offset", why),
        (_, Some(_), _) => refuse("--bytes", why),
        (.., None) => refuse("--lba is missing", why),
        _ => Ok(()),
    }
}

/// Runs `write`.
pub fn write(args: &WriteArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    args.device.refuse_kernels("write")?;
    if args.device.has_path() || args.part.is_given() {
        return write_file(args, global, stop);
    }
    let Some(lba) = args.lba.filter(|_| args.offset.is_none()) else {
        let why = "a namespace is written by blocks; use --lba, or name a file, as DEVICE#/path";
        return Err(Ending::usage(why));
    };
    let ssd = open(&args.device, Access::Write { nsid: args.nsid })?;
    let limits = Limits::of(&ssd, args.nsid)?;
    // The extent is checked before a byte is read: nothing is written if any of it is wrong.
    Extent { nsid: args.nsid, lba: Lba(lba), count: args.count.unwrap_or(1) }
        .check(&limits)
        .map_err(RunError::from)?;
    let room = (limits.blocks - lba) * u64::from(limits.block_size);
    let mut data = input(args.count, u64::from(limits.block_size), room)?;
    let count = data.len / u64::from(limits.block_size);
    let extent = Extent { nsid: args.nsid, lba: Lba(lba), count };
    let control = Control::with_stop(stop);
    let goal = Goal::Bytes(data.len);
    let written =
        watch("write", goal, &|| control.done(), || write_blocks(&ssd, extent, &mut data.spool, &control));
    let bytes = written.map_err(|error| because(&ssd, error.into()))?;
    match global.output() {
        Output::Normal => Ok(()),
        Output::Json => out::json(&json!({
            "schema": "warpbell.write/1",
            "warpbell": env!("CARGO_PKG_VERSION"),
            "device": ssd.name().to_string(),
            "nsid": args.nsid.get(),
            "lba": lba,
            "blocks": count,
            "bytes": bytes,
            "crc32c": format!("{:08x}", data.crc32c),
        })),
    }
}

/// Overwrites blocks of a file that it has written before.
fn write_file(args: &WriteArgs, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    let named = args.device.named()?;
    for (flag, given) in [("--lba", args.lba), ("--count", args.count)] {
        if given.is_some() {
            return Err(Ending::usage(format!("{flag}: {named} is written by bytes; use --offset")));
        }
    }
    let ssd = open_file(&args.device, named, Access::Write { nsid: args.nsid })?;
    let file = writable_file(&ssd, named, (args.nsid, &args.part))?;
    let (nsid, offset) = (args.nsid, args.offset.map_or(0, |offset| offset.0));
    let block = u64::from(Limits::of(&ssd, nsid)?.block_size);
    // A block more than there is room for: what is too long is told as such.
    let room = file.map().size().saturating_sub(offset);
    let limit = room.next_multiple_of(block).saturating_add(block);
    let mut data =
        Input::take(limit).map_err(|source| RunError::Stream { side: "standard input", source })?;
    if data.len == 0 {
        let reason = format!("0 bytes, not whole blocks of {block} bytes");
        return Err(RunError::Input { reason }.into());
    }
    // Nothing is written if any of it is wrong.
    let pieces = file.pieces(offset, data.len, block).map_err(|error| part::of(&ssd, error))?;
    let control = Control::with_stop(stop);
    let goal = Goal::Bytes(data.len);
    let written = watch("write", goal, &|| control.done(), || {
        write_pieces(&ssd, nsid, (&file, &pieces), &mut data.spool, &control)
    });
    let bytes = written.map_err(|error| because(&ssd, error.into()))?;
    match global.output() {
        Output::Normal => Ok(()),
        Output::Json => out::json(&json!({
            "schema": "warpbell.write/1",
            "warpbell": env!("CARGO_PKG_VERSION"),
            "device": ssd.name().to_string(),
            "nsid": args.nsid.get(),
            "file": named.path,
            "offset": offset,
            "bytes": bytes,
            "crc32c": format!("{:08x}", data.crc32c),
        })),
    }
}

/// Bytes of standard input that are kept in memory; what is longer goes through a temporary file.
const IN_MEMORY: usize = 64 << 20;
/// Bytes copied at a time.
const CHUNK: usize = 1 << 20;

/// All of standard input: nothing is written before it is known to be good.
struct Input {
    spool: tempfile::SpooledTempFile,
    len: u64,
    crc32c: u32,
}

impl Input {
    fn take(limit: u64) -> std::io::Result<Input> {
        let mut input = Input { spool: tempfile::spooled_tempfile(IN_MEMORY), len: 0, crc32c: 0 };
        let mut stdin = std::io::stdin().lock().take(limit);
        let mut piece = vec![0; CHUNK];
        loop {
            let len = stdin.read(&mut piece)?;
            if len == 0 {
                break;
            }
            input.spool.write_all(&piece[..len])?;
            input.crc32c = crc32c::crc32c_append(input.crc32c, &piece[..len]);
            input.len += len as u64;
        }
        input.spool.rewind()?;
        Ok(input)
    }
}

/// Standard input: whole blocks, as many as were announced, and no more than there is room for.
fn input(count: Option<u64>, block: u64, room: u64) -> Result<Input, Ending> {
    let wanted = count.map(|count| count * block);
    let limit = wanted.unwrap_or(room).saturating_add(1);
    let data = Input::take(limit).map_err(|source| RunError::Stream { side: "standard input", source })?;
    let len = data.len;
    let refuse = |reason: String| Err(RunError::Input { reason }.into());
    match wanted {
        Some(wanted) if len > wanted => {
            refuse(format!("more than {wanted} bytes, --count {} blocks", wanted / block))
        }
        Some(wanted) if len < wanted => {
            refuse(format!("{len} bytes, but --count {} blocks are {wanted} bytes", wanted / block))
        }
        None if len > room => refuse(format!("more than {room} bytes, what there is from --lba to the end")),
        None if len == 0 || !len.is_multiple_of(block) => {
            refuse(format!("{len} bytes, not whole blocks of {block} bytes"))
        }
        _ => Ok(data),
    }
}

impl From<JobError> for Ending {
    fn from(error: JobError) -> Ending {
        Ending::usage(error)
    }
}
