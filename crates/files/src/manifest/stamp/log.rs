//! The log of XFS: its records since one that is known.
//!
//! A log is a ring of 512-byte blocks. Each time around has a number, the cycle, in the first word of each block; a record
//! begins with a header, which has its own position. So the records behind one are found by following them, until the next
//! one is of another time around.

use serde::{Deserialize, Serialize};

use super::super::bytes::read;
use super::{Change, UNCLEAN};
use crate::bytes::{be32, be64, le16, le64};
use crate::{Error, Source};

const BLOCK: u64 = 512;
const RECORD: u32 = 0xFEED_BABE;
/// Bytes of a record's data that one block of its header speaks for.
const HEADER_SPAN: u32 = 32 << 10;
/// Blocks of the longest record: 256 KiB, and its headers.
const LONGEST: u64 = 512 + 8;
const OP_UNMOUNT: u8 = 0x20;
/// Linux's number for a buffer in the log.
const ITEM_BUFFER: u16 = 0x123C;

/// Where a record of the log begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct LogPosition {
    /// Times around.
    pub cycle: u32,
    /// Blocks of 512 bytes from the begin of the log.
    pub block: u32,
}

impl std::fmt::Display for LogPosition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}:{}", self.cycle, self.block)
    }
}

/// Where the log is.
#[derive(Clone, Debug)]
pub struct Log {
    at: u64,
    blocks: u64,
}

/// What a record is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum About {
    /// The file system was unmounted.
    Unmount,
    /// The superblock alone: counters, before an unmount or when nothing else is to be done.
    Superblock,
    /// Anything else.
    Change,
}

struct Record {
    about: About,
    next: LogPosition,
}

impl Log {
    /// A log of `bytes` bytes from byte `at` on.
    pub fn new(at: u64, bytes: u64) -> Result<Log, Error> {
        let blocks = bytes / BLOCK;
        if blocks < LONGEST || blocks > u64::from(u32::MAX) {
            return Err(Error::damaged("the superblock of XFS", format!("its log has {bytes} bytes")));
        }
        Ok(Log { at, blocks })
    }

    /// Where the last record begins.
    pub fn last(&self, source: &dyn Source) -> Result<LogPosition, Error> {
        let (cycle, head) = self.head(source)?;
        for back in 1..=2 * LONGEST {
            let block = head.checked_sub(back);
            let cycle = if block.is_some() { cycle } else { cycle.saturating_sub(1) };
            let block = block.unwrap_or_else(|| (head + self.blocks).saturating_sub(back)) as u32;
            // A record that is not written to its end yet is none.
            let position = LogPosition { cycle, block };
            let record = self.record(source, position)?;
            if record.is_some_and(|record| blocks_between(position, record.next, self.blocks) <= back) {
                return Ok(position);
            }
        }
        Err(Error::damaged("the log of XFS", format!("no record is before block {head}, where it ends")))
    }

    /// What the records behind `then` say.
    pub fn changes(&self, source: &dyn Source, then: LogPosition) -> Result<Vec<Change>, Error> {
        let change = |was: String, is: String| vec![Change { what: "log".to_owned(), was, is }];
        let Some(mut last) = self.record(source, then)? else {
            let is = "not there: written over since, or a copy from before".to_owned();
            return Ok(change(format!("record {then}"), is));
        };
        let (mut position, mut changes, mut passed) = (then, 0_u64, 0);
        while let Some(record) = self.record(source, last.next)? {
            passed += blocks_between(position, last.next, self.blocks);
            position = last.next;
            changes += u64::from(record.about == About::Change);
            last = record;
            if passed > self.blocks {
                return Err(Error::damaged("the log of XFS", "its records lead around without an end"));
            }
        }
        let mut all = Vec::new();
        if changes > 0 {
            all = change(then.to_string(), format!("{position}, with {changes} records of changes"));
        }
        if last.about != About::Unmount {
            all.extend(change("empty".to_owned(), UNCLEAN.to_owned()));
        }
        Ok(all)
    }

    fn block(&self, source: &dyn Source, block: u64) -> Result<[u8; 512], Error> {
        read(source, self.at + block % self.blocks * BLOCK)
    }

