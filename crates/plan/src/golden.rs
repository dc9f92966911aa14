//! Values that the models are held to, a file of `golden/` for each.
//!
//! Most were computed by other means, and written down with the digits that their tolerance says: 0 where a value is
//! exact, 0.001 to 0.005 for three or four digits.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::model::{Model, Settings};

macro_rules! files {
    ($($model:literal)*) => {
        &[$(($model, include_str!(concat!("../golden/", $model, ".toml")))),*]
    };
}

/// By model.
const FILES: &[(&str, &str)] = files![
    "ckpt" "completion" "contention" "datapath" "doorbell" "fabric" "fence" "kv" "loader" "mtt" "pipeline" "queues"
    "reg" "situation" "stripe" "tiers" "tiles" "tlp"
];

/// One question and the results that it must have.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    name: String,
    #[serde(default)]
    preset: Option<String>,
    #[serde(default)]
    input: Map<String, Value>,
    expect: Map<String, Value>,
    /// Relative.
    tolerance: f64,
}

#[derive(serde::Deserialize)]
struct File {
    golden: Vec<Row>,
}

/// A value that was expected, and the one that was found.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Check {
    /// The model.
    pub model: String,
    /// Of what.
    pub name: String,
    /// The result.
    pub result: String,
    /// What it must be.
    pub expected: Value,
    /// What it is.
    pub found: Value,
    /// How far off it may be, relative to what is expected.
    pub tolerance: f64,
    /// Whether it is near enough.
    pub ok: bool,
}

/// Checks all values of `model`.
pub fn checks(model: &Model) -> Result<Vec<Check>, Error> {
    let mut checks = Vec::new();
    for row in rows(model)? {
        let settings = Settings { preset: row.preset.clone(), given: row.input.clone(), calibration: None };
        let answer = model.answer(&settings)?;
        for (result, expected) in &row.expect {
            let missing = || wrong(model, format!("no result '{result}'"));
            let found = answer.result(result).cloned().ok_or_else(missing)?;
            let ok = near(expected, &found, row.tolerance);
            checks.push(Check {
                model: model.name.to_owned(),
                name: row.name.clone(),
                result: result.clone(),
                expected: expected.clone(),
                found,
                tolerance: row.tolerance,
                ok,
            });
        }
    }
    Ok(checks)
}

fn rows(model: &Model) -> Result<Vec<Row>, Error> {
    let file = FILES.iter().find(|(name, _)| *name == model.name);
    let (_, text) = file.ok_or_else(|| wrong(model, "no golden values".to_owned()))?;
    let file: File = toml::from_str(text).map_err(|error| wrong(model, error.to_string()))?;
    Ok(file.golden)
}

fn wrong(model: &Model, reason: String) -> Error {
    Error::Data { file: "golden", reason: format!("{}: {reason}", model.name) }
}

/// Whether two values are the same; numbers, also those of lists, up to `tolerance` of what is expected.
pub(crate) fn near(expected: &Value, found: &Value, tolerance: f64) -> bool {
    match (expected, found) {
        (Value::Array(left), Value::Array(right)) => {
            left.len() == right.len()
                && left.iter().zip(right).all(|(left, right)| near(left, right, tolerance))
        }
        (Value::Number(left), Value::Number(right)) => match (left.as_f64(), right.as_f64()) {
            (Some(left), Some(right)) => (left - right).abs() <= tolerance * left.abs() + f64::EPSILON,
            _ => false,
        },
        _ => expected == found,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::models::MODELS;

    #[test]
    fn every_model_has_golden_values_and_keeps_them() {
        for model in MODELS {
            let checks = checks(model).unwrap();
            assert!(checks.len() >= 2, "{} has {} golden values", model.name, checks.len());
            for check in &checks {
                assert!(check.ok, "{check:?}");
            }
        }
    }

    #[test]
    fn near_is_relative_and_exact_for_words() {
        assert!(near(&json!(100), &json!(100.4), 0.005) && !near(&json!(100), &json!(100.6), 0.005));
        assert!(
            near(&json!([1.0, 2.0]), &json!([1.0, 2.0]), 0.0)
                && !near(&json!([1.0]), &json!([1.0, 2.0]), 0.0)
        );
        assert!(!near(&json!("a"), &json!("b"), 1.0) && !near(&json!(1), &json!("1"), 1.0));
        assert!(!near(&json!(0), &json!(0.1), 0.5));
    }
}
