//! What of files may be overwritten, and what is refused for it.

use warpbell_files::{Error, OpenOptions, WritableFile, open};

use crate::common::{Memory, mkfs, noise, patch, set, tool};

/// A small file system with a file of several blocks, changed by `debugfs`.
fn image(options: &[&str], changes: &[&str]) -> Memory {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a"), noise(1, 10_000)).unwrap();
    let path = root.path().with_extension("img");
    mkfs(options, root.path(), &path, "2M");
    for change in changes {
        tool("debugfs", &["-w", "-R", change, path.to_str().unwrap()]);
    }
    let image = Memory::load(&path);
    std::fs::remove_file(path).unwrap();
    image
}

/// What of `/a` may be overwritten.
fn writable(image: &Memory) -> Result<WritableFile, Error> {
    open(image, &OpenOptions::default())?.writable("/a")
}

/// Numbers of blocks in the inode, and no checksums that would find a number that was changed.
const OLD: &[&str] = &["-b", "1024", "-O", "^extents,^metadata_csum,^uninit_bg,^flex_bg,^64bit"];

#[test]
fn whole_blocks_are_writable() {
    for options in [&["-b", "1024"][..], &["-b", "4096"], OLD] {
        let file = writable(&image(options, &[])).unwrap();
        assert_eq!(file.whole_bytes(512), 9728);
        let pieces = file.pieces(0, 9728, 512).unwrap();
        assert_eq!(pieces.iter().map(|(_, bytes)| bytes).sum::<u64>(), 9728, "{options:?}");
    }
}

#[test]
fn what_was_reserved_is_not() {
    // Reserved in place of the hole that was punched.
    let image = image(&["-b", "1024"], &["punch /a 4 5", "fallocate /a 4 5"]);
    let file = writable(&image).unwrap();
    let said = file.pieces(0, 8192, 512).unwrap_err().to_string();
    assert!(said.contains("offset 4096 is in an unwritten extent, 2048 bytes at offset 4096"), "{said}");
}

#[test]
fn files_are_refused_by_their_flags() {
    for (flags, why) in [
        ("0x80010", "it is immutable (chattr +i)"),
        ("0x80020", "it is only appended to (chattr +a)"),
        ("0x84000", "its data goes through the journal (chattr +j)"),
    ] {
        let image = image(&["-b", "1024"], &[&format!("set_inode_field /a flags {flags}")]);
        assert_eq!(writable(&image).unwrap_err().to_string(), format!("/a: {why}"));
    }
}

#[test]
fn file_systems_are_refused_by_their_superblock() {
    for (at, bit, why) in [
        (0x64, 0x1000, "it is marked read-only (feature readonly)"),
        (0x100, 0x20, "its default mount options have data=journal: data goes through the journal"),
    ] {
        let mut image = image(&["-b", "1024"], &[]);
        patch(&mut image, |superblock| set(superblock, at, bit));
        assert_eq!(writable(&image).unwrap_err().to_string(), format!("writing to ext4: {why}"));
    }
    let mut dirty = image(&["-b", "1024"], &[]);
    patch(&mut dirty, |superblock| superblock[0x3a] = 0);
    let files = open(&dirty, &OpenOptions::new().allow_dirty(true)).unwrap();
    let said = files.writable("/a").unwrap_err().to_string();
    assert_eq!(said, "writing to ext4: it is mounted, or was not unmounted: mount and unmount it first");
}

#[test]
fn blocks_of_the_file_system_itself_are_refused() {
    let groups = image(OLD, &[]);
    let descriptor = &groups.bytes[2048..2048 + 12];
    let place = |at: usize| u32::from_le_bytes(descriptor[at..at + 4].try_into().unwrap());
    for (block, whose) in [
        (1, "the superblock and group descriptors"),
        (2, "the superblock and group descriptors"),
        (place(0), "a bitmap of blocks"),
        (place(4), "a bitmap of inodes"),
        (place(8), "a table of inodes"),
        (place(8) + 3, "a table of inodes"),
    ] {
        let image = image(OLD, &[&format!("set_inode_field /a block[2] {block}")]);
        let said = writable(&image).unwrap_err().to_string();
        let both = [format!("belongs to {whose} and to ext4 inode"), format!(" and to {whose}")];
        assert!(
            said.contains(&format!("block {block} ")) && both.iter().any(|one| said.contains(one)),
            "{said}"
        );
    }
    let own = writable(&groups).unwrap().pieces(0, 512, 512).unwrap()[0].0 / 1024;
    let image = image(OLD, &[&format!("set_inode_field /a block[5] {own}")]);
    let said = writable(&image).unwrap_err().to_string();
    assert!(said.contains(&format!("block {own} belongs to ext4 inode ")), "{said}");
}

#[test]
fn a_bitmap_beyond_all_blocks_is_no_overflow() {
    let mut image = image(&["-b", "1024", "-O", "^metadata_csum,^uninit_bg,64bit"], &[]);
    for half in [2048, 2048 + 0x20] {
        image.bytes[half..half + 4].fill(0xff);
    }
    assert!(writable(&image).unwrap().pieces(0, 512, 512).is_ok());
}
