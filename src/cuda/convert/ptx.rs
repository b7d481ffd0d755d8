//! The PTX of the kernels. Conversions for which newer GPUs have
//! instructions are plain arithmetic here, so results are the same everywhere.
//!
//! An element is read into a register wide enough for it (`%w` for integers, `%f` for floats of up
//! to 32 bits, `%d` for `f64`) and converted from there. A small float is rounded from an `f32`
//! whose last bit is set if it is inexact. Rounding to odd this way never produces a tie, so the
//! value is rounded only once.

use crate::DType;
use crate::cuda::elementwise;

/// The range of `i64`.
const ALL: (i64, i64) = (i64::MIN, i64::MAX);

/// The register that holds the value.
#[derive(Clone, Copy, PartialEq)]
pub(in crate::cuda) enum In {
    Signed,
    Unsigned,
    Single,
    Double,
}

/// A kernel that converts `count` elements.
pub(super) fn text(from: DType, to: DType) -> String {
    let (size, into) = (from.size(), to.size());
    let (read, value) = read(from);
    let write = write(value, to);
    let from_and_to = lines(&[
        &format!("mul.lo.u64 %x, %i, {size}"),
        "add.u64 %x, %x, %from",
        &format!("mul.lo.u64 %y, %i, {into}"),
        "add.u64 %y, %y, %to",
    ]);
    let params = ["from", "to", "count"].map(str::to_owned);
    elementwise::text(&params, &(from_and_to + &read + &write))
}

pub(in crate::cuda) fn lines(lines: &[&str]) -> String {
    lines.iter().map(|line| format!("    {line};\n")).collect()
}

/// Reads an element from `%x`.
pub(in crate::cuda) fn read(from: DType) -> (String, In) {
    match from {
        DType::I8 => (lines(&["ld.global.s8 %w, [%x]"]), In::Signed),
        DType::I16 => (lines(&["ld.global.s16 %w, [%x]"]), In::Signed),
        DType::I32 => (lines(&["ld.global.s32 %w, [%x]"]), In::Signed),
        DType::I64 => (lines(&["ld.global.s64 %w, [%x]"]), In::Signed),
        DType::U8 | DType::Bool | DType::ComplexF32 | DType::ComplexF64 | DType::Plain(_) => {
            (lines(&["ld.global.u8 %w, [%x]"]), In::Unsigned)
        }
        DType::U16 => (lines(&["ld.global.u16 %w, [%x]"]), In::Unsigned),
        DType::U32 => (lines(&["ld.global.u32 %w, [%x]"]), In::Unsigned),
        DType::U64 => (lines(&["ld.global.u64 %w, [%x]"]), In::Unsigned),
        DType::F16 => (lines(&["ld.global.b16 %h, [%x]", "cvt.f32.f16 %f, %h"]), In::Single),
        DType::F32 => (lines(&["ld.global.b32 %f, [%x]"]), In::Single),
        DType::F64 => (lines(&["ld.global.b64 %d, [%x]"]), In::Double),
        DType::Bf16 => (lines(&["ld.global.u16 %u, [%x]", "shl.b32 %f, %u, 16"]), In::Single),
        // The upper half of an f16.
        DType::F8E5M2 => {
            let upper = ["ld.global.u8 %u, [%x]", "shl.b32 %u, %u, 8", "cvt.u16.u32 %h, %u"];
            (lines(&upper) + &lines(&["cvt.f32.f16 %f, %h"]), In::Single)
        }
        // As an f32 with another bias, which the multiplication corrects: exact, also for
        // subnormals.
        DType::F8E4M3 => {
            let f32 = [
                "ld.global.u8 %u, [%x]",
                "and.b32 %a, %u, 127",
                "and.b32 %s, %u, 128",
                "shl.b32 %s, %s, 24",
                "shl.b32 %f, %a, 20",
                "mul.rn.f32 %f, %f, 0f7B800000",
                "setp.eq.u32 %p, %a, 127",
                "@%p mov.u32 %f, 2143289344",
                "or.b32 %f, %f, %s",
            ];
            (lines(&f32), In::Single)
        }
    }
}

