//! What the kernel says of this process's pages.

use std::fs::{File, read_to_string};
use std::os::unix::fs::FileExt;

use super::arena::PAGE;

/// Whether every page is mapped (`/proc/self/maps`).
pub(super) fn mapped(start: u64, len: u64) -> bool {
    let Ok(maps) = read_to_string("/proc/self/maps") else { return true };
    let ranges = maps.lines().filter_map(|line| {
        let (from, to) = line.split(' ').next()?.split_once('-')?;
        Some((u64::from_str_radix(from, 16).ok()?, u64::from_str_radix(to, 16).ok()?))
    });
    let mut at = start;
    for (from, to) in ranges {
        if from <= at && at < to {
            at = to;
        }
    }
    at >= start + len
}

/// Whether it is memory of a file of this name, which memfd_create made (`/proc/self/maps`).
pub(super) fn is_named(start: u64, name: &str) -> bool {
    let Ok(maps) = read_to_string("/proc/self/maps") else { return false };
    maps.lines().any(|line| {
        let of = line.split(' ').next().and_then(|range| range.split_once('-'));
        let begins = of.is_some_and(|(from, _)| u64::from_str_radix(from, 16) == Ok(start));
        begins && line.contains(&format!("/memfd:{name} "))
    })
}

/// The first page that is not present in this process's page table (`/proc/self/pagemap`).
pub(super) fn first_absent(start: u64, len: u64) -> Option<u64> {
    const PRESENT: u64 = 1 << 63;
    let table = File::open("/proc/self/pagemap").ok()?;
    let pages = (start / PAGE..(start + len).div_ceil(PAGE)).map(|page| page * PAGE);
    pages.into_iter().find(|address| {
        let mut entry = [0; 8];
        table.read_exact_at(&mut entry, address / PAGE * 8).is_ok()
            && u64::from_ne_bytes(entry) & PRESENT == 0
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_test_is_mapped_and_address_zero_is_not() {
        let local = 0u8;
        let here = &raw const local as u64 / PAGE * PAGE;
        assert!(mapped(here, PAGE));
        assert!(!mapped(0, PAGE));
        assert_eq!(first_absent(here, PAGE), None);
        assert_eq!(first_absent(0, PAGE), Some(0));
    }
}