    /// The present cycle, and the block behind the last one of it: blocks before are of this cycle, those behind of the last.
    fn head(&self, source: &dyn Source) -> Result<(u32, u64), Error> {
        let cycle_of = |block| -> Result<u32, Error> {
            let bytes = self.block(source, block)?;
            Ok(if be32(&bytes, 0) == RECORD { be32(&bytes, 4) } else { be32(&bytes, 0) })
        };
        let cycle = cycle_of(0)?;
        let (mut low, mut high) = (1, self.blocks);
        while low < high {
            let middle = low + (high - low) / 2;
            if cycle_of(middle)? == cycle {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok((cycle, low))
    }

    /// The record that begins at `position`, if one does.
    fn record(&self, source: &dyn Source, position: LogPosition) -> Result<Option<Record>, Error> {
        let start = u64::from(position.block);
        if start >= self.blocks {
            return Ok(None);
        }
        let header = self.block(source, start)?;
        let here = u64::from(position.cycle) << 32 | start;
        if be32(&header, 0) != RECORD || be64(&header, 16) != here {
            return Ok(None);
        }
        let (version, bytes, size) = (be32(&header, 8), be32(&header, 12), be32(&header, 320));
        let headers = if version == 2 { size.div_ceil(HEADER_SPAN).max(1) } else { 1 };
        let blocks = u64::from(headers) + u64::from(bytes).div_ceil(BLOCK);
        if blocks > LONGEST {
            let reason = format!("the record {position} has {bytes} bytes");
            return Err(Error::damaged("the log of XFS", reason));
        }
        let about = self.about(source, &header, start + u64::from(headers))?;
        let end = start + blocks;
        // Log::new has made sure that a record goes around once at most.
        let cycle = position.cycle.checked_add((end / self.blocks) as u32).ok_or_else(|| {
            Error::damaged("the log of XFS", format!("the record {position} goes around for the last time"))
        })?;
        let next = LogPosition { cycle, block: (end % self.blocks) as u32 };
        Ok(Some(Record { about, next }))
    }

    /// What the record with data from block `data` on is about. Each operation has 12 bytes of a header before its own.
    fn about(&self, source: &dyn Source, header: &[u8; 512], data: u64) -> Result<About, Error> {
        let first = self.block(source, data)?;
        let lengths = [4, 16, 44].map(|at: usize| be32(&first, at));
        Ok(match be32(header, 40) {
            1 if first[9] & OP_UNMOUNT != 0 => About::Unmount,
            // Start, header of the transaction, buffer, its bytes, commit; the superblock's buffer is that of block 0.
            5 if lengths == [0, 16, 24] && le16(&first, 52) == ITEM_BUFFER && le64(&first, 60) == 0 => {
                About::Superblock
            }
            _ => About::Change,
        })
    }
}

fn blocks_between(from: LogPosition, to: LogPosition, around: u64) -> u64 {
    let position = |at: LogPosition| u64::from(at.cycle) * around + u64::from(at.block);
    position(to).saturating_sub(position(from))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::manifest::stamp::tests::{Ring, SUPERBLOCK, TRANSACTION, UNMOUNT};

    fn position(cycle: u32, block: u32) -> LogPosition {
        LogPosition { cycle, block }
    }

    fn told(ring: &Ring, then: LogPosition) -> String {
        let changes = ring.log().changes(ring, then).unwrap();
        changes.iter().map(Change::to_string).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn records_are_followed_around_the_ring() {
        let mut ring = Ring::new();
        let mut written = Vec::new();
        // More than twice around, with records that end behind the end, and one that begins there.
        for bytes in (0..130).map(|n| 512 * (1 + n * 7 % 40)) {
            written.push(ring.append(&TRANSACTION, bytes));
            let last = *written.last().unwrap();
            assert_eq!(ring.log().last(&ring).unwrap(), last);
            assert_eq!(told(&ring, last), format!("log empty → {UNCLEAN}"));
        }
        let last = written[129];
        assert!(last.cycle >= 3, "{last}");
        assert!(
            told(&ring, written[120])
                .starts_with(&format!("log {} → {last}, with 9 records of changes; ", written[120]))
        );
        assert!(told(&ring, written[0]).ends_with("not there: written over since, or a copy from before"));
        assert!(told(&ring, position(last.cycle, last.block + 1)).contains("not there"));
        assert!(told(&ring, position(1, u32::MAX)).contains("not there"));
    }

    #[test]
    fn unmounts_and_counters_of_the_superblock_are_no_changes() {
        let mut ring = Ring::new();
        let then = ring.append(&TRANSACTION, 1024);
        for _ in 0..2 {
            ring.append(&SUPERBLOCK, 512);
            ring.append(&SUPERBLOCK, 512);
            ring.append(&UNMOUNT, 512);
        }
        assert_eq!(told(&ring, then), "");
        ring.append(&TRANSACTION, 512);
        let last = ring.append(&UNMOUNT, 512);
        assert_eq!(told(&ring, then), format!("log {then} → {last}, with 1 records of changes"));
    }

    #[test]
    fn a_record_that_is_not_written_to_its_end_is_not_the_last() {
        let mut ring = Ring::new();
        ring.append(&UNMOUNT, 512);
        let whole = ring.append(&TRANSACTION, 4096);
        let torn = ring.append(&TRANSACTION, 4096);
        ring.tear(torn, 5);
        assert_eq!(ring.log().last(&ring).unwrap(), whole);
    }
}
