//! Files of file systems on devices, by their path: what kernels and the host read is what was put there.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use crate::common::{crc32c_bytewise, feed, json, noise, ok, refusal, refused, run, soft_file};

/// A file system with files, and what is in them.
struct Made {
    root: TempDir,
    image: PathBuf,
}

impl Made {
    fn new() -> Made {
        let root = tempfile::tempdir().unwrap();
        let (tree, image) = (root.path().join("tree"), root.path().join("disk.img"));
        std::fs::create_dir_all(tree.join("data/more")).unwrap();
        std::fs::write(tree.join("data/a.bin"), noise(1, 300_001)).unwrap();
        std::fs::write(tree.join("data/one"), b"x").unwrap();
        std::fs::write(tree.join("data/none"), b"").unwrap();
        std::os::unix::fs::symlink("/data/a.bin", tree.join("link")).unwrap();
        let stripes = File::create(tree.join("stripes")).unwrap();
        stripes.set_len(700_000).unwrap();
        (0..40).for_each(|index| stripes.write_all_at(&noise(index, 4096), index * 16_384).unwrap());
        let made = Made { root, image };
        made.mkfs(&["-b", "1024"]);
        made
    }

    /// Makes the image again.
    fn mkfs(&self, options: &[&str]) {
        mkfs(&self.root.path().join("tree"), options, &self.image, "8M");
    }

    fn source(&self, path: &str) -> Vec<u8> {
        std::fs::read(self.root.path().join("tree").join(path)).unwrap()
    }

    fn name(&self, path: &str) -> String {
        format!("{}#/{path}", soft_file(&self.image))
    }
}

