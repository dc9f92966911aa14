//! What the device library's files promise to whoever includes them. Tier U.

mod alone;
#[path = "../common/mod.rs"]
mod common;
mod no_platform_leaks;
