//! A function's names: registers by scope, memory by space, labels by step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

use super::decode::instruction;
use super::names::{Declared, Named, Names};
use super::op::{Arguments, Function, LOCAL, Op, PARAMETERS, Reg, Step, Two};
use super::opcode::{Opcode, Opcodes};
use super::{slots, unset};
use crate::Error;
use crate::text::{self, Instruction, Item, Operand, Place, Space, Type, Variable};

/// What the module says once for all its functions.
pub(crate) struct Shared<'a> {
    pub(crate) file: &'a str,
    /// Where the module's variables are: addresses of global and constant ones, offsets of shared ones.
    pub(crate) variables: HashMap<&'a str, (Space, u64)>,
    /// Numbers of functions, and how they are declared.
    pub(crate) functions: HashMap<&'a str, (u32, &'a text::Function<'a>)>,
    pub(crate) opcodes: RefCell<Opcodes<'a>>,
}

/// A function that is being decoded.
pub(super) struct Body<'a> {
    pub(super) module: &'a Shared<'a>,
    function: Function,
    names: Names<'a>,
    /// Labels by scope.
    labels: HashMap<(usize, &'a str), u32>,
    constants: HashMap<u64, Reg>,
    /// Registers that the text names.
    declared: Vec<Declared<'a>>,
    place: Place,
}

/// Decodes a function that has a body.
pub(crate) fn decode<'a>(
    module: &'a Shared<'a>,
    function: &'a text::Function<'a>,
) -> Result<Function, Error> {
    let mut body = Body::new(module, function);
    let items = function.body.as_deref().unwrap_or_default();
    body.labels = labels(items);
    body.number(items)?;
    unset::mark(&mut body.function, &body.declared);
    slots::share(&mut body.function);
    Ok(body.function)
}

/// Where labels are, counted in instructions: those that become several steps are settled by `number`.
fn labels<'a>(items: &'a [Item<'a>]) -> HashMap<(usize, &'a str), u32> {
    let (mut found, mut open, mut scopes, mut at) = (HashMap::new(), vec![0], 0, 0);
    for item in items {
        match item {
            Item::Open => {
                scopes += 1;
                open.push(scopes);
            }
            Item::Close => drop(open.pop()),
            Item::Label(label) => {
                found.insert((open[open.len() - 1], *label), at);
            }
            Item::Instruction(_) => at += 1,
            _ => {}
        }
    }
    found
}

