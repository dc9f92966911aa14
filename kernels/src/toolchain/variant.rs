//! Variants: the device source compiled anew, with other definitions or another kernel, as a module.

use std::path::{Path, PathBuf};
use std::{env, fs, io};

use super::compile::{Compiler, Work};
use crate::cpu::Module;
use crate::fnv::Fnv;
use crate::{EXECUTOR, Error, HEADERS, SOURCES};

/// Why a variant could not be compiled.
#[derive(Debug, thiserror::Error)]
pub enum VariantError {
    /// There is no compiler.
    #[error("no C++ compiler to compile kernels for target cpu: install one (Debian and Ubuntu: g++)")]
    NoCompiler,
    /// The compiler does not start.
    #[error("compiler {}: cannot be run: {source}", compiler.display())]
    Run {
        /// The compiler.
        compiler: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The source does not compile.
    #[error("{what} does not compile:\n{text}")]
    Compile {
        /// What was compiled.
        what: String,
        /// The compiler's first lines.
        text: String,
    },
    /// We have no such kernel file.
    #[error("kernel file '{name}': there are {known}")]
    NoSuchFile {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A file of the cache, or a source, cannot be read or written.
    #[error("{}: {source}", path.display())]
    File {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What is compiled besides the executor.
#[derive(Clone, Debug)]
enum Kernels {
    /// All of ours.
    Ours,
    /// One file of ours, by its stem.
    Only(String),
    /// A source with its own `WB_SIMT_EXPORT`.
    Text { name: String, text: String },
}

/// Device source to be compiled into a module of its own. Results are kept, by the hash of all that they are
/// made from; the executor, which is the same for all, is compiled once.
#[derive(Clone, Debug)]
pub struct Variant {
    kernels: Kernels,
    definitions: Vec<String>,
    cache: Option<PathBuf>,
    optimise: bool,
}

impl Variant {
    /// Our own kernels, to be changed by definitions.
    pub fn ours() -> Variant {
        Variant { kernels: Kernels::Ours, definitions: Vec::new(), cache: None, optimise: true }
    }

    /// Of our own kernels only those of one file: `queue_test` for `queue_test.cu`.
    pub fn only(self, file: &str) -> Variant {
        Variant { kernels: Kernels::Only(file.to_owned()), ..self }
    }

    /// Another source, under a name for messages. It includes `<warpbell/warpbell.cuh>` and lists its
    /// kernels with `WB_SIMT_EXPORT`.
    pub fn text(name: &str, text: &str) -> Variant {
        let kernels = Kernels::Text { name: name.to_owned(), text: text.to_owned() };
        Variant { kernels, ..Variant::ours() }
    }

    /// The same from a file.
    pub fn file(path: &Path) -> Result<Variant, VariantError> {
        let text = fs::read_to_string(path)
            .map_err(|source| VariantError::File { path: path.to_owned(), source })?;
        Ok(Variant::text(&path.display().to_string(), &text))
    }

    /// Defines a macro for the device source: `NAME` or `NAME=VALUE`.
    pub fn define(mut self, definition: &str) -> Variant {
        self.definitions.push(definition.to_owned());
        self
    }

    /// Switches a rule of the queue protocol off: `NO_TURN` defines `WARPBELL_MUTATE_NO_TURN`.
    pub fn mutate(self, rule: &str) -> Variant {
        self.define(&format!("WARPBELL_MUTATE_{rule}=1"))
    }

    /// Keeps results here; by default in `$WARPBELL_CACHE_DIR`, `$XDG_CACHE_HOME/warpbell` or `~/.cache/warpbell`.
    pub fn cache(self, folder: &Path) -> Variant {
        Variant { cache: Some(folder.to_owned()), ..self }
    }

    /// Compiles faster, for code that runs only briefly.
    pub fn quick(self) -> Variant {
        Variant { optimise: false, ..self }
    }

    /// Compiles, if there is no result yet, and loads the module.
    pub fn load(&self) -> Result<Module, Error> {
        Module::load(&self.build()?)
    }

    /// Compiles, if there is no result yet; returns the shared object.
    pub fn build(&self) -> Result<PathBuf, VariantError> {
        let compiler = Compiler::find(self.optimise)?;
        let files = self.files()?;
        let executor = hash(EXECUTOR.iter().copied()).text(&compiler.identity());
        let shared = HEADERS.iter().chain(SOURCES).copied();
        let own = files.iter().map(|(name, text)| (name.as_str(), text.as_str()));
        let all = hash(shared.chain(own)).text(&executor.hex());
        let all = self.definitions.iter().fold(all, |hash, definition| hash.text(definition));
        let cache = self.cache.clone().unwrap_or_else(default_cache);
        let module = cache.join(format!("module-{}.so", all.hex()));
        if module.is_file() {
            return Ok(module);
        }
        let executor = compiler.executor(&cache, &executor.hex())?;
        let work = Work::new(&cache, &all.hex())?;
        for (name, text) in &files {
            work.write(name, text)?;
        }
        let flags = self.definitions.iter().map(|definition| format!("-D{definition}"));
        let names: Vec<_> = files.into_iter().map(|(name, _)| name).collect();
        let object = compiler.link(&work, &names, flags, &executor, &self.name())?;
        work.keep(&object, &module)?;
        Ok(module)
    }

    /// For messages.
    fn name(&self) -> String {
        let base = match &self.kernels {
            Kernels::Ours => "the device source",
            Kernels::Only(name) | Kernels::Text { name, .. } => name,
        };
        let definitions = self.definitions.iter().map(|definition| format!(" -D{definition}"));
        std::iter::once(base.to_owned()).chain(definitions).collect()
    }

    /// What goes to the compiler, by names in the work folder.
    fn files(&self) -> Result<Vec<(String, String)>, VariantError> {
        let ours = || SOURCES.iter().filter(|(name, _)| name.ends_with(".cu"));
        let named = |(name, text): &(&str, &str)| (format!("src/{name}"), (*text).to_owned());
        let table = ours().find(|(name, _)| *name == "abi_table.cu").map(named);
        match &self.kernels {
            Kernels::Ours => Ok(ours().map(named).collect()),
            Kernels::Only(stem) => {
                let file = ours().find(|(name, text)| stem_of(name) == stem && defines_kernels(text));
                let file = file.ok_or_else(|| no_such_file(stem))?;
                let list = ("src/only.cu".to_owned(), table_of(file.1));
                Ok([named(file), list].into_iter().chain(table).collect())
            }
            // With the user's name in messages of the compiler.
            Kernels::Text { name, text } => {
                let kernel = ("kernel.cu".to_owned(), format!("#line 1 {name:?}\n{text}"));
                Ok([kernel].into_iter().chain(table).collect())
            }
        }
    }
}

/// Whether kernels are defined there by name, so that [`table_of`] finds them.
fn defines_kernels(source: &str) -> bool {
    source.contains("\nWARPBELL_KERNEL(")
}

fn stem_of(name: &str) -> &str {
    name.trim_end_matches(".cu")
}

fn no_such_file(stem: &str) -> VariantError {
    let known = SOURCES.iter().filter(|(_, text)| defines_kernels(text)).map(|(name, _)| stem_of(name));
    VariantError::NoSuchFile { name: stem.to_owned(), known: known.collect::<Vec<_>>().join(", ") }
}

/// A source that lists the kernels of one file, in place of `module.cu`.
fn table_of(source: &str) -> String {
    let heads = source.lines().filter_map(|line| line.strip_prefix("WARPBELL_KERNEL(")?.split(')').next());
    let kernels: Vec<_> = heads.filter_map(|head| head.split_once(", ")).collect();
    let declarations = kernels.iter().map(|(name, _)| format!("extern \"C\" void {name}(const void*);\n"));
    let entries = kernels.iter().map(|(name, args)| format!("    {{\"{name}\", {name}, sizeof({args})}},\n"));
    format!(
        "#include <warpbell/abi.h>\n#include <simt/module.h>\n{}\
         static const wb_simt_kernel_entry entries[] = {{\n{}}};\nWB_SIMT_EXPORT(entries)\n",
        declarations.collect::<String>(),
        entries.collect::<String>()
    )
}

fn hash<'a>(files: impl Iterator<Item = (&'a str, &'a str)>) -> Fnv {
    files.fold(Fnv::new(), |hash, (name, text)| hash.text(name).text(text))
}

fn default_cache() -> PathBuf {
    let set = |name: &str| env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    let home = || set("HOME").map(|home| home.join(".cache"));
    let shared = || set("XDG_CACHE_HOME").or_else(home).unwrap_or_else(env::temp_dir).join("warpbell");
    set("WARPBELL_CACHE_DIR").unwrap_or_else(shared)
}
