//! Running a compiler that may crash. Also part of the build script.

use std::io;
use std::process::{Command, Output};

/// How often a compiler that crashes is run.
const TRIES: u32 = 5;

/// Runs a compiler. nvcc 13.0's front end crashes now and then, on sources that it compiles the next time: then it is
/// run again, a few times at most, and `crashed` hears of each.
pub fn run_compiler(command: &mut Command, crashed: impl Fn(&str)) -> io::Result<Output> {
    let mut tries = 1;
    loop {
        let output = command.output()?;
        let segfault = String::from_utf8_lossy(&output.stderr).contains("Segmentation fault");
        if output.status.success() || !segfault || tries == TRIES {
            return Ok(output);
        }
        crashed(&format!("crashed; try {tries} of {TRIES}"));
        tries += 1;
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Runs a shell script as a compiler; what became of it, and how often it was said to have crashed.
    fn run(script: &str) -> (Output, u32) {
        let crashes = Cell::new(0);
        let mut command = Command::new("sh");
        let output = run_compiler(command.args(["-c", script]), |_| crashes.set(crashes.get() + 1)).unwrap();
        (output, crashes.get())
    }

    #[test]
    fn a_crash_is_tried_again_a_few_times_and_an_error_is_not() {
        let (output, crashes) = run("echo 'Segmentation fault' >&2; exit 139");
        assert_eq!((output.status.success(), crashes), (false, TRIES - 1));
        let (output, crashes) = run("echo 'error: no such type' >&2; exit 2");
        assert_eq!((output.status.code(), crashes), (Some(2), 0));

        let folder = tempfile::tempdir().unwrap();
        let mark = folder.path().join("mark");
        let once = format!(
            "test -e {0} || {{ touch {0}; echo 'Segmentation fault' >&2; exit 139; }}",
            mark.display()
        );
        let (output, crashes) = run(&once);
        assert_eq!((output.status.success(), crashes), (true, 1));
    }
}
