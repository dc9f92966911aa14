//! Images that were made to do harm: whatever they say, reading them ends soon, and without a panic.

use std::os::unix::fs::FileExt;

use warpbell_files::{EntryKind, Ext4, FileSystem, OpenOptions, partition, read_file};

use crate::common::{Memory, mkfs, noise};
use crate::partitions::{gpt, mbr};

/// Blocks of metadata that one image may ask for: of 2,000 images one took 561. Kept ones count: a loop over them reads nothing.
const BLOCKS_MAX: u64 = 20_000;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % end
    }
}

/// Inputs of each kind: few in each run of the tests, and as many as are asked for in others.
fn inputs() -> u64 {
    std::env::var("WARPBELL_FILES_INPUTS").map_or(2000, |count| count.parse().expect("a number"))
}

/// Looks at everything, folders within folders up to a depth.
fn walk(source: &Memory, files: &dyn FileSystem, path: &str, depth: u32) -> u64 {
    let Ok(entries) = files.entries(path) else { return 0 };
    let mut seen = 0;
    for entry in entries.iter().take(100) {
        let path = format!("{path}/{}", entry.name);
        if entry.kind == EntryKind::Directory && depth > 0 {
            seen += walk(source, files, &path, depth - 1);
        } else if let Ok(map) = files.file(&path) {
            let mut bytes = vec![0; map.size().min(20_000) as usize];
            // Whatever is mapped can be read.
            read_file(source, &map, 0, &mut bytes).unwrap_or_else(|error| panic!("{path}: {error}"));
            seen += 1;
        }
    }
    seen
}

/// Small file systems without checksums, so that what is wrong is met where it is used, and one with them.
fn bases() -> Vec<Vec<u8>> {
    let root = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(root.path().join("sub/deep")).unwrap();
    for number in 0..40 {
        let name = format!("sub/a-file-with-a-long-name-{number}");
        std::fs::write(root.path().join(name), noise(number, 10)).unwrap();
    }
    std::fs::write(root.path().join("sub/deep/a"), noise(1, 3000)).unwrap();
    std::os::unix::fs::symlink("sub/deep/a", root.path().join("link")).unwrap();
    std::os::unix::fs::symlink("./".repeat(50) + "link", root.path().join("slow")).unwrap();
    let stripes = std::fs::File::create(root.path().join("stripes")).unwrap();
    stripes.set_len(1 << 20).unwrap();
    (0..20).for_each(|index| stripes.write_all_at(&noise(index, 1024), index * 20_480).unwrap());
    let path = root.path().with_extension("img");
    let common = ["-b", "1024", "-N", "64", "-O"];
    let features = [
        "^metadata_csum,^has_journal,^resize_inode",
        "^metadata_csum,^has_journal,^resize_inode,^extents,^64bit",
        "^metadata_csum,^has_journal,^resize_inode,meta_bg",
        "metadata_csum,^has_journal,^resize_inode",
    ];
    let made = features.map(|features| {
        mkfs(&[&common[..], &[features]].concat(), root.path(), &path, "160K");
        std::fs::read(&path).unwrap()
    });
    std::fs::remove_file(path).unwrap();
    made.to_vec()
}

/// Fails where an image has cost too much.
fn refuse_much_work(number: u64, files: &Ext4<'_>) {
    let blocks = files.blocks_asked();
    assert!(blocks < BLOCKS_MAX, "input {number}: {blocks} blocks were asked for");
}

#[test]
fn work_is_counted_though_all_blocks_are_kept() {
    let image = Memory::new(bases().swap_remove(0));
    let files = Ext4::open(&image, &OpenOptions::default()).unwrap();
    files.file("/sub/deep/a").unwrap();
    let (reads, asked) = (image.reads.get(), files.blocks_asked());
    refuse_much_work(0, &files);
    // As a reader would that goes round in a circle.
    while files.blocks_asked() < BLOCKS_MAX {
        files.file("/sub/deep/a").unwrap();
    }
    assert!(image.reads.get() == reads && asked < BLOCKS_MAX / 100, "{asked} blocks, {reads} reads");
    let stopped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| refuse_much_work(1, &files)));
    assert!(stopped.is_err(), "a circle is noticed");
}

#[test]
fn file_systems() {
    let (bases, mut random) = (bases(), Random(0x1234_5678_9abc_def1));
    // What is not zero in them: most of it is metadata.
    let places: Vec<Vec<usize>> =
        bases.iter().map(|base| (1024..base.len()).filter(|at| base[*at] != 0).collect()).collect();
    let (mut seen, mut opened, mut most) = (0, 0, 0);
    let count = inputs();
    let mut image = Memory::new(Vec::new());
    for number in 0..count {
        let which = number as usize % bases.len();
        image.bytes.clone_from(&bases[which]);
        for _ in 0..=random.below(6) {
            let at = match random.below(4) {
                0 => 1024 + random.below(1024),
                1 => 2048 + random.below(20 * 1024),
                _ => places[which][random.below(places[which].len())],
            };
            image.bytes[at] = match random.below(3) {
                0 => image.bytes[at] ^ 1 << random.below(8),
                1 => [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                _ => random.below(256) as u8,
            };
        }
        if let Ok(files) = Ext4::open(&image, &OpenOptions::new().allow_dirty(true)) {
            opened += 1;
            seen += walk(&image, &files, "/", 3);
            let _ = (files.file("/slow"), files.file("/sub/../sub/deep/a"));
            refuse_much_work(number, &files);
            most = most.max(files.blocks_asked());
        }
    }
    println!("at most {most} blocks were asked for");
    // They are worth something only where most of them get far.
    assert!(opened > count / 4 && seen > count, "{opened} of {count} opened, {seen} files");
}

#[test]
fn partition_tables() {
    let mut random = Random(0x0dd0_5eed);
    let mut disks = [gpt(), mbr()].map(Memory::new);
    let mut found = 0;
    for number in 0..inputs() {
        let image = &mut disks[number as usize % 2];
        let mut before = Vec::new();
        for _ in 0..=random.below(4) {
            let places = [random.below(1024), 446 + random.below(66), random.below(image.bytes.len())];
            let at = places[random.below(3)];
            before.push((at, std::mem::replace(&mut image.bytes[at], random.below(256) as u8)));
        }
        image.reads.set(0);
        if let Ok(Some(table)) = partition::table(image) {
            found += 1;
            for entry in table.entries {
                assert!(entry.start + entry.bytes <= image.bytes.len() as u64, "input {number}: {entry}");
            }
        }
        assert!(image.reads.get() < 300, "input {number}: {} reads", image.reads.get());
        before.into_iter().rev().for_each(|(at, byte)| image.bytes[at] = byte);
    }
    assert!(found > inputs() / 10, "{found} tables");
}
