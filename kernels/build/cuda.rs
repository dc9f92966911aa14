//! The CUDA images: PTX for every kernel file, so that a plain build takes no compiler and no time; cubins on demand,
//! for bundles that go to a machine with a GPU.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, thread};

use crate::find;
use crate::run::run_compiler;
use crate::sources::{Source, Sources, write_if_changed};

/// PTX is compiled for the oldest architecture that the library knows, and for the oldest that most have.
const PTX: [u32; 2] = [75, 80];
const CUBINS: [u32; 4] = [80, 90, 100, 120];

/// One image to embed.
struct Image<'a> {
    kernel: &'a Source,
    arch: u32,
    cubin: bool,
    hash: String,
    /// Where its content is; the folder, until that is known.
    path: PathBuf,
    origin: String,
    stale: bool,
}

impl Image<'_> {
    fn name(&self) -> String {
        let stem = self.kernel.name.trim_end_matches(".cu");
        if self.cubin {
            format!("{stem}.sm_{}.cubin", self.arch)
        } else {
            format!("{stem}.compute_{}.ptx", self.arch)
        }
    }

    fn header(&self) -> String {
        format!("// src-hash {}", self.hash)
    }
}

/// nvcc and how it names itself.
struct Nvcc {
    path: PathBuf,
    version: String,
}

pub fn build(sources: &Sources, out: &Path) {
    for name in ["WARPBELL_NVCC", "WARPBELL_CUBINS", "WARPBELL_STALE_PTX"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let forced = find::chosen_nvcc().is_some_and(|chosen| chosen != *"none");
    let mut images = wanted(sources, out);
    let (fresh, mut missing): (Vec<_>, Vec<_>) =
        images.drain(..).partition(|image| !forced && is_checked_in(sources, image));
    images.extend(fresh.into_iter().map(|image| checked_in(sources, image, false)));
    if !missing.is_empty() {
        // Looked for only where it is needed: a change of PATH shall not rebuild anything else.
        for name in ["CUDA_HOME", "CUDA_PATH", "PATH"] {
            println!("cargo:rerun-if-env-changed={name}");
        }
        let nvcc = find::nvcc().and_then(identify);
        missing = compile(sources, missing, nvcc.as_ref(), forced, &mut images);
    }
    require_cubins(&missing);
    report_stale(&missing);
    let left = missing.into_iter().filter(|image| prebuilt(sources, image).is_file());
    images.extend(left.map(|image| checked_in(sources, image, true)));
    images.sort_by_key(|image| (image.kernel.name.clone(), image.cubin, image.arch));
    embed(&images, &out.join("images.rs"));
}

fn wanted<'a>(sources: &'a Sources, out: &Path) -> Vec<Image<'a>> {
    let cubins: Vec<u32> = match env::var("WARPBELL_CUBINS").as_deref() {
        Err(_) | Ok("") => Vec::new(),
        Ok("all") => CUBINS.to_vec(),
        Ok(list) => {
            list.split(',').map(|arch| arch.parse().expect("WARPBELL_CUBINS: numbers such as 90")).collect()
        }
    };
    let images = sources.kernel_files().flat_map(|kernel| {
        let hash = sources.cuda_hash(kernel);
        let ptx = ptx_of(kernel).iter().map(|arch| (*arch, false));
        let kinds: Vec<_> = ptx.chain(cubins.iter().map(|arch| (*arch, true))).collect();
        kinds.into_iter().map(move |(arch, cubin)| {
            let (path, origin) = (out.to_owned(), String::new());
            Image { kernel, arch, cubin, hash: hash.clone(), path, origin, stale: false }
        })
    });
    images.collect()
}

/// Kernels that try each call of the library are large, and nobody waits for them: newer GPUs take what the oldest does.
fn ptx_of(kernel: &Source) -> &'static [u32] {
    if kernel.name.ends_with("_check.cu") { &PTX[..1] } else { &PTX }
}

fn prebuilt(sources: &Sources, image: &Image<'_>) -> PathBuf {
    sources.root.join("prebuilt").join(image.name())
}

/// Whether the checked-in PTX was made from these sources.
fn is_checked_in(sources: &Sources, image: &Image<'_>) -> bool {
    let text = fs::read_to_string(prebuilt(sources, image)).unwrap_or_default();
    !image.cubin && text.lines().next() == Some(&image.header())
}

fn checked_in<'a>(sources: &Sources, image: Image<'a>, stale: bool) -> Image<'a> {
    Image { path: prebuilt(sources, &image), origin: "prebuilt".to_owned(), stale, ..image }
}

fn identify(path: PathBuf) -> Option<Nvcc> {
    let output = Command::new(&path).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_once(", V")?.1.split_whitespace().next()?.to_owned();
    Some(Nvcc { path, version })
}

