// UNSAFETY: each function hands its caller's promise on.
#![expect(unsafe_code, reason = "kernels follow what they find in memory that the caller has filled")]
//! Launches of our own kernels over queues: addresses in their arguments are compared with the launch's memory.

use warpbell_kernels::abi::KernelArgs;

use super::Launch;
use crate::queues::attach::prepare;
use crate::{Attachment, Error, Regions, Volume};

impl Attachment {
    /// A launch of `kernel` of our own over these queues, whose doorbell writes reach their device. On the CPU target
    /// its clock is that device's, if the device sees each of them. Grid and block are the caller's to set. The launch
    /// keeps the queues and the attachment's buffers until the kernel has ended; what else its arguments name lies in
    /// `memory`.
    ///
    /// As long as there is a launch of these queues, kernels find them as the first of those launches did: a kernel that
    /// starts after a queue was replaced then comes to the new one by way of the old one.
    ///
    /// # Safety
    /// As for [`Launch::new`].
    pub unsafe fn launch<T: KernelArgs>(
        &self,
        kernel: &str,
        args: &T,
        memory: Regions,
    ) -> Result<Launch, Error> {
        // SAFETY: the contract of this function.
        let launch = unsafe { Launch::new(self.target(), kernel, args, self.lend(memory)) };
        prepare(std::slice::from_ref(self), launch?)
    }
}

impl Volume {
    /// One run of a kernel of ours that reads or writes this volume, as [`Attachment::launch`] has it. What the arguments
    /// name lies in `memory`, in the volume, or in its buffers.
    ///
    /// # Safety
    /// As for [`Launch::new`].
    pub unsafe fn launch<T: KernelArgs>(
        &self,
        kernel: &str,
        args: &T,
        memory: Regions,
    ) -> Result<Launch, Error> {
        // SAFETY: the contract of this function.
        let launch = unsafe { Launch::new(self.target(), kernel, args, self.lend(memory)) };
        self.prepared(launch?)
    }
}
