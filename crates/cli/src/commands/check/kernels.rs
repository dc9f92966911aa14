//! Where kernels for a GPU come from: images of this build, or NVRTC at the first use.

use warpbell_kernels::builtin::IMAGES;
use warpbell_kernels::toolchain;
use warpbell_platform::{Finding, Layer, Status};

const SUBJECT: &str = "kernels for a GPU";

/// What this program and this machine have of them.
pub fn finding() -> Finding {
    let nvrtc = toolchain::nvrtc_version();
    let line =
        |status, found: String, means: &str| Finding::new(Layer::Platform, status, SUBJECT, found, means);
    match (IMAGES.first(), nvrtc) {
        (Some(image), Ok(version)) => {
            let found = format!("in this program, by {}; NVRTC {version} compiles others", image.compiler);
            line(
                Status::Ok,
                found,
                "nothing of ours is compiled at the first use, unless the driver is older",
            )
        }
        (Some(image), Err(_)) => {
            let found = format!("in this program, by {}; no NVRTC", image.compiler);
            line(
                Status::Ok,
                found,
                "drivers of CUDA 13 run them; programs of yours are not compiled at run time",
            )
        }
        (None, Ok(version)) => {
            let found = format!("none in this program; NVRTC {version} compiles them");
            line(Status::Ok, found, "ten seconds or more for each file at its first use, kept afterwards")
        }
        (None, Err(_)) => {
            let found = "none in this program, which was built without nvcc, and no NVRTC".to_owned();
            line(Status::Warn, found, "nothing runs on a GPU: --target cuda:N ends with exit code 4").fix(
                "pip install nvidia-cuda-nvrtc==13.0.88, and its folder of libnvrtc.so.13 on LD_LIBRARY_PATH",
            )
        }
    }
}
