//! Options and modules that are refused.

use crate::options::OF_USERS;

/// Options that cannot be had.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{place}: {wrong}")]
pub struct OptionsError {
    /// Where they were given: a variable, or the target's name.
    pub place: &'static str,
    /// What is wrong there.
    pub wrong: OptionError,
}

/// What is wrong with options.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OptionError {
    /// No key that users have.
    #[error("{item}: expected KEY=VALUE with KEY one of {}", OF_USERS.join(", "))]
    Key {
        /// What was given.
        item: String,
    },
    /// A key alone.
    #[error("{item}: no value")]
    NoValue {
        /// What was given.
        item: String,
    },
    /// A key twice, which says two things.
    #[error("{item}: {key} was given before")]
    Twice {
        /// The second time.
        item: String,
        /// The key.
        key: String,
    },
    /// A value that its key cannot have.
    #[error("{item}: {limit}")]
    Value {
        /// What was given.
        item: String,
        /// What is allowed.
        limit: &'static str,
    },
    /// Options of the PTX machine where the CPU executor runs kernels.
    #[error("weak, races, init and mutate are of execute=ptx, which is missing")]
    NotOfPtx,
    /// Options other than those that this process has.
    #[error("{named}: the PTX machine of this process has other options already; there is one")]
    Others {
        /// What was given.
        named: String,
    },
}

/// What a module's image lacks.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ImageError {
    #[error("no .version directive")]
    NoVersion,
    #[error("no .target directive")]
    NoTarget,
    #[error("no .address_size 64")]
    Not64Bit,
    #[error("entry {name} has no body")]
    NoBody { name: String },
    #[error("ELF: {0}")]
    Elf(object::Error),
    #[error("ELF for machine {machine}, not for CUDA ({cuda})")]
    NotCuda { machine: u16, cuda: u16 },
    #[error("{0}")]
    Symbol(object::Error),
}

/// A defect that cannot be put into a module.
#[derive(Debug, thiserror::Error)]
pub(crate) enum MutationError {
    #[cfg(feature = "defects")]
    #[error("mutate={name}: one of {known}")]
    Unknown { name: String, known: String },
    #[cfg(not(feature = "defects"))]
    #[error("mutate={name}: built without the feature defects")]
    NotBuilt { name: String },
}
