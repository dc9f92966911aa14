//! The CUDA images, where there is an nvcc: PTX for every kernel file, and cubins on demand, for binaries that go to
//! machines with GPUs. Without an nvcc there are none, and NVRTC compiles at the first use.

use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::{env, fs, io, thread};

use lzma_rust2::{LzmaOptions, LzmaWriter};

use crate::find;
use crate::kept_image::kept_image;
use crate::run::run_compiler;
use crate::sources::{Source, Sources, write_if_changed};

/// The oldest architecture that the library knows: drivers compile its PTX for every newer one.
const PTX: u32 = 75;
/// Of nvcc, for every image.
const OPTIONS: [&str; 2] = ["-std=c++20", "-O3"];
const CUBINS: [u32; 5] = [75, 80, 90, 100, 120];

/// One image to embed.
struct Image<'a> {
    kernel: &'a Source,
    arch: u32,
    cubin: bool,
    /// Where its content is, compressed.
    path: PathBuf,
}

impl Image<'_> {
    fn name(&self) -> String {
        let stem = self.stem();
        if self.cubin {
            format!("{stem}.sm_{}.cubin", self.arch)
        } else {
            format!("{stem}.compute_{}.ptx", self.arch)
        }
    }

    fn stem(&self) -> &str {
        self.kernel.name.trim_end_matches(".cu")
    }
}

/// nvcc and how it names itself.
struct Nvcc {
    path: PathBuf,
    version: String,
}

pub fn build(sources: &Sources, out: &Path) {
    // Not PATH: each change of that would build all again. An nvcc that is new there is found with the next change.
    for name in ["WARPBELL_NVCC", "WARPBELL_CUBINS", "WARPBELL_IMAGES", "CUDA_HOME", "CUDA_PATH"] {
        println!("cargo:rerun-if-env-changed={name}");
    }
    let asked = asked();
    // What was asked for by name ends the build where it cannot be had.
    let forced = !asked.is_empty() || find::chosen_nvcc().is_some();
    let variable = if find::chosen_nvcc().is_some() { "WARPBELL_NVCC=" } else { "" };
    let named = |path: &Path| PathBuf::from(format!("{variable}{}", path.display()));
    let nvcc =
        find::nvcc().and_then(|path| known(identify(&path).ok_or("is no nvcc"), &named(&path), forced));
    assert!(asked.is_empty() || nvcc.is_some(), "{NO_NVCC}");
    let mut images = Vec::new();
    if let Some(nvcc) = &nvcc {
        images = wanted(sources, &asked, nvcc, &kept(out));
        let mut results = compile(sources, &images, nvcc).into_iter();
        images.retain(|image| {
            known(results.next().expect("one each"), Path::new(&image.name()), forced).is_some()
        });
    }
    embed(&images, nvcc.as_ref(), &out.join("images.rs"));
}

/// What was found or made; a failure ends the build if it was asked for by name, and else is a warning.
fn known<T>(result: Result<T, impl std::fmt::Display>, what: &Path, forced: bool) -> Option<T> {
    match result {
        Ok(known) => Some(known),
        Err(error) if forced => panic!("{}: {error}", what.display()),
        Err(error) => {
            let line = error.to_string();
            let line = line.lines().next().unwrap_or_default();
            println!("cargo:warning={}: {line}; NVRTC compiles it at the first use", what.display());
            None
        }
    }
}

/// Images beside the one for all GPUs are only ever asked for by name.
const NO_NVCC: &str = "WARPBELL_CUBINS asks for images, which only nvcc makes: name it in WARPBELL_NVCC \
                       ($(scripts/cuda-setup)/bin/nvcc), or build without WARPBELL_CUBINS";

/// What `WARPBELL_CUBINS` names: architectures, and whether machine code for them (`90`) or PTX (`compute_90`).
fn asked() -> Vec<(u32, bool)> {
    let image = |name: &str| {
        let (arch, cubin) = name.strip_prefix("compute_").map_or((name, true), |arch| (arch, false));
        (arch.parse().expect("WARPBELL_CUBINS: all, or such as 90,compute_90"), cubin)
    };
    match env::var("WARPBELL_CUBINS").as_deref() {
        Err(_) | Ok("") => Vec::new(),
        Ok("all") => CUBINS.map(|arch| (arch, true)).to_vec(),
        Ok(list) => list.split(',').map(image).collect(),
    }
}

