//! Memory for requests of the host, found by its addresses.

use std::any::Any;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use warpbell::DataPointers;
use warpbell_hw::Window;

use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::scope::User;
use crate::ssd::{OpenSsd, SSDS};

static BUFFERS: Table<OpenBuffer> = Table::new(Kind::IoBuffer);

/// The users of a buffer once it is closed: no more come.
const CLOSED: usize = 1 << (usize::BITS - 1);

/// Buffers of one SSD, by the address of their first byte. None overlaps another.
#[derive(Default)]
pub(crate) struct IoMemory(Mutex<BTreeMap<usize, Arc<IoBuffer>>>);

/// Memory that requests may name. Queues remember it beyond its end: what keeps it mapped is in [`OpenBuffer`].
pub(crate) struct IoBuffer {
    /// Where the program finds it.
    base: usize,
    bytes: usize,
    /// From the beginning of what is mapped.
    skip: usize,
    data: DataPointers,
    /// Requests over it, or [`CLOSED`].
    users: AtomicUsize,
    /// Requests that are over, of which the controller may still execute commands.
    lost: AtomicUsize,
}

/// A buffer that a program has open.
struct OpenBuffer {
    core: Arc<IoBuffer>,
    memory: warpbell::Buffer,
    ssd: Arc<OpenSsd>,
    /// Keeps the SSD open.
    _user: User,
}

/// A request over a buffer. It counts until it is dropped.
pub(crate) struct Use(Arc<IoBuffer>);

impl Drop for Use {
    fn drop(&mut self) {
        self.0.users.fetch_sub(1, Ordering::Release);
    }
}

/// A request that is over, whose queue was not deleted. It counts until the controller is disabled.
struct Lost(Arc<IoBuffer>);

impl Drop for Lost {
    fn drop(&mut self) {
        self.0.lost.fetch_sub(1, Ordering::Release);
    }
}

impl warpbell::IoMemory for Use {
    fn keep(self) -> Box<dyn Any + Send> {
        self.0.lost.fetch_add(1, Ordering::Release);
        Box::new(Lost(self.0.clone()))
    }
}

impl IoMemory {
    /// The buffer that these bytes lie in.
    pub(super) fn find(&self, address: usize, bytes: usize) -> Option<Arc<IoBuffer>> {
        let all = self.0.lock();
        let (_, buffer) = all.range(..=address).next_back()?;
        buffer.has(address, bytes).then(|| buffer.clone())
    }

    fn add(&self, buffer: &Arc<IoBuffer>) -> Answer<()> {
        let mut all = self.0.lock();
        let (base, end) = (buffer.base, buffer.base + buffer.bytes);
        if let Some((_, other)) = all.range(..end).next_back().filter(|(_, other)| other.end() > base) {
            return Err(Failure::invalid(format!(
                "memory {base:#x} of {} bytes: overlaps the open buffer at {:#x} of {} bytes",
                buffer.bytes, other.base, other.bytes
            )));
        }
        all.insert(base, buffer.clone());
        Ok(())
    }

    fn remove(&self, buffer: &IoBuffer) {
        self.0.lock().remove(&buffer.base);
    }
}

impl IoBuffer {
    /// Memory of the library's: where it lies, and its handle.
    pub(crate) fn alloc(ssd: u64, bytes: usize) -> Answer<(u64, usize)> {
        if bytes == 0 {
            return Err(Failure::invalid("bytes 0: a buffer has at least 1 byte"));
        }
        let ssd = SSDS.get(ssd)?;
        let memory = ssd.ssd.buffer(bytes)?;
        let base = memory
            .window()
            .map(|window| window.as_ptr() as usize)
            .ok_or_else(|| Failure::new(Code::Internal, "buffer: the host has no pointer to it"))?;
        Ok((IoBuffer::open(ssd, memory, base, bytes)?, base))
    }

    /// `bytes` bytes of the program's, `skip` bytes behind the beginning of `pages`.
    pub(crate) fn register(ssd: u64, (pages, skip): (Window, usize), bytes: usize) -> Answer<u64> {
        let (ssd, base) = (SSDS.get(ssd)?, pages.as_ptr() as usize + skip);
        let memory = ssd.ssd.register(pages)?;
        IoBuffer::open(ssd, memory, base, bytes)
    }

    fn open(ssd: Arc<OpenSsd>, memory: warpbell::Buffer, base: usize, bytes: usize) -> Answer<u64> {
        let user = ssd.users.enter(|| {})?;
        let data = DataPointers::new(memory.as_ref(), ssd.ssd.data_path().data_pointer);
        let skip = base - memory.window().map_or(base, |window| window.as_ptr() as usize);
        let core = Arc::new(IoBuffer {
            base,
            bytes,
            skip,
            data,
            users: AtomicUsize::new(0),
            lost: AtomicUsize::new(0),
        });
        ssd.memory.add(&core)?;
        Ok(BUFFERS.add(OpenBuffer { core, ssd, memory, _user: user }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let buffer = BUFFERS.close(handle, |buffer| buffer.core.retire())?;
        let ssd = &buffer.ssd;
        ssd.memory.remove(&buffer.core);
        let lost = buffer.core.lost.load(Ordering::Acquire);
        if lost == 0 {
            return Ok(());
        }
        ssd.ssd.controller().keep_until_disabled(buffer.memory.clone());
        let text = format!(
            "buffer: {} did not delete the queue of {lost} requests over it, and may still use it: it is closed, but stays \
             mapped until the SSD is closed",
            ssd.ssd.name()
        );
        Err(Failure::new(Code::InUse, text))
    }

    /// No more users, or refused while there are some.
    fn retire(&self) -> Answer<()> {
        let retired = self.users.compare_exchange(0, CLOSED, Ordering::Acquire, Ordering::Relaxed);
        retired.map(drop).map_err(|users| {
            let remedy = "poll them first (warpbell_io_poll)";
            Failure::new(Code::Busy, format!("buffer: {users} requests over it were not polled: {remedy}"))
        })
    }

    /// One more user, unless it was closed.
    pub(super) fn enter(self: &Arc<IoBuffer>) -> Option<Use> {
        let user = Use(self.clone());
        // Counted before the look, as its end will be in any case.
        (self.users.fetch_add(1, Ordering::Acquire) & CLOSED == 0).then_some(user)
    }

    /// Whether these bytes lie in it.
    pub(super) fn has(&self, address: usize, bytes: usize) -> bool {
        address >= self.base && bytes <= self.bytes && address - self.base <= self.bytes - bytes
    }

    /// How commands name the byte at this address.
    pub(super) fn data(&self, address: usize) -> (DataPointers, u64) {
        (self.data, (address - self.base + self.skip) as u64)
    }

    fn end(&self) -> usize {
        self.base + self.bytes
    }
}
