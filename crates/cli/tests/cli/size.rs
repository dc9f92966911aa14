//! What the command takes on a disk.

use std::process::Command;

/// MiB at most, as `scripts/install` installs it: without debug information. Assertions and checks for overflow, which
/// only builds for tests have, take a third more.
const LIMIT: u64 = if cfg!(debug_assertions) { 23 } else { 15 };

#[test]
fn the_command_is_small() {
    let folder = tempfile::tempdir().unwrap();
    let stripped = folder.path().join("warpbell");
    let done = Command::new("strip")
        .args(["--strip-unneeded", "-o"])
        .args([stripped.as_os_str(), env!("CARGO_BIN_EXE_warpbell").as_ref()])
        .status();
    assert!(done.unwrap().success());
    let size = std::fs::metadata(&stripped).unwrap().len();
    assert!(size <= LIMIT << 20, "the command has {size} bytes, {LIMIT} MiB at most");
}
