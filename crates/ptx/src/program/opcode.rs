//! An opcode in its parts, and what is known of it: found once for all instructions that have it.

use std::cell::{Cell, OnceCell};
use std::collections::HashMap;
use std::rc::Rc;

use super::op::{Access, Four, One, Three, Two};
use crate::text::Type;

/// Who decodes an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Group {
    Control,
    Memory,
    Sync,
    Registers,
}

/// What an instruction does with its operands.
#[derive(Clone, Copy, Debug)]
pub(super) enum Run {
    One(One),
    Two(Two),
    Three(Three),
    Four(Four),
}

/// An opcode in its parts.
#[derive(Debug)]
pub(super) struct Opcode<'a> {
    pub(super) whole: &'a str,
    pub(super) head: &'a str,
    pub(super) group: Group,
    /// After the head, in the order of the text.
    pub(super) modifiers: Vec<&'a str>,
    /// What an access says, where that was asked for.
    pub(super) access: OnceCell<Option<(Type, Access)>>,
    /// What it does with so many operands, for the number that was asked for last.
    run: Cell<Option<(usize, Option<Run>)>>,
}

impl<'a> Opcode<'a> {
    fn of(whole: &'a str) -> Opcode<'a> {
        let mut words = whole.split('.');
        let head = words.next().unwrap_or_default();
        let (access, run) = Default::default();
        Opcode { whole, head, group: group(head), modifiers: words.collect(), access, run }
    }

    /// The last modifier, as a type.
    pub(super) fn of_type(&self) -> Option<Type> {
        self.modifiers.last().and_then(|word| Type::of(word))
    }

    pub(super) fn has(&self, word: &str) -> bool {
        self.modifiers.contains(&word)
    }

    /// The opcode without its last `count` modifiers.
    pub(super) fn without(&self, count: usize) -> String {
        let kept = &self.modifiers[..self.modifiers.len().saturating_sub(count)];
        [&[self.head], kept].concat().join(".")
    }

    /// What it does with so many operands: the same each time.
    pub(super) fn run(&self, operands: usize, find: impl FnOnce() -> Option<Run>) -> Option<Run> {
        match self.run.get() {
            Some((of, run)) if of == operands => run,
            _ => {
                let run = find();
                self.run.set(Some((operands, run)));
                run
            }
        }
    }
}

fn group(head: &str) -> Group {
    match head {
        "bra" | "brx" | "call" | "ret" | "exit" | "trap" | "brkpt" => Group::Control,
        "ld" | "ldu" | "st" | "atom" | "red" | "fence" | "membar" | "mbarrier" | "cp" | "prefetch"
        | "prefetchu" | "applypriority" => Group::Memory,
        "bar" | "barrier" | "shfl" | "vote" | "match" | "redux" | "elect" | "activemask" | "nanosleep" => {
            Group::Sync
        }
        _ => Group::Registers,
    }
}

/// Those of a module.
#[derive(Debug, Default)]
pub(crate) struct Opcodes<'a>(HashMap<&'a str, Rc<Opcode<'a>>>);

impl<'a> Opcodes<'a> {
    pub(super) fn of(&mut self, whole: &'a str) -> Rc<Opcode<'a>> {
        self.0.entry(whole).or_insert_with(|| Rc::new(Opcode::of(whole))).clone()
    }
}
