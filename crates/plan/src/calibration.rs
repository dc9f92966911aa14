//! Constants that were measured on a machine, in place of those of documents: the file that `warpbell bench calibrate`
//! writes, and that models read.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::error::Error;
use crate::models::MODELS;
use crate::param::Param;

/// Name and version of the file's form.
const SCHEMA: &str = "warpbell.calibration/1";

/// Constants that were measured, by `MODEL.INPUT`.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Calibration {
    schema: String,
    /// Version of the program that measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warpbell: Option<String>,
    /// When, as in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// On which machine; for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// Where kernels ran.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub target: Option<String>,
    /// Which SSD, and what kind of one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub device: Option<String>,
    /// The way of commands and data: rings, data, doorbells, data pointers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// What was measured: a value, or a [`Measured`].
    constants: BTreeMap<String, Value>,
    /// What was not, each with the reason.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub not_measured: BTreeMap<String, String>,
}

/// A constant with how it was measured.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
#[serde(deny_unknown_fields)]
pub struct Measured {
    /// The value that models take: the median of the samples.
    pub value: Value,
    /// Its unit, which must be that of the input.
    pub unit: String,
    /// How.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub how: Option<String>,
    /// How many times.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub samples: Option<u64>,
    /// The middle sample.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median: Option<f64>,
    /// A tenth of the samples is below.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p10: Option<f64>,
    /// A tenth of the samples is above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90: Option<f64>,
    /// Of constants that are of a fit: how much of the differences it explains, 1 for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub r2: Option<f64>,
}

fn wrong(reason: String) -> Error {
    Error::Data { file: "calibration", reason }
}

impl Calibration {
    /// Nothing measured yet.
    pub fn new() -> Calibration {
        Calibration {
            schema: SCHEMA.to_owned(),
            warpbell: Some(env!("CARGO_PKG_VERSION").to_owned()),
            date: None,
            machine: None,
            target: None,
            device: None,
            path: None,
            constants: BTreeMap::new(),
            not_measured: BTreeMap::new(),
        }
    }

    /// Adds a constant. Its name must be one of [`Calibration::names`], its unit and value those of the input.
    pub fn insert(&mut self, name: &str, measured: &Measured) -> Result<(), Error> {
        let value = serde_json::to_value(measured).map_err(|error| wrong(error.to_string()))?;
        check(name, &value)?;
        self.constants.insert(name.to_owned(), value);
        Ok(())
    }

    /// Reads the text of a file. Every constant is checked, as [`Calibration::insert`] does.
    pub fn parse(text: &str) -> Result<Calibration, Error> {
        let read: Calibration = serde_json::from_str(text).map_err(|error| wrong(error.to_string()))?;
        if read.schema != SCHEMA {
            return Err(wrong(format!("schema '{}': expected {SCHEMA}", read.schema)));
        }
        read.constants.iter().try_for_each(|(name, value)| check(name, value))?;
        Ok(read)
    }

    /// What can be measured, with units.
    pub fn names() -> Vec<(String, &'static str)> {
        let of = |model: &'static crate::Model| {
            let measurable = model.params.iter().filter(|param| param.measurable);
            measurable.map(move |param| (format!("{}.{}", model.name, param.name), param.unit))
        };
        MODELS.iter().copied().flat_map(of).collect()
    }

    /// The constants, with how they were measured; of plain values nothing else is known.
    pub fn constants(&self) -> impl Iterator<Item = (&str, &Value, Option<Measured>)> {
        self.constants.iter().map(|(name, value)| {
            let measured = serde_json::from_value(value.clone()).ok();
            (name.as_str(), plain(value), measured)
        })
    }

    /// What was measured of `model`.
    pub(crate) fn of(&self, model: &str) -> impl Iterator<Item = (&str, &Value)> {
        self.constants.iter().filter_map(move |(name, value)| {
            Some((name.strip_prefix(model)?.strip_prefix('.')?, plain(value)))
        })
    }

    /// When and on what it was measured, as far as it says, in words.
    pub fn source(&self) -> String {
        let target = self.target.as_ref().map(|target| format!("target {target}"));
        let parts = [self.date.clone(), self.machine.clone(), target, self.device.clone(), self.path.clone()];
        let known: Vec<String> = parts.into_iter().flatten().collect();
        if known.is_empty() {
            "a file that does not say where it was measured".to_owned()
        } else {
            known.join("; ")
        }
    }
}

