//! `list`, `bind --dry-run` and `unbind --dry-run` on captured trees: what they show, and with which code they end.

use std::fs;
use std::os::unix::fs::{FileExt, symlink};
use std::path::Path;

use crate::common::{json, ok, run};

const BDF: &str = "0000:41:00.0";
const FOLDER: &str = "sys/bus/pci/devices/0000:41:00.0";

/// A tree with one unused SSD that the nvme driver owns.
struct Tree(tempfile::TempDir);

impl Tree {
    fn new() -> Tree {
        let tree = Tree(tempfile::tempdir().expect("the tree can be made and read"));
        for (path, text) in [
            ("class", "0x010802"),
            ("vendor", "0x1b36"),
            ("device", "0x0010"),
            ("driver_override", "(null)"),
            ("nvme/nvme0/model", "Vendor B 3.8T   "),
            ("nvme/nvme0/serial", "S64X"),
            ("nvme/nvme0/nvme0n1/nsid", "1"),
        ] {
            tree.write(&format!("{FOLDER}/{path}"), text);
        }
        for (path, text) in [("dev", "259:0"), ("size", "2048"), ("queue/logical_block_size", "4096")] {
            tree.write(&format!("sys/class/block/nvme0n1/{path}"), text);
        }
        tree.link(&format!("{FOLDER}/driver"), "../../drivers/nvme");
        tree.link(&format!("{FOLDER}/iommu_group"), "../../../../kernel/iommu_groups/57");
        tree.write(&format!("sys/kernel/iommu_groups/57/devices/{BDF}"), "");
        tree.write("sys/bus/pci/drivers/vfio-pci/new_id", "");
        tree.write("proc/self/mountinfo", "");
        tree.write("dev/nvme0n1", "");
        fs::File::options()
            .write(true)
            .open(tree.path("dev/nvme0n1"))
            .expect("the tree can be made and read")
            .set_len(1 << 20)
            .expect("the tree can be made and read");
        tree
    }

    fn path(&self, path: &str) -> std::path::PathBuf {
        self.0.path().join(path)
    }

    fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("the tree can be made and read"))
            .expect("the tree can be made and read");
        fs::write(path, format!("{text}\n")).expect("the tree can be made and read");
    }

    fn link(&self, path: &str, target: &str) {
        let path = self.path(path);
        let _ = fs::remove_file(&path);
        symlink(target, path).expect("the tree can be made and read");
    }

    fn root(&self) -> &str {
        self.0.path().to_str().expect("the tree can be made and read")
    }

    /// Runs `warpbell COMMAND DEVICE --dry-run` on the tree: code, standard output, standard error.
    fn dry_run(&self, arguments: &[&str]) -> (i32, String, String) {
        let before = contents(self.0.path());
        let output = run(&[arguments, &["--dry-run", "--root", self.root()]].concat());
        assert_eq!(contents(self.0.path()), before, "a dry run changes nothing");
        let text = |bytes| String::from_utf8(bytes).expect("the tree can be made and read");
        (
            output.status.code().expect("the tree can be made and read"),
            text(output.stdout),
            text(output.stderr),
        )
    }
}

/// Every file below a folder, with its text.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder).expect("the tree can be made and read").flatten() {
        let path = entry.path();
        match entry.file_type().expect("the tree can be made and read") {
            kind if kind.is_dir() => all.extend(contents(&path)),
            kind if kind.is_file() => all
                .push((path.display().to_string(), fs::read(&path).expect("the tree can be made and read"))),
            _ => all.push((path.display().to_string(), Vec::new())),
        }
    }
    all.sort();
    all
}

