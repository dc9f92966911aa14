//! Which disk a mounted file system lies on, and where: from `/sys` and `/proc`.

use std::path::{Path, PathBuf};

use super::{Device, Partition};
use crate::Error;

/// Where a file system lies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// The disk.
    pub device: Device,
    /// Its part, if the file system is not on all of it.
    pub partition: Option<Partition>,
    /// The block device's name below `/dev`.
    pub node: String,
}

/// Where the blocks of these lie elsewhere: a folder of theirs in `/sys`, and what they are.
const LAYERS: [(&str, &str); 3] = [
    ("dm", "a device-mapper volume (LVM, dm-crypt or the like)"),
    ("md", "an array of Linux's software RAID (md)"),
    ("bcache", "a bcache"),
];

impl Place {
    /// The place of block device `major:minor`, by what is below `sys`.
    ///
    /// # Errors
    /// Devices whose blocks lie on other devices, and what `sys` does not say.
    pub fn of(sys: &Path, major: u32, minor: u32) -> Result<Place, Error> {
        let link = sys.join(format!("dev/block/{major}:{minor}"));
        let folder = link.canonicalize().map_err(|source| Error::File {
            action: "looking up the device of the file system in",
            path: link.display().to_string(),
            source,
        })?;
        let node = name(&folder);
        if let Some((_, what)) = LAYERS.iter().find(|(layer, _)| folder.join(layer).is_dir()) {
            let reason = format!("{what}: its blocks lie on other devices, at other places");
            return Err(Error::refused(format!("/dev/{node}"), reason));
        }
        if text(&folder.join("loop/offset")).is_some_and(|offset| offset != "0") {
            let reason =
                "a loop device over a part of a file: attach the whole file, with losetup --partscan";
            return Err(Error::refused(format!("/dev/{node}"), reason));
        }
        let part = text(&folder.join("partition")).is_some();
        let disk = if part { folder.parent().unwrap_or(&folder).to_owned() } else { folder.clone() };
        let partition = if part {
            let (first, count) = (number(&folder, "start")?, number(&folder, "size")?);
            let number = number(&folder, "partition")? as u32;
            Some(Partition { number, start: first * SECTOR, bytes: count * SECTOR })
        } else {
            None
        };
        Ok(Place { device: device(&disk)?, partition, node })
    }

    /// The first byte of the file system on its disk, and how many bytes it may have.
    pub fn span(&self) -> (u64, u64) {
        self.partition.map_or((0, self.device.bytes), |part| (part.start, part.bytes))
    }
}

/// The unit of `/sys`, whatever blocks a disk has.
const SECTOR: u64 = 512;

fn device(disk: &Path) -> Result<Device, Error> {
    // An NVMe namespace has its controller, or its subsystem, at `device`; a virtio disk says it itself.
    let serial = ["device/serial", "serial"].iter().find_map(|file| text(&disk.join(file)));
    Ok(Device {
        name: name(disk),
        serial: serial.filter(|serial| !serial.is_empty()),
        nsid: text(&disk.join("nsid")).and_then(|text| text.parse().ok()),
        bytes: number(disk, "size")? * SECTOR,
        block_size: number(disk, "queue/logical_block_size")? as u32,
    })
}

fn name(folder: &Path) -> String {
    folder.file_name().unwrap_or_default().to_string_lossy().into_owned()
}

fn text(file: &Path) -> Option<String> {
    std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned())
}

fn number(folder: &Path, file: &str) -> Result<u64, Error> {
    let path = folder.join(file);
    let found = text(&path).and_then(|text| text.parse().ok());
    found.ok_or_else(|| Error::refused(path.display().to_string(), "no number is there"))
}

/// A mount, as `/proc/self/mountinfo` has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The folder of the file system that is mounted: `/`, but for bind mounts.
    root: PathBuf,
    /// Where.
    point: PathBuf,
}

impl Mount {
    /// The mount of device `major:minor` that `path` is below, in the text of mountinfo.
    pub fn of(mountinfo: &str, major: u32, minor: u32, path: &Path) -> Option<Mount> {
        let device = format!("{major}:{minor}");
        mountinfo
            .lines()
            .filter_map(|line| {
                let mut words = line.split(' ').skip(2);
                (words.next()? == device).then_some(())?;
                Some(Mount { root: unescaped(words.next()?).into(), point: unescaped(words.next()?).into() })
            })
            .filter(|mount| path.starts_with(&mount.point))
            // The last of those that hide each other is seen.
            .max_by_key(|mount| mount.point.components().count())
    }

