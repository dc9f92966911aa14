//! Device source compiled for a GPU.

use super::CompileError;
use crate::Error;
use crate::image::Format;
use crate::image::{self, ImageKernel};

/// A source compiled for a GPU, and the kernels in it.
#[derive(Clone, Debug)]
pub struct CudaImage {
    /// The source's name, for messages.
    pub name: String,
    /// Machine code, or PTX.
    pub format: Format,
    /// 90 for 9.0: what it was compiled for.
    pub arch: u32,
    /// The image, as the driver loads it.
    pub bytes: Vec<u8>,
    /// Its kernels, by name.
    pub kernels: Vec<ImageKernel>,
    /// Compiled now; false: it came from the cache.
    pub compiled: bool,
}

impl CudaImage {
    pub(super) fn new(
        name: &str,
        format: Format,
        arch: u32,
        bytes: Vec<u8>,
        compiled: bool,
    ) -> Result<CudaImage, CompileError> {
        let kernels = image::kernels(name, &bytes);
        let kernels = kernels.map_err(|error| CompileError::Image { reason: error.to_string() })?;
        Ok(CudaImage { name: name.to_owned(), format, arch, bytes, kernels, compiled })
    }

    /// An image that was compiled before, by nvcc with this version's headers.
    pub fn from_bytes(name: &str, bytes: Vec<u8>) -> Result<CudaImage, Error> {
        let kernels = image::kernels(name, &bytes)?;
        let what = image::format_of(&bytes).zip(image::architecture_of(&bytes));
        let (format, arch) = what.ok_or_else(|| Error::Image {
            image: name.to_owned(),
            reason: "it does not tell its architecture as CUDA 13's images do".to_owned(),
        })?;
        Ok(CudaImage { name: name.to_owned(), format, arch, bytes, kernels, compiled: false })
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<&ImageKernel, Error> {
        self.kernels.iter().find(|kernel| kernel.name == name).ok_or_else(|| Error::NoKernel {
            name: name.to_owned(),
            module: self.name.clone(),
            known: self.kernels.iter().map(|kernel| kernel.name.as_str()).collect::<Vec<_>>().join(", "),
        })
    }
}
