//! What came of it: lines as it goes, a table and a count at the end, and one JSON document.

use std::path::Path;

use anyhow::Context;
use serde::Serialize;

use crate::run::{Fixture, Skipped};

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.gpu-check/1";

/// How a check or a figure ended, and what there is to say about it.
#[derive(Debug, Serialize)]
#[serde(tag = "outcome", content = "text", rename_all = "lowercase")]
pub enum Outcome {
    Passed(String),
    Failed(String),
    Skipped(String),
}

impl Outcome {
    pub fn of(error: &anyhow::Error) -> Outcome {
        match error.downcast_ref::<Skipped>() {
            Some(why) => Outcome::Skipped(why.to_string()),
            None => Outcome::Failed(format!("{error:#}")),
        }
    }

    fn word(&self) -> &'static str {
        match self {
            Outcome::Passed(_) => "ok",
            Outcome::Failed(_) => "FAILED",
            Outcome::Skipped(_) => "skipped",
        }
    }

    fn text(&self) -> &str {
        match self {
            Outcome::Passed(text) | Outcome::Failed(text) | Outcome::Skipped(text) => text,
        }
    }
}

/// A check that was run.
#[derive(Debug, Serialize)]
pub struct CheckResult {
    pub name: &'static str,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub seconds_s: f64,
}

/// One value of a figure.
#[derive(Debug, Serialize)]
pub struct Row {
    /// Under which circumstances.
    pub what: String,
    pub value: f64,
    pub unit: &'static str,
    /// What it is to be at least, or at most, on an H200 where kernels run on a GPU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// What else there is to say.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What a value is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    AtLeast(f64),
}

impl Row {
    pub fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { what: what.into(), value, unit, aim: None, note: String::new() }
    }

    pub fn at_least(self, aim: f64) -> Row {
        Row { aim: Some(Aim::AtLeast(aim)), ..self }
    }

    pub fn note(self, note: impl Into<String>) -> Row {
        Row { note: note.into(), ..self }
    }

    fn aim_text(&self, judged: bool) -> String {
        match self.aim {
            None => String::new(),
            Some(Aim::AtLeast(aim)) if !judged => format!("aim {aim}, not for this target"),
            Some(Aim::AtLeast(aim)) if self.value >= aim => format!("aim {aim}: met"),
            Some(Aim::AtLeast(aim)) => format!("aim {aim}: MISSED"),
        }
    }
}

/// A figure that was measured.
#[derive(Debug, Serialize)]
pub struct FigureResult {
    pub name: &'static str,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub rows: Vec<Row>,
}

/// Everything.
#[derive(Debug, Serialize)]
pub struct Report {
    schema: &'static str,
    warpbell: &'static str,
    target: String,
    target_name: String,
    /// Figures of the CPU target are no hardware figures.
    hardware_figures: bool,
    quick: bool,
    checks: Vec<CheckResult>,
    figures: Vec<FigureResult>,
}

impl Report {
    pub fn new(fixture: &Fixture) -> Report {
        Report {
            schema: SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            target: fixture.target.to_string(),
            target_name: fixture.target_name.clone(),
            hardware_figures: fixture.is_hardware(),
            quick: fixture.quick,
            checks: Vec::new(),
            figures: Vec::new(),
        }
    }

    pub fn print_head(&self) {
        println!("target {}: {}", self.target, self.target_name);
        if !self.hardware_figures {
            println!("no GPU: what is measured here says nothing about one");
        }
    }

    pub fn add_check(&mut self, check: CheckResult) {
        let CheckResult { name, outcome, seconds_s } = &check;
        println!("{:<8}{name:<44} {seconds_s:>6.1} s  {}", outcome.word(), outcome.text());
        self.checks.push(check);
    }

    pub fn add_figure(&mut self, figure: FigureResult) {
        println!("{:<8}{} {}", figure.outcome.word(), figure.name, figure.outcome.text());
        for row in &figure.rows {
            let aim = row.aim_text(self.hardware_figures);
            println!("        {:<52} {:>12.3} {:<10} {aim} {}", row.what, row.value, row.unit, row.note);
        }
        self.figures.push(figure);
    }

    fn outcomes(&self) -> impl Iterator<Item = &Outcome> {
        let checks = self.checks.iter().map(|check| &check.outcome);
        checks.chain(self.figures.iter().map(|figure| &figure.outcome))
    }

    fn count(&self, of: impl Fn(&Outcome) -> bool) -> usize {
        self.outcomes().filter(|outcome| of(outcome)).count()
    }

    pub fn failed(&self) -> usize {
        self.count(|outcome| matches!(outcome, Outcome::Failed(_)))
    }

    pub fn is_empty(&self) -> bool {
        self.checks.is_empty() && self.figures.is_empty()
    }

    pub fn print_end(&self) {
        let passed = self.count(|outcome| matches!(outcome, Outcome::Passed(_)));
        let skipped = self.count(|outcome| matches!(outcome, Outcome::Skipped(_)));
        println!("{passed} passed, {} failed, {skipped} skipped", self.failed());
    }

    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)?;
        std::fs::write(path, text + "\n").with_context(|| format!("cannot write {}", path.display()))
    }
}