/// Compiles what is not in `OUT_DIR` yet, as many at a time as cargo allows; returns what could not be.
fn compile<'a>(
    sources: &Sources,
    mut missing: Vec<Image<'a>>,
    nvcc: Option<&Nvcc>,
    forced: bool,
    done: &mut Vec<Image<'a>>,
) -> Vec<Image<'a>> {
    let Some(nvcc) = nvcc else {
        assert!(!forced, "WARPBELL_NVCC does not run: {:?}", find::chosen_nvcc().unwrap_or_default());
        return missing;
    };
    for image in &mut missing {
        image.path.push(format!("{}.{}.{}", image.hash, nvcc.version, image.name()));
    }
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    let results = in_parallel(jobs, &missing, |image| compile_one(sources, image, nvcc));
    let mut failed = Vec::new();
    for (image, result) in missing.into_iter().zip(results) {
        match result {
            Ok(()) => done.push(Image { origin: format!("nvcc {}", nvcc.version), ..image }),
            Err(text) if forced => panic!("{} failed on {}:\n{text}", nvcc.path.display(), image.name()),
            Err(text) => {
                let line = text.lines().next().unwrap_or_default();
                println!("cargo:warning={} failed on {}: {line}", nvcc.path.display(), image.name());
                failed.push(image);
            }
        }
    }
    failed
}

fn compile_one(sources: &Sources, image: &Image<'_>, nvcc: &Nvcc) -> Result<(), String> {
    if image.path.is_file() {
        return Ok(());
    }
    let (kind, arch) = if image.cubin { ("-cubin", "sm") } else { ("-ptx", "compute") };
    let unfinished = image.path.with_extension("unfinished");
    let mut command = Command::new(&nvcc.path);
    command.args([kind, "-std=c++20", "-O3", &format!("-arch={arch}_{}", image.arch), "-I"]);
    command.arg(sources.root.join("include")).arg(&image.kernel.path).arg("-o").arg(&unfinished);
    let crashed = |what: &str| {
        println!("cargo:warning={} on {}: {what}", nvcc.path.display(), image.name());
    };
    let output = run_compiler(&mut command, crashed).map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    let mut content = fs::read(&unfinished).map_err(|error| error.to_string())?;
    if !image.cubin {
        let header = format!("{}\n// nvcc {}\n", image.header(), nvcc.version);
        content.splice(0..0, header.into_bytes());
    }
    fs::write(&image.path, content).map_err(|error| error.to_string())
}

/// The results of `work` on every item, by `jobs` threads.
fn in_parallel<T: Sync, R: Send>(jobs: usize, items: &[T], work: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let take = || {
        let mut results = Vec::new();
        while let index = next.fetch_add(1, Ordering::Relaxed)
            && let Some(item) = items.get(index)
        {
            results.push((index, work(item)));
        }
        results
    };
    let mut results: Vec<(usize, R)> = thread::scope(|scope| {
        let threads: Vec<_> = (0..jobs.clamp(1, items.len().max(1))).map(|_| scope.spawn(take)).collect();
        threads
            .into_iter()
            .flat_map(|thread| thread.join().expect("a compile thread does not panic"))
            .collect()
    });
    results.sort_by_key(|(index, _)| *index);
    results.into_iter().map(|(_, result)| result).collect()
}

/// Cubins are only ever asked for by name.
fn require_cubins(missing: &[Image<'_>]) {
    let names = missing.iter().filter(|image| image.cubin).map(Image::name).collect::<Vec<_>>().join(", ");
    assert!(
        names.is_empty(),
        "WARPBELL_CUBINS asks for {names}, which only nvcc makes: name it in WARPBELL_NVCC \
         ($(scripts/cuda-setup)/bin/nvcc), or build without WARPBELL_CUBINS"
    );
}

fn report_stale(missing: &[Image<'_>]) {
    if missing.is_empty() {
        return;
    }
    let names = missing.iter().map(Image::name).collect::<Vec<_>>().join(", ");
    let text = format!(
        "PTX is missing or of other sources, and no nvcc was given: {names} (scripts/regenerate-ptx makes it)"
    );
    let strict = env::var_os("WARPBELL_STALE_PTX").is_some_and(|mode| mode == "error");
    assert!(!strict, "{text}");
    println!("cargo:warning={text}");
}

fn embed(images: &[Image<'_>], path: &Path) {
    let mut text = String::from("&[\n");
    for image in images {
        let Image { arch, cubin, hash, origin, stale, .. } = image;
        let kernel = image.kernel.name.trim_end_matches(".cu");
        writeln!(
            text,
            "    Image {{ kernel: {kernel:?}, format: Format::{}, arch: {arch}, origin: {origin:?}, \
             source_hash: {hash:?}, stale: {stale}, bytes: include_bytes!({:?}) }},",
            if *cubin { "Cubin" } else { "Ptx" },
            image.path,
        )
        .expect("a string grows");
    }
    text.push_str("]\n");
    write_if_changed(path, text.as_bytes());
}
