//! Memory that kernels, the SSD and the host reach.

use std::sync::Arc;

use warpbell::{DeviceMemory, Gpu};
use warpbell_hw::Window;
use warpbell_kernels::abi::BufferRef;

use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::queues::{QUEUES, Queues};
use crate::scope::Users;

pub(crate) static BUFFERS: Table<Buffer> = Table::new(Kind::Buffer);

/// A buffer of a C program's.
pub(crate) struct Buffer {
    pub(crate) buffer: warpbell::Buffer,
    queues: Arc<Queues>,
    pub(crate) leases: Users,
}

impl Buffer {
    pub(crate) fn alloc(queues: u64, bytes: usize) -> Answer<u64> {
        Buffer::make(queues, |queues| {
            if bytes == 0 {
                return Err(Failure::invalid("bytes 0: a buffer has at least 1 byte"));
            }
            Ok(queues.attachment.buffer(bytes)?)
        })
    }

    pub(crate) fn register(queues: u64, memory: Window) -> Answer<u64> {
        Buffer::make(queues, |queues| Ok(queues.attachment.register(memory)?))
    }

    /// Memory of the GPU that kernels of these queues run on, as `find` finds it there.
    pub(crate) fn register_device(
        queues: u64,
        find: impl FnOnce(&Arc<Gpu>) -> Result<DeviceMemory, warpbell::Error>,
    ) -> Answer<u64> {
        Buffer::make(queues, |queues| {
            let target = queues.attachment.target();
            let gpu = target.gpu().ok_or_else(|| {
                let target = target.target();
                Failure::invalid(format!(
                    "queues: their kernels run on {target}, which has no memory of its own"
                ))
            })?;
            Ok(queues.attachment.register_device(&find(gpu)?)?)
        })
    }

    fn make(queues: u64, make: impl FnOnce(&Queues) -> Answer<warpbell::Buffer>) -> Answer<u64> {
        let queues = QUEUES.get(queues)?;
        // Held until the buffer is in the table: whoever closes the queues finds it there.
        let open = queues.open.lock();
        if !*open {
            return Err(Failure::new(Code::Handle, "queues: closed meanwhile by another thread"));
        }
        let buffer = make(&queues)?;
        let leases = Users::new("buffer", "close each lease that names it first (warpbell_lease_close)");
        Ok(BUFFERS.add(Buffer { buffer, queues: queues.clone(), leases }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let close = |buffer: &Buffer| {
            // Nobody takes a lease meanwhile.
            let _open = buffer.queues.open.lock();
            buffer.leases.none()?;
            buffer.queues.runs.none()?;
            buffer.queues.attachment.release(&buffer.buffer)?;
            buffer.leases.close()
        };
        BUFFERS.close(handle, close).map(drop)
    }

    pub(crate) fn belongs_to(&self, queues: &Arc<Queues>) -> bool {
        Arc::ptr_eq(&self.queues, queues)
    }

    pub(crate) fn to_ref(&self) -> BufferRef {
        self.buffer.as_ref()
    }
}
