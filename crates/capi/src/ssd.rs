//! Open SSDs, and the host's own reads and writes.

use std::collections::HashMap;

use parking_lot::Mutex;
use warpbell::{BlockIo, OpenOptions, Ssd};
use warpbell_driver::Namespace;
use warpbell_hw::{Lba, Nsid};

use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::scope::Users;
use crate::types::{Head, NamespaceInfo, SsdInfo};

pub(crate) static SSDS: Table<OpenSsd> = Table::new(Kind::Ssd);

/// An SSD that a C program has open.
pub(crate) struct OpenSsd {
    /// Queues of the host by namespace, made when first used. Gone before the SSD is.
    io: Mutex<HashMap<u32, BlockIo>>,
    pub(crate) ssd: Ssd,
    pub(crate) users: Users,
    allow_write: Vec<String>,
}

/// Whole blocks of a namespace.
struct Extent {
    nsid: u32,
    lba: u64,
}

impl OpenSsd {
    pub(crate) fn open(name: &str, options: OpenOptions) -> Answer<u64> {
        crate::log::start();
        let name = name.parse().map_err(warpbell::Error::from)?;
        let ssd = Ssd::open(&name, &options)?;
        if ssd.soft().is_some_and(|soft| soft.is_stepped()) {
            let reason = "virtual time is for simulations and `warpbell bench`; leave time=virtual out";
            return Err(Failure::invalid(format!("device {name}: {reason}")));
        }
        let users = Users::new("close each queues handle first (warpbell_queues_close)");
        let allow_write = options.allow_write;
        Ok(SSDS.add(OpenSsd { io: Mutex::default(), ssd, users, allow_write }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let ssd = SSDS.close(handle, |ssd| ssd.users.close())?;
        let queues = std::mem::take(&mut *ssd.io.lock());
        queues.into_values().try_for_each(|io| Ok(io.finish()?))
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
            writable: u32::from(self.may_write(namespace).is_ok()),
            pad0: 0,
        })
    }

    pub(crate) fn read(&self, nsid: u32, lba: u64, into: &mut [u8]) -> Answer<()> {
        let extent = self.extent(self.find(nsid)?, lba, into.len())?;
        self.with_io(extent.nsid, |io| io.read(Lba(extent.lba), into))
    }

    pub(crate) fn write(&self, nsid: u32, lba: u64, from: &[u8]) -> Answer<()> {
        let namespace = self.find(nsid)?;
        self.may_write(namespace)?;
        let extent = self.extent(namespace, lba, from.len())?;
        check_tail(namespace, lba, from.len())?;
        self.with_io(extent.nsid, |io| io.write(Lba(extent.lba), from))
    }

    pub(crate) fn flush(&self, nsid: u32) -> Answer<()> {
        let nsid = self.find(nsid)?.nsid.get();
        self.with_io(nsid, BlockIo::flush)
    }

    /// The host's queue goes with the first error: a command that timed out may still use its buffer until then.
    fn with_io(
        &self,
        nsid: u32,
        work: impl FnOnce(&mut BlockIo) -> Result<(), warpbell::Error>,
    ) -> Answer<()> {
        let mut queues = self.io.lock();
        let mut io = match queues.remove(&nsid) {
            Some(io) => io,
            None => BlockIo::new(&self.ssd, Nsid(nsid))?,
        };
        work(&mut io)?;
        queues.insert(nsid, io);
        Ok(())
    }

    /// The namespace of that identifier; 0: the first.
    fn find(&self, nsid: u32) -> Answer<&Namespace> {
        Ok(self.ssd.namespace((nsid != 0).then_some(Nsid(nsid)))?)
    }

    fn extent(&self, namespace: &Namespace, lba: u64, bytes: usize) -> Answer<Extent> {
        let (nsid, block, blocks) = (namespace.nsid.get(), u64::from(namespace.block_size), namespace.blocks);
        let bytes = bytes as u64;
        if bytes == 0 || !bytes.is_multiple_of(block) {
            let rule = format!("must be a multiple of the block size of namespace {nsid}, {block} bytes");
            return Err(Failure::invalid(format!("bytes {bytes}: {rule}")));
        }
        let count = bytes / block;
        if lba >= blocks || count > blocks - lba {
            let limit = format!("namespace {nsid} has blocks 0 to {}", blocks - 1);
            return Err(Failure::invalid(format!("lba {lba} and {count} blocks: {limit}")));
        }
        Ok(Extent { nsid, lba })
    }

    /// Whether the host may write there: to memory, and to what was named.
    fn may_write(&self, namespace: &Namespace) -> Answer<()> {
        let (serial, nsid) = (self.ssd.identify().serial(), namespace.nsid.get());
        let named = self.allow_write.iter().any(|name| self.ssd.is_named(name));
        let refusal = |reason: String| Err(Failure::new(Code::Refused, reason));
        match (self.ssd.soft().is_some(), namespace.write_protected) {
            (true, false) => Ok(()),
            (true, true) => refusal(format!(
                "writing to namespace {nsid} of {} is not permitted: put the path of its file in allow_write",
                self.ssd.name()
            )),
            (false, true) => {
                refusal(format!("namespace {nsid} of SSD {serial} is write-protected by the SSD"))
            }
            (false, false) if named => Ok(()),
            (false, false) => {
                refusal(format!("writing to SSD {serial} is not permitted: put {serial} in allow_write"))
            }
        }
    }
}

/// Refuses writes to a block that a file fills only in part.
fn check_tail(namespace: &Namespace, lba: u64, bytes: usize) -> Answer<()> {
    let block = u64::from(namespace.block_size);
    let end = lba * block + bytes as u64;
    match namespace.exact_bytes {
        Some(exact) if end > exact => Err(Failure::invalid(format!(
            "lba {lba} and {bytes} bytes: they reach into the last block, of which the file has only {} of {block} \
             bytes; at most {} bytes from the start can be written",
            exact % block,
            exact / block * block
        ))),
        _ => Ok(()),
    }
}

/// Text with a zero byte at its end, cut to fit.
pub(crate) fn fixed<const N: usize>(text: &str) -> [u8; N] {
    let mut field = [0; N];
    let len = text.len().min(N - 1);
    field[..len].copy_from_slice(&text.as_bytes()[..len]);
    field
}
