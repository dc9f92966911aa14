//! What the names of a function stand for, by scope.

use std::collections::HashMap;

use super::op::Reg;
use crate::text::{Space, Type};

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Named {
    Register(Reg, Type),
    /// An offset from the frame's memory of this space.
    Frame(Space, u64),
}

/// Registers that were declared together: `%r<9>` are `%r0` to `%r8`. One alone has no count.
#[derive(Clone, Copy, Debug)]
pub(super) struct Declared<'a> {
    pub(super) name: &'a str,
    pub(super) count: Option<u32>,
    pub(super) first: Reg,
    pub(super) of: Type,
}

impl Declared<'_> {
    pub(super) fn registers(&self) -> std::ops::Range<Reg> {
        self.first..self.first + self.count.unwrap_or(1)
    }

    /// The name of one of them.
    pub(super) fn name_of(&self, reg: Reg) -> String {
        match self.count {
            Some(_) => format!("{}{}", self.name, reg - self.first),
            None => self.name.to_owned(),
        }
    }
}

#[derive(Debug, Default)]
struct Scope<'a> {
    number: usize,
    /// Those that have a count.
    numbered: Vec<Declared<'a>>,
    names: HashMap<&'a str, Named>,
}

/// The scopes that are open, the innermost last.
#[derive(Debug)]
pub(super) struct Names<'a>(Vec<Scope<'a>>);

impl<'a> Names<'a> {
    /// Those of a function, whose own scope has the number zero.
    pub(super) fn new() -> Names<'a> {
        Names(vec![Scope::default()])
    }

    pub(super) fn open(&mut self, number: usize) {
        self.0.push(Scope { number, ..Scope::default() });
    }

    pub(super) fn close(&mut self) {
        self.0.pop();
    }

    /// Numbers of the scopes that are open, the innermost first.
    pub(super) fn scopes(&self) -> impl Iterator<Item = usize> {
        self.0.iter().rev().map(|scope| scope.number)
    }

    pub(super) fn declare(&mut self, name: &'a str, named: Named) {
        if let Some(scope) = self.0.last_mut() {
            scope.names.insert(name, named);
        }
    }

    pub(super) fn registers(&mut self, declared: Declared<'a>) {
        if declared.count.is_none() {
            self.declare(declared.name, Named::Register(declared.first, declared.of));
        } else if let Some(scope) = self.0.last_mut() {
            scope.numbered.push(declared);
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<Named> {
        let numbered = numbered(name);
        self.0.iter().rev().find_map(|scope| scope.numbered(numbered).or_else(|| scope.named(name)))
    }
}

impl Scope<'_> {
    fn numbered(&self, name: Option<(&str, u32)>) -> Option<Named> {
        let (name, number) = name?;
        let of_name = |of: &&Declared<'_>| of.name == name && of.count.is_some_and(|count| number < count);
        self.numbered.iter().find(of_name).map(|of| Named::Register(of.first + number, of.of))
    }

    fn named(&self, name: &str) -> Option<Named> {
        if self.names.is_empty() { None } else { self.names.get(name).copied() }
    }
}

/// `%r` and 12 of `%r12`; nothing where no number stands at the end, or one with zeroes before it.
fn numbered(name: &str) -> Option<(&str, u32)> {
    let digits = name.bytes().rev().take_while(u8::is_ascii_digit).count();
    let (name, digits) = name.split_at(name.len() - digits);
    let plain = digits.len() == 1 || !digits.starts_with('0');
    if plain { Some((name, digits.parse().ok()?)) } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_innermost_scope_that_has_them() {
        let of = Type::of("u32").unwrap();
        let mut names = Names::new();
        names.registers(Declared { name: "%r", count: Some(3), first: 10, of });
        names.registers(Declared { name: "%q", count: None, first: 20, of });
        names.declare("param0", Named::Frame(Space::Param, 8));
        assert_eq!(names.find("%r2"), Some(Named::Register(12, of)));
        for unknown in ["%r3", "%r02", "%r", "%q0", "param", "param1", "%r4294967296"] {
            assert_eq!(names.find(unknown), None, "{unknown}");
        }
        assert_eq!(names.find("param0"), Some(Named::Frame(Space::Param, 8)));
        names.open(1);
        names.registers(Declared { name: "%q", count: None, first: 30, of });
        names.registers(Declared { name: "%r", count: Some(1), first: 40, of });
        assert_eq!(names.find("%q"), Some(Named::Register(30, of)));
        assert_eq!(names.find("%r0"), Some(Named::Register(40, of)));
        assert_eq!(names.find("%r1"), Some(Named::Register(11, of)));
        names.close();
        assert_eq!(names.find("%q"), Some(Named::Register(20, of)));
    }
}
