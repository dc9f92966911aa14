//! Tier S: agent warps that do the I/O of compute warps, under drawn schedules and with stores that are held back.

mod fixture;
mod rules;
mod watch;
mod work;
