//! Whole kernels of the documentation, as tests compile them.

/// The example with this kernel in a page of the device library. Panics if there is none.
pub fn documented(kernel: &str) -> String {
    crate::frames::block("cuda", &format!("WARPBELL_KERNEL({kernel},"))
}

/// The example with this kernel in `docs/cache.md`. Panics if there is none.
pub fn documented_of_caches(kernel: &str) -> String {
    let mut blocks = crate::frames::blocks_of(include_str!("../../docs/cache.md"), "cuda");
    let of_kernel = |block: &&str| block.contains(&format!("WARPBELL_KERNEL({kernel},"));
    blocks.find(of_kernel).expect("an example").to_owned() + "\n"
}
