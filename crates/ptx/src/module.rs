//! A module: its functions, and memory for its variables.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::Error;
use crate::Source;
use crate::program::{Function, Op, Shared, decode};
use crate::text::{self, Operand, Space, Unit, Variable};

/// PTX that was read, decoded, and given memory for its variables. Two of one text share nothing.
#[derive(Debug)]
pub struct Module {
    pub(crate) name: String,
    text: String,
    pub(crate) functions: Vec<Function>,
    entries: HashMap<String, (u32, Entry)>,
    /// What blocks of a kernel must be, where it says so.
    required: HashMap<String, [u32; 3]>,
    /// Paths of sources, by number.
    pub(crate) files: HashMap<u32, String>,
    /// Global and constant variables: addresses stay as long as the module.
    memory: Box<[AtomicU64]>,
    /// Of these, those that variables lie in: they begin at a multiple of every variable's alignment.
    words: std::ops::Range<usize>,
    globals: HashMap<String, (u64, u64)>,
    /// Bytes of shared memory without the launch's.
    pub(crate) shared_bytes: u32,
    arch: u32,
    /// It has asynchronous copies.
    pub(crate) copies: bool,
    /// Some of them are bulk copies.
    pub(crate) copies_bulk: bool,
    /// Something of it loads by `.nc`.
    pub(crate) loads_constant: bool,
}

/// What a launch has to know of a kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Offset and bytes of each parameter.
    pub parameters: Vec<(u32, u32)>,
    /// Threads of a block, at most.
    pub most_threads: u32,
}

/// Where variables are: those of the host's memory by offset from its begin.
#[derive(Default)]
struct Layout<'a> {
    of: HashMap<&'a str, (Space, u64)>,
    host_bytes: u64,
    shared_bytes: u64,
    /// The widest alignment of the host's.
    align: u64,
}

impl Module {
    /// Reads PTX. `name` is what messages call it: a path, as a rule.
    ///
    /// # Errors
    ///
    /// [`Error::Syntax`] and [`Error::Unknown`], with the line of the text, and of the source where `-lineinfo` gave it.
    pub fn load(name: &str, text: &str) -> Result<Module, Error> {
        Source::read(name, text)?.decode()
    }

    pub(crate) fn of(source: &Source<'_>) -> Result<Module, Error> {
        let Source { name, text, unit } = source;
        let (layout, (memory, words)) = Layout::of(name, unit)?;
        let bodies = unit.functions.iter().filter(|function| function.body.is_some());
        let functions =
            bodies.clone().enumerate().map(|(at, function)| (function.name, (at as u32, function)));
        let shared = Shared {
            file: name,
            variables: layout.of,
            functions: functions.collect(),
            opcodes: RefCell::default(),
        };
        let functions =
            bodies.map(|function| decode(&shared, function)).collect::<Result<Vec<_>, Error>>()?;
        let globals = variables(unit).filter(|variable| variable.space != Space::Shared);
        let globals =
            globals.map(|of| (of.name.to_owned(), (shared.variables[of.name].1, of.bytes))).collect();
        let has =
            |what: fn(&Op) -> bool| functions.iter().flat_map(|of| &of.steps).any(|step| what(&step.op));
        Ok(Module {
            loads_constant: has(|op| matches!(op, Op::Load { access, .. } if access.read_only)),
            copies: has(|op| matches!(op, Op::Copy(_))),
            copies_bulk: has(|op| matches!(op, Op::Copy(copy) if copy.bulk)),
            name: (*name).to_owned(),
            text: (*text).to_owned(),
            entries: entries(&shared),
            required: unit
                .functions
                .iter()
                .filter_map(|of| Some((of.name.to_owned(), of.required_block?)))
                .collect(),
            functions,
            globals,
            memory,
            words,
            shared_bytes: layout.shared_bytes as u32,
            arch: unit.arch,
            files: unit.files.clone(),
        })
    }

    /// A kernel of this name.
    pub fn entry(&self, name: &str) -> Option<&Entry> {
        self.entries.get(name).map(|(_, entry)| entry)
    }

    /// What the blocks of a kernel must be, by axis, where it says so (`.reqntid`).
    pub fn required_block(&self, name: &str) -> Option<[u32; 3]> {
        self.required.get(name).copied()
    }

    /// The names of all kernels.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.entries.keys().map(String::as_str)
    }

    /// Address and bytes of a global or constant variable, in the host's memory.
    pub fn global(&self, name: &str) -> Option<(u64, u64)> {
        self.globals.get(name).copied()
    }

    /// The architecture that the text was made for: 90 for `sm_90`.
    pub fn arch(&self) -> u32 {
        self.arch
    }

    /// A line of the text, from 1.
    pub(crate) fn line(&self, number: u32) -> &str {
        self.text.lines().nth((number as usize).saturating_sub(1)).unwrap_or_default().trim()
    }

    pub(crate) fn function(&self, entry: &str) -> Option<u32> {
        self.entries.get(entry).map(|(function, _)| *function)
    }

    /// Where the module's own memory begins and ends.
    pub(crate) fn memory(&self) -> std::ops::Range<u64> {
        let begin = self.memory[self.words.clone()].as_ptr() as u64;
        begin..begin + self.words.len() as u64 * 8
    }
}

