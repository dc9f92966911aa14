//! Which processes have which device nodes open.

use std::fs;
use std::path::Path;

use rustix::fs::{AtFlags, CWD, FileType, StatxFlags, statx};

use super::Sysfs;

/// A device node that a process has open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenNode {
    /// The path by which the process opened it.
    pub path: String,
    /// `major:minor` of a block or character device.
    dev: Option<String>,
    /// Process ID.
    pub pid: u32,
    /// The process's name.
    pub command: String,
}

impl OpenNode {
    /// Whether it is the node at `path`, or the device `dev` by another path.
    pub fn is(&self, path: &str, dev: Option<&str>) -> bool {
        self.path == path || (dev.is_some() && self.dev.as_deref() == dev)
    }
}

/// The device nodes that processes other than this one have open, as far as this user may see.
pub fn open_nodes(sysfs: &Sysfs) -> Vec<OpenNode> {
    let own = if sysfs.is_system() { std::process::id() } else { 0 };
    let pids = sysfs.names("/proc").into_iter().filter_map(|name| name.parse().ok());
    pids.filter(|pid| *pid != own).flat_map(|pid| nodes_of(sysfs, pid)).collect()
}

fn nodes_of(sysfs: &Sysfs, pid: u32) -> Vec<OpenNode> {
    let folder = format!("/proc/{pid}/fd");
    let node = |fd: String| {
        let link = sysfs.path(format!("{folder}/{fd}"));
        let path = fs::read_link(&link).ok()?.into_os_string().into_string().ok()?;
        // Nodes of a container, or made by hand, lie anywhere.
        let dev = device_number(&link);
        (dev.is_some() || path.starts_with("/dev/")).then(|| OpenNode {
            dev,
            command: sysfs.text(format!("/proc/{pid}/comm")).unwrap_or_else(|| "?".to_owned()),
            path,
            pid,
        })
    };
    sysfs.names(&folder).into_iter().filter_map(node).collect()
}

/// `major:minor`, if it is a device. No server is asked, as one that does not answer would be waited for.
fn device_number(link: &Path) -> Option<String> {
    let found = statx(CWD, link, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok()?;
    let kind = FileType::from_raw_mode(found.stx_mode.into());
    let device = matches!(kind, FileType::BlockDevice | FileType::CharacterDevice);
    device.then(|| format!("{}:{}", found.stx_rdev_major, found.stx_rdev_minor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_process_is_seen_with_what_it_has_open() {
        let null = fs::File::open("/dev/null").unwrap();
        let mut child = std::process::Command::new("sleep").arg("60").stdin(null).spawn().unwrap();
        let open = open_nodes(&Sysfs::system());
        child.kill().unwrap();
        child.wait().unwrap();
        let of_child: Vec<_> = open.iter().filter(|node| node.pid == child.id()).collect();
        assert!(of_child.iter().any(|node| node.is("/dev/null", None)), "{of_child:?}");
        assert!(of_child.iter().any(|node| node.is("/dev/other", Some("1:3"))), "{of_child:?}");
        assert!(!of_child.iter().any(|node| node.is("/dev/other", None)));
    }

    #[test]
    fn a_node_outside_of_dev_is_seen_by_its_number() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("null");
        let made = std::process::Command::new("mknod").arg(&node).args(["c", "1", "3"]).status();
        let Some(file) = made.is_ok_and(|status| status.success()).then(|| fs::File::open(&node).ok()) else {
            eprintln!("skipped: this user may not make device nodes");
            return;
        };
        let Some(file) = file else {
            eprintln!("skipped: the file system of {} has no devices", folder.path().display());
            return;
        };
        let mut child = std::process::Command::new("sleep").arg("60").stdin(file).spawn().unwrap();
        let open = open_nodes(&Sysfs::system());
        child.kill().unwrap();
        child.wait().unwrap();
        let seen = |open: &OpenNode| open.pid == child.id() && open.is("/dev/other", Some("1:3"));
        assert!(open.iter().any(|open| seen(open) && open.path == node.to_str().unwrap()));
    }
}
