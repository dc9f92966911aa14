// UNSAFETY: reads and writes through the pointers of C programs.
#![expect(unsafe_code, reason = "pointers of C programs become values, and values go through them")]
//! Pointers of C programs. What can be checked is: null, text that is not UTF-8, versions and sizes of structs.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use warpbell::Target;
use warpbell_kernels::abi::Plain;

use crate::error::{Answer, Failure};
use crate::types::host_io::IoQueueOptions;
use crate::types::{
    API_VERSION, AttachOptions, CompileOptions, Event, Handle, Head, LaunchOptions, LeaseOptions,
    NamespaceInfo, OLDEST_API_VERSION, OpenOptions, RecoveryCounters, RecoveryPolicy, SsdInfo,
};

/// The most entries of an array that ends with null: one without an end is noticed.
const LIST_LIMIT: usize = 4096;

/// A struct that begins with its version and size.
///
/// # Safety
/// `repr(C)`, begins with a [`Head`], without padding, and zero bytes are a value of it.
pub(super) unsafe trait VersionedStruct: Copy {}

// SAFETY: integers and raw pointers behind a head, ordered without padding.
unsafe impl VersionedStruct for OpenOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for AttachOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for CompileOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for LaunchOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for RecoveryPolicy {}
// SAFETY: as above.
unsafe impl VersionedStruct for RecoveryCounters {}
// SAFETY: as above.
unsafe impl VersionedStruct for LeaseOptions {}
// SAFETY: as above, with arrays of bytes.
unsafe impl VersionedStruct for SsdInfo {}
// SAFETY: as above, with arrays of bytes.
unsafe impl VersionedStruct for Event {}
// SAFETY: as above.
unsafe impl VersionedStruct for NamespaceInfo {}
// SAFETY: as above.
unsafe impl VersionedStruct for IoQueueOptions {}

fn null(what: &str) -> Failure {
    Failure::invalid(format!("{what}: is NULL"))
}

/// A handle's number.
pub(super) fn number(handle: Handle) -> u64 {
    handle as usize as u64
}

/// Text of a C program.
///
/// # Safety
/// `text` is null, or a C string that stays for the call.
pub(super) unsafe fn text<'a>(what: &str, text: *const c_char) -> Answer<&'a str> {
    if text.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and a C string by the contract.
    let bytes = unsafe { CStr::from_ptr(text) };
    bytes.to_str().map_err(|error| Failure::invalid(format!("{what}: is not UTF-8: {error}")))
}

/// Text of a C program; null: none.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn optional<'a>(what: &str, name: *const c_char) -> Answer<Option<&'a str>> {
    if name.is_null() {
        return Ok(None);
    }
    // SAFETY: the contract of this function.
    unsafe { text(what, name) }.map(Some)
}

/// The target of that name; null: `cpu`.
///
/// # Safety
/// As for [`text`].
pub(super) unsafe fn target(name: *const c_char) -> Answer<Target> {
    if name.is_null() {
        return Ok(Target::Cpu);
    }
    // SAFETY: the contract of this function.
    let name = unsafe { text("target", name) }?;
    Ok(name.parse().map_err(warpbell::Error::from)?)
}

/// Texts of an array that ends with null; null: none.
///
/// # Safety
/// `list` is null, or leads to C strings up to a null pointer.
pub(super) unsafe fn list(what: &str, list: *const *const c_char) -> Answer<Vec<String>> {
    let mut texts = Vec::new();
    if list.is_null() {
        return Ok(texts);
    }
    while texts.len() < LIST_LIMIT {
        // SAFETY: the array goes on up to its null pointer, which has not come yet.
        let entry = unsafe { list.add(texts.len()) };
        // SAFETY: as above.
        let entry = unsafe { entry.read_unaligned() };
        if entry.is_null() {
            return Ok(texts);
        }
        // SAFETY: a C string by the contract.
        texts.push(unsafe { text(what, entry) }?.to_owned());
    }
    Err(Failure::invalid(format!("{what}: more than {LIST_LIMIT} entries; does the array end with NULL?")))
}