/// Those of the module and those that functions declare outside of their frames.
fn variables<'b, 'a>(unit: &'b Unit<'a>) -> impl Iterator<Item = &'b Variable<'a>> {
    let inside = unit.functions.iter().flat_map(|function| function.body.iter().flatten());
    let inside = inside.filter_map(|item| match item {
        text::Item::Variable(variable) => Some(variable),
        _ => None,
    });
    let in_frame = |variable: &&Variable<'_>| matches!(variable.space, Space::Local | Space::Param);
    unit.variables.iter().chain(inside).filter(move |variable| !in_frame(variable))
}

/// Memory, and which of its words are the variables'.
type Memory = (Box<[AtomicU64]>, std::ops::Range<usize>);

impl<'a> Layout<'a> {
    /// The layout of a module's variables, memory that holds what they begin with, and which of its words are theirs.
    fn of(name: &str, unit: &Unit<'a>) -> Result<(Layout<'a>, Memory), Error> {
        let mut layout = Layout::default();
        // What the launch adds lies behind all that has a size.
        let (open, sized): (Vec<_>, Vec<_>) = variables(unit).partition(|variable| variable.open);
        for variable in sized.into_iter().chain(open) {
            layout.place(variable);
        }
        let (memory, words) = layout.memory();
        let begin = memory[words.clone()].as_ptr() as u64;
        for (space, at) in layout.of.values_mut() {
            *at += if *space == Space::Shared { 0 } else { begin };
        }
        for variable in variables(unit) {
            initialize(name, variable, &layout, &memory[words.clone()])?;
        }
        Ok((layout, (memory, words)))
    }

    /// Zeroes for the host's variables, and which of the words are theirs: they begin at a multiple of every alignment.
    fn memory(&self) -> Memory {
        let count = self.host_bytes.div_ceil(8) as usize;
        let align = self.align.max(8);
        let words = count + (align / 8) as usize;
        let memory: Box<[AtomicU64]> = (0..words).map(|_| AtomicU64::new(0)).collect();
        let begin = (memory.as_ptr() as u64).next_multiple_of(align);
        let first = ((begin - memory.as_ptr() as u64) / 8) as usize;
        (memory, first..first + count)
    }

    fn place(&mut self, variable: &Variable<'a>) {
        // A declaration and its definition are one.
        if self.of.contains_key(variable.name) {
            return;
        }
        let shared = variable.space == Space::Shared;
        let end = if shared { &mut self.shared_bytes } else { &mut self.host_bytes };
        let at = end.next_multiple_of(if variable.open { variable.align.max(128) } else { variable.align });
        *end = at + variable.bytes;
        if !shared {
            self.align = self.align.max(variable.align);
        }
        let space = if shared { Space::Shared } else { Space::Global };
        self.of.insert(variable.name, (space, at));
    }
}

fn initialize(
    file: &str,
    variable: &Variable<'_>,
    layout: &Layout<'_>,
    memory: &[AtomicU64],
) -> Result<(), Error> {
    let begin = memory.as_ptr() as u64;
    for (number, value) in variable.initial.iter().enumerate() {
        let value = match value {
            Operand::Integer(value) | Operand::Float(value) => *value,
            Operand::Name(name) => match layout.of.get(name) {
                Some((_, address)) => *address,
                None => {
                    return Err(Error::unknown(
                        file,
                        variable.line,
                        &format!("name {name} in the value of {}", variable.name),
                    ));
                }
            },
            other => {
                return Err(Error::unknown(
                    file,
                    variable.line,
                    &format!("value {other} of {}", variable.name),
                ));
            }
        };
        let at = layout.of[variable.name].1 - begin + number as u64 * variable.element;
        let (word, shift) = ((at / 8) as usize, at % 8 * 8);
        let kept = if variable.element >= 8 { value } else { value & ((1 << (variable.element * 8)) - 1) };
        memory[word].fetch_or(kept << shift, Ordering::Relaxed);
    }
    Ok(())
}

fn entries(shared: &Shared<'_>) -> HashMap<String, (u32, Entry)> {
    let kernels = shared.functions.values().filter(|(_, function)| function.kernel);
    let entry = |(number, function): &(u32, &text::Function<'_>)| {
        (function.name.to_owned(), (*number, entry_of(function)))
    };
    kernels.map(entry).collect()
}

/// What a launch has to know of a kernel.
pub(crate) fn entry_of(kernel: &text::Function<'_>) -> Entry {
    let mut at = 0;
    let parameter = |variable: &Variable<'_>| {
        let offset = u64::next_multiple_of(at, variable.align);
        at = offset + variable.bytes;
        (offset as u32, variable.bytes as u32)
    };
    let parameters = kernel.parameters.iter().map(parameter).collect();
    Entry { parameters, most_threads: kernel.most_threads.unwrap_or(1024) }
}
