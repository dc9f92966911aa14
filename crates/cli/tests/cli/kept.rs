//! Results that are not lost: what was measured is printed, then the error.

use std::fs::OpenOptions;
use std::io::Write;
use std::process::{Command, Output, Stdio};

use serde_json::Value;

use crate::common::{await_that, cpu_seconds, refusal, run, signal, spawn};

const BENCH: [&str; 4] = ["bench", "soft:size=1m", "--io-limit", "256k"];

/// The only report of a command that failed afterwards, and its line.
fn kept(arguments: &[&str], output: &Output) -> (Value, String) {
    let (code, line) = refusal(arguments, output);
    assert_eq!(code, 1, "{line}");
    (serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {line}")), line)
}

/// Runs it with standard output on a full disk.
fn into_full(arguments: &[&str]) -> Output {
    let full = OpenOptions::new().write(true).open("/dev/full").expect("Linux has it");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.args(arguments).stdin(Stdio::null()).stdout(full).stderr(Stdio::piped());
    command.output().expect("the command starts")
}

/// Runs it behind a shell's limits.
fn limited(limits: &str, arguments: &[&str]) -> Output {
    let script = format!("{limits} && exec \"$0\" \"$@\"");
    let mut shell = Command::new("sh");
    shell.args(["-c", &script, env!("CARGO_BIN_EXE_warpbell")]).args(arguments);
    shell.stdin(Stdio::null()).output().expect("the shell starts")
}

#[test]
fn a_server_that_ends_does_not_take_the_results_of_host_queues_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let socket = folder.path().join("s.sock");
    let mut server = spawn(&["serve", "--size", "1m", "--socket", socket.to_str().expect("a path in UTF-8")]);
    let device = format!("vfio-user:{}", socket.display());
    let arguments = ["bench", device.as_str(), "--api", "host", "-o", "json", "--runtime", "60s"];
    let client = spawn(&arguments);
    await_that(|| cpu_seconds(&client) > 0.3);
    signal(&server, "-TERM");
    let output = client.wait_with_output().expect("the client ends");
    server.wait().expect("the server ends");
    let (report, line) = kept(&arguments, &output);
    assert!(report["ios"].as_u64().unwrap() > 0, "{report:#}");
    assert!(line.contains("I/Os failed") && line.contains("the device is gone"), "{line}");
}

#[test]
fn a_sweep_over_two_ssds_of_which_one_breaks_keeps_what_was_measured_and_ends() {
    let folder = tempfile::tempdir().expect("a folder");
    let plan = folder.path().join("plan.toml");
    std::fs::write(&plan, "[[fault]]\nkind = \"remove\"\nafter = 1000\ncount = 1\n").expect("a plan");
    let device = format!("soft:size=1m,faults={}", plan.display());
    let sweep = ["--api", "host", "--io-limit", "20m", "--axis", "iodepth=1,4", "-o", "json"];
    let arguments = [&["bench", "soft:size=1m", &device], &sweep[..]].concat();
    let (report, line) = kept(&arguments, &run(&arguments));
    let runs = report["runs"].as_array().expect("runs");
    assert!(!runs.is_empty() && runs[0]["ios"].as_u64().unwrap() > 0, "{report:#}");
    assert!(line.contains(&device) && line.contains("the device is gone"), "{line}");
}

#[test]
fn a_trace_that_cannot_be_written_costs_the_trace_alone() {
    let arguments = [&BENCH[..], &["--trace", "/dev/full", "-o", "json"]].concat();
    let (report, line) = kept(&arguments, &run(&arguments));
    assert_eq!(report["ios"], 64, "{report:#}");
    assert!(line.starts_with("--trace /dev/full: No space left on device"), "{line}");
}

#[test]
fn constants_that_cannot_be_kept_are_shown() {
    let arguments =
        ["bench", "calibrate", "soft:size=4m", "--rounds", "3", "--out", "/dev/full", "-o", "json"];
    let output = run(&arguments);
    let text = String::from_utf8_lossy(&output.stderr);
    let line = text.lines().last().unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    assert!(line.starts_with("error: --out /dev/full: No space left on device"), "{text}");
    let shown: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(shown["constants"]["queues.latency_us"]["value"].as_f64().is_some_and(|time| time > 0.0));
}

#[test]
fn results_that_a_full_disk_does_not_take_go_to_stderr() {
    let output = into_full(&[&BENCH[..], &["-o", "json"]].concat());
    let text = String::from_utf8(output.stderr).unwrap();
    let (report, line) = text.rsplit_once("error: ").unwrap();
    let report: Value = serde_json::from_str(report).unwrap();
    assert_eq!((output.status.code(), &report["ios"]), (Some(1), &64.into()));
    assert!(line.starts_with("standard output: No space left on device"), "{line}");
}

#[test]
fn a_full_disk_is_no_success_for_any_output() {
    for arguments in [&["--version"][..], &["--help"], &["help", "bench"], &["list"], &["plan", "queues"]] {
        let (code, line) = refusal(arguments, &into_full(arguments));
        assert_eq!((code, line.starts_with("standard output: No space left")), (1, true), "{line}");
    }
}