#[test]
fn a_dry_run_prints_the_exact_writes() {
    let tree = Tree::new();
    for name in [BDF, "41:00.0", "sn:S64X", "/dev/nvme0", "/dev/nvme0n1"] {
        let (code, text, error) = tree.dry_run(&["bind", name]);
        assert_eq!((code, error.as_str()), (0, ""), "{name}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "# bind 0000:41:00.0 (Vendor B 3.8T, S64X)");
        assert_eq!(
            lines[lines.len() - 3..],
            [
                "echo vfio-pci > /sys/bus/pci/devices/0000:41:00.0/driver_override",
                "echo 0000:41:00.0 > /sys/bus/pci/drivers/nvme/unbind",
                "echo 0000:41:00.0 > /sys/bus/pci/drivers_probe",
            ]
        );
    }
}

#[test]
fn a_mounted_device_is_refused_and_the_mount_point_named() {
    let tree = Tree::new();
    tree.write("proc/self/mountinfo", "36 35 259:0 / /srv/data rw - ext4 /dev/nvme0n1 rw");
    let (code, text, error) = tree.dry_run(&["bind", BDF]);
    assert_eq!(code, 3);
    assert!(error.contains("0000:41:00.0") && error.contains("mounted at /srv/data (nvme0n1)"), "{error}");
    assert!(text.contains("# refused: mounted at /srv/data (nvme0n1)"), "{text}");
    let listed = ok(&["list", "--root", tree.root()]);
    assert!(listed.contains("mounted at /srv/data") && listed.contains("no: in use"), "{listed}");
}

#[test]
fn a_signed_device_is_refused_until_it_is_named() {
    let tree = Tree::new();
    let disk = fs::File::options().write(true).open(tree.path("dev/nvme0n1")).unwrap();
    disk.write_all_at(b"LUKS\xba\xbe", 0).unwrap();
    let (code, _, error) = tree.dry_run(&["bind", BDF]);
    assert_eq!(code, 3);
    assert!(error.contains("LUKS volume") && error.contains("--allow-signed=S64X"), "{error}");
    let (code, text, _) = tree.dry_run(&["bind", BDF, "--allow-signed=S64X"]);
    assert_eq!(code, 0);
    assert!(text.contains("# allowed by name: /dev/nvme0n1 carries a LUKS volume"), "{text}");
}

#[test]
fn what_is_missing_ends_with_4_and_a_refusal_goes_before() {
    let tree = Tree::new();
    fs::remove_dir_all(tree.path("sys/bus/pci/drivers/vfio-pci")).unwrap();
    let (code, _, error) = tree.dry_run(&["bind", BDF]);
    assert_eq!(code, 4);
    assert!(error.contains("modprobe vfio-pci"), "{error}");
    fs::remove_file(tree.path(&format!("{FOLDER}/iommu_group"))).unwrap();
    assert!(tree.dry_run(&["bind", BDF]).2.contains("IOMMU group"));
    tree.write("proc/swaps", "Filename Type Size Used Priority\n/dev/nvme0n1 partition 8 0 -2");
    let (code, _, error) = tree.dry_run(&["bind", BDF]);
    assert_eq!(code, 3, "{error}");
    assert!(error.contains("swap"), "{error}");
}

#[test]
fn plans_are_documents_too() {
    let tree = Tree::new();
    let plan = json(&["bind", BDF, "--dry-run", "--persist", "-o", "json", "--root", tree.root()]);
    assert_eq!((&plan["schema"], &plan["dry_run"]), (&"warpbell.bind/1".into(), &true.into()));
    let device = &plan["devices"][0];
    assert_eq!((&device["device"], &device["driver"]), (&BDF.into(), &"nvme".into()));
    let rule = device["steps"].as_array().unwrap().last().unwrap().as_str().unwrap();
    assert!(rule.starts_with("cat > /etc/udev/rules.d/99-warpbell-"), "{rule}");
}

#[test]
fn a_bound_device_is_listed_as_usable_and_released() {
    let tree = Tree::new();
    fs::remove_dir_all(tree.path(&format!("{FOLDER}/nvme"))).unwrap();
    tree.link(&format!("{FOLDER}/driver"), "../../drivers/vfio-pci");
    tree.write(&format!("{FOLDER}/driver_override"), "vfio-pci");
    tree.write("dev/vfio/57", "");
    let note = r#"{"driver":"nvme","driver_override":null,"vendor":6966,"device":16,"model":"Vendor B 3.8T","serial":"S64X","size_bytes":1048576,"block_size_bytes":4096}"#;
    tree.write("run/warpbell/bindings/0000:41:00.0.json", note);
    let listed = &json(&["list", "-o", "json", "--root", tree.root()])["devices"][0];
    for (key, value) in [
        ("device", serde_json::json!(BDF)),
        ("driver", "vfio-pci".into()),
        ("serial", "S64X".into()),
        ("size_bytes", 1_048_576.into()),
        ("usable", true.into()),
    ] {
        assert_eq!(listed[key], value, "{key}");
    }
    let (code, text, _) = tree.dry_run(&["bind", "sn:S64X"]);
    assert_eq!(code, 0);
    assert!(text.contains("# already with vfio-pci") && !text.contains("echo"), "{text}");
    let (code, text, _) = tree.dry_run(&["unbind", "sn:S64X"]);
    assert_eq!(code, 0);
    assert_eq!(
        text.lines().skip(1).collect::<Vec<_>>(),
        [
            "echo > /sys/bus/pci/devices/0000:41:00.0/driver_override",
            "echo 0000:41:00.0 > /sys/bus/pci/drivers/vfio-pci/unbind",
            "echo 0000:41:00.0 > /sys/bus/pci/drivers_probe",
            "rm /run/warpbell/bindings/0000:41:00.0.json",
        ]
    );
    tree.write("proc/9/comm", "warpbell");
    fs::create_dir_all(tree.path("proc/9/fd")).unwrap();
    tree.link("proc/9/fd/7", "/dev/vfio/57");
    let (code, _, error) = tree.dry_run(&["unbind", BDF]);
    assert_eq!(code, 3);
    assert!(error.contains("/dev/vfio/57 is open in process 9 (warpbell)"), "{error}");
}

#[test]
fn unbind_leaves_functions_of_other_classes_alone() {
    for class in ["0x060000", "0x030000", "0x020000"] {
        let tree = Tree::new();
        tree.write(&format!("{FOLDER}/class"), class);
        tree.write(&format!("{FOLDER}/driver_override"), "vfio-pci");
        tree.link(&format!("{FOLDER}/driver"), "../../drivers/vfio-pci");
        let (code, text, error) = tree.dry_run(&["unbind", BDF]);
        assert_eq!(code, 3, "{error}");
        assert!(error.contains(&format!("class {class} is not that of an NVMe controller")), "{error}");
        assert!(!text.contains("echo"), "{text}");
    }
}
