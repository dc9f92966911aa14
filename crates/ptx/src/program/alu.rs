//! Arithmetic and logic (PTX ISA 9.0, sections 9.7.1 to 9.7.9): what an opcode does with the bits of registers.
//!
//! A register holds its value without a sign: what is narrower than 64 bits stands in the low bits, above zeroes.

use std::cmp::Ordering::{self, Greater, Less};

use super::op::{Four, One, Three, Two};
use crate::text::{Kind, Type};

/// An integer as a register holds it.
pub(crate) trait Word: Copy {
    fn held(self) -> u64;
}

macro_rules! words {
    ($($word:ty as $bits:ty),*) => {
        $(impl Word for $word {
            fn held(self) -> u64 {
                u64::from(self as $bits)
            }
        })*
    };
}
words!(u8 as u8, u16 as u16, u32 as u32, u64 as u64, i8 as u8, i16 as u16, i32 as u32, i64 as u64);

impl Word for f32 {
    fn held(self) -> u64 {
        u64::from(self.to_bits())
    }
}

impl Word for f64 {
    fn held(self) -> u64 {
        self.to_bits()
    }
}

/// A function of registers for each integer type: `integer!(of, T, |a, b| a.wrapping_add(b))`.
macro_rules! integer {
    ($of:expr, $T:ident, |$($x:ident),+| $result:expr) => {
        match ($of.kind == Kind::Signed, $of.bits) {
            (false, 8) => Some({ type $T = u8; integer!(@ $T, $($x),+, $result) }),
            (false, 16) => Some({ type $T = u16; integer!(@ $T, $($x),+, $result) }),
            (false, 32) => Some({ type $T = u32; integer!(@ $T, $($x),+, $result) }),
            (false, 64) => Some({ type $T = u64; integer!(@ $T, $($x),+, $result) }),
            (true, 8) => Some({ type $T = i8; integer!(@ $T, $($x),+, $result) }),
            (true, 16) => Some({ type $T = i16; integer!(@ $T, $($x),+, $result) }),
            (true, 32) => Some({ type $T = i32; integer!(@ $T, $($x),+, $result) }),
            (true, 64) => Some({ type $T = i64; integer!(@ $T, $($x),+, $result) }),
            _ => None,
        }
    };
    (@ $T:ident, $a:ident, $result:expr) => {
        (|$a: u64| { let $a = $a as $T; Word::held($result) }) as One
    };
    (@ $T:ident, $a:ident, $b:ident, $result:expr) => {
        (|$a: u64, $b: u64| { let ($a, $b) = ($a as $T, $b as $T); Word::held($result) }) as Two
    };
    (@ $T:ident, $a:ident, $b:ident, $c:ident, $result:expr) => {
        (|$a: u64, $b: u64, $c: u64| {
            let ($a, $b, $c) = ($a as $T, $b as $T, $c as $T);
            Word::held($result)
        }) as Three
    };
}

/// The same of floating-point numbers.
macro_rules! float {
    ($of:expr, |$($x:ident),+| $result:expr) => {
        match $of.bits {
            32 => Some(float!(@ (|bits: u64| f32::from_bits(bits as u32)), $($x),+, $result)),
            64 => Some(float!(@ f64::from_bits, $($x),+, $result)),
            _ => None,
        }
    };
    (@ $from:expr, $a:ident, $result:expr) => {
        (|$a: u64| { let $a = $from($a); Word::held($result) }) as One
    };
    (@ $from:expr, $a:ident, $b:ident, $result:expr) => {
        (|$a: u64, $b: u64| { let ($a, $b) = ($from($a), $from($b)); Word::held($result) }) as Two
    };
    (@ $from:expr, $a:ident, $b:ident, $c:ident, $result:expr) => {
        (|$a: u64, $b: u64, $c: u64| {
            let ($a, $b, $c) = ($from($a), $from($b), $from($c));
            Word::held($result)
        }) as Three
    };
}