/// Makes an image of `size` with what is in `tree`.
fn mkfs(tree: &Path, options: &[&str], image: &Path, size: &str) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output = Command::new("mkfs.ext4")
        .args(["-q", "-F", "-d"])
        .arg(tree)
        .args(options)
        .arg(image)
        .arg(size)
        .env("PATH", path)
        .output()
        .expect("mkfs.ext4: scripts/setup installs e2fsprogs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn kernels_and_the_host_read_files_by_their_path() {
    let made = Made::new();
    for (path, source) in [
        ("data/a.bin", "data/a.bin"),
        ("link", "data/a.bin"),
        ("data/one", "data/one"),
        ("data/none", "data/none"),
        ("stripes", "stripes"),
    ] {
        let expected = made.source(source);
        let name = made.name(path);
        let output = run(&["read", &name]);
        assert!(output.stdout == expected, "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let digest = json(&["digest", &name, "--bs", "8k", "-o", "json"]);
        assert_eq!(digest["crc32c"], format!("{:08x}", crc32c_bytewise([expected.clone()])), "{path}");
        assert_eq!(
            (digest["bytes"].as_u64(), &digest["file"]["name"]),
            (Some(expected.len() as u64), &format!("/{path}").into())
        );
    }
    let digest = json(&["digest", &made.name("stripes"), "-o", "json"]);
    assert_eq!(digest["file"]["hole_bytes"], 700_000 - 40 * 4096);
    assert_eq!(digest["blocks"], 40 * 8);
    let part = run(&["read", &made.name("stripes"), "--offset", "4000", "--bytes", "13000"]).stdout;
    assert!(part == made.source("stripes")[4000..17_000]);
    let rest = run(&["read", &made.name("data/a.bin"), "--offset", "300000"]).stdout;
    assert!(rest == made.source("data/a.bin")[300_000..]);
}

#[test]
fn folders_are_listed_and_files_say_where_they_lie() {
    let made = Made::new();
    let text = ok(&["files", "ls", &made.name("data")]);
    let lines: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(
        lines,
        [
            ["file", "300001", "a.bin"],
            ["directory", "0", "more"],
            ["file", "0", "none"],
            ["file", "1", "one"]
        ]
    );
    let list = json(&["files", "ls", &soft_file(&made.image), "-o", "json"]);
    let names: Vec<&str> =
        list["entries"].as_array().unwrap().iter().map(|entry| entry["name"].as_str().unwrap()).collect();
    assert_eq!(
        (names, &list["file_system"]),
        (vec!["data", "link", "lost+found", "stripes"], &"ext4".into())
    );
    let stat = json(&["files", "stat", &made.name("stripes"), "-o", "json"]);
    assert_eq!((stat["bytes"].as_u64(), stat["hole_bytes"].as_u64()), (Some(700_000), Some(536_160)));
    // What it says is where the bytes are.
    let (image, expected) = (std::fs::read(&made.image).unwrap(), made.source("stripes"));
    for extent in stat["extents"].as_array().unwrap() {
        let number = |name: &str| extent[name].as_u64().unwrap() as usize;
        let (offset, at, bytes) = (number("offset"), number("at"), number("bytes"));
        assert!(image[at..at + bytes] == expected[offset..offset + bytes], "{extent}");
    }
    let text = ok(&["files", "stat", &made.name("data/one")]);
    assert!(text.contains("#/data/one: ext4, 1 bytes (1B), 1 extents, 0 bytes of holes\n"), "{text}");
}

#[test]
fn benchmarks_read_the_blocks_of_a_file() {
    let made = Made::new();
    let name = made.name("stripes");
    let common = ["bench", &name, "--bs", "1k", "--io-limit", "160k", "-o", "json"];
    for flags in [
        &["--rw", "read"][..],
        &["--rw", "randread", "--api", "raw"],
        &["--rw", "read", "--api", "host"],
        &["--rw", "randread", "--api", "batch"],
        &["--rw", "read", "--api", "agent"],
    ] {
        let run = &json(&[&common[..], flags].concat())["runs"][0];
        assert_eq!(
            (run["read"]["ios"].as_u64(), run["errors"].as_u64()),
            (Some(160), Some(0)),
            "{flags:?} {run}"
        );
        let file = &run["job"]["file"];
        assert_eq!(
            (file["ios"].as_u64(), file["ios_left_out"].as_u64()),
            (Some(160), Some(524)),
            "{flags:?}"
        );
    }
    let text = ok(&["bench", &name, "--bs", "1k", "--io-limit", "160k"]);
    assert!(text.contains(" (524 of 684 I/Os left out: not in one extent)\n"), "{text}");
    // Reads of one of its blocks fail: only a run over the file's own blocks notices.
    let stat = json(&["files", "stat", &name, "-o", "json"]);
    let lba = stat["extents"][7]["at"].as_u64().unwrap() / 512;
    let plan = made.root.path().join("plan.toml");
    std::fs::write(&plan, format!("[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nopcode = \"read\"\nlba = [{lba}, {lba}]\n")).unwrap();
    let plan = plan.to_str().unwrap();
    let flags = ["--rw", "read", "--bs", "1k", "--size", "640k", "--fault", plan];
    for api in ["io", "host"] {
        let line = refusal(&flags, &run(&[&["bench", &name, "--api", api][..], &flags].concat())).1;
        assert!(line.contains(&format!("LBA {lba}")), "{api}: {line}");
        let other =
            run(&["bench", &made.name("data/a.bin"), "--api", api, "--size", "256k", "--fault", plan]);
        assert_eq!(other.status.code(), Some(0), "{api}: another file has other blocks");
    }
}

#[test]
fn what_a_file_cannot_be_used_for_is_refused_by_name() {
    let made = Made::new();
    let (name, image) = (made.name("data/a.bin"), soft_file(&made.image));
    let disk = made.image.display();
    let allowed = format!("--allow-write={disk}");
    for (arguments, code, start) in [
        (vec!["write", &name, "--lba", "0", &allowed], 2, format!("--lba: {name} is written by bytes")),
        (vec!["identify", &name], 2, format!("{name}: this command takes a whole device")),
        (
            vec!["bench", &name, "--rw", "randwrite", &allowed],
            3,
            format!("writing to {disk}#/data/a.bin is not permitted"),
        ),
        (vec!["bench", &name, "--api", "array"], 2, "--api array: an array".to_owned()),
        (vec!["read", &name, "--lba", "0"], 2, format!("--lba: {name} is read by bytes")),
        (vec!["read", &image, "--bytes", "1"], 2, format!("--bytes: {image} is read by blocks")),
        (vec!["read", &image], 2, format!("--lba is missing: {image} is read by blocks")),
        (
            vec!["read", &name, "--offset", "1m"],
            2,
            "offset 1048576 and 0 bytes: the file has 300001 bytes".to_owned(),
        ),
        (
            vec!["digest", &image, "--allow-dirty"],
            2,
            format!("--allow-dirty: {image} is not read by a file system"),
        ),
        (vec!["files", "stat", &image], 2, format!("{image}: files stat takes a file")),
        (
            vec!["digest", &image, "--partition", "1"],
            2,
            format!("{image}: partition 1: there is no partition table"),
        ),
    ] {
        let (found, line) = refused(&arguments);
        assert_eq!((found, line.starts_with(&start)), (code, true), "{arguments:?}: {line}");
    }
    let nothing = made.name("data/nothing");
    assert_eq!(
        refused(&["digest", &nothing]),
        (2, format!("{image}: /data/nothing: there is no \"nothing\""))
    );
    made.mkfs(&["-O", "encrypt"]);
    let (code, line) = refused(&["digest", &name]);
    assert_eq!((code, line.contains("ext4 with feature encrypt: not understood")), (3, true), "{line}");
}

#[test]
fn damage_is_named_and_a_dirty_file_system_is_read_where_that_is_asked_for() {
    let made = Made::new();
    let disk = std::fs::OpenOptions::new().read(true).write(true).open(&made.image).unwrap();
    change(&disk, |superblock| superblock[0x60] |= 4);
    let name = made.name("data/a.bin");
    let (code, line) = refused(&["digest", &name]);
    assert!(code == 3 && line.contains("needs_recovery") && line.contains("--allow-dirty"), "{line}");
    let expected = format!("{:08x}", crc32c_bytewise([made.source("data/a.bin")]));
    assert_eq!(json(&["digest", &name, "--allow-dirty", "-o", "json"])["crc32c"], expected);
    disk.write_all_at(&[0xff], 1024 + 0x78).unwrap();
    let (code, line) = refused(&["digest", &name, "--allow-dirty"]);
    assert!(
        code == 1 && line.contains("ext4 superblock at byte 1024 is damaged: its checksum is "),
        "{line}"
    );
}

/// Changes a superblock, and mends its checksum.
fn change(disk: &File, change: impl FnOnce(&mut [u8])) {
    let mut superblock = [0; 1024];
    disk.read_exact_at(&mut superblock, 1024).unwrap();
    change(&mut superblock);
    let sum = !crc32c_bytewise([superblock[..0x3fc].to_vec()]);
    superblock[0x3fc..].copy_from_slice(&sum.to_le_bytes());
    disk.write_all_at(&superblock, 1024).unwrap();
}

#[test]
fn partitions_are_chosen_by_number_and_label() {
    let made = Made::new();
    let disk = partitioned(&made.image, made.root.path());
    let device = soft_file(&disk);
    let (code, line) = refused(&["files", "ls", &device]);
    assert!(code == 3 && line.contains("partition table: choose a partition: 1: 8388608 bytes"), "{line}");
    let expected = made.source("data/a.bin");
    let name = format!("{device}#/data/a.bin");
    for partition in ["1", "abcdef01-01"] {
        assert!(run(&["read", &name, "--partition", partition]).stdout == expected, "{partition}");
        let digest = json(&["digest", &name, "--partition", partition, "-o", "json"]);
        assert_eq!(digest["crc32c"], format!("{:08x}", crc32c_bytewise([expected.clone()])));
    }
    let whole = json(&["digest", &device, "--partition", "1", "-o", "json"]);
    let image = std::fs::read(&made.image).unwrap();
    assert_eq!(whole["crc32c"], format!("{:08x}", crc32c_bytewise([image])));
    assert_eq!(whole["file"]["name"], "partition 1");
}

/// The image as the only partition of a disk with an MBR.
fn partitioned(image: &Path, folder: &Path) -> PathBuf {
    let mut disk = vec![0; 1 << 20];
    disk[440..444].copy_from_slice(&0xabcd_ef01_u32.to_le_bytes());
    disk[446 + 4] = 0x83;
    disk[446 + 8..446 + 12].copy_from_slice(&2048u32.to_le_bytes());
    disk[446 + 12..446 + 16].copy_from_slice(&16_384u32.to_le_bytes());
    disk[510..512].copy_from_slice(&[0x55, 0xaa]);
    disk.extend(std::fs::read(image).unwrap());
    let path = folder.join("partitioned.img");
    std::fs::write(&path, disk).unwrap();
    path
}

/// The bytes of an image outside of a file's blocks.
fn around(image: &[u8], stat: &serde_json::Value) -> u32 {
    let mut rest = image.to_vec();
    for extent in stat["extents"].as_array().unwrap() {
        let number = |name: &str| extent[name].as_u64().unwrap() as usize;
        rest[number("at")..number("at") + number("bytes")].fill(0);
    }
    crc32c_bytewise([rest])
}

fn clean(image: &Path) {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let checked = Command::new("e2fsck").args(["-f", "-n"]).arg(image).env("PATH", path).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn written_blocks_of_a_file_are_overwritten_and_nothing_else() {
    let made = Made::new();
    let (name, image) = (made.name("data/a.bin"), made.image.display().to_string());
    let allowed = format!("--allow-write={image}#/data/a.bin");
    let stat = json(&["files", "stat", &name, "-o", "json"]);
    let mut before = std::fs::read(&made.image).unwrap();
    let rest = around(&before, &stat);
    for (flags, seed) in [
        (&["--rw", "randwrite", "--api", "raw"][..], "1"),
        (&["--rw", "write", "--api", "host"], "2"),
        (&["--rw", "randrw", "--verify", "crc32c"], "3"),
        (&["--rw", "read", "--verify", "crc32c"], "4"),
    ] {
        let common =
            ["bench", &name, "--bs", "512", "--io-limit", "64k", "--seed", seed, "-o", "json", &allowed];
        let run = &json(&[&common[..], flags].concat())["runs"][0];
        assert_eq!(run["errors"], 0, "{flags:?} {run}");
        assert!(run["verify"]["mismatches"].as_u64().unwrap_or(0) == 0, "{flags:?} {run}");
        let after = std::fs::read(&made.image).unwrap();
        assert!(after != before, "{flags:?}: nothing was written");
        assert_eq!(around(&after, &stat), rest, "{flags:?}: bytes outside of the file have changed");
        before = after;
    }
    let tail = run(&["read", &name, "--offset", "299520"]).stdout;
    assert!(tail == made.source("data/a.bin")[299_520..], "the last block is not whole, and stays");
    clean(&made.image);
}

#[test]
fn standard_input_overwrites_a_file_from_an_offset_on() {
    let made = Made::new();
    let (name, image) = (made.name("stripes"), made.image.display().to_string());
    let allowed = format!("--allow-write={image}#/stripes");
    let write = |offset: &str, bytes: &[u8]| {
        feed(&["write", &name, "--offset", offset, &allowed, "-o", "json"], bytes)
    };
    let bytes = noise(99, 3072);
    let done = write("16896", &bytes);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let mut expected = made.source("stripes");
    expected[16_896..16_896 + 3072].copy_from_slice(&bytes);
    assert!(run(&["read", &name]).stdout == expected);
    for (offset, bytes, why) in [
        ("16896", &bytes[..100], "must be whole blocks of 512 bytes"),
        ("0", &[7; 8192][..], "offset 4096 is in a hole, of 4096 bytes here"),
        ("699904", &[7; 512][..], "the file has 699904 bytes of whole blocks, and 96 of 512 in its last one"),
        ("700416", &[7; 512][..], "the file has 699904 bytes of whole blocks"),
    ] {
        let refused = write(offset, bytes);
        let text = String::from_utf8_lossy(&refused.stderr).into_owned();
        assert!(refused.status.code() == Some(2) && text.contains(why), "{text}");
    }
    let empty = write("0", &[]);
    let text = String::from_utf8_lossy(&empty.stderr).into_owned();
    assert!(!empty.status.success() && text.contains("0 bytes, not whole blocks of 512 bytes"), "{text}");
    assert!(run(&["read", &name]).stdout == expected, "what was refused has written nothing");
    clean(&made.image);
}

#[test]
fn writing_to_a_file_is_refused_by_name() {
    let made = Made::new();
    let image = made.image.display().to_string();
    let bench = |path: &str, flags: &[&str]| {
        let name = made.name(path);
        let (code, line) = refused(
            &[&["bench", &name, "--rw", "randwrite", "--io-limit", "4k", "--bs", "512"], flags].concat(),
        );
        assert!([2, 3].contains(&code), "{code} {line}");
        line
    };
    let allow = |path: &str| format!("--allow-write={image}#/{path}");
    let none = bench("data/a.bin", &[]);
    assert!(none.contains(&format!("name it in {} to permit it", allow("data/a.bin"))), "{none}");
    let whole = bench("data/a.bin", &[&format!("--allow-write={image}")]);
    assert!(whole.contains(&format!("names something else, not {image}#/data/a.bin")), "{whole}");
    let other = bench("data/a.bin", &[&allow("data/one")]);
    assert!(other.contains("names something else"), "{other}");
    let hole = bench("stripes", &[&allow("stripes")]);
    assert!(
        hole.contains("--offset 0: writing 699904 bytes at offset 0 of a file: offset 4096 is in a hole"),
        "{hole}"
    );
    let dirty = bench("data/a.bin", &[&allow("data/a.bin"), "--allow-dirty"]);
    assert!(dirty.contains("--allow-dirty: a file system that was not unmounted is not written"), "{dirty}");
    // One byte is no whole block.
    let one = bench("data/one", &[&allow("data/one")]);
    assert!(one.contains("has only 1 of 512 bytes"), "{one}");
    let tuned = Command::new("tune2fs")
        .args(["-o", "journal_data"])
        .arg(&made.image)
        .env("PATH", format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap()))
        .output()
        .unwrap();
    assert!(tuned.status.success(), "{}", String::from_utf8_lossy(&tuned.stderr));
    let journal = bench("data/a.bin", &[&allow("data/a.bin")]);
    assert!(journal.contains("its default mount options have data=journal"), "{journal}");
}

#[test]
fn a_file_of_many_extents_is_digested_by_one_launch() {
    let root = tempfile::tempdir().unwrap();
    let image = root.path().join("disk.img");
    // Each second block of 4 KiB, 4,000 of them, and a block that the file ends in.
    const EXTENTS: usize = 4000;
    let tree = root.path().join("tree");
    std::fs::create_dir(&tree).unwrap();
    let file = File::create(tree.join("many")).unwrap();
    let size = EXTENTS as u64 * 8192 + 1000;
    file.set_len(size).unwrap();
    let block = |index: usize| noise(index as u64, 4096);
    (0..EXTENTS).for_each(|index| file.write_all_at(&block(index), index as u64 * 8192).unwrap());
    file.write_all_at(&[7; 1000], size - 1000).unwrap();
    drop(file);
    mkfs(&tree, &["-b", "4096"], &image, "64M");
    let name = format!("{}#/many", soft_file(&image));
    let digest = json(&["digest", &name, "-o", "json"]);
    let expected = crc32c_bytewise([std::fs::read(tree.join("many")).unwrap()]);
    assert_eq!(digest["crc32c"], format!("{expected:08x}"));
    assert_eq!(digest["file"]["hole_bytes"].as_u64(), Some(EXTENTS as u64 * 4096));
    assert!(digest["file"]["extents"].as_u64().unwrap() >= EXTENTS as u64, "{digest}");
    // What no read gives is told by its place.
    let stat = json(&["files", "stat", &name, "-o", "json"]);
    let at = stat["extents"][2500]["at"].as_u64().unwrap();
    let plan = root.path().join("plan.toml");
    let fault = format!(
        "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nopcode = \"read\"\nlba = {}\ncount = 1\n",
        at / 512
    );
    std::fs::write(&plan, fault).unwrap();
    let (code, line) = refused(&["digest", &name, "--fault", plan.to_str().unwrap()]);
    assert!(code == 1 && line.contains(&format!("LBA {}", at / 512)), "{line}");
}

#[test]
fn a_path_with_a_slash_at_its_end_names_a_folder() {
    let made = Made::new();
    for command in [&["read"][..], &["digest"], &["files", "stat"], &["files", "ls"]] {
        let (code, line) = refused(&[command, &[&made.name("data/one/")]].concat());
        assert!(
            code == 2 && line.contains("/data/one/: it is a file, and what ends with / names a folder"),
            "{line}"
        );
    }
    assert!(ok(&["files", "ls", &made.name("data/")]).contains("a.bin"));
    let (code, line) = refused(&["read", &format!("{}#data/one", soft_file(&made.image))]);
    assert!(code == 2 && line.contains("or name a file, as DEVICE#/path: its path begins with /"), "{line}");
}
