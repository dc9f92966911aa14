//! Every file is what was put there, whatever the file system is like.

use std::fs::{File, create_dir_all, write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use tempfile::TempDir;
use warpbell_files::{EntryKind, FileSystem, Image, OpenOptions, Source, open, read_file};

use crate::common::{Memory, contents, mkfs, noise, tool};

/// Extents of a file that has a block and a hole in turns.
const STRIPES: u64 = 400;

/// Files of all kinds.
fn tree() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    let at = |name: &str| root.path().join(name);
    create_dir_all(at("sub/deep/empty")).unwrap();
    create_dir_all(at("many")).unwrap();
    write(at("none"), []).unwrap();
    write(at("one"), b"x").unwrap();
    write(at("a.bin"), noise(1, 300_001)).unwrap();
    write(at("sub/deep/ünï"), noise(2, 5000)).unwrap();
    for number in 0..200 {
        write(at(&format!("many/a-file-with-a-long-name-{number}")), noise(number, number as usize)).unwrap();
    }
    let stripes = File::create(at("stripes")).unwrap();
    stripes.set_len(STRIPES * 8192 + 100).unwrap();
    for index in 0..STRIPES {
        stripes.write_all_at(&noise(index, 4096), index * 8192).unwrap();
    }
    symlink("../a.bin", at("sub/link")).unwrap();
    symlink(format!("/sub/{}deep/ünï", "deep/../".repeat(20)), at("long")).unwrap();
    symlink("loop", at("loop")).unwrap();
    root
}

/// Compares all below a folder with what was put there; says how many files that were.
fn compare(source: &dyn Source, files: &dyn FileSystem, root: &Path, below: &str) -> u64 {
    let mut found = files.entries(&format!("/{below}")).unwrap();
    found.retain(|entry| entry.name != "lost+found");
    let mut names: Vec<String> = found.iter().map(|entry| entry.name.clone()).collect();
    let listed = std::fs::read_dir(root.join(below)).unwrap();
    let mut expected: Vec<String> =
        listed.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    (names.sort(), expected.sort());
    assert_eq!(names, expected, "/{below}");
    let mut count = 0;
    for entry in found {
        let path = format!("{below}/{}", entry.name);
        let path = path.trim_start_matches('/');
        match entry.kind {
            EntryKind::Directory => count += compare(source, files, root, path),
            EntryKind::File => {
                let expected = std::fs::read(root.join(path)).unwrap();
                assert_eq!(entry.size, expected.len() as u64, "/{path}");
                assert!(contents(source, files, &format!("/{path}")) == expected, "/{path}");
                count += 1;
            }
            EntryKind::Symlink | EntryKind::Special => {}
        }
    }
    count
}

#[test]
fn every_file_of_every_kind_of_file_system() {
    let root = tree();
    let image = root.path().with_extension("img");
    for options in [
        &["-b", "4096"][..],
        &["-b", "1024"],
        &["-b", "2048", "-O", "^64bit"],
        &["-b", "1024", "-O", "^metadata_csum,uninit_bg"],
        &["-b", "1024", "-O", "^extents,^64bit"],
        &["-b", "1024", "-O", "meta_bg,^resize_inode"],
        &["-b", "1024", "-O", "^metadata_csum,meta_bg,^resize_inode,^64bit,^flex_bg", "-g", "1024"],
        &["-b", "4096", "-O", "metadata_csum_seed,large_dir,ea_inode,project,quota"],
        &["-I", "128", "-O", "sparse_super2"],
        &["-I", "1024", "-O", "^has_journal"],
        &["-t", "ext2"],
        &["-t", "ext3", "-b", "1024"],
    ] {
        mkfs(options, root.path(), &image, "40M");
        let source = Memory::load(&image);
        let files =
            open(&source, &OpenOptions::default()).unwrap_or_else(|error| panic!("{options:?}: {error}"));
        assert_eq!(compare(&source, &*files, root.path(), ""), 205, "{options:?}");
        let a = noise(1, 300_001);
        assert!(
            contents(&source, &*files, "/sub/link") == a && contents(&source, &*files, "/many/../a.bin") == a
        );
        assert!(contents(&source, &*files, "//long") == noise(2, 5000), "{options:?}");
        let map = files.file("/stripes").unwrap();
        assert!(map.extents().len() as u64 >= STRIPES, "{options:?}: {}", map.extents().len());
        for (path, why) in [
            ("/loop", "more than 40 symbolic links on the way"),
            ("/sub", "it is a folder"),
            ("/one/x", "what stands before \"x\" is no folder"),
            ("/sub/nothing/x", "there is no \"nothing\""),
            ("one", "a path begins with /"),
        ] {
            assert_eq!(files.file(path).unwrap_err().to_string(), format!("{path}: {why}"), "{options:?}");
        }
    }
    std::fs::remove_file(image).unwrap();
}

