//! Values that the models are held to: computed by other means, kept as data in `golden.toml`.

use serde_json::{Map, Value};

use crate::error::Error;
use crate::model::{Model, Settings};
use crate::models::find;

const FILE: &str = "golden.toml";
const DATA: &str = include_str!("../golden.toml");

/// One question and the results that it must have.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    model: String,
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
    for row in rows()?.iter().filter(|row| row.model == model.name) {
        let settings = Settings { preset: row.preset.clone(), given: row.input.clone(), calibration: None };
        let answer = model.answer(&settings)?;
        for (result, expected) in &row.expect {
            let found = answer.result(result).cloned().ok_or_else(|| no_result(model.name, result))?;
            let ok = near(expected, &found, row.tolerance);
            let (model, name, result) = (row.model.clone(), row.name.clone(), result.clone());
            checks.push(Check {
                model,
                name,
                result,
                expected: expected.clone(),
                found,
                tolerance: row.tolerance,
                ok,
            });
        }
    }
    Ok(checks)
}

fn rows() -> Result<Vec<Row>, Error> {
    let wrong = |reason: String| Error::Data { file: FILE, reason };
    let file: File = toml::from_str(DATA).map_err(|error| wrong(error.to_string()))?;
    for row in &file.golden {
        find(&row.model)?;
    }
    Ok(file.golden)
}

fn no_result(model: &str, name: &str) -> Error {
    Error::Data { file: FILE, reason: format!("{model} has no result '{name}'") }
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
