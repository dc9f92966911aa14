//! Lines as those of MSR Cambridge: Windows' file time in 100 ns, host, disk, type, offset and size in bytes, response time.

use serde_json::Value;

use crate::common::{json, refused};

const LINES: &str = "\
128166372003061629,hm,1,Read,383496192,32768,413\r
128166372003061629,hm,0,Write,3154132992,4096,1141\r
128166372016382155,hm,1,Read,310379520,65536,8542\r
128166372026382245,hm,1,Write,2822144,4096,391\r
128166372036382155,hm,1,Write,67584,512,263\r
";
/// From the first line of disk 1 to the last.
const TOOK_NS: u64 = (128_166_372_036_382_155 - 128_166_372_003_061_629) * 100;

fn run(report: &Value) -> &Value {
    assert_eq!((report["errors"].as_u64(), report["violations"].as_u64()), (Some(0), Some(0)), "{report:#}");
    &report["runs"][0]
}

#[test]
fn lines_of_one_disk_are_submitted_at_their_times() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hm_1.csv");
    std::fs::write(&path, LINES).unwrap();
    let replay = ["--replay", path.to_str().unwrap(), "--replay-only", "hm.1", "-o", "json"];
    let fixed = [&["bench", "soft:size=512m,time=virtual"][..], &replay].concat();
    let asap = json(&fixed);
    let recorded = json(&[&fixed[..], &["--replay-timing", "recorded"]].concat());
    for report in [&asap, &recorded] {
        let run = run(report);
        let of = |way: &str, key: &str| run[way][key].as_u64().unwrap();
        assert_eq!((of("read", "ios"), of("read", "bytes")), (2, 32_768 + 65_536), "{run:#}");
        assert_eq!((of("write", "ios"), of("write", "bytes")), (2, 4096 + 512), "{run:#}");
        assert_eq!(run["job"]["replay"]["recorded_on"], "hm.1");
    }
    let took = |report| run(report)["runtime_ns"].as_u64().unwrap();
    assert!(took(&asap) < TOOK_NS / 10, "{}", took(&asap));
    assert!((TOOK_NS..TOOK_NS + 1_000_000).contains(&took(&recorded)), "{}", took(&recorded));
}

#[test]
fn a_file_of_two_disks_and_lines_of_another_form_are_refused_by_line() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("hm.csv");
    let line = |text: &str, device: &str| {
        std::fs::write(&path, text).unwrap();
        let (code, line) = refused(&["bench", device, "--replay", path.to_str().unwrap()]);
        assert_eq!(code, 2, "{line}");
        line
    };
    let two = line(LINES, "soft:size=512m");
    assert!(two.contains("line 2: 'hm.0': before it is 'hm.1'; choose one by --replay-only"), "{two}");
    let header = "Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime\n";
    let named = line(header, "soft:size=512m");
    assert!(named.contains("line 1: type 'Type': expected Read or Write"), "{named}");
    let short = line("128166372003061629,hm,1,Read,383496192,32768\n", "soft:size=512m");
    assert!(short.contains("line 1: 6 fields: expected 7"), "{short}");
    let small = line("128166372003061629,hm,1,Read,383496192,32768,413\n", "soft:size=1m");
    assert!(small.contains("line 1"), "it lies behind the end: {small}");
}
