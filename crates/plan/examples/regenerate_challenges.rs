//! Writes docs/challenges.md, or with `--check` compares. `scripts/regenerate-challenges` calls it.

use std::path::Path;
use std::{env, fs};

use anyhow::{Context, bail};
use warpbell_plan::challenges;

fn main() -> anyhow::Result<()> {
    let check = env::args().nth(1).is_some_and(|argument| argument == "--check");
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/challenges.md");
    let text = challenges::page()?;
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if check {
        bail!("docs/challenges.md is not what challenges.toml makes of it: scripts/regenerate-challenges");
    }
    fs::write(&path, text).with_context(|| path.display().to_string())
}
