//! Writes the PTX of this build to `prebuilt/`, or with `--check` compares. `scripts/regenerate-ptx` calls it,
//! with `WARPBELL_NVCC` set, so that nvcc and not the folder itself is where the PTX comes from.

use std::path::Path;
use std::process::ExitCode;
use std::{env, fs, io};

use warpbell_kernels::ptx::{Format, IMAGES, Image};

fn main() -> ExitCode {
    let check = env::args().nth(1).is_some_and(|argument| argument == "--check");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("prebuilt");
    match run(&folder, check) {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {}: {error}", folder.display());
            ExitCode::FAILURE
        }
    }
}

/// Whether the folder is, or now is, right.
fn run(folder: &Path, check: bool) -> io::Result<bool> {
    let images: Vec<&Image> = IMAGES.iter().filter(|image| image.format == Format::Ptx).collect();
    if let Some(image) = images.iter().find(|image| !image.origin.starts_with("nvcc")) {
        eprintln!("error: {} of this build is not from nvcc, but {}", image.file_name(), image.origin);
        return Ok(false);
    }
    let mut right = true;
    for image in &images {
        let path = folder.join(image.file_name());
        if fs::read(&path).is_ok_and(|old| old == image.bytes) {
            continue;
        }
        if check {
            eprintln!("error: {} is not what {} makes of the sources", path.display(), image.origin);
            right = false;
        } else {
            fs::write(&path, image.bytes)?;
            println!("wrote {} ({} bytes, {})", path.display(), image.bytes.len(), image.origin);
        }
    }
    for file in fs::read_dir(folder)?.flatten().map(|entry| entry.path()) {
        let known = |image: &&Image| file.file_name().is_some_and(|name| *name == *image.file_name());
        if file.extension().is_some_and(|extension| extension == "ptx") && !images.iter().any(known) {
            eprintln!(
                "{}: {} belongs to no kernel file",
                if check { "error" } else { "removed" },
                file.display()
            );
            right &= !check;
            if !check {
                fs::remove_file(&file)?;
            }
        }
    }
    Ok(right)
}
