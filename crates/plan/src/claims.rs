//! The claims ledger: figures of the source documents, recomputed by the models, each with a verdict.
//!
//! `claims.toml` has the claims; `docs/claims.md` is made of it by `scripts/regenerate-claims`.

mod markdown;

use serde_json::{Map, Value};

use crate::answer::Verdict;
use crate::error::Error;
use crate::golden::near;
use crate::model::Settings;
use crate::models::find;

pub use markdown::page;

const FILE: &str = "claims.toml";
const DATA: &str = include_str!("../claims.toml");
/// How far a recomputed value may be from the one in the ledger.
const DRIFT: f64 = 0.002;

/// A figure of a source document.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    id: String,
    /// Rows of the inventory and of the list of errors that it is about.
    rows: Vec<String>,
    source: String,
    says: String,
    verdict: Verdict,
    why: String,
    /// What must hold besides, where the verdict says so.
    #[serde(default)]
    assumption: Option<String>,
    /// What it was held against, where that is no model.
    #[serde(default)]
    basis: Option<String>,
    /// How near a claimed value must be to count as the same.
    #[serde(default = "two_percent")]
    tolerance: f64,
    #[serde(default)]
    check: Vec<Question>,
}

fn two_percent() -> f64 {
    0.02
}

/// What a model is asked about a claim.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Question {
    model: String,
    #[serde(default)]
    preset: Option<String>,
    #[serde(default)]
    input: Map<String, Value>,
    result: String,
    /// What the source says: a value, or a lowest and a highest one; nothing where it only follows.
    #[serde(default)]
    claimed: Option<Value>,
    recomputed: Value,
}

#[derive(serde::Deserialize)]
struct File {
    claim: Vec<Entry>,
}

/// A claim, recomputed.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Claim {
    /// Its name.
    pub id: String,
    /// Rows of the inventory (S4-19) and of the list of errors (E-05) that it is about.
    pub rows: Vec<String>,
    /// Document and line.
    pub source: String,
    /// What is claimed.
    pub says: String,
    /// What came of it.
    pub verdict: Verdict,
    /// What must hold besides.
    pub assumption: Option<String>,
    /// Why the verdict is what it is.
    pub why: String,
    /// What it was held against, besides models.
    pub basis: Option<String>,
    /// What models say of it.
    pub recomputed: Vec<Recomputed>,
    /// What is wrong with the entry itself: a value that drifted, a verdict that does not follow.
    pub faults: Vec<String>,
}

/// What a model says of a claim.
#[derive(Clone, Debug, serde::Serialize)]
pub struct Recomputed {
    /// The command that shows it.
    pub command: String,
    /// The result that is looked at.
    pub result: String,
    /// Its unit.
    pub unit: &'static str,
    /// What the source says.
    pub claimed: Option<Value>,
    /// What the model says.
    pub found: Value,
    /// Whether that is the same; nothing where the source says nothing.
    pub agrees: Option<bool>,
}

/// All claims, recomputed.
pub fn all() -> Result<Vec<Claim>, Error> {
    let file: File =
        toml::from_str(DATA).map_err(|error| Error::Data { file: FILE, reason: error.to_string() })?;
    file.claim.into_iter().map(judge).collect()
}

fn judge(entry: Entry) -> Result<Claim, Error> {
    let mut faults = Vec::new();
    let mut recomputed = Vec::new();
    for question in &entry.check {
        let answer = ask(question, entry.tolerance)?;
        if !near(&question.recomputed, &answer.found, DRIFT) {
            faults.push(format!("{} is {}, not {}", question.result, answer.found, question.recomputed));
        }
        recomputed.push(answer);
    }
    faults.extend(fault(&entry, &recomputed));
    let Entry { id, rows, source, says, verdict, why, assumption, basis, .. } = entry;
    Ok(Claim { id, rows, source, says, verdict, assumption, why, basis, recomputed, faults })
}

fn ask(question: &Question, tolerance: f64) -> Result<Recomputed, Error> {
    let settings =
        Settings { preset: question.preset.clone(), given: question.input.clone(), calibration: None };
    let answer = find(&question.model)?.answer(&settings)?;
    let figure = answer.results.iter().find(|figure| figure.name == question.result);
    let missing = || format!("{} has no result '{}'", question.model, question.result);
    let figure = figure.ok_or_else(|| Error::Data { file: FILE, reason: missing() })?;
    Ok(Recomputed {
        command: command(question),
        result: question.result.clone(),
        unit: figure.unit,
        claimed: question.claimed.clone(),
        found: figure.value.clone(),
        agrees: question.claimed.as_ref().map(|claimed| agrees(claimed, &figure.value, tolerance)),
    })
}

