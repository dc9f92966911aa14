//! `bench calibrate`, and `plan --calib` with what it writes.

use serde_json::Value;

use crate::common::{json, ok, refused, run};

#[test]
fn what_was_measured_is_what_plans_take() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("machine.json");
    let file = path.to_str().unwrap();
    let text = ok(&["bench", "calibrate", "--rounds", "3", "--out", file]);
    assert!(text.contains("target cpu; soft:size=256m (a software controller, no SSD)"), "{text}");
    assert!(text.contains("; rings host, data host, doorbells mapped (polled memory), sgl"), "{text}");
    assert!(text.contains("not measured: mtt.entries, mtt.miss_us: "), "{text}");
    let measured: Value = serde_json::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap();
    assert_eq!(measured["schema"], "warpbell.calibration/1");
    for key in ["date", "machine", "target", "device", "path"] {
        assert!(measured[key].as_str().is_some_and(|text| !text.is_empty()), "{key}");
    }
    for name in ["reg.fixed_us", "fence.fence_ns", "queues.latency_us", "stripe.ssd_gb_per_s"] {
        let one = &measured["constants"][name];
        let number = |key: &str| one[key].as_f64().unwrap_or_else(|| panic!("{name}: {one}"));
        assert!(number("p10") <= number("median") && number("median") <= number("p90"), "{one}");
        assert!(number("value") > 0.0 && one["samples"] == 3 && one["how"].is_string(), "{one}");
    }
    assert_eq!(measured["constants"]["reg.fixed_us"]["unit"], "us");

    let answer =
        json(&["plan", "reg", "--calib", file, "--bytes", "4m", "--preset", "gpu-page", "-o", "json"]);
    let constant = |name: &str| measured["constants"][name]["value"].as_f64().unwrap();
    let expected = constant("reg.fixed_us") + 1024.0 * constant("reg.page_us");
    let found = answer["results"]["time_us"]["value"].as_f64().unwrap();
    assert!((found - expected).abs() < 1e-9 * expected, "{found} {expected}");
    assert_eq!(answer["inputs"]["fixed_us"]["from"], "calibrated");
    assert_eq!(answer["inputs"]["bytes"]["from"], "given");
    assert_ne!(answer["results"], json(&["plan", "reg", "--bytes", "4m", "-o", "json"])["results"]);
    let source = answer["confidence"]["measured_on"].as_str().unwrap();
    assert!(source.contains(measured["date"].as_str().unwrap()) && source.contains("target cpu"), "{source}");
    let text = ok(&["plan", "fence", "--calib", file]);
    assert!(text.contains("constants measured: fence_ns, sqe_ns, doorbell_ns\n"), "{text}");
}

#[test]
fn what_fails_is_left_out_with_the_reason() {
    let folder = tempfile::tempdir().unwrap();
    let faults = folder.path().join("faults.toml");
    std::fs::write(
        &faults,
        "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nopcode = \"read\"\n",
    )
    .unwrap();
    let arguments = [
        "bench",
        "calibrate",
        "soft:size=16m",
        "--rounds",
        "3",
        "-o",
        "json",
        "--fault",
        faults.to_str().unwrap(),
    ];
    let measured = json(&arguments);
    for name in ["queues.latency_us", "stripe.ssd_iops", "fence.doorbell_ns"] {
        let reason = measured["not_measured"][name].as_str().unwrap_or_else(|| panic!("{name}: {measured}"));
        assert!(reason.to_lowercase().contains("unrecovered read error"), "{reason}");
        assert!(measured["constants"].get(name).is_none(), "{name}");
    }
    assert!(measured["constants"]["fence.fence_ns"]["value"].as_f64().unwrap() > 0.0);
}

#[test]
fn what_cannot_be_measured_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("none/machine.json");
    for (arguments, code, words) in [
        (&["--rounds", "2"][..], 2, "--rounds 2: must be at least 3"),
        (&["soft:size=16m,time=virtual"], 2, "its time is virtual"),
        (&["resident:"], 2, "resident"),
        (&["soft:size=16m", "soft:size=16m"], 2, "2 devices: this command takes one"),
        (&["--bs", "4k"], 2, "--bs"),
        (&["--target", "gpu"], 2, "--target"),
        (&["--out", nowhere.to_str().unwrap()], 2, "--out "),
    ] {
        let all: Vec<&str> = ["bench", "calibrate"].iter().chain(arguments).copied().collect();
        let (found, line) = refused(&all);
        assert!(found == code && line.contains(words), "{all:?}: {found} {line}");
    }
    let (code, line) = refused(&["bench", "--bs", "4k", "calibrate"]);
    assert!(code == 2 && line.contains("calibrate"), "{line}");
    let out = folder.path().join("machine.json");
    let failed = run(&["bench", "calibrate", "soft:size=16m,time=virtual", "--out", out.to_str().unwrap()]);
    assert!(!failed.status.success() && !out.exists());
}
