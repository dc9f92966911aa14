//! Volumes of a C program: the queues of several SSDs as one.

use std::sync::Arc;

use parking_lot::Mutex;
use warpbell::{Attachment, VolumeLayout, VolumeSpec};
use warpbell_hw::Window;
use warpbell_kernels::abi::{self, VolumeBufferRef, VolumeRef};

use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::queues::{QUEUES, Queues};
use crate::scope::{User, Users};
use crate::ssd::fixed;
use crate::types::{Head, MemberInfo, VolumeInfo};

pub(crate) static VOLUMES: Table<Volume> = Table::new(Kind::Volume);
pub(crate) static VOLUME_BUFFERS: Table<VolumeBuffer> = Table::new(Kind::VolumeBuffer);

/// A volume of a C program's.
pub(crate) struct Volume {
    pub(crate) volume: Arc<warpbell::Volume>,
    /// Runs, caches, tiles and I/O.
    pub(crate) users: Users,
    /// Whether buffers may be made.
    open: Mutex<bool>,
    /// As they were given.
    pub(crate) queues: Vec<Arc<Queues>>,
    info: VolumeInfo,
    /// Keep the queues open.
    _members: Vec<User>,
}

/// Memory that all SSDs of a volume have mapped.
pub(crate) struct VolumeBuffer {
    pub(crate) buffer: Arc<warpbell::VolumeBuffer>,
    volume: Arc<Volume>,
}

/// What a C program asks for; zeros are defaults.
pub(crate) struct Request {
    pub(crate) layout: u32,
    pub(crate) chunk_bytes: u64,
    pub(crate) distances: Vec<u32>,
}

impl Request {
    fn spec(self) -> Answer<VolumeSpec> {
        let layout = match self.layout {
            abi::VOLUME_STRIPE => VolumeLayout::Stripe,
            abi::VOLUME_REPLICATE => VolumeLayout::Replicate,
            abi::VOLUME_CONCATENATE => VolumeLayout::Concatenate,
            other => {
                let rule = "must be WARPBELL_VOLUME_STRIPE, WARPBELL_VOLUME_REPLICATE or WARPBELL_VOLUME_CONCATENATE";
                return Err(Failure::invalid(format!("layout {other}: {rule}")));
            }
        };
        let spec = VolumeSpec::new().layout(layout).distances(self.distances);
        Ok(if self.chunk_bytes == 0 { spec } else { spec.chunk_bytes(self.chunk_bytes) })
    }
}

