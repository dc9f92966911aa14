// UNSAFETY: each function hands its caller's promise on.
#![expect(unsafe_code, reason = "kernels are native code over the addresses that they are given")]
//! Launches of any kernel over queues: the caller answers for its arguments.

use std::path::Path;

use warpbell_kernels::toolchain::Variant;
use zerocopy::{Immutable, IntoBytes};

use super::{Launch, Module};
use crate::queues::attach::prepare;
use crate::{Attachment, CompileOptions, Error, Lease, OpenTarget, Program, Volume};

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

    /// Compiles `source` for a target. `name` is what messages call it: the compiler's own name its lines.
    ///
    /// # Safety
    /// On the CPU target the result is loaded into this process at once, and what its globals are initialised by runs: it
    /// is trusted as this program's own code is. For other targets nothing of it runs before a launch.
    pub unsafe fn compile(
        target: &OpenTarget,
        name: &str,
        source: &str,
        options: &CompileOptions,
    ) -> Result<Program, Error> {
        // SAFETY: the contract of this function.
        unsafe { Program::of(target, &options.apply(Variant::text(name, source))) }
    }

    /// The same for the source in a file.
    ///
    /// # Safety
    /// As for [`compile`](Self::compile).
    pub unsafe fn compile_file(
        target: &OpenTarget,
        path: &Path,
        options: &CompileOptions,
    ) -> Result<Program, Error> {
        let source = Variant::file(path).map_err(warpbell_kernels::Error::from)?;
        // SAFETY: the contract of this function.
        unsafe { Program::of(target, &options.apply(source)) }
    }

    /// Kernels that were compiled before: PTX or a cubin of nvcc for a GPU, with this version's headers; a shared object
    /// of this version of Warpbell for the CPU target.
    ///
    /// # Safety
    /// A shared object's code is trusted as this program's own is: its initialisers run now.
    pub unsafe fn load(target: &OpenTarget, path: &Path) -> Result<Program, Error> {
        if target.gpu().is_some() {
            return Program::image(target, path);
        }
        // SAFETY: the contract of this function.
        let module = unsafe { warpbell_kernels::cpu::Module::load(path) };
        Program::on_cpu(module?)
    }

    /// # Safety
    /// As for [`compile`](Self::compile).
    unsafe fn of(target: &OpenTarget, source: &Variant) -> Result<Program, Error> {
        if let Some(gpu) = target.gpu() {
            return Program::for_gpu(target, gpu, source);
        }
        // SAFETY: the contract of this function.
        let module = unsafe { source.load() };
        Program::on_cpu(module?)
    }
}
