//! Skipping, loudly.

/// Says that something was not tested, unless it must be.
pub fn skip_without_nvcc(what: &str) {
    skip(what, "no nvcc (scripts/cuda-setup installs one)");
}

/// The same, for this reason.
pub fn skip(what: &str, reason: &str) {
    assert!(
        std::env::var_os("WARPBELL_REQUIRE_CUDA").is_none_or(|v| v != "1"),
        "WARPBELL_REQUIRE_CUDA=1, but {reason}"
    );
    println!("skipped: {what}: {reason}");
}
