//! Partitions: GPT and MBR. Read by own code: the packages for it want a disk that they can also write, with a position.

use std::fmt;

use crate::bytes::{halves, le16, le32, le64};
use crate::{Error, NamespaceId, Source};

/// Bytes of the entries of a GPT at most: thirty-two times as many as there are by default.
const ENTRIES_MAX: u64 = 1 << 19;
/// Logical partitions of an MBR at most.
const LOGICAL_MAX: usize = 128;
/// Types of extended partitions, which hold logical ones, and the type that says that there is a GPT.
const EXTENDED: [u8; 3] = [0x05, 0x0f, 0x85];
const PROTECTIVE: u8 = 0xee;

/// A partition that a table has.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number, as Linux counts.
    pub number: u32,
    /// Its PARTUUID.
    pub uuid: String,
    /// Its label: of GPT alone.
    pub label: Option<String>,
    /// Where it begins, in bytes.
    pub start: u64,
    /// Its length.
    pub bytes: u64,
}

impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { number, uuid, label, bytes, .. } = self;
        write!(f, "{number}: {bytes} bytes, PARTUUID {uuid}")?;
        label.as_ref().map_or(Ok(()), |label| write!(f, ", label {label:?}"))
    }
}

/// The partitions of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// By number.
    pub entries: Vec<Entry>,
    /// What is wrong with it: of a damaged GPT the backup is read.
    pub warning: Option<String>,
}

/// The partition of that name, and what whoever reads it should know.
///
/// # Errors
/// Names that no partition has, sources without a partition table, and as for [`table`].
pub fn chosen(source: &dyn Source, name: &str) -> Result<(Entry, Vec<String>), Error> {
    let none = || Error::absent(format!("partition {name}"), "there is no partition table");
    let table = table(source)?.ok_or_else(none)?;
    let entry = table.find(name)?.clone();
    let why = "if the partition table is the array's, a member has parts of files only";
    let member = crate::member_of_array(source)?.map(|member| format!("{member} at the end: {why}"));
    Ok((entry, table.warning.into_iter().chain(member).collect()))
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.entries.iter().map(ToString::to_string).collect();
        f.write_str(if names.is_empty() { "none" } else { "" })?;
        f.write_str(&names.join("; "))
    }
}

impl Table {
    /// A partition by its number, PARTUUID or label; `PARTUUID=` and `PARTLABEL=` may stand before the latter.
    ///
    /// # Errors
    /// None has it, or several have the label.
    pub fn find(&self, name: &str) -> Result<&Entry, Error> {
        let (uuid, label) = (name.strip_prefix("PARTUUID="), name.strip_prefix("PARTLABEL="));
        let matches = |entry: &&Entry| match (uuid, label) {
            (Some(uuid), _) => entry.uuid.eq_ignore_ascii_case(uuid),
            (_, Some(label)) => entry.label.as_deref() == Some(label),
            _ if name.bytes().all(|byte| byte.is_ascii_digit()) => name.parse() == Ok(entry.number),
            _ => entry.uuid.eq_ignore_ascii_case(name) || entry.label.as_deref() == Some(name),
        };
        let found: Vec<&Entry> = self.entries.iter().filter(matches).collect();
        let reason = match found[..] {
            [entry] => return Ok(entry),
            [] => format!("there is no such partition; there are: {self}"),
            _ => format!("{} partitions have this name; choose by number: {self}", found.len()),
        };
        Err(Error::absent(format!("partition {name}"), reason))
    }
}

/// The partition table of a source, if it has one.
///
/// # Errors
/// A table that contradicts its checksums or the size of the source.
pub fn table(source: &dyn Source) -> Result<Option<Table>, Error> {
    if source.bytes() < 1024 {
        return Ok(None);
    }
    let mut record = [0; 512];
    source.read_at(0, &mut record)?;
    let Some(slots) = slots(&record) else { return Ok(None) };
    if slots.iter().any(|slot| slot.kind == PROTECTIVE) {
        return gpt(source).map(Some);
    }
    let entries = mbr(source, &record, &slots)?;
    Ok((!entries.is_empty()).then_some(Table { entries, warning: None }))
}

/// One of the four slots of a boot record.
#[derive(Clone, Copy)]
struct Slot {
    kind: u8,
    first: u64,
    blocks: u64,
}

/// The slots, if this is a boot record with partitions.
fn slots(record: &[u8; 512]) -> Option<[Slot; 4]> {
    let all = [446, 462, 478, 494].map(|at| (at, record[at]));
    if le16(record, 510) != 0xaa55 || all.iter().any(|(_, status)| status & 0x7f != 0) {
        return None;
    }
    Some(all.map(|(at, _)| Slot {
        kind: record[at + 4],
        first: le32(record, at + 8).into(),
        blocks: le32(record, at + 12).into(),
    }))
}

