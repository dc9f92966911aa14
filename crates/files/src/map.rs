//! Where a file's bytes lie.

use crate::{Error, NamespaceId};

/// Bytes of a file that lie together.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Extent {
    /// The first byte's offset in the file.
    pub offset: u64,
    /// Where it lies in the source, in bytes.
    pub at: u64,
    /// How many bytes.
    pub bytes: u64,
}

/// A file: its size, and its extents in order. What no extent holds is a hole, and reads as zeroes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileMap {
    size: u64,
    extents: Vec<Extent>,
    /// None: of an image, or made by hand.
    namespace: Option<NamespaceId>,
}

/// A part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Bytes of the source.
    Data {
        /// Where they lie.
        at: u64,
        /// How many.
        bytes: u64,
    },
    /// Zeroes.
    Hole {
        /// How many.
        bytes: u64,
    },
}

/// What Linux counts offsets with ends here; there is room to round up to blocks above.
const SIZE_MAX: u64 = 1 << 63;

impl FileMap {
    /// Extents of a file of `size` bytes, sorted by offset and joined where they touch. The last may reach beyond the end,
    /// as blocks do.
    ///
    /// # Errors
    /// Sizes above 2^63; empty extents, extents that overlap in the file, begin behind its end, or have an end above 2^64.
    pub fn new(size: u64, mut extents: Vec<Extent>) -> Result<FileMap, Error> {
        if size > SIZE_MAX {
            return Err(Error::damaged(format!("file of {size} bytes"), "a file has 2^63 bytes at most"));
        }
        extents.sort_unstable_by_key(|extent| extent.offset);
        let mut joined: Vec<Extent> = Vec::with_capacity(extents.len());
        for next in extents {
            let object = || format!("extent of {} bytes at offset {} of the file", next.bytes, next.offset);
            let ends = (next.offset.checked_add(next.bytes), next.at.checked_add(next.bytes));
            let (Some(_), Some(_)) = ends else {
                return Err(Error::damaged(object(), "its end is above 2^64"));
            };
            if next.bytes == 0 {
                return Err(Error::damaged(object(), "it is empty"));
            }
            if next.offset >= size {
                return Err(Error::damaged(object(), format!("the file has {size} bytes")));
            }
            match joined.last_mut() {
                Some(last) if next.offset < last.offset + last.bytes => {
                    let reason = format!("it overlaps the one at offset {}", last.offset);
                    return Err(Error::damaged(object(), reason));
                }
                Some(last) if (next.offset, next.at) == (last.offset + last.bytes, last.at + last.bytes) => {
                    last.bytes += next.bytes;
                }
                _ => joined.push(next),
            }
        }
        Ok(FileMap { size, extents: joined, namespace: None })
    }

    /// The first `bytes` bytes of a source.
    pub fn whole(bytes: u64) -> FileMap {
        let extents = if bytes == 0 { Vec::new() } else { vec![Extent { offset: 0, at: 0, bytes }] };
        FileMap { size: bytes, extents, namespace: None }
    }

    /// The same in this namespace, which [`check`](FileMap::check) then asks for.
    #[must_use]
    pub fn within(self, namespace: Option<NamespaceId>) -> FileMap {
        FileMap { namespace, ..self }
    }

    /// The namespace that the file lies in; `None` of an image, or of extents that were put together by hand.
    pub fn namespace(&self) -> Option<&NamespaceId> {
        self.namespace.as_ref()
    }

    /// Whether the file may lie in `namespace`.
    ///
    /// # Errors
    /// It is known to lie in another one.
    pub fn check(&self, namespace: &NamespaceId) -> Result<(), Error> {
        self.namespace.as_ref().map_or(Ok(()), |own| own.check(namespace))
    }

