//! The folder of compiled kernels: where it is, and what a process that was killed leaves in it.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant, SystemTime};

use crate::installed::{Program, succeeded};
use crate::programs::can_build;
use crate::wrong::build;

const OK: &str = "WARPBELL_OK: \n";

#[test]
fn a_relative_cache_folder_lies_below_the_current_one() {
    if !can_build("a relative cache folder, from C") {
        return;
    }
    let program = build("environment.c", &[]);
    let folder = tempfile::tempdir().unwrap();
    let mut command = program.command(&[]);
    command.current_dir(folder.path()).env("WARPBELL_CACHE_DIR", "some/cache").args(["compile", "cpu"]);
    assert_eq!(succeeded("environment", &command.output().unwrap()), "WARPBELL_OK: \n");
    let kept = std::fs::read_dir(folder.path().join("some/cache")).unwrap().flatten();
    assert!(kept.into_iter().any(|file| file.path().extension().is_some_and(|end| end == "so")));
}

/// A user that no machine has.
const USER: &str = "54321";

/// Runs the program as that user, without HOME, where `users` is the system's list of them. None, with a word on it, where the
/// system allows no namespaces.
fn without_home(program: &Program, folder: &Path, users: &str) -> Option<Output> {
    let list = folder.join("passwd");
    fs::write(&list, users).unwrap();
    let map = format!("--map-user={USER}");
    let spaces = ["--user", map.as_str(), "--keep-caps", "--mount", "sh", "-c"];
    let allowed = Command::new("unshare").args(spaces).arg("mount --bind /etc/passwd /etc/passwd").output();
    if !allowed.is_ok_and(|output| output.status.success()) {
        println!("skipped: a user without HOME: no user and mount namespaces here (unshare --user --mount)");
        return None;
    }
    let script = "mount --bind \"$1\" /etc/passwd && exec \"$0\" compile cpu";
    let mut command = program.under("unshare", &[&spaces[..], &[script]].concat());
    for name in ["HOME", "XDG_CACHE_HOME", "WARPBELL_CACHE_DIR"] {
        command.env_remove(name);
    }
    Some(command.arg(&list).output().unwrap())
}

#[test]
fn without_home_the_systems_list_of_users_says_where_the_cache_is() {
    if !can_build("a user without HOME, from C") {
        return;
    }
    let program = build("environment.c", &[]);
    let folder = tempfile::tempdir().unwrap();
    let home = folder.path().join("home");
    let user = |home: &str| format!("root:x:0:0::/root:/bin/sh\nme:x:{USER}:{USER}::{home}:/bin/sh\n");
    let listed = user(home.to_str().unwrap());
    let Some(output) = without_home(&program, folder.path(), &listed) else { return };
    assert_eq!(succeeded("environment", &output), OK);
    assert!(holds(&home.join(".cache/warpbell"), "so"), "it was kept in the user's home");

    for users in ["root:x:0:0::/root:/bin/sh\n", &user(""), &user("home/me")] {
        let output = without_home(&program, folder.path(), users).unwrap();
        let text = succeeded("environment", &output);
        assert!(text.starts_with("WARPBELL_ERROR_MISSING: no folder for compiled kernels"), "{users}{text}");
        assert!(text.contains("WARPBELL_CACHE_DIR") && text.lines().count() == 1, "{users}{text}");
    }
}

/// Whether a folder has a file with this extension.
fn holds(folder: &Path, extension: &str) -> bool {
    let files = fs::read_dir(folder).into_iter().flatten().flatten();
    files.into_iter().any(|file| file.path().extension() == Some(OsStr::new(extension)))
}

/// Folders that compilers work in.
fn work_folders(cache: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(cache).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_work = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("work-");
    entries.filter(is_work).collect()
}

/// A process that compiles by a compiler which takes a minute.
fn slow_compilation(program: &Program, folder: &Path) -> Child {
    let slow = folder.join("slow");
    let script = "#!/bin/sh\ncase $1 in --version) exec c++ --version ;; esac\nexec sleep 60\n";
    fs::write(&slow, script).unwrap();
    fs::set_permissions(&slow, fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = program.command(&[]);
    command.env("WARPBELL_CACHE_DIR", folder.join("cache")).env("WARPBELL_CXX", &slow);
    // Not the streams of the test: the compiler outlives it.
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.args(["compile", "cpu"]).spawn().unwrap()
}

/// The only folder that a compiler works in, once it is there.
fn the_work_folder(cache: &Path) -> PathBuf {
    let end = Instant::now() + Duration::from_secs(60);
    loop {
        if let [work] = &work_folders(cache)[..] {
            return work.clone();
        }
        assert!(Instant::now() < end, "no compilation began within a minute");
        thread::sleep(Duration::from_millis(20));
    }
}

#[test]
fn what_a_killed_process_worked_in_goes_with_the_next_compilation() {
    if !can_build("a process that is killed while it compiles, from C") {
        return;
    }
    let program = build("environment.c", &[]);
    let folder = tempfile::tempdir().unwrap();
    let mut killed = slow_compilation(&program, folder.path());
    let work = the_work_folder(&folder.path().join("cache"));
    let hours_ago = SystemTime::now() - Duration::from_secs(7200);
    let compile = |source: &str| {
        let mut command = program.command(&[]);
        command.env("WARPBELL_CACHE_DIR", folder.path().join("cache")).args(["compile", source]);
        File::open(&work).unwrap().set_modified(hours_ago).unwrap();
        assert_eq!(succeeded("environment", &command.output().unwrap()), OK);
    };
    compile("cpu");
    assert!(work.exists(), "its process lives, however old it is");
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert!(work.exists(), "SIGKILL leaves it");
    // What was compiled is kept: only what compiles anew looks for what others left.
    let kept = fs::read_dir(folder.path().join("cache")).unwrap().flatten().map(|entry| entry.path());
    for file in kept.filter(|path| path.is_file()) {
        fs::remove_file(file).unwrap();
    }
    compile("cpu");
    assert_eq!(work_folders(&folder.path().join("cache")), [] as [PathBuf; 0]);
}
