//! `check` and `topo`, on this machine and on captured ones.

use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use crate::common::{json, ok, refused, run, run_timed};

fn fixture(name: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../../tests/fixtures/{name}.json"));
    assert!(root.is_file(), "{}", root.display());
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
    let (output, took) = run_timed(&["check", "--root", empty.path().to_str().unwrap()]);
    assert!(took < Duration::from_secs(1), "{took:?}");
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
    let (output, took) = run_timed(&["check"]);
    assert!(took < Duration::from_secs(1), "{took:?}");
    assert!([Some(0), Some(4)].contains(&output.status.code()), "{:?}", output.status);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("not looked at: nothing was moved"), "{text}");
}

/// The line of a report about this subject: its status, and what was found.
fn line<'a>(document: &'a Value, subject: &str) -> (&'a str, &'a str) {
    let mut findings = document["findings"].as_array().expect("findings").iter();
    let line = findings
        .find(|finding| finding["subject"] == subject)
        .unwrap_or_else(|| panic!("{subject}: {document}"));
    (line["status"].as_str().expect("a word"), line["found"].as_str().expect("words"))
}

#[test]
fn the_self_test_moves_data_and_says_what_it_did_not_try() {
    let output = run(&["check", "--self-test", "--target", "cpu", "-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["self_test"], true);
    let (status, found) = line(&document, "data through a way");
    assert!(status == "ok" && found.contains("read back: 0 wrong"), "{status}: {found}");
    for (subject, why) in [("data through a GPU", "cpu is no GPU"), ("data through an SSD", "SSD")] {
        let (status, found) = line(&document, subject);
        assert!(status == "not_tested" && found.contains(why), "{subject}: {status}: {found}");
    }
    let text = String::from_utf8(run(&["check", "--self-test", "--target", "cpu"]).stdout).unwrap();
    assert!(text.contains(" -       data through a GPU    not tested: "), "{text}");
    let (code, error) = refused(&["check", "--self-test", "--root", &fixture("two-socket")]);
    assert_eq!(code, 2);
    assert!(error.contains("--self-test") && error.contains("--root"), "{error}");
}

#[test]
fn the_self_test_writes_to_an_ssd_only_where_its_owner_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk");
    std::fs::write(&path, vec![7; 16 << 20]).unwrap();
    let (device, allow) =
        (format!("soft:file={}", path.display()), format!("--allow-write={}", path.display()));
    let on = ["check", "--self-test", "--device", &device];
    assert_eq!(refused(&[&on[..], &["--offset", "4m"]].concat()).0, 3);
    let (code, error) = refused(&[&on[..], &[&allow]].concat());
    assert!(code == 2 && error.contains("--offset"), "{code}: {error}");
    let (code, error) = refused(&["check", "--device", &device, "--offset", "4m", &allow]);
    assert!(code == 2 && error.contains("--self-test"), "{code}: {error}");
    run(&["check", "--device", &device]);
    assert!(std::fs::read(&path).unwrap().iter().all(|byte| *byte == 7), "nothing was written so far");

    let output = run(&[&on[..], &["--offset", "4m", &allow, "-o", "json"]].concat());
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (status, found) = line(&document, "data through an SSD");
    assert!(status == "ok" && found.contains("4 MiB") && found.contains(&device), "{status}: {found}");
    let way = "; data: host; rings: host; doorbells: mapped (polled memory); order: one memory";
    assert!(found.ends_with(way), "{found}");
    let tests = document["tests"].as_array().unwrap();
    let test = tests.iter().find(|test| test["subject"] == "data through an SSD").unwrap();
    assert_eq!((&test["status"], &test["moved"]["device"]), (&"ok".into(), &device.as_str().into()));
    assert_eq!(test["moved"]["data_path"]["ordering"], "one memory", "{test}");
    let means = |line: &&Value| line["subject"] == "data through an SSD";
    let line = document["findings"].as_array().unwrap().iter().find(means).unwrap();
    assert!(line["means"].as_str().unwrap().contains("the soft controller in the place of an SSD"), "{line}");
    let bytes = std::fs::read(&path).unwrap();
    let (range, rest) = (4 << 20..8 << 20, [&bytes[..4 << 20], &bytes[8 << 20..]].concat());
    assert!(rest.iter().all(|byte| *byte == 7), "what was not named is as it was");
    assert!(bytes[range].chunks(4096).all(|block| block.iter().any(|byte| *byte != 7)));
}

#[test]
fn an_ssd_that_is_opened_says_what_it_offers() {
    let said = |device: &str| -> Value {
        let output = run(&["check", "--device", device, "-o", "json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    };
    let of = |device: &str, what: &str| {
        let document = said(device);
        let (status, found) = line(&document, &format!("{device} {what}"));
        (status.to_owned(), found.to_owned())
    };
    let plain = "soft:size=8m";
    assert_eq!(of(plain, "queues").0, "ok");
    assert!(of(plain, "transfers").1.contains("SGLs and PRP lists"));
    assert!(of("soft:size=8m,sgl=off", "transfers").1.contains("by PRP lists"));
    assert!(of(plain, "commands").1.contains("Compare, Write Zeroes"));
    let few = of("soft:size=8m,queues=2", "queues");
    assert!(few.0 == "warn" && few.1.starts_with("2 I/O queue pairs"), "{few:?}");
    let absent = "ff00:41:00.0";
    let output = run(&["check", "--device", absent, "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (status, found) = line(&document, &format!("SSD {absent}"));
    assert!(status == "not_looked_at" && found.contains("no such PCI function"), "{status}: {found}");
}

#[test]
fn an_ssd_that_was_named_and_cannot_be_tested_is_no_success() {
    let device = "ff00:41:00.0";
    let allow = format!("--allow-write={device}");
    let output = run(&["check", "--self-test", "--device", device, "--offset", "1m", &allow, "-o", "json"]);
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let (status, found) = line(&document, "data through an SSD");
    assert!(status == "not_tested" && found.contains("no such PCI function"), "{status}: {found}");
    assert_eq!(document["self_test"], false);
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.code() == Some(1) && error.contains("was not tested: "), "{error}");
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
    let file = directory.path().join("copy");
    let file = file.to_str().unwrap();
    let root = fixture("two-socket");
    let document = json(&["check", "--root", &root, "--capture", file, "-o", "json"]);
    assert_eq!(
        (&document["schema"], &document["with_serials"]),
        (&"warpbell.capture/2".into(), &false.into())
    );
    assert_eq!(check(&["--root", file], 0), check(&["--root", &root], 0));
    let (code, line) = refused(&["check", "--capture", file]);
    assert_eq!(code, 2);
    assert!(line.starts_with("--capture ") && line.contains(": it exists, and is not overwritten"), "{line}");
    std::fs::write(file, "{}").unwrap();
    let (code, line) = refused(&["topo", "--root", file]);
    assert_eq!(code, 2);
    assert!(line.contains("no captured machine") && line.contains("missing field"), "{line}");
    let (code, line) = refused(&["check", "--root", "/nonexistent"]);
    assert_eq!(code, 2);
    assert!(line.contains("No such file") && line.contains("--capture FILE makes one"), "{line}");
    assert_eq!(refused(&["check", "--with-serials"]).0, 2);
}

#[test]
fn check_says_where_kernels_for_a_gpu_come_from() {
    let output = run(&["check", "-o", "json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let findings = report["findings"].as_array().unwrap();
    let line =
        findings.iter().find(|line| line["subject"] == "kernels for a GPU").expect("the line is there");
    let found = line["found"].as_str().unwrap();
    assert!(found.contains("in this program") && found.contains("NVRTC"), "{found}");
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_warpbell"));
    let output = command.arg("check").env("WARPBELL_NVRTC", "none").output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("no NVRTC"), "{text}");
}
