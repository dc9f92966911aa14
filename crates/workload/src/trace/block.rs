//! Block traces of others as workloads: fio's I/O logs, and the CSV of MSR Cambridge. They say offsets and lengths in
//! bytes; which blocks these are is known once the SSD is.

use warpbell_hw::Lba;
use warpbell_nvme::NvmOpcode;

use super::error::{LineError, Reason, ReplayError, Wrong};
use super::read::ReplayOptions;
use super::replay::{ReplayCommand, SsdReplay};
use crate::job::{JobError, Limits};
use crate::options::{ReplayFormat, Sharing};

/// One request of a block trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockRequest {
    /// Its line in the file, from 1 on.
    pub line: u64,
    /// When it was made, from the beginning of the trace.
    pub at_ns: u64,
    /// Flush, write, read, or Dataset Management of a trim.
    pub opcode: u8,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 of a flush.
    pub bytes: u64,
}

impl BlockRequest {
    /// Whether it deallocates, and moves no data.
    fn is_trim(&self) -> bool {
        self.opcode == NvmOpcode::DATASET_MANAGEMENT.0
    }
}

/// Commands at most: they are held in memory, and one line may ask for a whole SSD.
pub(crate) const COMMANDS_MAX: u64 = 1 << 26;

/// How a file begins that fio has written.
pub(super) const FIO: [&str; 2] = ["fio version 2 iolog", "fio version 3 iolog"];
/// An I/O log of fio's has microseconds: those since its begin in version 3, those of `wait` in version 2.
const FIO_TICK_NS: u64 = 1000;
/// The time of MSR Cambridge is Windows' file time.
const MSR_TICK_NS: u64 = 100;

/// The form of the text, where nobody says which it is.
pub(super) fn recognized(text: &str) -> ReplayFormat {
    let first = text.trim_start();
    if first.starts_with('{') {
        ReplayFormat::Warpbell
    } else if first.starts_with("fio version") {
        ReplayFormat::Fio
    } else if first.lines().next().is_some_and(|line| line.contains(',')) {
        ReplayFormat::Msr
    } else {
        ReplayFormat::Warpbell // whose reader says that it is no trace
    }
}

/// What to submit by the text of a block trace.
pub(super) fn parse(
    file: &str,
    text: &str,
    format: ReplayFormat,
    options: &ReplayOptions,
) -> Result<SsdReplay, ReplayError> {
    let mut reader = Reader { only: options.only.as_deref(), ..Reader::default() };
    let read = match format {
        ReplayFormat::Fio => fio(text, &mut reader),
        _ => msr(text, &mut reader),
    };
    read.map_err(|error| ReplayError::new(file, error))?;
    let name = reader.name.take();
    let Some(name) = name.filter(|_| !reader.requests.is_empty()) else {
        return Err(ReplayError::new(file, Reason::NoIo { only: options.only.clone() }));
    };
    let moving = || reader.requests.iter().filter(|request| !request.is_trim());
    Ok(SsdReplay {
        file: file.to_owned(),
        timing: options.timing,
        recorded_on: name,
        commands: reader.requests.len() as u64,
        bytes: moving().map(|request| request.bytes).fold(0, u64::saturating_add),
        missing_events: 0,
        block_size_bytes: 0,
        queues: options.warps,
        sharing: Sharing::Exclusive,
        iodepth: options.depth,
        warps: Vec::new(),
        requests: reader.requests,
    })
}

/// Requests of the one file or disk that is replayed.
#[derive(Default)]
struct Reader<'a> {
    only: Option<&'a str>,
    name: Option<String>,
    requests: Vec<BlockRequest>,
    latest_ns: u64,
}

