//! The PTX of the kernels. An element is read and written as conversions do, and accumulates in
//! that register: integers in 64 bits, of which the low ones are stored, floats of up to 32 bits in
//! an `f32`. That is also how the host backend computes.

use crate::cuda::convert::ptx::{In, lines, read, write};
use crate::cuda::elementwise;
use crate::{DType, ReductionName};

/// A kernel that reduces `count` elements of this many regions.
pub(super) fn text(by: ReductionName, dtype: DType, regions: usize) -> String {
    let size = dtype.size();
    let numbers = || 0..regions;
    let (load, value) = read(dtype);
    let (register, acc) = registers_of(value);
    let parts: String = numbers()
        .map(|nth| {
            let combine = match nth {
                0 => format!("mov.b{} {acc}, {register}", bits(value)),
                _ => operation(by, value),
            };
            lines(&[&format!("add.u64 %x, %y, %from{nth}")]) + &load + &lines(&[&combine])
        })
        .collect();
    let end = match (by, value) {
        (ReductionName::Mean, In::Single) => {
            format!("div.rn.f32 {register}, {acc}, 0f{:08X}", (regions as f32).to_bits())
        }
        (ReductionName::Mean, In::Double) => {
            format!("div.rn.f64 {register}, {acc}, 0d{:016X}", (regions as f64).to_bits())
        }
        _ => format!("mov.b{} {register}, {acc}", bits(value)),
    };
    let (end, write) = (lines(&[&end]), write(value, dtype));
    let first = lines(&[&format!("mul.lo.u64 %y, %i, {size}")]);
    let last = lines(&["add.u64 %y, %y, %to"]);
    let sources = numbers().map(|nth| format!("from{nth}"));
    let params: Vec<_> = ["to", "count"].map(str::to_owned).into_iter().chain(sources).collect();
    elementwise::text(&params, &[first, parts, end, last, write].concat())
}

/// The register of an element, and that of its reduction.
fn registers_of(value: In) -> (&'static str, &'static str) {
    match value {
        In::Signed | In::Unsigned => ("%w", "%total"),
        In::Single => ("%f", "%sum"),
        In::Double => ("%d", "%total"),
    }
}

fn bits(value: In) -> u32 {
    if value == In::Single { 32 } else { 64 }
}

/// Adds an element to the reduction. Sums and products of floats are rounded one by one, since
/// `.rn` keeps the driver from fusing them.
fn operation(by: ReductionName, value: In) -> String {
    let (register, acc) = registers_of(value);
    let instruction = match (by, value) {
        (ReductionName::Multiply, In::Signed | In::Unsigned) => "mul.lo.s64",
        (ReductionName::Multiply, In::Single) => "mul.rn.f32",
        (ReductionName::Multiply, In::Double) => "mul.rn.f64",
        (ReductionName::Least, In::Signed) => "min.s64",
        (ReductionName::Least, In::Unsigned) => "min.u64",
        (ReductionName::Least, In::Single) => "min.f32",
        (ReductionName::Least, In::Double) => "min.f64",
        (ReductionName::Greatest, In::Signed) => "max.s64",
        (ReductionName::Greatest, In::Unsigned) => "max.u64",
        (ReductionName::Greatest, In::Single) => "max.f32",
        (ReductionName::Greatest, In::Double) => "max.f64",
        (_, In::Signed | In::Unsigned) => "add.s64",
        (_, In::Single) => "add.rn.f32",
        (_, In::Double) => "add.rn.f64",
    };
    format!("{instruction} {acc}, {acc}, {register}")
}
