//! What is not understood is refused by its name.

use warpbell_files::{OpenOptions, open};

use crate::common::{Memory, contents, mkfs, noise, patch, set, tool};

/// A small file system.
fn image(options: &[&str]) -> Memory {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.bin"), noise(1, 10_000)).unwrap();
    std::fs::write(root.path().join("tiny"), b"tiny").unwrap();
    let path = root.path().with_extension("img");
    mkfs(options, root.path(), &path, "2M");
    let image = Memory::load(&path);
    std::fs::remove_file(path).unwrap();
    image
}

const MANIFEST: &str = "not understood; mount it, and record its files by a manifest";

#[test]
fn each_feature_by_its_flag() {
    let base = image(&["-b", "1024"]);
    for (at, bit, name) in [
        (0x60, 0x1, "compression"),
        (0x60, 0x8, "journal_dev"),
        (0x60, 0x100, "mmp"),
        (0x60, 0x1000, "dirdata"),
        (0x60, 0x1_0000, "encrypt"),
        (0x60, 0x2_0000, "casefold"),
        (0x60, 0x20, "incompat 0x20"),
        (0x60, 0x800, "incompat 0x800"),
        (0x60, 0x8000_0000, "incompat 0x80000000"),
        (0x64, 0x4, "btree_dir"),
        (0x64, 0x80, "has_snapshot"),
        (0x64, 0x200, "bigalloc"),
        (0x64, 0x800, "replica"),
        (0x64, 0x4000, "shared_blocks"),
        (0x64, 0x8000, "verity"),
        (0x64, 0x2_0000, "ro_compat 0x20000"),
    ] {
        let mut image = Memory::new(base.bytes.clone());
        patch(&mut image, |superblock| set(superblock, at, bit));
        assert_eq!(image.refusal(), format!("ext4 with feature {name}: {MANIFEST}"));
    }
    let mut two = Memory::new(base.bytes.clone());
    patch(&mut two, |superblock| set(superblock, 0x60, 0x1_0100));
    assert_eq!(two.refusal(), format!("ext4 with feature mmp, encrypt: {MANIFEST}"));
}

#[test]
fn features_as_mkfs_makes_them() {
    for feature in ["mmp", "encrypt", "casefold", "bigalloc", "verity"] {
        let line = image(&["-b", "4096", "-O", feature]).refusal();
        assert_eq!(line, format!("ext4 with feature {feature}: {MANIFEST}"));
    }
    let inline = image(&["-b", "1024", "-O", "inline_data"]);
    let files = open(&inline, &OpenOptions::default()).unwrap();
    assert!(contents(&inline, &*files, "/a.bin") == noise(1, 10_000));
    let line = files.file("/tiny").unwrap_err().to_string();
    assert!(line.ends_with(": inline data: its bytes lie in the inode, and not in blocks"), "{line}");
}

#[test]
fn inodes_by_their_flags() {
    let root = tempfile::tempdir().unwrap();
    std::fs::write(root.path().join("a.bin"), noise(1, 10_000)).unwrap();
    let path = root.path().with_extension("img");
    for (flags, why) in [("0x80800", "encryption: its blocks hold ciphertext"), ("0x80004", "compression: ")]
    {
        mkfs(&["-b", "1024"], root.path(), &path, "2M");
        tool(
            "debugfs",
            &["-w", "-R", &format!("set_inode_field /a.bin flags {flags}"), path.to_str().unwrap()],
        );
        let image = Memory::load(&path);
        let line = open(&image, &OpenOptions::default()).unwrap().file("/a.bin").unwrap_err().to_string();
        assert!(line.starts_with("ext4 inode ") && line.contains(&format!(": {why}")), "{line}");
    }
    std::fs::remove_file(path).unwrap();
}

#[test]
fn what_was_not_unmounted_unless_it_is_asked_for() {
    let base = image(&["-b", "1024"]);
    let dirty = |change: &dyn Fn(&mut [u8])| {
        let mut image = Memory::new(base.bytes.clone());
        patch(&mut image, change);
        let files = open(&image, &OpenOptions::new().allow_dirty(true)).unwrap();
        assert!(contents(&image, &*files, "/a.bin") == noise(1, 10_000));
        image.refusal()
    };
    let remedy = "mount and unmount it, or repair it with e2fsck; or read it as it is, with --allow-dirty";
    let journal = format!("ext4 with needs_recovery: its journal has changes that its files lack: {remedy}");
    assert_eq!(dirty(&|superblock| set(superblock, 0x60, 0x4)), journal);
    assert_eq!(dirty(&|superblock| set(superblock, 0x64, 0x1_0000)), journal);
    let errors = dirty(&|superblock| superblock[0x3a] |= 2);
    assert_eq!(errors, format!("ext4 with errors: the kernel found errors in it: {remedy}"));
    let mounted = dirty(&|superblock| superblock[0x3a] = 0);
    assert_eq!(mounted, format!("ext4 that is mounted: it was not unmounted: {remedy}"));
}

#[test]
fn other_file_systems_and_containers_by_name() {
    let md = [0xfc, 0x4e, 0x2b, 0xa9];
    let end = 4 << 20;
    for (at, signature, name) in [
        (
            0,
            &b"XFSB"[..],
            "XFS: it is not read without a mount; mount it, and record its files by a manifest",
        ),
        (0x1_0040, b"_BHRfS_M", "btrfs: its files are not plain extents"),
        (1024, &[0x10, 0x20, 0xf5, 0xf2], "F2FS: "),
        (3, b"NTFS    ", "NTFS: "),
        (82, b"FAT32   ", "FAT32: "),
        (4086, b"SWAPSPACE2", "swap space: it has no files"),
        (0, b"LUKS\xba\xbe", "LUKS container: it is encrypted"),
        (512, b"LABELONE", "LVM physical volume: its logical volumes are not read"),
        (0, &md, "md RAID member (superblock 1.1): "),
        (4096, &md, "md RAID member (superblock 1.2): "),
        (end - 8192, &md, "md RAID member (superblock 1.0): "),
        (end - 65_536, &md, "md RAID member (superblock 0.90): "),
        (end - 65_536, &[0xa9, 0x2b, 0x4e, 0xfc], "md RAID member (superblock 0.90): "),
        (0, b"", "file system of 4194304 bytes: none that is known begins here"),
    ] {
        let mut bytes = vec![0; end];
        bytes[at..at + signature.len()].copy_from_slice(signature);
        let line = Memory::new(bytes).refusal();
        assert!(line.starts_with(name), "{line}");
    }
    for bytes in [0, 1, 511, 1023, 2047] {
        assert!(Memory::new(vec![0; bytes]).refusal().starts_with("file system of "), "{bytes}");
    }
    // An array's member looks like the file system in it.
    let mut member = image(&["-b", "1024"]);
    let end = member.bytes.len();
    member.bytes.resize(end + 65_536, 0);
    let at = end + 65_536 - 8192;
    member.bytes[at..at + 4].copy_from_slice(&md);
    assert!(member.refusal().starts_with("md RAID member (superblock 1.0): "));
}
