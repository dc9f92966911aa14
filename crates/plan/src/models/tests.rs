use serde_json::json;

use super::*;
use crate::{Calibration, Origin, Settings};

#[test]
fn every_model_answers_with_its_defaults_and_with_each_preset() {
    for model in MODELS {
        let presets = model.presets.iter().map(|preset| Some(preset.name.to_owned()));
        for preset in std::iter::once(None).chain(presets) {
            let answer = model.answer(&Settings { preset, ..Settings::default() }).unwrap();
            assert!(!answer.results.is_empty() && !answer.bound.is_empty() && !answer.limits.is_empty());
            assert!(!answer.formula.is_empty() && !answer.confidence.source.is_empty());
            let text = answer.text();
            for part in ["inputs\n", "formula\n", "results\n", "\nbound: ", "\nsure: ", "\nlimit: "] {
                assert!(text.contains(part), "{}: {text}", model.name);
            }
        }
    }
}

#[test]
fn defaults_are_values_that_inputs_take() {
    for model in MODELS {
        let defaults = (model.defaults)();
        assert_eq!(defaults.len(), model.params.len(), "{}", model.name);
        for param in model.params {
            param.check(&defaults[param.name]).unwrap();
            assert!(!param.meaning.is_empty() && !param.name.contains('-'));
        }
    }
}

#[test]
fn plots_have_points_everywhere() {
    for model in MODELS {
        let Some(plot) = model.plot(&Settings::default()).unwrap() else { continue };
        for series in plot.panels.iter().flat_map(|panel| &panel.series) {
            assert!(series.points.len() > 1, "{}: {}", model.name, series.name);
            assert!(series.points.iter().all(|(x, y)| x.is_finite() && y.is_finite()), "{}", model.name);
        }
        assert!(plot.svg().contains("<polyline"));
    }
}

#[test]
fn no_two_lines_of_a_panel_are_the_same() {
    for model in MODELS {
        let Some(plot) = model.plot(&Settings::default()).unwrap() else { continue };
        for panel in &plot.panels {
            let lines: Vec<_> = panel.series.iter().map(|series| &series.points).collect();
            let again = (1..lines.len()).find(|index| lines[..*index].contains(&lines[*index]));
            assert_eq!(again, None, "{}: {}", model.name, panel.title);
        }
    }
}

#[test]
fn what_is_given_goes_before_what_was_measured_and_that_before_a_preset() {
    let text =
        r#"{"schema": "warpbell.calibration/1", "constants": {"reg.fixed_us": 3, "reg.page_us": 0.25}}"#;
    let calibration = Calibration::parse(text).unwrap();
    let model = find("reg").unwrap();
    let given = serde_json::from_value(json!({"page_us": 0.125, "bytes": 4096})).unwrap();
    let settings = Settings { preset: Some("cpu-lo".into()), calibration: Some(&calibration), given };
    let answer = model.answer(&settings).unwrap();
    let input = |name: &str| {
        let found = answer.inputs.iter().find(|input| input.name == name).unwrap();
        (found.value.clone(), found.from.clone())
    };
    assert_eq!(input("fixed_us"), (json!(3), Origin::Calibration));
    assert_eq!(input("page_us"), (json!(0.125), Origin::Given));
    assert_eq!(input("page_bytes"), (json!(4096), Origin::Preset("cpu-lo")));
    assert_eq!(input("link_gb_per_s").1, Origin::Default);
    assert_eq!(answer.result("time_us"), Some(&json!(3.125)));
    assert_eq!(answer.confidence.measured, ["fixed_us"]);
    assert_eq!(answer.confidence.not_measured, ["page_bytes", "page_us", "walk_us", "setup_us"]);
}

#[test]
fn a_speed_that_a_link_does_not_take_is_refused() {
    let asked = |given: serde_json::Value| {
        let given = serde_json::from_value(given).unwrap();
        let settings = Settings { given, ..Settings::default() };
        ["tlp", "pipeline", "stripe"].map(|model| find(model).unwrap().answer(&settings))
    };
    for answer in asked(json!({"link_gb_per_s": 10})) {
        let error = answer.unwrap_err().to_string();
        let words = "link_gb_per_s '10': the link is gen5-x16, which has its own speed; with link custom this one counts";
        assert_eq!(error, words);
    }
    for answer in asked(json!({"link_gb_per_s": 10, "link": "custom"})) {
        assert!(answer.unwrap().text().contains("10 GB/s"));
    }
}

#[test]
fn unknown_names_are_refused_by_name() {
    assert!(find("regg").unwrap_err().to_string().starts_with("'regg': no such model; there are reg, mtt"));
    let model = find("reg").unwrap();
    let given = serde_json::from_value(json!({"pages": 3})).unwrap();
    let error = model.answer(&Settings { given, ..Settings::default() }).unwrap_err().to_string();
    assert!(error.starts_with("reg has no input 'pages'; it has bytes, "), "{error}");
    let preset = Some("cpu".to_owned());
    let error = model.answer(&Settings { preset, ..Settings::default() }).unwrap_err().to_string();
    assert_eq!(error, "reg has no preset 'cpu'; it has cpu-lo, cpu-hi, gpu-flat, gpu-page");
}

#[test]
fn documents_keep_the_order_of_inputs_and_results() {
    let answer = find("tlp").unwrap().answer(&Settings::default()).unwrap();
    let text = serde_json::to_string(&answer).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(value["schema"], "warpbell.plan/1");
    assert_eq!(value["inputs"]["header_bytes"]["from"], "default");
    assert!(value["results"]["efficiency"]["value"].is_f64() && value.get("verdict").is_none());
}
