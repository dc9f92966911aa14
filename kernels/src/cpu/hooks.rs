// UNSAFETY: C functions that the executor calls with a pointer to Rust closures.
#![expect(unsafe_code, reason = "callbacks from compiled C++")]
//! Hooks: who sees the doorbells, the clock and the memory accesses of a launch.

use std::any::Any;
use std::cell::RefCell;
use std::ffi::c_void;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use warpbell_hw::DoorbellSink;

use super::ffi::RawHooks;

/// What kind of access a memory observer is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// About to load.
    Load,
    /// About to store.
    Store,
    /// About to read, modify and write.
    Rmw,
    /// The compare-and-swap told of last found another value.
    RmwFailed,
    /// A fence; `address` is its order and `bytes` its scope, as in `simt/memory.h`.
    Fence,
    /// About to ring a doorbell.
    Doorbell,
    /// A buffered store reaches memory; `lane` is the one that stored.
    Drain,
    /// The load told of last acquires.
    Acquire,
}

/// One access of one lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryEvent {
    /// What it does.
    pub access: Access,
    /// Where.
    pub address: u64,
    /// How much.
    pub bytes: u32,
    /// The warp, counted over the whole grid.
    pub warp: u32,
    /// The lane in it.
    pub lane: u32,
}

type DoorbellHook = Arc<dyn Fn(u64, u32) + Send + Sync>;
type ClockHook = Arc<dyn Fn() -> u64 + Send + Sync>;
type TimeHook = Arc<dyn Fn(u64) -> u64 + Send + Sync>;
type MemoryHook = Arc<dyn Fn(&MemoryEvent) + Send + Sync>;
type RegisterHook = Arc<dyn Fn(usize) -> u32 + Send + Sync>;

/// All hooks of a launch; each is optional. They run on the thread that steps. A panic in one surfaces there.
#[derive(Clone, Default)]
pub struct Hooks {
    doorbell: Option<DoorbellHook>,
    sinks: Vec<(Range<u64>, Arc<dyn DoorbellSink>)>,
    clock: Option<ClockHook>,
    time: Option<TimeHook>,
    memory: Option<MemoryHook>,
    registers: Vec<(Range<u64>, RegisterHook)>,
}

impl Hooks {
    /// No hooks: doorbells are stores, the clock is the system's.
    pub fn new() -> Hooks {
        Hooks::default()
    }

    /// Takes every doorbell write, with address and value, in place of memory.
    pub fn doorbell(mut self, hook: impl Fn(u64, u32) + Send + Sync + 'static) -> Hooks {
        self.doorbell = Some(Arc::new(hook));
        self
    }

    /// Takes the doorbell writes to `bytes` bytes from address `base` on. May be called once per device;
    /// doorbells elsewhere are stores.
    pub fn doorbell_sink(mut self, base: u64, bytes: usize, sink: Arc<dyn DoorbellSink>) -> Hooks {
        self.sinks.push((base..base.saturating_add(bytes as u64), sink));
        self
    }

    /// The kernels' clock, in nanoseconds that never go back.
    pub fn clock(mut self, hook: impl Fn() -> u64 + Send + Sync + 'static) -> Hooks {
        self.clock = Some(Arc::new(hook));
        self
    }

    pub(super) fn pass_time(mut self, hook: impl Fn(u64) -> u64 + Send + Sync + 'static) -> Hooks {
        self.time = Some(Arc::new(hook));
        self
    }

    /// Is told of every hooked access, before it happens; of those to the shared memory of blocks only where
    /// [`Launch::observe_shared`](super::Launch::observe_shared) asks for it. Slow.
    pub fn memory(mut self, hook: impl Fn(&MemoryEvent) + Send + Sync + 'static) -> Hooks {
        self.memory = Some(Arc::new(hook));
        self
    }

    /// Answers the loads of registers in `bytes` bytes from address `base` on, which need not be memory: `hook` is told
    /// the offset. May be called once per device; loads elsewhere are loads.
    pub fn registers(
        mut self,
        base: u64,
        bytes: usize,
        hook: impl Fn(usize) -> u32 + Send + Sync + 'static,
    ) -> Hooks {
        self.registers.push((base..base.saturating_add(bytes as u64), Arc::new(hook)));
        self
    }

