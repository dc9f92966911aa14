//! Tier S: pages of a cache that are read before they are wanted, over a soft controller, under drawn schedules and in
//! virtual time.

mod faults;
mod fixture;
mod orders;
