//! What a model says: inputs with where they come from, formula, results, the bound that decides, how sure it is.

use std::fmt::Write;

use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::Value;

use crate::number::value as show;

/// Name and version of the document's form.
pub const SCHEMA: &str = "warpbell.plan/1";

/// What a model answers.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Answer {
    /// Form of the document.
    pub schema: &'static str,
    /// Version of this program.
    pub warpbell: &'static str,
    /// The model.
    pub model: &'static str,
    /// What it answers.
    pub question: &'static str,
    /// What was put in.
    #[serde(serialize_with = "by_name")]
    pub inputs: Vec<InputValue>,
    /// How it is computed.
    pub formula: &'static [&'static str],
    /// What came out.
    #[serde(serialize_with = "by_name")]
    pub results: Vec<Figure>,
    /// Which of the bounds decides.
    pub bound: String,
    /// What this says of the source's expectation, where the model has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub verdict: Option<Verdict>,
    /// How sure it is.
    pub confidence: Confidence,
    /// What the model leaves out.
    pub limits: Vec<&'static str>,
}

/// An input as it was used.
#[derive(Clone, Debug, serde::Serialize)]
pub struct InputValue {
    /// Its name.
    #[serde(skip)]
    pub name: &'static str,
    /// Its value.
    pub value: Value,
    /// Its unit.
    pub unit: &'static str,
    /// Where the value comes from.
    pub from: Origin,
    /// What it is.
    pub meaning: &'static str,
}

/// Where the value of an input comes from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The model's own.
    Default,
    /// A preset of the model.
    Preset(&'static str),
    /// A measurement, from the calibration file.
    Calibration,
    /// The user.
    Given,
}

impl std::fmt::Display for Origin {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Origin::Default => out.write_str("default"),
            Origin::Preset(name) => write!(out, "preset {name}"),
            Origin::Calibration => out.write_str("calibrated"),
            Origin::Given => out.write_str("given"),
        }
    }
}

impl Serialize for Origin {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// A result.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Figure {
    /// Its name, which ends in its unit.
    #[serde(skip)]
    pub name: &'static str,
    /// Its value; null where there is none.
    pub value: Value,
    /// Its unit.
    pub unit: &'static str,
    /// What it is.
    pub meaning: &'static str,
}

impl Figure {
    /// A result.
    pub(crate) fn new(
        name: &'static str,
        value: impl Into<Value>,
        unit: &'static str,
        meaning: &'static str,
    ) -> Figure {
        Figure { name, value: value.into(), unit, meaning }
    }
}

/// How sure an answer is.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Confidence {
    /// What kind of statement it is.
    pub level: Sure,
    /// What it rests on.
    pub source: &'static str,
    /// Constants of a machine that were measured.
    pub measured: Vec<&'static str>,
    /// Constants of a machine that were not: defaults, presets, or what was given.
    pub not_measured: Vec<&'static str>,
    /// When and on what those were measured that were.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub measured_on: Option<String>,
}

/// What kind of statement an answer is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sure {
    /// Arithmetic on what a specification says: as right as its inputs.
    Specified,
    /// An upper bound: nothing goes beyond it, most stays below.
    Bound,
    /// A model: as good as its constants, which differ from machine to machine.
    Model,
    /// A question of what would be if; no machine is known to work so.
    WhatIf,
}

impl Sure {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Sure::Specified => "arithmetic on what a specification says, as right as its inputs",
            Sure::Bound => "an upper bound: nothing goes beyond it, most stays below",
            Sure::Model => "a model, as good as its constants",
            Sure::WhatIf => "what would be if; no machine is known to work so",
        }
    }
}

/// What came of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// It follows.
    Reproduced,
    /// It follows where something holds that the source does not say.
    ReproducedWithAssumption,
    /// It does not follow, or something else does.
    Contradicted,
    /// Nothing that it could be held against is known.
    CannotBeVerified,
}

impl Verdict {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Verdict::Reproduced => "reproduced",
            Verdict::ReproducedWithAssumption => "reproduced with an assumption",
            Verdict::Contradicted => "contradicted",
            Verdict::CannotBeVerified => "cannot be verified",
        }
    }
}

impl Answer {
    /// The result `name`.
    pub fn result(&self, name: &str) -> Option<&Value> {
        self.results.iter().find(|figure| figure.name == name).map(|figure| &figure.value)
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut text = format!("plan {}: {}\ninputs\n", self.model, self.question);
        let rows = self.inputs.iter().map(|one| {
            [
                one.name.to_owned(),
                with_unit(&one.value, one.unit),
                format!("({})", one.from),
                one.meaning.to_owned(),
            ]
        });
        text += &columns(rows.collect());
        text += "formula\n";
        for line in self.formula {
            let _ = writeln!(text, "  {line}");
        }
        text += "results\n";
        let rows = self.results.iter().map(|one| {
            [one.name.to_owned(), with_unit(&one.value, one.unit), one.meaning.to_owned(), String::new()]
        });
        text += &columns(rows.collect());
        let _ = writeln!(text, "bound: {}", self.bound);
        if let Some(verdict) = self.verdict {
            let _ = writeln!(text, "verdict on the article's expectation: {}", verdict.words());
        }
        let _ = writeln!(text, "sure: {}; {}", self.confidence.level.words(), self.confidence.source);
        text += &self.constants();
        for limit in &self.limits {
            let _ = writeln!(text, "limit: {limit}");
        }
        text
    }

    /// Which constants were measured, and which were not.
    fn constants(&self) -> String {
        let mut text = String::new();
        for (what, names) in
            [("measured", &self.confidence.measured), ("not measured here", &self.confidence.not_measured)]
        {
            if !names.is_empty() {
                let _ = writeln!(text, "constants {what}: {}", names.join(", "));
            }
        }
        if let Some(source) = &self.confidence.measured_on {
            let _ = writeln!(text, "measured: {source}");
        }
        text
    }
}

/// What is not there has no unit.
fn with_unit(value: &Value, unit: &str) -> String {
    if value.is_null() {
        return show(value);
    }
    format!("{} {unit}", show(value)).trim_end().to_owned()
}

/// Rows of four cells, each column as wide as its widest.
fn columns(rows: Vec<[String; 4]>) -> String {
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths = [width(0), width(1), width(2)];
    let mut text = String::new();
    for [a, b, c, d] in &rows {
        let line = format!("  {a:<0$}  {b:<1$}  {c:<2$}  {d}", widths[0], widths[1], widths[2]);
        let _ = writeln!(text, "{}", line.trim_end());
    }
    text
}

/// What has a name of its own becomes a map, in the order of the list.
trait Named {
    fn name(&self) -> &'static str;
}

impl Named for InputValue {
    fn name(&self) -> &'static str {
        self.name
    }
}

impl Named for Figure {
    fn name(&self) -> &'static str {
        self.name
    }
}

fn by_name<T: Named + Serialize, S: Serializer>(all: &[T], serializer: S) -> Result<S::Ok, S::Error> {
    let mut map = serializer.serialize_map(Some(all.len()))?;
    for one in all {
        map.serialize_entry(one.name(), one)?;
    }
    map.end()
}