    fn load_register(&self, address: *const u32) -> u32 {
        let at = address as u64;
        match self.registers.iter().find(|(range, _)| range.contains(&at)) {
            Some((range, hook)) => hook((at - range.start) as usize),
            // SAFETY: a register whose address the launch's arguments vouch for, 4-byte aligned.
            None => unsafe { address.read_volatile() },
        }
    }

    fn ring(&self, address: *mut u32, value: u32) {
        let at = address as u64;
        if let Some(hook) = &self.doorbell {
            return hook(at, value);
        }
        match self.sinks.iter().find(|(range, _)| range.contains(&at)) {
            Some((range, sink)) => sink.ring((at - range.start) as usize, value),
            None => {
                // SAFETY: a doorbell register whose address the launch's arguments vouch for, 4-byte aligned; a
                // controller may read it meanwhile, hence atomic.
                let register = unsafe { AtomicU32::from_ptr(address) };
                register.store(value, Ordering::Release);
            }
        }
    }
}

/// What the executor's `context` points at: the hooks, and a panic on its way to the stepping thread.
pub(super) struct Context {
    hooks: Hooks,
    panic: RefCell<Option<Box<dyn Any + Send>>>,
}

impl Context {
    pub(super) fn new(hooks: Hooks) -> Context {
        Context { hooks, panic: RefCell::new(None) }
    }

    /// The table for the executor. `self` must stay where it is, and outlive the worker.
    pub(super) fn raw(&self) -> RawHooks {
        let Hooks { doorbell, sinks, clock, time, memory, registers } = &self.hooks;
        RawHooks {
            context: (&raw const *self).cast_mut().cast(),
            doorbell: (doorbell.is_some() || !sinks.is_empty()).then_some(on_doorbell as _),
            clock_ns: clock.is_some().then_some(on_clock as _),
            memory_event: memory.is_some().then_some(on_memory as _),
            pass_time: time.is_some().then_some(on_time as _),
            register_load: (!registers.is_empty()).then_some(on_register as _),
        }
    }

    /// Goes on with a panic that a hook started; C++ frames cannot be unwound.
    pub(super) fn resume_panic(&self) {
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }

    fn guard<R: Default>(&self, hook: impl FnOnce(&Hooks) -> R) -> R {
        catch_unwind(AssertUnwindSafe(|| hook(&self.hooks))).unwrap_or_else(|panic| {
            self.panic.borrow_mut().get_or_insert(panic);
            R::default()
        })
    }
}

/// # Safety
/// `context` is the one that [`Context::raw`] gave out.
unsafe fn context<'a>(context: *mut c_void) -> &'a Context {
    // SAFETY: the worker's context, which outlives every call of the worker; only shared references exist.
    unsafe { &*context.cast::<Context>() }
}

unsafe extern "C" fn on_doorbell(raw: *mut c_void, address: *mut u32, value: u32) {
    // SAFETY: the executor passes on what it was given.
    let context = unsafe { context(raw) };
    context.guard(|hooks| hooks.ring(address, value));
}

unsafe extern "C" fn on_clock(raw: *mut c_void) -> u64 {
    // SAFETY: the executor passes on what it was given.
    let context = unsafe { context(raw) };
    context.guard(|hooks| hooks.clock.as_ref().map_or(0, |hook| hook()))
}

unsafe extern "C" fn on_time(raw: *mut c_void, until: u64) -> u64 {
    // SAFETY: the executor passes on what it was given.
    let context = unsafe { context(raw) };
    context.guard(|hooks| hooks.time.as_ref().map_or(0, |hook| hook(until)))
}

unsafe extern "C" fn on_register(raw: *mut c_void, address: *const u32) -> u32 {
    // SAFETY: the executor passes on what it was given.
    let context = unsafe { context(raw) };
    context.guard(|hooks| hooks.load_register(address))
}

unsafe extern "C" fn on_memory(raw: *mut c_void, kind: u32, address: u64, bytes: u32, warp: u32, lane: u32) {
    // SAFETY: the executor passes on what it was given.
    let context = unsafe { context(raw) };
    let access = match kind {
        0 => Access::Load,
        1 => Access::Store,
        2 => Access::Rmw,
        3 => Access::RmwFailed,
        4 => Access::Fence,
        5 => Access::Doorbell,
        6 => Access::Drain,
        _ => Access::Acquire,
    };
    let event = MemoryEvent { access, address, bytes, warp, lane };
    context.guard(|hooks| hooks.memory.iter().for_each(|hook| hook(&event)));
}
