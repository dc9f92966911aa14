//! What of a file may be overwritten where it lies.

use crate::{Error, FileMap, Piece};

/// A file whose written blocks may be overwritten in place. Nothing else of it, and of its file system, may change: no block
/// is allocated, no extent is marked as written, and the file keeps its length and times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritableFile {
    map: FileMap,
    /// Offsets and lengths of what was reserved and not written.
    unwritten: Vec<(u64, u64)>,
}

impl WritableFile {
    /// A file whose extents nobody shares, and what of it was reserved and not written, in order.
    pub(crate) fn new(map: FileMap, unwritten: Vec<(u64, u64)>) -> WritableFile {
        WritableFile { map, unwritten }
    }

    /// Where its bytes lie.
    pub fn map(&self) -> &FileMap {
        &self.map
    }

    /// The same where the source is a window that begins at byte `start` of another.
    ///
    /// # Errors
    /// As for [`FileMap::moved`].
    pub fn moved(self, start: u64) -> Result<WritableFile, Error> {
        Ok(WritableFile { map: self.map.moved(start)?, ..self })
    }

    /// Bytes from the start that whole blocks of `block` bytes hold: what is behind them shares its block with what lies
    /// behind the end, which is zeroes to every kernel.
    pub fn whole_bytes(&self, block: u64) -> u64 {
        self.map.size() / block * block
    }

    /// The pieces of `bytes` bytes from `offset` on, by blocks of `block` bytes: all of them are data.
    ///
    /// # Errors
    /// What is not whole blocks, reaches behind the last whole one, or meets a hole or an unwritten extent.
    pub fn pieces(&self, offset: u64, bytes: u64, block: u64) -> Result<Vec<(u64, u64)>, Error> {
        let refused = |limit: String| {
            Err(Error::Argument {
                object: "writing",
                value: format!("{bytes} bytes at offset {offset} of a file"),
                limit,
            })
        };
        if !offset.is_multiple_of(block) || !bytes.is_multiple_of(block) {
            return refused(format!("must be whole blocks of {block} bytes"));
        }
        let (size, end) = (self.map.size(), self.whole_bytes(block));
        if offset.checked_add(bytes).is_none_or(|last| last > end) {
            return refused(match size - end {
                0 => format!("the file ends at {size}, and is not made longer"),
                tail => format!(
                    "the file has {end} bytes of whole blocks, and {tail} of {block} in its last one, which is not written"
                ),
            });
        }
        let (mut next, mut found) = (offset, Vec::new());
        for piece in self.map.pieces(offset, bytes)? {
            match piece {
                Piece::Data { at, bytes } if at.is_multiple_of(block) && bytes.is_multiple_of(block) => {
                    found.push((at, bytes));
                }
                Piece::Data { at, .. } => {
                    return refused(format!(
                        "offset {next} lies at byte {at}, within a block of {block} bytes"
                    ));
                }
                Piece::Hole { bytes } => return refused(self.why_not(next, bytes)),
            }
            next += piece.bytes();
        }
        Ok(found)
    }

    /// Why the hole of so many bytes at `offset` cannot be written.
    fn why_not(&self, offset: u64, bytes: u64) -> String {
        let meets = |(at, length): &&(u64, u64)| *at < offset + bytes && offset < at + length;
        match self.unwritten.iter().find(meets) {
            Some((at, length)) => format!(
                "offset {} is in an unwritten extent, {length} bytes at offset {at}: it reads as zeroes until a kernel marks it \
                 as written",
                offset.max(*at)
            ),
            None => format!(
                "offset {offset} is in a hole, of {bytes} bytes here: no block of the SSD belongs to it"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extent;

    #[test]
    fn only_written_whole_blocks_may_be_overwritten() {
        let extents = [(0, 8192, 4096), (4096, 65_536, 4096), (16_384, 1 << 20, 4096)];
        let extents = extents.map(|(offset, at, bytes)| Extent { offset, at, bytes });
        let map = FileMap::new(18_000, extents.to_vec()).unwrap();
        let file = WritableFile::new(map, vec![(12_288, 4096)]);
        assert_eq!(file.pieces(512, 7680, 512).unwrap(), [(8704, 3584), (65_536, 4096)]);
        assert_eq!(file.pieces(16_384, 1536, 512).unwrap(), [(1 << 20, 1536)]);
        let refused = |offset, bytes| file.pieces(offset, bytes, 512).unwrap_err().to_string();
        for (offset, bytes, reason) in [
            (100, 512, "must be whole blocks of 512 bytes"),
            (0, 100, "must be whole blocks of 512 bytes"),
            (4096, 4608, "offset 8192 is in a hole, of 512 bytes here: no block of the SSD belongs to it"),
            (
                8192,
                8192,
                "offset 12288 is in an unwritten extent, 4096 bytes at offset 12288: it reads as zeroes until",
            ),
            (13_312, 512, "offset 13312 is in an unwritten extent, 4096 bytes at offset 12288"),
            (16_384, 2048, "the file has 17920 bytes of whole blocks, and 80 of 512 in its last one"),
            (u64::MAX - 511, 512, "the file has 17920 bytes of whole blocks"),
        ] {
            let begin = format!("writing {bytes} bytes at offset {offset} of a file: {reason}");
            assert!(refused(offset, bytes).starts_with(&begin), "{}", refused(offset, bytes));
        }
        let whole = WritableFile::new(FileMap::whole(1024), Vec::new());
        let said = whole.pieces(512, 1024, 512).unwrap_err().to_string();
        assert!(said.ends_with("the file ends at 1024, and is not made longer"), "{said}");
    }
}
