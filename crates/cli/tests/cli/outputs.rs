//! The files that commands write: none of them replaces what the same command reads.

use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

use crate::common::{ok, refused};

/// A folder with an SSD's file, a name more for it, a plan of faults, a result and constants.
struct Folder(tempfile::TempDir);

impl Folder {
    fn new() -> Folder {
        let folder = Folder(tempfile::tempdir().expect("a folder"));
        std::fs::write(folder.path("d.img"), vec![7; 1 << 20]).expect("an image");
        symlink("d.img", folder.path("link.img")).expect("a link");
        std::fs::write(folder.path("f.toml"), "seed = 1\n").expect("a plan");
        let result = ok(&["bench", "soft:size=1m,time=virtual", "--io-limit", "4k", "-o", "json"]);
        std::fs::write(folder.path("b.json"), result).expect("a result");
        let constants = r#"{"schema": "warpbell.calibration/1", "constants": {}}"#;
        std::fs::write(folder.path("c.json"), constants).expect("constants");
        folder
    }

    fn path(&self, name: &str) -> String {
        self.0.path().join(name).display().to_string()
    }

    /// Runs the line, with `{}` for this folder: it must be refused, and leave `kept` as it was.
    fn refuses(&self, line: &str, kept: &str, words: &[&str]) {
        let before = std::fs::read(self.path(kept)).expect("it is there");
        let line = line.replace("{}", &self.0.path().display().to_string());
        let (code, error) = refused(&line.split(' ').collect::<Vec<_>>());
        assert_eq!(code, 3, "{line}: {error}");
        for word in words.iter().chain(&["name another file"]) {
            assert!(error.contains(word), "{line}: no {word:?} in {error}");
        }
        assert!(std::fs::read(self.path(kept)).expect("it is there") == before, "{line}: {kept} was changed");
    }
}

#[test]
fn no_output_replaces_the_device() {
    let folder = Folder::new();
    for output in ["--csv {}/d.img", "--csv {}/link.img", "--trace {}/d.img", "--trace {}/link.img"] {
        let line = format!("bench soft:size=1m,file={{}}/d.img --io-limit 4k {output}");
        folder.refuses(
            &line,
            "d.img",
            &["the file behind soft:size=1m,file=", output.split(' ').next().unwrap()],
        );
    }
    folder.refuses(
        "bench tail soft:file={}/d.img --csv {}/d.img",
        "d.img",
        &["--csv", "the file behind soft:"],
    );
    folder.refuses(
        "bench calibrate soft:file={}/d.img --out {}/d.img",
        "d.img",
        &["--out", "the file behind soft:"],
    );
}

#[test]
fn no_output_replaces_an_input() {
    let folder = Folder::new();
    let bench = "bench soft:size=1m --io-limit 4k";
    folder.refuses(
        &format!("{bench} --fault {{}}/f.toml --csv {{}}/f.toml"),
        "f.toml",
        &["--csv", "a plan or profile"],
    );
    folder.refuses(
        "bench soft:size=1m,faults={}/f.toml --csv {}/f.toml",
        "f.toml",
        &["--csv", "a plan or profile"],
    );
    folder.refuses(
        &format!("{bench} --resume {{}}/b.json --csv {{}}/b.json"),
        "b.json",
        &["the file of --resume"],
    );
    std::fs::rename(folder.path("b.json"), folder.path("b.html")).expect("a result may have any name");
    folder.refuses("report {}/b.html -o {}/b.html", "b.html", &["--output", "a result that is read"]);
    folder.refuses("plan tlp --calib {}/c.json --svg {}/c.json", "c.json", &["--svg", "the file of --calib"]);
}

#[test]
fn two_outputs_are_two_files() {
    let folder = Folder::new();
    let bench = "bench soft:size=1m --io-limit 4k --trace {}/b.json --csv {}/b.json";
    folder.refuses(bench, "b.json", &["--csv", "the file of --trace, too"]);
    folder.refuses(
        "plan tlp --svg {}/b.json --csv {}/b.json",
        "b.json",
        &["--csv", "the file of --svg, too"],
    );
    let new = folder.path("new");
    let (code, error) = refused(&["plan", "tlp", "--svg", &new, "--csv", &new]);
    assert!(code == 3 && error.contains("the file of --svg, too") && !Path::new(&new).exists(), "{error}");
    // What is no file has room for both.
    ok(&["plan", "tlp", "--svg", "/dev/null", "--csv", "/dev/null"]);
}