impl Reader<'_> {
    /// Times follow the order of lines, so that no request waits for one behind it.
    fn take(&mut self, name: &str, request: BlockRequest) -> Result<(), LineError> {
        if self.only.is_some_and(|only| only != name) {
            return Ok(());
        }
        let known = self.name.get_or_insert_with(|| name.to_owned());
        if known != name {
            let wrong = Wrong::OtherFile { name: name.to_owned(), known: known.clone() };
            return Err(wrong.at(request.line));
        }
        self.latest_ns = self.latest_ns.max(request.at_ns);
        self.requests.push(BlockRequest { at_ns: self.latest_ns, ..request });
        Ok(())
    }
}

fn number(line: u64, what: &'static str, text: &str) -> Result<u64, LineError> {
    text.parse().map_err(|_| Wrong::Number { what, text: text.to_owned() }.at(line))
}

/// Lines with their numbers, empty ones left out.
fn lines(text: &str) -> impl Iterator<Item = (u64, &str)> {
    (1..).zip(text.lines().map(str::trim)).filter(|(_, line)| !line.is_empty())
}

/// An I/O log of fio's, version 2 or 3.
fn fio(text: &str, reader: &mut Reader<'_>) -> Result<(), LineError> {
    let mut lines = lines(text);
    let first = lines.next().map_or("", |(_, first)| first);
    let timed = match FIO.iter().position(|known| *known == first) {
        Some(version) => version == 1,
        None => return Err(Wrong::Version { first: first.to_owned() }.at(1)),
    };
    let mut waited_ns = 0u64;
    for (line, words) in lines {
        let mut words = words.split_whitespace();
        let mut next = || words.next().unwrap_or_default();
        let ticks_ns = |ticks: u64| ticks.saturating_mul(FIO_TICK_NS);
        let at_ns = if timed { ticks_ns(number(line, "time", next())?) } else { waited_ns };
        let (name, action) = (next(), next());
        if action == "wait" && !timed {
            waited_ns = waited_ns.saturating_add(ticks_ns(number(line, "wait", next())?));
            continue;
        }
        let Some(opcode) = fio_opcode(line, action)? else { continue };
        let mut request = BlockRequest { line, at_ns, opcode, offset: 0, bytes: 0 };
        if opcode != NvmOpcode::FLUSH.0 {
            request.offset = number(line, "offset", next())?;
            request.bytes = number(line, "length", next())?;
        }
        reader.take(name, request)?;
    }
    Ok(())
}

/// What an action of fio's is to the SSD; `None`: nothing.
fn fio_opcode(line: u64, action: &str) -> Result<Option<u8>, LineError> {
    match action {
        "add" | "open" | "close" => Ok(None),
        "read" => Ok(Some(NvmOpcode::READ.0)),
        "write" => Ok(Some(NvmOpcode::WRITE.0)),
        "sync" | "datasync" => Ok(Some(NvmOpcode::FLUSH.0)),
        "trim" => Ok(Some(NvmOpcode::DATASET_MANAGEMENT.0)),
        other => Err(Wrong::Action { action: other.to_owned() }.at(line)),
    }
}

/// Timestamp, host, disk, type, offset, size and response time.
fn msr(text: &str, reader: &mut Reader<'_>) -> Result<(), LineError> {
    let mut began = None;
    for (line, words) in lines(text) {
        let fields: Vec<&str> = words.split(',').map(str::trim).collect();
        let [time, host, disk, kind, offset, size, _took] = fields[..] else {
            return Err(Wrong::Fields { fields: fields.len() }.at(line));
        };
        let opcode = match kind {
            "Read" | "read" => NvmOpcode::READ.0,
            "Write" | "write" => NvmOpcode::WRITE.0,
            other => return Err(Wrong::Type { kind: other.to_owned() }.at(line)),
        };
        let time = number(line, "time", time)?;
        let at_ns = time.saturating_sub(*began.get_or_insert(time)).saturating_mul(MSR_TICK_NS);
        let (offset, bytes) = (number(line, "offset", offset)?, number(line, "size", size)?);
        reader.take(&format!("{host}.{disk}"), BlockRequest { line, at_ns, opcode, offset, bytes })?;
    }
    Ok(())
}

