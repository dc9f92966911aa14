//! Accesses and fences (PTX ISA 9.0, sections 9.7.9 and 9.7.13).

use super::alu;
use super::asynchronous;

use super::function::Body;
use super::op::{Access, Fence, Op, Order, Rmw, Scope, Widen, ZERO};
use super::opcode::Opcode;
use crate::Error;
use crate::text::{Kind, Operand, Space, Type};

/// The space that a modifier names.
pub(super) fn space(word: &str) -> Option<Space> {
    Some(match word {
        "global" => Space::Global,
        "const" => Space::Constant,
        "shared" | "shared::cta" | "shared::cluster" => Space::Shared,
        "local" => Space::Local,
        "param" | "param::entry" | "param::func" => Space::Param,
        _ => return None,
    })
}

fn scope(word: &str) -> Option<Scope> {
    Some(match word {
        "cta" | "cluster" => Scope::Cta,
        "gpu" | "gl" => Scope::Gpu,
        "sys" => Scope::System,
        _ => return None,
    })
}

pub(super) fn decode(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    operands: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    match (opcode.head, operands) {
        ("ld" | "ldu", [to, at]) => load(body, opcode, to, at),
        ("st", [at, from]) => store(body, opcode, at, from),
        ("atom", [to, at, with @ ..]) => atomic(body, opcode, Some(to), at, with),
        ("red", [at, with @ ..]) => atomic(body, opcode, None, at, with),
        ("fence" | "membar", []) => Ok(fence(opcode).map(Op::Fence)),
        ("mbarrier", _) => asynchronous::mbarrier(body, opcode, operands),
        ("cp", _) => asynchronous::copy(body, opcode, operands),
        // Hints. `discard` is none: what it names is undefined after it.
        ("prefetch" | "prefetchu" | "applypriority", _) => Ok(Some(Op::Nothing)),
        _ => Ok(None),
    }
}

/// The type of an access, and what its modifiers say; nothing where one is not known.
fn access(opcode: &Opcode<'_>) -> Option<(Type, Access)> {
    *opcode.access.get_or_init(|| find_access(opcode))
}

fn find_access(opcode: &Opcode<'_>) -> Option<(Type, Access)> {
    // Registers have eight bytes at most.
    let of = opcode.of_type().filter(|of| of.bytes() <= 8)?;
    let mut access = Access {
        space: Space::Generic,
        order: Order::Weak,
        scope: Scope::System,
        bytes: of.bytes() as u8,
        elements: 1,
        read_only: false,
    };
    if matches!(opcode.head, "atom" | "red") {
        (access.order, access.scope) = (Order::Relaxed, Scope::Gpu);
    }
    let modifiers = &opcode.modifiers[..opcode.modifiers.len() - 1];
    modifiers.iter().all(|word| modify(&mut access, opcode, word)).then_some((of, access))
}

/// What one modifier says; false where it is not known.
fn modify(access: &mut Access, opcode: &Opcode<'_>, word: &str) -> bool {
    match word {
        "weak" => access.order = Order::Weak,
        // Volatile is relaxed at the scope of the system (section 8.4.1).
        "relaxed" | "volatile" if access.order != Order::Mmio => access.order = Order::Relaxed,
        "relaxed" => {}
        "acquire" => access.order = Order::Acquire,
        "release" => access.order = Order::Release,
        "acq_rel" => access.order = Order::AcquireRelease,
        "mmio" => access.order = Order::Mmio,
        "v2" => access.elements = 2,
        "v4" => access.elements = 4,
        "nc" => access.read_only = true,
        // Which cache keeps it: hints.
        "ca" | "cg" | "cs" | "cv" | "lu" | "wb" | "wt" | "noftz" => {}
        _ if word.starts_with("L1::") || word.starts_with("L2::") => {}
        _ => match (space(word), scope(word)) {
            (Some(space), _) => access.space = space,
            (_, Some(scope)) => access.scope = scope,
            _ => return matches!(opcode.head, "atom" | "red") && operation(word),
        },
    }
    true
}

fn operation(word: &str) -> bool {
    matches!(word, "add" | "and" | "or" | "xor" | "exch" | "cas" | "inc" | "dec" | "min" | "max")
}

