//! What `bench` keeps of a measurement: histograms, time series, repeats, rows, fio's form, and what a resumed sweep keeps.

use std::process::Command;

use crate::common::{await_that, cpu_seconds, json, ok, refused, run, spawn};
use serde_json::Value;
use tempfile::TempDir;
use warpbell_workload::{LatencyHistogram, fio};

/// An SSD in virtual time: the same figures whatever the machine does meanwhile.
const SSD: &str = "soft:size=64m,profile=optane,time=virtual";

/// A short measurement of it.
fn bench(flags: &[&str]) -> Vec<String> {
    let fixed = ["bench", SSD, "--api", "host"];
    fixed.iter().chain(flags).map(|word| (*word).to_owned()).collect()
}

fn words(line: &[String]) -> Vec<&str> {
    line.iter().map(String::as_str).collect()
}

fn measured(flags: &[&str]) -> Value {
    json(&words(&bench(&[flags, &["-o", "json"]].concat())))
}

fn runs(report: &Value) -> &Vec<Value> {
    report["runs"].as_array().unwrap_or_else(|| panic!("no runs in {report:#}"))
}

fn sum(list: &Value) -> u64 {
    list.as_array().expect("a list").iter().map(|each| each.as_u64().expect("a count")).sum()
}

#[test]
fn a_run_has_its_whole_histograms_and_its_counts_over_time() {
    for api in ["host", "io", "agent"] {
        let flags = ["bench", SSD, "--api", api, "--rw", "randrw", "--runtime", "20ms", "--interval", "2ms"];
        let report = json(&[&flags[..], &["-o", "json"]].concat());
        let run = &runs(&report)[0];
        for direction in ["read", "write"] {
            let text = run[format!("{direction}_histogram")].as_str().expect("a histogram");
            let histogram = LatencyHistogram::decoded(text).expect("HdrHistogram's form");
            assert_eq!(histogram.count(), run[direction]["ios"], "{api} {direction}");
            let summary = serde_json::to_value(histogram.summary()).unwrap();
            for percentile in ["min", "p50", "p99", "p99_99", "max"] {
                assert_eq!(
                    summary[percentile],
                    run[format!("{direction}_lat_ns")][percentile],
                    "{percentile}"
                );
            }
        }
        let series = &run["series"];
        let ends: Vec<u64> = serde_json::from_value(series["end_ns"].clone()).unwrap();
        assert!((8..=12).contains(&ends.len()) && ends.is_sorted(), "{api}: {series:#}");
        assert_eq!(
            (series["interval_ns"].as_u64(), sum(&series["ios"])),
            (Some(2_000_000), run["ios"].as_u64().unwrap())
        );
        assert_eq!(sum(&series["bytes"]), run["bytes"].as_u64().unwrap(), "{api}");
        assert!(
            ends.last().unwrap().abs_diff(run["runtime_ns"].as_u64().unwrap()) < 1_000_000,
            "{api}: {run:#}"
        );
    }
}

#[test]
fn a_run_in_real_time_has_them_too() {
    let flags = ["bench", "soft:size=1m", "--api", "host", "--runtime", "100ms", "-o", "json"];
    let report = json(&flags);
    let (run, series) = (&runs(&report)[0], &runs(&report)[0]["series"]);
    assert_eq!(
        (series["interval_ns"].as_u64(), sum(&series["ios"])),
        (Some(10_000_000), run["ios"].as_u64().unwrap())
    );
    assert!(series["ios"].as_array().unwrap().len() > 3, "{series:#}");
    let array = ["bench", SSD, "--api", "array", "--sharing", "shared", "--io-limit", "64k", "-o", "json"];
    let report = json(&array);
    assert!(runs(&report)[0]["series_missing"].as_str().unwrap().contains("words of an array"), "{report:#}");
}

#[test]
fn a_result_says_how_and_where_it_was_made() {
    let report = measured(&["--io-limit", "64k"]);
    let origin = &report["origin"];
    let command: Vec<String> = serde_json::from_value(origin["command"].clone()).unwrap();
    assert_eq!(command[1..], [bench(&["--io-limit", "64k"]), vec!["-o".into(), "json".into()]].concat());
    assert!(origin["machine"]["cores"].as_u64() > Some(0) && origin["machine"]["kernel"].is_string());
    assert!(origin["began"].as_str().unwrap().ends_with('Z') && origin.get("commit").is_some(), "{origin:#}");
    assert!(report.get("points").is_none(), "one run of each point has no median");
}

