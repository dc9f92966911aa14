// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! The functions of `file.h`.

use std::ffi::{c_char, c_void};

use warpbell::FileOptions;
use warpbell_hw::Nsid;
use warpbell_kernels::abi::FileRef;

use super::pointer::{VersionedStruct, bytes_mut, fill, make, number, optional, options, put_ref, text};
use crate::error::report;
use crate::file::{FILES, File, OpenTable, TABLES};
use crate::types::{self, CacheOptions, FileInfo, FilePart, Handle};

// SAFETY: integers and raw pointers behind a head, ordered without padding.
unsafe impl VersionedStruct for types::FileOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for FileInfo {}
// SAFETY: as above.
unsafe impl VersionedStruct for FilePart {}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_file_open(
    ssd: Handle,
    path: *const c_char,
    chosen: *const types::FileOptions,
    file: *mut Handle,
) -> i32 {
    let open = || {
        // SAFETY: the contract of this function.
        let path = unsafe { text("path", path) }?;
        // SAFETY: as above.
        let chosen = unsafe { options("warpbell_file_options", chosen) }?;
        // SAFETY: as above.
        let manifest = unsafe { optional("manifest", chosen.manifest) }?;
        // SAFETY: as above.
        let partition = unsafe { optional("partition", chosen.partition) }?;
        let chosen = FileOptions::new()
            .nsid((chosen.nsid != 0).then_some(Nsid(chosen.nsid)))
            .partition(partition.map(str::to_owned))
            .manifest(manifest.map(Into::into))
            .allow_dirty(chosen.allow_dirty != 0);
        File::open(number(ssd), path, &chosen)
    };
    // SAFETY: as above.
    report(|| unsafe { make("file", file, open) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_file_close(file: Handle) -> i32 {
    report(|| FILES.close(number(file), |_| Ok(())).map(drop))
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_file_get_info(file: Handle, info: *mut FileInfo) -> i32 {
    report(|| {
        let known = FILES.get(number(file))?.info()?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_file_info", info, &known) }
    })
}

/// As the header says.
///
/// # Safety
/// `extent` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_file_get_extent(file: Handle, index: u64, extent: *mut FilePart) -> i32 {
    report(|| {
        let known = FILES.get(number(file))?.extent(index)?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_file_part", extent, &known) }
    })
}

/// As the header says.
///
/// # Safety
/// `data` is null or leads to `len` bytes of the caller's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_file_read(file: Handle, offset: u64, data: *mut c_void, len: usize) -> i32 {
    report(|| {
        let file = FILES.get(number(file))?;
        // SAFETY: the contract of this function.
        let into = unsafe { bytes_mut("data", data.cast(), len) }?;
        file.read(offset, into)
    })
}

/// As the header says.
///
/// # Safety
/// `table` is null or leads to memory for a handle.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_file(queues: Handle, file: Handle, table: *mut Handle) -> i32 {
    // SAFETY: the contract of this function.
    report(|| unsafe { make("table", table, || OpenTable::make(number(queues), number(file))) })
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_file_table_close(table: Handle) -> i32 {
    report(|| OpenTable::close(number(table)))
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_file_table_get_ref(table: Handle, into: *mut FileRef) -> i32 {
    report(|| {
        let value = TABLES.get(number(table))?.to_ref()?;
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_file_table_cache(
    table: Handle,
    chosen: *const CacheOptions,
    cache: *mut Handle,
) -> i32 {
    let create = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_cache_options", chosen) }?;
        TABLES.get(number(table))?.cache(&chosen)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("cache", cache, create) })
}
