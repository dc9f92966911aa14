//! `plan`.

use serde_json::Value;

use crate::common::{json, ok, refused};

const MODELS: [&str; 18] = [
    "reg",
    "mtt",
    "fence",
    "contention",
    "fabric",
    "pipeline",
    "datapath",
    "loader",
    "queues",
    "doorbell",
    "tlp",
    "completion",
    "stripe",
    "tiles",
    "kv",
    "ckpt",
    "tiers",
    "situation",
];

#[test]
fn every_model_keeps_its_golden_values() {
    for model in MODELS {
        let text = ok(&["plan", model, "--golden"]);
        assert!(text.lines().count() >= 2, "{model}: {text}");
        for line in text.lines() {
            assert!(
                line.starts_with("ok ") && line.contains(" expected ") && line.contains(" found "),
                "{line}"
            );
            assert!(line.contains(" tolerance "), "{line}");
        }
    }
    let document = json(&["plan", "tlp", "--golden", "-o", "json"]);
    assert_eq!((&document["schema"], &document["ok"]), (&"warpbell.plan.golden/1".into(), &true.into()));
}

#[test]
fn five_situations_each_have_a_verdict_and_a_bound() {
    let all = json(&["plan", "situation", "--all", "-o", "json"]);
    let verdicts: Vec<&str> =
        all.as_array().unwrap().iter().map(|one| one["verdict"].as_str().unwrap()).collect();
    let assumed = "reproduced-with-assumption";
    assert_eq!(verdicts, [assumed, assumed, "contradicted", assumed, "cannot-be-verified"]);
    for (index, one) in all.as_array().unwrap().iter().enumerate() {
        assert!(!one["bound"].as_str().unwrap().is_empty());
        assert_eq!(one["inputs"]["case"]["value"], index + 1);
    }
}

#[test]
fn an_answer_says_what_was_put_in_and_how_sure_it_is() {
    let arguments =
        ["plan", "reg", "--preset", "cpu-hi", "--bytes", "1m", "--link-gb-per-s", "25", "-o", "json"];
    let answer = json(&arguments);
    assert_eq!(answer["schema"], "warpbell.plan/1");
    assert_eq!(
        (&answer["inputs"]["bytes"]["value"], &answer["inputs"]["bytes"]["from"]),
        (&1048576.into(), &"given".into())
    );
    assert_eq!(answer["inputs"]["page_us"]["from"], "preset cpu-hi");
    assert_eq!(
        (answer["results"]["time_us"]["value"].as_f64(), &answer["results"]["time_us"]["unit"]),
        (Some(266.0), &"us".into())
    );
    assert!(answer["formula"][0].as_str().unwrap().starts_with("T_reg"));
    assert_eq!(answer["confidence"]["level"], "model");
    let text = ok(&arguments[..8]);
    assert!(
        text.starts_with("plan reg: what does registering") && text.contains("\nbound: registration"),
        "{text}"
    );
}