impl Volume {
    pub(crate) fn create(queues: &[u64], request: Request) -> Answer<u64> {
        let queues: Vec<_> = queues.iter().map(|handle| QUEUES.get(*handle)).collect::<Answer<_>>()?;
        let members: Vec<_> = queues.iter().map(|queues| queues.made.enter(|| ())).collect::<Answer<_>>()?;
        let (layout, spec) = (request.layout, request.spec()?);
        let attachments: Vec<&Attachment> = queues.iter().map(|queues| &queues.attachment).collect();
        let volume = Arc::new(warpbell::Volume::new(&attachments, &spec)?);
        let info = VolumeInfo {
            head: Head::of::<VolumeInfo>(),
            blocks: volume.blocks(),
            chunk_bytes: spec.chunk_bytes,
            block_bytes: volume.block_bytes(),
            members: queues.len() as u32,
            layout,
            pad0: 0,
        };
        let users = Users::new(
            "volume",
            "close each run, cache, schedule and I/O of it first (warpbell_run_close, warpbell_cache_close, \
             warpbell_tiles_close, warpbell_volume_io_close)",
        );
        Ok(VOLUMES.add(Volume { volume, users, open: Mutex::new(true), queues, info, _members: members }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let close = |volume: &Volume| {
            // Runs of its queues may have been handed its reference.
            volume.users.none()?;
            volume.no_runs()?;
            volume.users.close()
        };
        let volume = VOLUMES.close(handle, close)?;
        *volume.open.lock() = false;
        VOLUME_BUFFERS.close_those(|buffer| Arc::ptr_eq(&buffer.volume, &volume));
        Ok(())
    }

    /// The queues that were given first: there are some.
    pub(crate) fn first(&self) -> &Arc<Queues> {
        &self.queues[0]
    }

    pub(crate) fn info(&self) -> &VolumeInfo {
        &self.info
    }

    pub(crate) fn member(&self, index: u32) -> Answer<MemberInfo> {
        let members = self.volume.report()?;
        let found = members.get(index as usize).ok_or_else(|| {
            Failure::invalid(format!("member {index}: the volume has members 0 to {}", members.len() - 1))
        })?;
        Ok(MemberInfo {
            head: Head::of::<MemberInfo>(),
            name: fixed(&found.name),
            bytes_read: found.bytes_read,
            bytes_written: found.bytes_written,
            errors: found.errors,
            error_status: found.error_status,
            present: found.present.into(),
            avoided: found.avoided.into(),
            pad0: 0,
        })
    }

    pub(crate) fn to_ref(&self) -> Answer<VolumeRef> {
        Ok(warpbell::Volume::as_ref(&self.volume)?)
    }

    pub(crate) fn enter_run(&self) -> Answer<Vec<User>> {
        let mut users = vec![self.users.enter(|| ())?];
        for queues in &self.queues {
            users.push(queues.enter_run()?);
        }
        Ok(users)
    }

    pub(crate) fn no_runs(&self) -> Answer<()> {
        self.queues.iter().try_for_each(|queues| queues.runs.none())
    }
}

impl VolumeBuffer {
    pub(crate) fn alloc(volume: u64, bytes: usize) -> Answer<u64> {
        VolumeBuffer::make(volume, |volume| {
            if bytes == 0 {
                return Err(Failure::invalid("bytes 0: a buffer has at least 1 byte"));
            }
            Ok(volume.buffer(bytes)?)
        })
    }

    /// `bytes` bytes of the program's, `skip` bytes behind the beginning of `pages`.
    pub(crate) fn register(volume: u64, (pages, skip): (Window, usize), bytes: usize) -> Answer<u64> {
        VolumeBuffer::make(volume, |volume| Ok(volume.register(pages, (skip, bytes))?))
    }

    fn make(
        volume: u64,
        make: impl FnOnce(&warpbell::Volume) -> Answer<warpbell::VolumeBuffer>,
    ) -> Answer<u64> {
        let volume = VOLUMES.get(volume)?;
        // Held until the buffer is in the table: whoever closes the volume finds it there.
        let open = volume.open.lock();
        if !*open {
            return Err(Failure::new(Code::Handle, "volume: closed meanwhile by another thread"));
        }
        let buffer = Arc::new(make(&volume.volume)?);
        Ok(VOLUME_BUFFERS.add(VolumeBuffer { buffer, volume: volume.clone() }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let close = |buffer: &VolumeBuffer| {
            buffer.volume.no_runs()?;
            // Requests have the memory.
            let users = Arc::strong_count(&buffer.buffer) - 1;
            if users != 0 {
                let remedy = "take their ends first (warpbell_volume_io_next)";
                let text =
                    format!("volume buffer: {users} parts of requests over it have not ended: {remedy}");
                return Err(Failure::new(Code::Busy, text));
            }
            Ok(buffer.volume.volume.release(&buffer.buffer)?)
        };
        let buffer = VOLUME_BUFFERS.close(handle, close)?;
        let lost = buffer.buffer.lost();
        if lost == 0 {
            return Ok(());
        }
        let text = format!(
            "volume buffer: a controller did not delete the queue of {lost} parts of requests over it, and may still use it: \
             it is closed, but stays mapped until the SSD is closed"
        );
        Err(Failure::new(Code::InUse, text))
    }

    pub(crate) fn to_ref(&self) -> VolumeBufferRef {
        warpbell::VolumeBuffer::as_ref(&self.buffer)
    }
}
