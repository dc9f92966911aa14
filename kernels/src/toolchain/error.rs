//! Why device source could not be compiled.

use std::io;
use std::path::PathBuf;

pub use super::cache::CacheChoice;

/// Why device source could not be compiled.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CompileError {
    /// There is no C++ compiler.
    #[error(
        "no C++ compiler to compile kernels for target cpu: install one (Debian and Ubuntu: g++), or name one in WARPBELL_CXX"
    )]
    NoCompiler,
    /// The C++ compiler that a variable names does not run.
    #[error("{variable}={}: {reason}: name a C++ compiler, or leave {variable} unset", value.display())]
    NamedCompiler {
        /// The variable.
        variable: &'static str,
        /// Its value.
        value: PathBuf,
        /// What became of it.
        reason: String,
    },
    /// There is no NVRTC.
    #[error(
        "no NVRTC to compile kernels for a GPU at run time ({tried}): install it (pip install \
         nvidia-cuda-nvrtc==13.0.88, or a CUDA 13 toolkit) and put the folder of libnvrtc.so.13 on LD_LIBRARY_PATH, \
         or name the file in WARPBELL_NVRTC, which alone counts where it is set"
    )]
    NoNvrtc {
        /// Where it was looked for, and what became of it.
        tried: String,
    },
    /// A GPU that this NVRTC cannot compile for.
    #[error("compute capability {}.{}: NVRTC {nvrtc} compiles for {oldest} and newer", capability / 10, capability % 10)]
    Architecture {
        /// The GPU's: 90 for 9.0.
        capability: u32,
        /// Version of NVRTC.
        nvrtc: String,
        /// The oldest that it knows: 75 for 7.5.
        oldest: u32,
    },
    /// NVRTC failed at something else than the source.
    #[error("{call}: {reason}")]
    Nvrtc {
        /// The function.
        call: &'static str,
        /// NVRTC's word for it.
        reason: String,
    },
    /// The user wanted an end meanwhile.
    #[error("interrupted while NVRTC compiled {what}")]
    Interrupted {
        /// What was compiled, and for which GPU.
        what: String,
    },
    /// The compiler does not start.
    #[error("compiler {}: cannot be run: {source}", compiler.display())]
    Run {
        /// The compiler.
        compiler: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The compiler made nothing.
    #[error("compiler {}: ended without an error, and without a result: is it a C++ compiler?", compiler.display())]
    NoResult {
        /// The compiler.
        compiler: PathBuf,
    },
    /// The source does not compile.
    #[error("{what} does not compile:\n{text}")]
    Compile {
        /// What was compiled.
        what: String,
        /// The compiler's first lines.
        text: String,
    },
    /// What the compiler made is not understood.
    #[error("{reason}")]
    Image {
        /// What is wrong with the result.
        reason: String,
    },
    /// We have no such kernel file.
    #[error("kernel file '{name}': there are {known}")]
    NoSuchFile {
        /// What was asked for.
        name: String,
        /// What there is.
        known: String,
    },
    /// A name that cannot be one of a source.
    #[error("{object} '{name}': {limit}")]
    Name {
        /// What it is to name.
        object: &'static str,
        /// The name.
        name: String,
        /// What is allowed.
        limit: &'static str,
    },
    /// The folder for results is somebody else's.
    #[error(
        "cache folder {}: belongs to user {owner}, mode {mode:o}, but code from it is run by user {user}: make it \
         yours alone, or name another in WARPBELL_CACHE_DIR",
        folder.display()
    )]
    ForeignCache {
        /// The folder.
        folder: PathBuf,
        /// Its owner.
        owner: u32,
        /// Its permissions.
        mode: u32,
        /// Who runs this program.
        user: u32,
    },
    /// There is no folder for results.
    #[error(
        "no folder for compiled kernels: neither XDG_CACHE_HOME nor HOME is a whole path: name a folder in WARPBELL_CACHE_DIR"
    )]
    NoCache,
    /// The folder for results cannot be used.
    #[error("cache folder {}{choice}: {source}: must be one that this user may write to{}", folder.display(), remedy(choice))]
    Cache {
        /// The folder.
        folder: PathBuf,
        /// Who chose it.
        choice: CacheChoice,
        /// Why.
        source: io::Error,
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

impl CompileError {
    /// Whether the machine lacks something that would make it work: exit code 4.
    pub fn is_missing_requirement(&self) -> bool {
        use CompileError::{NamedCompiler, NoCache, NoCompiler, NoNvrtc};
        matches!(self, NoCompiler | NamedCompiler { .. } | NoNvrtc { .. } | NoCache)
    }
}

/// A program's own choice counts before the variable.
fn remedy(choice: &CacheChoice) -> &'static str {
    match choice {
        CacheChoice::Program => "",
        CacheChoice::Variable | CacheChoice::Default => "; name one in WARPBELL_CACHE_DIR",
    }
}

/// The first lines of what a compiler said, and how many there were.
pub(super) fn first_lines(text: &str) -> String {
    const MOST: usize = 20;
    let lines: Vec<_> = text.lines().collect();
    let mut first = lines.iter().take(MOST).copied().collect::<Vec<_>>().join("\n");
    if lines.len() > MOST {
        first.push_str(&format!("\n({} more lines)", lines.len() - MOST));
    }
    first
}
