//! What came of it: lines as it goes, a count at the end, and one JSON document, which is written anew after each.

use std::borrow::Cow;
use std::fs;
use std::path::PathBuf;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use crate::options::Options;
use crate::run::Skipped;
use crate::worker::{Message, TargetInfo};

/// Name and version of the document's form.
const SCHEMA: &str = "warpbell.gpu-check/2";

/// How a check or a figure ended, and what there is to say about it.
#[derive(Debug, Serialize, Deserialize)]
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

    pub fn failed(&self) -> bool {
        matches!(self, Outcome::Failed(_))
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
#[derive(Debug, Serialize, Deserialize)]
pub struct CheckResult {
    pub name: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub seconds_s: f64,
}

/// One value of a figure.
#[derive(Debug, Serialize, Deserialize)]
pub struct Row {
    /// Under which circumstances.
    pub what: String,
    pub value: f64,
    pub unit: Cow<'static, str>,
    /// What it is to be at least, or at most, on an H200 where kernels run on a GPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub aim: Option<Aim>,
    /// What else there is to say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// What a value is to be.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Aim {
    AtLeast(f64),
}

impl Row {
    pub fn new(what: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row { what: what.into(), value, unit: unit.into(), aim: None, note: String::new() }
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
#[derive(Debug, Serialize, Deserialize)]
pub struct FigureResult {
    pub name: String,
    #[serde(flatten)]
    pub outcome: Outcome,
    pub seconds_s: f64,
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
    /// Whether everything was run that was to be run.
    complete: bool,
    /// What runs now.
    #[serde(skip_serializing_if = "Option::is_none")]
    running: Option<&'static str>,
    checks: Vec<CheckResult>,
    figures: Vec<FigureResult>,
    #[serde(skip)]
    path: Option<PathBuf>,
}

impl Report {
    pub fn new(options: &Options, target: &TargetInfo) -> Report {
        Report {
            schema: SCHEMA,
            warpbell: env!("CARGO_PKG_VERSION"),
            target: options.target.to_string(),
            target_name: target.name.clone(),
            hardware_figures: target.hardware,
            quick: options.quick,
            complete: false,
            running: None,
            checks: Vec::new(),
            figures: Vec::new(),
            path: options.json.clone(),
        }
    }

    pub fn print_head(&self) {
        println!("target {}: {}", self.target, self.target_name);
        if !self.hardware_figures {
            println!("no GPU: what is measured here says nothing about one");
        }
    }

    /// Says in the document what runs now: where the machine itself hangs, that is all there will be.
    pub fn begin(&mut self, name: &'static str) -> anyhow::Result<()> {
        self.running = Some(name);
        self.write()
    }

    pub fn add(&mut self, result: Message) -> anyhow::Result<()> {
        self.running = None;
        match result {
            Message::Check(check) => self.add_check(check),
            Message::Figure(figure) => self.add_figure(figure),
            Message::Ready(_) => {
                anyhow::bail!("the process that runs checks begins anew in the midst of one")
            }
        }
        self.write()
    }

    fn add_check(&mut self, check: CheckResult) {
        let CheckResult { name, outcome, seconds_s } = &check;
        println!("{:<8}{name:<44} {seconds_s:>6.1} s  {}", outcome.word(), outcome.text());
        self.checks.push(check);
    }

    fn add_figure(&mut self, figure: FigureResult) {
        let FigureResult { name, outcome, seconds_s, .. } = &figure;
        println!("{:<8}{name:<44} {seconds_s:>6.1} s  {}", outcome.word(), outcome.text());
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
        self.count(Outcome::failed)
    }

    pub fn end(&mut self) -> anyhow::Result<()> {
        let passed = self.count(|outcome| matches!(outcome, Outcome::Passed(_)));
        let skipped = self.count(|outcome| matches!(outcome, Outcome::Skipped(_)));
        println!("{passed} passed, {} failed, {skipped} skipped", self.failed());
        self.complete = true;
        self.write()
    }

    /// The whole document, in place of the one before: who reads it never finds half of one.
    fn write(&self) -> anyhow::Result<()> {
        let Some(path) = &self.path else { return Ok(()) };
        let unfinished = path.with_extension("unfinished");
        let text = serde_json::to_string_pretty(self)? + "\n";
        fs::write(&unfinished, text)
            .and_then(|()| fs::rename(&unfinished, path))
            .with_context(|| format!("cannot write {}", path.display()))
    }
}
