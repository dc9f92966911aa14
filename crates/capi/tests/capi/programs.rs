//! Programs in C: the example in every way of linking, and what the library refuses.

use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use fake_cuda::harness::FakeDriver;
use warpbell_kernels::toolchain::Variant;

use crate::installed::{Program, cache, has, pkg_config, prefix, root, succeeded};

pub const RIGHT: &str = "32 blocks of 512 bytes, read by a kernel on target cpu: right\n";
pub const STRICT: [&str; 6] =
    ["-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-D_POSIX_C_SOURCE=200809L"];

pub fn example() -> PathBuf {
    root().join("examples/c/first_kernel.c")
}

pub fn kernel() -> String {
    root().join("examples/first_kernel.cu").display().to_string()
}

pub fn test_program(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/c").join(name)
}

/// Whether there is a C compiler and pkg-config.
pub fn can_build(what: &str) -> bool {
    has("cc", what) && has("pkg-config", what)
}

pub fn shared() -> Vec<String> {
    pkg_config(&["--cflags", "--libs"])
}

#[test]
fn the_example_runs_linked_to_the_shared_library() {
    if can_build("the C example") {
        let program = Program::build("cc", &STRICT, &example(), &shared());
        assert_eq!(succeeded("first_kernel", &program.run(&[&kernel()])), RIGHT);
    }
}

/// Over software controllers in memory, and over files, which it may write because it names them.
#[test]
fn the_example_of_volumes_runs() {
    if can_build("the C example of volumes") {
        let source = root().join("examples/c/volume.c");
        let program = Program::build("cc", &STRICT, &source, &shared());
        let right = |ssds| format!("1048576 of 1048576 numbers, read from a volume of {ssds} SSDs: right\n");
        assert_eq!(succeeded("volume", &program.run(&[])), right(3));
        let folder = tempfile::tempdir().unwrap();
        let files = ["a.img", "b.img"].map(|name| folder.path().join(name));
        files.iter().for_each(|file| std::fs::write(file, vec![0; 4 << 20]).unwrap());
        let names = files.each_ref().map(|file| format!("soft:file={}", file.display()));
        assert_eq!(succeeded("volume", &program.run(&[&names[0], &names[1]])), right(2));
        // The second chunk of 128 KiB is the second file's first.
        let first = std::fs::read(&files[1]).unwrap()[..4].try_into().map(u32::from_le_bytes).unwrap();
        assert_eq!(first, 32768u32.wrapping_mul(2_654_435_761));
    }
}

#[test]
fn the_example_runs_linked_statically() {
    if can_build("the C example, static") {
        let mut flags = pkg_config(&["--cflags"]);
        flags.push(prefix().join("lib/libwarpbell.a").display().to_string());
        flags.extend(pkg_config(&["--variable=static_libs"]));
        let program = Program::build("cc", &STRICT, &example(), &flags);
        assert_eq!(succeeded("first_kernel", &program.run(&[&kernel()])), RIGHT);
        let size = program.size();
        assert!(size <= 15 << 20, "the static example has {size} bytes, 15 MiB at most");
    }
}

#[test]
fn the_example_is_c_plus_plus_too() {
    if can_build("the C example as C++") && has("c++", "the C example as C++") {
        for standard in ["-std=c++11", "-std=c++20"] {
            let flags = [standard, "-pedantic", "-Wall", "-Wextra", "-Werror", "-x", "c++"];
            let program = Program::build("c++", &flags, &example(), &shared());
            assert_eq!(succeeded("first_kernel", &program.run(&[&kernel()])), RIGHT);
        }
    }
}

