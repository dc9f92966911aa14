//! `cvt` (PTX ISA 9.0, section 9.7.9.21): from a type to another.

use super::alu::Word;
use super::op::One;
use crate::text::{Kind, Type};

/// The function of `cvt{.rounding}.to.from`; `rounding` has all modifiers before the types.
pub(super) fn convert(rounding: &str, to: Type, from: Type) -> Option<One> {
    match (to.kind == Kind::Float, from.kind == Kind::Float) {
        (false, false) => integers(rounding, to, from),
        (true, false) if rounding == "rn" => to_float(to, from),
        (false, true) => to_integer(rounding, to, from),
        (true, true) => floats(rounding, to, from),
        _ => None,
    }
}

/// Extends by the sign of what it is from, cuts to what it is for. A wider register keeps the sign above a signed value.
fn integers(rounding: &str, to: Type, from: Type) -> Option<One> {
    if !rounding.is_empty() {
        return None;
    }
    Some(match (from.kind == Kind::Signed, from.bits.min(to.bits), to.bits) {
        (_, 64, 64) => |a| a,
        (_, 32, 32) | (false, 32, 64) => |a| a & 0xffff_ffff,
        (_, 16, 16) | (false, 16, _) => |a| a & 0xffff,
        (_, 8, 8) | (false, 8, _) => |a| a & 0xff,
        (true, 32, 64) => |a| (a as i32 as i64).held(),
        (true, 16, 64) => |a| (a as i16 as i64).held(),
        (true, 8, 64) => |a| (a as i8 as i64).held(),
        (true, 16, 32) => |a| (a as i16 as i32).held(),
        (true, 8, 32) => |a| (a as i8 as i32).held(),
        (true, 8, 16) => |a| (a as i8 as i16).held(),
        _ => return None,
    })
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn to_float(to: Type, from: Type) -> Option<One> {
    Some(match (to.bits, from.kind == Kind::Signed, from.bits) {
        (32, false, 16 | 32 | 64) => |a| (a as f32).held(),
        (64, false, 16 | 32 | 64) => |a| (a as f64).held(),
        (32, true, 32) => |a| (a as i32 as f32).held(),
        (64, true, 32) => |a| f64::from(a as i32).held(),
        (32, true, 64) => |a| (a as i64 as f32).held(),
        (64, true, 64) => |a| (a as i64 as f64).held(),
        _ => return None,
    })
}

/// Towards zero; what is out of range becomes the nearest. NaN becomes zero from 32 bits to 32, else the highest bit alone.
fn to_integer(rounding: &str, to: Type, from: Type) -> Option<One> {
    if rounding != "rzi" {
        return None;
    }
    Some(match (from.bits, to.kind == Kind::Signed, to.bits) {
        (32, false, 32) => |a| (single(a) as u32).held(),
        (32, true, 32) => |a| (single(a) as i32).held(),
        (from, signed, 64) => match (from, signed) {
            (32, false) => |a| or_nan(single(a).into(), 1 << 63, |x| x as u64),
            (32, true) => |a| or_nan(single(a).into(), 1 << 63, |x| x as i64 as u64),
            (64, false) => |a| or_nan(f64::from_bits(a), 1 << 63, |x| x as u64),
            (64, true) => |a| or_nan(f64::from_bits(a), 1 << 63, |x| x as i64 as u64),
            _ => return None,
        },
        (64, false, 32) => |a| or_nan(f64::from_bits(a), 1 << 31, |x| u64::from(x as u32)),
        (64, true, 32) => |a| or_nan(f64::from_bits(a), 1 << 31, |x| u64::from(x as i32 as u32)),
        _ => return None,
    })
}

fn or_nan(value: f64, of_nan: u64, run: impl Fn(f64) -> u64) -> u64 {
    if value.is_nan() { of_nan } else { run(value) }
}

fn floats(rounding: &str, to: Type, from: Type) -> Option<One> {
    match (rounding, to.bits, from.bits) {
        ("", 64, 32) => Some(|a| f64::from(single(a)).held()),
        ("rn", 32, 64) => Some(|a| (f64::from_bits(a) as f32).held()),
        _ => None,
    }
}
