// UNSAFETY: loads compiled C++ and reads the tables that it exports.
#![expect(unsafe_code, reason = "foreign functions and tables of compiled C++")]
//! Modules: kernels with the executor that runs them.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, OnceLock};

use super::ffi::{self, RawKernel, RawModule};
use super::switches::Switches;
use crate::Error;
use crate::abi;
use crate::toolchain::Variant;

/// Kernels compiled for the CPU target. Cheap to clone.
#[derive(Clone)]
pub struct Module {
    inner: Arc<Inner>,
}

/// One kernel of a module.
#[derive(Clone, Debug)]
pub struct Kernel {
    pub(super) name: String,
    pub(super) args_size: u64,
    pub(super) abi_version: u32,
    pub(super) entry: ffi::KernelFn,
}

impl Kernel {
    /// Its name, as in `WARPBELL_KERNEL`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Bytes of its argument struct.
    pub fn args_size(&self) -> u64 {
        self.args_size
    }
}

struct Inner {
    name: String,
    table: &'static RawModule,
    kernels: Vec<Kernel>,
    /// Rules that are off until this is dropped.
    switches: Switches,
    /// Keeps the code mapped; `table` points into it. Last, so that it is dropped last.
    _library: Option<libloading::Library>,
}

// SAFETY: the table is constant, and its functions may be called from any thread; those that take a worker are
// called by `Worker` alone, which stays on its thread.
unsafe impl Send for Inner {}
// SAFETY: as above; nothing in it changes.
unsafe impl Sync for Inner {}

impl Variant {
    /// Compiles for the CPU target, if there is no result yet, and loads the module.
    ///
    /// # Safety
    /// The source is trusted as this program's own is, and so is a result that the cache has already: initialisers run now,
    /// and kernels in launches.
    pub unsafe fn load(&self) -> Result<Module, Error> {
        let object = self.compile()?;
        // SAFETY: the contract of this function; the object was compiled from the source.
        unsafe { Module::load_as(&self.name(), &object, self.switches()) }
    }
}

impl Module {
    /// The kernels that are compiled into this program.
    pub fn builtin() -> Result<Module, Error> {
        static BUILTIN: OnceLock<Module> = OnceLock::new();
        if let Some(module) = BUILTIN.get() {
            return Ok(module.clone());
        }
        let module = builtin()?;
        Ok(BUILTIN.get_or_init(|| module).clone())
    }

    /// The kernels of a shared object that [`Variant`] compiled.
    ///
    /// # Safety
    /// Its code is trusted as this program's own is: its initialisers run now, and its kernels in launches.
    pub unsafe fn load(path: &Path) -> Result<Module, Error> {
        // SAFETY: the contract of this function.
        unsafe { Module::load_as(&path.display().to_string(), path, &[]) }
    }

    /// The same, under a name for messages, and without these rules of `mutation.cuh`.
    ///
    /// # Safety
    /// As for [`load`](Self::load).
    unsafe fn load_as(name: &str, path: &Path, rules: &[String]) -> Result<Module, Error> {
        let failed = |source| Error::Load { path: path.to_owned(), source };
        // SAFETY: the object's initialisers run. They are those of C++ static data; the caller vouches for
        // the file as for a part of this program.
        let library = unsafe { libloading::Library::new(path) }.map_err(failed)?;
        // SAFETY: simt/module.h gives the symbol this type.
        let entry = unsafe { library.get::<ffi::ModuleFn>(ffi::MODULE_SYMBOL) };
        let entry = *entry.map_err(failed)?;
        // SAFETY: abi_table.h gives the symbol this type; the value is the address of the first row.
        let rows = unsafe { library.get::<*const ffi::RawRow>(ffi::TABLE_SYMBOL) };
        let rows = *rows.map_err(failed)?;
        // SAFETY: a module returns its constant table.
        let table = unsafe { entry() };
        // SAFETY: the module is compiled with WARPBELL_SWITCHES where it has rules to switch.
        let switches = unsafe { Switches::turn(name, &library, rules) }?;
        // SAFETY: the address of the table of the module, which `library` keeps mapped.
        unsafe { Module::new(name.to_owned(), table, rows, switches, Some(library)) }
    }

