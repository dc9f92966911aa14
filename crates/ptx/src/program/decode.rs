//! From an instruction's words to what the machine does: control, registers, and who decodes the rest.

use super::convert::convert;
use super::function::Body;
use super::op::{Arguments, Op, Reg, Two};
use super::opcode::{Group, Opcode, Run};
use super::{alu, memory, sync};
use crate::Error;
use crate::text::{Instruction, Kind, Operand, Type};

/// Appends the steps of one instruction.
pub(super) fn instruction<'a>(body: &mut Body<'a>, said: &'a Instruction<'a>) -> Result<(), Error> {
    let opcode = body.opcode(said.opcode);
    if said.guard.is_some()
        && opcode.head == "setp"
        && matches!(said.operands.first(), Some(Operand::Pair(..)))
    {
        return body.unknown(&format!("{} of two results behind a predicate", opcode.whole));
    }
    let op = match opcode.group {
        Group::Control => control(body, &opcode, &said.operands)?,
        Group::Memory => memory::decode(body, &opcode, &said.operands)?,
        Group::Sync => sync::decode(body, &opcode, &said.operands)?,
        Group::Registers => registers(body, &opcode, &said.operands)?,
    };
    let Some(op) = op else { return body.unknown(opcode.whole) };
    let guard = body.guard(said)?;
    body.emit(guard, op);
    Ok(())
}

fn control(body: &mut Body<'_>, opcode: &Opcode<'_>, operands: &[Operand<'_>]) -> Result<Option<Op>, Error> {
    Ok(match (opcode.head, operands) {
        ("bra", [Operand::Name(label)]) => Some(Op::Jump(body.label(label)?)),
        ("brx", [index, Operand::Name(table)]) => {
            Some(Op::Table { index: body.source(index)?, table: body.table(table)? })
        }
        ("call", operands) => call(body, operands)?,
        ("ret", []) => Some(Op::Return),
        ("exit", []) => Some(Op::Exit),
        ("trap" | "brkpt", []) => Some(Op::Trap),
        _ => None,
    })
}

/// `call (results), name, (parameters)`; either list may be missing. Calls by address are not known.
fn call(body: &mut Body<'_>, operands: &[Operand<'_>]) -> Result<Option<Op>, Error> {
    let (results, name, parameters) = match operands {
        [Operand::List(results), Operand::Name(name), Operand::List(parameters)] => {
            (&results[..], name, &parameters[..])
        }
        [Operand::List(results), Operand::Name(name)] => (&results[..], name, &[][..]),
        [Operand::Name(name), Operand::List(parameters)] => (&[][..], name, &parameters[..]),
        [Operand::Name(name)] => (&[][..], name, &[][..]),
        _ => return Ok(None),
    };
    let Some((function, declared)) = body.module.functions.get(name).copied() else {
        return body.unknown(&format!("function {name}"));
    };
    if (declared.results.len(), declared.parameters.len()) != (results.len(), parameters.len()) {
        return body.unknown(&format!("call of {name} with other parameters than it declares"));
    }
    let (mut arguments, mut at) = (Arguments::default(), 0_u64);
    for (number, (variable, given)) in
        declared.results.iter().chain(&declared.parameters).zip(results.iter().chain(parameters)).enumerate()
    {
        at = at.next_multiple_of(variable.align);
        let bytes = variable.bytes as u32;
        let here = body.parameter(given)?;
        match number < results.len() {
            true => arguments.take.push((at as u32, here, bytes)),
            false => arguments.give.push((here, at as u32, bytes)),
        }
        at += variable.bytes;
    }
    let arguments = body.arguments(arguments);
    Ok(Some(Op::Call { function, arguments }))
}

fn registers(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let Some(of) = opcode.of_type() else { return Ok(None) };
    match (opcode.head, operands) {
        ("mov", [Operand::Vector(to), from]) => unpack(body, of, to, from),
        ("mov", [to, Operand::Vector(from)]) => pack(body, of, to, from),
        ("cvt", [to, from]) => {
            let Some(at) = opcode.modifiers.len().checked_sub(2) else { return Ok(None) };
            let Some(target) = Type::of(opcode.modifiers[at]) else { return Ok(None) };
            let found = || convert(&opcode.modifiers[..at].join("."), target, of).map(Run::One);
            let Some(Run::One(run)) = opcode.run(1, found) else { return Ok(None) };
            let (to, register) = body.result(to)?;
            // The result would need its sign above it: no compiler makes one.
            if register.bits > target.bits && target.kind == Kind::Signed {
                return body
                    .unknown(&format!("cvt to {} bits in a register of {}", target.bits, register.bits));
            }
            Ok(Some(Op::One { run, to, a: body.source_of(from, of.bits)? }))
        }
        ("cvta", [to, from]) => address(body, opcode, to, from),
        ("isspacep", _) => Ok(None),
        ("setp", _) => predicate(body, opcode, of, operands),
        _ => computed(body, opcode, of, operands),
    }
}

