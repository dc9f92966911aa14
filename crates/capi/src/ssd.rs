//! Open SSDs, and the host's own reads and writes.

use std::sync::Arc;

use warpbell::{OpenOptions, Ssd};
use warpbell_hw::{Lba, Nsid};

use crate::error::{Answer, Failure};
use crate::handle::{Kind, Table};
use crate::host_io::IoMemory;
use crate::scope::Users;
use crate::types::{Head, NamespaceInfo, SsdInfo};

pub(crate) static SSDS: Table<OpenSsd> = Table::new(Kind::Ssd);

/// An SSD that a C program has open.
pub(crate) struct OpenSsd {
    /// Memory for I/O of the host's. Goes before the SSD.
    pub(crate) memory: IoMemory,
    pub(crate) ssd: Arc<Ssd>,
    pub(crate) users: Users,
}

impl OpenSsd {
    pub(crate) fn open(name: &str, options: OpenOptions) -> Answer<u64> {
        warpbell::log::start_if_asked();
        let name = name.parse().map_err(warpbell::Error::from)?;
        let ssd = Ssd::open(&name, &options)?;
        if ssd.soft().is_some_and(|soft| soft.is_stepped()) {
            let reason = "virtual time is for simulations and `warpbell bench`; leave time=virtual out";
            return Err(Failure::invalid(format!("device {name}: {reason}")));
        }
        let what = "close each queue, buffer and file first (warpbell_queues_close, warpbell_io_queue_close, \
                    warpbell_io_buffer_close, warpbell_file_close)";
        let (memory, users) = (IoMemory::default(), Users::new("ssd", what));
        Ok(SSDS.add(OpenSsd { memory, ssd: Arc::new(ssd), users }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let ssd = SSDS.close(handle, |ssd| ssd.users.close())?;
        Ok(ssd.ssd.delete_host_queues()?)
    }

    pub(crate) fn info(&self) -> SsdInfo {
        let identify = self.ssd.identify();
        SsdInfo {
            head: Head::of::<SsdInfo>(),
            model: fixed(identify.model()),
            serial: fixed(identify.serial()),
            firmware: fixed(identify.firmware()),
            max_transfer_bytes: self.ssd.max_transfer_bytes().unwrap_or(0),
            namespaces: self.ssd.namespaces().len() as u32,
            queues: u32::from(self.ssd.granted_queues()),
        }
    }

    pub(crate) fn namespace_info(&self, index: u32) -> Answer<NamespaceInfo> {
        let all = self.ssd.namespaces();
        let namespace = all.get(index as usize).ok_or_else(|| {
            Failure::invalid(format!(
                "namespace index {index}: the device has {} usable namespaces",
                all.len()
            ))
        })?;
        Ok(NamespaceInfo {
            head: Head::of::<NamespaceInfo>(),
            blocks: namespace.blocks,
            block_bytes: namespace.block_size,
            nsid: namespace.nsid.get(),
            writable: u32::from(self.ssd.may_write(namespace).is_ok()),
            pad0: 0,
        })
    }

    pub(crate) fn read(&self, nsid: u32, lba: u64, into: &mut [u8]) -> Answer<()> {
        Ok(self.ssd.read(chosen(nsid), Lba(lba), into)?)
    }

    pub(crate) fn write(&self, nsid: u32, lba: u64, from: &[u8]) -> Answer<()> {
        Ok(self.ssd.write(chosen(nsid), Lba(lba), from)?)
    }

    pub(crate) fn flush(&self, nsid: u32) -> Answer<()> {
        Ok(self.ssd.flush(chosen(nsid))?)
    }
}

/// The namespace of that identifier; 0: the first usable one.
fn chosen(nsid: u32) -> Option<Nsid> {
    (nsid != 0).then_some(Nsid(nsid))
}

/// Text with a zero byte at its end, cut to fit.
pub(crate) fn fixed<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}