/// Where images are kept: with `WARPBELL_IMAGES` in a folder that builds for several targets share.
fn kept(out: &Path) -> PathBuf {
    let Some(folder) = env::var_os("WARPBELL_IMAGES").filter(|folder| !folder.is_empty()) else {
        return out.to_owned();
    };
    let folder = PathBuf::from(folder);
    assert!(folder.is_absolute(), "WARPBELL_IMAGES={}: must be an absolute path", folder.display());
    fs::create_dir_all(&folder)
        .unwrap_or_else(|error| panic!("WARPBELL_IMAGES={}: {error}", folder.display()));
    folder
}

fn wanted<'a>(sources: &'a Sources, asked: &[(u32, bool)], nvcc: &Nvcc, kept: &Path) -> Vec<Image<'a>> {
    let others = asked.iter().copied().filter(|image| *image != (PTX, false));
    let kinds: Vec<_> = [(PTX, false)].into_iter().chain(others).collect();
    let of = |kernel: &'a Source| {
        let hash = sources.cuda_hash(kernel);
        let image = |&(arch, cubin): &(u32, bool)| {
            let mut image = Image { kernel, arch, cubin, path: PathBuf::new() };
            image.path = kept.join(kept_image(&hash, &nvcc.version, &OPTIONS, &image.name()));
            image
        };
        kinds.iter().map(image).collect::<Vec<_>>()
    };
    sources.kernel_files().flat_map(of).collect()
}

fn identify(path: &Path) -> Option<Nvcc> {
    let output = Command::new(path).arg("--version").output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let version = text.split_once(", V")?.1.split_whitespace().next()?.to_owned();
    Some(Nvcc { path: path.to_owned(), version })
}

/// Compiles what is not in `OUT_DIR` yet, as many at a time as cargo allows.
fn compile(sources: &Sources, images: &[Image<'_>], nvcc: &Nvcc) -> Vec<Result<(), String>> {
    let jobs = env::var("NUM_JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(1);
    in_parallel(jobs, images, |image| compile_one(sources, image, nvcc))
}

fn compile_one(sources: &Sources, image: &Image<'_>, nvcc: &Nvcc) -> Result<(), String> {
    if image.path.is_file() {
        return Ok(());
    }
    let (kind, arch) = if image.cubin { ("-cubin", "sm") } else { ("-ptx", "compute") };
    let unfinished = image.path.with_extension("unfinished");
    let mut command = Command::new(&nvcc.path);
    command.arg(kind).args(OPTIONS).args([&format!("-arch={arch}_{}", image.arch), "-I"]);
    command.arg(sources.root.join("include"));
    command.args(sources.folders().iter().flat_map(|folder| [Path::new("-I"), folder]));
    command.arg(&image.kernel.path).arg("-o").arg(&unfinished);
    let crashed = |what: &str| {
        println!("cargo:warning={} on {}: {what}", nvcc.path.display(), image.name());
    };
    let output = run_compiler(&mut command, crashed).map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    pack(&unfinished, &image.path).map_err(|error| error.to_string())
}

/// Programs carry images compressed: they take a tenth of the room, half of what deflate leaves.
fn pack(made: &Path, image: &Path) -> io::Result<()> {
    let content = fs::read(made)?;
    let size = Some(content.len() as u64);
    let mut packer = LzmaWriter::new_use_header(Vec::new(), &LzmaOptions::with_preset(9), size)?;
    packer.write_all(&content)?;
    fs::write(made, packer.finish()?)?;
    fs::rename(made, image)
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

fn embed(images: &[Image<'_>], nvcc: Option<&Nvcc>, path: &Path) {
    let compiler = nvcc.map(|nvcc| format!("nvcc {}", nvcc.version)).unwrap_or_default();
    let mut text = String::from("&[\n");
    for image in images {
        let format = if image.cubin { "Cubin" } else { "Ptx" };
        writeln!(
            text,
            "    Image {{ kernel: {:?}, format: Format::{format}, arch: {}, compiler: {compiler:?}, \
             packed: include_bytes!({:?}) }},",
            image.stem(),
            image.arch,
            image.path,
        )
        .expect("a string grows");
    }
    text.push_str("]\n");
    write_if_changed(path, text.as_bytes());
}
