//! Fuzz targets: each is a function that takes any bytes, and panics where something is wrong.
//!
//! `scripts/fuzz` builds them as programs of libFuzzer and runs them by coverage; the inputs that it kept lie in
//! `corpus/` and `regressions/`. docs/simulation.md says how to run them, how to add one, and how a finding becomes
//! a test.

pub mod arbitrary_client;
mod choices;
mod driver;
mod files;
mod parsers;
pub mod repeat;
mod vfio_user_client;
mod vfio_user_server;

pub use driver::driver;
pub use parsers::parsers;
pub use vfio_user_client::vfio_user_client;
pub use vfio_user_server::vfio_user_server;

/// The soft controller: any registers, doorbells, commands, lists and mappings, with faults and resets between them.
pub fn controller(input: &[u8]) {
    arbitrary_client::episode::run_input(input, false);
}