/// `neg.s32`: an opcode with one operand. `name` is the opcode without its type.
pub(super) fn one(name: &str, of: Type) -> Option<One> {
    if of.kind == Kind::Float {
        return match name {
            "mov" => Some(|a| a),
            "neg" => float!(of, |a| -a),
            "abs" => float!(of, |a| a.abs()),
            "sqrt.rn" => float!(of, |a| a.sqrt()),
            "rcp.rn" => float!(of, |a| a.recip()),
            _ => None,
        };
    }
    match name {
        "mov" => Some(|a| a),
        "not" if of.kind == Kind::Predicate => Some(|a| a ^ 1),
        "not" => integer!(of, T, |a| !a),
        "neg" => integer!(of, T, |a| a.wrapping_neg()),
        "abs" => integer!(of, T, |a| if a < (0 as T) { a.wrapping_neg() } else { a }),
        "cnot" => integer!(of, T, |a| (a == 0) as T),
        "popc" => integer!(of, T, |a| a.count_ones()),
        "clz" => integer!(of, T, |a| a.leading_zeros()),
        "brev" => integer!(of, T, |a| a.reverse_bits()),
        "bfind" => {
            integer!(of, T, |a| find(a < (0 as T), a.leading_zeros(), (!a).leading_zeros(), T::BITS, false))
        }
        "bfind.shiftamt" => {
            integer!(of, T, |a| find(a < (0 as T), a.leading_zeros(), (!a).leading_zeros(), T::BITS, true))
        }
        _ => None,
    }
}

/// The place of the highest bit that is not the sign's, or how far it is from the top.
fn find(negative: bool, zeros: u32, ones: u32, bits: u32, shift: bool) -> u32 {
    let above = if negative { ones } else { zeros };
    match above == bits {
        true => u32::MAX,
        false if shift => above,
        false => bits - 1 - above,
    }
}

pub(super) fn two(name: &str, of: Type) -> Option<Two> {
    if of.kind == Kind::Float {
        return two_floats(name, of);
    }
    if of.kind == Kind::Predicate {
        return logic(name);
    }
    match name {
        "add" => integer!(of, T, |a, b| a.wrapping_add(b)),
        "sub" => integer!(of, T, |a, b| a.wrapping_sub(b)),
        "mul.lo" => integer!(of, T, |a, b| a.wrapping_mul(b)),
        "mul.hi" => integer!(of, T, |a, b| ((a as i128).wrapping_mul(b as i128) >> T::BITS) as T),
        "mul.wide" => wide(of).map(|(multiply, _)| multiply),
        // What PTX leaves open, a quotient by zero, has all bits, as on every GPU.
        "div" => integer!(of, T, |a, b| if b == 0 { !(0 as T) } else { a.wrapping_div(b) }),
        "rem" => integer!(of, T, |a, b| if b == 0 { a } else { a.wrapping_rem(b) }),
        "min" => integer!(of, T, |a, b| a.min(b)),
        "max" => integer!(of, T, |a, b| a.max(b)),
        "shl" => shift(of, true),
        "shr" => shift(of, false),
        _ => bits(name, of),
    }
}

fn logic(name: &str) -> Option<Two> {
    match name {
        "and" => Some(|a, b| a & b),
        "or" => Some(|a, b| a | b),
        "xor" => Some(|a, b| a ^ b),
        _ => None,
    }
}

fn bits(name: &str, of: Type) -> Option<Two> {
    match (name, of.kind, of.bits) {
        ("szext.clamp", Kind::Signed, 32) => Some(|a, n| sign_extend(a, n.min(32))),
        ("szext.clamp", _, 32) => Some(|a, n| low_bits(a, n.min(32))),
        ("szext.wrap", Kind::Signed, 32) => Some(|a, n| sign_extend(a, n & 31)),
        ("szext.wrap", _, 32) => Some(|a, n| low_bits(a, n & 31)),
        ("bmsk.clamp", _, 32) => Some(|at, n| mask_of(at.min(32), n.min(32))),
        ("bmsk.wrap", _, 32) => Some(|at, n| mask_of(at & 31, n & 31)),
        _ => logic(name),
    }
}

fn low_bits(a: u64, count: u64) -> u64 {
    a & ((1_u64 << count) - 1)
}

fn sign_extend(a: u64, count: u64) -> u64 {
    match count {
        0 => 0,
        _ => (((a << (64 - count)) as i64) >> (64 - count)) as u32 as u64,
    }
}

fn mask_of(at: u64, count: u64) -> u64 {
    u64::from(((low_bits(u64::MAX, count)) << at) as u32)
}

