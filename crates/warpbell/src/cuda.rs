//! CUDA targets of this process: each GPU is opened once, and loads each of our kernels once.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpbell_gpu::{Gpu, GpuError};
use warpbell_kernels::builtin;
use warpbell_kernels::image::{Format, ImageKernel};
use warpbell_kernels::toolchain::{CompileError, CudaImage};

use crate::{Error, Target};

/// A GPU as a target, as long as somebody uses it.
#[derive(Debug)]
pub(crate) struct CudaTarget {
    gpu: Arc<Gpu>,
    /// Our kernels that were loaded, by the file that they are in.
    loaded: Mutex<BTreeMap<&'static str, CudaModule>>,
}

/// Kernels on a GPU, and what their image says of them.
#[derive(Clone)]
pub(crate) struct CudaModule {
    name: Arc<str>,
    module: warpbell_gpu::Module,
    kernels: Arc<[ImageKernel]>,
}

impl std::fmt::Debug for CudaModule {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CudaModule").field("name", &self.name).finish_non_exhaustive()
    }
}

impl CudaModule {
    /// Loads an image that the driver takes.
    pub(crate) fn load(
        gpu: &Arc<Gpu>,
        name: &str,
        bytes: &[u8],
        kernels: Vec<ImageKernel>,
    ) -> Result<CudaModule, Error> {
        let module = gpu.load(name, bytes)?;
        Ok(CudaModule { name: name.into(), module, kernels: kernels.into() })
    }

    /// A kernel, and the size of its arguments.
    pub(crate) fn function(&self, kernel: &str) -> Result<(warpbell_gpu::Function, u64), Error> {
        let found = self.kernels.iter().find(|known| known.name == kernel);
        let found = found.ok_or_else(|| no_kernel(kernel, &self.name, &names(&self.kernels)))?;
        Ok((self.module.function(kernel)?, found.args_size.into()))
    }
}

impl CudaTarget {
    /// The device of a target that is not the CPU, as it is open already or anew.
    pub(crate) fn open(target: Target) -> Result<Arc<CudaTarget>, Error> {
        static OPEN: Mutex<BTreeMap<String, Weak<CudaTarget>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock();
        // One machine, whatever options name it; it compares them with its own.
        let name = if target.is_ptx() { Target::Ptx.to_string() } else { target.to_string() };
        check_options(target)?;
        if let Some(opened) = open.get(&name).and_then(Weak::upgrade) {
            return Ok(opened);
        }
        let gpu = match target {
            Target::Cuda(ordinal) => {
                Gpu::open(ordinal).map_err(|source| Error::Unavailable { target, source })
            }
            Target::Cpu | Target::Ptx | Target::PtxWith(_) => open_ptx(target),
        }?;
        let opened = Arc::new(CudaTarget { gpu, loaded: Mutex::default() });
        open.insert(name, Arc::downgrade(&opened));
        Ok(opened)
    }

