//! Who uses a function's namespaces: mounts, swap, holders, processes, and data that is worth asking about.

use std::fmt;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;

use rustix::fs::OFlags;

use super::block::{Member, described, family};
use super::processes::{OpenNode, open_nodes};
use super::{Function, Namespace, Sysfs, signature};

/// A use of a function that stands against binding it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Use {
    /// A file system on it is mounted.
    Mounted {
        /// The mounted device, and how it stands on the namespace.
        device: String,
        /// Where.
        mount_point: String,
        /// Other controllers that lead to the same namespace.
        other_paths: Vec<String>,
    },
    /// It is swap space in use.
    Swap {
        /// The device, and how it stands on the namespace.
        device: String,
    },
    /// Another block device is built on it.
    Held {
        /// The device held.
        device: String,
        /// Device mapper, MD or the like.
        holder: String,
    },
    /// A loop device is attached to it.
    Loop {
        /// The device.
        device: String,
        /// The loop device.
        holder: String,
    },
    /// The kernel's NVMe target exports it to other machines.
    Exported {
        /// The device.
        device: String,
        /// The subsystem that has it.
        subsystem: String,
    },
    /// Somebody has it open exclusively.
    Claimed {
        /// The device.
        device: String,
    },
    /// A process has one of its nodes open.
    Open {
        /// The node.
        node: String,
        /// Process ID.
        pid: u32,
        /// The process's name.
        command: String,
    },
    /// Its contents cannot be looked at, so nobody knows what would be lost.
    Unreadable {
        /// The device.
        device: String,
        /// Why not.
        reason: String,
    },
    /// It carries a partition table or a file system.
    Signed {
        /// The device.
        device: String,
        /// What it carries.
        signature: &'static str,
    },
}

impl fmt::Display for Use {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Use::Mounted { device, mount_point, other_paths } => {
                write!(f, "mounted at {mount_point} ({device})")?;
                match (mount_point.as_str(), other_paths.as_slice()) {
                    ("/", []) => write!(f, "; it is the only path to the root file system"),
                    (_, []) => Ok(()),
                    (_, others) => write!(f, "; also through {}", others.join(", ")),
                }
            }
            Use::Swap { device } => write!(f, "swap space in use ({device})"),
            Use::Held { device, holder } => write!(f, "held by {holder} ({device})"),
            Use::Loop { device, holder } => write!(f, "behind loop device {holder} ({device})"),
            Use::Exported { device, subsystem } => {
                write!(f, "exported by the NVMe target as subsystem {subsystem} ({device})")
            }
            Use::Claimed { device } => {
                write!(
                    f,
                    "/dev/{device} is open exclusively (EBUSY): mounted by another container, or used by the kernel"
                )
            }
            Use::Open { node, pid, command } => write!(f, "{node} is open in process {pid} ({command})"),
            Use::Unreadable { device, reason } => {
                write!(f, "/dev/{device} cannot be read to see what is on it: {reason}")
            }
            Use::Signed { device, signature } => write!(f, "/dev/{device} carries a {signature}"),
        }
    }
}

/// How closely to look at contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// Contents are not read.
    Outside,
    /// Contents are read, and the block devices are held exclusively, so that nobody mounts them meanwhile.
    Claim,
}

/// Mounts, swap and open nodes of one moment.
#[derive(Debug)]
pub struct Snapshot {
    mounts: Vec<Mount>,
    swaps: Vec<String>,
    open: Vec<OpenNode>,
}

#[derive(Debug)]
struct Mount {
    dev: String,
    point: String,
    /// Block devices that the file system names: its source, and every device of a btrfs.
    devices: Vec<String>,
}

