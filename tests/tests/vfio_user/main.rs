//! Tier V: our client and our server over a vfio-user socket, each also against bytes that make no sense, and in
//! processes of their own that are killed.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

mod crate_peers;
mod death;
mod flows;
mod foreign;
mod malformed;
mod processes;
mod served;
