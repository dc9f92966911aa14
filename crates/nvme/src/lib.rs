//! NVMe wire types: registers, queue entries, Identify, features, log pages, opcodes and status codes.
//!
//! The crate says what the specification says (Base 2.0, NVM command set 1.0) and does nothing: no I/O, no
//! allocation, no unsafe code. A type is named by the specification's noun and a field by its mnemonic, so that
//! code reads next to the manual. Three conventions hold throughout:
//!
//! - A field whose value is one less than what it counts ends in `_z`, and a method gives the real count.
//! - A value with a name is an open enum: a newtype with constants. What a device sends always round-trips, and a
//!   reserved or vendor specific value prints as hexadecimal.
//! - Structures are little-endian in memory, have no padding, convert to and from bytes through `zerocopy`, and
//!   assert their size and key offsets where they are declared.
//!
//! A structure in memory that a device writes must be read with volatile or atomic accesses, never through a
//! reference; the quadword forms ([`Cqe::from_qwords`]) serve that.
#![no_std]
#![forbid(unsafe_code)]

#[cfg(target_endian = "big")]
compile_error!("the wire types hold little-endian fields as native integers");

mod open_enum;

pub mod command;
pub mod completion;
pub mod data;
pub mod experimental;
pub mod feature;
pub mod identify;
pub mod log;
pub mod opcode;
pub mod register;
pub mod status;

pub use command::{Cdw0, NSID_ALL, Sqe, queue as queue_command};
pub use completion::{Cqe, StatusField};
pub use data::SglDescriptor;
pub use opcode::{AdminOpcode, NvmOpcode};
pub use status::Status;
