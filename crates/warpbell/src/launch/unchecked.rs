// UNSAFETY: each function hands its caller's promise on.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! Launches of any kernel over queues: the caller answers for its arguments.

use zerocopy::{Immutable, IntoBytes};

use super::{Launch, Module};
use crate::queues::attach::prepare;
use crate::{Attachment, Error, Lease, Program, Volume};

impl Attachment {
    /// As [`launch`](Attachment::launch), for any kernel of any module: of `args`, a struct or its bytes, only the size
    /// is compared.
    ///
    /// # Safety
    /// As for [`Launch::unchecked`]. The attachment's queues and buffers are kept.
    pub unsafe fn launch_unchecked<T: IntoBytes + Immutable + ?Sized>(
        &self,
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        self.on_this_target(module)?;
        // SAFETY: the contract of this function.
        let launch = unsafe { Launch::unchecked(module, kernel, args) };
        prepare(std::slice::from_ref(self), launch?)
    }
}

impl Lease {
    /// As [`Attachment::launch_unchecked`]; the launch keeps the lease until its kernel has ended.
    ///
    /// # Safety
    /// As for [`Launch::unchecked`]. The attachment's queues and buffers are kept.
    pub unsafe fn launch_unchecked<T: IntoBytes + Immutable + ?Sized>(
        &self,
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        // SAFETY: the contract of this function.
        let launch = unsafe { self.attachment().launch_unchecked(module, kernel, args) };
        Ok(launch?.keep(self.clone()))
    }
}

impl Volume {
    /// A launch of `kernel` of `module` over this volume, as [`Attachment::launch_unchecked`] has it for one SSD.
    ///
    /// # Safety
    /// As for [`Launch::unchecked`]. The volume's queues and buffers are kept.
    pub unsafe fn launch_unchecked<T: IntoBytes + Immutable + ?Sized>(
        &self,
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        // SAFETY: the contract of this function.
        let launch = unsafe { Launch::unchecked(module, kernel, args) };
        self.prepared(module, launch?)
    }
}

impl Program {
    /// One run of a kernel over the queues of an attachment, at first as a single block of one warp. `args` is the
    /// kernel's struct, or its bytes; its size is compared with that of the struct which the kernel was compiled with.
    ///
    /// # Safety
    /// As for [`Launch::unchecked`]: the kernel is the caller's, and so is what it does. The attachment's queues and
    /// buffers are kept.
    pub unsafe fn launch<T: IntoBytes + Immutable + ?Sized>(
        &self,
        attachment: &Attachment,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        // SAFETY: the contract of this function.
        unsafe { attachment.launch_unchecked(self.module(), kernel, args) }
    }

    /// Kernels that were compiled before: PTX or a cubin of nvcc for a GPU, with this version's headers; a shared object
    /// of this version of Warpbell for the CPU target.
    ///
    /// # Safety
    /// A shared object's code is trusted as this program's own is: its initialisers run now.
    pub unsafe fn load(target: &crate::OpenTarget, path: &std::path::Path) -> Result<Program, Error> {
        if target.gpu().is_some() {
            return Program::image(target, path);
        }
        // SAFETY: the contract of this function.
        let module = unsafe { warpbell_kernels::cpu::Module::load(path) };
        Program::on_cpu(module?)
    }
}
