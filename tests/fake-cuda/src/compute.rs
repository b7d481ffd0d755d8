//! The computations of PTX instructions, as in its manual. Registers are 64 bits wide; narrower
//! values are in the low bits.

use half::f16;

type Compute = fn(u64, u64, u64) -> u64;

/// The computation of an instruction.
pub(crate) fn computes(operation: &str) -> Option<Compute> {
    integers(operation).or_else(|| floats(operation)).or_else(|| conversions(operation))
}

fn integers(operation: &str) -> Option<Compute> {
    Some(match operation {
        "ld.param.u32" | "ld.param.u64" | "mov.u32" | "mov.u64" | "mov.b32" | "mov.b64"
        | "cvta.to.global.u64" => |a, _, _| a,
        "add.u32" => |a, b, _| (a as u32).wrapping_add(b as u32).into(),
        "sub.u32" => |a, b, _| (a as u32).wrapping_sub(b as u32).into(),
        "add.s64" | "add.u64" => |a, b, _| a.wrapping_add(b),
        "sub.u64" => |a, b, _| a.wrapping_sub(b),
        "div.u64" => |a, b, _| a.checked_div(b).unwrap_or(u64::MAX),
        "rem.u64" => |a, b, _| a.checked_rem(b).unwrap_or(a),
        "mul.lo.u32" => |a, b, _| (a as u32).wrapping_mul(b as u32).into(),
        "mul.lo.u64" | "mul.lo.s64" => |a, b, _| a.wrapping_mul(b),
        "mul.wide.u32" => |a, b, _| u64::from(a as u32) * u64::from(b as u32),
        "mad.lo.u32" => |a, b, c| (a as u32).wrapping_mul(b as u32).wrapping_add(c as u32).into(),
        "xor.b32" => |a, b, _| ((a ^ b) as u32).into(),
        "and.b32" => |a, b, _| ((a & b) as u32).into(),
        "or.b32" => |a, b, _| ((a | b) as u32).into(),
        "shl.b32" => |a, b, _| (a as u32).checked_shl(b as u32).unwrap_or(0).into(),
        "shr.u32" => |a, b, _| (a as u32).checked_shr(b as u32).unwrap_or(0).into(),
        "xor.b64" => |a, b, _| a ^ b,
        "and.b64" => |a, b, _| a & b,
        "or.b64" => |a, b, _| a | b,
        "shl.b64" => |a, b, _| a.checked_shl(b as u32).unwrap_or(0),
        "shr.u64" => |a, b, _| a.checked_shr(b as u32).unwrap_or(0),
        "shr.s64" => |a, b, _| (a.cast_signed() >> (b as u32).min(63)).cast_unsigned(),
        "clz.b64" => |a, _, _| a.leading_zeros().into(),
        "min.u32" => |a, b, _| (a as u32).min(b as u32).into(),
        "min.s64" => |a, b, _| a.cast_signed().min(b.cast_signed()).cast_unsigned(),
        "max.s64" => |a, b, _| a.cast_signed().max(b.cast_signed()).cast_unsigned(),
        "min.u64" => |a, b, _| a.min(b),
        "max.u64" => |a, b, _| a.max(b),
        "selp.b32" => |a, b, c| if c != 0 { a } else { b },
        "setp.ge.u32" => |a, b, _| (a as u32 >= b as u32).into(),
        "setp.lt.u32" => |a, b, _| ((a as u32) < b as u32).into(),
        "setp.eq.u32" => |a, b, _| (a as u32 == b as u32).into(),
        "setp.ge.u64" => |a, b, _| (a >= b).into(),
        "setp.eq.u64" => |a, b, _| (a == b).into(),
        "setp.ne.s64" | "setp.ne.u64" => |a, b, _| (a != b).into(),
        _ => return None,
    })
}

