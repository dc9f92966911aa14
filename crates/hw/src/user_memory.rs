// UNSAFETY: memory that somebody else owns, as memory of ours.
#![expect(unsafe_code, reason = "the owner's promise about its memory becomes ours")]
//! Memory of a user's, as a window that devices may use.

use std::any::Any;
use std::fmt;
use std::os::fd::BorrowedFd;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::{BASE_PAGE, Memory, Window};

/// Memory that others allocated, with what keeps it, if something does.
struct UserMemory {
    base: NonNull<u8>,
    len: usize,
    _owner: Option<Box<dyn Any + Send + Sync>>,
}

impl fmt::Debug for UserMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UserMemory").field("base", &self.base).field("len", &self.len).finish_non_exhaustive()
    }
}

// SAFETY: addresses of the process, and an owner that may go to any thread.
unsafe impl Send for UserMemory {}
// SAFETY: all access goes through raw volatile or atomic operations, and nobody reaches the owner.
unsafe impl Sync for UserMemory {}

// SAFETY: whoever made the window promised that the memory stays.
unsafe impl Memory for UserMemory {
    fn base(&self) -> NonNull<u8> {
        self.base
    }
    fn len(&self) -> usize {
        self.len
    }
    fn page_size(&self) -> usize {
        BASE_PAGE
    }
    fn file(&self) -> Option<(BorrowedFd<'_>, u64)> {
        None
    }
}

impl Window {
    /// Whole pages of a user's, `owner` kept as long as the last clone.
    ///
    /// # Safety
    /// `base` leads to a page's first byte, and `len` bytes from there on are whole pages that stay mapped until the last
    /// clone is dropped. They are readable, and, unless nobody writes through the window, writable. Others access them
    /// only as plain memory or atomically.
    pub unsafe fn of_user(
        base: NonNull<u8>,
        len: usize,
        owner: Option<Box<dyn Any + Send + Sync>>,
    ) -> Window {
        Window::whole(Arc::new(UserMemory { base, len, _owner: owner }))
    }
}
