//! Tier S: tiles from an SSD to shared memory, by schedules: the right data in the right order, what fails, what overlaps,
//! and how long it takes in virtual time.

mod example;
mod faults;
mod fixture;
mod model;
mod orders;
mod rules;
mod volumes;
