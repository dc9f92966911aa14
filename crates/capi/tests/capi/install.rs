//! `scripts/install`: what it writes, what it leaves alone, what it takes away.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::installed::{built, install, install_built, root, succeeded};

/// All files below a folder, by their names from there.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if entry.file_type().unwrap().is_dir() => found.extend(files(&path)),
            path => found.push(path),
        }
    }
    found.sort();
    found
}

fn options<'a>(prefix: &'a Path, more: &'a [&'a str]) -> Vec<&'a OsStr> {
    let mut options: Vec<&OsStr> = vec!["--libraries".as_ref(), "--prefix".as_ref(), prefix.as_os_str()];
    options.extend(more.iter().map(OsStr::new));
    options
}

#[test]
fn what_it_says_is_what_it_writes_and_uninstall_takes_all_of_it_away() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    let rehearsed = succeeded("--dry-run", &install(&options(&prefix, &["--dry-run"])));
    assert!(!prefix.exists(), "a rehearsal writes nothing");
    let said = succeeded("install", &install(&options(&prefix, &[])));
    let named = |text: &str| {
        let lines = text.lines().filter_map(|line| line.strip_prefix("install "));
        let mut paths: Vec<PathBuf> = lines.map(PathBuf::from).collect();
        paths.sort();
        paths
    };
    assert_eq!(named(&said), files(&prefix));
    assert_eq!(named(&rehearsed), files(&prefix));
    for name in ["lib/libwarpbell.a", "include/warpbell/warpbell.cuh", "lib/pkgconfig/warpbell.pc"] {
        assert!(prefix.join(name).is_file(), "{name}");
    }
    let library = fs::read_link(prefix.join("lib/libwarpbell.so")).unwrap();
    assert_eq!(library, Path::new("libwarpbell.so.0"));

    // Once more over itself, as an upgrade does.
    succeeded("install", &install(&options(&prefix, &[])));
    fs::write(prefix.join("lib/mine"), "mine").unwrap();
    succeeded("--uninstall --dry-run", &install(&options(&prefix, &["--uninstall", "--dry-run"])));
    assert!(files(&prefix).len() > 20, "a rehearsal removes nothing");
    succeeded("--uninstall", &install(&options(&prefix, &["--uninstall"])));
    assert_eq!(files(&prefix), [prefix.join("lib/mine")], "what is not ours stays");
}

/// The headers that a user's program may include, and what those include. Whoever adds one adds it here, or keeps it out.
const HEADERS: &str = "
    abi.h abi_cache.h abi_file.h abi_stream.h abi_table.h abi_trace.h abi_volume.h agent.cuh array.cuh
    batch.cuh cache.cuh cache.h coalesce.cuh deallocate.cuh evict.cuh file.cuh file.h file_cache.cuh
    flat.cuh group.cuh host_io.h impl/agent.cuh impl/array.cuh impl/aside.cuh impl/back_off.cuh
    impl/batch.cuh impl/cache.cuh impl/cache_lines.cuh impl/cache_word.cuh impl/coalesce.cuh
    impl/deallocate.cuh impl/file.cuh impl/flat.cuh impl/flat_array.cuh impl/flat_io.cuh impl/io.cuh
    impl/ordered.cuh impl/outstanding.cuh impl/pieces.cuh impl/port_cpu.cuh impl/port_gpu.cuh
    impl/prefetch.cuh impl/queue_doorbell.cuh impl/queue_hazard.cuh impl/queue_poll.cuh impl/queue_reap.cuh
    impl/queue_submit.cuh impl/queue_wait.cuh impl/requests.cuh impl/retry.cuh impl/stream.cuh
    impl/volume.cuh impl/volume_parts.cuh io.cuh mutation.cuh ordered.cuh outstanding.cuh port.cuh
    prefetch.cuh queue.cuh requests.cuh retry.cuh status.cuh stream.cuh tiles.h token.cuh trace.cuh
    types.cuh volume.cuh volume.h warpbell.cuh warpbell.h warpbell_device.h
";
/// Everything else, but for the flat layer in `lib/device`, which is installed where it was built.
const OTHERS: &str = "
    bin/warpbell lib/libwarpbell.so lib/libwarpbell.so.M lib/libwarpbell.so.V lib/libwarpbell.a
    lib/pkgconfig/warpbell.pc lib/cmake/warpbell/warpbellConfig.cmake lib/cmake/warpbell/warpbellConfigVersion.cmake
    share/doc/warpbell/LICENSE-APACHE share/doc/warpbell/LICENSE-MIT share/warpbell/installed
";

