//! vfio-user: a PCI function whose controller is another process, over a Unix socket.
//!
//! [`wire`] has the messages, [`socket`] sends and receives them; client and server share both. [`UserDevice`] is the
//! client: such a controller as a device. [`Server`] offers a controller to such clients.

mod client;
mod server;
pub mod socket;
pub mod wire;

pub use client::{Object, UserDevice, UserError, UserOptions};
pub use server::{
    DoorbellMode, Ended, Server, ServerError, ServerEvent, ServerOptions, SessionCounts, Visit,
};
