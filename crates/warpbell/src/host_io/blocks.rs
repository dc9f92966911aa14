//! Whole blocks of an open SSD, read and written by the host.

use std::collections::HashMap;
use std::fmt::Display;
use std::sync::Arc;

use parking_lot::Mutex;
use warpbell_driver::Namespace;
use warpbell_hw::{Lba, Nsid};

use super::IoOp;
use crate::{BlockIo, Error, Ssd};

/// Queues of the host by namespace, made when first used.
#[derive(Default)]
pub(crate) struct HostQueues(Mutex<HashMap<Nsid, BlockIo>>);

impl Ssd {
    /// Fills `into`, whole blocks, from `lba` on, by a queue of the host's own; `None`: the first usable namespace. Waits
    /// for the SSD, at most 30 s without an answer; calls on one SSD take turns.
    pub fn read(&self, nsid: Option<Nsid>, lba: Lba, into: &mut [u8]) -> Result<(), Error> {
        let namespace = self.namespace(nsid)?;
        check_extent(namespace, lba, into.len() as u64)?;
        self.with_io(namespace.nsid, |io| io.read(lba, into))
    }

    /// Writes `from`, whole blocks, from `lba` on, likewise: to memory, and to what [`OpenOptions::allow_write`] names.
    ///
    /// [`OpenOptions::allow_write`]: crate::OpenOptions::allow_write
    pub fn write(&self, nsid: Option<Nsid>, lba: Lba, from: &[u8]) -> Result<(), Error> {
        let namespace = self.namespace(nsid)?;
        check_extent(namespace, lba, from.len() as u64)?;
        self.check_write(nsid, lba, from.len() as u64)?;
        self.with_io(namespace.nsid, |io| io.write(lba, from))
    }

    /// Makes what was written, by the host or by kernels, durable.
    pub fn flush(&self, nsid: Option<Nsid>) -> Result<(), Error> {
        self.with_io(self.namespace(nsid)?.nsid, BlockIo::flush)
    }

    /// Deletes the queues that [`read`](Ssd::read), [`write`](Ssd::write) and [`flush`](Ssd::flush) made, and reports what
    /// fails at that. They go with the SSD in any case.
    pub fn delete_host_queues(&self) -> Result<(), Error> {
        let queues = std::mem::take(&mut *self.host_queues().0.lock());
        queues.into_values().try_for_each(BlockIo::finish)
    }

    /// Whether the host may write there, and why not.
    pub fn may_write(&self, namespace: &Namespace) -> Result<(), Error> {
        let (serial, nsid) = (self.identify().serial(), namespace.nsid.get());
        let named = self.allow_write().iter().any(|name| self.is_named(name));
        let (reason, remedy) = match (self.soft().is_some(), namespace.write_protected) {
            (true, false) => return Ok(()),
            (false, false) if named => return Ok(()),
            (true, true) => {
                ("writing is not permitted", "put the path of its file in allow_write".to_owned())
            }
            (false, true) => {
                ("the SSD protects it from writing", "namespace write protection is the SSD's".to_owned())
            }
            (false, false) => ("writing is not permitted", format!("put {serial} in allow_write")),
        };
        let object = format!("namespace {nsid} of {}", self.name());
        Err(Error::Refused { object, reason: reason.to_owned(), remedy })
    }

    /// Whether the host may write these bytes, which are whole blocks of the namespace, and why not.
    pub fn check_write(&self, nsid: Option<Nsid>, lba: Lba, bytes: u64) -> Result<(), Error> {
        let namespace = self.namespace(nsid)?;
        self.may_write(namespace)?;
        check_tail(namespace, self.name(), lba, bytes)
    }

    /// The host's queue goes with the first error: a command that timed out may still use its buffer until then.
    fn with_io(&self, nsid: Nsid, work: impl FnOnce(&mut BlockIo) -> Result<(), Error>) -> Result<(), Error> {
        let mut queues = self.host_queues().0.lock();
        let mut io = match queues.remove(&nsid) {
            Some(io) => io,
            None => BlockIo::new(self, nsid)?,
        };
        work(&mut io)?;
        queues.insert(nsid, io);
        Ok(())
    }
}

/// Whether requests of one namespace are in range, allowed, and what its SSD offers.
pub struct RequestCheck {
    ssd: Arc<Ssd>,
    namespace: Namespace,
    /// Whether the host may write there: asked once.
    may_write: bool,
}

impl RequestCheck {
    /// Of a namespace that there is.
    pub fn new(ssd: Arc<Ssd>, nsid: Nsid) -> Result<RequestCheck, Error> {
        let namespace = ssd.namespace(Some(nsid))?.clone();
        let may_write = ssd.may_write(&namespace).is_ok();
        Ok(RequestCheck { ssd, namespace, may_write })
    }

    /// The blocks of a request. A flush has none.
    pub fn blocks(&self, op: IoOp, lba: Lba, bytes: u64) -> Result<u64, Error> {
        if op == IoOp::Flush {
            return Ok(0);
        }
        if op.changes() && !self.may_write {
            self.ssd.may_write(&self.namespace)?;
        }
        check_extent(&self.namespace, lba, bytes)?;
        if op.changes() {
            check_tail(&self.namespace, self.ssd.name(), lba, bytes)?;
        }
        let blocks = bytes / u64::from(self.namespace.block_size);
        let (offers, limits) = (self.ssd.identify().oncs, self.ssd.controller().command_limits());
        let zeroes = limits.zeroes_bytes.unwrap_or(u64::MAX);
        let (offered, what) = match op {
            IoOp::Deallocate => (offers.dataset_management(), "Dataset Management"),
            // One that does not zero even a block by it is as one without.
            IoOp::WriteZeroes => {
                (offers.write_zeroes() && zeroes >= self.namespace.block_size.into(), "Write Zeroes")
            }
            IoOp::Read | IoOp::Write | IoOp::Flush => return Ok(blocks),
        };
        if !offered {
            let limit = format!("{} does not have the command {what}", self.ssd.name());
            return Err(Error::Argument { object: "request", value: op.name().to_owned(), limit });
        }
        Ok(blocks)
    }
}