impl Default for Calibration {
    fn default() -> Calibration {
        Calibration::new()
    }
}

/// The value of a constant, however much is said of it.
fn plain(value: &Value) -> &Value {
    value.get("value").unwrap_or(value)
}

/// Whether this may be said of the constant `name`.
fn check(name: &str, value: &Value) -> Result<(), Error> {
    let param = param(name)?;
    if value.is_object() {
        let measured: Measured = serde_json::from_value(value.clone())
            .map_err(|error| wrong(format!("constant '{name}': {error}")))?;
        if measured.unit != param.unit {
            let expected = if param.unit.is_empty() { "none" } else { param.unit };
            let reason = format!("constant '{name}': unit '{}': expected {expected}", measured.unit);
            return Err(wrong(reason));
        }
    }
    match param.check(plain(value)) {
        Err(Error::Value { value, reason, .. }) => {
            Err(wrong(format!("constant '{name}': value '{value}': {reason}")))
        }
        other => other,
    }
}

/// The input that the constant `name` is.
fn param(name: &str) -> Result<&'static Param, Error> {
    let found = MODELS.iter().find_map(|model| {
        let input = name.strip_prefix(model.name)?.strip_prefix('.')?;
        model.params.iter().find(|param| param.measurable && param.name == input)
    });
    let known = || Calibration::names().into_iter().map(|(name, _)| name).collect::<Vec<_>>().join(", ");
    found.ok_or_else(|| Error::Constant { name: name.to_owned(), known: known() })
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
            (r#"{"reg.fixed_us": -1}"#, "'reg.fixed_us': value '-1': expected a number, 0 or above"),
            (r#"{"reg.fixed_us": "3"}"#, "'reg.fixed_us': value '3': expected a number"),
            (r#"{"reg.fixed_us": {"value": -1, "unit": "us"}}"#, "'reg.fixed_us': value '-1': expected"),
            (r#"{"reg.fixed_us": {"value": 3, "unit": "ms"}}"#, "'reg.fixed_us': unit 'ms': expected us"),
            (r#"{"mtt.entries": {"value": 3, "unit": "us"}}"#, "'mtt.entries': unit 'us': expected none"),
            (r#"{"reg.fixed_us": {"value": 3}}"#, "'reg.fixed_us': missing field `unit`"),
            (r#"{"reg.fixed_us": {"value": 3, "unit": "us", "mean": 3}}"#, "unknown field `mean`"),
        ] {
            let error = file(constants).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        let other = Calibration::parse(r#"{"schema": "x/1", "constants": {}}"#).unwrap_err().to_string();
        assert!(other.contains("schema 'x/1'") && other.contains(SCHEMA), "{other}");
    }

    #[test]
    fn what_is_written_is_read_again() {
        let measured = Measured {
            value: 3.5.into(),
            unit: "us".to_owned(),
            how: Some("a stopwatch".to_owned()),
            samples: Some(7),
            median: Some(3.5),
            p10: Some(3.0),
            p90: Some(4.0),
            r2: None,
        };
        let mut written = Calibration { date: Some("2026-11-23T00:00:00Z".into()), ..Calibration::new() };
        written.insert("reg.fixed_us", &measured).unwrap();
        let milliseconds = Measured { unit: "ms".to_owned(), ..measured.clone() };
        assert!(written.insert("reg.page_us", &milliseconds).is_err());
        assert!(written.insert("reg.bytes", &measured).is_err());
        written.not_measured.insert("mtt.entries".to_owned(), "no adapter".to_owned());
        let read = Calibration::parse(&serde_json::to_string(&written).unwrap()).unwrap();
        assert_eq!(read, written);
        assert_eq!(read.constants().collect::<Vec<_>>(), [("reg.fixed_us", &3.5.into(), Some(measured))]);
        assert_eq!(read.of("reg").collect::<Vec<_>>(), [("fixed_us", &3.5.into())]);
        assert_eq!(read.source(), "2026-11-23T00:00:00Z");
    }
}
