use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::process::Command;

use tempfile::TempDir;

use super::stamp::Superblock;
use super::*;
use crate::{EntryKind, FileSystem, Image, Source, read_file};

const CONTENTS: &[u8] = b"the contents of a file\n";

/// A file system that mkfs made, with the file `/a`.
struct Fixture {
    folder: TempDir,
}

impl Fixture {
    /// `None`: the programs are missing, which was said.
    fn new(kind: Kind) -> Option<Fixture> {
        let folder = tempfile::tempdir().unwrap();
        let fixture = Fixture { folder };
        let path = |name: &str| fixture.folder.path().join(name).display().to_string();
        std::fs::create_dir(path("files")).unwrap();
        std::fs::write(path("files/a"), CONTENTS).unwrap();
        let image = std::fs::File::create(path("image")).unwrap();
        match kind {
            Kind::Ext4 => {
                image.set_len(8 << 20).unwrap();
                run("mkfs.ext4", &["-q", "-d", &path("files"), &path("image")])?;
            }
            Kind::Xfs => {
                image.set_len(320 << 20).unwrap();
                let proto = format!("/\n0 0\nd--755 0 0\na ---644 0 0 {}\n$\n", path("files/a"));
                std::fs::write(path("proto"), proto).unwrap();
                run("mkfs.xfs", &["-q", "-p", &path("proto"), &path("image")])?;
            }
        }
        Some(fixture)
    }

    fn path(&self) -> String {
        self.folder.path().join("image").display().to_string()
    }

    fn image(&self) -> Image {
        Image::new(OpenOptions::new().read(true).write(true).open(self.path()).unwrap(), 512).unwrap()
    }

    /// Bytes over those of the image.
    fn patch(&self, at: u64, bytes: &[u8]) {
        OpenOptions::new().write(true).open(self.path()).unwrap().write_all_at(bytes, at).unwrap();
    }

    /// What was captured, had it been mounted.
    fn manifest(&self, inode: u64, extents: Vec<Extent>) -> Manifest {
        let image = self.image();
        let superblock = Superblock::read(&image, 0).unwrap();
        let found = superblock.inode(&image, inode).unwrap();
        let file = CapturedFile {
            path: "/a".to_owned(),
            size: found.size,
            inode,
            modified: found.modified,
            changed: found.changed,
            shared: false,
            checksum: Some(format!("{:08x}", crc32c::crc32c(CONTENTS))),
            extents,
        };
        Manifest {
            schema: SCHEMA.to_owned(),
            warpbell: "0".to_owned(),
            device: Device {
                name: "nvme0n1".to_owned(),
                serial: Some("S1".to_owned()),
                nsid: Some(1),
                bytes: image.bytes(),
                block_size: 512,
            },
            partition: None,
            file_system: superblock.id().clone(),
            stamp: superblock.stamp(&image).unwrap(),
            checksum: Checksum::Crc32c,
            files: vec![file],
            links: Vec::new(),
            refused: Vec::new(),
        }
    }

    fn ext4(&self) -> Manifest {
        let image = self.image();
        let files = crate::Ext4::open(&image, &crate::OpenOptions::default()).unwrap();
        self.manifest(12, files.file("/a").unwrap().extents().to_vec())
    }

    fn xfs(&self) -> Manifest {
        let map = run("xfs_db", &["-r", "-c", "path /a", "-c", "inode", "-c", "bmap", &self.path()]).unwrap();
        let number = |word: &str| {
            let from = map.split(word).nth(1).unwrap_or_else(|| panic!("no '{word}' in {map}"));
            from.split_whitespace().next().unwrap().parse().unwrap()
        };
        let extent = Extent { offset: 0, at: number("startblock ") * 4096, bytes: 4096 };
        self.manifest(number("inode number is "), vec![extent])
    }

    /// Why the manifest is not opened.
    fn refused(&self, manifest: &Manifest) -> String {
        manifest.open(&self.image(), None).unwrap_err().to_string()
    }
}

/// What a program says; `None`: it is not there, which was said.
fn run(program: &str, arguments: &[&str]) -> Option<String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let done = match Command::new(program).env("PATH", path).args(arguments).output() {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            println!("skipped: {program} is missing: run scripts/setup");
            return None;
        }
        done => done.unwrap(),
    };
    let (said, error) = (String::from_utf8_lossy(&done.stdout), String::from_utf8_lossy(&done.stderr));
    assert!(done.status.success(), "{program} {arguments:?}: {said}{error}");
    Some(said.into_owned())
}