#[test]
fn repeats_give_medians_and_rows() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv").display().to_string();
    let report = measured(&[
        "--axis",
        "iodepth=1,4",
        "--io-limit",
        "256k",
        "--repeat",
        "6",
        "--csv",
        &rows,
        "--rw",
        "randrw",
    ]);
    let places: Vec<(&str, u64)> = runs(&report)
        .iter()
        .map(|run| (run["point"].as_str().unwrap(), run["repeat"].as_u64().unwrap()))
        .collect();
    let expected =
        ["iodepth=1", "iodepth=4"].into_iter().flat_map(|point| (0..6).map(move |repeat| (point, repeat)));
    assert_eq!(places, expected.collect::<Vec<_>>(), "point by point");
    let rates = |point: usize| -> Vec<f64> {
        let mut rates: Vec<f64> =
            runs(&report)[point * 6..][..6].iter().map(|run| run["iops"].as_f64().unwrap()).collect();
        rates.sort_by(f64::total_cmp);
        rates
    };
    for (point, summary) in report["points"].as_array().unwrap().iter().enumerate() {
        let rates = rates(point);
        assert!(rates[0] < rates[5], "each repeat draws other addresses: {rates:?}");
        let iops = &summary["iops"];
        assert_eq!((summary["runs"].as_u64(), iops["confidence"].as_f64()), (Some(6), Some(0.96875)));
        assert_eq!((iops["low"].as_f64(), iops["high"].as_f64()), (Some(rates[0]), Some(rates[5])));
        assert!((iops["median"].as_f64().unwrap() - rates[2].midpoint(rates[3])).abs() < 1e-6);
    }
    let mut orders: Vec<u64> = runs(&report).iter().map(|run| run["order"].as_u64().unwrap()).collect();
    assert!(!orders.is_sorted(), "rounds alternate: {orders:?}");
    orders.sort_unstable();
    assert!(orders.iter().copied().eq(0..12));
    let text = std::fs::read_to_string(rows).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 13, "{text}");
    let columns = lines[0].split(',').count();
    let (quoted, rest) = lines[12].strip_prefix('"').unwrap().split_once('"').unwrap();
    assert_eq!((quoted, rest.split(',').count()), (SSD, columns), "{text}");
    assert!(rest.starts_with(",cpu,software,virtual,iodepth=4,5,"), "{rest}");
    let iops = lines[0].split(',').position(|column| column == "iops").unwrap();
    let last = runs(&report)[11]["iops"].as_f64().unwrap();
    assert_eq!(rest.split(',').nth(iops).unwrap().parse::<f64>().unwrap(), last);
    let text = ok(&words(&bench(&["--io-limit", "64k", "--repeat", "3"])));
    assert!(text.contains("75.0%"), "three runs hold the median with 75 %: {text}");
    assert_eq!(refused(&["bench", SSD, "--repeat", "51"]).0, 2);
    assert_eq!(refused(&["bench", SSD, "--csv", "/nowhere/rows.csv"]).0, 2);
    assert_eq!(
        refused(&["bench", SSD, "--interval", "0"]),
        (2, "--interval 0ns: must be at least 1ms".to_owned())
    );
}

/// A percentile by the bins of fio's form, as its readers count it.
fn by_bins(latency: &Value, percent: f64) -> u64 {
    let bins = latency["bins"].as_object().expect("bins");
    let mut bins: Vec<(u64, u64)> = bins
        .iter()
        .map(|(ns, count)| (ns.parse().expect("a time"), count.as_u64().expect("a count")))
        .collect();
    bins.sort_unstable();
    let total: u64 = bins.iter().map(|(_, count)| count).sum();
    let wanted = (percent / 100.0 * total as f64).ceil() as u64;
    let mut seen = 0;
    bins.into_iter()
        .find(|(_, count)| {
            seen += count;
            seen >= wanted
        })
        .expect("some have all")
        .0
}