/// Options as this library knows them: what a shorter struct lacks is zero; what a longer one has besides must be.
///
/// # Safety
/// `options` is null, or leads to a struct of as many bytes as its head says.
pub(super) unsafe fn options<T: VersionedStruct>(what: &str, options: *const T) -> Answer<T> {
    // SAFETY: zero bytes are a value, by `VersionedStruct`.
    let mut known: T = unsafe { MaybeUninit::zeroed().assume_init() };
    if options.is_null() {
        return Ok(known);
    }
    // SAFETY: the contract of this function.
    let size = unsafe { head(what, options) }?;
    let common = size.min(size_of::<T>());
    let bytes = options.cast::<u8>();
    // SAFETY: both have that many bytes, and `known` is a local value.
    unsafe { std::ptr::copy_nonoverlapping(bytes, (&raw mut known).cast::<u8>(), common) };
    for offset in common..size {
        // SAFETY: the struct has `size` bytes.
        let byte = unsafe { bytes.add(offset) };
        // SAFETY: as above.
        if unsafe { *byte } != 0 {
            let (own, version) = (size_of::<T>(), env!("CARGO_PKG_VERSION"));
            return Err(Failure::invalid(format!(
                "{what}: byte {offset} is set, but this library ({version}) knows only {own} bytes: it is older than \
                 the header"
            )));
        }
    }
    Ok(known)
}

/// Fills in a struct of the program's, as much of it as the program knows. Its head stays.
///
/// # Safety
/// `into` is null, or leads to a struct of as many bytes as its head says.
pub(super) unsafe fn fill<T: VersionedStruct>(what: &str, into: *mut T, value: &T) -> Answer<()> {
    // SAFETY: the contract of this function.
    let size = unsafe { check_place(what, into) }?;
    let (begin, end) = (size_of::<Head>(), size.min(size_of::<T>()));
    let from = (&raw const *value).cast::<u8>();
    // SAFETY: `value` has that many bytes.
    let from = unsafe { from.add(begin) };
    // SAFETY: so has the program's struct.
    let to = unsafe { into.cast::<u8>().add(begin) };
    // SAFETY: both have `end` bytes, and `value` is not the program's memory.
    unsafe { std::ptr::copy_nonoverlapping(from, to, end - begin) };
    Ok(())
}

/// The size of a struct of the program's that is to be filled in.
///
/// # Safety
/// As for [`fill`].
pub(super) unsafe fn check_place<T: VersionedStruct>(what: &str, into: *mut T) -> Answer<usize> {
    if into.is_null() {
        return Err(null(what));
    }
    // SAFETY: the contract of this function.
    unsafe { head(what, into.cast_const()) }
}

/// The size that a struct says it has, if its version is one that this library takes.
///
/// # Safety
/// `of` leads to a struct that begins with a [`Head`].
unsafe fn head<T: VersionedStruct>(what: &str, of: *const T) -> Answer<usize> {
    // SAFETY: the contract of this function.
    let Head { api_version, size } = unsafe { of.cast::<Head>().read_unaligned() };
    if !(OLDEST_API_VERSION..=API_VERSION).contains(&api_version) {
        return Err(Failure::invalid(format!(
            "{what}: api_version {api_version}, but this library takes {OLDEST_API_VERSION} to {API_VERSION}: start \
             from the _INIT macro, and compile with a header that is not newer than the library"
        )));
    }
    if (size as usize) < size_of::<Head>() || size > 1 << 16 {
        let least = size_of::<Head>();
        return Err(Failure::invalid(format!("{what}: size {size}: must be from {least} to {}", 1 << 16)));
    }
    Ok(size as usize)
}

/// A place for a result.
///
/// # Safety
/// `into` is null, or leads to memory for a `T`.
pub(super) unsafe fn put<T: Copy>(what: &str, into: *mut T, value: T) -> Answer<()> {
    if into.is_null() {
        return Err(null(what));
    }
    // SAFETY: not null, and room for a `T` by the contract.
    unsafe { into.write_unaligned(value) };
    Ok(())
}

