//! What a writer does, without crashes.

use warpbell_files::catalogue::{FormatOptions, Writer};
use warpbell_files::{Catalogue, EntryKind, FileSystem, OpenOptions, Source, import, read_file};

use crate::disk::Disk;

pub fn add(writer: &mut Writer<'_>, name: &str, data: &[u8]) {
    let mut file = writer.start(name, data.len() as u64).unwrap();
    data.chunks(1000).for_each(|chunk| file.write(chunk).unwrap());
    file.finish("").unwrap();
}

pub fn contents(source: &dyn Source, catalogue: &Catalogue, name: &str) -> Vec<u8> {
    let map = catalogue.file(name).unwrap();
    let mut bytes = vec![0; map.size() as usize];
    read_file(source, &map, 0, &mut bytes).unwrap();
    bytes
}

fn pattern(seed: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 31 + seed * 17 + at / 256) as u8).collect()
}

#[test]
fn what_is_written_is_read_and_fragments_are_joined() {
    let disk = Disk::new(4 << 20);
    let mut writer = Writer::format(&disk, &FormatOptions::default()).unwrap();
    let sizes = [0, 1, 4096, 5000, 100_000, 1_500_000];
    for (seed, size) in sizes.into_iter().enumerate() {
        add(&mut writer, &format!("d/{seed}"), &pattern(seed, size));
    }
    writer.commit().unwrap();
    // Two holes between files, and one file that needs both.
    let free = writer.free_bytes();
    writer.remove("d/2").unwrap();
    writer.remove("d/4").unwrap();
    assert_eq!(writer.free_bytes(), free, "space of removed files is not free before a commit");
    writer.commit().unwrap();
    let free = writer.free_bytes();
    add(&mut writer, "all", &pattern(9, free as usize));
    assert_eq!(writer.free_bytes(), 0);
    let error = writer.start("more", 1).err().unwrap().to_string();
    assert!(error.contains("more has 1 bytes, and 0 are free"), "{error}");
    writer.commit().unwrap();
    let catalogue = Catalogue::open(&disk, &OpenOptions::default()).unwrap();
    assert_eq!((catalogue.generation(), catalogue.files().len()), (4, 5));
    assert!(catalogue.file("/all").unwrap().extents().len() == 3);
    assert!(contents(&disk, &catalogue, "/all") == pattern(9, free as usize));
    for seed in [0, 1, 3, 5] {
        assert!(contents(&disk, &catalogue, &format!("d/{seed}")) == pattern(seed, sizes[seed]), "{seed}");
    }
}

#[test]
fn files_that_are_not_finished_were_never_there() {
    let disk = Disk::new(4 << 20);
    let mut writer = Writer::format(&disk, &FormatOptions::default()).unwrap();
    let free = writer.free_bytes();
    add(&mut writer, "a", b"first");
    writer.start("b", 10_000).unwrap().write(&[7; 5000]).unwrap();
    let mut short = writer.start("c", 10).unwrap();
    short.write(&[1; 9]).unwrap();
    assert!(short.write(&[1; 2]).unwrap_err().to_string().contains("c has 10 bytes"));
    assert!(short.finish("").unwrap_err().to_string().contains("bytes of a file: 9: c has 10 bytes"));
    assert_eq!(writer.free_bytes(), free - 4096);
    add(&mut writer, "d", &[3; 5000]);
    writer.commit().unwrap();
    let catalogue = Catalogue::open(&disk, &OpenOptions::default()).unwrap();
    let names: Vec<&str> = catalogue.files().map(|(name, _)| name).collect();
    assert_eq!(names, ["a", "d"]);
    assert_eq!(
        (contents(&disk, &catalogue, "a"), contents(&disk, &catalogue, "d")),
        (b"first".to_vec(), vec![3; 5000])
    );
}

#[test]
fn names_are_files_or_folders() {
    let disk = Disk::new(4 << 20);
    let mut writer = Writer::format(&disk, &FormatOptions::default()).unwrap();
    ["a/b/c", "a/b-d", "a/b/e", "f"].iter().for_each(|name| add(&mut writer, name, b"x"));
    let long = "x".repeat(256);
    let (longer, deep) = ("y/".repeat(600) + "y", "y/".repeat(64) + "y");
    for name in ["", "/a", "a/", "a//b", ".", "a/..", "a\0", "a/b", "a/b/c/d", "f/g", &long, &longer, &deep] {
        let error = writer.start(name, 1).err().unwrap().to_string();
        assert!(error.starts_with(&format!("name {name}: ")), "{error}");
    }
    writer.commit().unwrap();
    let catalogue = Catalogue::open(&disk, &OpenOptions::default()).unwrap();
    let names = |path| -> Vec<(String, EntryKind)> {
        catalogue.entries(path).unwrap().into_iter().map(|entry| (entry.name, entry.kind)).collect()
    };
    let (file, folder) = (EntryKind::File, EntryKind::Directory);
    assert_eq!(names("/"), [("a".to_owned(), folder), ("f".to_owned(), file)]);
    assert_eq!(names("/a"), [("b-d".to_owned(), file), ("b".to_owned(), folder)]);
    assert_eq!(names("a/b/"), [("c".to_owned(), file), ("e".to_owned(), file)]);
    assert_eq!(names("/a/b/c"), [("c".to_owned(), file)]);
    assert!(catalogue.file("/a/b").unwrap_err().to_string().contains("it is a folder"));
    assert!(catalogue.file("/g").is_err() && catalogue.entries("/g").is_err());
}

#[test]
fn a_full_catalogue_says_what_to_do() {
    let disk = Disk::new(16 << 20);
    let options = FormatOptions::new().area_bytes(Some(65_536));
    let mut writer = Writer::format(&disk, &options).unwrap();
    let folder = "n".repeat(200);
    let mut count = 0;
    let error = loop {
        let file = writer.start(&format!("{folder}/{count:03}"), 0).unwrap();
        match file.finish("") {
            Ok(()) => count += 1,
            Err(error) => break error.to_string(),
        }
    };
    assert_eq!(count, (65_536 - 64) / (24 + 204));
    assert!(error.contains("there is room for 65472; format the SSD with a larger area"), "{error}");
    writer.commit().unwrap();
    assert_eq!(Catalogue::open(&disk, &OpenOptions::default()).unwrap().files().len(), count);
}

#[test]
fn a_name_that_is_file_and_folder_is_refused_before_anything_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let source = |name: &str| format!("{}/", path(name).display());
    std::fs::create_dir_all(path("p/x")).unwrap();
    std::fs::create_dir(path("q")).unwrap();
    std::fs::write(path("p/x/y"), b"y").unwrap();
    std::fs::write(path("q/x"), b"x").unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let error = import::plan(&[source("p"), source("q")], "", &stop).unwrap_err().to_string();
    assert!(error.contains("name x: x/y is there"), "{error}");
    // The same beside what is in the catalogue already.
    let disk = Disk::new(4 << 20);
    let mut writer = Writer::format(&disk, &FormatOptions::default()).unwrap();
    add(&mut writer, "x", b"x");
    writer.commit().unwrap();
    std::fs::write(path("p/a"), b"a").unwrap();
    let items = import::plan(&[source("p")], "", &stop).unwrap().unwrap();
    let (options, counts) = (import::ImportOptions::default(), import::Counts::default());
    let error = import::import(&mut writer, &items, &options, &counts, &stop).unwrap_err().to_string();
    assert!(error.contains("name x/y: x is there"), "{error}");
    assert_eq!(writer.catalogue().files().len(), 1);
}