/// That a manifest goes through JSON, and gives the file.
fn read_back(fixture: &Fixture, manifest: &Manifest) {
    let manifest = Manifest::parse(&manifest.to_json().unwrap()).unwrap();
    let image = fixture.image();
    let identity = Identity { serial: "S1".to_owned(), nsid: 1 };
    let files = manifest.open(&image, Some(&identity)).unwrap();
    let mut bytes = vec![0; CONTENTS.len()];
    read_file(&image, &files.file("/a").unwrap(), 0, &mut bytes).unwrap();
    assert_eq!(bytes, CONTENTS);
    assert_eq!(manifest.sum(&image, &manifest.files[0], &mut |_| true).unwrap(), manifest.files[0].checksum);
    let other = Identity { serial: "S2".to_owned(), nsid: 2 };
    let error = manifest.open(&image, Some(&other)).unwrap_err().to_string();
    assert!(error.contains("serial number S1 → S2; namespace 1 → 2"), "{error}");
}

#[test]
fn a_manifest_of_ext4_holds_until_it_changes() {
    let Some(fixture) = Fixture::new(Kind::Ext4) else { return };
    let manifest = fixture.ext4();
    read_back(&fixture, &manifest);
    for (program, arguments, words) in [
        ("tune2fs", &["-C", "7"][..], "stale (manifest → SSD): mount count 0 → 7; capture it anew"),
        // Where its one extent begins, as e4defrag would leave it: no time changes.
        ("debugfs", &["-w", "-R", "sif /a block[5] 1500"], "; /a: from offset 0 on 23 bytes at byte "),
        ("debugfs", &["-w", "-R", "sif /a mtime 20300101000000"], "; /a: written at "),
        ("debugfs", &["-w", "-R", "sif /a size 5"], "; /a: size 23 → 5; "),
        ("debugfs", &["-w", "-R", "sif /a links_count 0"], "; /a a file → none: "),
        ("debugfs", &["-w", "-R", "ssv free_blocks_count 77"], "; free blocks "),
        ("debugfs", &["-w", "-R", "feature needs_recovery"], "; journal empty → to be replayed: "),
    ] {
        let image = fixture.path();
        let all: Vec<&str> = arguments.iter().copied().chain([image.as_str()]).collect();
        run(program, &all).unwrap();
        let error = fixture.refused(&manifest);
        assert!(error.contains(words), "{arguments:?}: {error}");
    }
    fixture.patch(1024 + 0x30, &[1]);
    assert!(fixture.refused(&manifest).starts_with("the superblock of ext4 is damaged: its checksum is "));
    fixture.patch(1024, &[0; 1024]);
    assert_eq!(fixture.refused(&manifest), "byte 0: neither ext4 nor XFS begins here");
}

#[test]
fn a_manifest_of_xfs_holds_until_it_changes() {
    let Some(fixture) = Fixture::new(Kind::Xfs) else { return };
    let manifest = fixture.xfs();
    read_back(&fixture, &manifest);
    let inode = format!("inode {}", manifest.files[0].inode);
    run("xfs_db", &["-x", "-c", &inode, "-c", "write core.size 5", &fixture.path()]).unwrap();
    let error = fixture.refused(&manifest);
    assert!(error.contains("stale (manifest → SSD): /a: size 23 → 5; capture"), "{error}");
    let mut later = manifest.clone();
    later.stamp = Stamp::Xfs(XfsStamp { log: LogPosition { cycle: 1, block: 2 } });
    let error = fixture.refused(&later);
    assert!(
        error.contains("log record 1:2 → not there: written over since, or a copy from before"),
        "{error}"
    );
    fixture.patch(128, &[1]);
    assert!(fixture.refused(&manifest).starts_with("the superblock of XFS is damaged: its checksum is "));
}

#[test]
fn another_file_system_is_noticed() {
    let (Some(fixture), Some(other)) = (Fixture::new(Kind::Ext4), Fixture::new(Kind::Ext4)) else { return };
    let manifest = fixture.ext4();
    let error = other.refused(&manifest);
    assert!(error.contains(&format!("UUID {} → ", manifest.file_system.uuid)), "{error}");
    OpenOptions::new().write(true).open(fixture.path()).unwrap().set_len(9 << 20).unwrap();
    let error = fixture.refused(&manifest);
    assert!(error.contains("bytes of the namespace 8388608 → 9437184"), "{error}");
}

