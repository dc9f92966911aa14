// UNSAFETY: one store of a kernel of ours, to a doorbell that the launch keeps.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! A launch that rings one doorbell.

use warpbell_gpu::routes::DoorbellAccess;
use warpbell_hw::{DoorbellKind, Doorbells, Qid};
use zerocopy::{Immutable, IntoBytes};

use super::Launch;
use crate::{Error, OpenTarget};

const KERNEL: &str = "ring_doorbell";

/// `ring_args` of ring.cu.
#[derive(Clone, Copy, IntoBytes, Immutable)]
#[repr(C)]
struct RingArgs {
    doorbell: u64,
    value: u32,
    pad0: u32,
}

/// One thread that stores `value` to the submission doorbell of queue `qid`, among `doorbells`, by this way.
pub(crate) fn ring(
    target: &OpenTarget,
    access: &DoorbellAccess,
    (doorbells, qid): (&dyn Doorbells, Qid),
    value: u32,
) -> Result<Launch, Error> {
    let doorbell = access.address(doorbells, qid, DoorbellKind::SqTail)?;
    let args = RingArgs { doorbell, value, pad0: 0 };
    // SAFETY: the kernel stores one word to that doorbell, which is reached as long as `access` lives.
    let launch = unsafe { Launch::unchecked(&target.module()?, KERNEL, &args) };
    Ok(launch?.keep(access.clone()))
}

/// Loads the kernel, which may have to be compiled.
pub(crate) fn load(target: &OpenTarget) -> Result<(), Error> {
    let args = RingArgs { doorbell: 0, value: 0, pad0: 0 };
    // SAFETY: it is not started.
    unsafe { Launch::unchecked(&target.module()?, KERNEL, &args) }.map(drop)
}
