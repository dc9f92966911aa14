//! Our kernels compiled for NVIDIA GPUs, embedded.
//!
//! PTX for `compute_75` and `compute_80` is always there: the driver compiles it for whatever GPU it finds.
//! PTX of nvcc 13.0 needs driver 580 or later. Cubins, which start without the driver's compiler, are there if the
//! build asked for them: `WARPBELL_CUBINS=all` for sm_80, sm_90, sm_100 and sm_120, or a list.

use crate::SOURCES;

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

    /// Whether a GPU of compute capability `arch` (90 for 9.0) can run it.
    pub fn runs_on(&self, arch: u32) -> bool {
        match self.format {
            Format::Ptx => self.arch <= arch,
            Format::Cubin => cubin_runs(self.arch, arch),
        }
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

/// The oldest compute capability that our kernels run on.
pub const OLDEST: u32 = 75;

/// The best image of a kernel file for a GPU of compute capability `arch` (90 for 9.0): a cubin that it can run,
/// else the newest PTX that it can take.
pub fn find(kernel: &str, arch: u32) -> Option<&'static Image> {
    find_in(IMAGES, kernel, arch)
}

/// The same among these.
pub fn find_in<'a>(images: &'a [Image], kernel: &str, arch: u32) -> Option<&'a Image> {
    let best = |format| {
        let fitting = images.iter().filter(|image| image.kernel == kernel && image.format == format);
        fitting.filter(|image| image.runs_on(arch)).max_by_key(|image| image.arch)
    };
    best(Format::Cubin).or_else(|| best(Format::Ptx))
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

    #[test]
    fn every_kernel_file_has_ptx_for_old_and_new_gpus() {
        for kernel in ["bench", "digest", "queue_test"] {
            assert_eq!(find(kernel, 75).map(|image| image.arch), Some(75), "{kernel}");
            assert!(find(kernel, 120).is_some_and(|image| image.arch >= 80));
            assert!(find(kernel, 70).is_none());
        }
    }

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
        let image = |format, arch| Image {
            kernel: "x",
            format,
            arch,
            origin: "",
            source_hash: "",
            stale: false,
            bytes: b"",
        };
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
        for image in IMAGES.iter().filter(|image| !image.stale) {
            let kernels = crate::image::kernels(&image.file_name(), image.bytes).unwrap();
            let from_here = |name: &str| file_of(name) == Some(image.kernel);
            assert!(!kernels.is_empty(), "{}", image.file_name());
            assert!(kernels.iter().all(|kernel| from_here(&kernel.name)), "{}", image.file_name());
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
