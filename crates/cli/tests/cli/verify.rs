//! `--verify` finds what was corrupted, says where, and finds nothing else.

use crate::common::{json, run};
use serde_json::Value;

const DEVICE: &str = "soft:size=4m";

/// A plan that corrupts reads of one block.
fn plan(directory: &tempfile::TempDir, text: &str) -> String {
    let path = directory.path().join("corrupt.toml");
    std::fs::write(&path, text).expect("the plan is written");
    path.to_str().expect("the path is UTF-8").to_owned()
}

fn flags<'a>(api: &'a str, rw: &'a str, bs: &'a str) -> Vec<&'a str> {
    vec!["bench", DEVICE, "--rw", rw, "--bs", bs, "--verify", "crc32c", "--runtime", "100ms", "--api", api]
}

#[test]
fn clean_data_passes() {
    for api in ["host", "raw", "io", "agent"] {
        for (rw, bs) in [("randrw", "512"), ("randrw", "16k"), ("write", "4k"), ("randread", "4k")] {
            let report = json(&[&flags(api, rw, bs)[..], &["-o", "json"]].concat());
            assert_eq!(
                (&report["mismatches"], &report["errors"]),
                (&0.into(), &0.into()),
                "{api} {rw} {report:#}"
            );
            assert!(report["runs"][0]["verify"]["blocks"].as_u64().unwrap() > 0, "{api} {rw}");
        }
    }
}

#[test]
fn a_corrupted_block_is_named() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, "[[fault]]\nkind = \"corrupt\"\nopcode = \"read\"\nlba = 77\n");
    for api in ["host", "raw", "io", "agent"] {
        for bs in ["512", "4k"] {
            let output = run(&[&flags(api, "randrw", bs)[..], &["--fault", &plan, "-o", "json"]].concat());
            let error = String::from_utf8(output.stderr).unwrap();
            assert_eq!(output.status.code(), Some(1), "{api} {bs}: {error}");
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            let wrong = &report["runs"][0]["verify"]["examples"][0];
            assert_eq!(
                (wrong["nsid"].as_u64(), wrong["lba"].as_u64()),
                (Some(1), Some(77)),
                "{api} {bs}: {report:#}"
            );
            let digits = |key: &str| wrong[key].as_str().unwrap().to_owned();
            assert!(digits("expected").len() == 8 && digits("expected") != digits("actual"), "{wrong:#}");
            for word in ["namespace 1 LBA 77", &digits("expected"), &digits("actual")] {
                assert!(error.contains(word), "{api}: {word}: {error}");
            }
        }
    }
}

#[test]
fn the_checksum_expected_does_not_depend_on_who_checks() {
    let directory = tempfile::tempdir().unwrap();
    let plan = plan(&directory, "[[fault]]\nkind = \"corrupt\"\nopcode = \"read\"\nlba = 77\n");
    let expected: Vec<String> = ["host", "raw", "io", "agent"]
        .map(|api| {
            let output =
                run(&[&flags(api, "randread", "4k")[..], &["--fault", &plan, "-o", "json"]].concat());
            let report: Value = serde_json::from_slice(&output.stdout).unwrap();
            report["runs"][0]["verify"]["examples"][0]["expected"].as_str().unwrap().to_owned()
        })
        .into();
    assert!(expected.iter().all(|crc| *crc == expected[0]), "{expected:?}");
}

#[test]
fn failed_commands_are_counted_and_named() {
    let directory = tempfile::tempdir().unwrap();
    let text = "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nopcode = \"read\"\nlba = [100, 199]\n";
    let plan = plan(&directory, text);
    for api in ["host", "raw", "io", "agent"] {
        let output = run(&[
            "bench", DEVICE, "--api", api, "--size", "1m", "--bs", "512", "--fault", &plan, "-o", "json",
            "--rw", "read",
        ]);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{api}: {error}");
        let report: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert!(report["errors"].as_u64().unwrap() > 0);
        let failure = &report["runs"][0]["failures"][0];
        assert!((100..200).contains(&failure["lba"].as_u64().unwrap()), "{failure:#}");
        assert!(failure["status"].as_str().unwrap().contains("Unrecovered Read Error"), "{failure:#}");
        assert!(error.contains("I/Os failed") && error.contains("Unrecovered Read Error"), "{error}");
    }
}