/// All that a user's program needs, and nothing of benches, checks, the laboratory or tests.
#[test]
fn nothing_is_installed_that_a_program_of_a_user_does_not_need() {
    let folder = tempfile::tempdir().unwrap();
    let build = folder.path().join("build");
    fs::create_dir(&build).unwrap();
    for name in ["warpbell", "libwarpbell_capi.so", "libwarpbell_capi.a"] {
        fs::write(build.join(name), "").unwrap();
    }
    let prefix = folder.path().join("usr");
    let options = ["--dry-run".as_ref(), "--prefix".as_ref(), prefix.as_os_str()];
    let said = succeeded("--dry-run", &install_built(&build, &options));
    let start = format!("install {}/", prefix.display());
    let files: BTreeSet<&str> = said.lines().filter_map(|line| line.strip_prefix(&start)).collect();
    let version = env!("CARGO_PKG_VERSION");
    let major = version.split('.').next().unwrap();
    let others = OTHERS.replace(".so.M", &format!(".so.{major}")).replace(".so.V", &format!(".so.{version}"));
    let headers = HEADERS.split_whitespace().map(|name| format!("include/warpbell/{name}"));
    let wanted: BTreeSet<String> = headers.chain(others.split_whitespace().map(str::to_owned)).collect();
    let wanted: BTreeSet<&str> = wanted.iter().map(String::as_str).collect();
    let more: Vec<_> = files.difference(&wanted).collect();
    let missing: Vec<_> = wanted.difference(&files).collect();
    assert!(
        more.is_empty() && missing.is_empty(),
        "installed and not wanted: {more:?}; missing: {missing:?}"
    );
}

/// MiB at most of a library. Assertions and checks for overflow, which only builds for tests have, take more.
const LIMIT: u64 = if cfg!(debug_assertions) { 15 } else { 12 };

/// Without debug information, which is five times as large; what a debugger needs is apart, if it is asked for.
#[test]
fn libraries_are_small_and_their_debug_information_is_apart() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    let said = succeeded("install", &install(&options(&prefix, &["--debug-info"])));
    let library = prefix.join("lib/libwarpbell.so").canonicalize().unwrap();
    let size = fs::metadata(&library).unwrap().len();
    assert!(size <= LIMIT << 20, "{}: {size} bytes, {LIMIT} MiB at most", library.display());
    let debug = format!("lib/.debug/{}.debug", library.file_name().unwrap().to_str().unwrap());
    assert!(said.contains(&debug) && prefix.join(&debug).is_file(), "{said}");
    let sections = Command::new("readelf").args(["-S", "-W"]).arg(&library).output().unwrap();
    let sections = succeeded("readelf", &sections);
    assert!(sections.contains(".gnu_debuglink") && !sections.contains(".debug_"), "{sections}");
    succeeded("install", &install(&options(&prefix, &[])));
    assert!(!prefix.join("lib/.debug").exists(), "an installation without it takes it away");
}

/// As cargo makes it, it defines all that each crate does, under names that a program may have, too.
#[test]
fn the_static_library_is_small_and_exports_the_api_alone() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    succeeded("install", &install(&options(&prefix, &[])));
    let library = prefix.join("lib/libwarpbell.a");
    let size = fs::metadata(&library).unwrap().len();
    assert!(size <= 36 << 20, "{}: {size} bytes, 36 MiB at most", library.display());
    let sections = Command::new("readelf").args(["-S", "-W"]).arg(&library).output().unwrap();
    let sections = succeeded("readelf", &sections);
    assert!(!sections.contains(" .llvmbc") && !sections.contains(" .debug_"), "what no linker needs");
    let symbols = Command::new("nm").args(["-g", "--defined-only"]).arg(&library).output().unwrap();
    let symbols = succeeded("nm", &symbols);
    let defined: Vec<&str> = symbols.lines().filter(|line| line.split(' ').count() == 3).collect();
    // Kind `u`: one for the whole process, whoever defines it. Kernels share it with the executor.
    let others = defined.iter().filter(|line| !line.contains(" warpbell_") && !line.contains(" u "));
    assert_eq!(others.collect::<Vec<_>>(), [&""; 0]);
    assert!(defined.len() > 30, "{defined:?}");
    assert!(defined.iter().any(|line| line.ends_with(" warpbell_ssd_open")), "{defined:?}");
}

/// What cargo has built, and beside it a flat layer of sources with this sum.
fn built_with_flat_layer(of: &str) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["libwarpbell_capi.so", "libwarpbell_capi.a"] {
        std::os::unix::fs::symlink(built().join(name), folder.path().join(name)).unwrap();
    }
    let device = folder.path().join("device");
    fs::create_dir(&device).unwrap();
    for kind in ["ltoir", "o", "bc"] {
        fs::write(device.join(format!("warpbell_device.{kind}")), kind).unwrap();
        fs::write(device.join(format!("warpbell_device.{kind}.of")), of).unwrap();
    }
    folder
}

fn install_from(built: &Path, prefix: &Path) -> Output {
    install_built(built, &options(prefix, &[]))
}