    /// The same where the source is a window that begins at byte `start` of another.
    ///
    /// # Errors
    /// Extents with an end above 2^64 there.
    pub fn moved(mut self, start: u64) -> Result<FileMap, Error> {
        for extent in &mut self.extents {
            let moved = extent.at.checked_add(start).filter(|at| at.checked_add(extent.bytes).is_some());
            extent.at = moved.ok_or_else(|| {
                let object = format!("extent of {} bytes at offset {}", extent.bytes, extent.offset);
                Error::damaged(object, "its end is above 2^64")
            })?;
        }
        Ok(self)
    }

    /// Bytes of the file.
    pub fn size(&self) -> u64 {
        self.size
    }

    /// The extents, by offset.
    pub fn extents(&self) -> &[Extent] {
        &self.extents
    }

    /// The pieces that make up `bytes` bytes from `offset` on.
    ///
    /// # Errors
    /// A range that the file does not have.
    pub fn pieces(&self, offset: u64, bytes: u64) -> Result<impl Iterator<Item = Piece> + '_, Error> {
        let end =
            offset.checked_add(bytes).filter(|end| *end <= self.size).ok_or_else(|| Error::Argument {
                object: "offset",
                value: format!("{offset} and {bytes} bytes"),
                limit: format!("the file has {} bytes", self.size),
            })?;
        let mut index = self.extents.partition_point(|extent| extent.offset + extent.bytes <= offset);
        let mut next = offset;
        Ok(std::iter::from_fn(move || {
            if next == end {
                return None;
            }
            let piece = match self.extents.get(index) {
                Some(extent) if extent.offset <= next => {
                    index += 1;
                    let bytes = (extent.offset + extent.bytes).min(end) - next;
                    Piece::Data { at: extent.at + (next - extent.offset), bytes }
                }
                Some(extent) => Piece::Hole { bytes: extent.offset.min(end) - next },
                None => Piece::Hole { bytes: end - next },
            };
            next += piece.bytes();
            Some(piece)
        }))
    }
}

impl Piece {
    /// How many bytes.
    pub fn bytes(&self) -> u64 {
        match *self {
            Piece::Data { bytes, .. } | Piece::Hole { bytes } => bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(offset: u64, at: u64, bytes: u64) -> Extent {
        Extent { offset, at, bytes }
    }

    #[test]
    fn extents_are_sorted_and_joined() {
        let map = FileMap::new(100, vec![extent(20, 520, 80), extent(0, 500, 20)]).unwrap();
        assert_eq!(map.extents(), [extent(0, 500, 100)]);
        let apart = FileMap::new(100, vec![extent(20, 521, 80), extent(0, 500, 20)]).unwrap();
        assert_eq!(apart.extents().len(), 2);
    }

    #[test]
    fn extents_that_contradict_each_other_are_refused() {
        let refused = |extents| FileMap::new(100, extents).unwrap_err().to_string();
        assert!(refused(vec![extent(0, 0, 0)]).ends_with("it is empty"));
        assert!(refused(vec![extent(100, 0, 1)]).ends_with("the file has 100 bytes"));
        assert!(refused(vec![extent(0, 0, 10), extent(9, 50, 1)]).ends_with("the one at offset 0"));
        assert!(refused(vec![extent(1, u64::MAX, 1)]).ends_with("its end is above 2^64"));
    }

    #[test]
    fn pieces_cover_the_range_and_holes_are_named() {
        let map = FileMap::new(100, vec![extent(10, 510, 20), extent(30, 900, 20)]).unwrap();
        let pieces = |offset, bytes| map.pieces(offset, bytes).unwrap().collect::<Vec<_>>();
        assert_eq!(pieces(0, 10), [Piece::Hole { bytes: 10 }]);
        assert_eq!(pieces(29, 2), [Piece::Data { at: 529, bytes: 1 }, Piece::Data { at: 900, bytes: 1 }]);
        assert_eq!(pieces(49, 51), [Piece::Data { at: 919, bytes: 1 }, Piece::Hole { bytes: 50 }]);
        assert_eq!(pieces(100, 0), []);
        assert!(map.pieces(100, 1).is_err() && map.pieces(u64::MAX, 2).is_err());
    }
}