/// A manifest of no SSD.
fn synthetic() -> Manifest {
    let file = |path: &str, inode, at| CapturedFile {
        path: path.to_owned(),
        size: 5000,
        inode,
        modified: (1, 2),
        changed: (3, 4),
        shared: false,
        checksum: None,
        extents: vec![Extent { offset: 0, at, bytes: 8192 }],
    };
    Manifest {
        schema: SCHEMA.to_owned(),
        warpbell: "0".to_owned(),
        device: Device { name: "d".to_owned(), serial: None, nsid: None, bytes: 1 << 20, block_size: 512 },
        partition: Some(Partition { number: 1, start: 4096, bytes: 65536 }),
        file_system: FileSystemId {
            kind: Kind::Ext4,
            uuid: "u".to_owned(),
            label: String::new(),
            block_size: 4096,
        },
        stamp: Stamp::Xfs(XfsStamp { log: LogPosition { cycle: 1, block: 2 } }),
        checksum: Checksum::None,
        files: vec![file("/d/a", 1, 4096), file("/d/e/b", 2, 16384)],
        links: vec![
            Link { path: "/l".to_owned(), target: "/d/e".to_owned() },
            Link { path: "/loop".to_owned(), target: "/loop".to_owned() },
        ],
        refused: Vec::new(),
    }
}

