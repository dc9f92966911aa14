//! Variants: the device source compiled anew, with other definitions or another kernel.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::cache::{Cache, failed};
use super::compile::{Compiler, MODULE, Work};
use super::nvrtc::{self, Nvrtc};
use super::{CompileError, CudaImage};
use crate::fnv::Fnv;
use crate::image::Format;
use crate::includes::closure;
use crate::{EXECUTOR, HEADERS, SOURCES};

/// The header that has the rules.
const MUTATIONS: &str = "warpbell/mutation.cuh";

/// What is compiled besides the executor.
#[derive(Clone, Debug)]
enum Kernels {
    /// All of ours.
    Ours,
    /// One file of ours, by its stem.
    Only(String),
    /// Another source.
    Text { name: String, text: String },
}

/// Device source to be compiled, into a module of its own for the CPU target or into an image for a GPU. Results
/// are kept, by the hash of all that they are made from; the executor, which is the same for all, is compiled once.
#[derive(Clone, Debug)]
pub struct Variant {
    kernels: Kernels,
    headers: Vec<(String, String)>,
    definitions: Vec<String>,
    /// Rules that are switched off in the module once it is loaded.
    switches: Vec<String>,
    cache: Option<PathBuf>,
    optimise: bool,
}

impl Variant {
    /// Our own kernels, to be changed by definitions.
    pub fn ours() -> Variant {
        let (headers, definitions, switches) = (Vec::new(), Vec::new(), Vec::new());
        Variant { kernels: Kernels::Ours, headers, definitions, switches, cache: None, optimise: true }
    }

    /// Of our own kernels only those of one file: `queue_test` for `queue_test.cu`.
    pub fn only(self, file: &str) -> Variant {
        Variant { kernels: Kernels::Only(file.to_owned()), ..self }
    }

    /// Another source, under a name for messages. It includes `<warpbell/warpbell.cuh>`, and defines kernels with
    /// `WARPBELL_KERNEL`.
    pub fn text(name: &str, text: &str) -> Variant {
        let kernels = Kernels::Text { name: name.to_owned(), text: text.to_owned() };
        Variant { kernels, ..Variant::ours() }
    }

    /// The same from a file.
    pub fn file(path: &Path) -> Result<Variant, CompileError> {
        let text = fs::read_to_string(path).map_err(failed(path))?;
        Ok(Variant::text(&path.display().to_string(), &text))
    }

