//! `libwarpbell`: Warpbell from C. The header `warpbell/warpbell.h` and those beside it say what each function
//! does; this crate is what stands behind them.
//!
//! [`types`] has the structs of the header. The modules below `exports` are the boundary, and the only unsafe code:
//! they turn pointers into values, and panics and errors into codes. Everything else is safe: `handle` has the tables
//! in which a number is looked up, `scope` what keeps an object open, and `ssd`, `events`, `queues`,
//! `buffer`, `lease`, `volume`, `cache`, `tiles`, `file`, `program` and `run` what the functions do.

mod buffer;
mod cache;
mod error;
mod events;
mod exports;
mod file;
mod handle;
mod host_io;
mod lease;
mod over;
mod program;
mod queues;
mod run;
mod scope;
mod ssd;
mod tiles;
pub mod types;
mod volume;
mod volume_io;

// Pointers of C are 64 bits wide in abi.h, and handles are numbers in them.
const _: () = assert!(size_of::<usize>() == 8, "libwarpbell needs 64-bit pointers");
