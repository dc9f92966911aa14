//! Axes over options of opening: the device is opened anew where they change, and results say how it was.

use crate::common::{json, ok, refused, run};
use serde_json::Value;

fn runs(report: &Value) -> &Vec<Value> {
    report["runs"].as_array().unwrap_or_else(|| panic!("no runs in {report:#}"))
}

fn count(run: &Value, key: &str) -> u64 {
    run["counters"][key].as_u64().unwrap_or_else(|| panic!("no count {key} in {run:#}"))
}

/// A sweep in virtual time over a device with these settings more.
fn sweep(settings: &str, flags: &[&str]) -> Value {
    let device = format!("soft:size=16m,time=virtual{settings}");
    let fixed = ["bench", &device, "--bs", "512", "--io-limit", "256k", "-o", "json"];
    let depth = flags.iter().any(|flag| flag.contains("iodepth")).then_some(&[][..]);
    let report = json(&[&fixed[..], depth.unwrap_or(&["--iodepth", "64"]), flags].concat());
    assert_eq!((report["errors"].as_u64(), report["violations"].as_u64()), (Some(0), Some(0)), "{report:#}");
    report
}

#[test]
fn shadow_doorbells_are_written_at_their_points_alone() {
    for api in ["host", "io"] {
        let report = sweep(",dbbuf=on", &["--api", api, "--axis", "dbbuf=on,off"]);
        let [on, off] = &runs(&report)[..] else { panic!("two points: {report:#}") };
        assert_eq!((&on["point"], &off["point"]), (&"dbbuf=on".into(), &"dbbuf=off".into()));
        assert_eq!(
            (&on["job"]["opening"]["dbbuf"], &off["job"]["opening"]["dbbuf"]),
            (&"on".into(), &"off".into())
        );
        assert!(count(on, "shadow_stores") > 0 && count(off, "shadow_stores") == 0, "{api}: {report:#}");
        let registers = |run| count(run, "sq_doorbells") + count(run, "cq_doorbells");
        assert!(registers(on) < registers(off), "{api}: {} and {}", registers(on), registers(off));
        let path = |run: &Value| run["data_path"]["doorbells"].as_str().unwrap().to_owned();
        assert!(path(on).starts_with("shadowed") && !path(off).contains("shadowed"), "{report:#}");
        assert_eq!(report["data_path"]["doorbells"], format!("{} | {}", path(on), path(off)));
    }
}

#[test]
fn rings_lie_where_their_point_wants_them() {
    let report = sweep(",cmb=1m", &["--axis", "rings=host,cmb", "--axis", "iodepth=8,64"]);
    let rings: Vec<&str> =
        runs(&report).iter().map(|run| run["data_path"]["rings"].as_str().unwrap()).collect();
    assert_eq!(rings, ["host", "host", "cmb (SQ), host (CQ)", "cmb (SQ), host (CQ)"]);
    assert_eq!(report["data_path"]["rings"], "host | cmb (SQ), host (CQ)");
    // A point of an axis is what a command by itself measures.
    let alone = sweep(",cmb=1m", &["--rings", "cmb", "--iodepth", "8"]);
    for key in ["counters", "runtime_ns", "lat_ns"] {
        assert_eq!(runs(&report)[2][key], runs(&alone)[0][key], "{key}");
    }
}

