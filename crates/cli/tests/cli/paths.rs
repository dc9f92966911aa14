//! Other ways for doorbells, rings and identifiers to go: what is reported, and that contents are the same.

use crate::common::{json, noise, refused, soft_file};
use serde_json::Value;

fn number(report: &Value, key: &str) -> f64 {
    report[key].as_f64().unwrap_or_else(|| panic!("no number {key} in {report:#}"))
}

fn bench(device: &str, flags: &[&str]) -> Value {
    let base = ["bench", device, "--bs", "512", "--iodepth", "64", "--runtime", "200ms", "-o", "json"];
    let report = json(&[&base[..], flags].concat());
    assert_eq!((report["errors"].as_u64(), report["violations"].as_u64()), (Some(0), Some(0)), "{report:#}");
    assert!(report["ios"].as_u64().is_some_and(|ios| ios > 0), "{report:#}");
    report
}

#[test]
fn shadow_doorbells_change_no_digest_at_any_stride() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("data.bin");
    std::fs::write(&path, noise(11, 1_000_001)).unwrap();
    let plain = json(&["digest", &soft_file(&path), "-o", "json"]);
    for stride in 0..=4 {
        let device = format!("{},dbbuf=on,stride={stride},queues=31", soft_file(&path));
        for dbbuf in ["on", "off"] {
            let digest = json(&["digest", &device, "--dbbuf", dbbuf, "-o", "json"]);
            assert_eq!(digest["crc32c"], plain["crc32c"], "stride {stride}, dbbuf {dbbuf}");
        }
    }
}

#[test]
fn shadow_doorbells_are_counted_apart_from_the_traps_that_they_spare() {
    for flags in
        [&["--api", "io"][..], &["--api", "io", "--sharing", "shared", "--warps", "2"], &["--api", "host"]]
    {
        let with = |dbbuf| bench("soft:size=16m,dbbuf=on", &[flags, &["--dbbuf", dbbuf]].concat());
        let (on, off) = (with("on"), with("off"));
        assert_eq!(on["data_path"]["doorbells"], "shadowed, mapped (polled memory)");
        assert_eq!(off["data_path"]["doorbells"], "mapped (polled memory)");
        let traps = |report| number(report, "sq_doorbells_per_io") + number(report, "cq_doorbells_per_io");
        assert_eq!(number(&off, "shadow_stores_per_io"), 0.0);
        assert!(number(&on, "shadow_stores_per_io") > 0.0, "{on:#}");
        assert!(
            traps(&on) < 0.8 * traps(&off),
            "{flags:?}: {} and {} traps per I/O",
            traps(&on),
            traps(&off)
        );
    }
}

#[test]
fn the_ways_that_a_controller_has_not_are_refused_by_name() {
    let refusal =
        |flags: &[&str]| refused(&[&["bench", "soft:size=1m", "--runtime", "10ms"], flags].concat()).1;
    let text = refusal(&["--dbbuf", "on"]);
    assert!(text.contains("Doorbell Buffer Config (OACS bit 8 is 0)"), "{text}");
    let text = refusal(&["--rings", "cmb"]);
    assert!(text.contains("(CAP.CMBS is 0)") && text.contains("soft:size=1m,cmb=1m"), "{text}");
    let text = refusal(&["--wide-cids"]);
    assert!(text.contains("32-bit command identifiers"), "{text}");
}

#[test]
fn rings_in_controller_memory_are_reported() {
    for api in ["io", "host"] {
        let report = bench("soft:size=16m,cmb=1m", &["--rings", "cmb", "--api", api]);
        assert_eq!(report["data_path"]["rings"], "cmb (SQ), host (CQ)");
    }
}

#[test]
fn everything_at_once_still_verifies() {
    let device = "soft:size=4m,dbbuf=on,cmb=1m,wide_cids=on,wrr=on,order=submission:8,stride=2";
    let flags = ["--rw", "randrw", "--verify", "crc32c", "--rings", "cmb", "--wide-cids", "--dbbuf", "on"];
    let sharing = ["--sharing", "shared", "--warps", "2"];
    let report = bench(device, &[&flags[..], &sharing].concat());
    assert_eq!(report["mismatches"].as_u64(), Some(0));
}
