//! Constants that were measured on a machine, in place of those of documents.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::error::Error;
use crate::models::MODELS;

/// Name and version of the file's form.
const SCHEMA: &str = "warpbell.calibration/1";

/// Constants that were measured, by `MODEL.INPUT`.
#[derive(Clone, Debug, PartialEq, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    schema: String,
    /// Where they were measured; for people.
    #[serde(default)]
    machine: Option<String>,
    constants: BTreeMap<String, Value>,
}

impl Calibration {
    /// Reads the text of a file. Every name must be one of [`Calibration::names`], and every value possible.
    pub fn parse(text: &str) -> Result<Calibration, Error> {
        let wrong = |reason: String| Error::Data { file: "calibration", reason };
        let read: Calibration = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if read.schema != SCHEMA {
            return Err(wrong(format!("schema '{}': expected {SCHEMA}", read.schema)));
        }
        for (name, value) in &read.constants {
            let known = Calibration::names();
            let param = MODELS.iter().find_map(|model| {
                let input = name.strip_prefix(model.name)?.strip_prefix('.')?;
                model.params.iter().find(|param| param.measurable && param.name == input)
            });
            let param = param.ok_or(Error::Constant { name: name.clone(), known: known.join(", ") })?;
            param.check(value)?;
        }
        Ok(read)
    }

    /// What can be measured.
    pub fn names() -> Vec<String> {
        let of = |model: &'static crate::Model| {
            let measurable = model.params.iter().filter(|param| param.measurable);
            measurable.map(move |param| format!("{}.{}", model.name, param.name))
        };
        MODELS.iter().copied().flat_map(of).collect()
    }

    /// What was measured of `model`.
    pub(crate) fn of(&self, model: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.constants
            .iter()
            .filter_map(move |(name, value)| Some((name.strip_prefix(model)?.strip_prefix('.')?, value)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(constants: &str) -> Result<Calibration, String> {
        let text = format!(r#"{{"schema": "{SCHEMA}", "machine": "a", "constants": {constants}}}"#);
        Calibration::parse(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn only_constants_of_machines_can_be_measured() {
        assert!(file(r#"{"reg.fixed_us": 3.5, "reg.page_us": 0.1}"#).is_ok());
        for (constants, words) in [
            (r#"{"reg.fixed_ms": 1}"#, "'reg.fixed_ms' is no constant"),
            (r#"{"reg.bytes": 1}"#, "'reg.bytes' is no constant"),
            (r#"{"nothing.fixed_us": 1}"#, "'nothing.fixed_us' is no constant"),
            (r#"{"reg.fixed_us": -1}"#, "fixed_us '-1': expected"),
        ] {
            let error = file(constants).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let other = Calibration::parse(r#"{"schema": "x/1", "constants": {}}"#).unwrap_err().to_string();
        assert!(other.contains("schema 'x/1'") && other.contains(SCHEMA), "{other}");
    }
}
