//! Descriptors that a peer may send, and how many this process has.

use std::os::fd::OwnedFd;

use rustix::event::{EventfdFlags, eventfd};
use rustix::fs::{MemfdFlags, Mode, OFlags, ftruncate, memfd_create};

use crate::choices::Choices;

/// Descriptors open in this process.
pub(crate) fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").map_or(0, Iterator::count)
}

/// A file in memory.
pub(crate) fn memory(bytes: u64) -> OwnedFd {
    let file = memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("a file in memory");
    ftruncate(&file, bytes).expect("room for a file in memory");
    file
}

/// What one may send in place of the right file.
pub(crate) fn any(choices: &mut Choices) -> OwnedFd {
    let path = |path: &str| rustix::fs::open(path, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty());
    match choices.below(8) {
        0..3 => memory(choices.pick(&[4096, 0, 100, 65536, 8192])),
        3 => eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd"),
        // One more interrupt does not fit, and whoever writes it waits.
        4 => eventfd_full(),
        5 => path("/dev/null").expect("/dev/null"),
        6 => path("/dev/zero").expect("/dev/zero"),
        _ => rustix::fs::open("/", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()).expect("a folder"),
    }
}

fn eventfd_full() -> OwnedFd {
    let event = eventfd(0, EventfdFlags::CLOEXEC).expect("an eventfd");
    rustix::io::write(&event, &(u64::MAX - 1).to_ne_bytes()).expect("an empty eventfd has room");
    event
}
