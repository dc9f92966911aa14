//! Counts what each call of the device library costs and writes `costs.txt`, or with `--check` compares.
//! `scripts/regenerate-costs` calls it.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs};

use warpbell_kernels::{costs, toolchain};

fn main() -> ExitCode {
    let check = env::args().nth(1).is_some_and(|argument| argument == "--check");
    match run(check) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(check: bool) -> Result<(), String> {
    let nvcc = toolchain::nvcc().ok_or("no nvcc: scripts/cuda-setup installs one")?;
    let table = costs::measure(&nvcc).map_err(|error| error.to_string())?;
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("costs.txt");
    let text = table.to_text();
    if fs::read_to_string(&path).is_ok_and(|old| old == text) {
        return Ok(());
    }
    if check {
        return Err(format!("{} is not what {} makes of the sources", path.display(), table.compiler));
    }
    fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("wrote {} ({} rows, {})", path.display(), table.rows.len(), table.compiler);
    Ok(())
}