/// A shift by more than there are bits leaves none, or the sign.
fn shift(of: Type, left: bool) -> Option<Two> {
    match (left, of.kind == Kind::Signed, of.bits) {
        (true, _, 16) => Some(|a, n| if n > 15 { 0 } else { (a << n) & 0xffff }),
        (true, _, 32) => Some(|a, n| if n > 31 { 0 } else { u64::from((a as u32) << n) }),
        (true, _, 64) => Some(|a, n| if n & 0xffff_ffff > 63 { 0 } else { a << (n & 63) }),
        (false, false, 16 | 32 | 64) => Some(|a, n| if n & 0xffff_ffff > 63 { 0 } else { a >> (n & 63) }),
        (false, true, 16) => Some(|a, n| (a as i16 >> n.min(15)).held()),
        (false, true, 32) => Some(|a, n| (a as i32 >> n.min(31)).held()),
        (false, true, 64) => Some(|a, n| (a as i64 >> (n & 0xffff_ffff).min(63)).held()),
        _ => None,
    }
}

fn two_floats(name: &str, of: Type) -> Option<Two> {
    match name {
        "add" | "add.rn" => float!(of, |a, b| a + b),
        "sub" | "sub.rn" => float!(of, |a, b| a - b),
        "mul" | "mul.rn" => float!(of, |a, b| a * b),
        "div.rn" => float!(of, |a, b| a / b),
        "min" => float!(of, |a, b| a.min(b)),
        "max" => float!(of, |a, b| a.max(b)),
        "copysign" => float!(of, |sign, a| a.copysign(sign)),
        _ => None,
    }
}

/// `mul.wide` and `mad.wide`: the product has twice the bits of the operands.
fn wide(of: Type) -> Option<(Two, Three)> {
    Some(match (of.kind == Kind::Signed, of.bits) {
        (false, 16) => (|a, b| a * b, |a, b, c| u64::from((a * b + c) as u32)),
        (false, 32) => (|a, b| a * b, |a, b, c| (a * b).wrapping_add(c)),
        (true, 16) => (
            |a, b| (i32::from(a as i16) * i32::from(b as i16)).held(),
            |a, b, c| (i32::from(a as i16) * i32::from(b as i16)).wrapping_add(c as i32).held(),
        ),
        (true, 32) => (
            |a, b| (i64::from(a as i32) * i64::from(b as i32)).held(),
            |a, b, c| (i64::from(a as i32) * i64::from(b as i32)).wrapping_add(c as i64).held(),
        ),
        _ => return None,
    })
}

pub(super) fn three(name: &str, of: Type) -> Option<Three> {
    if of.kind == Kind::Float {
        return match name {
            "fma.rn" | "mad.rn" => float!(of, |a, b, c| a.mul_add(b, c)),
            "selp" => Some(|a, b, p| if p != 0 { a } else { b }),
            _ => None,
        };
    }
    match name {
        "selp" => Some(|a, b, p| if p != 0 { a } else { b }),
        "mad.lo" => integer!(of, T, |a, b, c| a.wrapping_mul(b).wrapping_add(c)),
        "mad.hi" => {
            integer!(of, T, |a, b, c| (((a as i128).wrapping_mul(b as i128) >> T::BITS) as T).wrapping_add(c))
        }
        "mad.wide" => wide(of).map(|(_, add)| add),
        "shf.l.wrap" => Some(|low, high, n| funnel(low, high, 32 - (n & 31))),
        "shf.l.clamp" => Some(|low, high, n| funnel(low, high, 32 - n.min(32))),
        "shf.r.wrap" => Some(|low, high, n| funnel(low, high, n & 31)),
        "shf.r.clamp" => Some(|low, high, n| funnel(low, high, n.min(32))),
        "prmt" => Some(permute),
        "bfe" => extract(of),
        _ => None,
    }
}

fn funnel(low: u64, high: u64, right: u64) -> u64 {
    ((high << 32 | low) >> right) & 0xffff_ffff
}

/// Four bytes of eight, each by four bits of the selector; the fourth copies the sign.
fn permute(a: u64, b: u64, selector: u64) -> u64 {
    let bytes = (b << 32 | a).to_le_bytes();
    let pick = |at: u64| {
        let nibble = (selector >> (at * 4)) & 15;
        let byte = bytes[(nibble & 7) as usize];
        let picked = if nibble & 8 == 0 { byte } else { (byte as i8 >> 7) as u8 };
        u64::from(picked) << (at * 8)
    };
    (0..4).map(pick).sum()
}

