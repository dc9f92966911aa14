// UNSAFETY: drives a worker of the executor through its C interface.
#![expect(unsafe_code, reason = "foreign functions of compiled C++")]
//! Workers: blocks of a launch, stepped by one thread.

use std::ptr::{self, NonNull};

use super::ffi::{self, Counters, RawLaunch, RawWorker};
use super::hooks::Context;
use super::launch::Launch;
use crate::Error;

/// How a worker stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    /// It used up its turns and made progress.
    Running,
    /// It is alive, but every warp only polls: somebody else has to act.
    Idle,
    /// Every lane of every block has returned.
    Done,
    /// Some lanes can never run again: each of them, and what it waits for.
    Deadlock(String),
    /// The kernel did what CUDA leaves undefined: what.
    Fault(String),
}

impl State {
    /// Whether further steps can change anything.
    pub fn is_final(&self) -> bool {
        !matches!(self, State::Running | State::Idle)
    }
}

/// Some blocks of a launch. Stays on the thread that made it. Dropping it drops lanes that have not finished.
pub struct Worker {
    raw: NonNull<RawWorker>,
    /// The executor points at it; dropped after the worker is destroyed.
    context: Box<Context>,
    launch: Launch,
    state: State,
}

impl Worker {
    /// A worker for blocks `first`, `first + stride`, ... of the launch.
    pub fn new(launch: &Launch, first: u32, stride: u32) -> Result<Worker, Error> {
        let context = Box::new(Context::new(launch.hooks.clone()));
        let raw = raw_launch(launch, first, stride, &context)?;
        let table = launch.module.table();
        // SAFETY: a complete launch of this interface version; `args` has the size that the kernel takes, and is
        // copied; the context stays in its allocation until the worker is destroyed.
        let worker = unsafe { (table.create)(&raw) };
        match NonNull::new(worker) {
            Some(raw) => Ok(Worker { raw, context, launch: launch.clone(), state: State::Running }),
            None => {
                // SAFETY: null asks for this thread's last failure.
                let reason = unsafe { (table.error)(ptr::null()) };
                // SAFETY: the executor's text, which only this thread could change.
                let reason = unsafe { ffi::text(reason) };
                Err(Error::Refused { kernel: launch.kernel().to_owned(), reason })
            }
        }
    }

    /// Runs up to `turns` warp turns; returns early with anything but `Running`. A final state stays.
    pub fn step(&mut self, turns: u32) -> &State {
        if self.state.is_final() {
            return &self.state;
        }
        // SAFETY: a living worker on its own thread, which it never leaves: `Worker` is not Send.
        let code = unsafe { (self.launch.module.table().step)(self.raw.as_ptr(), turns) };
        self.context.resume_panic();
        self.state = match code {
            0 => State::Running,
            1 => State::Idle,
            2 => State::Done,
            3 => State::Deadlock(self.error()),
            _ => State::Fault(self.error()),
        };
        &self.state
    }

    /// How it stood after the last step.
    pub fn state(&self) -> &State {
        &self.state
    }

    /// What it counted so far.
    pub fn counters(&self) -> Counters {
        let mut counters = Counters::default();
        // SAFETY: a living worker on its own thread.
        unsafe { (self.launch.module.table().counters)(self.raw.as_ptr(), &mut counters) };
        counters
    }

    /// `Ok(true)` once done; `Ok(false)` while there is something to run; the error of a final state.
    pub fn finished(&self) -> Result<bool, Error> {
        let kernel = || self.launch.kernel().to_owned();
        match &self.state {
            State::Running | State::Idle => Ok(false),
            State::Done => Ok(true),
            State::Deadlock(lanes) => Err(Error::Deadlock { kernel: kernel(), lanes: lanes.clone() }),
            State::Fault(fault) => Err(Error::Fault { kernel: kernel(), fault: fault.clone() }),
        }
    }

    /// For a launch that is explored: the worker, and the functions that step it.
    pub(super) fn explore(&self) -> (*mut RawWorker, &ffi::RawExplore) {
        // SAFETY: constant, and there as long as the module that the launch holds.
        let table = unsafe { &*self.launch.module.table().explore };
        (self.raw.as_ptr(), table)
    }

    /// The executor's text for what went wrong.
    pub(super) fn error(&self) -> String {
        // SAFETY: a living worker on its own thread.
        let text = unsafe { (self.launch.module.table().error)(self.raw.as_ptr()) };
        // SAFETY: the worker's text, which stays until its next call.
        unsafe { ffi::text(text) }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: a living worker on its own thread, which nobody uses after this.
        unsafe { (self.launch.module.table().destroy)(self.raw.as_ptr()) };
    }
}

fn raw_launch(
    launch: &Launch,
    first_block: u32,
    block_stride: u32,
    context: &Context,
) -> Result<RawLaunch, Error> {
    let charged = launch.charged.as_deref();
    Ok(RawLaunch {
        abi_version: ffi::ABI_VERSION,
        size: size_of::<RawLaunch>() as u32,
        kernel: Some(launch.kernel.entry),
        args: launch.args.as_ptr().cast(),
        args_size: launch.args_size as u64,
        grid_x: launch.grid,
        block_x: launch.block,
        first_block,
        block_stride,
        resident_blocks: launch.residents(block_stride)?,
        stack_bytes: launch.stack_bytes,
        shared_bytes: launch.shared_bytes,
        seed: launch.seed,
        preempt_one_in: launch.preempt_one_in,
        store_buffer: launch.store_buffer,
        flags: launch.flags,
        reserved: 0,
        hooks: context.raw(),
        costs: charged.map_or(ptr::null(), |charged| &raw const charged.costs),
        host: charged.map_or(ptr::null(), |charged| charged.host.as_ptr()),
        host_ranges: charged.map_or(0, |charged| charged.host.len() as u64),
    })
}
