//! The catalogue: what is written is read, and a crash at any point loses no committed file.

mod crash;
mod disk;
mod format;
mod writes;
