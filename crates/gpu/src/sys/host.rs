//! Host memory and BAR pages that a GPU's kernels may access.
// UNSAFETY: calls the CUDA driver with addresses of mappings that are kept alive.
#![expect(unsafe_code, reason = "calls of the CUDA driver")]

use std::ffi::c_void;
use std::sync::Arc;

use cudarc::driver::sys::{
    CU_MEMHOSTREGISTER_DEVICEMAP, CU_MEMHOSTREGISTER_IOMEMORY, CU_MEMHOSTREGISTER_PORTABLE, CUdeviceptr,
};
use parking_lot::{Condvar, Mutex};
use warpbell_hw::{BASE_PAGE, Window};

use super::context::Context;
use crate::GpuError;

/// Registrations of this process. A driver takes each page once, for all its contexts; so they are counted here.
static REGISTERED: Mutex<Vec<Entry>> = Mutex::new(Vec::new());
/// An entry has come or gone. The lock is not held for a call of the driver, which may wait for kernels that run, and
/// these for other threads.
static CHANGED: Condvar = Condvar::new();

struct Entry {
    start: usize,
    len: usize,
    io: bool,
    state: State,
    /// Registered in it. It must not end before.
    context: Arc<Context>,
    /// Keeps the pages mapped.
    _pages: Window,
}

enum State {
    /// A thread is registering or unregistering it.
    Changing,
    /// Registered, and used so many times.
    There(usize),
}

/// A registration that others may share.
pub(crate) struct HostRegistration {
    driver: usize,
    start: usize,
    len: usize,
}

/// Tells drivers apart: the PTX machine's beside that of GPUs.
fn driver_of(context: &Context) -> usize {
    std::ptr::from_ref(context.functions()).addr()
}

impl HostRegistration {
    /// Registers all of the memory that `window` lies in; of BAR pages (`io`) only those of the window.
    pub(crate) fn new(
        context: &Arc<Context>,
        window: &Window,
        io: bool,
    ) -> Result<HostRegistration, GpuError> {
        let (start, len) = extent(window, io);
        let object = || {
            let what = if io { "BAR pages" } else { "host memory" };
            format!(
                "{}: registration of {len} bytes of {what} at {start:#x}",
                context.device().name_in_errors()
            )
        };
        if let Some(shared) = share_or_claim(context, window, (start, len), io)
            .map_err(|other| GpuError::refused(object(), other.to_string()))?
        {
            return Ok(shared);
        }
        let kind = if io { CU_MEMHOSTREGISTER_IOMEMORY } else { 0 };
        let flags = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP | kind;
        let done = context.enter().and_then(|_current| {
            // SAFETY: the pages are mapped, and stay so while the entry has the window.
            let result =
                unsafe { context.functions().cuMemHostRegister_v2(start as *mut c_void, len, flags) };
            context.outcome(result, object)
        });
        match done {
            Ok(()) => {
                set_there(driver_of(context), start);
                Ok(HostRegistration { driver: driver_of(context), start, len })
            }
            Err(error) => {
                drop(remove(driver_of(context), start));
                Err(error)
            }
        }
    }

    /// Where kernels of `context` see the first byte of `window`, which is part of what is registered.
    pub(crate) fn address(&self, context: &Context, window: &Window) -> Result<u64, GpuError> {
        let _current = context.enter()?;
        let mut address: CUdeviceptr = 0;
        // SAFETY: writes one address; the pages are registered while `self` lives.
        let result = unsafe {
            context.functions().cuMemHostGetDevicePointer_v2(&raw mut address, self.start as *mut c_void, 0)
        };
        context.outcome(result, || {
            let name = context.device().name_in_errors();
            format!("{name}: device address of {} bytes of host memory at {:#x}", self.len, self.start)
        })?;
        Ok(address + (window.as_ptr() as usize - self.start) as u64)
    }
}

/// What is registered for a window.
fn extent(window: &Window, io: bool) -> (usize, usize) {
    if !io {
        return (window.memory().base().as_ptr() as usize, window.memory().len());
    }
    let start = window.as_ptr() as usize / BASE_PAGE * BASE_PAGE;
    let end = (window.as_ptr() as usize + window.len()).next_multiple_of(BASE_PAGE);
    (start, end - start)
}

/// A registration of some of the same bytes.
#[derive(Debug, thiserror::Error)]
#[error(
    "{len} bytes at {start:#x} are registered already, and not all of these; drop that registration first"
)]
struct InTheWay {
    start: usize,
    len: usize,
}

/// The registration that there is; or none, and then the place is the caller's to register. An error says what is in the
/// way.
fn share_or_claim(
    context: &Arc<Context>,
    window: &Window,
    (start, len): (usize, usize),
    io: bool,
) -> Result<Option<HostRegistration>, InTheWay> {
    let mut registered = REGISTERED.lock();
    let driver = driver_of(context);
    let in_the_way = |entry: &Entry| driver_of(&entry.context) == driver && entry.overlaps(start, len);
    while let Some(entry) = registered.iter_mut().find(|entry| in_the_way(entry)) {
        let fits = entry.io == io && entry.covers(start, len);
        match &mut entry.state {
            State::Changing => CHANGED.wait(&mut registered),
            State::There(users) if fits => {
                *users += 1;
                return Ok(Some(HostRegistration { driver, start: entry.start, len: entry.len }));
            }
            State::There(_) => {
                return Err(InTheWay { start: entry.start, len: entry.len });
            }
        }
    }
    let (context, pages) = (context.clone(), window.clone());
    registered.push(Entry { start, len, io, state: State::Changing, context, _pages: pages });
    Ok(None)
}

/// The entry is registered, and used once.
fn set_there(driver: usize, start: usize) {
    let mut registered = REGISTERED.lock();
    if let Some(entry) = registered.iter_mut().find(|entry| entry.is(driver, start)) {
        entry.state = State::There(1);
    }
    CHANGED.notify_all();
}

/// One user less; the context if that was the last one, who then unregisters.
fn release(driver: usize, start: usize) -> Option<Arc<Context>> {
    let mut registered = REGISTERED.lock();
    let entry = registered.iter_mut().find(|entry| entry.is(driver, start))?;
    match &mut entry.state {
        State::There(users) if *users > 1 => {
            *users -= 1;
            None
        }
        _ => {
            entry.state = State::Changing;
            Some(entry.context.clone())
        }
    }
}

/// Takes an entry out. Its memory goes with it, when it is dropped outside the lock.
fn remove(driver: usize, start: usize) -> Option<Entry> {
    let mut registered = REGISTERED.lock();
    let at = registered.iter().position(|entry| entry.is(driver, start))?;
    CHANGED.notify_all();
    Some(registered.swap_remove(at))
}

impl Entry {
    fn is(&self, driver: usize, start: usize) -> bool {
        self.start == start && driver_of(&self.context) == driver
    }

    fn overlaps(&self, start: usize, len: usize) -> bool {
        start < self.start + self.len && self.start < start + len
    }

    fn covers(&self, start: usize, len: usize) -> bool {
        self.start <= start && start + len <= self.start + self.len
    }
}

impl Drop for HostRegistration {
    fn drop(&mut self) {
        let Some(context) = release(self.driver, self.start) else { return };
        let gone = context.enter().and_then(|_current| {
            // SAFETY: registered by `new`; the pages are still mapped.
            let result = unsafe { context.functions().cuMemHostUnregister(self.start as *mut c_void) };
            context.outcome(result, || format!("host memory at {:#x}", self.start))
        });
        if let Err(error) = gone {
            tracing::debug!(%error, "not unregistered");
        }
        drop(remove(self.driver, self.start));
    }
}
