//! Writes the pages that are made from data, or with `--check` compares. `scripts/regenerate-claims` calls it.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use warpbell_plan::pages::{PAGES, Page};

fn main() -> ExitCode {
    let check = env::args().nth(1).is_some_and(|argument| argument == "--check");
    let mut ending = ExitCode::SUCCESS;
    for page in &PAGES {
        if let Err(why) = regenerate(page, check) {
            eprintln!("error: {why}");
            ending = ExitCode::FAILURE;
        }
    }
    ending
}

fn regenerate(page: &Page, check: bool) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(page.file);
    let text = (page.make)().map_err(|error| error.to_string())?;
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if check {
        return Err(format!(
            "{} is not what {} makes of it: scripts/regenerate-claims",
            page.file, page.data
        ));
    }
    fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))
}
