//! Files brought onto a bare SSD, and an import that is killed at any time.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use rand::{RngExt as _, SeedableRng as _};
use rand_xoshiro::Xoshiro256PlusPlus;
use tempfile::TempDir;
use warpbell_files::catalogue::File;
use warpbell_files::{Catalogue, Image, OpenOptions, read_file};

use crate::common::{json, noise, ok, refused, run, soft_file};

/// A folder with an image of a bare SSD.
struct Bare {
    root: TempDir,
    image: PathBuf,
}

impl Bare {
    fn new(bytes: u64) -> Bare {
        let root = tempfile::tempdir().unwrap();
        let image = root.path().join("disk.img");
        fs::File::create(&image).unwrap().set_len(bytes).unwrap();
        Bare { root, image }
    }

    fn path(&self, inner: &str) -> PathBuf {
        self.root.path().join(inner)
    }

    fn put(&self, inner: &str, data: &[u8]) {
        let path = self.path(inner);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, data).unwrap();
    }

    fn device(&self) -> String {
        soft_file(&self.image)
    }

    fn allow(&self) -> String {
        format!("--allow-write={}", self.image.display())
    }

    /// `warpbell files import` of folder `src` without its name.
    fn import(&self, more: &[&str]) -> serde_json::Value {
        let source = format!("{}/", self.path("src").display());
        let (device, allow) = (self.device(), self.allow());
        json(&[&["files", "import", &source, &device, &allow, "-o", "json"], more].concat())
    }
}

#[test]
fn files_come_in_are_read_and_leave() {
    let bare = Bare::new(64 << 20);
    let (large, device, allow) = (noise(3, 5_000_001), bare.device(), bare.allow());
    for (name, data) in [("a", &b"hello"[..]), ("d/none", b""), ("d/large", &large)] {
        bare.put(&format!("src/{name}"), data);
    }
    let first = bare.import(&["--align", "64k"]);
    assert_eq!(
        (&first["written"], &first["files"], &first["bytes"]),
        (&3.into(), &3.into(), &5_000_006.into())
    );
    let stat = json(&["files", "stat", &format!("{device}#/d/large"), "-o", "json"]);
    assert_eq!((&stat["file_system"], &stat["bytes"]), (&"catalogue".into(), &5_000_001.into()));
    assert_eq!(stat["extents"][0]["at"].as_u64().unwrap() % 65_536, 0);
    assert!(
        ok(&["files", "ls", &format!("{device}#/d")]).lines().next().unwrap().ends_with("5000001  large")
    );
    // Again: all are there. Then one that is as long changes, and one comes.
    let again = bare.import(&[]);
    assert_eq!((&again["same"], &again["generation"]), (&3.into(), &first["generation"]));
    bare.put("src/a", b"HELLO");
    bare.put("src/new", b"x");
    let third = bare.import(&[]);
    assert_eq!((&third["same"], &third["written"]), (&2.into(), &2.into()));
    assert_eq!(json(&["files", "verify", &device, "-o", "json"])["files"], 4);
    // A folder keeps its name, files leave as they came.
    let out = bare.path("out");
    ok(&["files", "export", &format!("{device}#/d"), "--to", out.to_str().unwrap()]);
    assert!(fs::read(out.join("d/large")).unwrap() == large);
    ok(&["files", "export", &format!("{device}#/a"), "--to", out.to_str().unwrap()]);
    assert_eq!(fs::read(out.join("a")).unwrap(), b"HELLO");
    let folder = format!("{device}#/d");
    assert_eq!(refused(&["files", "rm", &folder, &allow]).0, 3);
    let removed = json(&["files", "rm", "-r", &folder, &format!("{device}#/a"), &allow, "-o", "json"]);
    assert_eq!(removed["removed"], 3);
    assert_eq!(ok(&["files", "ls", &device]).split_whitespace().last(), Some("new"));
}