#[test]
fn measured_constants_replace_those_of_documents() {
    let folder = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let right = file(
        "right.json",
        r#"{"schema": "warpbell.calibration/1", "constants": {"tlp.link_gb_per_s": 50, "reg.page_us": 0.25}}"#,
    );
    let answer = json(&["plan", "reg", "--calib", &right, "--fixed-us", "0", "--bytes", "4k", "-o", "json"]);
    assert_eq!(answer["results"]["time_us"]["value"].as_f64(), Some(0.25));
    assert_eq!(answer["inputs"]["page_us"]["from"], "calibrated");
    assert_eq!(answer["confidence"]["measured"], Value::from(vec!["page_us"]));
    for (constants, words) in [
        (
            r#"{"reg.page_ms": 1}"#,
            "'reg.page_ms' is no constant that can be measured; there are reg.page_bytes",
        ),
        (r#"{"reg.page_us": -1}"#, "constant 'reg.page_us': value '-1': expected a number, 0 or above"),
        (r#"{"reg.page_us": {"value": 1, "unit": "ns"}}"#, "constant 'reg.page_us': unit 'ns': expected us"),
        ("{", "calibration: EOF"),
    ] {
        let text = format!(r#"{{"schema": "warpbell.calibration/1", "constants": {constants}}}"#);
        let wrong = file("wrong.json", &text);
        let (code, line) = refused(&["plan", "reg", "--calib", &wrong]);
        assert!(code == 2 && line.starts_with("--calib ") && line.contains(words), "{line}");
    }
}

fn with<'a>(asked: &[&'a str], more: &[&'a str]) -> Vec<&'a str> {
    [asked, more].concat()
}

#[test]
fn a_schedule_of_tiles_is_the_same_each_time_and_ends_when_the_answer_says() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let asked = ["plan", "tiles", "--preset", "systolic", "-o", "json"];
    let (answer, schedule) = (json(&asked), json(&with(&asked, &["--trace"])));
    assert_eq!(schedule["end_us"], answer["results"]["simulated_us"]["value"]);
    assert_eq!(schedule["tiles"].as_array().unwrap().len(), 1000);
    assert_eq!(schedule["tiles"][999]["compute_end_us"], schedule["end_us"]);
    assert_eq!(schedule["tiles"][5]["buffer"], 1);
    assert_eq!(ok(&with(&asked, &["--trace"])), ok(&with(&asked, &["--trace"])));

    // Without jitter the end is that of the formula.
    let text = ok(&["plan", "tiles", "--trace"]);
    assert!(text.ends_with("\nend: 52.000 us, of which 0.000 us waiting for tiles\n"), "{text}");
    assert_eq!(text.lines().count(), 1 + 8 + 1);

    let (chrome, list) = (path("chrome.json"), path("list.json"));
    assert_eq!(json(&with(&asked, &["--trace", &chrome])), answer);
    ok(&with(&asked, &["--trace", &list, "--trace-format", "json"]));
    let read =
        |path: &str| -> Value { serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap() };
    assert_eq!(read(&list), schedule);
    let chrome = read(&chrome);
    let spans = chrome["traceEvents"].as_array().unwrap().iter().filter(|event| event["ph"] == "X");
    let end = |event: &Value| event["ts"].as_f64().unwrap() + event["dur"].as_f64().unwrap();
    let last = spans.clone().map(end).fold(0.0, f64::max);
    assert!((last - schedule["end_us"].as_f64().unwrap()).abs() < 1e-6);
    assert_eq!((spans.count(), &chrome["warpbell"]["end_us"]), (2000, &schedule["end_us"]));
}

#[test]
fn a_sweep_is_a_picture_and_rows() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    for model in ["reg", "pipeline", "contention"] {
        let (svg, csv) = (path("plot.svg"), path("plot.csv"));
        ok(&["plan", model, "--svg", &svg, "--csv", &csv]);
        let picture = std::fs::read_to_string(&svg).unwrap();
        assert!(picture.starts_with("<svg ") && picture.contains("<polyline"), "{model}");
        let rows = std::fs::read_to_string(&csv).unwrap();
        assert!(rows.starts_with("panel,series,") && rows.lines().count() > 10, "{model}: {rows}");
    }
}

#[test]
fn what_cannot_be_asked_is_refused_in_one_line() {
    for (arguments, words) in [
        (&["plan", "regg"][..], &["regg"][..]),
        (&["plan", "reg", "--page", "3"], &["--page"]),
        (&["plan", "reg", "--page-us", "x"], &["--page-us 'x': expected a number"]),
        (&["plan", "reg", "--page-us", "-1"], &["--page-us '-1': expected a number, 0 or above"]),
        (&["plan", "reg", "--page-us", "nan"], &["--page-us 'nan': expected a number"]),
        (&["plan", "reg", "--bytes", "4x"], &["--bytes", "4x", "1024"]),
        (&["plan", "reg", "--keep", "x"], &["--keep 'x': expected one of per-io, persistent"]),
        (&["plan", "reg", "--preset", "x"], &["no preset 'x'", "cpu-lo"]),
        (&["plan", "reg", "--golden", "--bytes", "1"], &["--golden", "--bytes"]),
        (
            &["plan", "queues", "--depth", "65537"],
            &["--depth '65537': expected a whole number from 1 to 65536"],
        ),
        (&["plan", "queues", "--warp-bits", "7"], &["17 bits; a CID has 16"]),
        (&["plan", "contention", "--weights", "1,2"], &["weights: 2 for 8 streams"]),
        (&["plan", "situation", "--svg", "x"], &["--svg"]),
        (&["plan", "reg", "--calib", "/nowhere.json"], &["--calib /nowhere.json"]),
        (&["plan", "reg", "--trace"], &["--trace"]),
        (&["plan", "tiles", "--trace", "/nowhere/x", "--trace-format", "svg"], &["--trace-format", "'svg'"]),
        (&["plan", "tiles", "--buffers", "9", "--trace"], &["--buffers '9'", "do not fit"]),
        (&["plan", "tiles", "--trace", "--trace-format", "json"], &["--trace-format json", "--trace FILE"]),
        (&["plan", "tiles", "--trace-format", "json"], &["--trace"]),
        (&["plan", "stripe", "--link-gb-per-s", "5"], &["--link-gb-per-s '5'", "gen5-x16", "custom"]),
        (&["plan", "kv", "--gb-per-s", "1e-300"], &["1e-18 at least"]),
        (&["plan", "tiles", "--golden", "--trace"], &["--golden"]),
    ] {
        let (code, line) = refused(arguments);
        assert_eq!(code, 2, "{line}");
        for word in words {
            assert!(line.contains(word), "{arguments:?}: {line}");
        }
    }
}