#[test]
fn what_is_no_manifest_is_refused_in_one_line() {
    let refused = |text: &str| Manifest::parse(text).unwrap_err().to_string();
    assert!(refused("{").starts_with("manifest: not one: EOF while parsing"), "{}", refused("{"));
    assert!(refused("{}").contains("missing field `schema`"));
    assert_eq!(
        refused(r#"{"schema": "warpbell.files/9"}"#),
        "manifest: schema 'warpbell.files/9'; this version reads 'warpbell.files/1'"
    );
    assert!(refused(r#"{"schema": "warpbell.files/1"}"#).contains("missing field"));
    let error = Manifest::load(Path::new("/none/such.json")).unwrap_err().to_string();
    assert_eq!(error, "reading /none/such.json: No such file or directory (os error 2)");
}

#[test]
fn extents_that_cannot_be_are_refused() {
    let changed = |change: fn(&mut Manifest)| {
        let mut manifest = synthetic();
        change(&mut manifest);
        Manifest::parse(&manifest.to_json().unwrap()).map(|_| ()).map_err(|error| error.to_string())
    };
    let refused = |change: fn(&mut Manifest), words: &str| {
        let error = changed(change).unwrap_err();
        assert!(error.contains(words), "{error}");
    };
    assert_eq!(changed(|_| {}), Ok(()));
    refused(|m| m.files[1].extents[0].at = 8192, "byte 8192 belongs to /d/a and to /d/e/b");
    // Two names of one file, and blocks that are shared.
    assert_eq!(changed(|m| (m.files[1].extents[0].at, m.files[1].inode) = (4096, 1)), Ok(()));
    assert_eq!(changed(|m| (m.files[1].extents[0].at, m.files[1].shared) = (8192, true)), Ok(()));
    refused(|m| m.files[0].extents[0].at = 0, "outside of the file system, bytes 4096 to 69632");
    refused(|m| m.files[0].extents[0].at = 65536, "outside of the file system");
    refused(|m| m.files[0].extents[0].at = u64::MAX, "its end is above 2^64");
    refused(|m| m.files[0].extents[0].offset = 5000, "the file has 5000 bytes");
    refused(|m| m.files[0].extents.push(Extent { offset: 4096, at: 32768, bytes: 512 }), "it overlaps");
    refused(|m| m.files[0].path = "/d/e/b".to_owned(), "path '/d/e/b' is there twice");
    refused(|m| m.files[0].path = "/d/e".to_owned(), "path '/d/e' is no folder, and '/d/e/b' lies in it");
    refused(|m| m.files[0].path = "d/a".to_owned(), "path 'd/a' is not absolute and plain");
    refused(|m| m.files[0].path = "/d/../a".to_owned(), "is not absolute and plain");
}

#[test]
fn paths_lead_through_folders_and_links() {
    let files = Captured::new(&synthetic(), None).unwrap();
    let found = |path: &str| files.file(path).map(|map| map.extents()[0].at).map_err(|e| e.to_string());
    for path in ["/d/e/b", "/l/b", "/l/../e/b", "//d/./e/b"] {
        assert_eq!(found(path), Ok(16384), "{path}");
    }
    assert_eq!(found("/l/../a"), Ok(4096));
    let behind = found("/d/e/b/").unwrap_err();
    assert_eq!(behind, "/d/e/b/: it is a file, and what ends with / names a folder");
    assert_eq!(found("/d/none"), Err("/d/none: the manifest has no /d/none".to_owned()));
    assert_eq!(found("/d/a/x"), Err("/d/a/x: /d/a is a file, no folder".to_owned()));
    assert_eq!(found("/l"), Err("/l: it is a folder".to_owned()));
    assert_eq!(found("/loop"), Err("/loop: more than 40 symbolic links".to_owned()));
    let names = |path: &str| {
        let entries = files.entries(path).unwrap();
        entries.into_iter().map(|entry| (entry.name, entry.kind, entry.size)).collect::<Vec<_>>()
    };
    let directory = |name: &str| (name.to_owned(), EntryKind::Directory, 0);
    let link = |name: &str| (name.to_owned(), EntryKind::Symlink, 0);
    assert_eq!(names("/"), [directory("d"), link("l"), link("loop")]);
    assert_eq!(names("/d"), [("a".to_owned(), EntryKind::File, 5000), directory("e")]);
    assert_eq!(names("/l"), [("b".to_owned(), EntryKind::File, 5000)]);
}

#[test]
fn zeroes_are_added_as_if_they_were_bytes() {
    for checksum in [Checksum::Crc32c, Checksum::Sha256] {
        for count in [0, 1, 2, 3, 511, 512, 4095, 4097, 100_000] {
            let (mut one, mut other) = (Sum::new(checksum), Sum::new(checksum));
            for sum in [&mut one, &mut other] {
                sum.add(b"before");
            }
            one.add_zeroes(count);
            other.add(&vec![0; count as usize]);
            one.add(b"behind");
            other.add(b"behind");
            assert_eq!(one.finish(), other.finish(), "{checksum:?} {count}");
        }
    }
}

#[test]
fn a_log_outside_of_its_xfs_is_damage() {
    let Some(fixture) = Fixture::new(Kind::Xfs) else { return };
    let mut sector = [0; 512];
    fixture.image().read_at(0, &mut sector).unwrap();
    assert_eq!(sector[102..104], [2, 0], "sectors of 512 bytes");
    let stored = u64::from_be_bytes(sector[48..56].try_into().unwrap());
    for (start, is_there) in [(u64::MAX, false), (1 << 63 | 8, false), (1 << 40, false), (stored, true)] {
        sector[48..56].copy_from_slice(&start.to_be_bytes());
        sector[224..228].fill(0);
        let sum = crc32c::crc32c(&sector).to_le_bytes();
        sector[224..228].copy_from_slice(&sum);
        fixture.patch(0, &sector);
        let found = Superblock::read(&fixture.image(), 0).map(drop).map_err(|error| error.to_string());
        let said = found.as_ref().is_err_and(|error| error.contains("is damaged: its log is in block "));
        assert!(if is_there { found.is_ok() } else { said }, "{start:#x}: {found:?}");
    }
}

/// A hole of exabytes, which SHA-256 would never come to the end of.
#[test]
fn the_checksum_of_a_file_can_be_interrupted_within_it() {
    let mut manifest = synthetic();
    manifest.checksum = Checksum::Sha256;
    let file = CapturedFile { size: 1 << 62, extents: Vec::new(), ..manifest.files[0].clone() };
    let source = Image::new(tempfile::tempfile().unwrap(), 512).unwrap();
    let mut heard = Vec::new();
    let stopped = manifest.sum(&source, &file, &mut |bytes| {
        heard.push(bytes);
        heard.len() < 3
    });
    assert_eq!(
        stopped.unwrap_err().to_string(),
        format!("{}: interrupted before all of it was read", file.path)
    );
    assert_eq!(heard, [1 << 20; 3]);
    manifest.checksum = Checksum::Crc32c;
    let sum = manifest.sum(&source, &file, &mut |bytes| bytes == 1 << 62).unwrap();
    assert_eq!(sum.map(|sum| sum.len()), Some(8));
}

#[test]
fn file_systems_of_other_kinds_are_refused_by_name() {
    let options = CaptureOptions { checksum: Checksum::None, skip_refused: false };
    for (path, words) in [
        ("/proc/self/status", "file system of type 0x9fa0: only ext4 and XFS are captured"),
        ("/dev/shm", "tmpfs: its files lie in memory; only ext4 and XFS are captured"),
        ("/none/such", "opening /none/such: No such file"),
    ] {
        if path == "/dev/shm" && !Path::new(path).exists() {
            continue;
        }
        let error = capture(&[path.into()], &options, &mut |_| true).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}