#[test]
fn an_export_overwrites_nothing_but_on_request() {
    let bare = Bare::new(8 << 20);
    bare.put("src/a", b"from the SSD");
    bare.put("src/d/b", &noise(1, 3_000_000));
    bare.import(&[]);
    let (device, to) = (bare.device(), bare.path("out").display().to_string());
    let export = ["files", "export", &device, "--to", &to, "-o", "json"];
    let counts = |document: &serde_json::Value| {
        ["files", "same", "bytes"].map(|name| document[name].as_u64().unwrap())
    };
    assert_eq!(counts(&json(&export)), [2, 0, 3_000_012]);
    let written = |inner: &str| fs::metadata(bare.path(inner)).unwrap().modified().unwrap();
    let before = written("out/d/b");
    assert_eq!(counts(&json(&export)), [0, 2, 0]);
    assert_eq!(written("out/d/b"), before, "it is left as it was");
    // As long, and longer; and a link, a folder: no file of ours.
    let own = |data: &'static [u8]| move |path: &Path| fs::write(path, data).unwrap();
    type Make = Box<dyn Fn(&Path)>;
    let others: [(Make, &str); 4] = [
        (Box::new(own(b"of the host!")), "out/a: it is there with other contents; --force replaces it"),
        (Box::new(own(b"longer than that")), "out/a: it is there with 16 bytes, and would get 12"),
        (
            Box::new(|path| std::os::unix::fs::symlink("/dev/null", path).unwrap()),
            "out/a: it is there, and is no file",
        ),
        (Box::new(|path| fs::create_dir(path).unwrap()), "out/a: it is there, and is no file"),
    ];
    fs::remove_file(bare.path("out/d/b")).unwrap();
    for (make, part) in others {
        let path = bare.path("out/a");
        fs::remove_file(&path).unwrap();
        make(&path);
        let had = fs::symlink_metadata(&path).unwrap();
        let (code, line) = refused(&export);
        assert!(code == 3 && line.contains(part), "{line}");
        let has = fs::symlink_metadata(&path).unwrap();
        assert_eq!((had.len(), had.file_type()), (has.len(), has.file_type()));
        assert!(!bare.path("out/d/b").exists(), "nothing is written where one is refused");
        let forced = run(&[&export[..], &["--force"]].concat());
        assert_eq!(forced.status.success(), !had.is_dir(), "{}", String::from_utf8_lossy(&forced.stderr));
        let names: Vec<_> =
            fs::read_dir(bare.path("out")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.len() <= 2, "no part of a file is left: {names:?}");
        if !had.is_dir() {
            assert_eq!(fs::read(&path).unwrap(), b"from the SSD");
            fs::remove_file(bare.path("out/d/b")).unwrap();
        }
    }
}

#[test]
fn damage_is_named_and_nothing_else_is_overwritten() {
    let bare = Bare::new(8 << 20);
    let (device, allow) = (bare.device(), bare.allow());
    bare.put("src/good", &noise(1, 9000));
    bare.put("src/bad", &noise(2, 9000));
    let source = bare.path("src").display().to_string();
    let (code, line) = refused(&["files", "import", &source, &device]);
    assert!(code == 3 && line.contains("--allow-write"), "{line}");
    let image = || fs::read(&bare.image).unwrap();
    fs::write(&bare.image, [vec![0; 1024 + 56], vec![0x53, 0xef], vec![0; 8 << 20]].concat()).unwrap();
    let before = image();
    let (code, line) = refused(&["files", "import", &source, &device, &allow]);
    assert!(code == 3 && line.contains("ext4: files are brought onto a bare SSD only"), "{line}");
    assert!(image() == before);
    ok(&["files", "import", &source, &device, &allow, "--format"]);
    let (code, line) = refused(&["files", "import", &source, &device, &allow, "--align", "8k"]);
    assert!(code == 2 && line.contains("--align 8192: the device has a catalogue"), "{line}");
    let stat = json(&["files", "stat", &format!("{device}#/src/bad"), "-o", "json"]);
    let mut bytes = image();
    bytes[stat["extents"][0]["at"].as_u64().unwrap() as usize + 5000] ^= 1;
    fs::write(&bare.image, bytes).unwrap();
    let (code, line) = refused(&["files", "verify", &device]);
    assert!(code == 1 && line.contains("1 of 2 files are damaged, src/bad first"), "{line}");
    let out = bare.path("out").display().to_string();
    let (code, line) = refused(&["files", "export", &device, "--to", &out]);
    assert!(code == 1 && line.contains("src/bad is damaged: its 9000 bytes have CRC-32C"), "{line}");
    assert!(fs::read_dir(bare.path("out/src")).unwrap().next().is_none());
}

#[test]
fn sources_that_cannot_come_in_are_named() {
    let bare = Bare::new(8 << 20);
    let (device, allow) = (bare.device(), bare.allow());
    bare.put("src/a", b"x");
    bare.put("other/a", b"y");
    std::os::unix::fs::symlink(bare.path("other"), bare.path("src/link")).unwrap();
    let path = |inner: &str| format!("{}/", bare.path(inner).display());
    let (src, other) = (path("src"), path("other"));
    for (sources, part) in [
        (&["/nowhere"][..], "/nowhere: No such file"),
        (&[&src], "src/link: a symbolic link to a folder is not followed"),
        (&[&other, &other], "name a: two of the sources have a file of this name"),
    ] {
        let (_, line) = refused(&[&["files", "import"], sources, &[&device, &allow]].concat());
        assert!(line.contains(part), "{line}");
    }
    assert!(fs::read(&bare.image).unwrap().iter().all(|byte| *byte == 0));
    bare.put("huge", &noise(1, 9 << 20));
    let huge = bare.path("huge").display().to_string();
    let (code, line) = refused(&["files", "import", &other, &huge, &device, &allow]);
    assert!(
        code == 2 && line.contains("huge has 9437184 bytes") && line.contains("1 files of 2 written"),
        "{line}"
    );
    assert_eq!(json(&["files", "verify", &device, "-o", "json"])["files"], 1);
}