#[test]
fn fios_readers_find_our_percentiles() {
    let flags = ["--rw", "randrw", "--axis", "iodepth=1,16", "--io-limit", "4m"];
    let ours = measured(&flags);
    let theirs: Value =
        serde_json::from_str(&ok(&words(&bench(&[&flags[..], &["-o", "fio-json+"]].concat())))).unwrap();
    for (run, job) in runs(&ours).iter().zip(theirs["jobs"].as_array().unwrap()) {
        for direction in ["read", "write"] {
            let (own, fio) = (&run[format!("{direction}_lat_ns")], &job[direction]["clat_ns"]);
            assert_eq!(fio["N"], run[direction]["ios"]);
            for (percent, key) in
                [(50.0, "p50"), (90.0, "p90"), (99.0, "p99"), (99.9, "p99_9"), (99.99, "p99_99")]
            {
                let bin = fio::bin(own[key].as_u64().unwrap());
                assert_eq!(by_bins(fio, percent), bin, "{direction} {percent}: within a bin of {own:#}");
                assert_eq!(fio["percentile"][format!("{percent:.6}")], bin);
            }
        }
        let shares = ["latency_ns", "latency_us", "latency_ms"].map(|unit| {
            job[unit].as_object().unwrap().values().map(|share| share.as_f64().unwrap()).sum::<f64>()
        });
        assert!((shares.iter().sum::<f64>() - 100.0).abs() < 1e-6 && shares[1] > 90.0, "{shares:?}");
        assert_eq!(job["job options"]["iodepth"], run["job"]["iodepth"].to_string());
    }
    let Ok(_) = Command::new("fio_jsonplus_clat2csv").arg("--help").output() else {
        println!("skipped: fio_jsonplus_clat2csv: not installed (package fio)");
        return;
    };
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("fio.json");
    std::fs::write(&source, theirs.to_string()).unwrap();
    let convert = |flags: &[&str]| {
        let mut command = Command::new("fio_jsonplus_clat2csv");
        let output = command.arg(&source).arg(folder.path().join("out.csv")).args(flags).output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    assert_eq!(convert(&[]).matches("generated").count(), 2);
    assert_eq!(convert(&["--validate"]).matches("validated").count(), 2);
    let table = std::fs::read_to_string(folder.path().join("out_job1.csv")).unwrap();
    // Columns of clat of reads: 4 is the count, 6 the share of all that took at most as long.
    let rows = table.lines().skip(1).map(|line| line.split(',').map(str::trim).collect::<Vec<_>>());
    let rows: Vec<(u64, f64)> = rows
        .filter(|row| !row[6].is_empty())
        .map(|row| (row[0].parse().unwrap(), row[6].parse().unwrap()))
        .collect();
    let p99 = rows.iter().find(|(_, share)| *share >= 0.99).unwrap().0;
    assert_eq!(p99, fio::bin(runs(&ours)[1]["read_lat_ns"]["p99"].as_u64().unwrap()), "{table}");
}

#[test]
fn forms_belong_to_their_commands() {
    let (code, line) = refused(&["list", "-o", "fio-json+"]);
    assert_eq!((code, line.starts_with("--output fio-json+: only what bench measures")), (2, true), "{line}");
    let (code, line) = refused(&["bench", SSD, "-o", "report.html"]);
    assert_eq!((code, line.starts_with("--output report.html: only `warpbell report")), (2, true), "{line}");
}

/// SSDs that are served to others, each in a folder: our controller is not in this process.
struct Served(Vec<(std::process::Child, String)>);

impl Served {
    fn start(folder: &TempDir, count: usize) -> Served {
        let one = |index: usize| {
            let socket = folder.path().join(format!("{index}.sock")).display().to_string();
            let server = spawn(&["serve", "soft:size=1m,profile=tlc", "--socket", &socket]);
            await_that(|| std::path::Path::new(&socket).exists());
            (server, format!("vfio-user:{socket}"))
        };
        Served((0..count).map(one).collect())
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        for (server, _) in &mut self.0 {
            let _ = server.kill();
            let _ = server.wait();
        }
    }
}

#[test]
fn ssds_of_others_have_counts_of_their_own_and_no_lumps() {
    let folder = tempfile::tempdir().unwrap();
    let served = Served::start(&folder, 2);
    let mut words = vec!["bench"];
    words.extend(served.0.iter().map(|(_, name)| name.as_str()));
    words.extend([
        "--api",
        "host",
        "--iodepth",
        "1",
        "--runtime",
        "100ms",
        "--interval",
        "5ms",
        "-o",
        "json",
    ]);
    let report = json(&words);
    for device in report["devices"].as_array().unwrap() {
        let run = &runs(device)[0];
        let counts: Vec<u64> = serde_json::from_value(run["series"]["ios"].clone()).unwrap();
        assert_eq!(counts.iter().sum::<u64>(), run["ios"].as_u64().unwrap(), "of this SSD alone: {run:#}");
        // In lumps of 256 all of so few would be in one interval.
        let busy = counts.iter().filter(|count| **count > 0).count();
        assert!(counts.len() > 3 && busy > 2, "I/Os when they end: {counts:?}");
    }
}

#[test]
fn fios_form_has_whole_runs_alone() {
    let words = bench(&["--runtime", "1h", "-o", "fio-json+"]);
    let child = spawn(&self::words(&words));
    await_that(|| cpu_seconds(&child) > 0.2);
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((output.status.code(), &document["jobs"]), (Some(130), &Value::Array(Vec::new())));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("left out: 1 runs that were interrupted"), "{said}");
}

