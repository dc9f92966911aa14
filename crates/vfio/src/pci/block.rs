//! Block devices of namespaces, and everything that stands on them: partitions, device mapper, MD.

use std::collections::BTreeSet;

use super::Sysfs;

/// A namespace's block device, as the kernel driver shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Namespace {
    /// Name of the block device, such as `nvme0n1`; of the multipath head where the namespace has several paths.
    pub name: String,
    /// Bytes.
    pub size_bytes: u64,
    /// Bytes of a block.
    pub block_size_bytes: u32,
    /// Controllers of other functions that also lead to it.
    pub other_paths: Vec<String>,
}

/// The namespaces of a controller such as `nvme0`, whose folder is `folder`.
pub(super) fn namespaces(sysfs: &Sysfs, folder: &str, controller: &str) -> Vec<Namespace> {
    let instance = controller.trim_start_matches("nvme");
    let names = sysfs.names(format!("{folder}/{controller}"));
    names.iter().filter_map(|name| disk_name(name)).map(|name| namespace(sysfs, name, instance)).collect()
}

/// `nvme0n1` of itself; `nvme0n1` also for the hidden path `nvme0c3n1` of a multipath head.
fn disk_name(name: &str) -> Option<String> {
    let (subsystem, rest) = split_number(name.strip_prefix("nvme")?)?;
    let rest = match rest.strip_prefix('c') {
        Some(path) => split_number(path)?.1,
        None => rest,
    };
    let (namespace, rest) = split_number(rest.strip_prefix('n')?)?;
    rest.is_empty().then(|| format!("nvme{subsystem}n{namespace}"))
}

/// Leading digits, and what follows.
fn split_number(text: &str) -> Option<(&str, &str)> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    (digits > 0).then(|| text.split_at(digits))
}

fn namespace(sysfs: &Sysfs, name: String, instance: &str) -> Namespace {
    let folder = format!("/sys/class/block/{name}");
    // The size is in units of 512 bytes whatever the block size.
    let size_bytes = sysfs.number(format!("{folder}/size")).unwrap_or(0) * 512;
    let block = sysfs.number(format!("{folder}/queue/logical_block_size")).unwrap_or(512);
    let other_paths = other_paths(sysfs, &name, instance);
    Namespace { name, size_bytes, block_size_bytes: block as u32, other_paths }
}

/// Controllers whose hidden paths (`nvme0c3n1`: controller 3) lead to the same head.
fn other_paths(sysfs: &Sysfs, head: &str, instance: &str) -> Vec<String> {
    let Some((subsystem, namespace)) = head.trim_start_matches("nvme").split_once('n') else {
        return Vec::new();
    };
    let controllers = sysfs.names("/sys/class/nvme");
    let others = controllers.into_iter().filter(|name| name.trim_start_matches("nvme") != instance);
    let leads = |name: &String| {
        let number = name.trim_start_matches("nvme");
        sysfs.exists(format!("/sys/class/nvme/{name}/nvme{subsystem}c{number}n{namespace}"))
    };
    others.filter(leads).collect()
}

/// A block device that stands on a namespace, or the namespace's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Member {
    /// Its name, such as `dm-0`.
    pub name: String,
    /// `major:minor`.
    pub dev: Option<String>,
    /// How it stands on the namespace, such as `nvme0n1p2, dm-0 (vg-root)`.
    pub chain: String,
    /// The device that it holds, unless it is the namespace or a partition.
    pub holds: Option<String>,
}

/// The disk, its partitions, what holds them, and so on upwards.
pub(super) fn family(sysfs: &Sysfs, disk: &str) -> Vec<Member> {
    let mut members = Vec::new();
    let mut seen = BTreeSet::new();
    climb(sysfs, disk, disk.to_owned(), None, &mut seen, &mut members);
    members
}

fn climb(
    sysfs: &Sysfs,
    name: &str,
    chain: String,
    holds: Option<String>,
    seen: &mut BTreeSet<String>,
    members: &mut Vec<Member>,
) {
    if !seen.insert(name.to_owned()) {
        return;
    }
    let folder = format!("/sys/class/block/{name}");
    let dev = sysfs.text(format!("{folder}/dev"));
    members.push(Member { name: name.to_owned(), dev, chain: chain.clone(), holds });
    for holder in sysfs.names(format!("{folder}/holders")) {
        let chain = format!("{chain}, {}", described(sysfs, &holder));
        climb(sysfs, &holder, chain, Some(name.to_owned()), seen, members);
    }
    for part in sysfs.names(&folder) {
        if sysfs.exists(format!("{folder}/{part}/partition")) {
            // A partition's own name says which disk it is on.
            let chain = if chain == name { part.clone() } else { format!("{chain}, {part}") };
            climb(sysfs, &part, chain, None, seen, members);
        }
    }
}

/// `dm-0 (vg-root)`: device mapper's numbers say nothing to people.
pub(super) fn described(sysfs: &Sysfs, name: &str) -> String {
    match sysfs.text(format!("/sys/class/block/{name}/dm/name")) {
        Some(mapped) => format!("{name} ({mapped})"),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_are_told_from_paths_characters_and_attributes() {
        for (name, disk) in [
            ("nvme0n1", Some("nvme0n1")),
            ("nvme12n345", Some("nvme12n345")),
            ("nvme0c3n1", Some("nvme0n1")),
            ("ng0n1", None),
            ("nvme0n1p1", None),
            ("nvme0", None),
            ("nvme0c3", None),
            ("model", None),
        ] {
            assert_eq!(disk_name(name).as_deref(), disk, "{name}");
        }
    }
}