impl Snapshot {
    /// Looks now.
    pub fn take(sysfs: &Sysfs) -> Snapshot {
        let mounts = sysfs.text("/proc/self/mountinfo").unwrap_or_default();
        let swaps = sysfs.text("/proc/swaps").unwrap_or_default();
        let swap_device = |line: &str| sysfs.device_name(&unescaped(line.split_whitespace().next()?));
        Snapshot {
            mounts: mounts.lines().filter_map(|line| mount(sysfs, line)).collect(),
            swaps: swaps.lines().filter_map(swap_device).collect(),
            open: open_nodes(sysfs),
        }
    }

    /// The first process that has the node open.
    pub(super) fn opener(&self, node: &str, dev: Option<&str>) -> Option<&OpenNode> {
        self.open.iter().find(|open| open.is(node, dev))
    }
}

/// A line of mountinfo: `ID PARENT MAJOR:MINOR ROOT POINT OPTIONS [TAGS] - TYPE SOURCE OPTIONS`.
fn mount(sysfs: &Sysfs, line: &str) -> Option<Mount> {
    let (fields, rest) = line.split_once(" - ")?;
    let mut fields = fields.split(' ').skip(2);
    let (dev, point) = (fields.next()?, fields.nth(1)?);
    let mut rest = rest.split(' ');
    let (kind, source) = (rest.next()?, rest.next()?);
    let source = sysfs.device_name(&unescaped(source));
    let devices = match kind {
        // A btrfs shows a device number of its own, and only one of its devices as its source.
        "btrfs" => source.map(|source| btrfs_devices(sysfs, source)).unwrap_or_default(),
        _ => source.into_iter().collect(),
    };
    Some(Mount { dev: dev.to_owned(), point: unescaped(point), devices })
}

fn btrfs_devices(sysfs: &Sysfs, source: String) -> Vec<String> {
    let systems = sysfs.names("/sys/fs/btrfs");
    let devices = systems.iter().map(|system| sysfs.names(format!("/sys/fs/btrfs/{system}/devices")));
    devices.into_iter().find(|devices| devices.contains(&source)).unwrap_or_else(|| vec![source])
}

/// Undoes the octal escapes of /proc: space, tab, newline and backslash.
fn unescaped(text: &str) -> String {
    let escapes = [("\\040", " "), ("\\011", "\t"), ("\\012", "\n"), ("\\134", "\\")];
    escapes.iter().fold(text.to_owned(), |text, (escape, plain)| text.replace(escape, plain))
}

/// The uses of a function's namespaces, and its block devices held exclusively where `look` asks for it.
pub fn uses(sysfs: &Sysfs, function: &Function, now: &Snapshot, look: Look) -> (Vec<Use>, Vec<File>) {
    let mut uses = Vec::new();
    let mut claims = Vec::new();
    for namespace in &function.namespaces {
        let members = family(sysfs, &namespace.name);
        let before = uses.len();
        for member in &members {
            uses.extend(uses_of(sysfs, member, namespace, now));
        }
        if look == Look::Claim {
            let known = uses.len() > before;
            claims.extend(claim(sysfs, namespace, known, &mut uses));
        }
    }
    for controller in &function.controllers {
        let dev = sysfs.text(format!("/sys/class/nvme/{}/dev", controller.name));
        uses.extend(open_use(now, format!("/dev/{}", controller.name), dev.as_deref()));
        let device = controller.name.clone();
        uses.extend(exported(sysfs, &device).map(|subsystem| Use::Exported { device, subsystem }));
    }
    // Programs that drive it through a UIO driver.
    for uio in sysfs.names(format!("{}/uio", function.folder())) {
        uses.extend(open_use(now, format!("/dev/{uio}"), None));
    }
    (uses, claims)
}

