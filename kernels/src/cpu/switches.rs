// UNSAFETY: writes variables of a loaded module.
#![expect(unsafe_code, reason = "variables of compiled C++")]
//! Rules of the device library that are switched off in a loaded module (`mutation.cuh`).

use std::sync::atomic::{AtomicBool, Ordering};

use crate::Error;

/// Variables that are true for as long as this lives.
#[derive(Debug, Default)]
pub(super) struct Switches(Vec<*const AtomicBool>);

impl Switches {
    /// Switches these rules off, which nobody else has switched off in this process: a module that is loaded twice is
    /// one in memory.
    ///
    /// # Safety
    /// The variables of `warpbell::mutate` in `library` are of C++'s type `bool`, and `library` outlives the result.
    pub(super) unsafe fn turn(
        module: &str,
        library: &libloading::Library,
        rules: &[String],
    ) -> Result<Switches, Error> {
        let mut switches = Switches::default();
        for rule in rules {
            let refused = |reason| Error::Switch { rule: rule.clone(), module: module.to_owned(), reason };
            let symbol = mangled(&rule.to_lowercase());
            // SAFETY: a bool of C++ is a byte, 0 or 1, as an AtomicBool is; by the contract that is the symbol's type.
            let found = unsafe { library.get::<*const AtomicBool>(symbol.as_bytes()) };
            let variable = *found.map_err(|_| refused("the module has no such rule"))?;
            // SAFETY: an address in the library, which is loaded.
            if unsafe { &*variable }.swap(true, Ordering::AcqRel) {
                return Err(refused("another module of this process is without it"));
            }
            switches.0.push(variable);
        }
        Ok(switches)
    }
}

impl Drop for Switches {
    fn drop(&mut self) {
        for variable in &self.0 {
            // SAFETY: the library is dropped later.
            unsafe { &**variable }.store(false, Ordering::Release);
        }
    }
}

/// The name of `warpbell::mutate::NAME` in an object file (Itanium C++ ABI, 5.1).
fn mangled(name: &str) -> String {
    format!("_ZN8warpbell6mutate{}{name}E", name.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_abi() {
        assert_eq!(mangled("no_turn"), "_ZN8warpbell6mutate7no_turnE");
    }
}