fn computed(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    of: Type,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let [to, operands @ ..] = operands else { return Ok(None) };
    let mut from = [super::op::ZERO; 4];
    if operands.len() > from.len() {
        return Ok(None);
    }
    for (at, (from, operand)) in from.iter_mut().zip(operands).enumerate() {
        // The sum of a wide product has twice the bits.
        let wide = at == 2 && opcode.head == "mad" && opcode.modifiers[0] == "wide";
        *from = body.source_of(operand, if wide { of.bits * 2 } else { of.bits })?;
    }
    let ((to, _), [a, b, c, _]) = (body.result(to)?, from);
    let name = || opcode.without(1);
    let run = opcode.run(operands.len(), || match operands.len() {
        1 => alu::one(&name(), of).map(Run::One),
        2 => alu::two(&name(), of).map(Run::Two),
        3 => alu::three(&name(), of).map(Run::Three),
        4 => alu::four(&name(), of).map(Run::Four),
        _ => None,
    });
    Ok(run.map(|run| match run {
        Run::One(run) => Op::One { run, to, a },
        Run::Two(run) => Op::Two { run, to, a, b },
        Run::Three(run) => Op::Three { run, to, a, b, c },
        Run::Four(run) => Op::Four { run, to, of: from },
    }))
}

/// `setp.lt.and.s32 p|q, a, b, !c`: up to four steps.
fn predicate(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    of: Type,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let (how, combine) = match opcode.modifiers[..] {
        [how, _] => (how, None),
        [how, combine, _] => match alu::two(combine, Type { kind: Kind::Predicate, bits: 1 }) {
            Some(combine) => (how, Some(combine)),
            None => return Ok(None),
        },
        _ => return Ok(None),
    };
    let run = opcode.run(2, || alu::compare(how, of).map(Run::Two));
    let (Some(Run::Two(run)), [to, a, b, with @ ..]) = (run, operands) else { return Ok(None) };
    let (a, b) = (body.source_of(a, of.bits)?, body.source_of(b, of.bits)?);
    let (to, also) = match to {
        Operand::Pair(to, also) => (body.any_result(to)?, body.any_result(also)?),
        one => (body.any_result(one)?, None),
    };
    let (combine, c): (Option<Two>, Reg) = match with {
        [] => (None, super::op::ZERO),
        [c] if combine.is_some() => (combine, body.source(c)?),
        _ => return Ok(None),
    };
    let Some(to) = to else { return Ok(None) };
    if combine.is_none() && also.is_none() {
        return Ok(Some(Op::Two { run, to, a, b }));
    }
    let first = body.fresh();
    body.emit(None, Op::Two { run, to: first, a, b });
    if let Some(also) = also {
        let opposite = body.fresh();
        body.emit(None, Op::One { run: |a| a ^ 1, to: opposite, a: first });
        let run: Two = combine.unwrap_or(|a, _| a);
        body.emit(None, Op::Two { run, to: also, a: opposite, b: c });
    }
    Ok(Some(Op::Two { run: combine.unwrap_or(|a, _| a), to, a: first, b: c }))
}

/// How many parts a register has, and their bits.
fn parts(of: Type, count: usize) -> Option<(u8, u8)> {
    let count = u8::try_from(count).ok().filter(|count| matches!(count, 2 | 4))?;
    (of.bits.is_multiple_of(u32::from(count))).then(|| (count, of.bits as u8 / count))
}

fn pack(body: &mut Body<'_>, of: Type, to: &Operand<'_>, from: &[Operand<'_>]) -> Result<Option<Op>, Error> {
    let Some((count, bits)) = parts(of, from.len()) else { return Ok(None) };
    let mut sources = [super::op::ZERO; 4];
    for (source, operand) in sources.iter_mut().zip(from) {
        *source = body.source_of(operand, u32::from(bits))?;
    }
    Ok(Some(Op::Pack { to: body.result(to)?.0, from: sources, count, bits }))
}

fn unpack(
    body: &mut Body<'_>,
    of: Type,
    to: &[Operand<'_>],
    from: &Operand<'_>,
) -> Result<Option<Op>, Error> {
    let Some((count, bits)) = parts(of, to.len()) else { return Ok(None) };
    let mut results = [None; 4];
    for (result, operand) in results.iter_mut().zip(to) {
        *result = body.any_result(operand)?;
    }
    Ok(Some(Op::Unpack { to: results, from: body.source(from)?, count, bits }))
}

/// `cvta.shared`, and back with `.to`: the windows of generic addresses.
fn address(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    to: &Operand<'_>,
    from: &Operand<'_>,
) -> Result<Option<Op>, Error> {
    let back = opcode.has("to");
    let space = opcode.modifiers.iter().find_map(|word| memory::space(word));
    let Some(window) = space.map(crate::machine::window) else { return Ok(None) };
    let b = body.constant(window);
    let run: Two = if back { |a, b| a ^ b } else { |a, b| a | b };
    Ok(Some(Op::Two { run, to: body.result(to)?.0, a: body.source(from)?, b }))
}
