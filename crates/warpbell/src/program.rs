//! Kernels of users, compiled while their program runs.

use std::fmt;
use std::path::{Path, PathBuf};

use warpbell_gpu::Gpu;
use warpbell_kernels::image::Format;
use warpbell_kernels::toolchain::{CudaImage, Variant};

use crate::{Error, Module, OpenTarget, Target};

/// How a source is compiled.
#[derive(Clone, Debug, Default)]
pub struct CompileOptions {
    definitions: Vec<String>,
    headers: Vec<(String, String)>,
    cache: Option<PathBuf>,
}

impl CompileOptions {
    /// Defines a macro: `NAME` or `NAME=VALUE`.
    pub fn define(mut self, definition: &str) -> CompileOptions {
        self.definitions.push(definition.to_owned());
        self
    }

    /// A header that the source may include by this name, such as `mine.cuh`.
    pub fn header(mut self, name: &str, text: &str) -> CompileOptions {
        self.headers.push((name.to_owned(), text.to_owned()));
        self
    }

    /// Keeps results in this folder; by default in `$WARPBELL_CACHE_DIR`, `$XDG_CACHE_HOME/warpbell` or
    /// `~/.cache/warpbell`.
    pub fn cache(self, folder: &Path) -> CompileOptions {
        CompileOptions { cache: Some(folder.to_owned()), ..self }
    }

    pub(crate) fn apply(&self, source: Variant) -> Variant {
        let source = self.definitions.iter().fold(source, |source, definition| source.define(definition));
        let source = self.headers.iter().fold(source, |source, (name, text)| source.header(name, text));
        self.cache.iter().fold(source, |source, folder| source.cache(folder))
    }
}

/// What a program was compiled to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Code {
    /// Machine code for this computer's processor.
    Host,
    /// Machine code for GPUs of this architecture: 90 for `sm_90`.
    Cubin(u32),
    /// PTX, which the driver compiles for its GPU: 80 for `compute_80`.
    Ptx(u32),
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Code::Host => f.write_str("machine code for the CPU"),
            Code::Cubin(arch) => write!(f, "cubin for sm_{arch}"),
            Code::Ptx(arch) => write!(f, "PTX for compute_{arch}"),
        }
    }
}

/// Kernels of a user on a target. A clone is the same program.
///
/// The source includes `<warpbell/warpbell.cuh>` and defines each kernel by `WARPBELL_KERNEL(name, args_struct)`. It
/// is compiled by NVRTC for a GPU and by the machine's C++ compiler for the CPU target, with headers that this crate
/// carries; results are kept on disk, so that the next run compiles nothing.
#[derive(Clone, Debug)]
pub struct Program {
    module: Module,
    /// Name and bytes of arguments.
    kernels: Vec<(String, u64)>,
    code: Code,
}

impl Program {
    /// Compiled for a GPU.
    pub(crate) fn for_gpu(target: &OpenTarget, gpu: &Gpu, source: &Variant) -> Result<Program, Error> {
        let (major, minor) = gpu.info().capability;
        let arch = major * 10 + minor;
        let image = if gpu.info().is_ptx { source.ptx(arch) } else { source.cuda(arch) };
        let image = image.map_err(warpbell_kernels::Error::from)?;
        Program::on_gpu(target, &image)
    }

    /// Kernels for a GPU that were compiled before.
    pub(crate) fn image(target: &OpenTarget, path: &Path) -> Result<Program, Error> {
        let name = path.display().to_string();
        let failed = |error: std::io::Error| Error::Argument {
            object: "image",
            value: name.clone(),
            limit: error.to_string(),
        };
        let bytes = std::fs::read(path).map_err(failed)?;
        Program::on_gpu(target, &CudaImage::from_bytes(&name, bytes)?)
    }

    pub(crate) fn on_cpu(module: warpbell_kernels::cpu::Module) -> Result<Program, Error> {
        let kernels = module.kernels().iter().map(|kernel| (kernel.name().to_owned(), kernel.args_size()));
        let kernels: Vec<_> = kernels.collect();
        if kernels.is_empty() {
            return Err(warpbell_kernels::Error::without_kernels(module.name()).into());
        }
        Ok(Program { module: module.into(), kernels, code: Code::Host })
    }

    fn on_gpu(target: &OpenTarget, image: &CudaImage) -> Result<Program, Error> {
        let code = match image.format {
            Format::Cubin => Code::Cubin(image.arch),
            Format::Ptx => Code::Ptx(image.arch),
        };
        let kernels = image.kernels.iter().map(|kernel| (kernel.name.clone(), kernel.args_size.into()));
        Ok(Program { module: target.load(image)?, kernels: kernels.collect(), code })
    }

    /// Its kernels by name, each with the bytes of its arguments.
    pub fn kernels(&self) -> impl Iterator<Item = (&str, u64)> {
        self.kernels.iter().map(|(name, bytes)| (name.as_str(), *bytes))
    }

    /// What it was compiled to.
    pub fn code(&self) -> Code {
        self.code
    }

    /// Where it runs.
    pub fn target(&self) -> Target {
        self.module.target()
    }

    pub(crate) fn module(&self) -> &Module {
        &self.module
    }
}