impl<'a> Body<'a> {
    fn new(module: &'a Shared<'a>, of: &'a text::Function<'a>) -> Body<'a> {
        let mut body = Body {
            module,
            function: Function::new(of.name.to_owned()),
            names: Names::new(),
            labels: HashMap::new(),
            constants: HashMap::from([(0, super::op::ZERO)]),
            declared: Vec::new(),
            place: Place::default(),
        };
        for variable in of.results.iter().chain(&of.parameters) {
            body.variable(variable);
        }
        body
    }

    /// Instructions become steps. Their jumps name instructions until all are there.
    fn number(&mut self, items: &'a [Item<'a>]) -> Result<(), Error> {
        let (mut first_steps, mut scopes) = (Vec::new(), 0);
        for item in items {
            match item {
                Item::Open => {
                    scopes += 1;
                    self.names.open(scopes);
                }
                Item::Close => self.names.close(),
                Item::Registers { of, names } => self.registers(*of, names),
                Item::Variable(variable) => self.variable(variable),
                Item::Instruction(said) => {
                    first_steps.push(self.function.steps.len() as u32);
                    self.place = said.place;
                    instruction(self, said)?;
                }
                Item::Targets { label, to } => self.targets(label, to)?,
                Item::Label(_) => {}
            }
        }
        // Whoever runs out of a body returns.
        first_steps.push(self.function.steps.len() as u32);
        self.emit(None, Op::Return);
        for step in &mut self.function.steps {
            if let Op::Jump(to) = &mut step.op {
                *to = first_steps[*to as usize];
            }
        }
        for to in self.function.tables.iter_mut().flatten() {
            *to = first_steps[*to as usize];
        }
        Ok(())
    }

    fn registers(&mut self, of: Type, names: &[(&'a str, Option<u32>)]) {
        for (name, count) in names.iter().copied() {
            let first = self.function.registers.len() as Reg;
            let declared = Declared { name, count, first, of };
            self.function.registers.resize(declared.registers().end as usize, 0);
            self.declared.push(declared);
            self.names.registers(declared);
        }
    }

    /// A register that the text does not name.
    pub(super) fn fresh(&mut self) -> Reg {
        self.function.registers.push(0);
        self.function.registers.len() as Reg - 1
    }

    /// Memory of a frame. Shared variables inside a function are the module's: `module.variables` has them.
    fn variable(&mut self, variable: &Variable<'a>) {
        let bytes = match variable.space {
            Space::Local => &mut self.function.local_bytes,
            Space::Param => &mut self.function.parameter_bytes,
            _ => return,
        };
        let offset = u64::from(*bytes).next_multiple_of(variable.align);
        *bytes = (offset + variable.bytes) as u32;
        self.function.align = self.function.align.max(variable.align as u32);
        self.names.declare(variable.name, Named::Frame(variable.space, offset));
    }

    fn targets(&mut self, label: &'a str, to: &[&'a str]) -> Result<(), Error> {
        let table = to.iter().map(|name| self.label(name)).collect::<Result<Vec<u32>, Error>>()?;
        self.function.tables.push(table);
        let number = self.function.tables.len() as u64 - 1;
        self.names.declare(label, Named::Frame(Space::Constant, number));
        Ok(())
    }

    pub(super) fn opcode(&self, whole: &'a str) -> Rc<Opcode<'a>> {
        self.module.opcodes.borrow_mut().of(whole)
    }

    pub(super) fn emit(&mut self, guard: Option<(Reg, bool)>, op: Op) {
        self.function.steps.push(Step { guard, op });
        self.function.places.push(self.place);
    }

    pub(super) fn unknown<T>(&self, what: &str) -> Result<T, Error> {
        Err(Error::unknown(self.module.file, self.place.line, what))
    }

    pub(super) fn constant(&mut self, value: u64) -> Reg {
        if let Some(known) = self.constants.get(&value) {
            return *known;
        }
        let reg = self.fresh();
        self.function.registers[reg as usize] = value;
        self.constants.insert(value, reg);
        reg
    }

    /// The step of a label: the innermost scope that has it.
    pub(super) fn label(&self, name: &str) -> Result<u32, Error> {
        let at = self.names.scopes().find_map(|scope| self.labels.get(&(scope, name)));
        at.map_or_else(|| self.unknown(&format!("label {name}")), |at| Ok(*at))
    }

    /// The table that `.branchtargets` gave a name.
    pub(super) fn table(&self, name: &str) -> Result<u32, Error> {
        match self.names.find(name) {
            Some(Named::Frame(Space::Constant, number)) => Ok(number as u32),
            _ => self.unknown(&format!("table {name}")),
        }
    }

    /// The same of an operand that has so many bits: a constant may be written with a sign.
    pub(super) fn source_of(&mut self, operand: &Operand<'_>, bits: u32) -> Result<Reg, Error> {
        match operand {
            Operand::Integer(value) if bits < 64 => Ok(self.constant(value & ((1 << bits) - 1))),
            other => self.source(other),
        }
    }

    /// Where an operand's value is. What is computed first becomes a step before.
    pub(super) fn source(&mut self, operand: &Operand<'_>) -> Result<Reg, Error> {
        match operand {
            Operand::Integer(value) => Ok(self.constant(*value)),
            Operand::Float(bits) => Ok(self.constant(*bits)),
            Operand::Not(name) => {
                let a = self.value(name)?;
                let to = self.fresh();
                self.emit(None, Op::One { run: |a| a ^ 1, to, a });
                Ok(to)
            }
            Operand::Name(name) => self.value(name),
            other => self.unknown(&format!("operand {other}")),
        }
    }

    fn value(&mut self, name: &str) -> Result<Reg, Error> {
        match self.names.find(name) {
            Some(Named::Register(reg, _)) => Ok(reg),
            Some(Named::Frame(space, offset)) => {
                let (to, b) = (self.fresh(), self.constant(offset));
                let add: Two = |a, b| a + b;
                self.emit(None, Op::Two { run: add, to, a: frame(space), b });
                Ok(to)
            }
            None => match (super::sync::special(name), self.module.variables.get(name)) {
                (Some(which), _) => {
                    let to = self.fresh();
                    self.emit(None, Op::Special { to, which });
                    Ok(to)
                }
                (None, Some((_, address))) => Ok(self.constant(*address)),
                (None, None) => self.unknown(&format!("name {name}")),
            },
        }
    }

    /// The register of a result, and its type.
    pub(super) fn result(&self, operand: &Operand<'_>) -> Result<(Reg, Type), Error> {
        match operand {
            Operand::Name(name) => match self.names.find(name) {
                Some(Named::Register(reg, of)) => Ok((reg, of)),
                _ => self.unknown(&format!("register {name}")),
            },
            other => self.unknown(&format!("result {other}")),
        }
    }

    /// The register of a result that may be left out by `_`.
    pub(super) fn any_result(&self, operand: &Operand<'_>) -> Result<Option<Reg>, Error> {
        match operand {
            Operand::Nothing => Ok(None),
            named => self.result(named).map(|(reg, _)| Some(reg)),
        }
    }

    /// The address of `[name + offset]`, in the space that the instruction names.
    pub(super) fn address(&mut self, operand: &Operand<'_>) -> Result<super::op::Address, Error> {
        let Operand::Address { base, offset } = operand else {
            return self.unknown(&format!("address {operand}"));
        };
        let Some(name) = base else {
            return Ok(super::op::Address { base: super::op::ZERO, offset: *offset });
        };
        Ok(match self.names.find(name) {
            Some(Named::Frame(space, at)) => {
                super::op::Address { base: frame(space), offset: offset + at as i64 }
            }
            _ => super::op::Address { base: self.value(name)?, offset: *offset },
        })
    }

    /// How many bytes a variable of `.param` has, and where it is in the frame.
    pub(super) fn parameter(&self, operand: &Operand<'_>) -> Result<u32, Error> {
        match operand {
            Operand::Name(name) => match self.names.find(name) {
                Some(Named::Frame(Space::Param, offset)) => Ok(offset as u32),
                _ => self.unknown(&format!("parameter {name}")),
            },
            other => self.unknown(&format!("parameter {other}")),
        }
    }

    pub(super) fn arguments(&mut self, arguments: Arguments) -> u32 {
        self.function.arguments.push(arguments);
        self.function.arguments.len() as u32 - 1
    }

    pub(super) fn guard(&self, said: &Instruction<'_>) -> Result<Option<(Reg, bool)>, Error> {
        let Some((name, negated)) = &said.guard else { return Ok(None) };
        match self.names.find(name) {
            Some(Named::Register(reg, _)) => Ok(Some((reg, *negated))),
            _ => self.unknown(&format!("predicate {name}")),
        }
    }
}

fn frame(space: Space) -> Reg {
    if space == Space::Local { LOCAL } else { PARAMETERS }
}
