//! PTX that was read, and is not decoded yet.

use crate::module::{Entry, entry_of};
use crate::text::{self, Function, Item, Space, Unit, Variable};
use crate::{Error, Module};

/// PTX that was read: what it says of itself and of its kernels, without a look at its instructions.
#[derive(Debug)]
pub struct Source<'a> {
    pub(crate) name: &'a str,
    pub(crate) text: &'a str,
    pub(crate) unit: Unit<'a>,
}

/// A kernel, as its head and its variables tell.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// What a launch has to know.
    pub entry: Entry,
    /// False for one that is declared, and defined elsewhere.
    pub has_body: bool,
    /// Bytes of local memory that its body declares, without padding.
    pub local_bytes: u32,
    /// Bytes of shared memory that its body declares, without padding, and without what a launch adds.
    pub shared_bytes: u32,
}

impl<'a> Source<'a> {
    /// Reads PTX. `name` is what messages call it: a path, as a rule.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`], and [`Error::Unknown`] for a directive, with the line of the text, and of the source where
    /// `-lineinfo` gave it.
    pub fn read(name: &'a str, text: &'a str) -> Result<Source<'a>, Error> {
        let unit = text::parse(name, text).map_err(|error| error.of_text(text))?;
        Ok(Source { name, text, unit })
    }

    /// The version of PTX: major and minor; none where it does not say.
    pub fn version(&self) -> Option<(u32, u32)> {
        self.unit.version
    }

    /// The architecture that it was made for: 90 for `sm_90`; zero where it does not say.
    pub fn arch(&self) -> u32 {
        self.unit.arch
    }

    /// Whether it says that addresses have 64 bits. No others can be read.
    pub fn is_64_bit(&self) -> bool {
        self.unit.is_64_bit
    }

    /// Its kernels, in the order of the text.
    pub fn kernels(&self) -> impl Iterator<Item = Kernel> {
        self.unit.functions.iter().filter(|function| function.kernel).map(|function| Kernel {
            name: function.name.to_owned(),
            entry: entry_of(function),
            has_body: function.body.is_some(),
            local_bytes: declared(function, Space::Local),
            shared_bytes: declared(function, Space::Shared),
        })
    }

    /// Makes a module of it.
    ///
    /// # Errors
    ///
    /// [`Error::Unknown`] for an instruction, a modifier or a name, with its lines.
    pub fn decode(&self) -> Result<Module, Error> {
        Module::of(self).map_err(|error| error.of_text(self.text))
    }
}

/// Bytes of all variables of a state space that a body declares.
fn declared(function: &Function<'_>, space: Space) -> u32 {
    let variables = function.body.iter().flatten().filter_map(|item| match item {
        Item::Variable(variable) if variable.space == space => Some(variable),
        _ => None,
    });
    variables.map(|variable: &Variable<'_>| variable.bytes as u32).sum()
}
