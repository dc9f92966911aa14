//! Device memory as memory that an engine copies from and to.

use std::any::Any;
use std::sync::Arc;

use warpbell_hw::{AccessError, CopyQueue, RemoteCopy, RemoteMemory, Window};

use crate::sys::Copies;
use crate::{DeviceMemory, GpuError};

/// Copies of one thread.
struct GpuCopies {
    copies: Copies,
    /// The next batch.
    pushed: Vec<(RemoteCopy, u64)>,
}

impl RemoteMemory for DeviceMemory {
    fn len(&self) -> u64 {
        DeviceMemory::len(self) as u64
    }

    fn queue(&self) -> Result<Box<dyn CopyQueue>, AccessError> {
        let copies = Copies::new(self.allocation().clone()).map_err(engine)?;
        Ok(Box::new(GpuCopies { copies, pushed: Vec::new() }))
    }

    /// Registers all of the memory that `host` lies in.
    fn pin(&self, host: &Window) -> Result<Box<dyn Any + Send + Sync>, AccessError> {
        let registered = self.gpu().register(host);
        let refused = |error: GpuError| AccessError::Pin { len: host.len(), reason: error.to_string() };
        Ok(Box::new(Arc::new(registered.map_err(refused)?)))
    }
}

fn engine(error: GpuError) -> AccessError {
    AccessError::Engine { reason: error.to_string() }
}

impl CopyQueue for GpuCopies {
    fn push(&mut self, copy: RemoteCopy, tag: u64) -> Result<(), AccessError> {
        self.copies.check(&copy).map_err(|error| AccessError::Copy {
            direction: copy.direction,
            at: copy.at,
            len: copy.host.len() as u64,
            reason: error.to_string(),
        })?;
        self.pushed.push((copy, tag));
        Ok(())
    }

    fn submit(&mut self) -> Result<(), AccessError> {
        self.copies.start(&mut self.pushed).map_err(engine)
    }

    fn finished(&mut self) -> Option<(u64, Result<(), AccessError>)> {
        let (tag, result) = self.copies.finished()?;
        Some((tag, result.map_err(engine)))
    }
}
