//! One ioctl call, with its name in the error.
// UNSAFETY: ioctls take addresses of structures.
#![expect(unsafe_code, reason = "ioctls take addresses of structures")]

use std::ffi::c_void;
use std::io;
use std::os::fd::BorrowedFd;

use iommufd_bindings::iommufd::IOMMUFD_TYPE;
use rustix::io::Errno;
use rustix::ioctl::{Ioctl, IoctlOutput, Opcode, opcode};

/// A failed system call, by name.
#[derive(Debug, thiserror::Error)]
#[error("{call}: {source}")]
pub struct SysError {
    /// The call.
    pub call: &'static str,
    /// What the system said.
    pub source: io::Error,
}

impl SysError {
    pub(crate) fn new(call: &'static str, errno: Errno) -> SysError {
        SysError { call, source: errno.into() }
    }

    /// The error number, if there is one.
    pub(crate) fn errno(&self) -> Option<Errno> {
        Errno::from_io_error(&self.source)
    }
}

/// The same kind of error, with the call's name.
impl From<SysError> for io::Error {
    fn from(error: SysError) -> io::Error {
        io::Error::new(error.source.kind(), error)
    }
}

/// An ioctl by number and name.
#[derive(Clone, Copy)]
pub(super) struct Request {
    name: &'static str,
    opcode: Opcode,
}

impl Request {
    /// A request of the VFIO type, counted from `VFIO_BASE`.
    pub(super) const fn vfio(name: &'static str, number: u8) -> Request {
        Request { name, opcode: opcode::none(b';', 100 + number) }
    }

    /// A request of iommufd, by its command number.
    pub(super) const fn iommufd(name: &'static str, command: u32) -> Request {
        Request { name, opcode: opcode::none(IOMMUFD_TYPE, command as u8) }
    }

    /// Calls it with an argument that is a number.
    ///
    /// # Safety
    /// The request must take a number, or nothing.
    pub(super) unsafe fn number(self, fd: BorrowedFd<'_>, argument: usize) -> Result<i32, SysError> {
        // SAFETY: as the caller promised, no memory is touched.
        unsafe { self.call(fd, std::ptr::without_provenance_mut(argument)) }
    }

    /// Calls it with the address of a structure.
    ///
    /// # Safety
    /// The request must take a `T`, and reach no other memory in ways that Rust would notice.
    pub(super) unsafe fn with<T>(self, fd: BorrowedFd<'_>, argument: &mut T) -> Result<i32, SysError> {
        // SAFETY: as the caller promised.
        unsafe { self.call(fd, std::ptr::from_mut(argument).cast()) }
    }

    /// Calls it with a structure that begins with its own length (`argsz`), which is filled in here.
    ///
    /// # Safety
    /// The request must take such a structure, with the meaning that the block's words have.
    pub(super) unsafe fn block(self, fd: BorrowedFd<'_>, block: &mut Block) -> Result<i32, SysError> {
        block.set_u32(0, block.len() as u32);
        // SAFETY: the kernel keeps to `argsz` bytes, which the block has; the rest is the caller's promise.
        unsafe { self.call(fd, block.words.as_mut_ptr().cast()) }
    }

    /// Like `block`, for a reply of unknown length: asks again with the length that the kernel asked for.
    ///
    /// # Safety
    /// As for `block`.
    pub(super) unsafe fn reply(self, fd: BorrowedFd<'_>, mut head: Block) -> Result<Block, SysError> {
        // SAFETY: as the caller promised.
        unsafe { self.block(fd, &mut head) }?;
        let wanted = head.u32(0) as usize;
        if wanted <= head.len() {
            return Ok(head);
        }
        head.words.resize(wanted.div_ceil(8), 0);
        // SAFETY: as the caller promised.
        unsafe { self.block(fd, &mut head) }?;
        Ok(head)
    }

    unsafe fn call(self, fd: BorrowedFd<'_>, argument: *mut c_void) -> Result<i32, SysError> {
        // SAFETY: the callers above passed on what the request needs.
        let result = unsafe { rustix::ioctl::ioctl(fd, Raw { opcode: self.opcode, argument }) };
        result.map_err(|errno| SysError::new(self.name, errno))
    }
}

struct Raw {
    opcode: Opcode,
    argument: *mut c_void,
}

// SAFETY: the argument goes to the kernel as it is, and the result is only the returned number.
unsafe impl Ioctl for Raw {
    type Output = i32;
    const IS_MUTATING: bool = true;

    fn opcode(&self) -> Opcode {
        self.opcode
    }

    fn as_ptr(&mut self) -> *mut c_void {
        self.argument
    }

    unsafe fn output_from_ptr(out: IoctlOutput, _: *mut c_void) -> rustix::io::Result<i32> {
        Ok(out)
    }
}

const _: () = assert!(cfg!(target_endian = "little"), "blocks are read and written as little-endian words");

/// A structure of the kernel's interface as bytes, aligned to 8.
#[derive(Clone, Debug)]
pub(crate) struct Block {
    words: Vec<u64>,
}

impl Block {
    /// `len` zeroed bytes, rounded up to 8.
    pub(super) fn zeroed(len: usize) -> Block {
        Block { words: vec![0; len.div_ceil(8)] }
    }

    fn len(&self) -> usize {
        self.words.len() * 8
    }

    pub(super) fn set_u32(&mut self, offset: usize, value: u32) {
        let shift = offset % 8 * 8;
        let word = &mut self.words[offset / 8];
        *word = *word & !(u64::from(u32::MAX) << shift) | u64::from(value) << shift;
    }

    pub(super) fn set_u64(&mut self, offset: usize, value: u64) {
        self.words[offset / 8] = value;
    }

    pub(super) fn u32(&self, offset: usize) -> u32 {
        (self.words[offset / 8] >> (offset % 8 * 8)) as u32
    }

    pub(super) fn u64(&self, offset: usize) -> u64 {
        self.words[offset / 8]
    }

    /// The bytes, for a parser.
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.words.into_iter().flat_map(u64::to_le_bytes).collect()
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsFd;

    use super::*;

    #[test]
    fn words_of_a_block_lie_where_the_kernel_looks() {
        let mut block = Block::zeroed(20);
        block.set_u32(4, 0x0102_0304);
        block.set_u32(0, 7);
        block.set_u64(16, 0x1122_3344_5566_7788);
        assert_eq!(
            (block.u32(0), block.u32(4), block.u64(16), block.len()),
            (7, 0x0102_0304, 0x1122_3344_5566_7788, 24)
        );
        assert_eq!(block.into_bytes()[..8], [7, 0, 0, 0, 4, 3, 2, 1]);
    }

    #[test]
    fn a_failed_call_keeps_its_name_and_number() {
        let null = std::fs::File::open("/dev/null").unwrap();
        // SAFETY: /dev/null knows no ioctls.
        let error = unsafe { Request::vfio("VFIO_GET_API_VERSION", 0).number(null.as_fd(), 0) }.unwrap_err();
        assert_eq!(error.errno(), Some(Errno::NOTTY));
        assert!(error.to_string().starts_with("VFIO_GET_API_VERSION: "), "{error}");
    }
}
