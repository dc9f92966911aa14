//! Wrong inputs over the C API and over the environment: each has its code and one line, and none crashes.

use std::path::Path;
use std::process::{Command, Output};

use fake_cuda::harness::FakeDriver;

use crate::installed::{Program, has, succeeded};
use crate::programs::{STRICT, can_build, sanitizer_works, shared, test_program};

const SANITIZED: [&str; 2] = ["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

pub fn build(name: &str, more: &[&str]) -> Program {
    let flags: Vec<&str> = STRICT.iter().chain(&["-D_DEFAULT_SOURCE"]).chain(more).copied().collect();
    Program::build("cc", &flags, &test_program(name), &shared())
}

fn tables_of_arguments(more: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.img");
    std::fs::write(&file, vec![0u8; 1 << 20]).unwrap();
    let file = file.to_str().unwrap();
    for (name, arguments, least) in [("wrong_inputs.c", &[][..], 120), ("wrong_volumes.c", &[file], 90)] {
        let text = succeeded(name, &build(name, more).run(arguments));
        let last = text.lines().last().unwrap_or_default();
        let rows = last.strip_suffix(" wrong inputs, 0 answered wrongly");
        let rows = rows.and_then(|rows| rows.parse::<u32>().ok());
        assert!(rows.is_some_and(|rows| rows >= least), "{name}: {last}");
    }
}

#[test]
fn wrong_arguments_have_a_code_and_one_line_each() {
    if can_build("wrong inputs, from C") {
        tables_of_arguments(&[]);
    }
}

#[test]
fn wrong_arguments_touch_no_memory_that_they_should_not() {
    if can_build("wrong inputs under AddressSanitizer") && sanitizer_works() {
        tables_of_arguments(&SANITIZED);
    }
}

/// Variables; what is done; the code; parts of the line. FOLDER has `text`, `world/warpbell` that all may write to, and
/// `blind`, a program that ends without having done anything. LONG is a name that no file system takes.
const ENVIRONMENT: &str = "
WARPBELL_CACHE_DIR=/dev/null/c | compile cpu | FAILED | cache folder /dev/null/c (WARPBELL_CACHE_DIR) | may write to
WARPBELL_CACHE_DIR=/proc/c | compile cpu | FAILED | cache folder /proc/c (WARPBELL_CACHE_DIR) | may write to
WARPBELL_CACHE_DIR=FOLDER/text | compile cpu | FAILED | cache folder FOLDER/text (WARPBELL_CACHE_DIR) | may write to
WARPBELL_CACHE_DIR=/LONG | compile cpu | FAILED | cache folder /LONG (WARPBELL_CACHE_DIR) | too long | may write to
WARPBELL_CACHE_DIR=; XDG_CACHE_HOME=/dev/null/x | compile cpu | FAILED | cache folder /dev/null/x/warpbell | name one in WARPBELL_CACHE_DIR
WARPBELL_CACHE_DIR=; XDG_CACHE_HOME=FOLDER/world | compile cpu | FAILED | cache folder FOLDER/world/warpbell | mode 777 | WARPBELL_CACHE_DIR
WARPBELL_CACHE_DIR=; HOME=/dev/null | compile cpu | FAILED | cache folder /dev/null/.cache/warpbell | name one in WARPBELL_CACHE_DIR
WARPBELL_CACHE_DIR=; HOME=home/me | compile cpu | MISSING | no folder for compiled kernels | HOME | name a folder in WARPBELL_CACHE_DIR
WARPBELL_CACHE_DIR=; HOME=me; XDG_CACHE_HOME=cache | compile cpu | MISSING | no folder for compiled kernels | XDG_CACHE_HOME | WARPBELL_CACHE_DIR
WARPBELL_CXX=/nowhere/g++ | compile cpu | MISSING | WARPBELL_CXX=/nowhere/g++: cannot be run | name a C++ compiler
WARPBELL_CXX=no-such-compiler | compile cpu | MISSING | WARPBELL_CXX=no-such-compiler: cannot be run | name a C++ compiler
WARPBELL_CXX=FOLDER/text | compile cpu | MISSING | WARPBELL_CXX=FOLDER/text: cannot be run | name a C++ compiler
WARPBELL_CXX=/ | compile cpu | MISSING | WARPBELL_CXX=/: cannot be run | name a C++ compiler
WARPBELL_CXX=false | compile cpu | MISSING | WARPBELL_CXX=false: --version fails (exit status: 1) | name a C++ compiler
WARPBELL_CXX=FOLDER/blind | compile cpu | FAILED | compiler FOLDER/blind | without a result | is it a C++ compiler
CXX=/nowhere/clang++ | compile cpu | MISSING | CXX=/nowhere/clang++: cannot be run | leave CXX unset
CXX=ccache g++ | compile cpu | MISSING | CXX=ccache g++: cannot be run | leave CXX unset
PATH=/nowhere | compile cpu | MISSING | no C++ compiler | WARPBELL_CXX
WARPBELL_LOG=a=b=c | open soft:size=1m | OK | warning: WARPBELL_LOG=a=b=c | expected
RUST_LOG=warpbell=loud | open soft:size=1m | OK | warning: RUST_LOG=warpbell=loud | expected
WARPBELL_NVRTC=/nowhere/libnvrtc.so.13 | compile cuda:0 | MISSING | WARPBELL_NVRTC=/nowhere/libnvrtc.so.13 | install it
WARPBELL_NVRTC=FOLDER/text | compile cuda:0 | MISSING | WARPBELL_NVRTC=FOLDER/text | install it
WARPBELL_NVRTC=none | compile cuda:0 | MISSING | WARPBELL_NVRTC=none forbids it | install it
";

/// What decides about results elsewhere on this machine.
const OTHERS: [&str; 6] =
    ["CXX", "WARPBELL_CXX", "XDG_CACHE_HOME", "WARPBELL_NVRTC", "WARPBELL_LOG", "RUST_LOG"];

fn run(program: &Program, driver: &FakeDriver, variables: &str, action: &str) -> Output {
    let on_gpu = action.ends_with("cuda:0");
    let folders: Vec<&Path> = on_gpu.then(|| driver.folder()).into_iter().collect();
    let mut command = program.command(&folders);
    let command: &mut Command = if on_gpu { driver.configure(&mut command) } else { &mut command };
    for name in OTHERS {
        command.env_remove(name);
    }
    for (name, value) in variables.split("; ").filter_map(|variable| variable.split_once('=')) {
        command.env(name, value);
    }
    command.args(action.split(' ')).output().unwrap()
}

fn check(row: &str, output: &Output) {
    let fields: Vec<&str> = row.split(" | ").collect();
    let [out, error] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    assert!(output.status.success(), "{row}: {}\n{out}{error}", output.status);
    let prefix = if fields[2] == "OK" { "WARPBELL_" } else { "WARPBELL_ERROR_" };
    assert!(out.starts_with(&format!("{prefix}{}: ", fields[2])), "{row}\n{out}");
    let said = if fields[2] == "OK" { error } else { out };
    assert_eq!(said.lines().count(), 1, "{row}\n{said}");
    assert!(fields[3..].iter().all(|part| said.contains(part)), "{row}\n{said}");
}

fn make_files(folder: &Path) {
    use std::os::unix::fs::PermissionsExt as _;
    let allow = |path: &str, mode| {
        std::fs::set_permissions(folder.join(path), std::fs::Permissions::from_mode(mode)).unwrap();
    };
    std::fs::write(folder.join("text"), "no program").unwrap();
    std::fs::write(folder.join("blind"), "#!/bin/sh\n").unwrap();
    allow("blind", 0o755);
    std::fs::create_dir_all(folder.join("world/warpbell")).unwrap();
    allow("world/warpbell", 0o777);
}

#[test]
fn a_wrong_environment_has_a_code_and_one_line_for_each_variable() {
    if !can_build("wrong environments, from C") {
        return;
    }
    let (program, driver) = (build("environment.c", &[]), FakeDriver::new(""));
    let folder = tempfile::tempdir().unwrap();
    make_files(folder.path());
    let table = ENVIRONMENT.replace("FOLDER", &folder.path().display().to_string());
    let table = table.replace("LONG", &"c".repeat(300));
    let rows: Vec<&str> = table.lines().filter(|line| !line.is_empty()).collect();
    assert!(rows.len() >= 20);
    for row in rows {
        let (variables, rest) = row.split_once(" | ").unwrap();
        let action = rest.split(" | ").next().unwrap();
        check(row, &run(&program, &driver, variables, action));
    }
}

/// Lanes have stacks of their own, which valgrind is told of.
#[test]
fn the_first_example_runs_under_valgrind() {
    if !can_build("the C example under valgrind") || !has("valgrind", "the C example under valgrind") {
        return;
    }
    let program = Program::build("cc", &["-g"], &crate::programs::example(), &shared());
    let mut plain = program.command(&[]);
    plain.arg(crate::programs::kernel());
    succeeded("first_kernel", &plain.output().unwrap());
    let mut command = program.under("valgrind", &["--error-exitcode=99", "--quiet"]);
    command.arg(crate::programs::kernel());
    assert_eq!(succeeded("valgrind", &command.output().unwrap()), crate::programs::RIGHT);
}
