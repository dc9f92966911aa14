//! The controller as the one who copies from and to remote memory.

use std::sync::Arc;

use warpbell_hw::{DmaError, RemoteMemory, Window};

use crate::core::Core;
use crate::memory::{Pin, Remote, RemoteHost};
use crate::store::Namespace;

/// The share of the machine's memory that is page-locked at most for stores: one in so many bytes.
const SHARE: u64 = 2;

impl RemoteHost for Core {
    /// Page-locks the stores of all namespaces in memory, so that copies need no staging, and gives every poll group its queue
    /// and staging memory. None of it is left for later: what an engine sets up may wait for kernels that run, and these
    /// wait for commands.
    fn prepare(&self, memory: Arc<dyn RemoteMemory>) -> Result<Arc<Remote>, DmaError> {
        let pins = self.pin_stores(&memory);
        let remote = Remote::with_pins(memory, pins);
        let opened = self.poll_groups.iter().try_for_each(|cell| cell.lock().engine.copier.open(&remote));
        match opened {
            Ok(()) => Ok(remote),
            Err(error) => {
                self.let_go(&remote)?;
                Err(DmaError::Unsupported { reason: error.to_string() })
            }
        }
    }

    fn let_go(&self, remote: &Arc<Remote>) -> Result<(), DmaError> {
        self.control.lock().engine.refresh();
        let mut ended = true;
        for cell in &self.poll_groups {
            let mut poll_group = cell.lock();
            poll_group.refresh();
            poll_group.settle_copies();
            ended &= poll_group.engine.copier.forget(remote);
        }
        if ended {
            return Ok(());
        }
        let reason = format!("copies from or to {:?} are still in flight: do not free it", remote.memory);
        Err(DmaError::Unsupported { reason })
    }
}

impl Core {
    fn pin_stores(&self, memory: &Arc<dyn RemoteMemory>) -> Vec<Pin> {
        let namespaces = self.subsystem.all_namespaces();
        let stores = namespaces.iter().filter(|one| one.memory().is_some());
        let total: u64 = stores.clone().map(Namespace::allocated).sum();
        let limit = machine_memory() / SHARE;
        if total > limit {
            tracing::warn!(
                total,
                limit,
                "namespaces in memory are not page-locked, and data for {memory:?} is staged: they have more bytes than \
                 half of the machine's memory"
            );
            return Vec::new();
        }
        let windows = stores.filter_map(|one| Some((one, one.memory()?.pinnable())));
        let windows: Vec<_> = windows.collect();
        // A poll group that releases pages of a store has looked whether it may by then, and is done.
        self.poll_groups.iter().for_each(|cell| drop(cell.lock()));
        let pin = |(namespace, window): (&Namespace, Window)| match memory.pin(&window) {
            Ok(_held) => Some(Pin { store: window.as_ptr() as usize, _held }),
            Err(error) => {
                tracing::warn!(nsid = namespace.nsid, %error, "data of this namespace is staged");
                None
            }
        };
        windows.into_iter().filter_map(pin).collect()
    }
}

/// Bytes of memory that the machine has.
fn machine_memory() -> u64 {
    let info = rustix::system::sysinfo();
    info.totalram as u64 * u64::from(info.mem_unit)
}
