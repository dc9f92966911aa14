//! What file systems lie on.

use std::fs::File;
use std::os::unix::fs::FileExt;

use crate::{Error, FileMap, NamespaceId, Piece};

/// A namespace of an SSD, or an image.
pub trait Source {
    /// Bytes there are.
    fn bytes(&self) -> u64;

    /// Bytes of a logical block.
    fn block_size(&self) -> u32;

    /// Fills `into` from byte `offset` on: no alignment is asked for.
    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error>;

    /// Which namespace it is; `None`: an image.
    fn namespace(&self) -> Option<NamespaceId> {
        None
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn bytes(&self) -> u64 {
        (**self).bytes()
    }

    fn block_size(&self) -> u32 {
        (**self).block_size()
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        (**self).read_at(offset, into)
    }

    fn namespace(&self) -> Option<NamespaceId> {
        (**self).namespace()
    }
}

/// A source that can be written.
pub trait Store: Source {
    /// Writes whole logical blocks.
    fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), Error>;

    /// Makes what was written before durable.
    fn flush(&self) -> Result<(), Error>;
}

/// Fills `into` with a file's bytes from `offset` on; holes are zeroes.
pub fn read_file(source: &dyn Source, map: &FileMap, offset: u64, into: &mut [u8]) -> Result<(), Error> {
    let mut rest = into;
    for piece in map.pieces(offset, rest.len() as u64)? {
        let (now, later) = rest.split_at_mut(piece.bytes() as usize);
        match piece {
            Piece::Data { at, .. } => source.read_at(at, now)?,
            Piece::Hole { .. } => now.fill(0),
        }
        rest = later;
    }
    Ok(())
}

/// The CRC-32C of what `crc` is of, and `count` zeroes behind it. A hole of any length takes as many steps as its length
/// has bits.
pub fn append_zeroes(mut crc: u32, count: u64) -> u32 {
    // That of 2^n zeroes is made of those of two halves.
    let (mut zeroes, mut length, mut left) = (crc32c::crc32c(&[0]), 1, count);
    while left > 0 {
        if left & 1 == 1 {
            crc = crc32c::crc32c_combine(crc, zeroes, length);
        }
        left >>= 1;
        if left > 0 {
            zeroes = crc32c::crc32c_combine(zeroes, zeroes, length);
            length <<= 1;
        }
    }
    crc
}

/// A file that holds what a namespace would: an image.
#[derive(Debug)]
pub struct Image {
    file: File,
    bytes: u64,
    block_size: u32,
}

impl Image {
    /// An image with logical blocks of `block_size` bytes.
    ///
    /// # Errors
    /// A file whose size cannot be found out.
    pub fn new(file: File, block_size: u32) -> Result<Image, Error> {
        let bytes = file.metadata().map_err(failed("reading", 0, 0))?.len();
        Ok(Image { file, bytes, block_size })
    }

    /// The same of a block device, which does not tell its size as files do.
    pub fn sized(file: File, bytes: u64, block_size: u32) -> Image {
        Image { file, bytes, block_size }
    }
}

impl Source for Image {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_size(&self) -> u32 {
        self.block_size
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), Error> {
        let bytes = into.len() as u64;
        self.file.read_exact_at(into, offset).map_err(failed("reading", offset, bytes))
    }
}

impl Store for Image {
    fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), Error> {
        self.file.write_all_at(from, offset).map_err(failed("writing", offset, from.len() as u64))
    }

    fn flush(&self) -> Result<(), Error> {
        self.file.sync_data().map_err(failed("writing", 0, self.bytes))
    }
}

fn failed(action: &'static str, offset: u64, bytes: u64) -> impl FnOnce(std::io::Error) -> Error {
    move |source| Error::Io { action, offset, bytes, source: source.into() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Extent;

    #[test]
    fn a_file_is_read_by_its_map() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(256).unwrap();
        let image = Image::new(file, 512).unwrap();
        let bytes: Vec<u8> = (0..=255).collect();
        image.write_at(0, &bytes).unwrap();
        image.flush().unwrap();
        let extents = vec![Extent { offset: 0, at: 200, bytes: 8 }, Extent { offset: 12, at: 4, bytes: 8 }];
        let map = FileMap::new(18, extents).unwrap();
        let mut into = [9; 14];
        read_file(&image, &map, 4, &mut into).unwrap();
        assert_eq!(into, [204, 205, 206, 207, 0, 0, 0, 0, 4, 5, 6, 7, 8, 9]);
        let beyond = FileMap::new(8, vec![Extent { offset: 0, at: 252, bytes: 8 }]).unwrap();
        let error = read_file(&image, &beyond, 0, &mut [0; 8]).unwrap_err().to_string();
        assert!(error.starts_with("reading 8 bytes at byte 252: "), "{error}");
    }
}
