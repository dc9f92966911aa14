//! What cannot be traced or replayed is refused by name.

use super::traced;
use crate::common::refused;

#[test]
fn a_smaller_ssd_is_refused_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let flags = ["--rw", "read", "--bs", "512", "--offset", "1m", "--size", "64k"];
    traced(&["soft:size=2m"], &flags, &file);
    let replay = |device: &str, more: &[&str]| {
        refused(&[&["bench", device, "--replay", file.to_str().unwrap()], more].concat())
    };
    let (code, line) = replay("soft:size=1m", &[]);
    assert_eq!(code, 2);
    for words in
        ["--replay", "at LBA 2048 leaves namespace 1 of 2048 blocks", "at least as large as soft:size=2m"]
    {
        assert!(line.contains(words), "{words}: {line}");
    }
    let (code, line) = replay("soft:size=2m,block=4096", &[]);
    assert_eq!(
        (code, line.contains("blocks of 512 bytes, namespace 1 has blocks of 4096")),
        (2, true),
        "{line}"
    );
    let (code, line) = replay("soft:size=2m", &["soft:size=2m"]);
    assert_eq!((code, line.contains("a trace of 1 SSDs, and 2 were named")), (2, true), "{line}");
    let (code, line) = replay("soft:size=2m", &["--iodepth", "4"]);
    assert_eq!((code, line.contains("--iodepth")), (2, true), "{line}");
    // A trace is not replaced while it is replayed.
    let (code, line) = replay("soft:size=2m", &["--trace", file.to_str().unwrap()]);
    assert_eq!((code, line.contains("this is the file of --replay")), (3, true), "{line}");
    assert!(std::fs::metadata(&file).unwrap().len() > 1000);
    let (code, line) = replay("resident:", &[]);
    assert_eq!((code, line.contains("--replay")), (2, true), "{line}");
}

#[test]
fn what_has_no_trace_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("t.json");
    let name = file.to_str().unwrap();
    for (flags, words) in [
        (&["--api", "host"][..], "--api host: kernels write traces; use --api io or raw"),
        (&["--axis", "iodepth=1,2"][..], "a trace is of one run, and --axis makes 2"),
        (&["--trace-events", "0"][..], "--trace-events 0: must be at least 1"),
        (&["--trace-events", "4294967295"][..], "of memory, the limit is"),
        (&["--replay-timing", "recorded"][..], "--replay"),
    ] {
        let (code, line) = refused(&[&["bench", "soft:size=1m", "--trace", name], flags].concat());
        assert_eq!((code, line.contains(words)), (2, true), "{line}");
    }
    let nowhere = folder.path().join("none/t.json");
    let (code, line) = refused(&["bench", "soft:size=1m", "--trace", nowhere.to_str().unwrap()]);
    assert_eq!((code, line.contains("none/t.json: No such file")), (2, true), "{line}");
}
