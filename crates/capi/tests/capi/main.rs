//! The library as C programs meet it: installed by `scripts/install`, built against by `cc`, and run.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod cache_folder;
mod header;
mod install;
mod installed;
mod programs;
mod wrong;