#[test]
fn the_system_says_why_the_file_of_a_soft_ssd_takes_no_more() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("disk.img");
    std::fs::File::create(&path).unwrap().set_len(8 << 20).unwrap();
    let (device, permit) =
        (format!("soft:file={}", path.display()), format!("--allow-write={}", path.display()));
    // The shell's limit is 1 or 2 MiB, and no signal comes with it.
    let limits = "trap '' XFSZ && ulimit -f 2048";
    for api in ["io", "host"] {
        let arguments =
            ["bench", &device, "--rw", "write", "--io-limit", "8m", &permit, "--api", api, "-o", "json"];
        let (report, line) = kept(&arguments, &limited(limits, &arguments));
        assert!(report["ios"].as_u64().unwrap() > 0, "{report:#}");
        let why = format!("; {}: File too large (os error 27)", path.display());
        assert!(line.contains("Write Fault") && line.ends_with(&why), "{line}");
    }
}

/// A file with holes on a file system of 1 MiB, which no other process sees.
#[test]
fn a_full_disk_behind_a_soft_ssd_is_told_as_the_system_does() {
    let spaces = ["--user", "--map-root-user", "--mount", "sh", "-c"];
    let folder = tempfile::tempdir().unwrap();
    let mount = format!("mount -t tmpfs -o size=1m none {}", folder.path().display());
    let allowed = Command::new("unshare").args(spaces).arg(&mount).output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: a full disk: no user and mount namespaces here (unshare --user --mount)");
        return;
    }
    let path = folder.path().join("disk.img").display().to_string();
    let script = format!("{mount} && truncate -s 8m {path} && exec \"$0\" \"$@\"");
    let (device, permit) = (format!("soft:file={path}"), format!("--allow-write={path}"));
    for api in ["io", "host"] {
        let arguments =
            ["bench", &device, "--rw", "write", "--io-limit", "8m", &permit, "--api", api, "-o", "json"];
        let mut command = Command::new("unshare");
        command.args(spaces).args([&script, env!("CARGO_BIN_EXE_warpbell")]).args(arguments);
        let (report, line) = kept(&arguments, &command.stdin(Stdio::null()).output().unwrap());
        let ios = report["ios"].as_u64().unwrap();
        assert!((1..=256).contains(&ios), "1 MiB has room for so many blocks of 4 KiB: {report:#}");
        let why = format!("; {path}: No space left on device (os error 28)");
        assert!(line.contains("Write Fault") && line.ends_with(&why), "{line}");
    }
}

#[test]
fn too_few_file_descriptors_are_told_with_the_limit() {
    let arguments = [&BENCH[..], &["--api", "io"]].concat();
    let (code, line) = refusal(&arguments, &limited("ulimit -n 8", &arguments));
    assert_eq!(code, 1, "{line}");
    for word in ["Too many open files", "8 files", "ulimit -n"] {
        assert!(line.contains(word), "{word}: {line}");
    }
}

#[test]
fn a_sweep_of_five_hundred_points_that_is_killed_goes_on_from_its_journal() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("sweep.journal");
    let journal_name = journal.to_str().expect("a path in UTF-8");
    // Sizes that are no blocks and depths that the ring does not have are skipped.
    let sweep = ["bench", "soft:size=1m,entries=64", "--api", "host", "--runtime", "5ms", "-o", "json"];
    let axes = ["--axis", "bs=512,1k,2k,700,3000", "--axis", "iodepth=1..100+1", "--journal", journal_name];
    let arguments = [&sweep[..], &axes].concat();
    let lines = || std::fs::read_to_string(&journal).map_or(0, |text| text.matches('\n').count());
    let mut child = spawn(&arguments);
    await_that(|| lines() > 20);
    child.kill().expect("SIGKILL");
    child.wait().expect("it is gone");
    // As if it had been killed in the middle of a line.
    let before = lines();
    let mut file = OpenOptions::new().append(true).open(&journal).expect("the journal");
    file.write_all(b"{\"runs\":[{\"po").expect("half a line");
    let output = run(&arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success() && told.contains(&format!(": {} runs are kept", before - 1)), "{told}");
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let all = report["runs"].as_array().expect("runs").len();
    assert_eq!((all, report["skipped"].as_array().map(Vec::len)), (189, Some(311)));
    assert_eq!((lines(), &report["partial"]), (190, &false.into()));
    assert_eq!(report["resumed_from"].as_array().map(Vec::len), Some(1));
    // Nothing is left to measure, and nothing of the result changes but who asked.
    let mut again: Value = serde_json::from_slice(&run(&arguments).stdout).expect("JSON");
    again["origin"] = report["origin"].clone();
    assert_eq!(again, report);
    let other = [&sweep[..], &["--iodepth", "3", "--journal", journal_name]].concat();
    let (code, line) = refusal(&other, &run(&other));
    assert!(code == 2 && line.contains("it was made by `bench"), "{line}");
    std::fs::write(&journal, "notes\n").expect("a file");
    let output = run(&arguments);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(2), "{told}");
    assert!(told.contains("it is no journal, warpbell.journal/2"), "{told}");
    assert_eq!(std::fs::read_to_string(&journal).expect("as it was"), "notes\n");
}