fn elements<'b, 'a>(operand: &'b Operand<'a>) -> &'b [Operand<'a>] {
    match operand {
        Operand::Vector(all) => all,
        one => std::slice::from_ref(one),
    }
}

fn load(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    to: &Operand<'_>,
    at: &Operand<'_>,
) -> Result<Option<Op>, Error> {
    let Some((of, access)) = access(opcode) else { return Ok(None) };
    let all = elements(to);
    if all.len() != usize::from(access.elements) {
        return Ok(None);
    }
    let (mut results, mut bits) = ([None; 4], of.bits);
    for (result, operand) in results.iter_mut().zip(all) {
        if *operand != Operand::Nothing {
            let (reg, register) = body.result(operand)?;
            (*result, bits) = (Some(reg), register.bits);
        }
    }
    Ok(Some(Op::Load { access, widen: widen(of, bits), to: results, at: body.address(at)? }))
}

fn widen(of: Type, bits: u32) -> Widen {
    Widen { sign_from: if of.kind == Kind::Signed { of.bits as u8 } else { 0 }, bits: bits as u8 }
}

fn store(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    at: &Operand<'_>,
    from: &Operand<'_>,
) -> Result<Option<Op>, Error> {
    let Some((of, access)) = access(opcode) else { return Ok(None) };
    let all = elements(from);
    if all.len() != usize::from(access.elements) {
        return Ok(None);
    }
    let mut sources = [ZERO; 4];
    for (source, operand) in sources.iter_mut().zip(all) {
        *source = body.source_of(operand, of.bits)?;
    }
    Ok(Some(Op::Store { access, from: sources, at: body.address(at)? }))
}

fn atomic(
    body: &mut Body<'_>,
    opcode: &Opcode<'_>,
    to: Option<&Operand<'_>>,
    at: &Operand<'_>,
    with: &[Operand<'_>],
) -> Result<Option<Op>, Error> {
    let Some((of, access)) = access(opcode) else { return Ok(None) };
    let Some(operation) = opcode.modifiers.iter().copied().find(|word| operation(word)) else {
        return Ok(None);
    };
    let (b, c) = match with {
        [b] if operation != "cas" => (body.source(b)?, ZERO),
        [b, c] if operation == "cas" => (body.source(b)?, body.source(c)?),
        _ => return Ok(None),
    };
    let Some(rmw) = rmw(operation, of) else { return Ok(None) };
    let (to, bits) = match to {
        None | Some(Operand::Nothing) => (None, of.bits),
        Some(named) => body.result(named).map(|(reg, register)| (Some(reg), register.bits))?,
    };
    Ok(Some(Op::Atomic { access, rmw, widen: widen(of, bits), to, at: body.address(at)?, b, c }))
}

/// What an atomic writes, of what it read and its operand.
fn rmw(operation: &str, of: Type) -> Option<Rmw> {
    Some(match (operation, of.bits) {
        ("cas", _) => Rmw::Cas,
        ("exch", _) => Rmw::Of(|_, with| with),
        ("inc", 32) => Rmw::Of(|old, most| if old >= most { 0 } else { old + 1 }),
        ("dec", 32) => Rmw::Of(|old, most| if old == 0 || old > most { most } else { old - 1 }),
        _ => Rmw::Of(alu::two(operation, of)?),
    })
}

fn fence(opcode: &Opcode<'_>) -> Option<Fence> {
    Some(match (opcode.head, &opcode.modifiers[..]) {
        // `membar` is the fence of one order for all (section 9.7.13.4).
        ("membar", [level]) => Fence::SequentiallyConsistent(scope(level)?),
        ("fence", ["proxy", "async"] | ["proxy", "async", "shared::cta" | "shared::cluster"]) => Fence::Proxy,
        ("fence", ["sc", level]) => Fence::SequentiallyConsistent(scope(level)?),
        ("fence", ["acq_rel", level] | ["acquire" | "release", level]) => {
            Fence::AcquireRelease(scope(level)?)
        }
        ("fence", ["mbarrier_init", ..]) => Fence::AcquireRelease(Scope::Cta),
        _ => return None,
    })
}