fn floats(operation: &str) -> Option<Compute> {
    Some(match operation {
        "add.rn.f32" => |a, b, _| bits(single(a) + single(b)),
        "mul.rn.f32" => |a, b, _| bits(single(a) * single(b)),
        "div.rn.f32" => |a, b, _| bits(single(a) / single(b)),
        "min.f32" => |a, b, _| bits(single(a).min(single(b))),
        "max.f32" => |a, b, _| bits(single(a).max(single(b))),
        "add.rn.f64" => |a, b, _| (double(a) + double(b)).to_bits(),
        "sub.rn.f64" => |a, b, _| (double(a) - double(b)).to_bits(),
        "fma.rn.f64" => |a, b, c| double(a).mul_add(double(b), double(c)).to_bits(),
        "mul.rn.f64" => |a, b, _| (double(a) * double(b)).to_bits(),
        "div.rn.f64" => |a, b, _| (double(a) / double(b)).to_bits(),
        "min.f64" => |a, b, _| double(a).min(double(b)).to_bits(),
        "max.f64" => |a, b, _| double(a).max(double(b)).to_bits(),
        "setp.nan.f32" => |a, b, _| (single(a).is_nan() || single(b).is_nan()).into(),
        "setp.nan.f64" => |a, b, _| (double(a).is_nan() || double(b).is_nan()).into(),
        // NaN does not compare.
        "setp.ne.f64" => |a, b, _| (double(a) < double(b) || double(a) > double(b)).into(),
        _ => return None,
    })
}

fn conversions(operation: &str) -> Option<Compute> {
    Some(match operation {
        "cvt.u64.u32" => |a, _, _| (a as u32).into(),
        "cvt.u32.u64" => |a, _, _| (a as u32).into(),
        "cvt.u16.u32" => |a, _, _| (a as u16).into(),
        "cvt.f32.f16" => |a, _, _| bits(f16::from_bits(a as u16).to_f32()),
        "cvt.rn.f16.f32" => |a, _, _| f16::from_f32(single(a)).to_bits().into(),
        "cvt.f64.f32" => |a, _, _| f64::from(single(a)).to_bits(),
        "cvt.rn.f32.f64" => |a, _, _| bits(double(a) as f32),
        "cvt.rz.f32.f64" => |a, _, _| bits(cut(double(a))),
        "cvt.rn.f64.s64" => |a, _, _| (a.cast_signed() as f64).to_bits(),
        "cvt.rn.f64.u64" => |a, _, _| (a as f64).to_bits(),
        "cvt.rn.f32.s64" => |a, _, _| bits(a.cast_signed() as f32),
        "cvt.rn.f32.u64" => |a, _, _| bits(a as f32),
        "cvt.rz.f32.s64" => |a, _, _| bits(cut_integer(a.cast_signed().into())),
        "cvt.rz.f32.u64" => |a, _, _| bits(cut_integer(a.into())),
        "cvt.rzi.s64.f32" => |a, _, _| signed(single(a).into()),
        "cvt.rzi.s64.f64" => |a, _, _| signed(double(a)),
        "cvt.rzi.u64.f32" => |a, _, _| unsigned(single(a).into()),
        "cvt.rzi.u64.f64" => |a, _, _| unsigned(double(a)),
        _ => return None,
    })
}

fn single(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn double(bits: u64) -> f64 {
    f64::from_bits(bits)
}

fn bits(value: f32) -> u64 {
    value.to_bits().into()
}

/// PTX's result for NaN in a conversion to 64 bits.
const NOT_A_NUMBER: u64 = 1 << 63;

/// Truncates; out of range becomes the nearest value in range.
fn signed(value: f64) -> u64 {
    if value.is_nan() { NOT_A_NUMBER } else { (value as i64).cast_unsigned() }
}

fn unsigned(value: f64) -> u64 {
    if value.is_nan() { NOT_A_NUMBER } else { value as u64 }
}

/// Rounds towards zero.
fn cut(value: f64) -> f32 {
    let nearest = value as f32;
    match f64::from(nearest).abs() > value.abs() && value.is_finite() {
        true => f32::from_bits(nearest.to_bits() - 1),
        false => nearest,
    }
}

fn cut_integer(value: i128) -> f32 {
    let nearest = value as f32;
    match (nearest as i128).unsigned_abs() > value.unsigned_abs() {
        true => f32::from_bits(nearest.to_bits() - 1),
        false => nearest,
    }
}