impl SsdReplay {
    /// A block trace as commands for this namespace: warps take requests in turn.
    pub(super) fn for_blocks(&self, limits: &Limits, most_blocks: u32) -> Result<SsdReplay, JobError> {
        let mut warps = vec![Vec::new(); self.queues as usize];
        let (mut commands, mut blocks) = (0, 0);
        for (warp, request) in (0..self.queues as usize).cycle().zip(&self.requests) {
            let before = warps[warp].len();
            let (first, end) = self.blocks_of(request, limits)?;
            let most = if request.is_trim() { self.most_trimmed(request, limits)? } else { most_blocks };
            let with_it = commands + (end - first).div_ceil(most.into());
            if with_it > COMMANDS_MAX {
                let line = request.line;
                return Err(self.refused(format!(
                    "line {line}: with it there are {with_it} commands of up to {most} blocks: there can be at most \
                     {COMMANDS_MAX}"
                )));
            }
            push(&mut warps[warp], request, (first, end), most.into());
            commands += (warps[warp].len() - before) as u64;
            blocks += if request.is_trim() { 0 } else { end - first };
        }
        // A warp without commands would be a queue without I/O.
        warps.retain(|warp| !warp.is_empty());
        let bytes = blocks * u64::from(limits.block_size);
        let queues = warps.len() as u32;
        let block_size_bytes = limits.block_size;
        let (file, recorded_on) = (self.file.clone(), self.recorded_on.clone());
        let (timing, sharing, iodepth, missing_events) =
            (self.timing, self.sharing, self.iodepth, self.missing_events);
        let requests = Vec::new();
        Ok(SsdReplay {
            file,
            timing,
            recorded_on,
            commands,
            bytes,
            missing_events,
            block_size_bytes,
            queues,
            sharing,
            iodepth,
            warps,
            requests,
        })
    }

    /// The blocks of one command that deallocates, at most.
    fn most_trimmed(&self, request: &BlockRequest, limits: &Limits) -> Result<u32, JobError> {
        limits.trim_blocks.ok_or_else(|| {
            let (line, nsid) = (request.line, limits.nsid);
            self.refused(format!(
                "line {line}: a trim, and the controller of {nsid} has no Dataset Management"
            ))
        })
    }

    /// The first block, and the one behind the last. Reads are widened to whole blocks.
    fn blocks_of(&self, request: &BlockRequest, limits: &Limits) -> Result<(u64, u64), JobError> {
        let BlockRequest { line, opcode, offset, bytes, .. } = *request;
        if opcode == NvmOpcode::FLUSH.0 {
            return Ok((0, 0));
        }
        let (block, all) = (u64::from(limits.block_size), limits.blocks);
        let (verb, whole) = match NvmOpcode(opcode) {
            NvmOpcode::WRITE => ("write", true),
            NvmOpcode::DATASET_MANAGEMENT => ("trim", true),
            _ => ("read", false),
        };
        let refused =
            |why: String| self.refused(format!("line {line}: a {verb} of {bytes} bytes at {offset}: {why}"));
        let end = offset.checked_add(bytes).filter(|end| end.div_ceil(block) <= all);
        let Some(end) = end else {
            let nsid = limits.nsid;
            return Err(refused(format!(
                "leaves {nsid} of {} bytes; replay it on a larger SSD",
                all.saturating_mul(block)
            )));
        };
        if bytes == 0 {
            return Err(refused("must be of a byte or more".to_owned()));
        }
        if whole && !(offset.is_multiple_of(block) && bytes.is_multiple_of(block)) {
            return Err(refused(format!("writes and trims are whole blocks of {block} bytes")));
        }
        Ok((offset / block, end.div_ceil(block)))
    }
}