/// The points of a result, each of which must be there once.
fn points(report: &Value) -> std::collections::BTreeSet<String> {
    let runs = report["runs"].as_array().expect("runs");
    let whole = runs.iter().filter(|run| run["partial"] == false);
    let points: Vec<String> = whole.map(|run| run["point"].as_str().expect("a name").to_owned()).collect();
    let set: std::collections::BTreeSet<String> = points.iter().cloned().collect();
    assert_eq!(points.len(), set.len(), "each point once");
    set
}

#[test]
fn a_sweep_of_five_hundred_points_that_ctrl_c_ends_is_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let rows = file("rows.csv");
    let sweep = ["bench", "soft:size=1m,entries=64", "--api", "host", "--runtime", "5ms", "-o", "json"];
    let axes = ["--axis", "bs=512,1k,2k,700,3000", "--axis", "iodepth=1..100+1"];
    // The journal tells how far it came, and is not what is resumed.
    let journal = file("journal");
    let child = spawn(&[&sweep[..], &axes, &["--journal", &journal, "--csv", &rows]].concat());
    await_that(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > 20));
    signal(&child, "-INT");
    let output = child.wait_with_output().expect("its end");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let part: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(part["partial"], true);
    let before = points(&part);
    assert!((20..189).contains(&before.len()), "{}", before.len());
    std::fs::write(file("part.json"), &output.stdout).expect("a file");
    let again = run(&[&sweep[..], &axes, &["--resume", &file("part.json")]].concat());
    let told = String::from_utf8_lossy(&again.stderr).into_owned();
    assert!(again.status.success(), "{told}");
    let (kept, left) = (before.len(), 189 - before.len());
    let said = format!("--resume {}: keeps {kept} of 189 runs, {left} are left", file("part.json"));
    assert!(told.lines().any(|line| line == said), "{said}: {told}");
    let whole: Value = serde_json::from_slice(&again.stdout).expect("JSON");
    let all = points(&whole);
    assert_eq!((all.len(), whole["skipped"].as_array().map(Vec::len)), (189, Some(311)));
    assert!(all.is_superset(&before));
    assert_eq!((&whole["skipped"], &whole["partial"]), (&part["skipped"], &false.into()));
    let kept = |report: &Value, point: &str| {
        let mut runs = report["runs"].as_array().expect("runs").iter();
        runs.find(|run| run["point"] == point).expect("the point").clone()
    };
    for point in &before {
        assert_eq!(kept(&part, point), kept(&whole, point), "it was not measured again");
    }
}

#[test]
fn a_journal_has_one_writer() {
    let folder = tempfile::tempdir().expect("a folder");
    let journal = folder.path().join("journal").display().to_string();
    let sweep = ["bench", "soft:size=1m", "--api", "host", "--axis", "iodepth=1,2", "-o", "json"];
    let of = |time: &'static str| [&sweep[..], &["--runtime", time, "--journal", &journal]].concat();
    let mut first = spawn(&of("60s"));
    await_that(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.contains('\n')));
    let (code, line) = refusal(&of("60s"), &run(&of("60s")));
    assert_eq!((code, line.as_str()), (2, &*format!("--journal {journal}: another command writes to it")));
    first.kill().expect("SIGKILL");
    first.wait().expect("it is gone");
    assert_eq!(std::fs::read_to_string(&journal).expect("the journal").lines().count(), 1);
}

#[test]
fn results_under_another_plan_of_faults_are_not_resumed() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str| folder.path().join(name).display().to_string();
    let delay = |by: &str| format!("[[fault]]\nkind = \"delay\"\nby = \"{by}\"\n");
    std::fs::write(file("plan.toml"), delay("1ms")).expect("a plan");
    let named = format!("soft:size=1m,faults={}", file("plan.toml"));
    let (plan, kept) = (file("plan.toml"), file("r.json"));
    let ways = [vec![named.as_str()], vec!["soft:size=1m", "--fault", &plan]];
    for way in ways {
        std::fs::write(&plan, delay("1ms")).expect("a plan");
        let bench = ["--api", "host", "--axis", "iodepth=1,2", "--io-limit", "64k", "-o", "json"];
        let sweep = [&["bench"], &way[..], &bench].concat();
        let output = run(&sweep);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        std::fs::write(&kept, &output.stdout).expect("a file");
        let resumed = [&sweep[..], &["--resume", &kept]].concat();
        assert!(run(&resumed).status.success(), "the same plan");
        std::fs::write(&plan, delay("1us")).expect("a plan");
        let (code, line) = refusal(&resumed, &run(&resumed));
        let told =
            line.contains("it was made with the content of ") && line.matches("plan.toml (").count() == 2;
        assert!(code == 2 && told, "{line}");
    }
}