    /// A header that the source may include by this name, such as `mine.cuh`.
    pub fn header(mut self, name: &str, text: &str) -> Variant {
        self.headers.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Defines a macro for the device source: `NAME` or `NAME=VALUE`.
    pub fn define(mut self, definition: &str) -> Variant {
        self.definitions.push(definition.to_owned());
        self
    }

    /// Switches a rule of the device library off, for the CPU target: one of `mutation.cuh`, such as `NO_TURN`. One
    /// module serves for all rules but its constants, so that there is one to compile.
    pub fn mutate(mut self, rule: &str) -> Variant {
        let constant = format!("WARPBELL_CONSTANT({rule},");
        if HEADERS.iter().any(|(name, text)| *name == MUTATIONS && text.contains(&constant)) {
            return self.define(&format!("WARPBELL_MUTATE_{rule}=1"));
        }
        self.switches.push(rule.to_owned());
        if self.switches.len() == 1 { self.define("WARPBELL_SWITCHES") } else { self }
    }

    /// Keeps results here; by default in `$WARPBELL_CACHE_DIR`, `$XDG_CACHE_HOME/warpbell` or `~/.cache/warpbell`.
    pub fn cache(self, folder: &Path) -> Variant {
        Variant { cache: Some(folder.to_owned()), ..self }
    }

    /// Compiles faster, for code that runs only briefly. Of no effect on images for GPUs.
    pub fn quick(self) -> Variant {
        Variant { optimise: false, ..self }
    }

    /// Compiles for the CPU target, if there is no result yet; returns the shared object. An error where a rule is
    /// switched off, which `load` alone can do.
    pub fn build(&self) -> Result<PathBuf, CompileError> {
        self.refuse_switches("a shared object has every rule: load the variant")?;
        self.compile()
    }

    /// Rules that are switched off in the module once it is loaded.
    pub(crate) fn switches(&self) -> &[String] {
        &self.switches
    }

    pub(crate) fn compile(&self) -> Result<PathBuf, CompileError> {
        self.check()?;
        let compiler = Compiler::find(self.optimise)?;
        let files = self.files()?;
        // It includes the headers, for the table of the ABI.
        let executor = hash(EXECUTOR.iter().chain(HEADERS).copied()).text(&compiler.identity());
        let own: Vec<_> = files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let all = self.hash(&own).text(&executor.hex());
        let cache = Cache::open(self.cache.as_deref())?;
        let module = format!("module-{}.so", all.hex());
        if let Some(module) = cache.file(&module) {
            return Ok(module);
        }
        let executor = compiler.executor(&cache, &executor.hex())?;
        let work = Work::new(&cache)?;
        let headers = self.headers.iter().map(|(name, text)| (format!("user/{name}"), text));
        for (name, text) in headers.chain(files.iter().map(|(name, text)| (name.clone(), text))) {
            work.write(&name, text)?;
        }
        let flags = self.definitions.iter().map(|definition| format!("-D{definition}"));
        let names: Vec<_> = files.into_iter().map(|(name, _)| name).collect();
        compiler.link(&work, &names, flags, &executor, &self.name())?;
        work.keep(MODULE, &cache, &module)
    }

    /// Compiles for a GPU of this compute capability (90 for 9.0) by NVRTC, if there is no result yet: machine code
    /// where NVRTC knows the architecture, else PTX for the newest that the GPU can take, which its driver compiles.
    pub fn cuda(&self, capability: u32) -> Result<CudaImage, CompileError> {
        self.by_nvrtc(|nvrtc| nvrtc.target(capability), &[])
    }

    /// The same as PTX, with lines of the source: for this architecture if NVRTC knows it, else for the newest that the GPU
    /// can take.
    pub fn ptx(&self, capability: u32) -> Result<CudaImage, CompileError> {
        let target = |nvrtc: &Nvrtc| Ok((Format::Ptx, nvrtc.target(capability)?.1));
        self.by_nvrtc(target, &["--generate-line-info"])
    }

    fn by_nvrtc(
        &self,
        target: impl FnOnce(&Nvrtc) -> Result<(Format, u32), CompileError>,
        more: &[&str],
    ) -> Result<CudaImage, CompileError> {
        self.refuse_switches("rules are switched off on the CPU target alone")?;
        self.check()?;
        let (name, text) = self.cuda_source()?;
        let nvrtc = Nvrtc::get()?;
        let (format, arch) = target(nvrtc)?;
        let mut options = nvrtc::options(format, arch, &self.definitions);
        options.extend(more.iter().map(|option| (*option).to_owned()));
        let of_kernels = SOURCES.iter().filter(|(name, _)| !name.ends_with(".cu"));
        let headers: Vec<(&str, &str)> = HEADERS.iter().chain(of_kernels).copied().collect();
        let all = self.hash(&[(name, text)]);
        let all = options.iter().fold(all.text(nvrtc.identity()), |hash, option| hash.text(option));
        let cache = Cache::open(self.cache.as_deref())?;
        let kept = format!("cuda-{}.{}", all.hex(), nvrtc::extension(format));
        let (bytes, compiled) = match cache.content(&kept) {
            Some(bytes) => (bytes, false),
            None => {
                let ours = headers.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
                let headers = ours.chain(self.headers.iter().cloned()).collect();
                let (name, text) = (name.to_owned(), text.to_owned());
                let job = nvrtc::Job { name, text, headers, options, format, arch };
                let bytes = nvrtc.compile_watched(job, super::WATCH.get())?;
                cache.keep(&kept, bytes.clone())?;
                (bytes, true)
            }
        };
        CudaImage::new(name, format, arch, bytes, compiled)
    }

    fn refuse_switches(&self, limit: &'static str) -> Result<(), CompileError> {
        match self.switches.first() {
            None => Ok(()),
            Some(rule) => Err(CompileError::Name { object: "rule", name: rule.clone(), limit }),
        }
    }

    /// Whether names and definitions are such as every compiler takes the same way.
    fn check(&self) -> Result<(), CompileError> {
        let wrong =
            |object, name: &str, limit| Err(CompileError::Name { object, name: name.to_owned(), limit });
        for (name, _) in &self.headers {
            let parts = Path::new(name).components();
            if name.is_empty()
                || !parts.into_iter().all(|part| matches!(part, std::path::Component::Normal(_)))
            {
                return wrong("header", name, "expected a relative path without '..'");
            }
        }
        for definition in &self.definitions {
            let name = definition.split('=').next().unwrap_or_default();
            let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
            if name.is_empty() || !name.chars().all(word) {
                return wrong("definition", definition, "expected NAME or NAME=VALUE");
            }
        }
        Ok(())
    }

    /// For messages.
    pub(crate) fn name(&self) -> String {
        let base = match &self.kernels {
            Kernels::Ours => "the device source",
            Kernels::Only(name) | Kernels::Text { name, .. } => name,
        };
        let definitions = self.definitions.iter().map(|definition| format!(" -D{definition}"));
        let switches = self.switches.iter().map(|rule| format!(" without {rule}"));
        std::iter::once(base.to_owned()).chain(definitions).chain(switches).collect()
    }

    /// Hash of these files, of what the user added, and of what they include.
    fn hash(&self, files: &[(&str, &str)]) -> Fnv {
        let added = self.headers.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let own: Vec<_> = files.iter().copied().chain(added).collect();
        let ours: Vec<_> = HEADERS.iter().chain(SOURCES).copied().collect();
        let named = |name: &str| name.strip_prefix("src/").unwrap_or(name).to_owned();
        let taken: BTreeSet<_> =
            own.iter().flat_map(|(name, text)| closure(&named(name), text, &ours)).collect();
        let all = hash(own.into_iter().chain(taken));
        self.definitions.iter().fold(all, |hash, definition| hash.text(definition))
    }

    /// What goes to the C++ compiler, by names in the work folder.
    fn files(&self) -> Result<Vec<(String, String)>, CompileError> {
        let named = |(name, text): &(&str, &str)| (format!("src/{name}"), (*text).to_owned());
        match &self.kernels {
            Kernels::Ours => Ok(ours().map(named).collect()),
            Kernels::Only(stem) => Ok(vec![named(find(stem)?)]),
            // With the user's name in messages of the compiler.
            Kernels::Text { name, text } => {
                let kernel = ("kernel.cu".to_owned(), format!("#line 1 {name:?}\n{text}"));
                Ok(vec![kernel])
            }
        }
    }

    /// Name and text of what goes to NVRTC, which takes one file.
    fn cuda_source(&self) -> Result<(&str, &str), CompileError> {
        match &self.kernels {
            Kernels::Ours => Err(no_such_file("all")),
            Kernels::Only(stem) => find(stem).copied(),
            Kernels::Text { name, text } => Ok((name, text)),
        }
    }
}

/// Our own files that are compiled by themselves.
fn ours() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    SOURCES.iter().filter(|(name, _)| name.ends_with(".cu"))
}

/// Our file of kernels with this stem.
fn find(stem: &str) -> Result<&'static (&'static str, &'static str), CompileError> {
    kernel_files().find(|(name, _)| stem_of(name) == stem).ok_or_else(|| no_such_file(stem))
}

fn kernel_files() -> impl Iterator<Item = &'static (&'static str, &'static str)> {
    ours().filter(|(_, text)| text.contains("WARPBELL_KERNEL("))
}

fn stem_of(name: &str) -> &str {
    name.trim_end_matches(".cu")
}

fn no_such_file(stem: &str) -> CompileError {
    let known = kernel_files().map(|(name, _)| stem_of(name)).collect::<Vec<_>>().join(", ");
    CompileError::NoSuchFile { name: stem.to_owned(), known }
}

fn hash<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Fnv {
    files.fold(Fnv::new(), |hash, (name, text)| hash.text(name).text(text))
}