#[test]
fn a_device_is_opened_anew_where_an_option_of_opening_changes_and_only_there() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("first.toml");
    // Of each opening, the first read fails.
    std::fs::write(&plan, "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\ncount = 1\n")
        .unwrap();
    let errors = |axes: [&str; 2]| {
        let device = "soft:size=1m,time=virtual,dbbuf=on";
        let fixed = ["bench", device, "--api", "host", "--io-limit", "64k", "-o", "json", "--fault"];
        let axes = ["--axis", axes[0], "--axis", axes[1]];
        let output = run(&[&fixed[..], &[plan.to_str().unwrap()], &axes].concat());
        let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
        runs(&report).iter().map(|run| run["errors"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(errors(["dbbuf=on,off", "iodepth=1,2"]), [1, 0, 1, 0]);
    assert_eq!(errors(["iodepth=1,2", "dbbuf=on,off"]), [1, 1, 1, 1]);
    assert_eq!(errors(["bs=512,4k", "iodepth=1,2"]), [1, 0, 0, 0], "nothing is opened anew");
}

#[test]
fn plans_of_faults_are_an_axis() {
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("all.toml");
    std::fs::write(&plan, "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nevery = 4\n")
        .unwrap();
    let axis = format!("fault=default,{}", plan.display());
    let output =
        run(&["bench", "soft:size=1m,time=virtual", "--io-limit", "64k", "-o", "json", "--axis", &axis]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let errors: Vec<_> = runs(&report).iter().map(|run| run["errors"].as_u64()).collect();
    assert_eq!(errors, [Some(0), Some(4)], "16 I/Os each: {report:#}");
    let (code, line) = refused(&["bench", "soft:size=1m", "--axis", "fault=default,/nowhere/plan.toml"]);
    assert!(code == 2 && line.contains("/nowhere/plan.toml"), "{line}");
}

#[test]
fn what_a_device_cannot_be_opened_with_is_skipped_and_listed() {
    let flags = ["bench", "soft:size=1m", "--io-limit", "64k"];
    let with = |axis: &'static str| [&flags[..], &["--axis", axis, "--axis", "iodepth=1,2"]].concat();
    for (axis, point, reason) in [
        ("dbbuf=on,off", "dbbuf=on", "Doorbell Buffer Config (OACS bit 8 is 0)"),
        ("rings=cmb,host", "rings=cmb", "(CAP.CMBS is 0)"),
        ("wide-cids=off,on", "wide-cids=on", "32-bit command identifiers"),
        ("data=host,hbm", "data=hbm", "target cpu has no memory of its own"),
        ("iommu=auto,iommufd", "iommu=iommufd", "only PCI functions are"),
    ] {
        let report = json(&[&with(axis)[..], &["-o", "json"]].concat());
        assert_eq!(runs(&report).len(), 2, "{axis}: {report:#}");
        let skipped = report["skipped"].as_array().expect("skipped points");
        assert_eq!(skipped.len(), 2, "{axis}: {report:#}");
        for (found, depth) in skipped.iter().zip(["1", "2"]) {
            assert_eq!(found["point"], format!("{point} iodepth={depth}"));
            assert!(found["reason"].as_str().unwrap().contains(reason), "{axis}: {found}");
        }
    }
    let output = run(&with("dbbuf=on,off"));
    let told = String::from_utf8(output.stderr).unwrap();
    assert_eq!(
        (output.status.code(), told.matches("skipped: dbbuf=on iodepth=").count()),
        (Some(0), 2),
        "{told}"
    );
    let (code, line) = refused(&with("dbbuf=on"));
    assert!(code != 0 && line.contains("OACS bit 8 is 0"), "no point is left: {line}");
}

#[test]
fn doorbells_of_kernels_are_swept() {
    let device = "soft:size=1m,dbbuf=on";
    let fixed = ["bench", device, "--io-limit", "64k", "-o", "json"];
    let report = json(&[&fixed[..], &["--axis", "doorbells=auto,mapped"]].concat());
    let asked: Vec<&Value> = runs(&report).iter().map(|run| &run["job"]["opening"]["doorbells"]).collect();
    assert_eq!(asked, ["auto", "mapped"]);
    assert!(runs(&report).iter().all(|run| count(run, "sq_doorbells") + count(run, "shadow_stores") > 0));
    // The host rings by itself: a choice is a point that cannot be.
    let report = json(&[&fixed[..], &["--axis", "api=io,host", "--axis", "doorbells=auto,mapped"]].concat());
    assert_eq!(runs(&report).len(), 3);
    assert_eq!(report["skipped"][0]["point"], "api=host doorbells=mapped");
}

#[test]
fn wrong_values_and_flags_that_are_no_axes_are_refused() {
    for (axis, words) in [
        ("rings=moon", "--axis rings=moon: 'moon': expected host, cmb, hbm, bar:BDF/N"),
        ("rings=host,sq=cmb", "--axis rings=sq=cmb: 'sq=cmb': cq=PLACE is missing"),
        ("data=cmb", "--axis data=cmb: 'cmb': data cannot lie in the controller memory buffer"),
        ("dbbuf=maybe", "--axis dbbuf=maybe: 'maybe': expected one of auto, on, off"),
        ("threads=1,x", "--axis threads=x: expected a whole number"),
        ("recover=yes", "--axis recover=yes: 'yes': expected on or off"),
        ("target=cpu,ptx", "--axis target: it cannot be swept: a result is of one target"),
        ("nsid=1,2", "--axis nsid: it cannot be swept: a result is of one range of blocks"),
        ("trace=a,b", "--axis trace: it cannot be swept: a trace is of one run"),
        ("moon=1", "--axis moon: expected one of rw, "),
    ] {
        let (code, line) = refused(&["bench", "soft:size=1m", "--axis", axis]);
        assert_eq!(code, 2, "{axis}");
        assert!(line.starts_with(words), "{axis}: {line}");
    }
    let (code, line) = refused(&["bench", "resident:", "--axis", "dbbuf=off,on"]);
    assert!(code == 2 && line.starts_with("--dbbuf: the GPU-resident controller"), "{line}");
}

#[test]
fn other_options_are_swept_by_what_they_say() {
    let device = "soft:size=16m,time=virtual,profile=optane";
    let fixed = ["bench", device, "--api", "host", "-o", "json"];
    let axes = ["--axis", "size=64k,1m", "--axis", "io-limit=128k,256k", "--axis", "timeout=1s,2s"];
    let report = json(&[&fixed[..], &axes].concat());
    let of = |run: &Value| {
        let job = &run["job"];
        [&job["size_bytes"], &run["bytes"], &job["timeout_ns"]].map(|value| value.as_u64().unwrap())
    };
    let found: Vec<_> = runs(&report).iter().map(of).collect();
    let expected = [64u64 << 10, 1 << 20].into_iter().flat_map(|size| {
        [128u64 << 10, 256 << 10]
            .into_iter()
            .flat_map(move |bytes| [1_000_000_000, 2_000_000_000].map(|timeout| [size, bytes, timeout]))
    });
    assert_eq!(found, expected.collect::<Vec<_>>());
    let report = json(&[&fixed[..], &["--axis", "runtime=1ms,4ms", "--axis", "retries=0,2"]].concat());
    let times: Vec<u64> =
        runs(&report).iter().map(|run| run["runtime_ns"].as_u64().unwrap() / 1_000_000).collect();
    assert_eq!(times, [1, 1, 4, 4]);
    let report = json(&[&fixed[..], &["--io-limit", "64k", "--axis", "threads=default,1,2"]].concat());
    assert_eq!(report["skipped"][0]["point"], "threads=2", "virtual time has one thread");
}

#[test]
fn rows_pages_and_resumed_sweeps_know_how_a_device_was_opened() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let (rows, kept, page) = (path("rows.csv"), path("kept.json"), path("page.html"));
    let device = "soft:size=16m,time=virtual,profile=optane,dbbuf=on";
    let fixed = ["bench", device, "--io-limit", "64k", "--repeat", "2"];
    let axes = ["--axis", "dbbuf=on,off", "--axis", "iodepth=1,8"];
    let sweep = [&fixed[..], &axes, &["-o", "json"]].concat();
    let whole = json(&[&sweep[..], &["--csv", &rows]].concat());
    let text = std::fs::read_to_string(&rows).unwrap();
    let mut lines = text.lines();
    // From the end: the device's name has commas.
    let column = lines.next().unwrap().rsplit(',').position(|name| name == "dbbuf").expect("a column");
    let cells: Vec<&str> = lines.map(|line| line.rsplit(',').nth(column).unwrap()).collect();
    assert_eq!(cells, ["on", "on", "on", "on", "off", "off", "off", "off"]);
    // Two openings' points are left to measure.
    let mut part = whole.clone();
    part["runs"].as_array_mut().unwrap().retain(|run| run["point"] != "dbbuf=off iodepth=8");
    std::fs::write(&kept, part.to_string()).unwrap();
    let again = json(&[&sweep[..], &["--resume", &kept]].concat());
    assert_eq!((runs(&again).len(), &again["data_path"]), (8, &whole["data_path"]));
    let counters =
        |report: &Value| runs(report).iter().map(|run| run["counters"].clone()).collect::<Vec<_>>();
    assert_eq!(counters(&again), counters(&whole), "virtual time repeats");
    let journal = path("sweep.journal");
    let first = json(&[&sweep[..], &["--journal", &journal]].concat());
    let mut second = json(&[&sweep[..], &["--journal", &journal]].concat());
    second["origin"] = first["origin"].clone();
    second.as_object_mut().unwrap().remove("resumed_from");
    assert_eq!(second, first, "all was kept");
    ok(&["report", &kept, "-o", &page]);
    let html = std::fs::read_to_string(&page).unwrap();
    assert!(html.contains("dbbuf=off") && html.contains("dbbuf=on"), "the page has both");
}

#[test]
fn a_file_is_opened_anew_too() {
    let folder = tempfile::tempdir().unwrap();
    let image = folder.path().join("disk.img");
    std::fs::write(&image, crate::common::noise(5, 1 << 20)).unwrap();
    let device = format!("soft:file={},dbbuf=on,time=virtual", image.display());
    let allowed = format!("--allow-write={}", image.display());
    let verified = ["--rw", "randrw", "--verify", "crc32c", "--io-limit", "256k", &allowed, "-o", "json"];
    let report = json(&[&["bench", &device, "--axis", "dbbuf=on,off"], &verified[..]].concat());
    let wrong: Vec<_> = runs(&report).iter().map(|run| run["verify"]["mismatches"].as_u64()).collect();
    assert_eq!(wrong, [Some(0), Some(0)]);
    let denied = ["--rw", "randwrite", "--axis", "dbbuf=on,off"];
    let (code, line) = refused(&[&["bench", &device], &denied[..]].concat());
    assert!(
        code == 3 && line.contains("--allow-write"),
        "no point is skipped for what is not allowed: {line}"
    );
}

#[test]
fn text_names_the_points_that_have_no_column() {
    let device = "soft:size=1m,time=virtual,dbbuf=on";
    let text = ok(&["bench", device, "--io-limit", "64k", "--axis", "dbbuf=on,off"]);
    let table: Vec<&str> =
        text.lines().map(str::trim_start).skip_while(|line| !line.starts_with("point ")).collect();
    assert!(
        table.len() == 3 && table[1].starts_with("dbbuf=on ") && table[2].starts_with("dbbuf=off "),
        "{text}"
    );
    assert!(text.contains("  path: rings host, data host, order: one memory, doorbells shadowed"), "{text}");
}
