//! A module, decoded: every name is resolved, every instruction is known.

mod alu;
mod asynchronous;
mod convert;
mod decode;
mod function;
mod memory;
mod names;
mod op;
mod opcode;
mod sync;
mod unset;

pub(crate) use alu::Word;
pub(crate) use function::{Shared, decode};
pub(crate) use op::*;
