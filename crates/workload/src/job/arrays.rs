//! The checks of `--api array`: the cache, and the pages that are to be found in it.

use serde::{Deserialize, Serialize};
use warpbell_base::Time;

use super::check::{conflict, too_large, too_small};
use super::{BUFFER_LIMIT, JobError, LANES};
use crate::options::{Api, BenchOptions, Policy, Sharing};
use crate::size::ByteSize;

/// Memory of the cache, where nobody says how much.
pub const DEFAULT_CACHE: ByteSize = ByteSize(1 << 20);
/// Bytes of an element.
pub(super) const WORD: u64 = 8;

/// A page cache, and what is asked of it. Its pages are as large as `--bs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct CacheShape {
    /// Memory of its pages.
    pub cache_bytes: u64,
    /// How many it has.
    pub lines: u32,
    /// Which of them leaves for another.
    pub policy: Policy,
    /// Pages of the array that are used.
    pub pages: u64,
    /// The share of lookups, in percent, that should find their page, where that was asked for.
    pub hit_rate_percent: Option<u8>,
    /// Pages that a warp wants at once.
    pub spread: u32,
}

impl CacheShape {
    /// Whether pages are drawn, of which so many are found; or else taken in turn, unless the pattern draws them.
    pub fn draws(&self) -> Option<bool> {
        self.hit_rate_percent.map(|percent| percent > 0)
    }
}

/// The cache of a run that has one; `slots` pages are in its range.
pub(super) fn cache(options: &BenchOptions, slots: u64) -> Result<Option<CacheShape>, JobError> {
    if options.api != Api::Array {
        return no_flags(options).map(|()| None);
    }
    refuse_others(options)?;
    let page = options.bs.0;
    if !page.is_power_of_two() {
        return Err(conflict("bs", page, "pages of a cache have a power of two of bytes".to_owned()));
    }
    let cache = options.cache.unwrap_or(DEFAULT_CACHE).0;
    if cache < page {
        return Err(too_small("cache", cache, format!("{page}, a page (--bs)")));
    }
    if cache > BUFFER_LIMIT {
        return Err(too_large("cache", cache, ByteSize(BUFFER_LIMIT)));
    }
    let spread = options.spread.unwrap_or(LANES);
    if !spread.is_power_of_two() || spread > LANES {
        let reason =
            format!("must be 1, 2, 4, 8, 16 or {LANES}, so that a warp's lanes are shared out evenly");
        return Err(conflict("spread", spread, reason));
    }
    let lines = u32::try_from(cache / page).unwrap_or(u32::MAX);
    Ok(Some(CacheShape {
        cache_bytes: u64::from(lines) * page,
        lines,
        policy: options.policy.unwrap_or(Policy::Clock),
        pages: pages(options, lines.into(), slots)?,
        hit_rate_percent: options.hit_rate,
        spread,
    }))
}

/// Pages of the array that are used. Where each is wanted as often as any other, a cache finds the share of them that it
/// has room for, whatever its policy; pages in turn that are more than it has room for are never found.
fn pages(options: &BenchOptions, lines: u64, slots: u64) -> Result<u64, JobError> {
    let Some(percent) = options.hit_rate else { return Ok(slots) };
    if percent > 100 {
        return Err(too_large("hit-rate", percent, 100));
    }
    if !options.rw.random() {
        let reason = format!("it says how far pages lie apart that are drawn, this is --rw {}", options.rw);
        return Err(conflict("hit-rate", percent, reason));
    }
    let needed = if percent == 0 { 2 * lines } else { (lines * 100).div_ceil(percent.into()) };
    if needed > slots {
        let reason = format!("takes {needed} pages with a cache of {lines}, and the range has {slots}");
        return Err(conflict("hit-rate", percent, reason));
    }
    Ok(if percent == 0 { slots } else { needed })
}

fn no_flags(options: &BenchOptions) -> Result<(), JobError> {
    let given = [
        ("cache", options.cache.map(|value| value.to_string())),
        ("policy", options.policy.map(|value| value.to_string())),
        ("hit-rate", options.hit_rate.map(|value| value.to_string())),
        ("spread", options.spread.map(|value| value.to_string())),
    ];
    match given.into_iter().find_map(|(flag, value)| Some((flag, value?))) {
        Some((flag, value)) => {
            let reason = format!("only --api array has a cache, this is --api {}", options.api);
            Err(conflict(flag, value, reason))
        }
        None => Ok(()),
    }
}

/// What does not go with an array.
fn refuse_others(options: &BenchOptions) -> Result<(), JobError> {
    let refused = |flag, value: String, reason: &str| Err(conflict(flag, value, reason.to_owned()));
    if options.sharing == Sharing::Exclusive {
        return refused(
            "api",
            "array".to_owned(),
            "any warp may miss a page on any queue; add --sharing shared",
        );
    }
    if options.replay.is_some() {
        return refused(
            "api",
            "array".to_owned(),
            "a replay submits command by command; use --api io or raw",
        );
    }
    if options.trace_events.is_some() {
        return refused("api", "array".to_owned(), "arrays write no traces; use --api io or raw");
    }
    if options.retries != 0 {
        let reason = "an array reads a page again only where it is wanted again; use --api io or raw";
        return refused("retries", options.retries.to_string(), reason);
    }
    if !options.ramp.is_zero() {
        let reason = "the cache is filled before with --hit-rate above 0, and is empty at first without, as it should be";
        return refused("ramp", Time(options.ramp).to_string(), reason);
    }
    Ok(())
}