#[test]
fn experiments_and_calibration_keep_their_plans_too() {
    let folder = Folder::new();
    let notice = "bench notice soft:size=1m --fault {}/f.toml --csv {}/f.toml";
    folder.refuses(notice, "f.toml", &["--csv", "a plan or profile"]);
    let calibrate = "bench calibrate soft:size=1m --fault {}/f.toml --out {}/f.toml";
    folder.refuses(calibrate, "f.toml", &["--out", "a plan or profile"]);
    let journal = "bench soft:size=1m --io-limit 4k --fault {}/f.toml --journal {}/f.toml";
    folder.refuses(journal, "f.toml", &["--journal", "a plan or profile"]);
    let manifest = "bench soft:size=1m#/a --io-limit 4k --manifest {}/b.json --csv {}/b.json";
    folder.refuses(manifest, "b.json", &["--csv", "the file of --manifest"]);
}

#[test]
fn a_file_stays_as_it_is_where_another_cannot_be_written() {
    let folder = Folder::new();
    let before = std::fs::read(folder.path("b.json")).expect("it is there");
    let (kept, missing) = (folder.path("b.json"), folder.path("none/x.csv"));
    let flags = ["bench", "soft:size=1m", "--io-limit", "4k", "--trace", &kept, "--csv", &missing];
    let (code, error) = refused(&flags);
    assert!(code == 2 && error.contains("none/x.csv"), "{code}: {error}");
    assert!(std::fs::read(&kept).expect("it is there") == before);
    // A link that leads nowhere yet is the file that it leads to.
    symlink("later", folder.path("early")).expect("a link");
    let (early, later) = (folder.path("early"), folder.path("later"));
    let (code, error) = refused(&["plan", "tlp", "--svg", &early, "--csv", &later]);
    assert!(code == 3 && error.contains("the file of --svg, too"), "{code}: {error}");
}

#[test]
fn the_file_of_standard_output_is_an_output() {
    let folder = Folder::new();
    let log = folder.path("log");
    std::fs::write(&log, "before\n").expect("a log");
    let to = std::fs::File::options().append(true).open(&log).expect("it is there");
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpbell"));
    command.args(["plan", "tlp", "--csv", "/dev/stdout"]).stdout(to);
    let ended = command.output().expect("the command ends");
    let error = String::from_utf8_lossy(&ended.stderr);
    assert!(ended.status.code() == Some(3) && error.contains("this is standard output"), "{error}");
    assert_eq!(std::fs::read_to_string(&log).expect("it is there"), "before\n");
}

#[test]
fn an_input_that_is_read_again_is_no_pipe() {
    let (code, error) = refused(&["bench", "soft:size=1m", "--io-limit", "4k", "--fault", "/dev/null"]);
    assert!(code == 2 && error.contains("plan or profile /dev/null: no regular file"), "{code}: {error}");
}

#[test]
fn an_earlier_output_is_replaced() {
    let folder = Folder::new();
    let rows = folder.path("rows.csv");
    std::fs::write(&rows, "x".repeat(1 << 20)).expect("what is to go");
    ok(&["bench", "soft:size=1m,time=virtual", "--io-limit", "4k", "--csv", &rows]);
    let text = std::fs::read_to_string(Path::new(&rows)).expect("rows");
    assert!(text.starts_with("device,") && !text.contains("xx"), "{text}");
}

#[test]
fn an_export_replaces_no_file_behind_its_device() {
    let folder = Folder::new();
    let (image, inside) = (folder.path("big.img"), folder.path("in"));
    std::fs::File::create(&image).and_then(|file| file.set_len(16 << 20)).expect("an image");
    std::fs::create_dir(&inside).expect("a folder");
    std::fs::write(format!("{inside}/big.img"), "short").expect("a file of the same name");
    let (device, allowed) = (format!("soft:file={image}"), format!("--allow-write={image}"));
    ok(&["files", "import", &format!("{inside}/"), &device, &allowed]);
    folder.refuses(
        &format!("files export {device} --to {{}} --force"),
        "big.img",
        &["--to", "the file behind soft:file="],
    );
}