fn mbr(source: &dyn Source, record: &[u8; 512], slots: &[Slot; 4]) -> Result<Vec<Entry>, Error> {
    let disk = le32(record, 440);
    let mut entries = Vec::new();
    let mut push = |number: u32, slot: &Slot, base: u64| -> Result<(), Error> {
        if slot.blocks == 0 {
            return Err(Error::damaged(format!("partition {number}"), "it has no blocks"));
        }
        let (first, last) = (base + slot.first, base + slot.first + slot.blocks - 1);
        let uuid = format!("{disk:08x}-{number:02x}");
        let (start, bytes) = range(source, number, source.block_size(), (first, last))?;
        entries.push(Entry { number, uuid, label: None, start, bytes });
        Ok(())
    };
    for (slot, number) in slots.iter().zip(1..) {
        if slot.kind != 0 && !EXTENDED.contains(&slot.kind) {
            push(number, slot, 0)?;
        }
    }
    let Some(extended) = slots.iter().find(|slot| EXTENDED.contains(&slot.kind)) else {
        return Ok(entries);
    };
    for (index, (base, slot)) in logical(source, extended.first)?.iter().enumerate() {
        push(5 + index as u32, slot, *base)?;
    }
    Ok(entries)
}

/// The logical partitions of an extended one: a chain of records, each with one and the place of the next.
fn logical(source: &dyn Source, first: u64) -> Result<Vec<(u64, Slot)>, Error> {
    let (mut found, mut next) = (Vec::new(), first);
    for _ in 0..LOGICAL_MAX {
        let at = next * u64::from(source.block_size());
        let damaged = |reason: &str| Error::damaged(format!("extended boot record at byte {at}"), reason);
        if at.checked_add(512).is_none_or(|end| end > source.bytes()) {
            return Err(damaged("it lies behind the end of the SSD"));
        }
        let mut record = [0; 512];
        source.read_at(at, &mut record)?;
        let Some([slot, link, ..]) = slots(&record) else { return Err(damaged("it has no signature")) };
        if slot.kind != 0 {
            found.push((next, slot));
        }
        if link.kind == 0 {
            return Ok(found);
        }
        if first + link.first <= next {
            return Err(damaged("the next record lies before it"));
        }
        next = first + link.first;
    }
    let reason = format!("it has more than {LOGICAL_MAX} logical partitions");
    Err(Error::damaged(format!("extended partition in block {first}"), reason))
}

/// Where a partition begins and its length in bytes, by its first and last block.
fn range(
    source: &dyn Source,
    number: u32,
    block: u32,
    (first, last): (u64, u64),
) -> Result<(u64, u64), Error> {
    let block = u64::from(block);
    let blocks = source.bytes() / block;
    if first > last || last >= blocks {
        let reason = format!("it has blocks {first} to {last}, and the SSD has {blocks}");
        return Err(Error::damaged(format!("partition {number}"), reason));
    }
    Ok((first * block, (last - first + 1) * block))
}

/// Reads the GPT: the one at the start, or the backup at the end with a warning.
fn gpt(source: &dyn Source) -> Result<Table, Error> {
    let mut block = source.block_size();
    // A copy of an SSD may have blocks of another size than the SSD had.
    for other in [512, 4096] {
        block = if has_header(source, block)? { block } else { other };
    }
    let first = match header(source, block, 1) {
        Ok(entries) => return Ok(Table { entries, warning: None }),
        Err(Error::Io { action, offset, bytes, source }) => {
            return Err(Error::Io { action, offset, bytes, source });
        }
        Err(first) => first,
    };
    for block in [source.block_size(), 512, 4096] {
        let last = (source.bytes() / u64::from(block)).saturating_sub(1);
        if let Ok(entries) = header(source, block, last) {
            let warning = format!("{first}; the backup at the end of the SSD is read");
            return Ok(Table { entries, warning: Some(warning) });
        }
    }
    Err(Error::damaged("GPT", format!("{first}; there is no backup at the end of the SSD either")))
}

fn has_header(source: &dyn Source, block: u32) -> Result<bool, Error> {
    let mut signature = [0; 8];
    if source.bytes() < u64::from(block) + 8 {
        return Ok(false);
    }
    source.read_at(block.into(), &mut signature)?;
    Ok(&signature == b"EFI PART")
}

