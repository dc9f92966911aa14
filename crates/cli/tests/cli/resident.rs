//! `bench` against the GPU-resident controller.

use crate::common::{json, ok, refused};

#[test]
fn a_run_reports_commands_and_no_violations() {
    let arguments = ["bench", "resident:check=all,batch=8", "--io-limit", "1m", "--bs", "512", "-o", "json"];
    for flags in [
        &["--queues", "3"][..],
        &["--sharing", "shared", "--warps", "3", "--api", "raw"],
        &["--axis", "iodepth=1,64"],
    ] {
        let report = json(&[&arguments, flags].concat());
        assert_eq!((report["errors"].as_u64(), report["violations"].as_u64()), (Some(0), Some(0)));
        assert_eq!((&report["device"]["kind"], &report["target"]), (&"gpu-resident".into(), &"cpu".into()));
        for run in report["runs"].as_array().expect("a report has runs") {
            assert_eq!((run["ios"].as_u64(), run["resident"]["commands"].as_u64()), (Some(2048), Some(2048)));
            assert!(run["resident"]["multiprocessors"].is_null(), "the CPU has none: {run:#}");
        }
    }
}

#[test]
fn the_text_says_that_it_is_no_hardware_figure() {
    let text = ok(&["bench", "resident:delay=20us,wait=each", "--io-limit", "64k"]);
    assert!(text.contains("GPU-resident controller and kernels on the CPU; not a hardware figure"), "{text}");
    assert!(text.contains("resident: wait=each batch=32 delay=20000ns"), "{text}");
}

#[test]
fn what_it_has_not_is_refused_by_name() {
    for (arguments, reason) in [
        (&["bench", "resident:size=1g"][..], "resident:size=1g: expected some of delay=TIME"),
        (&["bench", "resident:", "--verify", "crc32c"], "--verify crc32c: the GPU-resident controller"),
        (&["bench", "resident:", "--rw", "write"], "--rw write: the GPU-resident controller moves no data"),
        (&["bench", "resident:", "--dbbuf", "on"], "--dbbuf: the GPU-resident controller"),
        (&["bench", "resident:", "soft:size=1m"], "resident: is measured alone"),
        (&["digest", "resident:"], "lives in a launch of `warpbell bench`"),
    ] {
        let (code, line) = refused(arguments);
        assert!(code == 2 && line.contains(reason), "{code}: {line}");
    }
}
