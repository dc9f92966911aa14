//! One flipped bit of what leads to a file is noticed, and what it is part of is named.

use warpbell_files::{Error, OpenOptions, open, read_file};

use crate::common::{Memory, mkfs, noise, tool};

/// Numbers of blocks that a program of e2fsprogs printed.
fn numbers(text: &str) -> Vec<usize> {
    text.split(|each: char| !each.is_ascii_digit()).filter_map(|word| word.parse().ok()).collect()
}

/// Opens, lists, and maps a file: the first error.
fn walk(image: &Memory) -> Result<(), Error> {
    let files = open(image, &OpenOptions::default())?;
    files.entries("/many")?;
    let map = files.file("/many/stripes")?;
    read_file(image, &map, 0, &mut vec![0; map.size() as usize])
}

/// A file system, and where some of its structures lie.
struct Made {
    base: Memory,
    folder: usize,
    node: usize,
    inode: usize,
}

impl Made {
    fn new(features: &str) -> Made {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("many")).unwrap();
        for number in 0..50 {
            std::fs::write(root.path().join(format!("many/another-name-{number}")), b"").unwrap();
        }
        let stripe = |index| [noise(index, 1024), vec![0; 1024]].concat();
        std::fs::write(root.path().join("many/stripes"), (0..100).flat_map(stripe).collect::<Vec<u8>>())
            .unwrap();
        let path = root.path().with_extension("img");
        let image = path.to_str().unwrap();
        mkfs(&["-b", "1024", "-O", features], root.path(), &path, "20M");
        let ask = |question: &str| tool("debugfs", &["-R", question, image]);
        let folder = numbers(&ask("blocks /many"))[0] * 1024;
        let stat = ask("stat /many/stripes");
        let node = numbers(stat.split("(ETB0):").nth(1).expect("a node of extents"))[0] * 1024;
        let place = ask("imap /many/stripes");
        let place = place.split("located at block ").nth(1).unwrap();
        let (block, at) = place.trim().split_once(", offset 0x").unwrap();
        let inode = block.parse::<usize>().unwrap() * 1024 + usize::from_str_radix(at, 16).unwrap();
        let base = Memory::load(&path);
        std::fs::remove_file(&path).unwrap();
        walk(&base).unwrap();
        Made { base, folder, node, inode }
    }

    /// What is said with other bytes at a place.
    fn with(&self, at: usize, change: impl FnOnce(&mut [u8])) -> String {
        let mut bytes = self.base.bytes.clone();
        change(&mut bytes[at..]);
        walk(&Memory::new(bytes)).expect_err("it is damaged").to_string()
    }
}

#[test]
fn a_bit_of_each_structure() {
    let made = Made::new("metadata_csum");
    let Made { folder, node, inode, .. } = made;
    for (at, object, reason) in [
        (1024 + 0x78, "ext4 superblock at byte 1024", "a backup is in block 8193: e2fsck -b 8193 repairs it"),
        (
            1024 + 0x38,
            "ext4 superblock at byte 1024",
            "it has no mark, and block 8193 has a backup. If nothing",
        ),
        (2048 + 8, "ext4 group 0", "its checksum is "),
        (2048 + 0x30, "ext4 group 0", "its checksum is "),
        (inode + 4, "ext4 inode ", "its checksum is "),
        (inode + 0x90, "ext4 inode ", "its checksum is "),
        (node + 20, "ext4 inode ", "the checksum of its extents in block "),
        (folder + 100, "ext4 folder ", "its checksum is wrong"),
        (folder + 1023, "ext4 folder ", "its checksum is wrong"),
    ] {
        let line = made.with(at, |bytes| bytes[0] ^= 1);
        assert!(
            line.starts_with(object) && line.contains(" is damaged: ") && line.contains(reason),
            "{line}"
        );
    }
    // A backup that an older file system left does not hide what is there now.
    for (at, mark, name) in [(0, &b"XFSB"[..], "XFS: "), (0x1_0040, b"_BHRfS_M", "btrfs: ")] {
        let line = made.with(0, |bytes| {
            bytes[1024..2048].fill(0);
            bytes[at..at + mark.len()].copy_from_slice(mark);
        });
        assert!(line.starts_with(name), "{line}");
    }
    // Without CRC-32C groups still have their CRC-16.
    let line = Made::new("^metadata_csum,uninit_bg").with(2048 + 8, |bytes| bytes[0] ^= 1);
    assert!(line.starts_with("ext4 group 0 is damaged: its checksum is "), "{line}");
}

#[test]
fn structures_that_contradict_themselves() {
    let made = Made::new("^metadata_csum");
    let Made { folder, node, inode, .. } = made;
    for (at, bytes, reason) in [
        (folder + 4, &[0, 0][..], "the entry at 0 has 0 bytes"),
        (folder + 4, &[13, 0], "the entry at 0 has 13 bytes"),
        (folder + 4, &[4, 4], "the entry at 0 has 1028 bytes"),
        (folder + 6, &[5], "the entry at 0 has 12 bytes"),
        (folder + 24, &[255, 255, 255, 255], " inodes, from 1 on"),
        (node, &[0], "a node of its extents has "),
        (node + 2, &[0], "a node of its extents is empty"),
        (node + 4, &[255], "a node of its extents has "),
        (node + 6, &[1], "a node of its extents is on level 1"),
        (node + 12, &[1], "its extents are not in order at block 1 of the file"),
        (node + 24, &[0], "its extents are not in order at block 0 of the file"),
        (node + 16, &[3, 0], "3 blocks from block 0 of the file overlap others"),
        (node + 18, &[1], "it has 1 blocks from block 4294"),
        (inode + 0x28, &[0], "a node of its extents has "),
        (inode, &[0, 0], "a name leads to it, and it is not in use"),
        (2048 + 8, &[255, 255, 255, 255], "there are 20480 blocks"),
    ] {
        let line = made.with(at, |place| place[..bytes.len()].copy_from_slice(bytes));
        assert!(line.contains(" is damaged: ") && line.contains(reason), "{reason}: {line}");
    }
    // Lists of blocks that lead back to themselves: 16 million blocks of data, all the same one.
    let line = made.with(0, |bytes| {
        let own = (node as u32 / 1024).to_le_bytes();
        bytes[inode + 4..inode + 8].fill(0xff);
        bytes[inode + 0x20..inode + 0x24].fill(0);
        bytes[inode + 0x28..inode + 0x64].fill(0);
        bytes[inode + 0x60..inode + 0x64].copy_from_slice(&own);
        (0..256).for_each(|index| bytes[node + 4 * index..][..4].copy_from_slice(&own));
    });
    assert!(line.ends_with("it has more blocks than there are, 20480"), "{line}");
}

#[test]
fn an_image_that_was_cut_off() {
    let root = tempfile::tempdir().unwrap();
    let path = root.path().with_extension("img");
    mkfs(&["-b", "1024"], root.path(), &path, "2M");
    let mut image = Memory::load(&path);
    image.bytes.truncate(1 << 20);
    let line = image.refusal();
    assert!(line.contains("it has 2048 blocks of 1024 bytes, and the source 1048576 bytes"), "{line}");
    std::fs::remove_file(path).unwrap();
}