/// The partitions of the GPT whose header is in block `at`.
fn header(source: &dyn Source, block: u32, at: u64) -> Result<Vec<Entry>, Error> {
    let unit = u64::from(block);
    let object = format!("GPT header in block {at}");
    let damaged = |reason: String| Error::damaged(object.as_str(), reason);
    if (at + 1).checked_mul(unit).is_none_or(|end| end > source.bytes()) {
        return Err(damaged("it lies behind the end of the SSD".to_owned()));
    }
    let mut header = vec![0; block as usize];
    source.read_at(at * unit, &mut header)?;
    let length = le32(&header, 12) as usize;
    if !header.starts_with(b"EFI PART") || !(92..=header.len()).contains(&length) {
        return Err(damaged("it has no signature, or a wrong length".to_owned()));
    }
    let (checksum, place) = (le32(&header, 16), le64(&header, 24));
    header[16..20].fill(0);
    let found = crc32(&header[..length]);
    if found != checksum {
        return Err(damaged(format!("its CRC-32 is {found:08x}, and should be {checksum:08x}")));
    }
    if place != at {
        return Err(damaged(format!("it says that it is in block {place}")));
    }
    let (first, count, size) = (le64(&header, 72), le32(&header, 80), le32(&header, 84));
    let bytes = u64::from(count) * u64::from(size);
    if !(128..=4096).contains(&size) || !size.is_power_of_two() || bytes > ENTRIES_MAX {
        let limit = format!("128 to 4096 bytes each, and {ENTRIES_MAX} bytes in all");
        return Err(damaged(format!("{count} entries of {size} bytes: expected {limit}")));
    }
    let start = first.checked_mul(unit).filter(|start| start.saturating_add(bytes) <= source.bytes());
    let start = start.ok_or_else(|| damaged("its entries lie behind the end of the SSD".to_owned()))?;
    let mut entries = vec![0; bytes as usize];
    source.read_at(start, &mut entries)?;
    let (found, checksum) = (crc32(&entries), le32(&header, 88));
    if found != checksum {
        let reason = format!("the CRC-32 of its entries is {found:08x}, and should be {checksum:08x}");
        return Err(damaged(reason));
    }
    let used = entries.chunks_exact(size as usize).zip(1..).filter(|(entry, _)| entry[..16] != [0; 16]);
    used.map(|(entry, number)| gpt_entry(source, block, number, entry)).collect()
}

fn gpt_entry(source: &dyn Source, block: u32, number: u32, entry: &[u8]) -> Result<Entry, Error> {
    let (start, bytes) = range(source, number, block, (le64(entry, 32), le64(entry, 40)))?;
    let units = (56..128).step_by(2).map(|at| le16(entry, at)).take_while(|unit| *unit != 0);
    let label: String = char::decode_utf16(units).map(|each| each.unwrap_or('\u{fffd}')).collect();
    let uuid = guid(&entry[16..32]);
    Ok(Entry { number, uuid, label: (!label.is_empty()).then_some(label), start, bytes })
}

/// A GUID: its first three parts are little endian.
fn guid(bytes: &[u8]) -> String {
    let last = halves(u32::from(le16(bytes, 10).swap_bytes()), le32(bytes, 12).swap_bytes());
    let (first, second, third) = (le32(bytes, 0), le16(bytes, 4), le16(bytes, 6));
    format!("{first:08x}-{second:04x}-{third:04x}-{:04x}-{last:012x}", le16(bytes, 8).swap_bytes())
}

/// CRC-32 as Ethernet has it, bit by bit: a table is short.
fn crc32(bytes: &[u8]) -> u32 {
    let bit = |crc: u32, _| (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
    !bytes.iter().fold(u32::MAX, |crc, byte| (0..8).fold(crc ^ u32::from(*byte), bit))
}

/// A part of a source, as a source.
#[derive(Clone, Copy, Debug)]
pub struct Partition<S> {
    source: S,
    start: u64,
    bytes: u64,
}

impl<S: Source> Partition<S> {
    /// `bytes` bytes of `source` from byte `start` on.
    ///
    /// # Errors
    /// A range that the source does not have.
    pub fn new(source: S, start: u64, bytes: u64) -> Result<Partition<S>, Error> {
        if start.checked_add(bytes).is_none_or(|end| end > source.bytes()) {
            return Err(Error::Argument {
                object: "partition",
                value: format!("of {bytes} bytes at byte {start}"),
                limit: format!("the source has {} bytes", source.bytes()),
            });
        }
        Ok(Partition { source, start, bytes })
    }

    /// What it is a part of.
    pub fn source(&self) -> &S {
        &self.source
    }

    /// Where it begins there.
    pub fn start(&self) -> u64 {
        self.start
    }
}

impl<S: Source> Source for Partition<S> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_size(&self) -> u32 {
        self.source.block_size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        if offset.checked_add(into.len() as u64).is_none_or(|end| end > self.bytes) {
            return Err(Error::Argument {
                object: "offset",
                value: format!("{offset} and {} bytes", into.len()),
                limit: format!("the partition has {} bytes", self.bytes),
            });
        }
        self.source.read_at(self.start + offset, into)
    }

    fn namespace(&self) -> Option<NamespaceId> {
        self.source.namespace()
    }
}