/// Bit for bit; and of no other sources than the headers beside it.
#[test]
fn the_flat_layer_is_installed_as_it_was_made_and_no_old_one() {
    let mut sum = Command::new("bash");
    sum.arg("-c").arg("source scripts/lib/common.sh && flat_sources").current_dir(root());
    let sum = succeeded("flat_sources", &sum.output().unwrap());
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    succeeded("install", &install_from(built_with_flat_layer(&sum).path(), &prefix));
    for kind in ["ltoir", "o", "bc"] {
        let file = prefix.join(format!("lib/device/warpbell_device.{kind}"));
        assert_eq!(fs::read_to_string(file).unwrap(), kind);
    }

    let before = files(&prefix);
    let old = built_with_flat_layer("0000\n");
    let output = install_from(old.path(), &prefix);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains("device/warpbell_device.ltoir was made of other sources"), "{error}");
    assert_eq!(files(&prefix), before, "nothing was written");

    // Without one: what an earlier installation had is taken away.
    succeeded("install", &install(&options(&prefix, &[])));
    assert!(!prefix.join("lib/device").exists());
}

/// A release lacks nothing that nobody speaks of.
#[test]
fn the_flat_layer_is_not_made_without_its_compilers() {
    let folder = tempfile::tempdir().unwrap();
    let mut command = Command::new(root().join("scripts/lib/build-flat"));
    command
        .arg(folder.path())
        .env("WARPBELL_CLANG", "/nowhere/clang++")
        .env("WARPBELL_NVCC", "/nowhere/nvcc");
    let output = command.output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(4), "{error}");
    assert!(error.contains("no /nowhere/clang++ for the bitcode"), "{error}");
    assert_eq!(files(folder.path()), [] as [PathBuf; 0]);
}

#[test]
fn folders_that_were_there_before_stay() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("mine/usr");
    fs::create_dir_all(&prefix).unwrap();
    succeeded("install", &install(&options(&prefix, &[])));
    succeeded("--uninstall", &install(&options(&prefix, &["--uninstall"])));
    assert!(prefix.is_dir(), "the prefix is not the script's to remove");
    assert_eq!(fs::read_dir(&prefix).unwrap().count(), 0, "and nothing is left in it");
}

#[test]
fn what_was_broken_off_can_be_done_again_and_undone() {
    let folder = tempfile::tempdir().unwrap();
    let prefix = folder.path().join("usr");
    // A folder in place of a file: it fails there, after others have been written.
    let broken = prefix.join("lib/pkgconfig");
    fs::create_dir_all(prefix.join("lib")).unwrap();
    fs::write(&broken, "in the way").unwrap();
    assert!(!install(&options(&prefix, &[])).status.success());
    assert!(prefix.join("lib/libwarpbell.a").is_file(), "it was broken off half-way");
    fs::remove_file(&broken).unwrap();
    succeeded("once more", &install(&options(&prefix, &[])));
    succeeded("--uninstall", &install(&options(&prefix, &["--uninstall"])));
    assert_eq!(files(&prefix), [] as [PathBuf; 0]);
}

#[test]
fn files_of_others_are_not_replaced() {
    let prefix = tempfile::tempdir().unwrap();
    fs::create_dir(prefix.path().join("lib")).unwrap();
    let theirs = prefix.path().join("lib/libwarpbell.so");
    fs::write(&theirs, "theirs").unwrap();
    let output = install(&options(prefix.path(), &[]));
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(3), "{error}");
    assert!(error.contains(theirs.to_str().unwrap()), "{error}");
    assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    assert_eq!(files(prefix.path()), [theirs], "nothing was written");
}

#[test]
fn packages_are_staged_below_destdir() {
    let stage = tempfile::tempdir().unwrap();
    let mut command = Command::new(root().join("scripts/install"));
    command.args(["--libraries", "--prefix=/usr", "--built"]).arg(built()).env("DESTDIR", stage.path());
    succeeded("install", &command.output().unwrap());
    let text = fs::read_to_string(stage.path().join("usr/lib/pkgconfig/warpbell.pc")).unwrap();
    assert!(!text.contains(stage.path().to_str().unwrap()) && !text.contains('@'), "{text}");
    let list = fs::read_to_string(stage.path().join("usr/share/warpbell/installed")).unwrap();
    assert!(list.lines().all(|line| !line.starts_with('/')), "{list}");
}

#[test]
fn what_it_cannot_do_it_says() {
    let refused = |options: &[&str], code: i32, text: &str| {
        let options: Vec<&OsStr> = options.iter().map(OsStr::new).collect();
        let output = install(&options);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!((output.status.code(), error.contains(text)), (Some(code), true), "{error}");
    };
    refused(&[], 2, "--prefix is missing");
    refused(&["--prefix"], 2, "--prefix: expected a folder");
    refused(&["--prefix", "somewhere"], 2, "must be an absolute path");
    refused(&["--everything"], 2, "unknown option '--everything'");
    let empty = tempfile::tempdir().unwrap();
    let empty = empty.path().to_str().unwrap();
    refused(&["--prefix", empty, "--uninstall"], 1, "nothing was installed below");
    refused(&["--prefix", empty, "--built", empty], 4, "is missing: it is built by");
}
