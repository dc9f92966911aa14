//! A module, decoded: every name is resolved, every instruction is known.

mod alu;
mod asynchronous;
mod convert;
mod decode;
mod flow;
mod function;
mod memory;
mod names;
mod op;
mod opcode;
mod set;
mod slots;
mod sync;
mod unset;
mod uses;

pub(crate) use alu::Word;
pub(crate) use function::{Shared, decode};
pub(crate) use op::*;