fn uses_of(sysfs: &Sysfs, member: &Member, namespace: &Namespace, now: &Snapshot) -> Vec<Use> {
    let device = member.chain.clone();
    let mut uses = Vec::new();
    if let Some(held) = &member.holds {
        uses.push(Use::Held { device: held.clone(), holder: described(sysfs, &member.name) });
    }
    let on_it =
        |mount: &&Mount| Some(&mount.dev) == member.dev.as_ref() || mount.devices.contains(&member.name);
    uses.extend(now.mounts.iter().filter(on_it).map(|mount| Use::Mounted {
        device: device.clone(),
        mount_point: mount.point.clone(),
        other_paths: namespace.other_paths.clone(),
    }));
    if now.swaps.contains(&member.name) {
        uses.push(Use::Swap { device: device.clone() });
    }
    let holder = loop_on(sysfs, &member.name);
    uses.extend(holder.map(|holder| Use::Loop { device: device.clone(), holder }));
    uses.extend(exported(sysfs, &member.name).map(|subsystem| Use::Exported { device, subsystem }));
    uses.extend(open_use(now, format!("/dev/{}", member.name), member.dev.as_deref()));
    if member.name == namespace.name {
        let generic = member.name.replacen("nvme", "ng", 1);
        let dev = sysfs.text(format!("/sys/class/nvme-generic/{generic}/dev"));
        uses.extend(open_use(now, format!("/dev/{generic}"), dev.as_deref()));
    }
    uses
}

fn open_use(now: &Snapshot, node: String, dev: Option<&str>) -> Option<Use> {
    let by = now.opener(&node, dev)?;
    Some(Use::Open { node, pid: by.pid, command: by.command.clone() })
}

/// A loop device opens what is behind it without claiming it, and without a process.
fn loop_on(sysfs: &Sysfs, device: &str) -> Option<String> {
    let loops = sysfs.names("/sys/class/block").into_iter().filter(|name| name.starts_with("loop"));
    let behind = |name: &String| sysfs.text(format!("/sys/class/block/{name}/loop/backing_file"));
    loops.into_iter().find(|name| behind(name).as_deref() == Some(&format!("/dev/{device}")))
}

/// The NVMe target opens what it exports without claiming it, and without a process. It takes namespaces by their block
/// device, and whole controllers (`passthru`).
fn exported(sysfs: &Sysfs, name: &str) -> Option<String> {
    let target = "/sys/kernel/config/nvmet/subsystems";
    let takes = |folder: String| {
        let path = sysfs.text(format!("{folder}/device_path"));
        let on = sysfs.text(format!("{folder}/enable")).as_deref() == Some("1");
        on && path.is_some_and(|path| sysfs.node_name(&path).as_deref() == Some(name))
    };
    sysfs.names(target).into_iter().find(|subsystem| {
        let folder = format!("{target}/{subsystem}");
        let namespaces = sysfs.names(format!("{folder}/namespaces")).into_iter();
        let mut folders = namespaces.map(|nsid| format!("{folder}/namespaces/{nsid}"));
        folders.any(takes) || takes(format!("{folder}/passthru"))
    })
}

/// Opens the namespace's block device exclusively and looks for signatures. What is `known` to be in use explains
/// by itself why it cannot be had exclusively.
fn claim(sysfs: &Sysfs, namespace: &Namespace, known: bool, uses: &mut Vec<Use>) -> Option<File> {
    let device = namespace.name.clone();
    let path = sysfs.path(format!("/dev/{device}"));
    let flags = (OFlags::EXCL | OFlags::NONBLOCK).bits() as i32;
    let opened = OpenOptions::new().read(true).custom_flags(flags).open(path);
    let looked = opened.and_then(|file| Ok((signature::find(&file, namespace.size_bytes)?, file)));
    match looked {
        Ok((signature, file)) => {
            uses.extend(signature.map(|signature| Use::Signed { device, signature }));
            return Some(file);
        }
        Err(error) if is_busy(&error) && known => {}
        Err(error) if is_busy(&error) => uses.push(Use::Claimed { device }),
        Err(error) => {
            let remedy = if error.kind() == io::ErrorKind::PermissionDenied { "; run as root" } else { "" };
            uses.push(Use::Unreadable { device, reason: format!("{error}{remedy}") });
        }
    }
    None
}

fn is_busy(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::ResourceBusy
}

#[cfg(test)]
#[path = "usage_tests.rs"]
mod tests;
