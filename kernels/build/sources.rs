//! The device sources: which files there are, and how they are embedded.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use crate::fnv::Fnv;
use crate::includes::closure;

/// One file.
pub struct Source {
    /// As it is included, or the file name alone.
    pub name: String,
    pub path: PathBuf,
    pub text: String,
}

/// All of them.
pub struct Sources {
    /// Folder of the package.
    pub root: PathBuf,
    /// The device library: `warpbell/...`.
    pub library: Vec<Source>,
    /// The CPU executor: `simt/...`.
    pub executor: Vec<Source>,
    /// Our kernels and what they share, of the features that are on: names are unique over their folders.
    pub kernels: Vec<Source>,
    /// Kernels that make one library call each, to be counted, not run.
    pub probes: Vec<Source>,
    /// What each call of the library may cost.
    pub budgets: Vec<Source>,
}

impl Sources {
    pub fn read() -> Sources {
        let root =
            PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR"));
        let library = collect(&root.join("include"), &root.join("include"), &["h", "cuh"]);
        let executor = collect(&root, &root.join("simt"), &["h", "cpp"]);
        let executor = executor.into_iter().filter(|file| !file.name.starts_with("simt/tests/")).collect();
        let of = |folder: &str| collect(&root.join(folder), &root.join(folder), &["cu", "cuh", "h"]);
        let mut kernels = of("proof");
        if chosen("BENCH") {
            kernels.extend(of("bench"));
        }
        if chosen("CHECKS") {
            kernels.extend(of("checks"));
        }
        let probes = collect(&root.join("probes"), &root.join("probes"), &["cu", "cuh"]);
        let budgets = collect(&root.join("budgets"), &root.join("budgets"), &["toml"]);
        Sources { root, library, executor, kernels, probes, budgets }
    }

    /// Writes the constants through which the crate carries its sources.
    pub fn embed(&self, path: &Path) {
        let mut text = String::new();
        for (name, doc, files) in [
            ("HEADERS", "The device library, by the names under which it is included.", &self.library),
            ("EXECUTOR", "The CPU executor, by the names under which it is included.", &self.executor),
            ("SOURCES", "Our kernels, by file name.", &self.kernels),
            ("PROBES", "Kernels of one library call each, to be counted, by file name.", &self.probes),
            ("BUDGETS", "What each call of the device library may cost, by file name.", &self.budgets),
        ] {
            writeln!(text, "/// {doc}\npub static {name}: &[(&str, &str)] = &[").expect("a string grows");
            for file in files {
                writeln!(text, "    ({:?}, include_str!({:?})),", file.name, file.path)
                    .expect("a string grows");
            }
            text.push_str("];\n");
        }
        write_if_changed(path, text.as_bytes());
    }

    /// The files whose kernels are embedded for GPUs: all that define some.
    pub fn kernel_files(&self) -> impl Iterator<Item = &Source> {
        let defines = |file: &&Source| file.name.ends_with(".cu") && file.text.contains("WARPBELL_KERNEL(");
        self.kernels.iter().filter(defines)
    }

    /// Where kernels find what they share.
    pub fn folders(&self) -> [PathBuf; 3] {
        ["bench", "checks", "proof"].map(|folder| self.root.join(folder))
    }

    /// Hash of what the CUDA images of one kernel file are made from: itself and what it includes.
    pub fn cuda_hash(&self, kernel: &Source) -> String {
        let all = self.library.iter().chain(&self.kernels);
        let all: Vec<_> = all.map(|file| (file.name.as_str(), file.text.as_str())).collect();
        let taken = closure(&kernel.name, &kernel.text, &all);
        let own = [(kernel.name.as_str(), kernel.text.as_str())];
        taken.into_iter().chain(own).fold(Fnv::new(), |hash, (name, text)| hash.text(name).text(text)).hex()
    }

    /// Hash of what the CPU target is made from.
    pub fn cpu_hash(&self) -> Fnv {
        hash(self.library.iter().chain(&self.executor).chain(&self.kernels))
    }
}

/// Whether a feature of this package is on.
fn chosen(feature: &str) -> bool {
    std::env::var_os(format!("CARGO_FEATURE_{feature}")).is_some()
}

fn hash<'a>(files: impl Iterator<Item = &'a Source>) -> Fnv {
    files.fold(Fnv::new(), |hash, file| hash.text(&file.name).text(&file.text))
}

/// The files below `folder` with one of the extensions, sorted, named relative to `base`.
fn collect(base: &Path, folder: &Path, extensions: &[&str]) -> Vec<Source> {
    let mut files = Vec::new();
    let entries = folder.read_dir().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    for path in entries.flatten().map(|entry| entry.path()) {
        if path.is_dir() {
            files.extend(collect(base, &path, extensions));
        } else if path.extension().is_some_and(|e| extensions.iter().any(|known| e == *known)) {
            let text =
                fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
            let name = path.strip_prefix(base).expect("below its base").to_string_lossy().replace('\\', "/");
            files.push(Source { name, path, text });
        }
    }
    files.sort_by(|a, b| a.name.cmp(&b.name));
    files
}

/// Leaves a file alone that has this content already, so that nothing is rebuilt for it.
pub fn write_if_changed(path: &Path, content: &[u8]) {
    if fs::read(path).ok().as_deref() != Some(content) {
        fs::write(path, content).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    }
}
