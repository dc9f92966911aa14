//! `docs/faults.md` lists exactly the rules there are, each with its section, and tests that there are.

use warpbell_softctl::{Rule, Severity};

use crate::all;

/// The cells of the rows of the page's table of rules.
fn rows() -> Vec<Vec<String>> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/faults.md");
    let page = std::fs::read_to_string(path).expect("docs/faults.md");
    let table = page.split("## Rules").nth(1).expect("a section \"Rules\"");
    let table = table.split("\n## ").next().expect("text of the section");
    let cells = |line: &str| line.trim_matches('|').split('|').map(|cell| cell.trim().to_owned()).collect();
    table.lines().filter(|line| line.starts_with("| `")).map(cells).collect()
}

#[test]
fn the_page_lists_exactly_the_rules() {
    let listed: Vec<String> = rows().iter().map(|row| row[0].trim_matches('`').to_owned()).collect();
    let rules: Vec<String> = Rule::ALL.iter().map(|rule| rule.name().to_owned()).collect();
    assert_eq!(listed, rules);
}

#[test]
fn the_page_says_of_each_rule_what_the_checker_says() {
    for (row, rule) in rows().iter().zip(Rule::ALL) {
        let [_, section, severity, _, tests] = &row[..] else { panic!("{rule}: {} cells, not 5", row.len()) };
        assert_eq!(section, rule.section(), "{rule}");
        let expected = if rule.severity() == Severity::Violation { "violation" } else { "refusal" };
        assert_eq!(severity, expected, "{rule}");
        let named: Vec<&str> = tests.split(", ").map(|test| test.trim_matches('`')).collect();
        let cases: Vec<&str> = all().filter(|case| case.rule == *rule).map(|case| case.name).collect();
        assert_eq!(named, cases, "{rule}");
    }
}
