//! The fourteen challenges of NVMe driven by GPUs: what is done about each, what shows it, and what nothing shows yet.
//!
//! `challenges.toml` has them; `docs/challenges.md` is made of it by `scripts/regenerate-challenges`.

mod markdown;

use crate::error::Error;

pub use markdown::page;

const FILE: &str = "challenges.toml";
const DATA: &str = include_str!("../challenges.toml");

/// One of the challenges.
#[derive(Clone, Debug, serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Challenge {
    /// 1 to 14, as the source counts.
    pub number: u32,
    /// What is hard.
    pub name: String,
    /// What the source suggests.
    pub suggested: String,
    /// How far it is met.
    pub state: State,
    /// What Warpbell does.
    pub does: String,
    /// Tests that show it, as `path::function`.
    #[serde(default)]
    pub tests: Vec<String>,
    /// Rules of the device library without which a test fails: their switches.
    #[serde(default)]
    pub rules: Vec<String>,
    /// Commands that show it, each ending by itself in about a second.
    #[serde(default)]
    pub commands: Vec<String>,
    /// Pages that say more.
    pub pages: Vec<String>,
    /// What is not done, or shows on hardware alone.
    pub open: String,
}

/// How far a challenge is met.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// What is suggested, or something for the same end, is built, and tested without hardware.
    Built,
    /// Some of it is.
    Partly,
    /// Nothing is built: a page and a model.
    Paper,
}

impl State {
    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            State::Built => "built",
            State::Partly => "partly built",
            State::Paper => "on paper",
        }
    }
}

#[derive(serde::Deserialize)]
struct File {
    challenge: Vec<Challenge>,
}

/// All challenges.
pub fn all() -> Result<Vec<Challenge>, Error> {
    let file: File =
        toml::from_str(DATA).map_err(|error| Error::Data { file: FILE, reason: error.to_string() })?;
    Ok(file.challenge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_fourteen_are_there_and_say_what_is_open() {
        let all = all().unwrap();
        assert!(all.iter().map(|one| one.number).eq(1..=14));
        for one in &all {
            assert!(!one.open.is_empty() && !one.does.is_empty() && !one.pages.is_empty(), "{}", one.number);
            assert!(!one.commands.is_empty(), "{}: nothing to try", one.number);
            // What is called built has tests; what is on paper claims none.
            assert_eq!(one.tests.is_empty(), one.state == State::Paper, "{}", one.number);
        }
    }
}