/// As one types it.
fn command(question: &Question) -> String {
    let mut command = format!("warpbell plan {}", question.model);
    if let Some(preset) = &question.preset {
        command += &format!(" --preset {preset}");
    }
    for (name, value) in &question.input {
        command += &format!(" --{} {}", name.replace('_', "-"), crate::number::value(value));
    }
    command
}

/// Whether what was found is what is claimed, or between both ends of it.
fn agrees(claimed: &Value, found: &Value, tolerance: f64) -> bool {
    let ends = claimed.as_array().map(Vec::as_slice);
    let (Some([low, high]), Some(found)) = (ends, found.as_f64()) else {
        return near(claimed, found, tolerance);
    };
    let (low, high) = (low.as_f64().unwrap_or(f64::NAN), high.as_f64().unwrap_or(f64::NAN));
    found >= low * (1.0 - tolerance) && found <= high * (1.0 + tolerance)
}

/// What is wrong with the verdict of an entry.
fn fault(entry: &Entry, recomputed: &[Recomputed]) -> Option<String> {
    let judged: Vec<bool> = recomputed.iter().filter_map(|one| one.agrees).collect();
    let held = !judged.is_empty() || entry.basis.is_some();
    let (all, some) = (judged.iter().all(|agrees| *agrees), judged.iter().any(|agrees| !agrees));
    let assumed = entry.verdict == Verdict::ReproducedWithAssumption;
    if assumed != entry.assumption.is_some() {
        return Some("an assumption, and a verdict that says so, go together".to_owned());
    }
    let follows = match entry.verdict {
        Verdict::Reproduced | Verdict::ReproducedWithAssumption => held && all,
        Verdict::Contradicted => some || (judged.is_empty() && entry.basis.is_some()),
        Verdict::CannotBeVerified => judged.is_empty(),
    };
    (!follows).then(|| format!("'{}' does not follow from {judged:?}", entry.verdict.words()))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use serde_json::json;

    use super::*;

    #[test]
    fn recomputed_values_and_verdicts_hold() {
        for claim in all().unwrap() {
            assert!(claim.faults.is_empty(), "{}: {:?}", claim.id, claim.faults);
            assert!(!claim.source.is_empty() && !claim.says.is_empty() && !claim.why.is_empty());
        }
    }

    #[test]
    fn names_are_unique_and_every_error_of_the_reference_is_there() {
        let claims = all().unwrap();
        let names: BTreeSet<_> = claims.iter().map(|claim| &claim.id).collect();
        assert_eq!(names.len(), claims.len());
        // E-35 is a tension of our own design, no claim of a source.
        for error in 1..=34 {
            let row = format!("E-{error:02}");
            assert!(claims.iter().any(|claim| claim.rows.contains(&row)), "{row}");
        }
        assert!(claims.len() >= 80, "{}", claims.len());
    }

    #[test]
    fn a_verdict_that_does_not_follow_is_a_fault() {
        let entry = |verdict: &str, claimed: f64, rest: &str| {
            let text = format!(
                "[[claim]]\nid = 'a'\nrows = []\nsource = 's'\nsays = 'x'\nwhy = 'y'\nverdict = '{verdict}'\n{rest}\n\
                 check = [{{ model = 'tlp', result = 'packets', claimed = {claimed}, recomputed = 16 }}]"
            );
            let file: File = toml::from_str(&text).unwrap();
            judge(file.claim.into_iter().next().unwrap()).unwrap().faults.len()
        };
        assert_eq!((entry("reproduced", 16.0, ""), entry("contradicted", 99.0, "")), (0, 0));
        assert_eq!((entry("reproduced", 99.0, ""), entry("contradicted", 16.0, "")), (1, 1));
        assert_eq!(entry("cannot-be-verified", 16.0, ""), 1);
        assert_eq!(entry("reproduced-with-assumption", 16.0, ""), 1);
        assert_eq!(entry("reproduced-with-assumption", 16.0, "assumption = 'z'"), 0);
    }

    #[test]
    fn a_range_is_met_between_its_ends() {
        for (found, inside) in [(9.0, false), (10.0, true), (55.0, true), (101.0, true), (125.0, false)] {
            assert_eq!(agrees(&json!([10, 100]), &json!(found), 0.02), inside, "{found}");
        }
        assert!(!agrees(&json!(4), &json!(4.57), 0.02) && agrees(&json!(4), &json!(4.57), 0.15));
    }
}