    /// The path within the file system; none for a name that is no UTF-8, or a path elsewhere.
    pub fn inside(&self, path: &Path) -> Option<String> {
        let below = path.strip_prefix(&self.point).ok()?;
        let whole = self.root.join(below);
        let text = whole.to_str()?.trim_end_matches('/');
        Some(if text.is_empty() { "/".to_owned() } else { text.to_owned() })
    }
}

/// Blanks and the like are octal there: `\040`.
fn unescaped(word: &str) -> String {
    let mut parts = word.split('\\');
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        match part.get(..3).and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(byte) => {
                text.push(char::from(byte));
                text += &part[3..];
            }
            None => text = text + "\\" + part,
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder like `/sys`, with these files; the block device `259:1` is the folder `at`.
    fn sys(at: &str, files: &[(&str, &str)]) -> tempfile::TempDir {
        let sys = tempfile::tempdir().unwrap();
        for (file, text) in files {
            let path = sys.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        std::fs::create_dir_all(sys.path().join("dev/block")).unwrap();
        std::os::unix::fs::symlink(sys.path().join(at), sys.path().join("dev/block/259:1")).unwrap();
        sys
    }

    const DISK: [(&str, &str); 4] = [
        ("block/nvme0n1/size", "2048\n"),
        ("block/nvme0n1/queue/logical_block_size", "4096\n"),
        ("block/nvme0n1/device/serial", "S1 \n"),
        ("block/nvme0n1/nsid", "3\n"),
    ];

    #[test]
    fn a_partition_begins_where_sys_says() {
        let mut files = DISK.to_vec();
        files.extend([
            ("block/nvme0n1/nvme0n1p2/partition", "2\n"),
            ("block/nvme0n1/nvme0n1p2/start", "64\n"),
            ("block/nvme0n1/nvme0n1p2/size", "1024\n"),
        ]);
        let sys = sys("block/nvme0n1/nvme0n1p2", &files);
        let place = Place::of(sys.path(), 259, 1).unwrap();
        let device = Device {
            name: "nvme0n1".to_owned(),
            serial: Some("S1".to_owned()),
            nsid: Some(3),
            bytes: 1 << 20,
            block_size: 4096,
        };
        assert_eq!(place.device, device);
        assert_eq!(place.partition, Some(Partition { number: 2, start: 32768, bytes: 524_288 }));
        assert_eq!((place.node.as_str(), place.span()), ("nvme0n1p2", (32768, 524_288)));
    }

    #[test]
    fn a_whole_disk_has_no_partition() {
        let sys = sys("block/nvme0n1", &DISK);
        assert_eq!(Place::of(sys.path(), 259, 1).unwrap().span(), (0, 1 << 20));
        let error = Place::of(sys.path(), 259, 2).unwrap_err().to_string();
        assert!(error.contains("dev/block/259:2"), "{error}");
    }

    #[test]
    fn devices_over_devices_are_refused_by_name() {
        for (file, word) in [
            ("block/dm-0/dm/name", "/dev/dm-0: a device-mapper volume"),
            ("block/md0/md/level", "/dev/md0: an array of Linux's software RAID"),
            ("block/bcache0/bcache/state", "/dev/bcache0: a bcache"),
        ] {
            let folder = Path::new(file).ancestors().nth(2).unwrap();
            let sys = sys(folder.to_str().unwrap(), &[(file, "x\n")]);
            let error = Place::of(sys.path(), 259, 1).unwrap_err().to_string();
            assert!(error.starts_with(word), "{error}");
        }
        let sys = sys("block/loop0", &[("block/loop0/loop/offset", "1048576\n")]);
        let error = Place::of(sys.path(), 259, 1).unwrap_err().to_string();
        assert!(error.starts_with("/dev/loop0: a loop device over a part"), "{error}");
    }

    #[test]
    fn paths_within_the_file_system_are_found_by_its_mounts() {
        let text = "\
22 1 254:0 / / rw - ext4 /dev/root rw
30 22 7:0 / /my\\040data rw shared:1 - xfs /dev/loop0 rw
31 22 7:0 /deep /my\\040data/bound rw - xfs /dev/loop0 rw
";
        let inside = |path: &str| {
            let path = Path::new(path);
            Mount::of(text, 7, 0, path).and_then(|mount| mount.inside(path))
        };
        assert_eq!(inside("/my data/a/b").as_deref(), Some("/a/b"));
        assert_eq!(inside("/my data").as_deref(), Some("/"));
        assert_eq!(inside("/my data/bound/c").as_deref(), Some("/deep/c"));
        assert_eq!(inside("/elsewhere"), None);
        assert_eq!(unescaped("a\\134b\\x"), "a\\b\\x");
    }
}
