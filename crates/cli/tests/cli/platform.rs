//! `check` and `topo`, on this machine and on captured ones.

use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::common::{json, ok, refused, run};

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures").join(name);
    assert!(root.is_dir(), "{}", root.display());
    root.to_str().expect("paths are UTF-8").to_owned()
}

/// A check that ends with this code: its document.
fn check(arguments: &[&str], code: i32) -> Value {
    let output = run(&[&["check", "-o", "json"], arguments].concat());
    assert_eq!(output.status.code(), Some(code), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("the result is JSON")
}

#[test]
fn a_machine_without_gpu_and_ssd_ends_with_4_and_what_works_in_under_a_second() {
    let empty = tempfile::tempdir().unwrap();
    std::fs::create_dir_all(empty.path().join("sys/bus/pci/devices")).unwrap();
    let begin = Instant::now();
    let output = run(&["check", "--root", empty.path().to_str().unwrap()]);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!((output.status.code(), output.stderr.len()), (Some(4), 0), "{text}");
    for subject in [" MISSING IOMMU ", " MISSING vfio-pci ", " MISSING GPU ", " MISSING SSD "] {
        let (_, rest) = text.split_once(subject).unwrap_or_else(|| panic!("{subject}: {text}"));
        let own: Vec<&str> = rest.lines().skip(1).take_while(|line| line.starts_with("         ")).collect();
        assert!(own.iter().any(|line| line.trim_start().starts_with("fix  ")), "{subject}: {text}");
    }
    let (_, works) = text.split_once("What works here:\n").unwrap();
    assert!(works.contains("warpbell bench soft:size=1g"), "{works}");
}

#[test]
fn the_running_machine_is_looked_at_in_under_a_second() {
    let begin = Instant::now();
    let output = run(&["check"]);
    assert!(begin.elapsed() < Duration::from_secs(1), "{:?}", begin.elapsed());
    assert!([Some(0), Some(4)].contains(&output.status.code()), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not looked at: nothing was moved"), "{text}");
}

#[test]
fn the_self_test_moves_data_and_says_what_it_did_not_try() {
    let output = run(&["check", "--self-test", "-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["self_test"], true);
    let findings = document["findings"].as_array().unwrap();
    let line = findings.iter().find(|finding| finding["subject"] == "data through a way").unwrap();
    assert_eq!(line["status"], "ok");
    assert!(line["found"].as_str().unwrap().contains("read back: 0 wrong"), "{line}");
    assert!(line["means"].as_str().unwrap().contains("no GPU and no SSD was tried"), "{line}");
    let (code, error) = refused(&["check", "--self-test", "--root", &fixture("two-socket")]);
    assert_eq!(code, 2);
    assert!(error.contains("--self-test") && error.contains("--root"), "{error}");
}

#[test]
fn two_root_complexes_refuse_the_direct_way_and_say_why() {
    let document = check(&["--root", &fixture("roots-apart")], 0);
    assert_eq!(document["schema"], "warpbell.check/1");
    let memory = document["paths"][0]["memory"].as_array().unwrap();
    let open: Vec<&str> = memory
        .iter()
        .filter(|route| route["open"] == true)
        .map(|route| route["name"].as_str().unwrap())
        .collect();
    assert_eq!(open, ["host memory"]);
    let reason = memory[1]["reason"].as_str().unwrap();
    assert!(reason.contains("root complex pci0000:15, the SSD under pci0000:97"), "{reason}");
    let document = check(&["--root", &fixture("no-remapping")], 4);
    assert_eq!(document["verdict"]["complete"], false);
}

#[test]
fn the_nearest_ssd_is_the_one_on_the_switch_of_the_gpu() {
    let root = fixture("two-socket");
    let document = json(&["topo", "--root", &root, "--gpu", "0", "-o", "json"]);
    assert_eq!(document["schema"], "warpbell.topo/1");
    let nearest = &document["nearest"][0];
    assert_eq!((&nearest["ssd"], &nearest["relation"]), (&"0000:19:00.0".into(), &"PIX".into()));
    assert_eq!(document["nearest"].as_array().unwrap().len(), 1);
    let directory = tempfile::tempdir().unwrap();
    let picture = directory.path().join("tree.svg");
    let text = ok(&["topo", "--root", &root, "-o", "text", "--svg", picture.to_str().unwrap()]);
    assert!(text.contains("GPU 1 (0000:9a:00.0): take 0000:9b:00.0"), "{text}");
    assert!(std::fs::read_to_string(&picture).unwrap().contains("0000:9b:00.0"));
    let (code, line) = refused(&["topo", "--root", &root, "--gpu", "2"]);
    assert_eq!((code, line.as_str()), (2, "--gpu 2: this machine has GPUs 0 to 1"));
    assert_eq!(refused(&["topo", "--root", &fixture("vm-without-iommu"), "--gpu", "0"]).0, 4);
}

#[test]
fn a_captured_machine_is_judged_as_the_machine() {
    let directory = tempfile::tempdir().unwrap();
    let folder = directory.path().join("copy");
    let folder = folder.to_str().unwrap();
    let root = fixture("two-socket");
    let document = json(&["check", "--root", &root, "--capture", folder, "-o", "json"]);
    assert_eq!(
        (&document["schema"], &document["with_serials"]),
        (&"warpbell.capture/1".into(), &false.into())
    );
    assert_eq!(check(&["--root", folder], 0), check(&["--root", &root], 0));
    let (code, line) = refused(&["check", "--capture", folder]);
    assert_eq!(code, 1);
    assert!(line.ends_with("it is not empty"), "{line}");
    let (code, line) = refused(&["check", "--root", "/nonexistent"]);
    assert_eq!(code, 2);
    assert!(line.contains("--capture DIR makes one"), "{line}");
    assert_eq!(refused(&["check", "--with-serials"]).0, 2);
}
