//! Tier S: requests that a group makes together, under drawn schedules and with stores that are held back.

mod batch;
mod fixture;
mod io_rules;
mod lost;
mod order;
mod pieces;
mod rules;
mod split;
