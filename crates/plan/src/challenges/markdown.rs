//! The challenges as a page.

use std::fmt::Write;

use super::{Challenge, all};
use crate::error::Error;

const HEAD: &str = "\
# The fourteen challenges

<!-- Made by scripts/regenerate-challenges from crates/plan/challenges.toml; change it there. -->

A public \"Solutions Architecture\" for NVMe from GPUs lists fourteen things that make it hard.
This page says what Warpbell does about each, what shows it, and what nothing shows yet.

- *Built*: the suggestion of that document, or another solution, exists and is tested without
  hardware.
- *Partly built*: a part of it exists.
- *On paper*: a page and a model exist.

**None of this has run on a GPU or on a real SSD.** Tests run kernels on the CPU target, against the
software controller. Where a scene of the [guest](testing.md#the-guest) is named, they run on QEMU's
SSDs under a real kernel.

`cargo test -p PACKAGE NAME` runs a test. A *rule* is a switch that turns one rule of the device
library off; a test must then fail. Tests fail if this page is stale, if a test, rule, page or
script that it names does not exist, or if one of its commands does not run.
";

/// The page.
pub fn page() -> Result<String, Error> {
    let all = all()?;
    let mut page = HEAD.to_owned();
    page += "\n| | challenge | state |\n| --- | --- | --- |\n";
    for one in &all {
        let cells = [format!("{}", one.number), one.name.clone(), one.state.words().into()];
        let _ = writeln!(page, "| {} |", cells.map(|cell| cell.replace('|', "\\|")).join(" | "));
    }
    all.iter().for_each(|one| page += &section(one));
    Ok(page)
}

fn section(one: &Challenge) -> String {
    let mut text = format!("\n## {}. {}\n\n", one.number, one.name);
    text += &paragraph(&format!("Suggested: {}.", one.suggested));
    text += "\n";
    let pages: Vec<String> = one.pages.iter().map(|page| format!("[{page}]({page}.md)")).collect();
    text += &paragraph(&format!("{} More: {}.", one.does, pages.join(", ")));
    if !one.tests.is_empty() {
        text += "\n| test | of | where |\n| --- | --- | --- |\n";
        one.tests.iter().for_each(|test| text += &row(test));
    }
    if !one.rules.is_empty() {
        let rules: Vec<String> = one.rules.iter().map(|rule| format!("`{rule}`")).collect();
        text += "\n";
        text += &paragraph(&format!("Rules: {}.", rules.join(", ")));
    }
    let _ = write!(text, "\n```sh\n{}\n```\n", one.commands.join("\n"));
    text += "\n";
    text += &paragraph(&format!("Open: {}.", one.open));
    text
}

/// Columns of a line of the documentation.
const COLUMNS: usize = 100;

/// Text in lines that are no longer than that, as far as its words are not.
fn paragraph(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let last = lines.len() - 1;
        match lines[last].chars().count() + 1 + word.chars().count() {
            _ if lines[last].is_empty() => lines[last].push_str(word),
            length if length > COLUMNS => lines.push(word.to_owned()),
            _ => lines[last] += &format!(" {word}"),
        }
    }
    lines.join("\n") + "\n"
}

/// A test: its name, its package, and where it runs.
fn row(test: &str) -> String {
    let (path, name) = test.rsplit_once("::").unwrap_or(("", test));
    let mut parts = path.split('/');
    let package = match (parts.next(), parts.next()) {
        (Some("crates"), Some("warpbell")) => "warpbell".to_owned(),
        (Some("crates"), Some(folder)) => format!("warpbell-{folder}"),
        (Some(folder), _) => format!("warpbell-{folder}"),
        _ => String::new(),
    };
    let scene = path.strip_prefix("tests/tests/guest/").and_then(|file| file.strip_suffix(".rs"));
    let place = match scene {
        Some(scene) => format!("`scripts/guest test {scene}`"),
        None => format!("[{path}](../{path})"),
    };
    format!("| `{name}` | {package} | {place} |\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_paragraph_have_100_columns_at_most() {
        let page = paragraph(&"word ".repeat(100));
        assert_eq!(page.lines().map(str::len).max(), Some(99));
        assert_eq!(paragraph(" a  b\n"), "a b\n");
    }

    #[test]
    fn a_test_is_named_with_its_package_and_where_it_runs() {
        assert_eq!(
            row("crates/warpbell/src/queues/layout.rs::a"),
            "| `a` | warpbell | [crates/warpbell/src/queues/layout.rs](../crates/warpbell/src/queues/layout.rs) |\n"
        );
        assert_eq!(
            row("tests/tests/guest/stray.rs::b"),
            "| `b` | warpbell-tests | `scripts/guest test stray` |\n"
        );
        assert!(row("crates/softctl/tests/io.rs::c").starts_with("| `c` | warpbell-softctl |"));
    }
}
