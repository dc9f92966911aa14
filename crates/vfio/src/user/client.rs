//! The client: a controller behind a socket as a device. `connection` matches replies to requests; the other modules
//! are one trait of `warpbell-hw` each.

mod config;
mod connection;
mod device;
mod dma;
mod doorbells;
mod error;
#[cfg(test)]
mod fake;
mod interrupts;
mod memory;
mod regions;
mod registers;

pub use device::{UserDevice, UserOptions};
pub use error::{Object, UserError};

use super::{socket, wire};
