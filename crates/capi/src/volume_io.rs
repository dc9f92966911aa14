//! Reads and writes of volumes by the host, which a C program asks for and takes the ends of.

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use warpbell::{Lba, Ssd, VolumeBuffer, VolumeIo, VolumeIoSpec, VolumeRequest};
use warpbell_base::Time;

use crate::error::{Answer, Code, Failure};
use crate::handle::{Kind, Table};
use crate::scope::User;
use crate::ssd::fixed;
use crate::types::{Head, VolumeIoEnd, VolumeIoOptions};
use crate::volume::{VOLUME_BUFFERS, VOLUMES};

pub(crate) static VOLUME_IOS: Table<Io> = Table::new(Kind::VolumeIo);

/// Polls without an end before whoever waits sleeps between polls: an SSD answers within them.
const EAGER_POLLS: u32 = 20_000;
const NAP: Duration = Duration::from_micros(100);

/// I/O of a volume of a C program's.
pub(crate) struct Io {
    /// None once it was closed.
    io: Mutex<Option<VolumeIo>>,
    /// Keeps the volume open.
    _user: User,
}

/// Which blocks, and where in a buffer.
pub(crate) struct Extent {
    pub(crate) buffer: u64,
    pub(crate) at: u64,
    pub(crate) first_block: u64,
    pub(crate) blocks: u64,
}

impl Io {
    pub(crate) fn open(volume: u64, options: &VolumeIoOptions) -> Answer<u64> {
        let volume = VOLUMES.get(volume)?;
        let user = volume.users.enter(|| ())?;
        let default = VolumeIoSpec::default();
        let timeout = Duration::from_nanos(options.timeout_ns);
        let spec = VolumeIoSpec::new()
            .depth(if options.depth == 0 { default.depth } else { options.depth })
            .timeout(if timeout.is_zero() { default.timeout } else { timeout });
        let mut io = VolumeIo::new(&volume.volume, &spec)?;
        if options.write != 0 {
            let ssds: Vec<&Ssd> = volume.queues.iter().map(|queues| &*queues.ssd.ssd).collect();
            io = io.allow_write(&ssds)?;
        }
        Ok(VOLUME_IOS.add(Io { io: Mutex::new(Some(io)), _user: user }))
    }

    pub(crate) fn close(handle: u64) -> Answer<()> {
        let mut taken = None;
        VOLUME_IOS.close(handle, |io| {
            let text = "volume I/O: another thread is in a call with it";
            let mut io = io.io.try_lock().ok_or_else(|| Failure::new(Code::Busy, text))?;
            let count = io.as_ref().map_or(0, VolumeIo::outstanding);
            if count != 0 {
                let text = format!(
                    "volume I/O: still in use, {count} requests: take their ends first (warpbell_volume_io_next)"
                );
                return Err(Failure::new(Code::Busy, text));
            }
            taken = io.take();
            Ok(())
        })?;
        Ok(taken.map_or(Ok(()), VolumeIo::close)?)
    }

    pub(crate) fn read(&self, extent: &Extent) -> Answer<u64> {
        let Extent { at, first_block, blocks, .. } = *extent;
        self.begin(extent, |io, buffer| io.read(buffer, at, Lba(first_block), blocks))
    }

    pub(crate) fn write(&self, extent: &Extent) -> Answer<u64> {
        let Extent { at, first_block, blocks, .. } = *extent;
        self.begin(extent, |io, buffer| io.write(buffer, at, Lba(first_block), blocks))
    }

    fn begin(
        &self,
        extent: &Extent,
        begin: impl FnOnce(&mut VolumeIo, &Arc<VolumeBuffer>) -> Result<VolumeRequest, warpbell::Error>,
    ) -> Answer<u64> {
        let buffer = VOLUME_BUFFERS.get(extent.buffer)?;
        self.with(|io| Ok(begin(io, &buffer.buffer)?.get()))
    }

    pub(crate) fn flush(&self) -> Answer<u64> {
        self.with(|io| Ok(io.flush()?.get()))
    }

    /// Does something with the queues, unless another thread has closed them.
    fn with<T>(&self, work: impl FnOnce(&mut VolumeIo) -> Answer<T>) -> Answer<T> {
        let mut io = self.io.lock();
        work(
            io.as_mut().ok_or_else(|| {
                Failure::new(Code::Handle, "volume I/O: closed meanwhile by another thread")
            })?,
        )
    }

    /// The next request that has ended; `None`: as long as there are some.
    pub(crate) fn next(&self, timeout: Option<Duration>) -> Answer<VolumeIoEnd> {
        let begin = Instant::now();
        let mut polls = 0u32;
        loop {
            // Others have their turn between two polls.
            let ended = self.with(|io| match io.poll() {
                None if io.outstanding() == 0 => {
                    Err(Failure::invalid("volume I/O: no request is in flight, so that none can end"))
                }
                ended => Ok(ended),
            })?;
            if let Some((request, answer)) = ended {
                return Ok(end_of(request, answer));
            }
            if let Some(timeout) = timeout.filter(|timeout| begin.elapsed() >= *timeout) {
                let text = format!("volume I/O: no request has ended within {}", Time(timeout));
                return Err(Failure::new(Code::Timeout, text));
            }
            polls = polls.saturating_add(1);
            if polls < EAGER_POLLS { thread::yield_now() } else { thread::sleep(NAP) }
        }
    }
}

fn end_of(request: VolumeRequest, answer: Result<(), warpbell::Error>) -> VolumeIoEnd {
    let failure = answer.err().map(Failure::from);
    let text = failure.as_ref().map_or("", |failure| &failure.text);
    let error = failure.as_ref().map_or(Code::Ok, |failure| failure.code) as u32;
    let head = Head::of::<VolumeIoEnd>();
    VolumeIoEnd { head, request: request.get(), error, pad0: 0, text: fixed(text) }
}
