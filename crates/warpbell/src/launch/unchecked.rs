// UNSAFETY: each function hands its caller's promise on.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! Launches of any kernel over queues: the caller answers for its arguments.

use zerocopy::{Immutable, IntoBytes};

use super::{Launch, Module};
use crate::queues::attach::prepare;
use crate::{Attachment, Error, Lease, Program, Volume};

mod sealed {
    use super::{Error, Launch, Module};

    /// What a launch takes of that which it is over.
    pub trait Queues {
        /// Whether the queues are attached for kernels on the module's target.
        fn check_target(&self, module: &Module) -> Result<(), Error>;
        /// The launch with hooks, and with all that it keeps.
        fn prepared(&self, launch: Launch) -> Result<Launch, Error>;
    }
}

/// What a kernel of any module runs over: an [`Attachment`], a [`Lease`] of one, or a [`Volume`].
pub trait LaunchOver: sealed::Queues {
    /// A launch of `kernel` of `module`: of `args`, a struct or its bytes, only the size is compared.
    ///
    /// # Safety
    /// As for [`Launch::unchecked`]. Queues and buffers, and of a lease the lease, are kept until the kernel has ended.
    unsafe fn launch_unchecked<T: IntoBytes + Immutable + ?Sized>(
        &self,
        module: &Module,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        self.check_target(module)?;
        // SAFETY: the contract of this function.
        let launch = unsafe { Launch::unchecked(module, kernel, args) };
        self.prepared(launch?)
    }
}

impl<Q: sealed::Queues> LaunchOver for Q {}

impl sealed::Queues for Attachment {
    fn check_target(&self, module: &Module) -> Result<(), Error> {
        self.on_this_target(module)
    }

    fn prepared(&self, launch: Launch) -> Result<Launch, Error> {
        prepare(std::slice::from_ref(self), launch)
    }
}

impl sealed::Queues for Lease {
    fn check_target(&self, module: &Module) -> Result<(), Error> {
        self.attachment().on_this_target(module)
    }

    fn prepared(&self, launch: Launch) -> Result<Launch, Error> {
        Ok(prepare(std::slice::from_ref(self.attachment()), launch)?.keep(self.clone()))
    }
}

impl sealed::Queues for Volume {
    fn check_target(&self, module: &Module) -> Result<(), Error> {
        self.on_this_target(module)
    }

    fn prepared(&self, launch: Launch) -> Result<Launch, Error> {
        Volume::prepared(self, launch)
    }
}

impl Program {
    /// One run of a kernel over an attachment, a lease or a volume, at first as a single block of one warp. `args` is the
    /// kernel's struct, or its bytes; its size is compared with that of the struct which the kernel was compiled with.
    ///
    /// # Safety
    /// As for [`Launch::unchecked`]: the kernel is the caller's, and so is what it does. Queues and buffers are kept.
    pub unsafe fn launch<T: IntoBytes + Immutable + ?Sized>(
        &self,
        over: &impl LaunchOver,
        kernel: &str,
        args: &T,
    ) -> Result<Launch, Error> {
        // SAFETY: the contract of this function.
        unsafe { over.launch_unchecked(self.module(), kernel, args) }
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