    /// # Safety
    /// `table` is null or what `wb_simt_module_v1` returned, and `rows` is the same module's
    /// `warpbell_abi_table`; both stay while `library` is open.
    unsafe fn new(
        name: String,
        table: *const RawModule,
        rows: *const ffi::RawRow,
        switches: Switches,
        library: Option<libloading::Library>,
    ) -> Result<Module, Error> {
        // SAFETY: valid by the contract. 'static is a promise that `Inner` keeps by holding `library`, and by
        // not letting the reference out.
        let table: Option<&'static RawModule> = unsafe { table.as_ref() };
        let (version, size) = table.map_or((0, 0), |table| (table.abi_version, table.size));
        let expected = (ffi::ABI_VERSION, size_of::<RawModule>() as u32);
        let Some(table) = table.filter(|_| (version, size) == expected) else {
            let words = |(version, size)| format!("version {version} of {size} bytes");
            let (found, expected) = (words((version, size)), words(expected));
            return Err(Error::Interface { module: name, found, expected });
        };
        // SAFETY: the contract of this function.
        let rows = unsafe { ffi::rows(rows) };
        abi::check(&rows).map_err(|mismatch| Error::Abi { module: name.clone(), mismatch })?;
        // SAFETY: a module lists its kernels while it is loaded, and nothing later changes the list.
        let kernels = unsafe { listed(table) };
        check_kernels(&name, &kernels)?;
        Ok(Module { inner: Arc::new(Inner { name, table, kernels, switches, _library: library }) })
    }

    /// `builtin`, or its source's name, or the path it was loaded from.
    pub fn name(&self) -> &str {
        &self.inner.name
    }

    /// Its kernels.
    pub fn kernels(&self) -> &[Kernel] {
        &self.inner.kernels
    }

    /// The kernel of that name.
    pub fn kernel(&self, name: &str) -> Result<&Kernel, Error> {
        self.kernels().iter().find(|kernel| kernel.name == name).ok_or_else(|| Error::NoKernel {
            name: name.to_owned(),
            module: self.name().to_owned(),
            known: self.kernels().iter().map(Kernel::name).collect::<Vec<_>>().join(", "),
        })
    }

    pub(super) fn table(&self) -> &RawModule {
        self.inner.table
    }
}

/// The kernels of a module, by name.
///
/// # Safety
/// Its list of kernels is complete: nobody changes it any more.
unsafe fn listed(table: &RawModule) -> Vec<Kernel> {
    let mut kernels = Vec::new();
    let mut next = table.kernels;
    // SAFETY: null, or a static entry of the list.
    while let Some(raw) = unsafe { next.as_ref() } {
        // SAFETY: kernel names are static C strings.
        let name = unsafe { ffi::text(raw.name) };
        let RawKernel { args_size, abi_version, .. } = *raw;
        kernels.extend(raw.kernel.map(|entry| Kernel { name, args_size, abi_version, entry }));
        next = raw.next;
    }
    kernels.sort_by(|a, b| a.name.cmp(&b.name));
    kernels
}

/// Whether each kernel has a name of its own, and was compiled with this program's `abi.h`.
fn check_kernels(module: &str, kernels: &[Kernel]) -> Result<(), Error> {
    if let Some(twice) = kernels.windows(2).find(|pair| pair[0].name == pair[1].name) {
        return Err(Error::DefinedTwice { kernel: twice[0].name.clone(), module: module.to_owned() });
    }
    match kernels.iter().find(|kernel| kernel.abi_version != abi::ABI_VERSION) {
        Some(other) => {
            let (kernel, module) = (other.name.clone(), module.to_owned());
            Err(Error::KernelVersion { kernel, module, found: other.abi_version })
        }
        None => Ok(()),
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Inner { name, switches, .. } = &*self.inner;
        f.debug_struct("Module").field("name", name).field("switches", switches).finish_non_exhaustive()
    }
}

#[cfg(warpbell_cpu)]
fn builtin() -> Result<Module, Error> {
    // SAFETY: the executor is linked into this program; the function returns its constant table.
    let table = unsafe { ffi::wb_simt_module_v1() };
    let rows = &raw const ffi::warpbell_abi_table;
    // SAFETY: table and rows of the module that is linked into this program.
    unsafe { Module::new("builtin".to_owned(), table, rows.cast(), Switches::default(), None) }
}

#[cfg(not(warpbell_cpu))]
fn builtin() -> Result<Module, Error> {
    Err(Error::NoCompiler { reason: env!("WARPBELL_CPU_MISSING").to_owned() })
}
