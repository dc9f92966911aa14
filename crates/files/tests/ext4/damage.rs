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

#[test]
fn a_bit_of_each_structure() {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir(root.path().join("many")).unwrap();
    for number in 0..50 {
        std::fs::write(root.path().join(format!("many/another-name-{number}")), b"").unwrap();
    }
    let stripes: Vec<u8> = (0..100).flat_map(|index| [noise(index, 1024), vec![0; 1024]].concat()).collect();
    std::fs::write(root.path().join("many/stripes"), stripes).unwrap();
    let path = root.path().with_extension("img");
    let image = path.to_str().unwrap();
    mkfs(&["-b", "1024"], root.path(), &path, "20M");
    let ask = |question: &str| tool("debugfs", &["-R", question, image]);
    let folder = numbers(&ask("blocks /many"))[0] * 1024;
    let stat = ask("stat /many/stripes");
    let node = numbers(stat.split("(ETB0):").nth(1).expect("a node of extents"))[0] * 1024;
    let place = ask("imap /many/stripes");
    let place = place.split("located at block ").nth(1).unwrap();
    let (block, at) = place.trim().split_once(", offset 0x").unwrap();
    let inode = block.parse::<usize>().unwrap() * 1024 + usize::from_str_radix(at, 16).unwrap();
    let base = Memory::load(&path);
    walk(&base).unwrap();
    for (at, object, reason) in [
        (1024 + 0x78, "ext4 superblock at byte 1024", "a backup is in block 8193: e2fsck -b 8193 repairs it"),
        (1024 + 0x38, "ext4 superblock at byte 1024", "it has no mark; a backup is in block 8193"),
        (2048 + 8, "ext4 group 0", "its checksum is "),
        (2048 + 0x30, "ext4 group 0", "its checksum is "),
        (inode + 4, "ext4 inode ", "its checksum is "),
        (inode + 0x90, "ext4 inode ", "its checksum is "),
        (node + 20, "ext4 inode ", "the checksum of its extents in block "),
        (folder + 100, "ext4 folder ", "its checksum is wrong"),
        (folder + 1023, "ext4 folder ", "its checksum is wrong"),
    ] {
        let mut bytes = base.bytes.clone();
        bytes[at] ^= 1;
        let line = walk(&Memory::new(bytes)).expect_err(object).to_string();
        assert!(
            line.starts_with(object) && line.contains(" is damaged: ") && line.contains(reason),
            "{line}"
        );
    }
    // Without CRC-32C groups still have their CRC-16.
    mkfs(&["-b", "1024", "-O", "^metadata_csum,uninit_bg"], root.path(), &path, "20M");
    let mut image = Memory::load(&path);
    walk(&image).unwrap();
    image.bytes[2048 + 8] ^= 1;
    assert!(walk(&image).unwrap_err().to_string().starts_with("ext4 group 0 is damaged: its checksum is "));
    std::fs::remove_file(path).unwrap();
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
