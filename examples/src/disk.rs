//! The SSD that the data is on.

use std::io::{Read, Write};

use tempfile::NamedTempFile;
use warpbell::{DeviceName, Named, OpenOptions, Ssd, SsdSource};
use warpbell_files::FileMap;
use warpbell_workload::{Control, Extent, Limits, permission, read_blocks, read_pieces, write_blocks};

use crate::{DataFile, Failure, Options};
use warpbell::{Lba, Nsid};

/// The bits of a byte that `--corrupt` changes.
pub const DAMAGE: u8 = 0x55;

/// The namespace that is used.
const NSID: u32 = 1;

/// A part of a namespace, which the host reads and writes by the byte; or a file there, which it only reads.
pub(crate) struct Disk {
    pub(crate) ssd: Ssd,
    pub(crate) file: Option<FileMap>,
    block: u64,
    first_block: u64,
    bytes: u64,
    _image: Option<NamedTempFile>,
}

impl Disk {
    /// The first `bytes` from `--offset` on of the SSD that `--device` names, or of an image that is gone afterwards.
    pub(crate) fn open(options: &Options, bytes: u64) -> Result<Disk, Failure> {
        let offset = options.offset.0;
        let (name, image) = match &options.device {
            Some(Named { device, path: Some(path) }) => return Disk::of_file(options, (device, path), bytes),
            Some(Named { device, path: None }) => {
                permission::before(device, &options.allow_write, Nsid(NSID))?;
                (device.clone(), None)
            }
            None => {
                let (name, image) = image(offset, bytes)?;
                (name, Some(image))
            }
        };
        let mut allow_write = options.allow_write.clone();
        allow_write.extend(image.as_ref().map(|image| image.path().display().to_string()));
        let ssd = Ssd::open(&name, &OpenOptions::new().allow_write(allow_write))?;
        if image.is_none() {
            permission::after(&ssd, &options.allow_write)?;
        }
        let limits = Limits::of(&ssd, Nsid(NSID))?;
        let block = u64::from(limits.block_size);
        let there = limits.exact_bytes.unwrap_or(limits.blocks * block) / block * block;
        if !offset.is_multiple_of(block) {
            return Err(usage("--offset", offset, format!("must be a multiple of {block}, the SSD's block")));
        }
        if offset.checked_add(bytes).is_none_or(|end| end > there) {
            let limit = format!("{bytes} bytes from there on, and {name} has {there}");
            return Err(usage("--offset", offset, limit));
        }
        Ok(Disk { ssd, file: None, block, first_block: offset / block, bytes, _image: image })
    }

    /// A file of the file system on the SSD, of at least `bytes` bytes with its last block.
    fn of_file(options: &Options, (name, path): (&DeviceName, &str), bytes: u64) -> Result<Disk, Failure> {
        let refused = |limit: &str| usage("--device", format!("{name}#{path}"), limit.to_owned());
        if options.data.is_none() {
            return Err(refused("a file is compared with another one: --data FILE"));
        }
        if options.corrupt || options.offset.0 != 0 {
            return Err(refused("a file is read as it is, from its beginning; no --corrupt, no --offset"));
        }
        let ssd = Ssd::open(name, &OpenOptions::new())?;
        let block = u64::from(Limits::of(&ssd, Nsid(NSID))?.block_size);
        let found = SsdSource::new(&ssd, Some(Nsid(NSID))).map(|source| {
            warpbell_files::open(&source, &warpbell_files::OpenOptions::default())
                .and_then(|files| files.file(path))
        })?;
        let file = found.map_err(|error| refused(&error.to_string()))?;
        // The queue that found the file is not needed any more, and SSDs have few.
        ssd.delete_host_queues()?;
        // Data has whole pages, and at least 4096 bytes of them; a file ends with its last byte.
        if file.size().next_multiple_of(options.page.0.max(4096)) < bytes {
            return Err(refused(&format!("it has {} bytes, and the data {bytes}", file.size())));
        }
        Ok(Disk { ssd, file: Some(file), block, first_block: 0, bytes, _image: None })
    }

    /// Bytes of a block.
    pub(crate) fn block(&self) -> u64 {
        self.block
    }

