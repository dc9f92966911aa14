//! The GPU-resident controller on the CPU target: its clients, its checks, and what is caught by them. Tier S.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod broken;
mod fixture;
mod gauge;
mod rules;
mod runs;
mod schedules;
mod stop;
