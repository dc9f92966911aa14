//! Files by a manifest. Nothing is mounted here, so the manifest is made of what e2fsprogs says; `scripts/guest files` has
//! those that are captured.
#![expect(clippy::unwrap_used, reason = "a test panics when something is wrong")]

use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::common::{crc32c_bytewise, json, noise, ok, refused, run, soft_file};

/// An image of ext4 with the file `/d/a`, and a manifest of it.
struct Made {
    root: TempDir,
    image: PathBuf,
    contents: Vec<u8>,
}

impl Made {
    fn new() -> Made {
        let root = tempfile::tempdir().unwrap();
        let (tree, image) = (root.path().join("tree"), root.path().join("disk.img"));
        std::fs::create_dir_all(tree.join("d")).unwrap();
        let contents = noise(1, 70_001);
        std::fs::write(tree.join("d/a"), &contents).unwrap();
        let made = Made { root, image, contents };
        let (tree, image) = (tree.display().to_string(), made.image());
        tool("mkfs.ext4", &["-q", "-b", "4096", "-d", &tree, &image, "8M"]);
        made
    }

    fn image(&self) -> String {
        self.image.display().to_string()
    }

    /// The device, with more settings of the soft controller.
    fn device(&self, settings: &str) -> String {
        format!("{}{settings}", soft_file(&self.image))
    }

    /// Writes the manifest, and says where.
    fn manifest(&self) -> String {
        let superblock = tool("dumpe2fs", &["-h", &self.image()]);
        let field = |name: &str| {
            let line = superblock.lines().find_map(|line| line.strip_prefix(name)).unwrap();
            line.trim_start_matches(':').trim().to_owned()
        };
        let number = |name: &str| field(name).parse::<u64>().unwrap();
        let inode = tool("debugfs", &["-R", "stat /d/a", &self.image()]);
        let stat = json(&["files", "stat", &format!("{}#/d/a", self.device("")), "-o", "json"]);
        let path = self.root.path().join("m.json");
        let manifest = json!({
            "schema": "warpbell.files/1",
            "warpbell": "0",
            "device": { "name": "nvme0n1", "serial": "S1", "nsid": 1, "bytes": 8 << 20, "block_size": 512 },
            "partition": null,
            "file_system": {
                "kind": "ext4", "uuid": field("Filesystem UUID"), "label": "", "block_size": 4096,
            },
            "stamp": { "ext4": {
                "mount_count": number("Mount count"),
                "mounted": 0,
                "written": 0,
                "free_blocks": number("Free blocks"),
                "free_inodes": number("Free inodes"),
            } },
            "checksum": "crc32c",
            "files": [{
                "path": "/d/a",
                "size": self.contents.len(),
                "inode": inode.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap(),
                "modified": time(&inode, "mtime: 0x"),
                "changed": time(&inode, "ctime: 0x"),
                "checksum": format!("{:08x}", crc32c_bytewise([self.contents.clone()])),
                "extents": stat["extents"],
            }],
            "links": [{ "path": "/l", "target": "/d" }],
            "refused": [],
        });
        std::fs::write(&path, manifest.to_string()).unwrap();
        path.display().to_string()
    }
}

/// A time of debugfs: seconds, and nanoseconds above two bits of an epoch.
fn time(inode: &str, word: &str) -> Value {
    let digits = inode.split(word).nth(1).unwrap().split_whitespace().next().unwrap();
    let (seconds, extra) = digits.split_once(':').unwrap();
    let number = |text| u64::from_str_radix(text, 16).unwrap();
    json!([number(seconds), number(extra) >> 2])
}

fn tool(program: &str, arguments: &[&str]) -> String {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    let output = output.expect("scripts/setup installs e2fsprogs");
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn a_manifest_leads_to_files() {
    let made = Made::new();
    let (manifest, device) = (made.manifest(), made.device(",serial=S1"));
    let name = |path: &str| format!("{device}#{path}");
    let text = ok(&["files", "check", &manifest, &device]);
    assert_eq!(text, "good: 1 files are where the manifest says, and equal their checksums\n");
    let digest = json(&["digest", &name("/l/a"), "--manifest", &manifest, "-o", "json"]);
    assert_eq!(digest["crc32c"], format!("{:08x}", crc32c_bytewise([made.contents.clone()])));
    assert_eq!(run(&["read", &name("/d/a"), "--manifest", &manifest]).stdout, made.contents);
    let listed = ok(&["files", "ls", &name("/d"), "--manifest", &manifest]);
    assert!(listed.contains("70001  a\n"), "{listed}");
    let (code, line) = refused(&["read", &name("/d/b"), "--manifest", &manifest]);
    assert!(code == 2 && line.ends_with("the manifest has no /d/b"), "{code} {line}");
}

#[test]
fn what_has_changed_is_said() {
    let made = Made::new();
    let (manifest, device) = (made.manifest(), made.device(",serial=S1"));
    let other = format!("{}#/d/a", made.device(",serial=S2"));
    let (code, line) = refused(&["digest", &other, "--manifest", &manifest]);
    assert!(code == 3 && line.contains("serial number S1 → S2"), "{code} {line}");
    // Wrong data, which has no checksum in ext4.
    let stat = json(&["files", "stat", &format!("{device}#/d/a"), "-o", "json"]);
    let at = stat["extents"][0]["at"].as_u64().unwrap();
    let bytes = std::fs::read(&made.image).unwrap();
    let mut damaged = bytes.clone();
    damaged[at as usize] ^= 1;
    std::fs::write(&made.image, &damaged).unwrap();
    let output = run(&["files", "check", &manifest, &device]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.code() == Some(1) && text.starts_with("damaged: /d/a: checksum "), "{text}");
    std::fs::write(&made.image, &bytes).unwrap();
    tool("tune2fs", &["-C", "5", &made.image()]);
    let (code, line) = refused(&["read", &format!("{device}#/d/a"), "--manifest", &manifest]);
    assert!(code == 3 && line.contains("stale (manifest → SSD): mount count 0 → 5; "), "{code} {line}");
    let output = run(&["files", "check", &manifest, &device, "-o", "json"]);
    let checked: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &checked["good"]), (Some(1), &false.into()));
    assert_eq!(checked["changes"], json!(["mount count 0 → 5"]));
}
