//! The commands that the page of challenges names: all of them run.

use std::path::Path;
use std::process::Command;

#[test]
fn every_command_of_the_challenges_runs() {
    let program = Path::new(env!("CARGO_BIN_EXE_warpbell"));
    let path = format!("{}:{}", program.parent().unwrap().display(), std::env::var("PATH").unwrap());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let challenges = warpbell_plan::challenges::all().unwrap();
    for (number, command) in
        challenges.iter().flat_map(|one| one.commands.iter().map(|command| (one.number, command)))
    {
        let mut shell = Command::new("sh");
        let output = shell.args(["-c", command]).current_dir(&root).env("PATH", &path).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "challenge {number}: {command}: {error}");
        assert!(!output.stdout.is_empty(), "challenge {number}: {command} says nothing");
    }
}
