// UNSAFETY: memory that the C program owns, as memory of ours.
#![expect(unsafe_code, reason = "the C program's promise about its memory becomes ours")]
//! Memory of a C program's, as a window that devices may use.

use std::ptr::NonNull;

use warpbell_hw::{BASE_PAGE, Window};

use super::mapped;
use crate::error::{Answer, Failure};

/// Double words: what commands name addresses by.
const ALIGNMENT: usize = 4;

/// Whole pages of a program's.
///
/// # Safety
/// `memory` is null, or leads to `bytes` readable and writable bytes that stay until the last clone of the window is
/// dropped.
pub(super) unsafe fn window(memory: *mut u8, bytes: usize) -> Answer<Window> {
    let base = NonNull::new(memory).ok_or_else(|| Failure::invalid("memory: is NULL"))?;
    let (address, page) = (memory as usize, BASE_PAGE);
    if !address.is_multiple_of(page) {
        let remedy = "allocate it with aligned_alloc or mmap";
        return Err(Failure::invalid(format!(
            "memory {address:#x}: must begin on a page of {page} bytes; {remedy}"
        )));
    }
    if bytes == 0 || !bytes.is_multiple_of(page) || isize::try_from(bytes).is_err() {
        return Err(Failure::invalid(format!("bytes {bytes}: must be whole pages of {page} bytes")));
    }
    // SAFETY: the contract of this function.
    unsafe { whole(base, address, bytes) }
}

/// The pages around a program's memory, and how far into them it begins.
///
/// # Safety
/// `memory` is null, or leads to `bytes` readable and writable bytes that stay until the last clone of the window is
/// dropped.
pub(super) unsafe fn pages_around(memory: *mut u8, bytes: usize) -> Answer<(Window, usize)> {
    let (address, skip) = (memory as usize, memory as usize % BASE_PAGE);
    if memory.is_null() {
        return Err(Failure::invalid("memory: is NULL"));
    }
    if !address.is_multiple_of(ALIGNMENT) {
        return Err(Failure::invalid(format!("memory {address:#x}: must be a multiple of {ALIGNMENT}")));
    }
    if bytes == 0 || bytes > isize::MAX as usize - 2 * BASE_PAGE {
        let most = isize::MAX as usize - 2 * BASE_PAGE;
        return Err(Failure::invalid(format!("bytes {bytes}: must be from 1 to {most}")));
    }
    // A page that has one byte of the program's has its whole protection.
    let base = NonNull::new(memory.wrapping_sub(skip))
        .ok_or_else(|| Failure::invalid(format!("memory {address:#x}: lies in the page at address 0")))?;
    let len = (skip + bytes).next_multiple_of(BASE_PAGE);
    // SAFETY: the contract of this function.
    Ok((unsafe { whole(base, address - skip, len) }?, skip))
}

/// Whole pages as a window, if they are there.
///
/// # Safety
/// What is there stays until the last clone of the window is dropped.
unsafe fn whole(base: NonNull<u8>, address: usize, bytes: usize) -> Answer<Window> {
    if address.checked_add(bytes).is_none() {
        return Err(Failure::invalid(format!(
            "memory {address:#x} and {bytes} bytes: leave the address space"
        )));
    }
    mapped::check(address, bytes)?;
    // SAFETY: the contract of this function; they are mapped, readable and writable.
    Ok(unsafe { Window::of_user(base, bytes, None) })
}