    pub(crate) fn target(&self) -> Target {
        let info = self.gpu.info();
        if info.is_ptx { Target::Ptx } else { Target::Cuda(info.ordinal) }
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The module of our own that has `kernel`: loaded when it is first asked for, and compiled then by a build without
    /// nvcc, unless the cache has it.
    pub(crate) fn builtin(&self, kernel: &str) -> Result<CudaModule, Error> {
        let (file, arch) = file_of(kernel, self.gpu.info().capability)?;
        let mut loaded = self.loaded.lock();
        if let Some(module) = loaded.get(file) {
            return Ok(module.clone());
        }
        let is_ptx = self.target().is_ptx();
        let image = if is_ptx { builtin::ptx(file, arch) } else { builtin::for_gpu(file, arch) };
        let image = image.map_err(|error| without_image(kernel, arch, error))?;
        let (format, compiled) = (image.format, image.compiled);
        // The PTX machine knows what nvcc makes as well as what NVRTC does.
        let ptx_of_build = format == Format::Ptx && !compiled && !is_ptx;
        let module = or_else_compiled(self.load(image), ptx_of_build, |refused| {
            let image = builtin::compiled_now(file, arch).map_err(|error| unable(refused, error))?;
            self.load(image)
        })?;
        loaded.insert(file, module.clone());
        Ok(module)
    }

    fn load(&self, image: CudaImage) -> Result<CudaModule, Error> {
        if image.compiled {
            tracing::info!(image = image.name, image.arch, "compiled by NVRTC, and kept for the next time");
        }
        CudaModule::load(&self.gpu, &image.name, &image.bytes, image.kernels)
    }
}

#[cfg(feature = "ptx")]
fn open_ptx(target: Target) -> Result<Arc<Gpu>, Error> {
    Gpu::open_ptx().map_err(|source| Error::Unavailable { target, source })
}

/// Refuses options of the PTX machine that are wrong, or others than it has already.
#[cfg(feature = "ptx")]
fn check_options(target: Target) -> Result<(), Error> {
    let options = match target {
        Target::Cpu | Target::Cuda(_) => return Ok(()),
        Target::Ptx => "",
        Target::PtxWith(options) => options,
    };
    Gpu::set_ptx_options(options).map_err(|error| match error {
        GpuError::Options { object, limit } => Error::Option { object, limit },
        source => Error::Unavailable { target, source },
    })
}

/// There is no such machine.
#[cfg(not(feature = "ptx"))]
fn check_options(_: Target) -> Result<(), Error> {
    Ok(())
}

#[cfg(not(feature = "ptx"))]
fn open_ptx(target: Target) -> Result<Arc<Gpu>, Error> {
    let remedy = "build with the feature ptx of the crate warpbell".to_owned();
    Err(Error::Missing { what: format!("target {target}"), remedy })
}

/// Our file that has `kernel`, and the architecture of a GPU of this capability.
fn file_of(kernel: &str, (major, minor): (u32, u32)) -> Result<(&'static str, u32), Error> {
    let file = builtin::file_of(kernel).ok_or_else(|| no_kernel(kernel, "builtin", &ours()))?;
    let arch = major * 10 + minor;
    if arch < builtin::OLDEST {
        return Err(missing(kernel, arch, "our kernels need 7.5 or newer"));
    }
    Ok((file, arch))
}

/// What was loaded; or, where the driver is older than the PTX of this build, what NVRTC makes of the same source.
fn or_else_compiled<T>(
    loaded: Result<T, Error>,
    ptx_of_build: bool,
    compile: impl FnOnce(&GpuError) -> Result<T, Error>,
) -> Result<T, Error> {
    match loaded {
        Err(Error::Gpu(refused)) if ptx_of_build && refused.refuses_ptx() => compile(&refused),
        other => other,
    }
}

/// A driver that refuses the PTX of this build, and no machine code in its place.
fn unable(refused: &GpuError, error: warpbell_kernels::Error) -> Error {
    let error = Error::from(error);
    if error.is_interrupted() {
        return error;
    }
    let remedy = format!("{refused}; and without PTX: {error}");
    Error::Missing { what: "our kernels' PTX for this driver".to_owned(), remedy }
}

/// A build without images on a machine without NVRTC lacks something, which is no fault of the GPU.
fn without_image(kernel: &str, arch: u32, error: warpbell_kernels::Error) -> Error {
    match error {
        warpbell_kernels::Error::Compile(absent @ CompileError::NoNvrtc { .. }) => {
            let remedy = format!(
                "{absent}; or build again with nvcc (WARPBELL_NVCC=/usr/local/cuda/bin/nvcc cargo build --release)"
            );
            missing(kernel, arch, &remedy)
        }
        other => other.into(),
    }
}

fn missing(kernel: &str, arch: u32, remedy: &str) -> Error {
    Error::Missing {
        what: format!("kernel {kernel} for a GPU of compute capability {}.{}", arch / 10, arch % 10),
        remedy: format!("{remedy}; --target cpu runs it without a GPU"),
    }
}

fn names(kernels: &[ImageKernel]) -> String {
    kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn ours() -> String {
    builtin::kernels().map(|(_, kernel)| kernel).collect::<Vec<_>>().join(", ")
}

fn no_kernel(name: &str, module: &str, known: &str) -> Error {
    let (name, module, known) = (name.to_owned(), module.to_owned(), known.to_owned());
    warpbell_kernels::Error::NoKernel { name, module, known }.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gpu_that_is_too_old_is_refused_with_what_our_kernels_need() {
        assert_eq!(file_of("bench", (7, 5)).unwrap(), ("bench", 75));
        let error = file_of("bench", (7, 0)).unwrap_err();
        let text = error.to_string();
        assert!(text.contains("capability 7.0") && text.contains("our kernels need 7.5 or newer"), "{text}");
        assert_eq!(error.exit_code(), 4);
    }

    #[test]
    fn what_is_no_kernel_of_ours_is_told_with_those_that_are() {
        let error = file_of("benhc", (9, 0)).unwrap_err();
        let text = error.to_string();
        assert!(
            text.starts_with("kernel 'benhc': module builtin has ring_doorbell, bench, bench_agent, "),
            "{text}"
        );
        assert_eq!(error.exit_code(), 1);
    }

    #[test]
    fn ptx_that_an_older_driver_refuses_is_compiled_by_nvrtc() {
        let refusal = |code: u32| -> Result<&str, Error> {
            let (name, text, object) = ("CUDA_ERROR".to_owned(), String::new(), "module bench".to_owned());
            Err(Error::Gpu(GpuError::Call { call: "cuModuleLoadDataEx", code, name, text, object }))
        };
        let loaded = |first, of_build| or_else_compiled(first, of_build, |_| Ok("compiled"));
        assert_eq!(loaded(refusal(222), true).unwrap(), "compiled");
        assert_eq!(loaded(Ok("loaded"), true).unwrap(), "loaded");
        assert!(loaded(refusal(222), false).is_err(), "what NVRTC made is not made again");
        assert!(loaded(refusal(2), true).is_err(), "no memory is no reason to compile");
        let absent = warpbell_kernels::Error::from(CompileError::NoNvrtc { tried: "nowhere".to_owned() });
        let Err(Error::Gpu(refused)) = refusal(222) else { panic!("a refusal") };
        let text = unable(&refused, absent).to_string();
        assert!(text.contains("(222)") && text.contains("no NVRTC"), "{text}");
    }

    #[test]
    fn a_machine_without_nvcc_and_nvrtc_is_told_what_to_install() {
        let absent = CompileError::NoNvrtc { tried: "libnvrtc.so.13: not found".to_owned() };
        let error = without_image("bench", 90, absent.into());
        let text = error.to_string();
        for part in ["kernel bench for", "9.0", "nvidia-cuda-nvrtc", "WARPBELL_NVCC", "--target cpu"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        assert_eq!(error.exit_code(), 4);
        let broken = CompileError::Compile { what: "bench.cu".to_owned(), text: "line 1".to_owned() };
        assert_eq!(without_image("bench", 90, broken.into()).exit_code(), 1);
    }
}
