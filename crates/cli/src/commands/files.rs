//! `files`: files on a device that no kernel has mounted.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::manifest;
use crate::args::{FilesCommand, Global};
use crate::exit::Ending;

/// Runs the command.
pub fn run(command: &FilesCommand, global: &Global, stop: Arc<AtomicBool>) -> Result<(), Ending> {
    match command {
        FilesCommand::Capture(args) => manifest::capture(args, global, &stop),
        FilesCommand::Check(args) => manifest::check(args, global, stop),
    }
}