    /// The first block of the part.
    pub(crate) fn first_block(&self) -> u64 {
        self.first_block
    }

    /// All its bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes the data from the part's first byte on, and zeroes behind it.
    pub(crate) fn fill(&self, data: &DataFile, control: &Control) -> Result<(), Failure> {
        let mut from = data.stream()?.chain(std::io::repeat(0));
        write_blocks(&self.ssd, self.extent(0, self.bytes), &mut from, control)?;
        Ok(())
    }

    /// Writes whole blocks.
    pub(crate) fn write(&self, offset: u64, bytes: u64, from: &mut impl Read) -> Result<(), Failure> {
        write_blocks(&self.ssd, self.extent(offset, bytes), from, &Control::new())?;
        Ok(())
    }

    /// Reads whole blocks.
    pub(crate) fn stream(
        &self,
        offset: u64,
        bytes: u64,
        out: &mut impl Write,
        control: &Control,
    ) -> Result<(), Failure> {
        let Some(file) = &self.file else {
            read_blocks(&self.ssd, self.extent(offset, bytes), out, control)?;
            return Ok(());
        };
        // Behind the end of the file are zeroes, as kernels read them.
        let there = bytes.min(file.size().saturating_sub(offset));
        read_pieces(&self.ssd, Nsid(NSID), (file, offset, there), out, control)?;
        std::io::copy(&mut std::io::repeat(0).take(bytes - there), out)?;
        Ok(())
    }

    /// Any bytes.
    pub(crate) fn read(&self, offset: u64, into: &mut [u8]) -> Result<(), Failure> {
        let first = offset / self.block * self.block;
        let end = (offset + into.len() as u64).next_multiple_of(self.block);
        let mut whole = Vec::with_capacity((end - first) as usize);
        self.stream(first, end - first, &mut whole, &Control::new())?;
        let skip = (offset - first) as usize;
        into.copy_from_slice(&whole[skip..skip + into.len()]);
        Ok(())
    }

    /// Changes some bits of one byte.
    pub(crate) fn damage(&self, offset: u64) -> Result<(), Failure> {
        let first = offset / self.block * self.block;
        let mut block = vec![0; self.block as usize];
        self.read(first, &mut block)?;
        block[(offset - first) as usize] ^= DAMAGE;
        self.write(first, self.block, &mut block.as_slice())
    }

    fn extent(&self, offset: u64, bytes: u64) -> Extent {
        let (lba, count) = (self.first_block + offset / self.block, bytes / self.block);
        Extent { nsid: Nsid(NSID), lba: Lba(lba), count }
    }
}

/// An image with `bytes` from `offset` on, behind the software controller.
fn image(offset: u64, bytes: u64) -> Result<(DeviceName, NamedTempFile), Failure> {
    let size = offset.checked_add(bytes).filter(|size| i64::try_from(*size).is_ok());
    let Some(size) = size else {
        let limit = format!("{bytes} bytes from there on: no file is that large");
        return Err(usage("--offset", offset, limit));
    };
    let image = NamedTempFile::new().map_err(Failure::temporary)?;
    image.as_file().set_len(size).map_err(|error| match offset {
        0 => Failure::temporary(error),
        _ => usage("--offset", offset, format!("{bytes} bytes from there on, in an image: {error}")),
    })?;
    let name = format!("soft:file={},writable=on", image.path().display());
    Ok((name.parse().map_err(warpbell::Error::from)?, image))
}

pub(crate) fn usage(object: &'static str, value: impl ToString, limit: String) -> Failure {
    Failure::Usage { object, value: value.to_string(), limit }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offset_that_no_file_has_is_named() {
        for offset in [u64::MAX, u64::MAX - 4095, 1 << 63] {
            let failure = image(offset, 4096).err().map(|failure| (failure.to_string(), failure.exit_code()));
            let text = format!("--offset {offset}: 4096 bytes from there on: no file is that large");
            assert_eq!(failure, Some((text, 2)));
        }
        let (_, image) = image(4096, 8192).unwrap();
        assert_eq!(image.as_file().metadata().unwrap().len(), 12_288);
    }
}
