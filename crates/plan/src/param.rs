//! Inputs of models: name, unit, default and what values may be, in one place for flags, files and documents.

use serde_json::{Map, Value};

use crate::error::Error;

/// One input of a model.
#[derive(Clone, Copy, Debug)]
pub struct Param {
    /// Its name, which ends in its unit.
    pub name: &'static str,
    /// The unit, for people; empty for plain numbers.
    pub unit: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// What values it takes.
    pub kind: Kind,
    /// Whether it is a constant of a machine, which a measurement can replace.
    pub measurable: bool,
}

/// What values an input takes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Above zero.
    Positive,
    /// Zero or above.
    Number,
    /// From 0 to 1.
    Share,
    /// Above 0, at most 1.
    Fraction,
    /// A whole number from 1 to the limit.
    Count(u64),
    /// A whole number from 0 to the limit.
    Whole(u64),
    /// Bytes, at least 1.
    Bytes,
    /// Bytes, 0 for none.
    MaybeBytes,
    /// Numbers above zero, separated by commas; none is the default of the model.
    Weights,
    /// One of these words.
    Choice(&'static [&'static str]),
}

/// The largest size that stays exact in the arithmetic of the models.
const MAX_BYTES: u64 = 1 << 53;

impl Param {
    /// Whether the input can have this value.
    pub fn check(&self, value: &Value) -> Result<(), Error> {
        match self.complaint(value) {
            None => Ok(()),
            Some(reason) => Err(Error::value(self.name, crate::number::value(value), reason)),
        }
    }

    fn complaint(&self, value: &Value) -> Option<String> {
        match self.kind {
            Kind::Positive => match value.as_f64() {
                Some(number) if number > 0.0 && number < MIN_NUMBER => {
                    Some("expected a number above 0, 1e-18 at least".to_owned())
                }
                _ => float(value, "a number above 0", |number| number > 0.0),
            },
            Kind::Number => float(value, "a number, 0 or above", |number| number >= 0.0),
            Kind::Share => float(value, "a number from 0 to 1", |number| (0.0..=1.0).contains(&number)),
            Kind::Fraction => {
                float(value, "a number above 0, at most 1", |number| number > 0.0 && number <= 1.0)
            }
            Kind::Count(limit) => whole(value, 1, limit),
            Kind::Whole(limit) => whole(value, 0, limit),
            Kind::Bytes => whole(value, 1, MAX_BYTES),
            Kind::MaybeBytes => whole(value, 0, MAX_BYTES),
            Kind::Weights => {
                let right = value
                    .as_array()
                    .is_some_and(|all| all.iter().all(|one| float(one, "", |number| number > 0.0).is_none()));
                (!right).then(|| "expected numbers above 0, separated by commas".to_owned())
            }
            Kind::Choice(words) => {
                let right = value.as_str().is_some_and(|word| words.contains(&word));
                (!right).then(|| format!("expected one of {}", words.join(", ")))
            }
        }
    }
}

/// The largest number that any model takes: far above anything real, far below where arithmetic overflows.
const MAX_NUMBER: f64 = 1e18;

/// The smallest that divides anything: far below anything real, far above where a quotient overflows.
const MIN_NUMBER: f64 = 1e-18;

fn float(value: &Value, words: &str, right: impl Fn(f64) -> bool) -> Option<String> {
    let fits =
        value.as_f64().is_some_and(|number| number.is_finite() && number <= MAX_NUMBER && right(number));
    (!fits).then(|| format!("expected {words}"))
}

fn whole(value: &Value, from: u64, to: u64) -> Option<String> {
    let fits = value.as_u64().is_some_and(|number| (from..=to).contains(&number));
    (!fits).then(|| format!("expected a whole number from {from} to {to}"))
}

/// Reads a model's inputs, which have been checked one by one.
pub(crate) fn read<T: serde::de::DeserializeOwned>(values: &Map<String, Value>) -> Result<T, Error> {
    serde_json::from_value(Value::Object(values.clone())).map_err(|error| Error::Together(error.to_string()))
}

/// Declares the inputs of a model: a struct with defaults, and their table. An input that ends in `measurable` is a
/// constant of a machine, which a calibration may replace.
macro_rules! inputs {
    ($($name:ident: $type:ty = $default:expr, $kind:expr, $unit:literal, $meaning:literal $(, $measurable:ident)?;)*) => {
        /// What the model is asked with.
        #[derive(Clone, Debug, serde::Deserialize, serde::Serialize)]
        #[serde(deny_unknown_fields)]
        pub struct Input {
            $(#[doc = $meaning] pub $name: $type,)*
        }

        impl Default for Input {
            fn default() -> Input {
                Input { $($name: $default,)* }
            }
        }

        const PARAMS: &[$crate::param::Param] = &[$(
            $crate::param::Param {
                name: stringify!($name),
                unit: $unit,
                meaning: $meaning,
                kind: $kind,
                measurable: inputs!(@measurable $($measurable)?),
            },
        )*];
    };
    (@measurable measurable) => { true };
    (@measurable) => { false };
}
pub(crate) use inputs;

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn refusal(kind: Kind, value: Value) -> Option<String> {
        let param = Param { name: "n", unit: "", meaning: "", kind, measurable: false };
        param.check(&value).err().map(|error| error.to_string())
    }

    #[test]
    fn values_have_limits_that_are_named() {
        for (kind, right, wrong, words) in [
            (Kind::Positive, json!(0.5), json!(0), "n '0': expected a number above 0"),
            (
                Kind::Positive,
                json!(1e-18),
                json!(1e-19),
                "n '1.000e-19': expected a number above 0, 1e-18 at least",
            ),
            (Kind::Number, json!(0), json!(-1), "n '-1': expected a number, 0 or above"),
            (Kind::Share, json!(1), json!(1.1), "n '1.1': expected a number from 0 to 1"),
            (Kind::Fraction, json!(1), json!(0), "n '0': expected a number above 0, at most 1"),
            (Kind::Count(8), json!(8), json!(9), "n '9': expected a whole number from 1 to 8"),
            (Kind::Whole(8), json!(0), json!(1.5), "n '1.5': expected a whole number from 0 to 8"),
            (Kind::Bytes, json!(4096), json!(0), "n '0': expected a whole number from 1 to 9007199254740992"),
            (
                Kind::Weights,
                json!([1, 2.5]),
                json!([1, 0]),
                "n '1,0': expected numbers above 0, separated by commas",
            ),
            (Kind::Choice(&["a", "b"]), json!("a"), json!("c"), "n 'c': expected one of a, b"),
            (Kind::Number, json!(1e18), json!(1e19), "n '1.000e19': expected a number, 0 or above"),
        ] {
            assert_eq!(refusal(kind, right), None);
            assert_eq!(refusal(kind, wrong).as_deref(), Some(words));
        }
    }
}