/// Makes a handle, and puts it where the program wants it: null first, so that a failure leaves no old one there.
///
/// # Safety
/// `into` is null, or leads to memory for a handle.
pub(super) unsafe fn make(what: &str, into: *mut Handle, make: impl FnOnce() -> Answer<u64>) -> Answer<()> {
    // SAFETY: the contract of this function.
    unsafe { put(what, into, std::ptr::null_mut()) }?;
    let handle = make()?;
    // SAFETY: as above.
    unsafe { put(what, into, handle as usize as Handle) }
}

/// Bytes of the program's.
///
/// # Safety
/// `bytes` is null, or leads to `len` bytes that stay as they are for the call.
pub(super) unsafe fn bytes<'a>(what: &str, bytes: *const u8, len: usize) -> Answer<&'a [u8]> {
    check_length(what, bytes, len)?;
    // SAFETY: not null, and `len` bytes by the contract.
    Ok(unsafe { std::slice::from_raw_parts(bytes, len) })
}

/// Bytes of the program's to be filled in.
///
/// # Safety
/// `bytes` is null, or leads to `len` initialised bytes that nobody else uses during the call.
pub(super) unsafe fn bytes_mut<'a>(what: &str, bytes: *mut u8, len: usize) -> Answer<&'a mut [u8]> {
    check_length(what, bytes, len)?;
    // SAFETY: not null, and `len` bytes of the caller's alone by the contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes, len) })
}

fn check_length(what: &str, bytes: *const u8, len: usize) -> Answer<()> {
    if bytes.is_null() {
        return Err(null(what));
    }
    if isize::try_from(len).is_err() {
        return Err(Failure::invalid(format!("{what}: {len} bytes: must be at most {}", isize::MAX)));
    }
    Ok(())
}

/// An array of the program's; null where it has no entries.
///
/// # Safety
/// `list` is null, or leads to `count` entries that stay as they are for the call.
pub(super) unsafe fn records<'a, T: Copy>(what: &str, list: *const T, count: u32) -> Answer<&'a [T]> {
    if count == 0 {
        return Ok(&[]);
    }
    check_array(what, list)?;
    // SAFETY: not null, aligned, and `count` entries by the contract.
    Ok(unsafe { std::slice::from_raw_parts(list, count as usize) })
}

/// Room of the program's for an array; null where it has no entries.
///
/// # Safety
/// `list` is null, or leads to memory for `count` entries that nobody else uses during the call.
pub(super) unsafe fn records_mut<'a, T: Copy>(
    what: &str,
    list: *mut T,
    count: u32,
) -> Answer<&'a mut [MaybeUninit<T>]> {
    if count == 0 {
        return Ok(&mut []);
    }
    check_array(what, list.cast_const())?;
    // SAFETY: not null, aligned, and room for `count` entries by the contract.
    Ok(unsafe { std::slice::from_raw_parts_mut(list.cast(), count as usize) })
}

fn check_array<T>(what: &str, list: *const T) -> Answer<()> {
    if list.is_null() {
        return Err(null(what));
    }
    if !list.is_aligned() {
        let rule = format!("must be aligned to {} bytes, as a C array is", align_of::<T>());
        return Err(Failure::invalid(format!("{what} {list:p}: {rule}")));
    }
    Ok(())
}

/// A copy of an array of the program's. None of its entries: it may be null.
///
/// # Safety
/// `first` is null or leads to `count` values of `T`.
pub(super) unsafe fn array<T: Copy>(what: &str, first: *const T, count: usize) -> Answer<Vec<T>> {
    if count == 0 {
        return Ok(Vec::new());
    }
    check_length(what, first.cast(), count.saturating_mul(size_of::<T>()))?;
    let places = (0..count).map(|index| first.wrapping_add(index));
    // SAFETY: not null, and `count` values by the contract; a program may have packed them.
    Ok(places.map(|place| unsafe { place.read_unaligned() }).collect())
}

/// The bytes of a struct of `abi.h`, for a place of the program's.
///
/// # Safety
/// As for [`put`].
pub(super) unsafe fn put_ref<T: Plain>(into: *mut T, value: T) -> Answer<()> {
    // SAFETY: the contract of this function.
    unsafe { put("ref", into, value) }
}
