//! What the kernel holds for processes that use SSDs. Everything here is exact: two pictures of a system in which nobody
//! has an SSD open are equal.

use std::fs;
use std::path::Path;

/// A picture of the system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holdings {
    /// Pages that are pinned for devices.
    pub pinned: u64,
    /// Pages that tables of IOMMUs are made of: each mapping of a process needs some.
    iommu_tables: u64,
    /// Pages that a process has locked, or that cannot be reclaimed for another reason.
    locked: [u64; 2],
    /// Huge pages: free ones, and those that were promised.
    huge: [u64; 2],
    /// Files of VFIO and iommufd that a process has open, by process and path.
    pub open: Vec<String>,
    /// Files in memory that a process may have left.
    left: Vec<String>,
}

impl Holdings {
    /// As it is now.
    pub fn now() -> Holdings {
        Holdings {
            pinned: pinned_pages(),
            iommu_tables: vmstat("nr_iommu_pages"),
            locked: ["nr_mlock", "nr_unevictable"].map(vmstat),
            huge: ["HugePages_Free:", "HugePages_Rsvd:"].map(meminfo),
            open: open_files(),
            left: ["/dev/shm", "/dev/hugepages", "/tmp"].into_iter().flat_map(names).collect(),
        }
    }
}

/// A number of `/proc/vmstat`, which each processor counts for itself until it is told to add it up.
pub fn vmstat(name: &str) -> u64 {
    fs::write("/proc/sys/vm/stat_refresh", "1").expect("counters are added up");
    number("/proc/vmstat", name)
}

/// Pages that the kernel holds for devices.
pub fn pinned_pages() -> u64 {
    vmstat("nr_foll_pin_acquired") - vmstat("nr_foll_pin_released")
}

/// KiB that programs can have, or a number of huge pages.
pub fn meminfo(name: &str) -> u64 {
    number("/proc/meminfo", name)
}

fn number(file: &str, name: &str) -> u64 {
    let text = fs::read_to_string(file).expect("statistics");
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.unwrap_or_else(|| panic!("{file} has no {name}")).parse().expect("a number")
}

fn names(folder: impl AsRef<Path>) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().map_while(Result::ok);
    let mut names: Vec<String> = entries.map(|entry| entry.path().display().to_string()).collect();
    names.sort();
    names
}

/// Numbers of the processes that run a program of this name (its first 15 characters).
pub fn processes(program: &str) -> Vec<String> {
    let comm = |path: &String| fs::read_to_string(format!("{path}/comm")).unwrap_or_default();
    names("/proc").into_iter().filter(|path| comm(path).trim() == program).collect()
}

fn open_files() -> Vec<String> {
    let descriptors = names("/proc").into_iter().flat_map(|process| names(format!("{process}/fd")));
    let with_target = descriptors.filter_map(|path| {
        let target = fs::read_link(&path).ok()?.display().to_string();
        ["/dev/vfio", "/dev/iommu", "anon_inode:[vfio", "anon_inode:[iommufd"]
            .iter()
            .any(|start| target.starts_with(start))
            .then(|| format!("{path} -> {target}"))
    });
    with_target.collect()
}
