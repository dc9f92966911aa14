//! `gen` makes the same file from the same seed, and takes no other file's place unasked.

use crate::common::{json, ok, refused};

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str| folder.path().join(name).display().to_string();
    for (kind, sizes) in [
        ("vectors", &["--count", "5k"][..]),
        ("embeddings", &["--rows", "100", "--dim", "33", "--lookups", "70"]),
        ("csr", &["--nodes", "300", "--edges", "2k"]),
        ("columns", &["--left", "100", "--right", "200", "--matching", "10"]),
    ] {
        let make = |name: &str, seed: &str| {
            ok(&[&["gen", kind, &file(name), "--force", "--seed", seed], sizes].concat());
            std::fs::read(file(name)).unwrap()
        };
        let one = make("one", "7");
        assert!(one == make("two", "7"), "{kind}: two files of one seed differ");
        assert!(one[4096..] != make("two", "8")[4096..], "{kind}: two seeds give the same file");
    }
}

#[test]
fn the_result_says_where_everything_is() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("v.bin").display().to_string();
    let made = json(&["gen", "vectors", &file, "--count", "1000", "--seed", "3", "-o", "json"]);
    assert_eq!((made["schema"].as_str(), made["kind"].as_str()), (Some("warpbell.gen/1"), Some("vectors")));
    assert_eq!((made["seed"].as_u64(), made["parameters"]["count"].as_u64()), (Some(3), Some(1000)));
    let y = &made["sections"][1];
    assert_eq!(
        (y["name"].as_str(), y["offset"].as_u64(), y["bytes"].as_u64()),
        (Some("y"), Some(8192), Some(4000))
    );
    assert_eq!(made["bytes"].as_u64(), Some(12192));
    assert_eq!(std::fs::metadata(&file).unwrap().len(), 12192);
    let text = ok(&["gen", "vectors", &file, "--count", "1000", "--force"]);
    assert!(text.contains("section y: 4000 bytes from byte 8192 on"), "{text}");
}

#[test]
fn a_file_is_replaced_only_when_asked() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mine");
    std::fs::write(&path, "mine").unwrap();
    let file = path.display().to_string();
    let (code, line) = refused(&["gen", "vectors", &file, "--count", "10"]);
    assert!(code == 2 && line.contains(&file) && line.contains("--force"), "{code} {line}");
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    ok(&["gen", "vectors", &file, "--count", "10", "--force"]);
    assert_ne!(std::fs::read(&path).unwrap(), b"mine");
}

#[test]
fn only_regular_files_are_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("file"), "mine").unwrap();
    std::fs::create_dir(path("folder")).unwrap();
    std::os::unix::fs::symlink(path("file"), path("link")).unwrap();
    std::os::unix::fs::symlink("nowhere", path("dangling")).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
    for name in ["folder", "link", "dangling", "socket"] {
        let before = std::fs::symlink_metadata(path(name)).unwrap().file_type();
        let file = path(name).display().to_string();
        for more in [&[][..], &["--force"]] {
            let (code, line) = refused(&[&["gen", "vectors", &file, "--count", "10"], more].concat());
            assert!(code == 2 && line.contains(&file) && line.contains("no regular file"), "{code} {line}");
        }
        assert_eq!(
            std::fs::symlink_metadata(path(name)).unwrap().file_type(),
            before,
            "{name} is what it was"
        );
    }
    assert_eq!(std::fs::read(path("file")).unwrap(), b"mine");
    assert!(!path("nowhere").exists());
}

#[test]
fn sizes_that_64_bits_do_not_hold_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("kv").display().to_string();
    let sizes =
        ["--sequences", "1m", "--layers", "1k", "--tokens", "64k", "--heads", "1k", "--head-dim", "1k"];
    let (code, line) = refused(&[&["gen", "kv", &file, "--steps", "10"][..], &sizes].concat());
    assert!(code == 2 && line.contains("--sequences 1048576") && line.contains("at most"), "{code} {line}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}

#[test]
fn wrong_sizes_and_places_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("x").display().to_string();
    let (code, line) = refused(&["gen", "embeddings", &file, "--rows", "0"]);
    assert!(code == 2 && line.contains("--rows 0") && line.contains("1 to"), "{code} {line}");
    let (code, line) = refused(&["gen", "vectors", &file, "--count", "1x"]);
    assert!(code == 2 && line.contains("--count '1x'"), "{code} {line}");
    let (code, line) = refused(&["gen", "vectors", "/nowhere/at/all", "--count", "10"]);
    let says = "/nowhere/at/all: No such file or directory (os error 2)";
    assert_eq!((code, line.as_str()), (2, says), "and not the name of a file beside it");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0, "nothing is left behind");
}
