//! What a module says.

use std::fmt;

/// A type of PTX: `.u32`, `.pred`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Type {
    pub(crate) kind: Kind,
    pub(crate) bits: u32,
}

/// How the bits of a value are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Bits,
    Unsigned,
    Signed,
    Float,
    Predicate,
}

impl Type {
    /// The type that a modifier such as `u32` names.
    pub(crate) fn of(word: &str) -> Option<Type> {
        if word == "pred" {
            return Some(Type { kind: Kind::Predicate, bits: 1 });
        }
        let kind = match word.as_bytes().first()? {
            b'b' => Kind::Bits,
            b'u' => Kind::Unsigned,
            b's' => Kind::Signed,
            b'f' => Kind::Float,
            _ => return None,
        };
        let bits = word[1..].parse().ok()?;
        matches!(bits, 8 | 16 | 32 | 64).then_some(Type { kind, bits })
    }

    pub(crate) fn bytes(self) -> u32 {
        self.bits.div_ceil(8)
    }
}

/// A state space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Generic,
    Global,
    Constant,
    Shared,
    Local,
    Param,
}

impl fmt::Display for Space {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Space::Generic => "generic",
            Space::Global => "global",
            Space::Constant => "constant",
            Space::Shared => "shared",
            Space::Local => "local",
            Space::Param => "parameter",
        })
    }
}

/// Where an instruction is, in the PTX and in the source that `-lineinfo` names.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) line: u32,
    /// File number and line, zeroes where the text does not tell.
    pub(crate) source: (u32, u32),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Operand<'a> {
    /// A register, a symbol, a label, or a special register.
    Name(&'a str),
    Integer(u64),
    /// The bits of a floating-point number.
    Float(u64),
    /// `[base + offset]`; an absolute address has no base.
    Address {
        base: Option<&'a str>,
        offset: i64,
    },
    /// `{a, b}`
    Vector(Vec<Operand<'a>>),
    /// `a|b`: a result and a predicate.
    Pair(Box<Operand<'a>>, Box<Operand<'a>>),
    /// `!p`
    Not(&'a str),
    /// `_`
    Nothing,
    /// `(a, b)` of a call.
    List(Vec<Operand<'a>>),
}

impl fmt::Display for Operand<'_> {
    /// As PTX writes it; floating-point numbers by their bits.
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        let all = |of: &[Operand<'_>]| of.iter().map(Operand::to_string).collect::<Vec<String>>().join(", ");
        match self {
            Operand::Name(name) => to.write_str(name),
            Operand::Integer(value) => write!(to, "{value}"),
            Operand::Float(bits) => write!(to, "{bits:#x}"),
            Operand::Address { base: Some(base), offset } => write!(to, "[{base}+{offset}]"),
            Operand::Address { base: None, offset } => write!(to, "[{offset}]"),
            Operand::Vector(of) => write!(to, "{{{}}}", all(of)),
            Operand::Pair(one, other) => write!(to, "{one}|{other}"),
            Operand::Not(name) => write!(to, "!{name}"),
            Operand::Nothing => to.write_str("_"),
            Operand::List(of) => write!(to, "({})", all(of)),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Instruction<'a> {
    pub(crate) place: Place,
    /// A predicate, and whether it is negated.
    pub(crate) guard: Option<(&'a str, bool)>,
    /// `ld.relaxed.gpu.global.u64`
    pub(crate) opcode: &'a str,
    pub(crate) operands: Vec<Operand<'a>>,
}

/// A variable in some space.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Variable<'a> {
    pub(crate) name: &'a str,
    pub(crate) line: u32,
    pub(crate) space: Space,
    pub(crate) align: u64,
    pub(crate) bytes: u64,
    /// An array without a length: what the launch adds.
    pub(crate) open: bool,
    /// Bytes of one element of `initial`.
    pub(crate) element: u64,
    pub(crate) initial: Vec<Operand<'a>>,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Item<'a> {
    Registers {
        of: Type,
        names: Vec<(&'a str, Option<u32>)>,
    },
    Variable(Variable<'a>),
    Label(&'a str),
    Targets {
        label: &'a str,
        to: Vec<&'a str>,
    },
    Instruction(Instruction<'a>),
    /// `{` and `}`: names declared inside end there.
    Open,
    Close,
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Function<'a> {
    pub(crate) name: &'a str,
    pub(crate) kernel: bool,
    pub(crate) results: Vec<Variable<'a>>,
    pub(crate) parameters: Vec<Variable<'a>>,
    /// `.maxntid`: of a block, at most.
    pub(crate) most_threads: Option<u32>,
    /// `.reqntid`: what a block must be.
    pub(crate) required_block: Option<[u32; 3]>,
    /// Nothing for a declaration.
    pub(crate) body: Option<Vec<Item<'a>>>,
}

/// A whole text.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Unit<'a> {
    /// Of `.version`: 9, 0.
    pub(crate) version: Option<(u32, u32)>,
    /// It has `.address_size 64`.
    pub(crate) is_64_bit: bool,
    pub(crate) arch: u32,
    /// Paths of `.file`, by number.
    pub(crate) files: std::collections::HashMap<u32, String>,
    pub(crate) variables: Vec<Variable<'a>>,
    pub(crate) functions: Vec<Function<'a>>,
}
