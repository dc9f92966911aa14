//! Numbers that stay the same from run to run: serial numbers and UUIDs are made of hashes.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A serial number made of a path: the same each time, and in every process.
pub fn serial_of(path: &Path) -> String {
    let place = path.canonicalize();
    let bytes = place.as_deref().unwrap_or(path).as_os_str().as_bytes();
    format!("WB{:016X}", fnv(FNV_BASIS, bytes))
}

/// Where FNV-1a of 64 bits begins.
pub(crate) const FNV_BASIS: u64 = 0xcbf2_9ce4_8422_2325;

/// FNV-1a of 64 bits.
pub(crate) fn fnv(basis: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(basis, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0000_0100_0000_01b3))
}
