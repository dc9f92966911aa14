//! What the command takes on a disk.

use std::process::Command;

/// As `scripts/install` installs it: without debug information.
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
    assert!(size <= 15 << 20, "the command has {size} bytes, 15 MiB at most");
}
