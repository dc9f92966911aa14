//! Writes docs/claims.md, or with `--check` compares. `scripts/regenerate-claims` calls it.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

fn main() -> ExitCode {
    let check = env::args().nth(1).is_some_and(|argument| argument == "--check");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/claims.md");
    let page = match warpbell_plan::claims::page() {
        Ok(page) => page,
        Err(error) => return failed(&error),
    };
    if fs::read_to_string(&path).is_ok_and(|old| old == page) {
        return ExitCode::SUCCESS;
    }
    if check {
        return failed(
            &"docs/claims.md is not what crates/plan/claims.toml makes of it: scripts/regenerate-claims",
        );
    }
    match fs::write(&path, page) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failed(&format!("{}: {error}", path.display())),
    }
}

fn failed(why: &dyn std::fmt::Display) -> ExitCode {
    eprintln!("error: {why}");
    ExitCode::FAILURE
}
