//! Tier U: the page of challenges is what its data makes, and what it names is there; README has its example.

use std::fs;
use std::path::{Path, PathBuf};

use warpbell_plan::challenges;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn text(path: impl AsRef<Path>) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_default()
}

#[test]
fn the_page_is_not_stale() {
    let (there, made) = (text("docs/challenges.md"), challenges::page().unwrap());
    // Not assert_eq: two pages of a hundred lines say nothing.
    let differs = there.lines().zip(made.lines()).find(|(left, right)| left != right);
    assert!(
        there == made,
        "docs/challenges.md is stale, run scripts/regenerate-challenges; first difference: {differs:?}"
    );
}

#[test]
fn the_readme_has_the_example_from_rust() {
    let (readme, example) = (text("README.md"), text("examples/from_rust.rs"));
    // README leaves out the comments and the lint at its top.
    let (_, program) = example.split_once("\nuse ").unwrap();
    assert!(readme.contains(&format!("```rust\nuse {program}```\n")));
    // Who follows README has made this file minutes before, and runs the example in the same folder.
    assert!(
        readme.contains("> disk.img") && !program.contains("disk.img"),
        "the example writes over disk.img"
    );
}

/// Whether `file` has a test function of this name that runs without being asked for.
fn has_test(file: &str, name: &str) -> bool {
    let lines: Vec<&str> = file.lines().map(str::trim).collect();
    let defined = |line: &&str| {
        line.strip_prefix("fn ")
            .and_then(|rest| rest.strip_prefix(name))
            .is_some_and(|rest| rest.starts_with('('))
    };
    lines.iter().enumerate().filter(|(_, line)| defined(line)).any(|(at, _)| {
        let attributes: Vec<_> = lines[..at].iter().rev().take_while(|line| line.starts_with("#[")).collect();
        attributes.contains(&&"#[test]") && !attributes.iter().any(|line| line.starts_with("#[ignore"))
    })
}

#[test]
fn each_test_that_a_challenge_names_is_there() {
    for challenge in challenges::all().unwrap() {
        for test in &challenge.tests {
            let (path, name) = test.rsplit_once("::").expect("path::function");
            assert!(has_test(&text(path), name), "challenge {}: {test}", challenge.number);
        }
    }
}

#[test]
fn a_test_that_is_not_there_is_noticed() {
    let file = "#[test]\n    #[cfg(unix)]\n    fn runs() {\n}\nfn helps() {\n}\n#[test]\n#[ignore = \"long\"]\nfn sleeps() {\n";
    assert!(has_test(file, "runs"));
    for name in ["helps", "sleeps", "run", "nothing"] {
        assert!(!has_test(file, name), "{name}");
    }
    assert!(!has_test(&text("tests/tests/nowhere.rs"), "runs"));
}

/// All Rust sources below a folder, in one text.
fn sources(folder: &Path) -> String {
    let entries = fs::read_dir(folder).expect("the folder is there").flatten();
    let all = entries.map(|entry| match entry.path() {
        path if path.is_dir() => sources(&path),
        path if path.extension().is_some_and(|kind| kind == "rs") => text(path),
        _ => String::new(),
    });
    all.collect()
}

#[test]
fn each_rule_has_its_switch_and_a_test_that_misses_it() {
    let (switches, tests) =
        (text("kernels/include/warpbell/mutation.cuh"), sources(&root().join("tests/tests")));
    for challenge in challenges::all().unwrap() {
        for rule in &challenge.rules {
            assert!(switches.contains(&format!("WARPBELL_SWITCH({rule}, ")), "{rule}: no such switch");
            assert!(tests.contains(&format!("(\"{rule}\", ")), "{rule}: no test says what catches it");
        }
    }
}

#[test]
fn each_page_and_script_that_a_challenge_names_is_there() {
    for challenge in challenges::all().unwrap() {
        for page in &challenge.pages {
            assert!(root().join(format!("docs/{page}.md")).is_file(), "{page}");
        }
        for command in &challenge.commands {
            let program = command.split_whitespace().next().unwrap_or_default();
            assert!(program == "warpbell" || root().join(program).is_file(), "{command}");
        }
    }
}
