//! What the host shares with the kernels of the protocol laboratory. `abi_lab.h` says what each field means.

use crate::abi::{BenchArgs, mirror};

mirror! {
    /// Kernels `lab_*`: one command of each lane in flight, by one protocol each.
    bench LabArgs = "warpbell_lab_args" {
        /// What is measured; `results` has an element for each warp of the launch.
        bench: BenchArgs,
        /// Address of `u64[queue_count][queue_words]`, zeroed.
        state: u64,
        /// Words of the protocol's memory for each queue.
        queue_words: u32,
        /// Warps that submit; those after them serve.
        warps: u32,
    }
}
