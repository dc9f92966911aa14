//! A context: what lives in it, what ended it, and which is current on a thread.

use std::cell::RefCell;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, ThreadId};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

use crate::code::{self, Code, Result};
use crate::driver::{driver, misuse};
use crate::kernel::{Function, Module};
use crate::log::{self, Kind};
use crate::stream::{Event, Stream};

/// How long a call waits that on a GPU would wait for ever.
const PATIENCE: Duration = Duration::from_secs(20);

/// The default streams are 0, CU_STREAM_LEGACY (1), and this one, which each thread has of its own.
const CU_STREAM_PER_THREAD: u64 = 2;

/// A number for a new object. No pointers: a handle that is none is found out.
pub(crate) fn handle() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0x5AD1_0000_0000);
    NEXT.fetch_add(0x40, Ordering::Relaxed)
}

thread_local! {
    static STACK: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
}

/// The handle of the context that is current on this thread.
pub(crate) fn current() -> Option<u64> {
    STACK.with_borrow(|stack| stack.last().copied())
}

pub(crate) fn push(handle: u64) {
    STACK.with_borrow_mut(|stack| stack.push(handle));
}

pub(crate) fn pop() -> Option<u64> {
    STACK.with_borrow_mut(Vec::pop)
}

/// Why nothing in a context works any more.
#[derive(Clone, Debug)]
pub(crate) struct Fault {
    pub(crate) code: Code,
    pub(crate) text: String,
}

pub(crate) struct Context {
    handle: u64,
    device: u32,
    fault: Mutex<Option<Fault>>,
    /// Pieces of work that were put on streams and have not ended; kernels among them.
    busy: Mutex<(u64, u64)>,
    idle: Condvar,
    /// For the PTX machine: kernels of this context that run at the same time share it.
    pub(crate) gpu: Arc<warpbell_ptx::Gpu>,
    pub(crate) streams: Mutex<HashMap<u64, Arc<Stream>>>,
    /// Default streams since their first use: that of all, and those of threads. They wait for no other, nor do others
    /// for them, as all that are made are non-blocking.
    default_streams: Mutex<HashMap<Option<ThreadId>, Arc<Stream>>>,
    pub(crate) events: Mutex<HashMap<u64, Arc<Event>>>,
    pub(crate) modules: Mutex<HashMap<u64, Arc<Module>>>,
    pub(crate) functions: Mutex<HashMap<u64, Arc<Function>>>,
}

impl Context {
    pub(crate) fn new(device: u32) -> Context {
        Context {
            handle: handle(),
            device,
            fault: Mutex::default(),
            busy: Mutex::default(),
            idle: Condvar::new(),
            gpu: Arc::default(),
            streams: Mutex::default(),
            default_streams: Mutex::default(),
            events: Mutex::default(),
            modules: Mutex::default(),
            functions: Mutex::default(),
        }
    }

    pub(crate) fn handle(&self) -> u64 {
        self.handle
    }

    pub(crate) fn device(&self) -> u32 {
        self.device
    }

    /// The error of a kernel stays: every later call gets it.
    pub(crate) fn check(&self) -> Result<()> {
        self.fault.lock().as_ref().map_or(Ok(()), |fault| Err(fault.code))
    }

    /// The first fault counts.
    pub(crate) fn fail(&self, fault: Fault) {
        log::note(Kind::Kernel, &fault.text);
        let mut first = self.fault.lock();
        if first.is_none() && driver().is_ok_and(|driver| driver.options.users) {
            code::tell(fault.code, &fault.text);
        }
        first.get_or_insert(fault);
    }

    /// A piece of work was put on a stream.
    pub(crate) fn begin(&self, kernel: bool) {
        let mut busy = self.busy.lock();
        *busy = (busy.0 + 1, busy.1 + u64::from(kernel));
    }

    /// It has ended.
    pub(crate) fn finish(&self, kernel: bool) {
        let mut busy = self.busy.lock();
        *busy = (busy.0 - 1, busy.1 - u64::from(kernel));
        self.idle.notify_all();
    }

    /// Kernels that run or wait for their turn.
    pub(crate) fn kernels(&self) -> u64 {
        self.busy.lock().1
    }

    /// A call that a driver may let wait for kernels that run (the CUDA programming guide's implicit synchronization).
    pub(crate) fn note_waiting(&self, what: &str) {
        if self.kernels() > 0 {
            log::note(Kind::Hazard, &format!("{what} while a kernel runs"));
        }
    }

    /// Waits for all work, as drivers do before they take memory away: a caller must not rely on the contrary.
    pub(crate) fn drain(&self) {
        let mut busy = self.busy.lock();
        if busy.1 > 0 {
            log::note(Kind::Hazard, "waits for the kernels that run");
        }
        let until = Instant::now() + PATIENCE;
        while busy.0 > 0 {
            if self.idle.wait_until(&mut busy, until).timed_out() {
                misuse(Code::UNKNOWN, "on a GPU this call waits for a kernel that does not end");
                return;
            }
        }
    }

    /// Ends all that lives in it.
    pub(crate) fn end(&self) {
        self.drain();
        self.streams.lock().values().for_each(|stream| stream.close());
        self.default_streams.lock().values().for_each(|stream| stream.close());
    }

    /// The stream of that handle.
    pub(crate) fn stream(self: &Arc<Self>, handle: u64) -> Result<Arc<Stream>> {
        if handle > CU_STREAM_PER_THREAD {
            return object(&self.streams, handle, "stream");
        }
        let key = (handle == CU_STREAM_PER_THREAD).then(|| thread::current().id());
        match self.default_streams.lock().entry(key) {
            Entry::Occupied(known) => Ok(known.get().clone()),
            Entry::Vacant(free) => Ok(free.insert(Stream::start(self)?).clone()),
        }
    }

    /// What its owner has not destroyed.
    pub(crate) fn leaks(&self) -> Vec<String> {
        let streams = self.streams.lock().len();
        let events = self.events.lock().len();
        let modules = self.modules.lock().len();
        let counts = [(streams, "streams"), (events, "events"), (modules, "modules")];
        counts.iter().filter(|(count, _)| *count > 0).map(|(count, of)| format!("{count} {of}")).collect()
    }
}

/// The object with that handle, or a mistake.
pub(crate) fn object<T>(of: &Mutex<HashMap<u64, Arc<T>>>, handle: u64, kind: &str) -> Result<Arc<T>> {
    let found = of.lock().get(&handle).cloned();
    found.ok_or_else(|| misuse(Code::INVALID_HANDLE, &format!("{handle:#x} is no {kind}, or no longer")))
}