#[test]
fn folders_with_an_index_of_5000_names() {
    let root = tempfile::tempdir().unwrap();
    create_dir_all(root.path().join("many")).unwrap();
    for number in 0..5000 {
        let bytes = if number % 100 == 0 { noise(number, 10) } else { Vec::new() };
        write(root.path().join(format!("many/the-name-of-file-{number}")), bytes).unwrap();
    }
    let image = root.path().with_extension("img");
    for features in ["metadata_csum", "^metadata_csum"] {
        mkfs(&["-b", "1024", "-N", "6000", "-O", features], root.path(), &image, "20M");
        tool("e2fsck", &["-fyD", image.to_str().unwrap()]);
        let index = tool("debugfs", &["-R", "htree_dump /many", image.to_str().unwrap()]);
        assert!(index.contains("Indirect levels: 1"), "no index of two levels: {index}");
        let source = Memory::load(&image);
        let files = open(&source, &OpenOptions::default()).unwrap();
        assert_eq!(compare(&source, &*files, root.path(), ""), 5000);
    }
    std::fs::remove_file(image).unwrap();
}

#[test]
fn a_sparse_file_of_five_gigabytes() {
    let root = tempfile::tempdir().unwrap();
    let file = File::create(root.path().join("sparse")).unwrap();
    file.set_len(5 << 30).unwrap();
    let places = [0u64, 123_456 << 12, (4 << 30) + 8192, (5 << 30) - 1];
    places.iter().for_each(|at| file.write_all_at(b"!", *at).unwrap());
    let image = root.path().with_extension("img");
    mkfs(&["-b", "4096"], root.path(), &image, "8M");
    let source = Image::new(File::open(&image).unwrap(), 512).unwrap();
    let map = open(&source, &OpenOptions::default()).unwrap().file("/sparse").unwrap();
    assert_eq!(map.size(), 5 << 30);
    let offsets: Vec<u64> = map.extents().iter().map(|extent| extent.offset).collect();
    assert_eq!(offsets, places.map(|at| at / 4096 * 4096));
    assert!(map.extents().iter().all(|extent| extent.bytes == 4096));
    for at in places {
        let first = at.saturating_sub(5000);
        let mut bytes = vec![7; (at + 5000).min(5 << 30) as usize - first as usize];
        read_file(&source, &map, first, &mut bytes).unwrap();
        let mut expected = vec![0; bytes.len()];
        expected[(at - first) as usize] = b'!';
        assert!(bytes == expected, "around byte {at}");
    }
    std::fs::remove_file(image).unwrap();
}

#[test]
fn a_file_in_the_gaps_of_others_and_one_that_is_reserved() {
    let root = tempfile::tempdir().unwrap();
    for number in 0..3000 {
        write(root.path().join(format!("small-{number}")), noise(number, 1024)).unwrap();
    }
    let (image, large) = (root.path().with_extension("img"), root.path().with_extension("large"));
    write(&large, noise(7, 2_000_001)).unwrap();
    mkfs(&["-b", "1024", "-m", "0", "-N", "4000", "-O", "^has_journal"], root.path(), &image, "6M");
    let mut commands: String = (0..3000).step_by(2).map(|number| format!("rm small-{number}\n")).collect();
    commands += &format!("write {} large\nfallocate /small-1 1 20\n", large.display());
    commands += "set_inode_field /small-1 size 20000\n";
    let script = root.path().with_extension("cmd");
    write(&script, commands).unwrap();
    tool("debugfs", &["-w", "-f", script.to_str().unwrap(), image.to_str().unwrap()]);
    let source = Memory::load(&image);
    let files = open(&source, &OpenOptions::default()).unwrap();
    assert!(contents(&source, &*files, "/large") == std::fs::read(&large).unwrap());
    let extents = files.file("/large").unwrap().extents().len();
    assert!(extents > 500, "{extents} extents: it is hardly fragmented");
    let mut expected = noise(1, 1024);
    expected.resize(20_000, 0);
    let shown = tool("debugfs", &["-R", "ex /small-1", image.to_str().unwrap()]);
    assert!(shown.contains("Uninit"), "nothing is reserved: {shown}");
    assert!(contents(&source, &*files, "/small-1") == expected, "what is reserved reads as zeroes");
    assert!(files.file("/small-0").is_err());
    for path in [image, large, script] {
        std::fs::remove_file(path).unwrap();
    }
}
