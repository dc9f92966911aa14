//! A lane: its registers, frames and memory, and what it waits for.

use super::barrier::AtBarrier;
use super::bytes::Room;
use super::late::Buffer;
use super::polls::Polls;
use crate::program::{Function, LOCAL, Meeting, PARAMETERS, Reg};

/// What a lane gave where it meets others.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) meeting: Meeting,
    pub(super) mask: u32,
    pub(super) values: [u64; 3],
    pub(super) to: Option<Reg>,
    pub(super) also: Option<Reg>,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum State {
    Ready,
    /// At an instruction of its warp.
    Meets(Arrival),
    /// At a barrier of the block.
    Barrier(AtBarrier),
    Ended,
}

/// A function that a lane is in.
#[derive(Clone, Copy, Debug)]
pub(super) struct Frame {
    pub(super) function: u32,
    /// The step that is next.
    pub(super) next: u32,
    /// Where its registers begin.
    pub(super) registers: usize,
    /// Where its local memory and its parameters begin.
    pub(super) local: usize,
    pub(super) parameters: usize,
}

#[derive(Debug)]
pub(super) struct Lane {
    /// Its number in the block.
    pub(super) number: u32,
    pub(super) state: State,
    pub(super) frame: Frame,
    /// Those that called.
    pub(super) callers: Vec<Frame>,
    pub(super) registers: Vec<u64>,
    pub(super) local: Room,
    pub(super) parameters: Vec<u8>,
    /// Address and value of its last store, where that was one of `st.mmio`.
    pub(super) rang: Option<(u64, u64)>,
    /// Words of which weak loads gave it old values.
    pub(super) polls: Polls,
    /// Groups of copies that it ended: of `cp.async`, and of bulk copies.
    pub(super) groups: [u32; 2],
    /// Its stores that others do not see yet, where memory is weak.
    pub(super) late: Buffer,
    /// It has released something.
    pub(super) released: bool,
}

impl Lane {
    /// At the first step of a kernel.
    pub(super) fn new(number: u32, kernel: u32, function: &Function, arguments: &[u8]) -> Lane {
        let frame = Frame { function: kernel, next: 0, registers: 0, local: 0, parameters: 0 };
        let mut lane = Lane {
            number,
            state: State::Ready,
            frame,
            callers: Vec::new(),
            registers: Vec::new(),
            local: Room::default(),
            parameters: Vec::new(),
            rang: None,
            polls: Polls::default(),
            groups: [0; 2],
            late: Buffer::default(),
            released: false,
        };
        lane.enter(frame, function);
        lane.parameters[..arguments.len()].copy_from_slice(arguments);
        lane
    }

    /// Makes room for a function's frame, which begins where the lane's memory ends, and runs it.
    pub(super) fn enter(&mut self, frame: Frame, function: &Function) {
        self.registers.extend_from_slice(&function.registers);
        self.local.resize(frame.local + function.local_bytes as usize);
        self.parameters.resize(frame.parameters + function.parameter_bytes as usize, 0);
        self.frame = frame;
        self.set(LOCAL, frame.local as u64);
        self.set(PARAMETERS, frame.parameters as u64);
    }

    /// The frame of a function that is called now.
    pub(super) fn next_frame(&self, number: u32, function: &Function) -> Frame {
        let align = function.align as usize;
        Frame {
            function: number,
            next: 0,
            registers: self.registers.len(),
            local: self.local.len().next_multiple_of(align),
            parameters: self.parameters.len().next_multiple_of(align),
        }
    }

    /// Back to the caller; false where there is none.
    pub(super) fn leave(&mut self) -> bool {
        let Some(caller) = self.callers.pop() else { return false };
        self.registers.truncate(self.frame.registers);
        self.local.resize(self.frame.local);
        self.parameters.truncate(self.frame.parameters);
        self.frame = caller;
        true
    }

    #[inline]
    pub(super) fn get(&self, register: Reg) -> u64 {
        self.registers[self.frame.registers + register as usize]
    }

    #[inline]
    pub(super) fn set(&mut self, register: Reg, value: u64) {
        self.registers[self.frame.registers + register as usize] = value;
    }

    /// Its number in its warp.
    pub(super) fn in_warp(&self) -> u32 {
        self.number % 32
    }
}
