//! A replay submits what was recorded: the same commands, each warp's in its order.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use super::{number, traced};
use crate::common::{json, ok, run};

/// Opcode, first block and blocks.
type Command = (u64, u64, u64);

/// The commands of each warp of the first SSD in the order of their entries, from a trace in the whole form.
fn commands(trace: &Value) -> BTreeMap<u64, Vec<Command>> {
    assert_eq!(trace["schema"], "warpbell.trace/1");
    let mut warps: BTreeMap<u64, Vec<(u64, Command)>> = BTreeMap::new();
    for event in
        trace["ssds"][0]["events"].as_array().unwrap().iter().filter(|event| event["event"] == "submit")
    {
        let command = (number(event, "opcode"), number(event, "lba"), number(event, "blocks"));
        warps.entry(number(event, "warp")).or_default().push((number(event, "index"), command));
    }
    let in_order = |mut commands: Vec<(u64, Command)>| {
        commands.sort_by_key(|(index, _)| *index);
        commands.into_iter().map(|(_, command)| command).collect()
    };
    warps.into_iter().map(|(warp, commands)| (warp, in_order(commands))).collect()
}

fn submit_clocks(trace: &Value) -> Vec<u64> {
    let events = trace["ssds"][0]["events"].as_array().unwrap().iter();
    events.filter(|event| event["event"] == "submit").map(|event| number(event, "clock_ns")).collect()
}

fn replayed(device: &str, recording: &Path, flags: &[&str], file: &Path) -> (Value, Value) {
    let recording = recording.to_str().unwrap();
    let flags = [&["--replay", recording, "--trace-format", "json"], flags].concat();
    traced(&[device], &flags, file)
}

#[test]
fn the_same_commands_come_again_in_each_warps_order() {
    let folder = tempfile::tempdir().unwrap();
    let (first, again) = (folder.path().join("first.json"), folder.path().join("again.json"));
    for (flags, timing) in [
        (&["--sharing", "shared", "--warps", "6", "--queues", "2", "--iodepth", "64"][..], "asap"),
        (&["--queues", "3", "--iodepth", "5", "--api", "raw"][..], "recorded"),
        (&["--bs", "300k", "--iodepth", "8"][..], "asap"),
    ] {
        let shape = ["--rw", "randrw", "--rwmixread", "70", "--io-limit", "3m", "--trace-format", "json"];
        let (recorded, trace) = traced(&["soft:size=16m"], &[&shape, flags].concat(), &first);
        let wanted = commands(&trace);
        let (report, trace) = replayed("soft:size=16m", &first, &["--replay-timing", timing], &again);
        assert_eq!(commands(&trace), wanted, "{flags:?} {timing}");
        let (recorded, run) = (&recorded["runs"][0], &report["runs"][0]);
        assert_eq!((number(run, "errors"), number(&report, "violations")), (0, 0), "{run:#}");
        assert_eq!(number(&run["counters"], "sqes"), number(&recorded["counters"], "sqes"));
        assert_eq!(number(run, "bytes"), number(recorded, "bytes"), "{flags:?}");
        assert_eq!(run["job"]["replay"]["commands"], run["counters"]["sqes"]);
        for key in ["queues", "warps", "sharing", "iodepth"] {
            assert_eq!(run["job"][key], recorded["job"][key], "{key}");
        }
        if timing == "recorded" {
            // From the recording's first command to its last, and from the replay's start to its last.
            let recording: Value = serde_json::from_str(&std::fs::read_to_string(&first).unwrap()).unwrap();
            let submits = submit_clocks(&recording);
            let recorded_ns = submits.iter().max().unwrap() - submits.iter().min().unwrap();
            let start_ns = number(&trace["ssds"][0]["events"][0], "clock_ns");
            assert!(submit_clocks(&trace).iter().max().unwrap() - start_ns >= recorded_ns);
        }
    }
}

#[test]
fn the_form_for_viewers_can_be_replayed_too() {
    let folder = tempfile::tempdir().unwrap();
    let (first, again) = (folder.path().join("first.json"), folder.path().join("again.json"));
    let shape =
        ["--sharing", "shared", "--warps", "3", "--iodepth", "96", "--bs", "512", "--io-limit", "512k"];
    let (_, chrome) = traced(&["soft:size=4m"], &shape, &first);
    let (_, trace) = replayed("soft:size=4m", &first, &[], &again);
    let mut wanted: Vec<Command> = super::phase(&chrome, "b")
        .map(|begin| &begin["args"])
        .map(|args| (number(args, "opcode"), number(args, "lba"), number(args, "blocks")))
        .collect();
    let mut found: Vec<Command> = commands(&trace).into_values().flatten().collect();
    wanted.sort_unstable();
    found.sort_unstable();
    assert_eq!((wanted.len(), wanted == found), (1024, true));
    let text = ok(&["bench", "soft:size=4m", "--replay", first.to_str().unwrap()]);
    assert!(text.contains("commands=1024 timing=asap iodepth=96 queues=1 warps=3 sharing=shared"), "{text}");
}

#[test]
fn a_damaged_recording_warns_and_writes_need_permission() {
    let folder = tempfile::tempdir().unwrap();
    let (first, disk) = (folder.path().join("first.json"), folder.path().join("disk.img"));
    std::fs::write(&disk, vec![7; 4 << 20]).unwrap();
    let shape = ["--rw", "randwrite", "--io-limit", "1m", "--trace-events", "64"];
    traced(&["soft:size=4m"], &shape, &first);
    let device = crate::common::soft_file(&disk);
    let replay = ["bench", &device, "--replay", first.to_str().unwrap(), "-o", "json"];
    let output = run(&replay);
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("events that were overwritten; record with more --trace-events"), "{error}");
    assert!(error.contains("--allow-write"), "{error}");
    let allowed = format!("--allow-write={}", disk.display());
    let report = json(&[&replay[..], &[&allowed]].concat());
    assert!(number(&report["runs"][0]["write"], "ios") > 0, "{report:#}");
}