/// Writes the value to `%y`.
pub(in crate::cuda) fn write(value: In, to: DType) -> String {
    match to {
        DType::I8 => integer(value, "u8", Some((i8::MIN.into(), i8::MAX.into()))),
        // These are not converted. Complex numbers are combined part by part.
        DType::Bool | DType::ComplexF32 | DType::ComplexF64 | DType::Plain(_) => lines(&["trap"]),
        DType::U8 => integer(value, "u8", Some((0, u8::MAX.into()))),
        DType::I16 => integer(value, "u16", Some((i16::MIN.into(), i16::MAX.into()))),
        DType::U16 => integer(value, "u16", Some((0, u16::MAX.into()))),
        DType::I32 => integer(value, "u32", Some((i32::MIN.into(), i32::MAX.into()))),
        DType::U32 => integer(value, "u32", Some((0, u32::MAX.into()))),
        DType::I64 => integer(value, "u64", Some(ALL)),
        DType::U64 => integer(value, "u64", None),
        DType::F64 => {
            let convert = match value {
                In::Signed => "cvt.rn.f64.s64 %d, %w",
                In::Unsigned => "cvt.rn.f64.u64 %d, %w",
                In::Single => "cvt.f64.f32 %d, %f",
                In::Double => return lines(&["st.global.b64 [%y], %d"]),
            };
            lines(&[convert, "st.global.b64 [%y], %d"])
        }
        DType::F32 => {
            let convert = match value {
                In::Signed => "cvt.rn.f32.s64 %f, %w",
                In::Unsigned => "cvt.rn.f32.u64 %f, %w",
                In::Double => "cvt.rn.f32.f64 %f, %d",
                In::Single => return lines(&["st.global.b32 [%y], %f"]),
            };
            lines(&[convert, "st.global.b32 [%y], %f"])
        }
        DType::F16 => odd(value) + &lines(&["cvt.rn.f16.f32 %h, %f", "st.global.b16 [%y], %h"]),
        DType::Bf16 => {
            let upper = [
                "setp.nan.f32 %p, %f, %f",
                "shr.u32 %a, %f, 16",
                "and.b32 %a, %a, 1",
                "add.u32 %a, %a, 32767",
                "add.u32 %a, %a, %f",
                "shr.u32 %a, %a, 16",
                "@%p mov.u32 %a, 32704",
                "st.global.u16 [%y], %a",
            ];
            odd(value) + &lines(&upper)
        }
        DType::F8E4M3 => odd(value) + &eight_bits(3, 7, [126, 127]),
        DType::F8E5M2 => odd(value) + &eight_bits(2, 15, [123, 126]),
    }
}

/// Converts to an integer: the low bits of an integer, or the integer in this range that is nearest
/// to a float. CUDA's own conversion saturates at 64 bits only, and does not define NaN.
fn integer(value: In, width: &str, range: Option<(i64, i64)>) -> String {
    let store = format!("    st.global.{width} [%y], %w;\n");
    let (bits, register) = match value {
        In::Signed | In::Unsigned => return store,
        In::Single => (32, "%f"),
        In::Double => (64, "%d"),
    };
    let convert = match range {
        None => format!("    cvt.rzi.u64.f{bits} %w, {register};\n"),
        Some(ALL) => format!("    cvt.rzi.s64.f{bits} %w, {register};\n"),
        Some((least, most)) => format!(
            "    cvt.rzi.s64.f{bits} %w, {register};
    max.s64 %w, %w, {least};
    min.s64 %w, %w, {most};
"
        ),
    };
    let is_nan = format!("    setp.nan.f{bits} %p, {register}, {register};\n");
    is_nan + &convert + &lines(&["@%p mov.u64 %w, 0"]) + &store
}

/// The value as an f32, whose last bit is set if it is inexact.
fn odd(value: In) -> String {
    let (cut, back, differs) = match value {
        In::Single => return String::new(),
        In::Signed => ("cvt.rz.f32.s64 %f, %w", "cvt.rzi.s64.f32 %v, %f", "setp.ne.s64 %p, %v, %w"),
        In::Unsigned => {
            ("cvt.rz.f32.u64 %f, %w", "cvt.rzi.u64.f32 %v, %f", "setp.ne.u64 %p, %v, %w")
        }
        In::Double => ("cvt.rz.f32.f64 %f, %d", "cvt.f64.f32 %e, %f", "setp.ne.f64 %p, %e, %d"),
    };
    lines(&[cut, back, differs, "@%p or.b32 %f, %f, 1"])
}

/// An 8-bit float with this mantissa and bias, from an f32; `top` and `nan` are the codes of the
/// largest value and of NaN.
fn eight_bits(mantissa: u32, bias: u32, [top, nan]: [u32; 2]) -> String {
    let shift = 23 - mantissa;
    let (half, rebias) = ((1 << (shift - 1)) - 1, (127 - bias) << mantissa);
    // So large that its last place is that of the subnormals.
    let large = (151 - bias - mantissa) << 23;
    let least = (128 - bias) << 23;
    format!(
        "    setp.nan.f32 %p, %f, %f;
    and.b32 %a, %f, 2147483647;
    shr.u32 %s, %f, 24;
    and.b32 %s, %s, 128;
    shr.u32 %b, %a, {shift};
    and.b32 %b, %b, 1;
    add.u32 %b, %b, {half};
    add.u32 %b, %b, %a;
    shr.u32 %b, %b, {shift};
    sub.u32 %b, %b, {rebias};
    add.rn.f32 %c, %a, 0f{large:08X};
    sub.u32 %c, %c, {large};
    setp.lt.u32 %q, %a, {least};
    selp.b32 %b, %c, %b, %q;
    min.u32 %b, %b, {top};
    or.b32 %b, %b, %s;
    @%p mov.u32 %b, {nan};
    st.global.u8 [%y], %b;
"
    )
}
