//! Our kernels compiled for NVIDIA GPUs, embedded.
//!
//! PTX for `compute_75` and `compute_80` is always there: the driver compiles it for whatever GPU it finds.
//! PTX of nvcc 13.0 needs driver 580 or later. Cubins are there if the build asked for them (`WARPBELL_CUBINS`).

/// What an image contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Text for the driver's compiler.
    Ptx,
    /// Machine code of one architecture.
    Cubin,
}

/// One kernel file, compiled for one architecture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Image {
    /// The file's stem: `bench` for `bench.cu`.
    pub kernel: &'static str,
    /// PTX or cubin.
    pub format: Format,
    /// 75, 80, ...: the virtual architecture of PTX, the real one of a cubin.
    pub arch: u32,
    /// `prebuilt` (checked in), or the compiler: `nvcc 13.0.88`.
    pub origin: &'static str,
    /// Hash of this build's sources.
    pub source_hash: &'static str,
    /// The image was made from other sources than this build's: it may not fit the host's structs.
    pub stale: bool,
    /// The content.
    pub bytes: &'static [u8],
}

impl Image {
    /// The text of a PTX image.
    pub fn text(&self) -> Option<&'static str> {
        (self.format == Format::Ptx).then(|| std::str::from_utf8(self.bytes).ok()).flatten()
    }

    /// The file name that the image has in `prebuilt/`.
    pub fn file_name(&self) -> String {
        match self.format {
            Format::Ptx => format!("{}.compute_{}.ptx", self.kernel, self.arch),
            Format::Cubin => format!("{}.sm_{}.cubin", self.kernel, self.arch),
        }
    }
}

/// All images.
pub const IMAGES: &[Image] = include!(concat!(env!("OUT_DIR"), "/images.rs"));

/// The best image of a kernel file for a GPU of compute capability `arch` (90 for 9.0): its own cubin, else
/// the newest PTX that it can take.
pub fn find(kernel: &str, arch: u32) -> Option<&'static Image> {
    let of_kernel = || IMAGES.iter().filter(|image| image.kernel == kernel);
    let cubin = of_kernel().find(|image| image.format == Format::Cubin && image.arch == arch);
    let ptx = of_kernel().filter(|image| image.format == Format::Ptx && image.arch <= arch);
    cubin.or_else(|| ptx.max_by_key(|image| image.arch))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kernel_file_has_ptx_for_old_and_new_gpus() {
        for kernel in ["bench", "verify", "digest", "queue_test"] {
            assert_eq!(find(kernel, 75).map(|image| image.arch), Some(75), "{kernel}");
            assert!(find(kernel, 120).is_some_and(|image| image.arch >= 80));
            assert!(find(kernel, 70).is_none());
        }
    }

    #[test]
    fn ptx_says_what_it_was_made_from() {
        for image in IMAGES.iter().filter(|image| image.format == Format::Ptx && !image.stale) {
            let text = image.text().unwrap();
            assert_eq!(text.lines().next(), Some(format!("// src-hash {}", image.source_hash).as_str()));
            assert!(text.contains(&format!(".target sm_{}", image.arch)), "{}", image.file_name());
        }
    }
}
