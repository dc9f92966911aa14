//! PTX as text: tokens, then statements whose operands are not resolved yet.

mod ast;
mod lex;
mod parse;

pub(crate) use ast::{Function, Instruction, Item, Kind, Operand, Place, Space, Type, Unit, Variable};
pub(crate) use parse::parse;
