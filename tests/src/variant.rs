//! The kernel under test, alone, with a rule switched off.

use warpbell_kernels::cpu::Module;
use warpbell_kernels::toolchain::Variant;
use warpbell_sim::TestVariant;

/// `queue_test` compiled with this switch of `mutation.cuh`. Panics if it does not compile.
pub fn queue_test_without(switch: &str) -> Module {
    // Nothing else is compiled, so that a variant takes seconds.
    let variant = Variant::ours().only("queue_test").quick().mutate(switch);
    variant.loaded().unwrap_or_else(|error| panic!("without {switch}: {error}"))
}
