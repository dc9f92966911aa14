//! Our own kernels for NVIDIA GPUs: images that the build's nvcc made, else NVRTC at the first use.
//!
//! A build without nvcc carries no image: [`for_gpu`] compiles by NVRTC, and keeps results on disk. A build with nvcc
//! carries PTX for `compute_75`, which the driver compiles for whatever GPU it finds (PTX of nvcc 13.0 needs driver 580
//! or later), and machine code if it was asked for: `WARPBELL_CUBINS=all` for sm_75 to sm_120, or a list.

use std::io::Read as _;

use lzma_rust2::LzmaReader;

use crate::image::Format;
use crate::toolchain::{CompileError, CudaImage, Variant};
use crate::{Error, SOURCES};

/// One kernel file, compiled for one architecture by the build.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file's stem: `bench` for `bench.cu`.
    pub kernel: &'static str,
    /// PTX or cubin.
    pub format: Format,
    /// 75, 80, ...: the virtual architecture of PTX, the real one of a cubin.
    pub arch: u32,
    /// The compiler: `nvcc 13.0.88`.
    pub compiler: &'static str,
    /// The content, compressed: a file of the format `.lzma`.
    packed: &'static [u8],
}

impl Image {
    /// Whether a GPU of compute capability `arch` (90 for 9.0) can run it.
    pub fn runs_on(&self, arch: u32) -> bool {
        match self.format {
            Format::Ptx => self.arch <= arch,
            Format::Cubin => cubin_runs(self.arch, arch),
        }
    }

    /// The content.
    pub fn bytes(&self) -> Vec<u8> {
        let mut content = Vec::new();
        let unpacked = LzmaReader::new_mem_limit(self.packed, u32::MAX, None)
            .and_then(|mut reader| reader.read_to_end(&mut content));
        unpacked.expect("the build packed it");
        content
    }

    /// A name for messages: `bench.sm_90.cubin`.
    pub fn name(&self) -> String {
        match self.format {
            Format::Ptx => format!("{}.compute_{}.ptx", self.kernel, self.arch),
            Format::Cubin => format!("{}.sm_{}.cubin", self.kernel, self.arch),
        }
    }
}

/// The images of this build; none where it found no nvcc. A constant would be in each crate that uses it.
pub static IMAGES: &[Image] = include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The oldest compute capability that our kernels run on.
pub const OLDEST: u32 = 75;

/// The kernels of our file `file`, by its stem, for a GPU of compute capability `arch` (90 for 9.0): an image of this
/// build, else one from the cache, else compiled now by NVRTC, which takes seconds.
pub fn for_gpu(file: &str, arch: u32) -> Result<CudaImage, Error> {
    match find_in(IMAGES, file, arch) {
        Some(image) => CudaImage::from_bytes(&image.name(), image.bytes()),
        None => compiled_now(file, arch),
    }
}

/// The same by NVRTC alone, whose result is machine code where it knows the GPU: for a driver that is too old for the PTX of
/// this build.
pub fn compiled_now(file: &str, arch: u32) -> Result<CudaImage, Error> {
    Ok(Variant::ours().only(file).cuda(arch)?)
}

/// PTX of one of our files for a GPU of compute capability `arch`: for the architecture itself, from this build or from
/// NVRTC; without NVRTC the newest of this build that the GPU takes.
pub fn ptx(file: &str, arch: u32) -> Result<CudaImage, Error> {
    let carried = best_of(IMAGES, file, arch, Format::Ptx);
    let of = |image: &Image| CudaImage::from_bytes(&image.name(), image.bytes());
    if let Some(exact) = carried.filter(|image| image.arch == arch) {
        return of(exact);
    }
    match (Variant::ours().only(file).ptx(arch), carried) {
        (Err(CompileError::NoNvrtc { .. }), Some(image)) => of(image),
        (compiled, _) => Ok(compiled?),
    }
}

/// The best image of a kernel file for a GPU of compute capability `arch`: a cubin that it can run, else the newest PTX
/// that it can take.
fn find_in<'a>(images: &'a [Image], kernel: &str, arch: u32) -> Option<&'a Image> {
    let best = |format| best_of(images, kernel, arch, format);
    best(Format::Cubin).or_else(|| best(Format::Ptx))
}

fn best_of<'a>(images: &'a [Image], kernel: &str, arch: u32, format: Format) -> Option<&'a Image> {
    let fitting = images.iter().filter(|image| image.kernel == kernel && image.format == format);
    fitting.filter(|image| image.runs_on(arch)).max_by_key(|image| image.arch)
}

/// Whether machine code for `image` runs on `gpu`: within one major version, on the same or a later minor one. Not
/// across to the GPUs of Tegra, which are a line of their own.
fn cubin_runs(image: u32, gpu: u32) -> bool {
    const TEGRA: [u32; 4] = [72, 87, 101, 110];
    image == gpu || image / 10 == gpu / 10 && image < gpu && !TEGRA.contains(&gpu)
}

/// Our kernels as the sources define them, whether there are images of them or not: file and name, by files.
pub fn kernels() -> impl Iterator<Item = (&'static str, &'static str)> {
    let files = SOURCES.iter().filter_map(|(name, text)| Some((name.strip_suffix(".cu")?, *text)));
    files.flat_map(|(file, text)| {
        let definitions = text.split("WARPBELL_KERNEL(").skip(1).filter_map(|rest| rest.split_once(','));
        // A macro may define more, by names that it puts together.
        let names = definitions.map(|(name, _)| name.trim()).filter(|name| !name.contains('#'));
        names.map(move |name| (file, name))
    })
}

/// The file of ours that defines a kernel, by its stem.
pub fn file_of(kernel: &str) -> Option<&'static str> {
    kernels().find(|(_, name)| *name == kernel).map(|(file, _)| file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image;

    #[test]
    fn each_kernel_is_known_by_the_file_that_defines_it() {
        assert_eq!(
            (file_of("bench"), file_of("resident"), file_of("benhc")),
            (Some("bench"), Some("resident"), None)
        );
        assert!(kernels().all(|(_, name)| name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')));
    }

    #[test]
    fn machine_code_is_preferred_where_the_gpu_runs_it() {
        let image = |format, arch| Image { kernel: "x", format, arch, compiler: "", packed: b"" };
        let ptx = [75, 80].map(|arch| image(Format::Ptx, arch));
        let cubins = [80, 90].map(|arch| image(Format::Cubin, arch));
        let images: Vec<_> = ptx.into_iter().chain(cubins).collect();
        let chosen = |gpu| find_in(&images, "x", gpu).map(|image| (image.format, image.arch));
        for (gpu, expected) in [
            (70, None),
            (75, Some((Format::Ptx, 75))),
            (80, Some((Format::Cubin, 80))),
            (86, Some((Format::Cubin, 80))),
            (87, Some((Format::Ptx, 80))),
            (89, Some((Format::Cubin, 80))),
            (90, Some((Format::Cubin, 90))),
            (100, Some((Format::Ptx, 80))),
        ] {
            assert_eq!(chosen(gpu), expected, "{gpu}");
        }
        assert!(find_in(&images, "y", 90).is_none());
    }

    #[test]
    fn every_image_carries_its_kernels() {
        for image in IMAGES {
            let kernels = image::kernels(&image.name(), &image.bytes()).unwrap();
            let from_here = |name: &str| file_of(name) == Some(image.kernel);
            assert!(!kernels.is_empty(), "{}", image.name());
            assert!(kernels.iter().all(|kernel| from_here(&kernel.name)), "{}", image.name());
        }
    }
}
