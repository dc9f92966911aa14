//! Wrong inputs over the command line and the environment, as a table: each gives its exit code and one line with the
//! object, the value and the limit, and none a panic or a signal.

use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

const TABLE: &str = include_str!("wrong.txt");
/// So many are to be shown.
const LEAST: usize = 300;
/// Commands that run at a time: they wait more than they work.
const WORKERS: usize = 8;

/// One row.
struct Row {
    code: i32,
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    words: Vec<String>,
}

impl Row {
    fn parse(line: &str, folder: &Path) -> Row {
        let line = line.replace("{dir}", &folder.display().to_string()).replace("{soft}", "soft:size=1m");
        let columns: Vec<&str> = line.split('|').map(str::trim).collect();
        let [code, arguments, environment, words] = columns[..] else { panic!("{line}: four columns") };
        let variable = |text: &str| {
            let (name, value) = text.split_once('=').unwrap_or_else(|| panic!("{line}: NAME=VALUE"));
            (name.to_owned(), value.to_owned())
        };
        Row {
            code: code.parse().unwrap_or_else(|_| panic!("{line}: an exit code")),
            arguments: arguments.split_whitespace().map(str::to_owned).collect(),
            environment: environment.split_whitespace().map(variable).collect(),
            words: words.split(';').map(|word| word.trim().to_owned()).collect(),
        }
    }

    fn run(&self) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
        // Nothing of the developer's own: what the row names, where programs and the home folder are, and the options of
        // a sanitizer, under which each row runs too.
        let own = ["PATH", "HOME", "TMPDIR", "LD_LIBRARY_PATH", "ASAN_OPTIONS"].into_iter();
        let own = own.filter_map(|name| Some((name, std::env::var_os(name)?)));
        command.args(&self.arguments).env_clear().envs(own).envs(self.environment.iter().cloned());
        command.stdin(Stdio::null()).output().expect("the command starts")
    }

    /// What is not as the row says.
    fn wrong(&self) -> Option<String> {
        let output = self.run();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        let lines: Vec<&str> = error.lines().collect();
        let says = |word: &String| lines[0].contains(word.as_str());
        let right = output.status.code() == Some(self.code)
            && lines.len() == 1
            && lines[0].starts_with("error: ")
            && !error.contains("panicked at")
            && self.words.iter().all(says);
        (!right).then(|| {
            let Row { code, arguments, words, .. } = self;
            format!("{arguments:?}: expected {code} and {words:?}: {}: {error}", output.status)
        })
    }
}

/// The files that rows name.
fn files(folder: &Path) {
    for (name, content) in [
        ("disk.img", &[7; 8192][..]),
        ("empty.img", b""),
        ("braces.json", b"{}"),
        ("other.json", br#"{"schema": "x/1"}"#),
        ("junk.toml", b"junk ["),
    ] {
        std::fs::write(folder.join(name), content).expect("the folder is ours");
    }
}

#[test]
fn each_wrong_input_of_the_table_gives_its_exit_code_and_one_line() {
    let folder = tempfile::tempdir().expect("a folder");
    files(folder.path());
    let lines = TABLE.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    let rows: Vec<Row> = lines.map(|line| Row::parse(line, folder.path())).collect();
    assert!(rows.len() >= LEAST, "{} rows", rows.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let take = || rows.get(next.fetch_add(1, Ordering::Relaxed));
        std::iter::from_fn(take).filter_map(Row::wrong).collect::<Vec<_>>()
    };
    let wrong: Vec<String> = thread::scope(|scope| {
        let workers: Vec<_> = (0..WORKERS).map(|_| scope.spawn(work)).collect();
        workers.into_iter().flat_map(|worker| worker.join().expect("a worker ends")).collect()
    });
    assert!(wrong.is_empty(), "{} rows are wrong:\n{}", wrong.len(), wrong.join("\n"));
}