fn extract(of: Type) -> Option<Three> {
    Some(match (of.kind == Kind::Signed, of.bits) {
        (false, 32) => |a, at, n| field(a, at, n, 32, false),
        (false, 64) => |a, at, n| field(a, at, n, 64, false),
        (true, 32) => |a, at, n| field(a, at, n, 32, true) & 0xffff_ffff,
        (true, 64) => |a, at, n| field(a, at, n, 64, true),
        _ => return None,
    })
}

fn field(a: u64, at: u64, count: u64, bits: u64, signed: bool) -> u64 {
    let (at, count) = (at & 0xff, count & 0xff);
    if count == 0 {
        return 0;
    }
    let top = (at + count - 1).min(bits - 1);
    let sign = signed && (a >> top) & 1 == 1;
    let present = if at >= bits { 0 } else { low_bits_of(a >> at, count.min(bits - at)) };
    let filled = count.min(bits.saturating_sub(at));
    if sign && filled < 64 { present | u64::MAX << filled } else { present }
}

fn low_bits_of(a: u64, count: u64) -> u64 {
    if count >= 64 { a } else { low_bits(a, count) }
}

pub(super) fn four(name: &str, of: Type) -> Option<Four> {
    match (name, of.bits) {
        ("bfi", 32) => Some(|from, into, at, n| insert(from, into, at, n, 32)),
        ("bfi", 64) => Some(|from, into, at, n| insert(from, into, at, n, 64)),
        ("lop3", 32) => Some(|a, b, c, table| {
            let of = |bit: u64| {
                let index = (a >> bit & 1) << 2 | (b >> bit & 1) << 1 | (c >> bit & 1);
                (table >> index & 1) << bit
            };
            (0..32).map(of).sum()
        }),
        _ => None,
    }
}

fn insert(from: u64, into: u64, at: u64, count: u64, bits: u64) -> u64 {
    let (at, count) = (at & 0xff, count & 0xff);
    if at >= bits || count == 0 {
        return into;
    }
    let count = count.min(bits - at);
    let mask = low_bits_of(u64::MAX, count) << at;
    into & !mask | (from << at) & mask
}

/// `setp.lt.s32`, as 0 or 1.
pub(super) fn compare(how: &str, of: Type) -> Option<Two> {
    if of.kind == Kind::Float {
        return compare_floats(how, of);
    }
    match how {
        "eq" => integer!(of, T, |a, b| u8::from(a == b)),
        "ne" => integer!(of, T, |a, b| u8::from(a != b)),
        "lt" | "lo" => integer!(of, T, |a, b| u8::from(a < b)),
        "le" | "ls" => integer!(of, T, |a, b| u8::from(a <= b)),
        "gt" | "hi" => integer!(of, T, |a, b| u8::from(a > b)),
        "ge" | "hs" => integer!(of, T, |a, b| u8::from(a >= b)),
        _ => None,
    }
}

/// `ne` is of numbers alone; what ends in `u` holds for NaN, too.
fn compare_floats(how: &str, of: Type) -> Option<Two> {
    match how {
        "eq" => float!(of, |a, b| u8::from(a == b)),
        "ne" => float!(of, |a, b| u8::from(matches!(a.partial_cmp(&b), Some(Less | Greater)))),
        "lt" => float!(of, |a, b| u8::from(a < b)),
        "le" => float!(of, |a, b| u8::from(a <= b)),
        "gt" => float!(of, |a, b| u8::from(a > b)),
        "ge" => float!(of, |a, b| u8::from(a >= b)),
        "equ" => float!(of, |a, b| u8::from(!matches!(a.partial_cmp(&b), Some(Less | Greater)))),
        "neu" => float!(of, |a, b| u8::from(a != b)),
        "ltu" => float!(of, |a, b| u8::from(a.partial_cmp(&b).is_none_or(Ordering::is_lt))),
        "leu" => float!(of, |a, b| u8::from(a.partial_cmp(&b).is_none_or(Ordering::is_le))),
        "gtu" => float!(of, |a, b| u8::from(a.partial_cmp(&b).is_none_or(Ordering::is_gt))),
        "geu" => float!(of, |a, b| u8::from(a.partial_cmp(&b).is_none_or(Ordering::is_ge))),
        "num" => float!(of, |a, b| u8::from(!a.is_nan() && !b.is_nan())),
        "nan" => float!(of, |a, b| u8::from(a.is_nan() || b.is_nan())),
        _ => None,
    }
}
