//! Several devices in one command, and how their host queues wait.

use serde_json::Value;

use crate::common::{json, ok, refused, soft_file};

const FOUR: [&str; 4] = ["soft:size=1m", "soft:size=1m", "soft:size=1m,sgl=off", "soft:size=2m,block=4096"];

#[test]
fn each_device_has_a_report_and_the_sums_add_up() {
    for api in ["host", "io"] {
        let [one, two, three, four] = FOUR;
        let flags = ["--runtime", "100ms", "--api", api, "--axis", "iodepth=1,8", "-o", "json"];
        let report = json(&[&["bench", one, two, "--device", three, "-d", four][..], &flags[..]].concat());
        assert_eq!(report["schema"], "warpbell.bench-group/1");
        let devices = report["devices"].as_array().unwrap();
        assert_eq!(devices.len(), 4);
        let ios = |value: &Value| value["ios"].as_u64().unwrap();
        for point in 0..2 {
            assert!(devices.iter().all(|device| ios(&device["runs"][point]) > 0));
            let sum: u64 = devices.iter().map(|device| ios(&device["runs"][point])).sum();
            assert_eq!(ios(&report["runs"][point]), sum);
        }
        assert_eq!((&report["violations"], &report["runs"][0]["errors"]), (&0.into(), &0.into()));
    }
}

#[test]
fn several_devices_verify_at_once_and_say_so_in_text() {
    let [one, two, three, four] = FOUR;
    let flags = ["--rw", "randrw", "--verify", "crc32c", "--io-limit", "256k", "--queues", "2"];
    let text = ok(&[&["bench", one, two, three, four][..], &flags[..]].concat());
    assert_eq!(text.matches("verify: ").count(), 4, "{text}");
    assert!(
        text.contains("all 4 devices together:\nrandrw: bs=4.00k")
            || text.contains("all 4 devices together:\nrandrw: bs=4"),
        "{text}"
    );
}

#[test]
fn each_of_several_files_needs_its_own_permission() {
    let directory = tempfile::tempdir().unwrap();
    let files = ["a.img", "b.img"].map(|name| directory.path().join(name));
    for file in &files {
        std::fs::write(file, vec![0; 1 << 20]).unwrap();
    }
    let devices = files.each_ref().map(|file| soft_file(file));
    let allow = files.each_ref().map(|file| format!("--allow-write={}", file.display()));
    let write = ["--rw", "write", "--io-limit", "64k"];
    let (code, text) = refused(&[&["bench", &devices[0], &devices[1], &allow[0]][..], &write[..]].concat());
    assert!(code == 3 && text.contains("b.img is not permitted"), "{text}");
    assert!(files.iter().all(|file| std::fs::read(file).unwrap().iter().all(|byte| *byte == 0)));
    ok(&[&["bench", &devices[0], &devices[1], &allow[0], &allow[1]][..], &write[..]].concat());
}

#[test]
fn host_queues_sleep_for_interrupts_if_asked_to() {
    let flags = ["--api", "host", "--completion", "interrupt", "--queues", "2", "--verify", "crc32c"];
    let report =
        json(&[&["bench", "soft:size=1m", "--runtime", "200ms", "-o", "json"][..], &flags[..]].concat());
    assert_eq!(report["runs"][0]["job"]["completion"], "interrupt");
    assert!(report["ios"].as_u64().unwrap() > 0 && report["violations"] == 0 && report["mismatches"] == 0);
    assert_eq!(report["data_path"]["ordering"], "one memory");
    let (code, text) = refused(&["bench", "soft:size=1m", "--completion", "interrupt"]);
    assert!(code == 2 && text.contains("kernels poll"), "{text}");
    let (code, text) = refused(&["bench", "soft:size=1m", "--data", "cmb"]);
    assert!(code == 2 && text.contains("--data: 'cmb': data cannot lie"), "{text}");
    let (code, text) = refused(&["bench", "soft:size=1m", "--rings", "bar:ffff:ff:1f.7/0"]);
    assert!(code == 1 && text.contains("ffff:ff:1f.7"), "{text}");
}