/// Files of the killed import.
const FILES: usize = 10_000;
/// Kills, unless WARPBELL_KILLS says how many.
const KILLS: usize = 20;
/// Files that change after each kill.
const CHANGES: usize = 400;

fn name(number: usize) -> String {
    format!("{:02}/{number}", number % 100)
}

/// A file's contents: they say which file and which version it is, and each version has another length.
fn contents(number: usize, version: u64) -> Vec<u8> {
    let bytes = 16 + (number * 7 + version as usize * 997) % 3000;
    let mut data = [(number as u64).to_le_bytes(), version.to_le_bytes()].concat();
    data.extend((16..bytes).map(|at| (number + version as usize * 31 + at) as u8));
    data
}

/// The generation of the catalogue of `image`, and versions of files that it has. Each is whole, and one that its source had.
fn check(image: &Path, newest: &[u64]) -> (u64, BTreeMap<usize, u64>) {
    let image = Image::new(fs::File::open(image).unwrap(), 512).unwrap();
    let catalogue = Catalogue::open(&image, &OpenOptions::default()).expect("a catalogue opens after a kill");
    let read = |(listed, file): (&str, &File)| {
        let mut data = vec![0; file.size as usize];
        read_file(&image, &file.map().unwrap(), 0, &mut data).unwrap();
        assert_eq!(crc32c::crc32c(&data), file.crc, "{listed}");
        let word = |at: usize| u64::from_le_bytes(data[at..at + 8].try_into().unwrap());
        let (number, version) = (word(0) as usize, word(8));
        assert!(listed == name(number) && version <= newest[number], "{listed}: version {version}");
        assert!(data == contents(number, version), "{listed}");
        (number, version)
    };
    (catalogue.generation(), catalogue.files().map(read).collect())
}

fn start(bare: &Bare) -> Child {
    Command::new(env!("CARGO_BIN_EXE_warpbell"))
        .args(["files", "import", &format!("{}/", bare.path("src").display())])
        .args([&bare.device(), &bare.allow(), "--commit-files", "150"])
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn an_import_that_is_killed_loses_no_file_and_lists_no_half_one() {
    let kills = std::env::var("WARPBELL_KILLS").map_or(KILLS, |text| text.parse().unwrap());
    let mut random = Xoshiro256PlusPlus::seed_from_u64(7);
    let bare = Bare::new(192 << 20);
    let mut newest = vec![0; FILES];
    (0..FILES).for_each(|number| bare.put(&format!("src/{}", name(number)), &contents(number, 0)));
    // The catalogue itself is made undisturbed: a format that is cut is refused, as what is there is not known.
    fs::create_dir(bare.path("none")).unwrap();
    fs::write(bare.path("none/first"), contents(0, 0)).unwrap();
    let (device, allow) = (bare.device(), bare.allow());
    ok(&["files", "import", bare.path("none/first").to_str().unwrap(), &format!("{device}#/00"), &allow]);
    ok(&["files", "rm", &format!("{device}#/00/first"), &allow]);
    let (mut had, mut killed, mut longest) = (BTreeMap::new(), 0, Duration::from_millis(600));
    let (mut generation, mut in_the_middle) = (check(&bare.image, &newest).0, 0);
    while killed < kills {
        let began = Instant::now();
        let mut child = start(&bare);
        std::thread::sleep(longest.mul_f64(random.random_range(0.0..1.0)));
        child.kill().unwrap();
        let status = child.wait().unwrap();
        let (now, has) = check(&bare.image, &newest);
        let is_all = has.len() == FILES && has.iter().all(|(number, version)| newest[*number] == *version);
        if status.success() {
            longest = longest.min(began.elapsed());
        } else {
            killed += 1;
            in_the_middle += usize::from(now > generation && !is_all);
            // It had not come to its first commit, or not to its last: an import takes longer than was thought.
            if now == generation {
                longest = longest.mul_f64(1.5);
            }
        }
        generation = now;
        for (number, version) in &had {
            assert!(has.get(number).is_some_and(|now| now >= version), "{} was lost", name(*number));
        }
        had = has;
        for _ in 0..CHANGES {
            let number = random.random_range(0..FILES);
            newest[number] += 1;
            bare.put(&format!("src/{}", name(number)), &contents(number, newest[number]));
        }
    }
    println!(
        "{in_the_middle} of {kills} kills were in the middle of an import, which took {longest:?} at most"
    );
    assert!(in_the_middle * 4 >= kills, "{in_the_middle} of {kills} kills were in the middle");
    assert!(start(&bare).wait().unwrap().success());
    let (_, has) = check(&bare.image, &newest);
    assert!(has.len() == FILES && has.iter().all(|(number, version)| newest[*number] == *version));
    assert_eq!(bare.import(&[])["same"], FILES);
}
