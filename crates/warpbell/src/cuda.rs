//! CUDA targets of this process: each GPU is opened once, and loads each of our kernels once.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use warpbell_gpu::Gpu;
use warpbell_kernels::image::{self, ImageKernel};
use warpbell_kernels::ptx::{self, Image};

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
    /// GPU `ordinal`, as it is open already or anew.
    pub(crate) fn open(ordinal: u32) -> Result<Arc<CudaTarget>, Error> {
        static OPEN: Mutex<BTreeMap<u32, Weak<CudaTarget>>> = Mutex::new(BTreeMap::new());
        let mut open = OPEN.lock();
        if let Some(target) = open.get(&ordinal).and_then(Weak::upgrade) {
            return Ok(target);
        }
        let gpu = Gpu::open(ordinal);
        let gpu = gpu.map_err(|source| Error::Unavailable { target: Target::Cuda(ordinal), source })?;
        let target = Arc::new(CudaTarget { gpu, loaded: Mutex::default() });
        open.insert(ordinal, Arc::downgrade(&target));
        Ok(target)
    }

    pub(crate) fn gpu(&self) -> &Arc<Gpu> {
        &self.gpu
    }

    /// The module of our own that has `kernel`: loaded when it is first asked for.
    pub(crate) fn builtin(&self, kernel: &str) -> Result<CudaModule, Error> {
        let (image, kernels) = image_of(ptx::IMAGES, kernel, self.gpu.info().capability)?;
        let mut loaded = self.loaded.lock();
        if let Some(module) = loaded.get(image.kernel) {
            return Ok(module.clone());
        }
        if image.stale {
            tracing::warn!(
                image = image.file_name(),
                "compiled from other sources than this program: rebuild with nvcc, or regenerate kernels/prebuilt"
            );
        }
        let module = CudaModule::load(&self.gpu, &image.file_name(), image.bytes, kernels)?;
        loaded.insert(image.kernel, module.clone());
        Ok(module)
    }
}

/// The best image for a GPU of this capability of the file that has `kernel`.
fn image_of<'a>(
    images: &'a [Image],
    kernel: &str,
    (major, minor): (u32, u32),
) -> Result<(&'a Image, Vec<ImageKernel>), Error> {
    let Some(file) = ptx::file_of(kernel) else { return Err(no_kernel(kernel, "builtin", &ours())) };
    let missing = |remedy: String| Error::Missing {
        what: format!("kernel {kernel} for a GPU of compute capability {major}.{minor}"),
        remedy: format!("{remedy}; --target cpu runs it without a GPU"),
    };
    let arch = major * 10 + minor;
    if arch < ptx::OLDEST {
        return Err(missing("our kernels need 7.5 or newer".to_owned()));
    }
    let Some(image) = ptx::find_in(images, file, arch) else {
        return Err(missing(format!("this build has no image of {file}.cu; {HOW_TO_GET_ONE}")));
    };
    match image::kernels(&image.file_name(), image.bytes) {
        Ok(kernels) if kernels.iter().any(|known| known.name == kernel) => Ok((image, kernels)),
        Ok(_) if image.stale => Err(missing(stale(image, "it does not have this kernel"))),
        Ok(kernels) => Err(no_kernel(kernel, &image.file_name(), &names(&kernels))),
        Err(error) if image.stale => Err(missing(stale(image, &error.to_string()))),
        Err(error) => Err(error.into()),
    }
}

/// What makes images that belong to the sources.
const HOW_TO_GET_ONE: &str = "build again with nvcc (WARPBELL_NVCC=$(scripts/cuda-setup)/bin/nvcc cargo build --release), or \
                              after scripts/regenerate-ptx";

fn stale(image: &Image, why: &str) -> String {
    let name = image.file_name();
    format!("{name} in this build was made from other sources than this program ({why}); {HOW_TO_GET_ONE}")
}

fn names(kernels: &[ImageKernel]) -> String {
    kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", ")
}

fn ours() -> String {
    ptx::kernels().map(|(_, kernel)| kernel).collect::<Vec<_>>().join(", ")
}

fn no_kernel(name: &str, module: &str, known: &str) -> Error {
    let (name, module, known) = (name.to_owned(), module.to_owned(), known.to_owned());
    warpbell_kernels::Error::NoKernel { name, module, known }.into()
}

#[cfg(test)]
mod tests {
    use warpbell_kernels::abi::ABI_VERSION;
    use warpbell_kernels::ptx::Format;

    use super::*;

    fn ptx_of(version: u32, stale: bool) -> Image {
        let text =
            format!(".version 9.0\n.global .align 4 .u32 warpbell_kernel_bench[2] = {{{version}, 8}};\n");
        Image {
            kernel: "bench",
            format: Format::Ptx,
            arch: 80,
            origin: "prebuilt",
            source_hash: "",
            stale,
            bytes: text.leak().as_bytes(),
        }
    }

    fn refused(images: &[Image], kernel: &str, capability: (u32, u32)) -> (String, u8) {
        let error = image_of(images, kernel, capability).map(|(image, _)| image.file_name()).unwrap_err();
        (error.to_string(), error.exit_code())
    }

    #[test]
    fn an_image_that_this_build_lacks_is_no_fault_of_the_gpu() {
        let (text, code) = refused(&[], "bench", (9, 0));
        assert!(
            text.contains("this build has no image of bench.cu") && text.contains("WARPBELL_NVCC"),
            "{text}"
        );
        assert!(!text.contains("7.5"), "{text}");
        assert_eq!(code, 4);
        let (text, code) = refused(&[ptx_of(ABI_VERSION, false)], "bench", (7, 0));
        assert!(text.contains("our kernels need 7.5 or newer") && code == 4, "{text}");
    }

    #[test]
    fn an_image_of_other_sources_says_so_and_how_to_get_another() {
        let no_table = Image { bytes: b".version 9.0\n", ..ptx_of(ABI_VERSION, true) };
        for image in [no_table, ptx_of(ABI_VERSION + 1, true)] {
            let (text, code) = refused(&[image], "bench", (9, 0));
            for part in ["bench.compute_80.ptx in this build was made from other sources", "regenerate-ptx"] {
                assert!(text.contains(part), "{text}");
            }
            assert_eq!(code, 4);
        }
    }

    #[test]
    fn what_is_no_kernel_of_ours_is_told_with_those_that_are() {
        let (text, code) = refused(&[ptx_of(ABI_VERSION, false)], "benhc", (9, 0));
        assert!(text.starts_with("kernel 'benhc': module builtin has bench, bench_agent, "), "{text}");
        assert_eq!(code, 1);
        let images = [ptx_of(ABI_VERSION, false)];
        assert_eq!(image_of(&images, "bench", (9, 0)).unwrap().0.arch, 80);
    }
}
