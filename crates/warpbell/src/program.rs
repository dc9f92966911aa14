//! Kernels of users, compiled while their program runs.

use std::fmt;
use std::path::{Path, PathBuf};

use warpbell_kernels::image::Format;
use warpbell_kernels::toolchain::{CudaImage, Variant};
use zerocopy::{Immutable, IntoBytes};

use crate::{Attachment, Error, Launch, Module, OpenTarget, Target};

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

    fn apply(&self, source: Variant) -> Variant {
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
    /// Compiles `source` for a target. `name` is what messages call it: the compiler's own name its lines.
    pub fn compile(
        target: &OpenTarget,
        name: &str,
        source: &str,
        options: &CompileOptions,
    ) -> Result<Program, Error> {
        Program::of(target, &options.apply(Variant::text(name, source)))
    }

    /// The same for the source in a file.
    pub fn compile_file(
        target: &OpenTarget,
        path: &Path,
        options: &CompileOptions,
    ) -> Result<Program, Error> {
        let source = Variant::file(path).map_err(warpbell_kernels::Error::from)?;
        Program::of(target, &options.apply(source))
    }

    fn of(target: &OpenTarget, source: &Variant) -> Result<Program, Error> {
        match target.gpu() {
            None => Program::on_cpu(source.load()?),
            Some(gpu) => {
                let (major, minor) = gpu.info().capability;
                let image = source.cuda(major * 10 + minor).map_err(warpbell_kernels::Error::from)?;
                Program::on_gpu(target, &image)
            }
        }
    }

    /// Kernels that were compiled before: PTX or a cubin of nvcc for a GPU, with this version's headers; a shared object
    /// of this version of Warpbell for the CPU target, whose code is trusted as this program's own is.
    pub fn load(target: &OpenTarget, path: &Path) -> Result<Program, Error> {
        if target.gpu().is_none() {
            return Program::on_cpu(warpbell_kernels::cpu::Module::load(path)?);
        }
        let name = path.display().to_string();
        let failed = |error: std::io::Error| Error::Argument {
            object: "image",
            value: name.clone(),
            limit: error.to_string(),
        };
        let bytes = std::fs::read(path).map_err(failed)?;
        Program::on_gpu(target, &CudaImage::from_bytes(&name, bytes)?)
    }

    fn on_cpu(module: warpbell_kernels::cpu::Module) -> Result<Program, Error> {
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

    /// One run of a kernel over the queues of an attachment, at first as a single block of one warp. `args` is the
    /// kernel's struct, or its bytes; its size is compared with that of the struct which the kernel was compiled with.
    pub fn launch<T: IntoBytes + Immutable + ?Sized>(
        &self,
        attachment: &Attachment,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        attachment.launch_bytes(&self.module, kernel, args.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use warpbell_kernels::abi::BufferRef;

    use super::*;
    use crate::{AttachOptions, OpenOptions, Ssd};

    const COUNT: &str = "#include <warpbell/warpbell.cuh>
        using namespace warpbell;
        struct count_args { warpbell_buffer_ref out; uint64_t first; };
        WARPBELL_KERNEL(count, count_args) {
            dma_span(args.out).data<uint64_t>()[port::lane()] = args.first + STEP * port::lane();
        }";

    #[derive(IntoBytes, Immutable)]
    #[repr(C)]
    struct CountArgs {
        out: BufferRef,
        first: u64,
    }

    fn compile(cache: &Path) -> Program {
        let options = CompileOptions::default().define("STEP=3").cache(cache);
        Program::compile(&Target::Cpu.open().unwrap(), "count.cu", COUNT, &options).unwrap()
    }

    fn attach() -> Attachment {
        let ssd = Ssd::open(&"soft:size=1m".parse().unwrap(), &OpenOptions::default()).unwrap();
        ssd.attach(&AttachOptions::default()).unwrap()
    }

    #[test]
    fn a_users_kernel_runs_with_arguments_of_the_users() {
        let cache = tempfile::tempdir().unwrap();
        let program = compile(cache.path());
        assert_eq!(program.kernels().collect::<Vec<_>>(), [("count", size_of::<CountArgs>() as u64)]);
        assert_eq!((program.target(), program.code()), (Target::Cpu, Code::Host));
        let queues = attach();
        let out = queues.buffer(32 * 8).unwrap();
        let args = CountArgs { out: out.as_ref(), first: 100 };
        program.launch(&queues, "count", &args).unwrap().start().unwrap().join().unwrap();
        let mut found = [0u64; 32];
        out.read(0, found.as_mut_bytes()).unwrap();
        assert!(
            found.iter().zip((100..).step_by(3)).all(|(found, expected)| *found == expected),
            "{found:?}"
        );

        let entries: Vec<_> = std::fs::read_dir(cache.path()).unwrap().flatten().collect();
        let module = entries.iter().find(|entry| entry.path().extension().is_some_and(|end| end == "so"));
        let loaded = Program::load(&Target::Cpu.open().unwrap(), &module.unwrap().path()).unwrap();
        assert_eq!(loaded.kernels().count(), 1);
    }

    #[test]
    fn what_does_not_fit_the_program_is_refused_by_name() {
        let cache = tempfile::tempdir().unwrap();
        let program = compile(cache.path());
        let queues = attach();
        let error = |kernel: &str, args: &u64| program.launch(&queues, kernel, args).unwrap_err().to_string();
        assert_eq!(error("cuont", &0), "kernel 'cuont': module count.cu -DSTEP=3 has count");
        let size = size_of::<CountArgs>();
        assert_eq!(error("count", &0), format!("kernel count: arguments of 8 bytes, but it takes {size}"));
        let none = "#include <warpbell/warpbell.cuh>\n";
        let options = CompileOptions::default().cache(cache.path());
        let error = Program::compile(&Target::Cpu.open().unwrap(), "none.cu", none, &options).unwrap_err();
        assert_eq!(error.to_string(), "none.cu: it has no kernel that WARPBELL_KERNEL(name, args) defined");
        // Without the macro that it needs.
        let error = Program::compile(&Target::Cpu.open().unwrap(), "count.cu", COUNT, &options).unwrap_err();
        assert!(error.to_string().contains("count.cu:5:") && error.to_string().contains("STEP"), "{error}");
        assert_eq!(error.exit_code(), 1);
    }
}
