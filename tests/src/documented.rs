//! Whole kernels of the documentation, as tests compile them.

/// The example with this kernel in `docs/device-library.md`. Panics if there is none.
pub fn documented(kernel: &str) -> String {
    crate::frames::block("cuda", &format!("WARPBELL_KERNEL({kernel},"))
}