#[test]
fn a_refused_point_of_the_resident_controller_costs_no_rows() {
    let folder = tempfile::tempdir().unwrap();
    let rows = folder.path().join("rows.csv").display().to_string();
    std::fs::write(&rows, "what was there").unwrap();
    assert_eq!(refused(&["bench", "resident:", "--bs", "700", "--csv", &rows]).0, 2);
    assert_eq!(std::fs::read_to_string(&rows).unwrap(), "what was there");
    let report = json(&["bench", "resident:", "--io-limit", "64k", "-o", "json"]);
    assert!(
        runs(&report)[0]["series_missing"].as_str().unwrap().contains("count at their end"),
        "{report:#}"
    );
}

/// A file with a result.
fn kept(folder: &TempDir, report: &Value) -> String {
    let path = folder.path().join("kept.json");
    std::fs::write(&path, report.to_string()).expect("a file");
    path.display().to_string()
}

/// What tells runs apart: the first three are of the point alone.
fn figures(run: &Value) -> [&Value; 6] {
    ["point", "repeat", "ios", "runtime_ns", "lat_ns", "read_histogram"].map(|key| &run[key])
}

#[test]
fn a_sweep_of_five_hundred_points_with_impossible_corners_ends_and_is_resumed() {
    // Depths that no ring of 64 entries has, and sizes that are no blocks.
    let sweep = [
        "bench",
        "soft:size=1m,entries=64,time=virtual,profile=optane",
        "--api",
        "host",
        "--io-limit",
        "2k",
        "-o",
        "json",
        "--axis",
        "bs=512,1k,2k,700,3000",
        "--axis",
        "iodepth=1..100+1",
    ];
    let whole = json(&sweep);
    assert_eq!((runs(&whole).len(), whole["skipped"].as_array().unwrap().len()), (189, 311));
    let reasons = whole["skipped"].to_string();
    assert!(reasons.contains("multiple of the block size") && reasons.contains("--iodepth 64"), "{reasons}");
    let mut cut = whole.clone();
    cut["partial"] = true.into();
    let left = cut["runs"].as_array_mut().unwrap();
    left.truncate(100);
    left[99]["partial"] = true.into();
    left[0]["cpu_time_ns"] = 77.into();
    let folder = tempfile::tempdir().unwrap();
    let file = kept(&folder, &cut);
    let resumed = json(&[&sweep[..], &["--resume", &file]].concat());
    assert_eq!((&resumed["partial"], runs(&resumed).len()), (&false.into(), 189));
    assert_eq!(runs(&resumed)[0], cut["runs"][0], "kept as it was");
    assert_eq!(resumed["resumed_from"], Value::from(vec![cut["origin"].clone()]));
    assert!(resumed["origin"] != cut["origin"], "it has an origin of its own");
    let again = json(&[&sweep[..], &["--resume", &kept(&folder, &resumed)]].concat());
    let both = vec![cut["origin"].clone(), resumed["origin"].clone()];
    assert_eq!(again["resumed_from"], Value::from(both), "the oldest first");
    assert_eq!(resumed["skipped"], whole["skipped"]);
    // What is measured now draws other delays than where the SSD had done more before.
    for (at, (one, other)) in runs(&resumed).iter().zip(runs(&whole)).enumerate() {
        let same = if at < 99 { 6 } else { 3 };
        assert_eq!(figures(one)[..same], figures(other)[..same]);
    }
    assert_eq!((&resumed["ios"], &resumed["bytes"]), (&whole["ios"], &whole["bytes"]), "sums are of all");
}