/// NVRTC compiles the kernel, and the fake driver runs the CPU's code of it: nothing here is shown of a GPU.
#[test]
fn the_example_runs_on_a_cuda_target() {
    let kernels = Variant::file(Path::new(&kernel())).unwrap().cache(&cache()).build().unwrap();
    let fake_driver = FakeDriver::new(&format!("modules={}", kernels.display()));
    if can_build("the C example on the fake CUDA driver") {
        let program = Program::build("cc", &STRICT, &example(), &shared());
        let output = program.run_on(&fake_driver, &[&kernel(), "cuda:0"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if error.contains("no NVRTC to compile kernels") {
            println!(
                "skipped: the C example on the fake CUDA driver: no NVRTC (scripts/cuda-setup installs it)"
            );
            return;
        }
        let text = succeeded("first_kernel", &output);
        assert_eq!(text, RIGHT.replace("target cpu", "target cuda:0"));
        fake_driver.log().assert_clean();
    }
}

/// The same kernel as NVRTC makes it for a GPU, on the PTX machine.
#[test]
fn the_example_runs_on_the_ptx_target() {
    if can_build("the C example on the PTX machine") {
        let program = Program::build("cc", &STRICT, &example(), &shared());
        let output = program.run(&[&kernel(), "ptx"]);
        if String::from_utf8_lossy(&output.stderr).contains("no NVRTC to compile kernels") {
            println!("skipped: the C example on the PTX machine: no NVRTC (scripts/cuda-setup installs it)");
            return;
        }
        assert_eq!(succeeded("first_kernel", &output), RIGHT.replace("target cpu", "target ptx"));
    }
}

/// What a kernel did wrong is told once, in words of its source.
#[test]
fn a_fault_on_the_ptx_target_is_told_once() {
    if can_build("a fault on the PTX machine") {
        let program = Program::build("cc", &STRICT, &example(), &shared());
        let source = std::fs::read_to_string(kernel()).unwrap();
        let wrong = source.replace("[port::lane()] = s.ok()", "[port::lane() + (1u << 24)] = s.ok()");
        assert_ne!(wrong, source);
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("outside.cu");
        std::fs::write(&path, wrong).unwrap();
        let output = program.run(&[&path.display().to_string(), "ptx:memory=256m"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        if error.contains("no NVRTC to compile kernels") {
            println!("skipped: a fault on the PTX machine: no NVRTC (scripts/cuda-setup installs it)");
            return;
        }
        assert_eq!(output.status.code(), Some(1), "{error}");
        assert!(
            error.starts_with("wait: WARPBELL_ERROR_FAILED: ptx: work on the device: module.ptx:"),
            "{error}"
        );
        assert_eq!(error.matches("no memory of this GPU").count(), 1, "{error}");
        assert!(
            error.contains("outside.cu:12 (check Bounds, kernel sum_blocks, block 0, thread "),
            "{error}"
        );
    }
}

#[test]
fn a_failure_of_the_example_is_an_exit_code_and_a_sentence() {
    if can_build("failures of the C example") {
        let program = Program::build("cc", &STRICT, &example(), &shared());
        let output = program.run(&["/nowhere/kernel.cu"]);
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{error}");
        assert!(
            error.starts_with("compile: WARPBELL_ERROR_INVALID: kernel source /nowhere/kernel.cu: "),
            "{error}"
        );
    }
}

#[test]
fn wrong_arguments_and_closed_handles_are_refused_in_words() {
    if can_build("refusals, from C") {
        refusals(&[]);
    }
}

#[test]
fn refusals_touch_no_memory_that_they_should_not() {
    if can_build("refusals under AddressSanitizer") && sanitizer_works() {
        refusals(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
}

fn refusals(flags: &[&str]) {
    let flags: Vec<&str> = STRICT.iter().chain(flags).copied().collect();
    let program = Program::build("cc", &flags, &test_program("refused.c"), &shared());
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("disk.img");
    std::fs::write(&file, vec![0u8; 1 << 20]).unwrap();
    let driver = if has_cuda_driver() { "driver" } else { "no-driver" };
    let checked = succeeded("refused", &program.run(&[file.to_str().unwrap(), driver]));
    assert!(checked.ends_with(" checks\n"), "{checked}");
    let written = std::fs::read(&file).unwrap();
    assert!(
        written[..512].iter().all(|byte| *byte == 0) && written[512..1024].iter().all(|byte| *byte == 0x5a)
    );
}

#[test]
fn leases_places_and_news_from_c() {
    if can_build("leases, from C") {
        let program = Program::build("cc", &STRICT, &test_program("leases.c"), &shared());
        let folder = tempfile::tempdir().unwrap();
        let plan = folder.path().join("plan.toml");
        let text = "[[fault]]\nkind = \"fail\"\nadmin = \"delete_i/o_submission_queue\"\nstatus = \"Internal Error\"\n\
                    [[fault]]\nkind = \"drop\"\nopcode = \"read\"\nlba = 8\n";
        std::fs::write(&plan, text).unwrap();
        let checked = succeeded("leases", &program.run(&[plan.to_str().unwrap()]));
        assert!(checked.ends_with(" checks\n"), "{checked}");
    }
}

#[test]
fn host_io_from_c() {
    if can_build("host I/O, from C") {
        host_io(&[]);
    }
}

#[test]
fn host_io_touches_no_memory_that_it_should_not() {
    if can_build("host I/O under AddressSanitizer") && sanitizer_works() {
        host_io(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
}

fn host_io(flags: &[&str]) {
    let flags: Vec<&str> = STRICT.iter().copied().chain(["-pthread"]).chain(flags.iter().copied()).collect();
    let program = Program::build("cc", &flags, &test_program("host_io.c"), &shared());
    let folder = tempfile::tempdir().unwrap();
    let [file, plan] = ["disk.img", "plan.toml"].map(|name| folder.path().join(name));
    std::fs::write(&file, vec![0u8; 1 << 20]).unwrap();
    let text = "[[fault]]\nkind = \"fail\"\nstatus = \"Unrecovered Read Error\"\nopcode = \"read\"\nlba = [100, 107]\n\
                [[fault]]\nkind = \"drop\"\nlba = 200\ncount = 1\n\
                [[fault]]\nkind = \"delay\"\nby = \"1s\"\nlba = 300\n";
    std::fs::write(&plan, text).unwrap();
    let checked = succeeded("host_io", &program.run(&[file.to_str().unwrap(), plan.to_str().unwrap()]));
    assert!(checked.ends_with(" checks\n"), "{checked}");
    let written = std::fs::read(&file).unwrap();
    assert!(written[1024..1536].iter().all(|byte| *byte == 0x5a));
    assert!(written[..1024].iter().chain(&written[1536..]).all(|byte| *byte == 0));
}

#[test]
fn volumes_caches_and_tiles_from_c() {
    if can_build("volumes, from C") {
        volumes(&[]);
    }
}

fn volumes(flags: &[&str]) {
    let flags: Vec<&str> = STRICT.iter().chain(flags).copied().collect();
    let program = Program::build("cc", &flags, &test_program("volumes.c"), &shared());
    let folder = tempfile::tempdir().unwrap();
    let plan = folder.path().join("plan.toml");
    let fault =
        "[[fault]]\nkind = \"fail\"\nopcode = \"read\"\nlba = [8, 15]\nstatus = \"Unrecovered Read Error\"\n";
    std::fs::write(&plan, fault).unwrap();
    let checked = succeeded("volumes", &program.run(&[plan.to_str().unwrap()]));
    assert!(checked.ends_with(" checks\n"), "{checked}");
}

#[test]
fn files_from_c() {
    if can_build("files, from C") {
        files(&[]);
    }
}

#[test]
fn files_touch_no_memory_that_they_should_not() {
    if can_build("files under AddressSanitizer") && sanitizer_works() {
        files(&["-fsanitize=address,undefined", "-fno-sanitize-recover=all"]);
    }
}

fn files(flags: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    let (tree, image) = (folder.path().join("tree"), folder.path().join("disk.img"));
    std::fs::create_dir_all(tree.join("data")).unwrap();
    let words: Vec<u8> =
        (0..40_000u32).flat_map(|index| index.wrapping_mul(2_654_435_761).to_le_bytes()).collect();
    let file = std::fs::File::create(tree.join("data/words")).unwrap();
    file.set_len(160_000).unwrap();
    for (start, end) in [(0, 16_384), (49_152, 160_000)] {
        file.write_all_at(&words[start..end], start as u64).unwrap();
    }
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap());
    let mut mkfs = Command::new("mkfs.ext4");
    mkfs.args(["-q", "-b", "1024", "-d"]).arg(&tree).arg(&image).arg("8M").env("PATH", path);
    succeeded("mkfs.ext4", &mkfs.output().expect("mkfs.ext4: scripts/setup installs e2fsprogs"));
    let flags: Vec<&str> = STRICT.iter().chain(flags).copied().collect();
    let program = Program::build("cc", &flags, &test_program("files.c"), &shared());
    let checked = succeeded("files", &program.run(&[image.to_str().unwrap()]));
    assert!(checked.ends_with(" checks\n"), "{checked}");
}

/// NVRTC compiles the kernel, and the fake driver runs the CPU's code of it.
#[test]
fn gpu_memory_of_a_program_is_registered_from_c() {
    let kernels = Variant::file(Path::new(&kernel())).unwrap().cache(&cache()).build().unwrap();
    let fake_driver = FakeDriver::new(&format!("modules={}", kernels.display()));
    if can_build("GPU memory, from C") {
        let program = Program::build("cc", &STRICT, &test_program("device_memory.c"), &shared());
        let output = program.run_on(&fake_driver, &[&kernel()]);
        if String::from_utf8_lossy(&output.stderr).contains("no NVRTC to compile kernels") {
            println!("skipped: GPU memory, from C: no NVRTC (scripts/cuda-setup installs it)");
            return;
        }
        let checked = succeeded("device_memory", &output);
        assert!(checked.ends_with(" checks\n"), "{checked}");
    }
}

#[test]
fn launches_from_c_keep_the_order_of_a_stream() {
    let source = test_program("streams.cu");
    let kernels = Variant::file(&source).unwrap().cache(&cache()).build().unwrap();
    let fake_driver = FakeDriver::new(&format!("modules={}", kernels.display()));
    if can_build("streams, from C") {
        let program = Program::build("cc", &STRICT, &test_program("streams.c"), &shared());
        let source = source.to_str().unwrap();
        let on_cuda = program.run_on(&fake_driver, &[source, "cuda:0"]);
        if String::from_utf8_lossy(&on_cuda.stderr).contains("no NVRTC to compile kernels") {
            println!("skipped: streams, from C: no NVRTC (scripts/cuda-setup installs it)");
            return;
        }
        for output in [on_cuda, program.run(&[source, "ptx"]), program.run(&[source, "cpu"])] {
            let checked = succeeded("streams", &output);
            assert!(checked.ends_with(" checks\n"), "{checked}");
        }
        fake_driver.log().assert_clean();
    }
}

#[test]
fn kernels_compile_run_stop_and_fail_from_c() {
    if can_build("kernels, from C") {
        let flags: Vec<&str> = STRICT.iter().copied().chain(["-pthread"]).collect();
        let program = Program::build("cc", &flags, &test_program("kernels.c"), &shared());
        let checked = succeeded("kernels", &program.run(&[]));
        assert!(checked.ends_with(" checks\n"), "{checked}");
    }
}

/// A shared object on the CPU, and PTX, which has no need of a compiler here.
#[test]
fn kernels_that_were_compiled_before_are_loaded_from_c() {
    if can_build("loaded kernels, from C") {
        let object = Variant::file(Path::new(&kernel())).unwrap().cache(&cache()).build().unwrap();
        let folder = tempfile::tempdir().unwrap();
        let image = folder.path().join("numbers.ptx");
        let program = Program::build("cc", &STRICT, &test_program("loaded.c"), &shared());
        let arguments = [object.to_str().unwrap(), image.to_str().unwrap()];
        let checked = succeeded("loaded", &program.run(&arguments));
        assert!(checked.ends_with(" checks\n"), "{checked}");
    }
}

/// Headers and a program of the oldest version that the library takes, and of the version before this one.
#[test]
fn programs_of_the_previous_header_run() {
    let previous = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/previous");
    for version in ["3", "7"].into_iter().filter(|_| can_build("programs of earlier headers")) {
        let includes = [version, ""].map(|folder| format!("-I{}", previous.join(folder).display()));
        let flags: Vec<&str> =
            includes.iter().map(String::as_str).chain(STRICT).chain(["-pthread"]).collect();
        let program = Program::build("cc", &flags, &previous.join(version).join("kernels.c"), &shared());
        let checked = succeeded("kernels", &program.run(&[]));
        assert!(checked.ends_with(" checks\n"), "{checked}");
        let program = Program::build("cc", &flags, &example(), &shared());
        assert_eq!(succeeded("first_kernel", &program.run(&[&kernel()])), RIGHT);
    }
}

/// The other headers of the version before this one; those of the oldest are `warpbell.h` alone.
#[test]
fn programs_of_the_previous_headers_of_volumes_and_the_host_run() {
    if can_build("programs of earlier headers") {
        let previous = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/previous/7");
        let include = format!("-I{}", previous.display());
        host_io(&[&include]);
        volumes(&[&include]);
    }
}

#[test]
fn cmake_finds_the_package() {
    if !can_build("the CMake package") || !has("cmake", "the CMake package") {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut configure = Command::new("cmake");
    configure.arg("-S").arg(test_program("")).arg("-B").arg(folder.path());
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", prefix().display()));
    configure.arg(format!("-DEXAMPLE={}", example().display()));
    succeeded("cmake", &configure.output().unwrap());
    succeeded("cmake --build", &Command::new("cmake").arg("--build").arg(folder.path()).output().unwrap());
    for name in ["shared", "static"] {
        let mut program = Command::new(folder.path().join(name));
        program
            .arg(kernel())
            .env("WARPBELL_CACHE_DIR", concat!(env!("CARGO_TARGET_TMPDIR"), "/capi-kernels"));
        assert_eq!(succeeded(name, &program.output().unwrap()), RIGHT);
    }
    succeeded("device", &Command::new(folder.path().join("device")).output().unwrap());
}

/// Without one, a GPU is a missing requirement; with one, it depends on the GPUs.
fn has_cuda_driver() -> bool {
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"];
    let set = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    set.split(':').chain(folders).any(|folder| std::path::Path::new(folder).join("libcuda.so.1").exists())
}

/// Whether the C compiler has AddressSanitizer's library.
pub fn sanitizer_works() -> bool {
    let folder = tempfile::tempdir().unwrap();
    let (source, program) = (folder.path().join("a.c"), folder.path().join("a"));
    std::fs::write(&source, "int main(void) { return 0; }\n").unwrap();
    let mut command = Command::new("cc");
    command.arg("-fsanitize=address,undefined").arg(&source).arg("-o").arg(&program);
    let works = command.output().unwrap().status.success();
    if !works {
        println!("skipped: refusals under AddressSanitizer: cc has no libasan");
    }
    works
}
