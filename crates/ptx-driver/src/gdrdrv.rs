//! GDRCopy's kernel module over the fake driver's memory, by the text of its `gdrdrv.h`: what `tests/fake-gdrdrv` hands
//! on where it is preloaded.
//!
//! The node is a file without pages. Pinned memory lies in it from then on, at the offset that its handle names, so that
//! the system's own `mmap` maps it.

use std::collections::BTreeMap;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use parking_lot::Mutex;
use rustix::fs::MemfdFlags;

use crate::code::Code;
use crate::driver::{driver, misuse};
use crate::log::{self, Kind};
use crate::memory::PAGE;

/// What GPU pages have.
pub(crate) const GPU_PAGE: u64 = 64 << 10;
/// The first handle; each further one lies behind the memory of the one before.
const FIRST: u64 = 1 << 8;

/// Memory that is pinned.
#[derive(Clone, Copy, Debug)]
struct Pinned {
    node: i32,
    address: u64,
    len: u64,
    force_pcie: bool,
}

#[derive(Default)]
struct State {
    /// Open nodes, kept open; whether their version was asked for.
    nodes: BTreeMap<i32, (OwnedFd, bool)>,
    pinned: BTreeMap<u64, Pinned>,
    next: u64,
}

static STATE: Mutex<State> =
    Mutex::new(State { nodes: BTreeMap::new(), pinned: BTreeMap::new(), next: FIRST });

/// A call that is refused: the number of the system's error.
pub(crate) type Answer<T> = Result<T, i32>;

/// A new descriptor of the node.
pub(crate) fn open() -> Answer<OwnedFd> {
    let driver = driver().map_err(|_| libc::ENODEV)?;
    if driver.options.gdrdrv.is_none() {
        return Err(libc::ENOENT);
    }
    let file = rustix::fs::memfd_create("gdrdrv", MemfdFlags::CLOEXEC).map_err(|_| libc::ENOMEM)?;
    let kept = file.try_clone().map_err(|_| libc::EMFILE)?;
    STATE.lock().nodes.insert(file.as_raw_fd(), (kept, false));
    Ok(file)
}

/// The module's version, and what it wants of its library.
pub(crate) fn version(node: i32) -> Answer<(u32, u32)> {
    let version = own_version()?;
    let mut state = STATE.lock();
    let (_, asked) = state.nodes.get_mut(&node).ok_or(libc::EBADF)?;
    *asked = true;
    Ok((version, 2 << 16))
}

/// The version that the test asked for.
pub(crate) fn own_version() -> Answer<u32> {
    driver().ok().and_then(|driver| driver.options.gdrdrv).ok_or(libc::ENODEV)
}

fn wrong<T>(text: &str) -> Answer<T> {
    misuse(Code::INVALID_VALUE, text);
    Err(libc::EINVAL)
}

/// Pins memory, and gives its handle.
pub(crate) fn pin(node: i32, address: u64, len: u64, force_pcie: bool) -> Answer<u64> {
    let driver = driver().map_err(|_| libc::ENODEV)?;
    if !address.is_multiple_of(GPU_PAGE) || !len.is_multiple_of(GPU_PAGE) || len == 0 {
        return wrong(&format!(
            "{len} bytes at {address:#x} are not whole GPU pages: they could not be mapped"
        ));
    }
    let (file, handle) = place(node, len)?;
    // Without the lock: memory that is freed takes it with the driver's held.
    driver.memory.share_into(&file, handle * PAGE, address, len).map_err(|error| {
        misuse(Code::INVALID_VALUE, &format!("{len} bytes at {address:#x}: {error}"));
        libc::EINVAL
    })?;
    STATE.lock().pinned.insert(handle, Pinned { node, address, len, force_pcie });
    Ok(handle)
}

/// A handle, behind whose offset there is room.
fn place(node: i32, len: u64) -> Answer<(OwnedFd, u64)> {
    let mut state = STATE.lock();
    let Some((file, asked)) = state.nodes.get(&node) else { return Err(libc::EBADF) };
    if !asked {
        return wrong("memory is pinned before the module's version is known");
    }
    let (file, handle) = (file.try_clone().map_err(|_| libc::EMFILE)?, state.next);
    state.next += len / PAGE + FIRST;
    Ok((file, handle))
}

/// Lets go of memory.
pub(crate) fn unpin(node: i32, handle: u64) -> Answer<()> {
    if is_mapped(node, handle).map_err(|_| libc::EIO)? {
        log::note(Kind::Violation, "memory is unpinned while it is mapped: an access would fault");
    }
    let mut state = STATE.lock();
    match state.pinned.get(&handle) {
        Some(pinned) if pinned.node == node => {
            state.pinned.remove(&handle);
            Ok(())
        }
        _ => wrong(&format!("handle {handle:#x} is not pinned by this node")),
    }
}

/// How it is mapped: 0 not, 1 write-combining, 2 cached.
pub(crate) fn kind(node: i32, handle: u64) -> Answer<u32> {
    let cached = driver().is_ok_and(|driver| driver.options.gdrdrv_cached);
    let Some(pinned) = STATE.lock().pinned.get(&handle).copied() else {
        return wrong(&format!("handle {handle:#x} is not pinned"));
    };
    let mapped = is_mapped(node, handle).map_err(|_| libc::EIO)?;
    Ok(match (mapped, cached && !pinned.force_pcie) {
        (false, _) => 0,
        (true, false) => 1,
        (true, true) => 2,
    })
}

/// Whether this process has a mapping of the node at that handle.
fn is_mapped(node: i32, handle: u64) -> io::Result<bool> {
    let state = STATE.lock();
    let Some((file, _)) = state.nodes.get(&node) else { return Ok(false) };
    let inode = rustix::fs::fstat(file)?.st_ino.to_string();
    let own = state.pinned.get(&handle).map(|pinned| format!("{:x}-", pinned.address));
    let maps = std::fs::read_to_string("/proc/self/maps")?;
    Ok(maps.lines().any(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        // The device's own addresses have these pages, too.
        let its = own.as_ref().is_some_and(|own| fields[0].starts_with(own));
        let offset = u64::from_str_radix(fields[2], 16);
        !its && fields[4] == inode && offset == Ok(handle * PAGE)
    }))
}

/// Memory is freed: it must not be pinned.
pub(crate) fn freed(address: u64, len: u64) {
    let state = STATE.lock();
    let inside = |pinned: &Pinned| pinned.address < address + len && address < pinned.address + pinned.len;
    if state.pinned.values().any(inside) {
        log::note(Kind::Violation, "memory is freed while it is pinned");
    }
}

/// What is still pinned as the process ends.
pub(crate) fn leaks() -> Vec<String> {
    let state = STATE.lock();
    state
        .pinned
        .values()
        .map(|pinned| format!("{} bytes pinned at {:#x}", pinned.len, pinned.address))
        .collect()
}
