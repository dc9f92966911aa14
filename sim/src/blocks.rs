//! The blocks of a device, by a way that is not under test.

use anyhow::Context;
use warpbell::Ssd;
use warpbell_hw::{Lba, Nsid};
use warpbell_softctl::SoftDevice;
use warpbell_workload::{Control, Extent, read_blocks, write_blocks};

/// Reads and writes whole blocks.
pub trait Blocks: Send + Sync {
    /// Stores `bytes` from block `lba` of namespace `nsid` on.
    fn store(&self, nsid: Nsid, lba: Lba, bytes: &[u8]) -> anyhow::Result<()>;
    /// Loads the blocks from `lba` on into `bytes`.
    fn load(&self, nsid: Nsid, lba: Lba, bytes: &mut [u8]) -> anyhow::Result<()>;
}

/// Straight from and to the controller's memory.
impl Blocks for SoftDevice {
    fn store(&self, nsid: Nsid, lba: Lba, bytes: &[u8]) -> anyhow::Result<()> {
        Ok(self.poke(nsid, lba, bytes)?)
    }

    fn load(&self, nsid: Nsid, lba: Lba, bytes: &mut [u8]) -> anyhow::Result<()> {
        Ok(self.peek(nsid, lba, bytes)?)
    }
}

/// By the driver's own queue.
impl Blocks for Ssd {
    fn store(&self, nsid: Nsid, lba: Lba, mut bytes: &[u8]) -> anyhow::Result<()> {
        let extent = extent(self, nsid, lba, bytes.len())?;
        write_blocks(self, extent, &mut bytes, &Control::new()).context("write blocks")?;
        Ok(())
    }

    fn load(&self, nsid: Nsid, lba: Lba, mut bytes: &mut [u8]) -> anyhow::Result<()> {
        let extent = extent(self, nsid, lba, bytes.len())?;
        read_blocks(self, extent, &mut bytes, &Control::new()).context("read blocks")?;
        Ok(())
    }
}

fn extent(ssd: &Ssd, nsid: Nsid, lba: Lba, bytes: usize) -> anyhow::Result<Extent> {
    let block = ssd.namespace(Some(nsid))?.block_size as usize;
    anyhow::ensure!(bytes.is_multiple_of(block), "{bytes} bytes are no whole blocks of {block}");
    Ok(Extent { nsid, lba, count: (bytes / block) as u64 })
}