#[test]
fn trims_of_a_block_trace_deallocate() {
    let folder = tempfile::tempdir().unwrap();
    let (log, disk) = (folder.path().join("fio.log"), folder.path().join("disk.img"));
    // 8 and 512 blocks, more than MDTS (128 KiB) lets a command move; between them what stays, and a write behind a flush.
    let text = "fio version 2 iolog\n/d add\n/d trim 4096 4096\n/d trim 131072 262144\n/d sync 0 0\n\
                /d write 131072 512\n/d read 0 4096\n/d close\n";
    std::fs::write(&log, text).unwrap();
    std::fs::write(&disk, vec![7; 1 << 20]).unwrap();
    let device = crate::common::soft_file(&disk);
    let replay = ["bench", &device, "--replay", log.to_str().unwrap(), "-o", "json"];
    let (code, line) = crate::common::refused(&replay);
    assert!(code == 3 && line.contains("--allow-write"), "trims change contents: {line}");
    let permitted = format!("--allow-write={}", disk.display());
    let report = json(&[&replay[..], &[&permitted]].concat());
    let run = &report["runs"][0];
    assert_eq!((number(run, "errors"), number(&report, "violations")), (0, 0), "{run:#}");
    assert_eq!((number(run, "trims"), number(run, "blocks_trimmed"), number(run, "flushes")), (2, 520, 1));
    assert_eq!(number(&run["ssds"][0], "blocks_deallocated"), 520, "the controller's own count");
    assert_eq!((number(&run["write"], "ios"), number(&run["read"], "ios")), (1, 1), "trims are no I/Os");
    assert_eq!(number(run, "bytes"), 4096 + 512);
    let after = std::fs::read(&disk).unwrap();
    let zero = |range: std::ops::Range<usize>| after[range].iter().all(|byte| *byte == 0);
    let text = ok(&[&replay[..4], &[&permitted]].concat());
    assert!(text.contains("  replay: flushes=1 trims=2 blocks trimmed=520\n"), "{text}");
    assert!(zero(4096..8192) && zero(131_584..393_216), "what was deallocated reads as zero");
    assert!(
        after[..4096].iter().chain(&after[8192..131_072]).chain(&after[393_216..]).all(|byte| *byte == 7)
    );
}

#[test]
fn block_traces_of_others_are_replayed() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("fio.log");
    let text = "fio version 3 iolog\n0 /dev/x add\n0 /dev/x open\n3 /dev/x write 4096 8192\n9 /dev/x sync 0 0\n\
                2000 /dev/x read 100 512\n2005 /dev/y read 0 512\n2010 /dev/x close\n";
    std::fs::write(&log, text).unwrap();
    let log = log.to_str().unwrap();
    let again = folder.path().join("again.json");
    let replay = ["bench", "soft:size=1m", "--replay", log];
    let (code, line) = crate::common::refused(&replay);
    assert!(code == 2 && line.contains("line 7: '/dev/y': before it is '/dev/x'"), "{line}");
    let flags = ["--replay-only", "/dev/x", "--replay-timing", "recorded", "--replay-depth", "4"];
    let (report, trace) = replayed("soft:size=1m", Path::new(log), &flags, &again);
    assert_eq!(commands(&trace)[&0], [(1, 8, 16), (0, 0, 0), (2, 0, 2)]);
    let run = &report["runs"][0];
    assert_eq!((number(&run["job"], "iodepth"), number(run, "flushes"), number(run, "errors")), (4, 1, 0));
    assert_eq!(run["job"]["replay"]["recorded_on"], "/dev/x");
    let clocks = submit_clocks(&trace);
    assert!(clocks[2] - clocks[0] >= 1_900_000, "2 ms behind the first: {clocks:?}");
    // A result of a replay is read back whole.
    let result = folder.path().join("result.json");
    std::fs::write(&result, report.to_string()).unwrap();
    ok(&["report", result.to_str().unwrap()]);

    let csv = folder.path().join("hm.csv");
    std::fs::write(&csv, "128166372003061629,hm,1,Read,3835,512,9\n128166372003061639,hm,1,Read,0,1m,9\n")
        .unwrap();
    let csv = csv.to_str().unwrap();
    let (code, line) = crate::common::refused(&["bench", "soft:size=1m", "--replay", csv]);
    assert!(
        code == 2 && line.ends_with("hm.csv: line 2: size '1m': expected a whole number below 2^64"),
        "{line}"
    );
    std::fs::write(csv, "128166372003061629,hm,1,Read,9999999,512,9\n").unwrap();
    let (code, line) = crate::common::refused(&["bench", "soft:size=1m", "--replay", csv]);
    assert!(code == 2 && line.contains("line 1: a read of 512 bytes at 9999999: leaves"), "{line}");
    let ours = ["bench", "soft:size=1m", "--replay", again.to_str().unwrap(), "--replay-depth", "4"];
    let (code, line) = crate::common::refused(&ours);
    assert!(
        code == 2 && line.contains("--replay-depth 4: ") && line.contains("is a trace of kernels"),
        "{line}"
    );
}
