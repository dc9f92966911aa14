// UNSAFETY: one system call, which reports wrong addresses itself.
#![expect(unsafe_code, reason = "asks the kernel whether an address can be read")]
//! Whether memory that a C program names is there: else the first I/O would end the program.

use crate::error::{Answer, Failure};

/// A mapping of this process, as a line of `/proc/self/maps` has it: `7f00-7f10 rw-p ...`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mapping {
    start: usize,
    end: usize,
    readable: bool,
    writable: bool,
    /// Of a file, not of a device: it may go on behind the end of what there is.
    of_file: bool,
}

impl Mapping {
    fn parse(line: &str) -> Option<Mapping> {
        let (range, rest) = line.split_once(' ')?;
        let (start, end) = range.split_once('-')?;
        let address = |text| usize::from_str_radix(text, 16).ok();
        let (readable, writable) = (rest.starts_with('r'), rest.get(1..2) == Some("w"));
        // Protection, offset, device, inode, path.
        let (mut inode, mut path) = (rest.split_whitespace().skip(3), rest.split_whitespace().skip(4));
        let of_device =
            path.next().is_some_and(|path| path.starts_with("/dev/") && !path.starts_with("/dev/shm/"));
        let of_file = inode.next().is_some_and(|inode| inode != "0") && !of_device;
        Some(Mapping { start: address(start)?, end: address(end)?, readable, writable, of_file })
    }
}

/// Whether all these bytes can be read and written. Where there is no `/proc`, nobody knows.
pub(super) fn check(address: usize, bytes: usize) -> Answer<()> {
    let Ok(maps) = std::fs::read_to_string("/proc/self/maps") else { return Ok(()) };
    let end = address + bytes;
    let all = maps.lines().filter_map(Mapping::parse);
    let parts: Vec<Mapping> = all.filter(|part| part.start < end && part.end > address).collect();
    check_parts(&parts, address, bytes)?;
    // A mapping of a file may go on behind the file's end. Memory of a device cannot be asked for this way.
    for part in parts.into_iter().filter(|part| part.of_file) {
        let last = part.end.min(end) - 1;
        if !is_there(last) {
            return Err(refusal(address, bytes, "goes on behind the end of its file at", last));
        }
    }
    Ok(())
}

/// The same for the mappings that touch the range, by address.
fn check_parts(parts: &[Mapping], address: usize, bytes: usize) -> Answer<()> {
    let (mut next, end) = (address, address + bytes);
    for part in parts {
        if part.start > next || next >= end {
            break;
        }
        if !part.readable || !part.writable {
            let what = if part.readable { "is mapped read-only at" } else { "cannot be read at" };
            return Err(refusal(address, bytes, what, next));
        }
        next = part.end;
    }
    if next < end {
        return Err(refusal(address, bytes, "is not mapped at", next));
    }
    Ok(())
}

fn refusal(address: usize, bytes: usize, what: &str, at: usize) -> Failure {
    Failure::invalid(format!(
        "memory {address:#x} of {bytes} bytes: {what} {at:#x}: all of it must be readable and writable"
    ))
}

/// Whether the byte at this address can be read. What the kernel does not answer counts as there.
fn is_there(address: usize) -> bool {
    let mut byte = 0u8;
    let local = libc::iovec { iov_base: (&raw mut byte).cast(), iov_len: 1 };
    let remote = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: 1 };
    let own = std::process::id() as libc::pid_t;
    // SAFETY: writes the one byte of `local`; a wrong address in `remote` is an error of the call.
    let read = unsafe { libc::process_vm_readv(own, &raw const local, 1, &raw const remote, 1, 0) };
    read == 1 || std::io::Error::last_os_error().raw_os_error() != Some(libc::EFAULT)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(line: &str) -> Mapping {
        Mapping::parse(line).unwrap()
    }

    #[test]
    fn lines_of_the_kernel_are_read() {
        let stack = part("7ffd1000-7ffd3000 rw-p 00000000 00:00 0    [stack]");
        let (start, end) = (0x7ffd_1000, 0x7ffd_3000);
        assert_eq!(stack, Mapping { start, end, readable: true, writable: true, of_file: false });
        assert!(part("1000-2000 rw-s 00000000 00:1a 1027    /tmp/data").of_file);
        assert!(!part("1000-2000 rw-s 00000000 00:05 613    /dev/vfio/7").of_file);
        assert_eq!(Mapping::parse("no line of it"), None);
    }

    #[test]
    fn holes_and_protections_are_named_with_their_address() {
        let parts = [part("1000-3000 rw-p"), part("3000-4000 r--p"), part("5000-6000 ---p")];
        let refused = |parts: &[Mapping], address, bytes| {
            check_parts(parts, address, bytes).map_err(|failure| failure.text).err().unwrap_or_default()
        };
        assert_eq!(refused(&parts, 0x1000, 0x2000), "");
        let text = refused(&parts, 0x2000, 0x2000);
        let rule = "all of it must be readable and writable";
        assert_eq!(text, format!("memory 0x2000 of 8192 bytes: is mapped read-only at 0x3000: {rule}"));
        assert!(refused(&parts[2..], 0x5000, 0x1000).contains("cannot be read at 0x5000"));
        assert!(refused(&parts[..1], 0x2000, 0x2000).contains("is not mapped at 0x3000"));
        assert!(refused(&parts[2..], 0x4000, 0x2000).contains("is not mapped at 0x4000"));
        assert!(refused(&[], 0x4000, 0x2000).contains("is not mapped at 0x4000"));
    }

    #[test]
    fn a_byte_is_there_or_not() {
        let byte = 7u8;
        assert!(is_there(&raw const byte as usize));
        assert!(!is_there(0));
    }
}