#[test]
fn what_an_interrupt_left_is_resumed() {
    let sweep = [
        "bench",
        "soft:size=1m",
        "--api",
        "host",
        "--runtime",
        "80ms",
        "--repeat",
        "2",
        "-o",
        "json",
        "--axis",
        "iodepth=1..16+1",
    ];
    let folder = tempfile::tempdir().unwrap();
    // The journal tells when a run has ended, and is not what is resumed.
    let journal = folder.path().join("journal");
    let child = spawn(&[&sweep[..], &["--journal", journal.to_str().unwrap()]].concat());
    await_that(|| std::fs::read_to_string(&journal).is_ok_and(|text| text.lines().count() > 1));
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).unwrap();
    let output = child.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(130));
    let part: Value = serde_json::from_slice(&output.stdout).unwrap();
    let done: Vec<&Value> = runs(&part).iter().filter(|run| run["partial"] == false).collect();
    assert!(part["partial"] == true && (1..32).contains(&done.len()), "{} done", done.len());
    let file = kept(&folder, &part);
    let whole = json(&[&sweep[..], &["--resume", &file]].concat());
    assert_eq!((&whole["partial"], runs(&whole).len()), (&false.into(), 32));
    for run in done {
        assert!(runs(&whole).contains(run), "{} was measured again", run["point"]);
    }
    assert!(whole["points"].as_array().unwrap().iter().all(|point| point["runs"] == 2));
}

#[test]
fn another_measurement_is_not_resumed() {
    let folder = tempfile::tempdir().unwrap();
    let flags = ["--axis", "iodepth=1,2", "--io-limit", "64k"];
    let report = measured(&flags);
    let file = kept(&folder, &report);
    let resume = |flags: &[&str], file: &str| {
        let (code, line) = refused(&words(&bench(&[flags, &["--resume", file, "-o", "json"]].concat())));
        assert_eq!(code, 2, "{line}");
        line
    };
    let line = resume(&["--axis", "iodepth=1,2", "--io-limit", "32k"], &file);
    assert!(
        line.starts_with(&format!("--resume {file}: it was made by `bench "))
            && line.contains("--io-limit 32k"),
        "{line}"
    );
    let changes: [(&str, Value, &str); 6] = [
        ("/origin/machine/cores", 4096.into(), "its machine was"),
        ("/origin/commit", "0".into(), "its commit was"),
        ("/device/serial", "x".into(), "its SSD was"),
        ("/warpbell", "0.0.1".into(), "its version of warpbell was \"0.0.1\""),
        ("/target", "cuda:0 (a GPU)".into(), "its target was \"cuda:0 (a GPU)\", and is \"cpu\" now"),
        ("/data_path/rings", "x".into(), "its path of data and commands was"),
    ];
    for (key, value, words) in changes {
        let mut other = report.clone();
        *other.pointer_mut(key).unwrap() = value;
        let line = resume(&flags, &kept(&folder, &other));
        assert!(line.contains(words), "{key}: {line}");
    }
    let kernels = ["bench", SSD, "--api", "io", "--axis", "iodepth=1,2", "--io-limit", "64k", "-o", "json"];
    let whole = json(&kernels);
    let again = json(&[&kernels[..], &["--resume", &kept(&folder, &whole)]].concat());
    assert_eq!(runs(&again), runs(&whole), "kernels ring their own way, which is known once they have run");
    let mut other = report;
    other["schema"] = "warpbell.trace/1".into();
    assert!(resume(&flags, &kept(&folder, &other)).contains("its schema is warpbell.trace/1"));
    std::fs::write(&file, "").unwrap();
    assert!(resume(&flags, &file).contains("the file is empty"));
    assert!(resume(&flags, "/nowhere/a.json").contains("No such file"));
    assert!(!run(&["bench", "resident:", "--resume", &file]).status.success());
}
