//! An SSD as what file systems lie on, and files as kernels read them.

mod table;

pub use table::FileTable;

use warpbell_files::{Error as FileError, NamespaceId, Source, Store};
use warpbell_hw::{Lba, Nsid};

use crate::{Error, Ssd};

/// A namespace, read and written by the host's own queue ([`Ssd::read`], [`Ssd::write`]).
#[derive(Clone, Copy)]
pub struct SsdSource<'a> {
    ssd: &'a Ssd,
    nsid: Nsid,
    block: u32,
    bytes: u64,
}

impl<'a> SsdSource<'a> {
    /// A namespace of `ssd`; `None`: the first usable one.
    pub fn new(ssd: &'a Ssd, nsid: Option<Nsid>) -> Result<SsdSource<'a>, Error> {
        let namespace = ssd.namespace(nsid)?;
        let (nsid, block) = (namespace.nsid, namespace.block_size);
        Ok(SsdSource { ssd, nsid, block, bytes: namespace.blocks * u64::from(block) })
    }

    /// What tells the namespace from all others.
    pub fn id(&self) -> NamespaceId {
        self.ssd.namespace_id(self.nsid)
    }

    /// The SSD.
    pub fn ssd(&self) -> &'a Ssd {
        self.ssd
    }

    fn failed(action: &'static str, offset: u64, bytes: usize) -> impl FnOnce(Error) -> FileError {
        move |source| FileError::Io { action, offset, bytes: bytes as u64, source: source.into() }
    }

    fn read_blocks(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let (lba, bytes) = (Lba(offset / u64::from(self.block)), into.len());
        self.ssd.read(Some(self.nsid), lba, into).map_err(Self::failed("reading", offset, bytes))
    }
}

impl Source for SsdSource<'_> {
    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn block_size(&self) -> u32 {
        self.block
    }

    fn read_at(&self, offset: u64, into: &mut [u8]) -> Result<(), FileError> {
        let block = u64::from(self.block);
        let (mut next, mut rest) = (offset, into);
        while !rest.is_empty() {
            let skipped = (next % block) as usize;
            let whole = rest.len() / block as usize * block as usize;
            if skipped == 0 && whole > 0 {
                let (now, later) = rest.split_at_mut(whole);
                self.read_blocks(next, now)?;
                (next, rest) = (next + whole as u64, later);
                continue;
            }
            // A head or tail that is not a whole block.
            let wanted = (skipped + rest.len()).min(block as usize) - skipped;
            let mut bounce = vec![0; block as usize];
            self.read_blocks(next - skipped as u64, &mut bounce)?;
            let (now, later) = rest.split_at_mut(wanted);
            now.copy_from_slice(&bounce[skipped..skipped + wanted]);
            (next, rest) = (next + wanted as u64, later);
        }
        Ok(())
    }

    fn namespace(&self) -> Option<NamespaceId> {
        Some(self.id())
    }
}

impl Store for SsdSource<'_> {
    fn write_at(&self, offset: u64, from: &[u8]) -> Result<(), FileError> {
        let block = u64::from(self.block);
        if !offset.is_multiple_of(block) {
            let limit = format!("must be a multiple of the block size, {block} bytes");
            return Err(FileError::Argument { object: "offset", value: offset.to_string(), limit });
        }
        self.ssd.write(Some(self.nsid), Lba(offset / block), from).map_err(Self::failed(
            "writing",
            offset,
            from.len(),
        ))
    }

    fn flush(&self) -> Result<(), FileError> {
        self.ssd.flush(Some(self.nsid)).map_err(Self::failed("writing", 0, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    #[test]
    fn any_bytes_of_an_ssd_can_be_read() {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::new()).unwrap();
        let source = SsdSource::new(&ssd, None).unwrap();
        let data: Vec<u8> = (0..4096u32).map(|i| ((i * 7) >> 2) as u8).collect();
        source.write_at(1024, &data).unwrap();
        Store::flush(&source).unwrap();
        assert_eq!((source.bytes(), source.block_size()), (1 << 20, 512));
        for (offset, bytes) in [(1024, 4096), (1025, 1), (1500, 100), (1600, 2000), (2047, 1026), (1536, 600)]
        {
            let mut into = vec![0; bytes];
            source.read_at(offset, &mut into).unwrap();
            let at = offset as usize - 1024;
            assert!(into == data[at..at + bytes], "{bytes} bytes at {offset}");
        }
        let error = source.read_at((1 << 20) - 1, &mut [0; 2]).unwrap_err().to_string();
        assert!(error.contains("namespace 1 has blocks 0 to 2047"), "{error}");
        assert!(source.write_at(100, &[0; 512]).unwrap_err().to_string().starts_with("offset 100: "));
    }
}
