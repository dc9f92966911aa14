//! File systems and partitions as other programs make them, read without a mount.

mod common;
mod damage;
mod hostile;
mod partitions;
mod reading;
mod refused;
