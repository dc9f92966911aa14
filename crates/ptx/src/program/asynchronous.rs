//! Barriers in memory, and asynchronous copies (PTX ISA 9.0, sections 9.7.9.25 and 9.7.13.15).

use super::function::Body;
use super::memory::space;
use super::op::{Address, Mbarrier, Op, Reg, Transfer, ZERO};
use super::opcode::Opcode;
use crate::Error;
use crate::text::{Operand, Space};

pub(super) fn mbarrier(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let what = match opcode.modifiers.first().copied() {
        Some("init") => Mbarrier::Init,
        Some("inval") => Mbarrier::Invalidate,
        Some("arrive") => Mbarrier::Arrive,
        Some("expect_tx") => Mbarrier::ExpectBytes,
        Some("test_wait" | "try_wait") => Mbarrier::Test { parity: opcode.has("parity") },
        _ => return Ok(None),
    };
    let one = body.constant(1);
    let (to, at, b, c) = match (what, operands) {
        (Mbarrier::Init, [at, count]) => (None, at, body.source(count)?, ZERO),
        (Mbarrier::Invalidate, [at]) => (None, at, ZERO, ZERO),
        (Mbarrier::Arrive, [to, at, bytes]) if opcode.has("expect_tx") => {
            (body.any_result(to)?, at, one, body.source(bytes)?)
        }
        (Mbarrier::Arrive, [to, at, count]) => (body.any_result(to)?, at, body.source(count)?, ZERO),
        (Mbarrier::Arrive, [to, at]) => (body.any_result(to)?, at, one, ZERO),
        (Mbarrier::ExpectBytes, [at, bytes]) => (None, at, ZERO, body.source(bytes)?),
        // A hint of how long to wait may stand behind.
        (Mbarrier::Test { .. }, [to, at, phase] | [to, at, phase, _]) => {
            (body.any_result(to)?, at, body.source(phase)?, ZERO)
        }
        _ => return Ok(None),
    };
    Ok(Some(Op::Mbarrier { what, to, at: body.address(at)?, b, c }))
}

/// `cp.async` of sm_80 and `cp.async.bulk` of sm_90.
pub(super) fn copy(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let words = &opcode.modifiers[..];
    match (words, operands) {
        (["async", "commit_group"], []) => Ok(Some(Op::Commit { bulk: false })),
        (["async", "bulk", "commit_group"], []) => Ok(Some(Op::Commit { bulk: true })),
        (["async", "wait_all"], []) => Ok(Some(Op::WaitCopies { bulk: false, but: None })),
        (["async", "wait_group"], [but]) => {
            Ok(Some(Op::WaitCopies { bulk: false, but: Some(body.source(but)?) }))
        }
        (["async", "mbarrier", "arrive", words @ ..], [at]) => {
            let counted = !words.contains(&"noinc");
            Ok(Some(Op::ArriveBehindCopies { at: body.address(at)?, counted }))
        }
        // That what they copy was read is less than that it is there: both are waited for.
        (["async", "bulk", "wait_group", ..], [but]) => {
            Ok(Some(Op::WaitCopies { bulk: true, but: Some(body.source(but)?) }))
        }
        (["async", "bulk", to, from, ..], [target, source, size, barrier @ ..]) => {
            let barrier = match barrier {
                [] => None,
                [barrier @ Operand::Address { .. }] => Some(body.address(barrier)?),
                _ => return Ok(None),
            };
            whole_copy(body, (to, from), (target, source), size, (barrier, true))
        }
        (["async", "ca" | "cg", ..], [target, source, size]) => {
            whole_copy(body, ("shared", "global"), (target, source), size, (None, false))
        }
        _ => Ok(None),
    }
}

fn whole_copy(
    body: &mut Body<'_>,
    (to, from): (&str, &str),
    (target, source): (&Operand<'_>, &Operand<'_>),
    size: &Operand<'_>,
    (barrier, bulk): (Option<Address>, bool),
) -> Result<Option<Op>, Error> {
    let to_shared = match (space(to), space(from)) {
        (Some(Space::Shared), Some(Space::Global)) => true,
        (Some(Space::Global), Some(Space::Shared)) => false,
        _ => return Ok(None),
    };
    let size: Reg = body.source(size)?;
    let (to, from) = (body.address(target)?, body.address(source)?);
    Ok(Some(Op::Copy(Transfer { to_shared, to, from, size, barrier, bulk })))
}
