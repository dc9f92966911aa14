//! Where lanes meet, and what they know of themselves (PTX ISA 9.0, sections 9.7.9, 9.7.13 and 10).

use super::function::Body;
use super::op::{Fold, Meeting, Op, Shuffle, Special, ZERO};
use super::opcode::Opcode;
use crate::Error;
use crate::text::{Kind, Operand};

/// The special register of this name.
pub(super) fn special(name: &str) -> Option<Special> {
    let (base, axis) = match name.rsplit_once('.') {
        Some((base, "x")) => (base, 0),
        Some((base, "y")) => (base, 1),
        Some((base, "z")) => (base, 2),
        _ => (name, 0),
    };
    Some(match base {
        "%tid" => Special::Thread(axis),
        "%ntid" => Special::Threads(axis),
        "%ctaid" => Special::Block(axis),
        "%nctaid" => Special::Blocks(axis),
        "%laneid" => Special::Lane,
        "%warpid" => Special::Warp,
        "%nwarpid" => Special::Warps,
        "%smid" => Special::Multiprocessor,
        "%nsmid" => Special::Multiprocessors,
        "%gridid" => Special::GridId,
        "%lanemask_eq" => Special::MaskEqual,
        "%lanemask_lt" => Special::MaskLess,
        "%lanemask_le" => Special::MaskLessEqual,
        "%lanemask_gt" => Special::MaskGreater,
        "%lanemask_ge" => Special::MaskGreaterEqual,
        "%globaltimer" => Special::GlobalTimer,
        "%clock" => Special::Clock,
        "%clock64" => Special::Clock64,
        "%total_smem_size" => Special::SharedBytes,
        "%dynamic_smem_size" => Special::DynamicSharedBytes,
        _ => return None,
    })
}

pub(super) fn decode(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    match (opcode.head, operands) {
        ("activemask", [to]) => Ok(Some(Op::ActiveMask(body.result(to)?.0))),
        ("nanosleep", [_]) => Ok(Some(Op::Sleep)),
        ("bar", [mask]) if opcode.has("warp") => {
            meet(body, Some(Meeting::Wait), opcode, &Operand::Nothing, mask, &[])
        }
        ("bar" | "barrier", [id, count @ ..]) => barrier(body, opcode, id, count),
        ("shfl", [to, a, b, c, mask]) => {
            let meeting = shuffle(opcode).map(Meeting::Shuffle);
            meet(body, meeting, opcode, to, mask, &[a, b, c])
        }
        ("vote", [to, a, mask]) => meet(body, vote(opcode), opcode, to, mask, &[a]),
        ("match", [to, a, mask]) => {
            let meeting = match opcode.modifiers.first() {
                Some(&"any") => Some(Meeting::MatchAny),
                Some(&"all") => Some(Meeting::MatchAll),
                _ => None,
            };
            meet(body, meeting, opcode, to, mask, &[a])
        }
        ("redux", [to, a, mask]) => meet(body, fold(opcode).map(Meeting::Reduce), opcode, to, mask, &[a]),
        ("elect", [to, mask]) => meet(body, Some(Meeting::Elect), opcode, to, mask, &[]),
        _ => Ok(None),
    }
}

fn meet(
    body: &mut Body<'_>,
    meeting: Option<Meeting>,
    opcode: &Opcode<'_>,
    to: &Operand<'_>,
    mask: &Operand<'_>,
    values: &[&Operand<'_>],
) -> Result<Option<Op>, Error> {
    let Some(meeting) = meeting else { return Ok(None) };
    let (to, also) = match to {
        Operand::Pair(to, also) => (body.any_result(to)?, body.any_result(also)?),
        one => (body.any_result(one)?, None),
    };
    let mut registers = [ZERO; 3];
    for (register, value) in registers.iter_mut().zip(values) {
        *register = body.source_of(value, opcode.of_type().map_or(64, |of| of.bits.max(32)))?;
    }
    let [a, b, c] = registers;
    Ok(Some(Op::Meet { meeting, mask: body.source(mask)?, to, also, a, b, c }))
}

/// `bar.sync id{, count}`, `bar.arrive id, count`, and the same of `barrier{.cta}`. Reductions over a block are not known.
fn barrier(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    id: &Operand<'_>,
    count: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let waits = match opcode.modifiers.iter().find(|word| !matches!(**word, "cta" | "aligned")) {
        Some(&"sync") => true,
        Some(&"arrive") => false,
        _ => return Ok(None),
    };
    let count = match count {
        [] if waits => ZERO,
        [count] => body.source(count)?,
        _ => return Ok(None),
    };
    // `bar` is `barrier.aligned`.
    let aligned = opcode.head == "bar" || opcode.has("aligned");
    Ok(Some(Op::Barrier { id: body.source(id)?, count, waits, aligned }))
}

fn vote(opcode: &Opcode<'_>) -> Option<Meeting> {
    Some(match opcode.modifiers.get(1).copied()? {
        "ballot" => Meeting::Ballot,
        "any" => Meeting::Any,
        "all" => Meeting::All,
        "uni" => Meeting::Uniform,
        _ => return None,
    })
}

fn shuffle(opcode: &Opcode<'_>) -> Option<Shuffle> {
    Some(match opcode.modifiers.get(1).copied()? {
        "idx" => Shuffle::Index,
        "up" => Shuffle::Up,
        "down" => Shuffle::Down,
        "bfly" => Shuffle::Butterfly,
        _ => return None,
    })
}

fn fold(opcode: &Opcode<'_>) -> Option<Fold> {
    let of = opcode
        .of_type()
        .filter(|of| of.kind != Kind::Float && of.bits == 32 && opcode.modifiers.len() == 3)?;
    let signed = of.kind == Kind::Signed;
    Some(match opcode.modifiers.get(1).copied()? {
        "add" => Fold::Add,
        "and" => Fold::And,
        "or" => Fold::Or,
        "xor" => Fold::Xor,
        "min" => Fold::Least { signed },
        "max" => Fold::Greatest { signed },
        _ => return None,
    })
}
