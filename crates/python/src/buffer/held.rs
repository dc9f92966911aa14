//! What a buffer has of its memory while it is open, and who has it besides.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpbell::{DeviceMemory, Error};
use warpbell_hw::Window;

use super::BufferCore;
use crate::error::{Failure, Kind};
use crate::queues::QueuesCore;
use crate::volume::{OpenVolume, VolumeCore};

/// The memory, as long as the buffer is open.
pub(super) enum Held {
    Mapped(Mapped),
    /// Not mapped any more, with the name of what was closed.
    Plain(Plain, String),
}

/// Memory that is mapped for SSDs.
#[derive(Clone)]
pub(crate) enum Mapped {
    /// For one.
    One(warpbell::Buffer),
    /// For each of a volume's.
    All(Arc<warpbell::VolumeBuffer>),
}

/// Memory without a mapping for an SSD.
#[derive(Clone)]
pub(super) enum Plain {
    Host { _window: Window },
    Device { _memory: DeviceMemory },
}

impl Mapped {
    /// As the SSD of the buffer has it: a volume's first one.
    pub(crate) fn first(&self) -> &warpbell::Buffer {
        match self {
            Mapped::One(memory) => memory,
            Mapped::All(memory) => memory.buffer(),
        }
    }

    fn plain(&self) -> Option<Plain> {
        let memory = self.first();
        let device = || memory.device_memory().cloned().map(|_memory| Plain::Device { _memory });
        memory.window().cloned().map(|_window| Plain::Host { _window }).or_else(device)
    }
}

impl Held {
    pub(super) fn plain(&self) -> Option<Plain> {
        match self {
            Held::Mapped(memory) => memory.plain(),
            Held::Plain(plain, _) => Some(plain.clone()),
        }
    }
}

/// What has a buffer's mapping, too.
pub(crate) enum Maker {
    /// Nothing: it is an SSD's.
    Ssd,
    /// Queues that it was made for: kernels of a GPU reach no other memory.
    Queues(Weak<QueuesCore>),
    /// A volume.
    Volume(Weak<VolumeCore>),
    /// A volume's buffer, of which this is another name, for kernels of these queues.
    View(Weak<QueuesCore>),
}

impl Maker {
    pub(super) fn is(&self, queues: &Arc<QueuesCore>) -> bool {
        match self {
            Maker::Queues(own) | Maker::View(own) => std::ptr::eq(own.as_ptr(), Arc::as_ptr(queues)),
            Maker::Ssd | Maker::Volume(_) => false,
        }
    }

    /// Kernels that run, and may have been told where the memory lies.
    pub(super) fn running(&self) -> usize {
        match self {
            Maker::Queues(queues) => queues.upgrade().map_or(0, |queues| queues.running()),
            Maker::Volume(volume) => volume.upgrade().map_or(0, |volume| volume.running()),
            Maker::Ssd | Maker::View(_) => 0,
        }
    }

    /// The volume that it is of, if it is one's and that is there.
    pub(super) fn volume(&self) -> Option<Arc<VolumeCore>> {
        match self {
            Maker::Volume(volume) => volume.upgrade(),
            _ => None,
        }
    }

    /// Lets go of the memory there, too. No kernel runs that may use it, and `volume` is not closed meanwhile: who closes it
    /// looks for memory that its buffers have.
    pub(super) fn release(&self, memory: &Mapped, volume: Option<&OpenVolume<'_>>) -> Result<(), Error> {
        match (self, memory, volume) {
            (Maker::Queues(queues), Mapped::One(memory), _) => {
                queues.upgrade().map_or(Ok(()), |queues| queues.release(memory))
            }
            (_, Mapped::All(memory), Some(volume)) => volume.release(memory),
            _ => Ok(()),
        }
    }
}

/// Why memory stays mapped though its `object` was closed: a command of a kernel has not ended.
pub(crate) fn still_mapped(object: impl std::fmt::Display, error: Error) -> Failure {
    let Error::Busy { reason, .. } = error else { return error.into() };
    let text = format!(
        "{object}: {reason}, and may use its memory: it is closed, but that stays mapped until the queues are closed"
    );
    Failure::new(Kind::InUse, text)
}

/// A launch that has the memory. It counts until it is dropped.
pub(crate) struct Handed {
    count: Arc<AtomicUsize>,
}

impl Handed {
    pub(super) fn new(count: &Arc<AtomicUsize>) -> Handed {
        count.fetch_add(1, Ordering::Relaxed);
        Handed { count: count.clone() }
    }
}

impl Drop for Handed {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Release);
    }
}

/// Memory of I/O that is over, which the controller may still use. Not the buffer, which keeps the SSD.
pub(super) struct Lost {
    pub(super) count: Arc<AtomicUsize>,
    pub(super) _memory: warpbell::Buffer,
}

impl Drop for Lost {
    fn drop(&mut self) {
        self.count.fetch_sub(1, Ordering::Release);
    }
}

/// Buffers that were made, and may be open.
#[derive(Default)]
pub(crate) struct Buffers(Mutex<(Vec<Weak<BufferCore>>, usize)>);

/// How many there may be at least before those that are gone are looked for.
const FEW: usize = 64;

impl Buffers {
    pub(crate) fn add(&self, buffer: &Arc<BufferCore>) {
        let (all, limit) = &mut *self.0.lock();
        if all.len() >= *limit {
            all.retain(|buffer| buffer.strong_count() > 0);
            *limit = (2 * all.len()).max(FEW);
        }
        all.push(Arc::downgrade(buffer));
    }

    /// Takes all that are there out of the list.
    pub(crate) fn take(&self) -> Vec<Arc<BufferCore>> {
        let all = std::mem::take(&mut self.0.lock().0);
        all.iter().filter_map(Weak::upgrade).collect()
    }
}