/// One request, in as many commands as MDTS makes of it.
fn push(warp: &mut Vec<ReplayCommand>, request: &BlockRequest, (first, end): (u64, u64), most: u64) {
    let BlockRequest { at_ns, opcode, .. } = *request;
    let command =
        |lba: u64, blocks: u64| ReplayCommand { at_ns, opcode, lba: Lba(lba), blocks: blocks as u32 };
    if first == end {
        warp.push(command(0, 0));
    }
    let mut lba = first;
    while lba < end {
        let blocks = most.min(end - lba);
        warp.push(command(lba, blocks));
        lba += blocks;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::options::ReplayTiming;

    fn parsed(text: &str, only: Option<&str>) -> Result<SsdReplay, String> {
        let options = ReplayOptions { only: only.map(str::to_owned), ..ReplayTiming::Recorded.into() };
        parse("t", text, recognized(text), &options).map_err(|error| error.to_string())
    }

    fn requests(text: &str) -> Vec<(u64, u8, u64, u64)> {
        let found = parsed(text, None).unwrap().requests;
        found.iter().map(|one| (one.at_ns, one.opcode, one.offset, one.bytes)).collect()
    }

    #[test]
    fn logs_of_fio_are_read_in_both_versions() {
        let second = "fio version 2 iolog\n/d add\n/d open\n/d read 4096 512\n/d wait 250 0\n/d write 0 4096\n\
                      /d wait 50 0\n/d sync 0 0\n/d close\n";
        assert_eq!(requests(second), [(0, 2, 4096, 512), (250_000, 1, 0, 4096), (300_000, 0, 0, 0)]);
        let third = "fio version 3 iolog\n2 /d add\n2 /d open\n7 /d read 0 4096\n5 /d datasync 0 0\n\
                     1000 /d write 8192 512\n1001 /d close\n";
        assert_eq!(requests(third), [(7000, 2, 0, 4096), (7000, 0, 0, 0), (1_000_000, 1, 8192, 512)]);
        assert_eq!(requests("fio version 3 iolog\n4 /d trim 512 1048576\n"), [(4000, 9, 512, 1 << 20)]);
    }

    #[test]
    fn the_csv_of_msr_cambridge_counts_in_100_ns() {
        let text = "128166372003061629,hm,1,Read,383496192,32768,413\n\
                    128166372016382155,hm,1,Write,2822144000,4096,1110\n";
        assert_eq!(requests(text), [(0, 2, 383_496_192, 32768), (1_332_052_600, 1, 2_822_144_000, 4096)]);
        assert_eq!(parsed(text, None).unwrap().recorded_on, "hm.1");
        let two = format!("{text}128166372016382156,hm,2,Read,0,512,9\n");
        let said = parsed(&two, None).unwrap_err();
        assert_eq!(said, "--replay t: line 3: 'hm.2': before it is 'hm.1'; choose one by --replay-only");
        assert_eq!(parsed(&two, Some("hm.2")).unwrap().commands, 1);
        assert_eq!(parsed(&two, Some("hm.7")).unwrap_err(), "--replay t: it has no I/O of hm.7");
    }

    #[test]
    fn what_is_wrong_is_named_by_line_and_value() {
        for (text, said) in [
            ("fio version 4 iolog\n", "line 1: 'fio version 4 iolog': expected 'fio version 2 iolog' or"),
            ("fio version 3 iolog\nx /d read 0 1\n", "line 2: time 'x': expected a whole number"),
            ("fio version 3 iolog\n1 /d read -1 1\n", "line 2: offset '-1': expected a whole number"),
            ("fio version 2 iolog\n/d read 0\n", "line 2: length '': expected a whole number"),
            ("fio version 3 iolog\n1 /d wait 5\n", "line 2: action 'wait': expected read, write"),
            ("fio version 2 iolog\n\n/d trim 0\n", "line 3: length '': expected a whole number"),
            ("1,hm,0,Read,0\n", "line 1: 5 fields: expected 7, Timestamp,Hostname"),
            ("1,hm,0,Erase,0,512,1\n", "line 1: type 'Erase': expected Read or Write"),
            ("1,hm,0,Read,0,5x,1\n", "line 1: size '5x': expected a whole number"),
            ("fio version 2 iolog\n/d add\n", "it has no I/O"),
        ] {
            let found = parsed(text, None).unwrap_err();
            assert!(found.starts_with(&format!("--replay t: {said}")), "{text:?}: {found}");
        }
    }

    #[test]
    fn trims_move_nothing_and_are_bounded_by_no_transfer() {
        let text = "fio version 2 iolog\n/d trim 0 32768\n/d write 0 512\n";
        let replay = parsed(text, None).unwrap();
        assert!(replay.writes() && replay.bytes == 512, "{replay:?}");
        let limits = Limits { trim_blocks: Some(40), ..Limits::of_blocks(64) };
        let cut = replay.for_blocks(&limits, 4).unwrap();
        let of: Vec<_> = cut.warps[0].iter().map(|one| (one.opcode, one.lba.get(), one.blocks)).collect();
        assert_eq!(of, [(9, 0, 40), (9, 40, 24), (1, 0, 1)]);
        assert_eq!((cut.commands, cut.bytes, cut.largest()), (3, 512, 1), "a trim has no data");
        let said = |text: &str, limits: &Limits| {
            parsed(text, None).unwrap().for_blocks(limits, 4).unwrap_err().to_string()
        };
        let none = said(text, &Limits { trim_blocks: None, ..limits.clone() });
        assert!(
            none.ends_with("line 2: a trim, and the controller of namespace 1 has no Dataset Management"),
            "{none}"
        );
        let part = said("fio version 2 iolog\n/d trim 0 100\n", &limits);
        assert!(
            part.ends_with("a trim of 100 bytes at 0: writes and trims are whole blocks of 512 bytes"),
            "{part}"
        );
    }

    #[test]
    fn requests_become_commands_of_the_namespace() {
        let text = "fio version 2 iolog\n/d read 100 1000\n/d write 4096 4096\n/d sync 0 0\n";
        let replay = SsdReplay { queues: 2, ..parsed(text, None).unwrap() };
        let cut = replay.for_blocks(&Limits::of_blocks(64), 4).unwrap();
        let of = |warp: usize| -> Vec<(u8, u64, u32)> {
            cut.warps[warp].iter().map(|one| (one.opcode, one.lba.get(), one.blocks)).collect()
        };
        assert_eq!(of(0), [(2, 0, 3), (0, 0, 0)], "a read of parts of three blocks, then the flush");
        assert_eq!(of(1), [(1, 8, 4), (1, 12, 4)], "MDTS of four blocks");
        assert_eq!((cut.commands, cut.bytes, cut.queues), (4, 11 * 512, 2));
        let said = |text: &str| {
            parsed(text, None).unwrap().for_blocks(&Limits::of_blocks(64), 4).unwrap_err().to_string()
        };
        let far = said("fio version 2 iolog\n/d read 32768 1\n");
        assert!(far.starts_with("--replay t: line 2: a read of 1 bytes at 32768: leaves "), "{far}");
        let part = said("fio version 2 iolog\n/d write 512 100\n");
        assert!(part.ends_with("writes and trims are whole blocks of 512 bytes"), "{part}");
        assert!(said("fio version 2 iolog\n/d read 0 0\n").ends_with("must be of a byte or more"));
        // Lines with 2^40 blocks, a block at a time.
        let large = parsed("fio version 2 iolog\n/d read 0 512\n/d read 0 562949953421312\n", None).unwrap();
        let said = large.for_blocks(&Limits::of_blocks(1 << 40), 1).unwrap_err().to_string();
        assert!(
            said.ends_with(
                "line 3: with it there are 1099511627777 commands of up to 1 blocks: there can be at most 67108864"
            ),
            "{said}"
        );
    }
}
