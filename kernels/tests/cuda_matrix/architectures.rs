//! For which architectures a run compiles: each takes minutes.

use warpbell_kernels::costs::{ARCHITECTURES, families};

/// Kernels and programs that users have: one that copies by an engine. Budgets are measured on all.
pub(crate) const OURS: [u32; 1] = [90];
/// Kernels that only tests run, by hand: `scripts/test --all` leaves them to NVRTC, and `--deep` asks for all architectures.
pub(crate) const OF_CHECKS: [u32; 1] = [75];

/// These few, unless `WARPBELL_MATRIX=all` asks for all.
pub(crate) fn of_run(few: &'static [u32]) -> &'static [u32] {
    match std::env::var("WARPBELL_MATRIX").as_deref() {
        Err(_) => few,
        Ok("all") => &ARCHITECTURES,
        Ok(other) => panic!("WARPBELL_MATRIX={other}: expected all"),
    }
}

/// nvcc's options for machine code of each architecture of this run, from as few runs of the front end as this source needs.
pub(crate) fn targets(source: &str) -> Vec<String> {
    let wanted = of_run(&OURS);
    let target = |family: &&[u32]| {
        let codes: Vec<_> = family.iter().filter(|arch| wanted.contains(arch)).collect();
        let machine_code: Vec<_> = codes.iter().map(|arch| format!("sm_{arch}")).collect();
        (!codes.is_empty())
            .then(|| format!("-gencode=arch=compute_{},code=[{}]", family[0], machine_code.join(",")))
    };
    families("example.cu", source).iter().filter_map(target).collect()
}
