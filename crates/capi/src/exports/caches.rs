// UNSAFETY: C programs call these functions with pointers; `pointer` has the checks.
#![expect(unsafe_code, reason = "functions that C programs call, with pointers")]
//! The functions of `cache.h` and `tiles.h`.

use warpbell_kernels::abi::{CacheRef, ScheduleRef};

use super::pointer::{VersionedStruct, array, fill, make, number, options, put, put_ref};
use crate::cache::{CACHES, Cache};
use crate::error::{Answer, report};
use crate::over::Over;
use crate::tiles::{TILES, Tiles};
use crate::types::{CacheCounters, CacheInfo, CacheOptions, Handle, Tile, TilesInfo, TilesOptions};

// SAFETY: integers behind a head, ordered without padding.
unsafe impl VersionedStruct for CacheOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for CacheInfo {}
// SAFETY: as above.
unsafe impl VersionedStruct for CacheCounters {}
// SAFETY: as above.
unsafe impl VersionedStruct for TilesOptions {}
// SAFETY: as above.
unsafe impl VersionedStruct for TilesInfo {}

/// # Safety
/// Pointers are null or valid, as the header says.
unsafe fn make_cache(
    over: impl FnOnce() -> Answer<Over>,
    chosen: *const CacheOptions,
    cache: *mut Handle,
) -> i32 {
    let create = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_cache_options", chosen) }?;
        Cache::make(over()?, &chosen)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("cache", cache, create) })
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_cache(
    queues: Handle,
    chosen: *const CacheOptions,
    cache: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { make_cache(|| Over::queues(number(queues)), chosen, cache) }
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_cache(
    volume: Handle,
    chosen: *const CacheOptions,
    cache: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { make_cache(|| Over::volume(number(volume)), chosen, cache) }
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_cache_close(cache: Handle) -> i32 {
    report(|| Cache::close(number(cache)))
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_cache_get_ref(cache: Handle, into: *mut CacheRef) -> i32 {
    report(|| {
        let value = CACHES.get(number(cache))?.to_ref();
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_cache_get_info(cache: Handle, info: *mut CacheInfo) -> i32 {
    report(|| {
        let known = CACHES.get(number(cache))?.info();
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_cache_info", info, &known) }
    })
}

/// As the header says.
///
/// # Safety
/// `counters` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_cache_get_counters(cache: Handle, counters: *mut CacheCounters) -> i32 {
    report(|| {
        let counted = CACHES.get(number(cache))?.counters()?;
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_cache_counters", counters, &counted) }
    })
}

/// # Safety
/// Pointers are null or valid, as the header says: `order` has `count` entries.
unsafe fn make_tiles(
    over: impl FnOnce() -> Answer<Over>,
    (order, count): (*const Tile, usize),
    chosen: *const TilesOptions,
    tiles: *mut Handle,
) -> i32 {
    let create = || {
        // SAFETY: the contract of this function.
        let chosen = unsafe { options("warpbell_tiles_options", chosen) }?;
        let over = over()?;
        // SAFETY: as above.
        let order = unsafe { array("order", order, count) }?;
        Tiles::make(over, &order, &chosen)
    };
    // SAFETY: the contract of this function.
    report(|| unsafe { make("tiles", tiles, create) })
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says: `order` has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_queues_tiles(
    queues: Handle,
    order: *const Tile,
    count: usize,
    chosen: *const TilesOptions,
    tiles: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { make_tiles(|| Over::queues(number(queues)), (order, count), chosen, tiles) }
}

/// As the header says.
///
/// # Safety
/// Pointers are null or valid, as the header says: `order` has `count` entries.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_volume_tiles(
    volume: Handle,
    order: *const Tile,
    count: usize,
    chosen: *const TilesOptions,
    tiles: *mut Handle,
) -> i32 {
    // SAFETY: the contract of this function.
    unsafe { make_tiles(|| Over::volume(number(volume)), (order, count), chosen, tiles) }
}

/// As the header says.
#[unsafe(no_mangle)]
pub extern "C" fn warpbell_tiles_close(tiles: Handle) -> i32 {
    report(|| Tiles::close(number(tiles)))
}

/// As the header says.
///
/// # Safety
/// `into` is null or leads to memory for the struct.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_tiles_get_ref(tiles: Handle, into: *mut ScheduleRef) -> i32 {
    report(|| {
        let value = TILES.get(number(tiles))?.to_ref();
        // SAFETY: the contract of this function.
        unsafe { put_ref(into, value) }
    })
}

/// As the header says.
///
/// # Safety
/// `info` is null or leads to a struct of the size that it says.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_tiles_get_info(tiles: Handle, info: *mut TilesInfo) -> i32 {
    report(|| {
        let known = TILES.get(number(tiles))?.info();
        // SAFETY: the contract of this function.
        unsafe { fill("warpbell_tiles_info", info, &known) }
    })
}

/// As the header says.
///
/// # Safety
/// `bytes` is null or leads to memory for a number.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn warpbell_tiles_get_shared_bytes(tiles: Handle, stages: u32, bytes: *mut u32) -> i32 {
    report(|| {
        let value = TILES.get(number(tiles))?.shared_bytes(stages)?;
        // SAFETY: the contract of this function.
        unsafe { put("bytes", bytes, value) }
    })
}