/// Whether these bytes are whole blocks of the namespace.
fn check_extent(namespace: &Namespace, lba: Lba, bytes: u64) -> Result<(), Error> {
    let (nsid, block, blocks) = (namespace.nsid.get(), u64::from(namespace.block_size), namespace.blocks);
    let refuse = |object, value, limit| Err(Error::Argument { object, value, limit });
    let lba = lba.get();
    if bytes == 0 || !bytes.is_multiple_of(block) {
        let limit = format!("must be a multiple of the block size of namespace {nsid}, {block} bytes");
        return refuse("bytes", bytes.to_string(), limit);
    }
    let count = bytes / block;
    if lba >= blocks || count > blocks - lba {
        let limit = format!("namespace {nsid} has blocks 0 to {}", blocks - 1);
        return refuse("lba", format!("{lba} and {count} blocks"), limit);
    }
    Ok(())
}

/// Refuses writes to a block that a file fills only in part.
pub(crate) fn check_tail(
    namespace: &Namespace,
    ssd: impl Display,
    lba: Lba,
    bytes: u64,
) -> Result<(), Error> {
    let (block, lba) = (u64::from(namespace.block_size), lba.get());
    let end = lba * block + bytes;
    match namespace.exact_bytes {
        Some(exact) if end > exact => {
            let limit = format!(
                "they reach into the last block of {ssd}, of which the file has only {} of {block} bytes; at most {} \
                 bytes from the start can be written",
                exact % block,
                exact / block * block
            );
            Err(Error::Argument { object: "lba", value: format!("{lba} and {bytes} bytes"), limit })
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OpenOptions;

    fn open(name: &str, allow_write: Vec<String>) -> Ssd {
        Ssd::open(&name.parse().unwrap(), &OpenOptions::new().allow_write(allow_write)).unwrap()
    }

    #[test]
    fn blocks_that_the_host_writes_come_back() {
        let ssd = open("soft:size=4m", Vec::new());
        let data: Vec<u8> = (0..3usize << 20).map(|i| ((i * 131) >> 3) as u8).collect();
        ssd.write(None, Lba(7), &data).unwrap();
        ssd.flush(None).unwrap();
        let mut back = vec![0; data.len()];
        ssd.read(Some(Nsid(1)), Lba(7), &mut back).unwrap();
        assert!(back == data);
        ssd.delete_host_queues().unwrap();
        ssd.read(None, Lba(8), &mut back[..512]).unwrap();
        assert!(back[..512] == data[512..1024]);
    }

    #[test]
    fn extents_that_are_wrong_are_refused_with_their_limit() {
        let ssd = open("soft:size=1m", Vec::new());
        let refused =
            |nsid, lba, bytes| ssd.read(nsid, Lba(lba), &mut vec![0; bytes]).unwrap_err().to_string();
        let multiple = "must be a multiple of the block size of namespace 1, 512 bytes";
        assert_eq!(refused(None, 0, 100), format!("bytes 100: {multiple}"));
        assert_eq!(refused(None, 0, 0), format!("bytes 0: {multiple}"));
        assert_eq!(refused(None, 2047, 1024), "lba 2047 and 2 blocks: namespace 1 has blocks 0 to 2047");
        let beyond = "lba 18446744073709551615 and 1 blocks: namespace 1 has blocks 0 to 2047";
        assert_eq!(refused(None, u64::MAX, 512), beyond);
        assert!(refused(Some(Nsid(2)), 0, 512).starts_with("namespace 2: "));
    }

    #[test]
    fn commands_that_the_ssd_lacks_are_named() {
        let name = "soft:size=1m,lacks=write_zeroes+dataset_management";
        let check = RequestCheck::new(Arc::new(open(name, Vec::new())), Nsid(1)).unwrap();
        for (op, request, what) in [
            (IoOp::Deallocate, "trim", "Dataset Management"),
            (IoOp::WriteZeroes, "write of zeroes", "Write Zeroes"),
        ] {
            let text = check.blocks(op, Lba(0), 512).unwrap_err().to_string();
            assert_eq!(text, format!("request {request}: {name} does not have the command {what}"));
        }
        assert_eq!(check.blocks(IoOp::Write, Lba(0), 512).unwrap(), 1);
    }

    #[test]
    fn a_file_is_written_only_if_it_was_named() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("disk.img").display().to_string();
        std::fs::write(&file, vec![0; 1 << 20]).unwrap();
        let name = format!("soft:file={file}");
        let error = open(&name, Vec::new()).write(None, Lba(1), &[7; 512]).unwrap_err();
        assert_eq!(error.exit_code(), 3);
        assert!(error.to_string().contains("allow_write"), "{error}");
        let ssd = open(&name, vec![file.clone()]);
        ssd.write(None, Lba(1), &[7; 512]).unwrap();
        ssd.flush(None).unwrap();
        assert_eq!(std::fs::read(&file).unwrap()[511..514], [0, 7, 7]);
    }
}
