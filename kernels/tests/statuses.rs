// UNSAFETY: these tests launch kernels of their own, over memory of their own.
#![expect(unsafe_code, reason = "launches over memory that the tests hold")]
//! The device library and the host agree about which statuses are worth another try, and after which delay: all of them.

use std::ops::ControlFlow;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};

use warpbell_kernels::cpu::{Launch, run_stepped};
use warpbell_kernels::toolchain::Variant;
use warpbell_nvme::status::{Retry, Status};

/// One word for every value of the 15 bits: 0 for never, else 1 and the delay, and 8 if the host had it ended.
const KERNEL: &str = r#"
#include <warpbell/warpbell.cuh>
using namespace warpbell;

struct table_args { uint64_t words; uint64_t unused; };

WARPBELL_KERNEL(judge, table_args) {
    auto* words = reinterpret_cast<port::u32*>(args.words);
    for (port::u32 bits = port::lane(); bits < 1u << 15; bits += 32) {
        const status one = status::from_wire(bits);
        words[bits] = (one.retryable() ? 1u + one.retry_delay() : 0u) | (one.is_aborted() ? 8u : 0u);
    }
}
"#;

#[test]
fn host_and_device_agree_about_every_status() {
    let cache = Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules");
    let variant = Variant::text("statuses.cu", KERNEL).cache(&cache).quick();
    // SAFETY: the kernel above.
    let module = unsafe { variant.load() }.unwrap();
    let words: Vec<AtomicU64> = (0..1 << 14).map(|_| AtomicU64::new(u64::MAX)).collect();
    let args: Vec<u8> = [words.as_ptr() as u64, 0].iter().flat_map(|word| word.to_ne_bytes()).collect();
    // SAFETY: the kernel writes to the words above alone.
    let launch = unsafe { Launch::with_bytes(&module, "judge", &args) }.unwrap();
    run_stepped(&launch, 64, |_| ControlFlow::Continue(())).unwrap();
    for bits in 0..1u16 << 15 {
        let pair = words[usize::from(bits / 2)].load(Ordering::Acquire);
        let device = (pair >> (32 * u64::from(bits % 2))) as u32;
        let status = Status::from_bits(bits);
        let retry = match status.retry() {
            Retry::Never => 0,
            Retry::AtOnce => 1,
            Retry::After(crd) => 1 + u32::from(crd),
        };
        let host = retry | if status.is_aborted() { 8 } else { 0 };
        assert_eq!(device, host, "{status:?}");
    }
}
