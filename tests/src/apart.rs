//! Broken kernels, each in a process of its own.

use std::env;
use std::process::Command;

/// What tells a process which rule it is about.
const RULE: &str = "WARPBELL_TEST_RULE";

/// Calls `run` with each of the rules, in processes of their own in which only this test (`module::name`) runs. A module
/// that was loaded stays, and the loader has room for the thread-local data of some twenty.
pub fn each_apart<'a>(test: &str, rules: impl IntoIterator<Item = &'a str>, run: impl Fn(&str)) {
    if let Ok(rule) = env::var(RULE) {
        return run(&rule);
    }
    let program = env::current_exe().expect("this program");
    for rule in rules {
        let mut command = Command::new(&program);
        let output =
            command.args([test, "--exact", "--nocapture"]).env(RULE, rule).output().expect("a process");
        let said = String::from_utf8_lossy(&output.stdout);
        said.lines().filter(|line| line.starts_with(rule)).for_each(|line| println!("{line}"));
        let ran = output.status.success() && said.contains("test result: ok. 1 passed");
        assert!(ran, "{rule}: {said}\n{}", String::from_utf8_lossy(&output.stderr));
    }
}
